//! Parameters: what a request brings, where it is looked for, and what it must be.

use super::check::{float, is_date, is_decimal, is_email};
use super::pattern::Pattern;
use super::value::{FieldId, Type};
use rhythm_protocol::http::local_path::{is_local, push_local};

/// Where a parameter is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Carrier {
    Query,
    Form,
    Path,
    Cookie,
    Header,
    Json,
}

/// What a parameter's value must be.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamType {
    /// Any UTF-8 text of a length within bounds, counted in characters; one of the given ones if
    /// any are given, and of the pattern's form if there is one.
    Text {
        /// Fewest characters.
        min_length: u32,
        /// Most characters.
        max_length: u32,
        /// The values allowed; empty: all.
        one_of: Vec<String>,
        /// What all of it must match.
        pattern: Option<Pattern>,
    },
    /// A decimal integer within bounds, both inclusive.
    Int {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// At most twelve digits, optionally a point and one or two digits. A text to the page.
    Decimal,
    /// `YYYY-MM-DD`, a day that exists. A text to the page.
    Date,
    /// A number as HTML has it in `<input type="number">`, within bounds, both inclusive. Its field
    /// is a text, which programs convert: see `ParamType::field_type`.
    Float {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// A check box: what is absent is false. Its field is 1 or 0, which programs convert.
    Bool,
    /// An address as HTML has it in `<input type="email">`. A text to the page.
    Email {
        /// Most bytes.
        max_length: u32,
    },
    /// A file of a form that comes as `multipart/form-data`: see [`FileFields`].
    File {
        /// Most bytes.
        max_bytes: u32,
    },
    /// A path within the service, with its query and fragment ([`is_local`]). A text to the page,
    /// encoded as it is to be sent.
    Path {
        /// Most characters.
        max_length: u32,
    },
}

/// Most bytes of what [`ParamType::check`] and its callers say of a value.
pub const PROBLEM_BYTES_MAX: usize = 64;

impl ParamType {
    /// The type that a page has it as.
    pub(crate) fn page_type(&self) -> Type {
        match self {
            ParamType::Int { .. } => Type::Int,
            ParamType::Float { .. } => Type::Float,
            ParamType::Bool => Type::Bool,
            _ => Type::Text,
        }
    }

    /// The type that its field has.
    pub(crate) fn field_type(&self) -> Type {
        self.page_type().in_fields()
    }

    /// The value of an integer as it stands on the wire; of a truth value 1 or 0; of what else is
    /// right, 0.
    ///
    /// # Errors
    /// What is wrong with it, after the parameter's name.
    pub fn check(&self, value: &[u8]) -> Result<i64, &'static str> {
        match self {
            ParamType::Text {
                min_length,
                max_length,
                one_of,
                pattern,
            } => {
                let text = std::str::from_utf8(value).map_err(|_| "is not UTF-8")?;
                let length = text.chars().count();
                if length < *min_length as usize {
                    return Err("is too short");
                }
                if length > *max_length as usize {
                    return Err("is too long");
                }
                if !one_of.is_empty() && !one_of.iter().any(|allowed| allowed == text) {
                    return Err("is none of the values allowed");
                }
                if pattern.as_ref().is_some_and(|pattern| !pattern.fits(text)) {
                    return Err("does not have the form that is asked for");
                }
                Ok(0)
            }
            ParamType::Int { min, max } => {
                let digits = value.strip_prefix(b"-").unwrap_or(value);
                if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                    return Err("is not an integer");
                }
                let number: Option<i64> = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse().ok());
                (number.filter(|number| (*min..=*max).contains(number))).ok_or("is out of bounds")
            }
            ParamType::Decimal => is_decimal(value)
                .then_some(0)
                .ok_or("is not a decimal number"),
            ParamType::Date => is_date(value).then_some(0).ok_or("is not a date"),
            ParamType::Float { min, max } => {
                let number = float(value).ok_or("is not a number")?;
                let is_within = number.is_finite() && (*min..=*max).contains(&number);
                is_within.then_some(0).ok_or("is out of bounds")
            }
            ParamType::Bool => match value {
                b"on" | b"true" | b"1" | b"yes" => Ok(1),
                b"off" | b"false" | b"0" | b"no" | b"" => Ok(0),
                _ => Err("is neither on nor off"),
            },
            ParamType::Email { max_length } => match is_email(value) {
                true if value.len() > *max_length as usize => Err("is too long"),
                true => Ok(0),
                false => Err("is not an email address"),
            },
            // It comes in another way.
            ParamType::File { .. } => Err("is not a file"),
            ParamType::Path { max_length } => {
                let text = std::str::from_utf8(value).map_err(|_| "is not UTF-8")?;
                if text.chars().count() > *max_length as usize {
                    return Err("is too long");
                }
                is_local(text)
                    .then_some(0)
                    .ok_or("is not a path of this site")
            }
        }
    }

    /// The text of a value that is right, as its field has it, appended to `out`.
    pub fn push_text(&self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            ParamType::Path { .. } => push_local(value, out),
            _ => out.extend_from_slice(value),
        }
    }
}

