//! Parameters: what a request brings, where it is looked for, and what it must be.

use super::value::{FieldId, Type};

/// Where a parameter is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Carrier {
    Query,
    Form,
    Path,
    Cookie,
    Header,
}

/// What a parameter's value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// Any UTF-8 text of a length within bounds, counted in characters; one of the given ones if
    /// any are given.
    Text {
        /// Fewest characters.
        min_length: u32,
        /// Most characters.
        max_length: u32,
        /// The values allowed; empty: all.
        one_of: Vec<String>,
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
}

/// Most bytes of what [`ParamType::check`] and its callers say of a value.
pub const PROBLEM_BYTES_MAX: usize = 64;

impl ParamType {
    /// The type its field has.
    pub(crate) fn field_type(&self) -> Type {
        match self {
            ParamType::Int { .. } => Type::Int,
            _ => Type::Text,
        }
    }

    /// The value of an integer as it stands on the wire; of what else is right, 0.
    ///
    /// # Errors
    /// What is wrong with it, after the parameter's name.
    pub fn check(&self, value: &[u8]) -> Result<i64, &'static str> {
        match self {
            ParamType::Text {
                min_length,
                max_length,
                one_of,
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
        }
    }
}

/// A scalar parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A list parameter: `payee[0]=..&payee[1]=..`, or records `payee[0]=..&amount[0]=..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListParam {
    /// Where its items may stand: query or form.
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
        };
        assert_eq!(text.check("éé".as_bytes()), Ok(0));
        assert!(text.check(b"").is_err() && text.check(b"abc").is_err());
        assert!(text.check(b"\xff").is_err());
        let one = ParamType::Text {
            min_length: 0,
            max_length: 9,
            one_of: vec!["on".into()],
        };
        assert!(one.check(b"on").is_ok() && one.check(b"off").is_err());
    }
}
