//! The type of a parameter, its bounds and its default, as a page's header declares them.

use super::keys::{Keys, Text};
use crate::diagnostic::{Report, did_you_mean};
use crate::program::{ParamType, Pattern};
use toml::de::DeValue;

/// The keys that say what a value must be.
pub(super) const TYPE_KEYS: [&str; 8] = [
    "type",
    "min",
    "max",
    "min_length",
    "max_length",
    "one_of",
    "pattern",
    "max_bytes",
];

/// The types, and which of the keys each has beside `type`.
pub(super) const TYPES: [(&str, &[&str]); 9] = [
    ("text", &["min_length", "max_length", "one_of", "pattern"]),
    ("int", &["min", "max"]),
    ("decimal", &[]),
    ("date", &[]),
    ("float", &["min", "max"]),
    ("bool", &[]),
    ("email", &["max_length"]),
    ("path", &["max_length"]),
    ("file", &["max_bytes"]),
];

/// Most characters of a text where nothing is said.
const LENGTH_USUAL: u32 = 256;
/// Most bytes of an address (RFC 5321, section 4.5.3.1.3).
const EMAIL_USUAL: u32 = 254;
/// Most characters of a path, which may have a query in it.
const PATH_USUAL: u32 = 1024;
/// Most bytes of a file.
const FILE_USUAL: i64 = 1 << 20;

/// Reads `type` and what bounds it.
pub(super) fn read_type(
    keys: &Keys<'_, '_>,
    name: &Text<'_>,
    report: &mut Report,
) -> Option<ParamType> {
    if keys.lacks("type") {
        let names: Vec<String> = TYPES
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let (last, others) = names.split_last()?;
        let hint = format!("type = {} or {last}", others.join(", "));
        let message = format!("`type` of `{}` is missing", name.value);
        report.error(name.place, message, hint);
    }
    let choices = TYPES.map(|(name, own)| (name, (name, own)));
    let (kind, own) = keys.choice("type", &choices, report)?;
    for key in TYPE_KEYS {
        if key != "type" && keys.has(key) && !own.contains(&key) {
            refuse_key(keys, key, kind, report);
        }
    }
    Some(match kind {
        "int" => read_int(keys, report),
        "decimal" => ParamType::Decimal,
        "date" => ParamType::Date,
        "float" => read_float(keys, report),
        "bool" => ParamType::Bool,
        "email" => ParamType::Email {
            max_length: max_length(keys, EMAIL_USUAL, report),
        },
        "path" => ParamType::Path {
            max_length: max_length(keys, PATH_USUAL, report),
        },
        "file" => ParamType::File {
            max_bytes: (keys.int("max_bytes", 1..=1 << 30, report)).unwrap_or(FILE_USUAL) as u32,
        },
        _ => read_text(keys, report),
    })
}

/// A key that means nothing to parameters of this type.
fn refuse_key(keys: &Keys<'_, '_>, key: &str, kind: &str, report: &mut Report) {
    let of = TYPES.iter().filter(|(_, own)| own.contains(&key));
    let of: Vec<&str> = of.map(|(name, _)| *name).collect();
    let types = match of.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => of.concat(),
    };
    let message = format!("`{key}` is for parameters of type {types}, and this is {kind}");
    let hint = match (key, kind) {
        ("min", "text") => "min_length = ... bounds a text".to_owned(),
        ("max", "text") => "max_length = ... bounds a text".to_owned(),
        ("min_length" | "max_length", "int" | "float") => {
            format!("{} = ... bounds a number", &key[..3])
        }
        _ => format!(
            "remove `{key}`, or type = \"{}\"",
            of.first().unwrap_or(&"text")
        ),
    };
    report.error(keys.place_of(key), message, hint);
}

fn max_length(keys: &Keys<'_, '_>, usual: u32, report: &mut Report) -> u32 {
    let given = keys.int("max_length", 0..=1 << 20, report);
    given.map_or(usual, |length| length as u32)
}

fn read_text(keys: &Keys<'_, '_>, report: &mut Report) -> ParamType {
    let max_length = max_length(keys, LENGTH_USUAL, report);
    let mut min_length = keys.int("min_length", 0..=1 << 20, report).unwrap_or(0) as u32;
    if min_length > max_length {
        let message = format!("no text has from {min_length} to {max_length} characters");
        let hint = match keys.has("max_length") {
            true => "`max_length` is `min_length` or more",
            false => "max_length = ... raises it: without one it is 256",
        };
        report.error(keys.place_of("min_length"), message, hint);
        min_length = 0;
    }
    let one_of = keys.texts("one_of", report);
    ParamType::Text {
        min_length,
        max_length,
        one_of: one_of.into_iter().map(|text| text.value).collect(),
        pattern: read_pattern(keys, report),
    }
}