/// The fields of a parameter that is a file. Those of what it holds are there where the page reads
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFields {
    /// Text: what it is called, without folders; empty where there is none.
    pub name: FieldId,
    /// Text: what kind of content it is, as the client says.
    pub content_type: FieldId,
    /// Int: how many bytes it has.
    pub size: FieldId,
    /// Text: what it holds, which must be UTF-8.
    pub text: Option<FieldId>,
    /// Text: what it holds, each byte as two hexadecimal digits.
    pub hex: Option<FieldId>,
    /// Text: what it holds, as base64.
    pub base64: Option<FieldId>,
}

/// A scalar parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name on the wire.
    pub wire_name: String,
    /// Where it may stand, tried in this order.
    pub carriers: Vec<Carrier>,
    /// What it must be.
    pub kind: ParamType,
    /// Its value where it is absent, as it would stand on the wire; `None`: it is required.
    pub default: Option<String>,
    /// The scalar field that takes it; of a file, its name.
    pub field: FieldId,
    /// Of a file, all its fields.
    pub file: Option<FileFields>,
    /// Where the page is told what is wrong with it; `None`: the request is refused.
    pub told: Option<ParamTold>,
}

/// The fields by which a page is told of a parameter that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamTold {
    /// Int: how many of the page's parameters are wrong.
    pub wrong: FieldId,
    /// Text: what is wrong with this one, as the end of a sentence; empty where nothing is.
    pub error: FieldId,
    /// Text: the value as it was typed, right or wrong; empty where it is absent, or no UTF-8. A
    /// list has none.
    pub typed: Option<FieldId>,
}

/// A list parameter: `payee[0]=..&payee[1]=..`, or records `payee[0]=..&amount[0]=..`; without
/// numbers in the order in which the items come.
#[derive(Clone, Debug, PartialEq)]
pub struct ListParam {
    /// Its name in JSON; elsewhere its columns' names count.
    pub wire_name: String,
    /// Whether its items are records, not values.
    pub has_records: bool,
    /// Where its items may stand: query, form or JSON.
    pub carriers: Vec<Carrier>,
    /// Wire name (without `[i]`) and type of each column, in the order of the field's columns.
    pub columns: Vec<(String, ParamType)>,
    /// Fewest items.
    pub min_items: u32,
    /// Most items.
    pub max_items: u32,
    /// The list field that takes it.
    pub field: FieldId,
    /// Where the page is told what is wrong with it; `None`: the request is refused.
    pub told: Option<ParamTold>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_types() {
        let int = ParamType::Int { min: -5, max: 99 };
        assert_eq!(int.check(b"-5"), Ok(-5));
        assert_eq!(int.check(b"007"), Ok(7));
        for bad in [
            "",
            "-",
            "+1",
            "1.0",
            " 1",
            "100",
            "-6",
            "99999999999999999999",
        ] {
            assert!(int.check(bad.as_bytes()).is_err(), "{bad}");
        }
        let text = ParamType::Text {
            min_length: 1,
            max_length: 2,
            one_of: Vec::new(),
            pattern: None,
        };
        assert_eq!(text.check("éé".as_bytes()), Ok(0));
        assert!(text.check(b"").is_err() && text.check(b"abc").is_err());
        assert!(text.check(b"\xff").is_err());
        let one = ParamType::Text {
            min_length: 0,
            max_length: 9,
            one_of: vec!["on".into()],
            pattern: None,
        };
        assert!(one.check(b"on").is_ok() && one.check(b"off").is_err());
        let form = ParamType::Text {
            min_length: 0,
            max_length: 9,
            one_of: Vec::new(),
            pattern: Some(Pattern::new("[a-z]+").unwrap()),
        };
        assert!(form.check(b"abc").is_ok() && form.check(b"abc1").is_err());
    }

    #[test]
    fn bounds_of_numbers_and_addresses() {
        let float = ParamType::Float { min: 0.5, max: 9.0 };
        assert_eq!(float.check(b"0.5"), Ok(0));
        for out in ["0.49", "9.01", "1e999", "-1"] {
            assert_eq!(
                float.check(out.as_bytes()),
                Err("is out of bounds"),
                "{out}"
            );
        }
        let short = ParamType::Email { max_length: 5 };
        assert_eq!(short.check(b"a@b.c"), Ok(0));
        assert_eq!(short.check(b"aa@b.c"), Err("is too long"));
    }
}
