//! Parameters: what a request brings, where it is looked for, and what it must be.

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
    /// is a text, which programs convert: see [`ParamType::field_type`].
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

    /// The type that its field has, of those that fields can have. Programs convert it to the
    /// page's where they read it.
    pub(crate) fn field_type(&self) -> Type {
        match self.page_type() {
            Type::Int | Type::Bool => Type::Int,
            Type::Text | Type::Float => Type::Text,
        }
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
    /// The scalar field that takes it.
    pub field: FieldId,
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

/// At most twelve digits, optionally a point and one or two digits.
fn is_decimal(value: &[u8]) -> bool {
    let point = value.iter().position(|byte| *byte == b'.');
    let (whole, part) = match point {
        Some(at) => (&value[..at], Some(&value[at + 1..])),
        None => (value, None),
    };
    (1..=12).contains(&whole.len())
        && whole.iter().all(u8::is_ascii_digit)
        && part
            .is_none_or(|part| (1..=2).contains(&part.len()) && part.iter().all(u8::is_ascii_digit))
}

/// A valid floating-point number of HTML (section 2.3.4.3), but that a `+` may stand before an
/// exponent alone.
fn float(value: &[u8]) -> Option<f64> {
    let digits = |bytes: &mut &[u8]| {
        let count = bytes
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        *bytes = &bytes[count..];
        count
    };
    let mut rest = value.strip_prefix(b"-").unwrap_or(value);
    let whole = digits(&mut rest);
    if let Some(after) = rest.strip_prefix(b".") {
        rest = after;
        if digits(&mut rest) == 0 {
            return None;
        }
    } else if whole == 0 {
        return None;
    }
    if let [b'e' | b'E', after @ ..] = rest {
        rest = after
            .strip_prefix(b"-")
            .or(after.strip_prefix(b"+"))
            .unwrap_or(after);
        if digits(&mut rest) == 0 {
            return None;
        }
    }
    let is_whole = rest.is_empty();
    is_whole.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// A valid e-mail address of HTML (section 4.10.5.1.5): what browsers accept.
fn is_email(value: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', value) else {
        return false;
    };
    let (user, domain) = (&value[..at], &value[at + 1..]);
    let of_user =
        |byte: &u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(byte);
    let is_label = |label: &[u8]| {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        (1..=63).contains(&label.len())
            && label.iter().all(is_inner)
            && !label.starts_with(b"-")
            && !label.ends_with(b"-")
    };
    !user.is_empty() && user.iter().all(of_user) && domain.split(|byte| *byte == b'.').all(is_label)
}

/// `YYYY-MM-DD`, a day of the Gregorian calendar.
fn is_date(value: &[u8]) -> bool {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *value else {
        return false;
    };
    let number = |digits: &[u8]| -> Option<u32> {
        digits.iter().try_fold(0, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + u32::from(digit - b'0'))
        })
    };
    let (Some(year), Some(month), Some(day)) = (
        number(&[y0, y1, y2, y3]),
        number(&[m0, m1]),
        number(&[d0, d1]),
    ) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
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
        for (text, good) in [
            ("0", true),
            ("123456789012.34", true),
            ("1.5", true),
            ("1234567890123", false),
            ("1.", false),
            (".5", false),
            ("1.234", false),
            ("-1", false),
            ("1.2.3", false),
        ] {
            assert_eq!(is_decimal(text.as_bytes()), good, "{text}");
        }
        for (text, good) in [
            ("2024-02-29", true),
            ("1900-02-29", false),
            ("2000-02-29", true),
            ("2023-13-01", false),
            ("2023-00-01", false),
            ("2023-04-31", false),
            ("2023-4-3", false),
            ("2023-04-00", false),
        ] {
            assert_eq!(is_date(text.as_bytes()), good, "{text}");
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
    fn numbers_as_browsers_send_them() {
        for (text, number) in [
            ("0", Some(0.0)),
            ("-1.5", Some(-1.5)),
            (".5", Some(0.5)),
            ("1e3", Some(1000.0)),
            ("1E-3", Some(0.001)),
            ("2e+1", Some(20.0)),
            ("007", Some(7.0)),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.", None),
            ("1e", None),
            ("1e+", None),
            (" 1", None),
            ("1,5", None),
            ("0x1", None),
            ("inf", None),
            ("NaN", None),
            ("1_0", None),
        ] {
            assert_eq!(float(text.as_bytes()), number, "{text}");
        }
        let float = ParamType::Float { min: 0.5, max: 9.0 };
        assert_eq!(float.check(b"0.5"), Ok(0));
        for out in ["0.49", "9.01", "1e999", "-1"] {
            assert_eq!(
                float.check(out.as_bytes()),
                Err("is out of bounds"),
                "{out}"
            );
        }
    }

    #[test]
    fn addresses_as_browsers_take_them() {
        let label = "a".repeat(63);
        for good in [
            "a@b",
            "A.b+c@d-e.example",
            "!#$%&'*+/=?^_`{|}~-@x",
            &format!("a@{label}.b"),
        ] {
            assert!(is_email(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a@-b",
            "a@b-",
            "a@b..c",
            "a@b.",
            "a b@c",
            "a@b c",
            "\u{e9}@b",
            "a@b_c",
            "a@b\n",
            "<a@b>",
            "a@[1.2.3.4]",
            &format!("a@{label}b"),
        ] {
            assert!(!is_email(bad.as_bytes()), "{bad}");
        }
        let short = ParamType::Email { max_length: 5 };
        assert_eq!(short.check(b"a@b.c"), Ok(0));
        assert_eq!(short.check(b"aa@b.c"), Err("is too long"));
    }
}