fn read_pattern(keys: &Keys<'_, '_>, report: &mut Report) -> Option<Pattern> {
    let text = keys.text("pattern", report)?;
    match Pattern::new(&text.value) {
        Ok(pattern) => Some(pattern),
        Err(problem) => {
            let hint = "as in HTML, but without look-around and backreferences; \
                        pattern = '[a-z]+' in single quotes needs no second `\\`";
            report.error(text.place, format!("the pattern {problem}"), hint);
            None
        }
    }
}

fn read_int(keys: &Keys<'_, '_>, report: &mut Report) -> ParamType {
    let all = i64::MIN..=i64::MAX;
    let min = keys.int("min", all.clone(), report).unwrap_or(i64::MIN);
    let max = keys.int("max", all, report).unwrap_or(i64::MAX);
    if max < min {
        let message = format!("no number is from {min} to {max}");
        report.error(keys.place_of("max"), message, "`max` is `min` or more");
        return ParamType::Int {
            min: i64::MIN,
            max: i64::MAX,
        };
    }
    ParamType::Int { min, max }
}

fn read_float(keys: &Keys<'_, '_>, report: &mut Report) -> ParamType {
    let min = read_number(keys, "min", report).unwrap_or(f64::MIN);
    let max = read_number(keys, "max", report).unwrap_or(f64::MAX);
    if max < min {
        let message = format!("no number is from {min} to {max}");
        report.error(keys.place_of("max"), message, "`max` is `min` or more");
        return ParamType::Float {
            min: f64::MIN,
            max: f64::MAX,
        };
    }
    ParamType::Float { min, max }
}

/// A number, whole or not.
fn read_number(keys: &Keys<'_, '_>, key: &str, report: &mut Report) -> Option<f64> {
    let number: Option<f64> = match keys.get(key)?.get_ref() {
        DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(number) => number.as_str().replace('_', "").parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| number.is_finite());
    if number.is_none() {
        let message = format!("`{key}` must be a number");
        report.error(
            keys.place_of(key),
            message,
            format!("{key} = 0.5, without quotes"),
        );
    }
    number
}

/// The default as it would stand on the wire; one that its own type refuses is a mistake.
pub(super) fn read_default(
    keys: &Keys<'_, '_>,
    kind: &ParamType,
    report: &mut Report,
) -> Option<String> {
    if let ParamType::Bool = kind {
        if keys.has("default") {
            let hint = "remove `default`: absent is false, as a box that is not checked";
            let message = "a parameter of type bool has no default";
            report.error(keys.place_of("default"), message, hint);
        }
        return Some("false".to_owned());
    }
    let value = keys.get("default")?;
    let default = match (value.get_ref(), kind) {
        (DeValue::String(text), _) => text.to_string(),
        (DeValue::Integer(number), ParamType::Int { .. } | ParamType::Float { .. }) => {
            number.as_str().replace('_', "")
        }
        (DeValue::Float(number), ParamType::Float { .. }) => number.as_str().replace('_', ""),
        _ => {
            let hint = "default = \"...\", as it would stand in the request";
            report.error(keys.place_of("default"), "`default` must be a string", hint);
            return None;
        }
    };
    let bounds = match kind {
        ParamType::Int { min, max } => match (*min, *max) {
            (i64::MIN, i64::MAX) => "it is an integer: default = 0".to_owned(),
            (min, i64::MAX) => format!("it is {min} or more"),
            (i64::MIN, max) => format!("it is {max} or less"),
            (min, max) => format!("it is from {min} to {max}"),
        },
        ParamType::Text { one_of, .. } if !one_of.is_empty() => {
            did_you_mean(&default, one_of.iter().map(String::as_str))
        }
        ParamType::Text {
            pattern: Some(pattern),
            ..
        } => format!("all of it matches {}", pattern.source()),
        ParamType::Text { max_length, .. } => format!("it has at most {max_length} characters"),
        ParamType::Decimal => "a decimal, such as default = \"12.50\"".to_owned(),
        ParamType::Date => "a date, such as default = \"2026-01-31\"".to_owned(),
        ParamType::Float { .. } => "a number within them, such as default = 0.5".to_owned(),
        ParamType::Bool => "it has none".to_owned(),
        ParamType::File { .. } => "default = \"\" lets it be absent".to_owned(),
        ParamType::Email { .. } => "an address, such as default = \"me@here.example\"".to_owned(),
        ParamType::Path { .. } => "a path of this site, such as default = \"/\"".to_owned(),
    };
    // An empty default stands for "none given" of any type that is a text to the page.
    let is_number = matches!(kind, ParamType::Int { .. } | ParamType::Float { .. });
    let is_none = default.is_empty() && !is_number;
    if !is_none && kind.check(default.as_bytes()).is_err() {
        report.error(
            keys.place_of("default"),
            "the default is not within the parameter's bounds",
            bounds,
        );
    }
    Some(default)
}
