//! Parameters as a page's header declares them.

use super::declaration::{Lost, ParamDecl, ParamKind, check_name};
use super::keys::{Keys, Text, TomlText};
use crate::diagnostic::{Report, did_you_mean};
use crate::program::{self, ParamType};
use toml::Spanned;
use toml::de::DeValue;

pub(crate) fn read_param<'a>(
    toml: &TomlText<'a>,
    name: Text<'a>,
    value: &Spanned<DeValue<'a>>,
    lost: &mut Lost,
    report: &mut Report,
) -> Option<ParamDecl<'a>> {
    if !check_name(&name, report) {
        // Whatever the page calls it.
        lost.others = true;
    }
    let DeValue::Table(table) = value.get_ref() else {
        let hint = format!("{} = {{ in = \"query\", type = \"text\" }}", name.value);
        report.error(name.place, "a parameter is a table", hint);
        return None;
    };
    let known = [
        "in",
        "type",
        "name",
        "default",
        "min",
        "max",
        "min_length",
        "max_length",
        "one_of",
        "list",
        "min_items",
        "fields",
    ];
    let keys = Keys::new(*toml, table, value.span().start, &known, report);
    let mut carriers = Vec::new();
    if keys.lacks("in") {
        let hint = "in = \"query\", \"form\", \"path\", \"cookie\" or \"header\"";
        report.error(
            name.place,
            format!("`in` of `{}` is missing", name.value),
            hint,
        );
    }
    for text in keys.texts("in", report) {
        carriers.push(match text.value.as_str() {
            "query" => program::Carrier::Query,
            "form" => program::Carrier::Form,
            "path" => program::Carrier::Path,
            "cookie" => program::Carrier::Cookie,
            "header" => program::Carrier::Header,
            other => {
                let known = ["query", "form", "path", "cookie", "header"];
                report.error(
                    text.place,
                    format!("a parameter cannot be in `{other}`"),
                    did_you_mean(other, known),
                );
                continue;
            }
        });
    }
    let wire_name = keys.text("name", report);
    let wire_name = wire_name.map_or_else(|| name.value.clone(), |wire_name| wire_name.value);
    let kind = if keys.has("list") {
        read_list(&keys, &name, wire_name, &carriers, report)?
    } else {
        for key in ["min_items", "fields"] {
            if keys.has(key) {
                let hint = "list = 16 makes a list of at most 16 items";
                report.error(keys.place_of(key), format!("`{key}` is for lists"), hint);
            }
        }
        let kind = read_type(&keys, &name, report)?;
        let default = read_default(&keys, &kind, report);
        if carriers.contains(&program::Carrier::Path) && default.is_some() {
            report.error(
                keys.place_of("default"),
                "a path parameter is never absent",
                "remove `default`",
            );
        }
        ParamKind::Scalar {
            wire_name,
            kind,
            default,
        }
    };
    Some(ParamDecl {
        name,
        carriers,
        kind,
    })
}

fn read_list(
    keys: &Keys<'_, '_>,
    name: &Text<'_>,
    wire_name: String,
    carriers: &[program::Carrier],
    report: &mut Report,
) -> Option<ParamKind> {
    let max_items = keys.int("list", 1..=4096, report)? as u32;
    let min_items = keys
        .int("min_items", 0..=max_items.into(), report)
        .unwrap_or(0) as u32;
    let unfit =
        |p: &program::Carrier| !matches!(p, program::Carrier::Query | program::Carrier::Form);
    if carriers.iter().any(unfit) {
        report.error(
            keys.place_of("in"),
            "a list comes from the query or a form",
            "in = \"query\" or in = \"form\"",
        );
    }
    if keys.has("default") {
        let hint = "an absent list is empty; min_items = 1 asks for one";
        report.error(keys.place_of("default"), "a list has no default", hint);
    }
    let mut columns = Vec::new();
    if let Some((fields, _)) = keys.table("fields", "{ amount = { type = \"int\" } }", report) {
        if keys.has("type") {
            report.error(
                keys.place_of("type"),
                "a list has `type` or `fields`, not both",
                "remove `type`: each of the fields has its own",
            );
        }
        for (field, value) in Keys::entries(&keys.toml, fields) {
            check_name(&field, report);
            let DeValue::Table(table) = value.get_ref() else {
                let hint = format!("{} = {{ type = \"text\" }}", field.value);
                report.error(field.place, "a field is a table", hint);
                continue;
            };
            let known = [
                "type",
                "name",
                "min",
                "max",
                "min_length",
                "max_length",
                "one_of",
            ];
            let keys = Keys::new(keys.toml, table, value.span().start, &known, report);
            let wire_name = keys.text("name", report);
            let wire_name = wire_name.map_or_else(|| field.value.clone(), |name| name.value);
            if let Some(kind) = read_type(&keys, &field, report) {
                columns.push((field.value, wire_name, kind));
            }
        }
        if columns.is_empty() {
            let hint = "fields = { amount = { type = \"int\" } }";
            report.error(keys.place_of("fields"), "a record needs fields", hint);
            return None;
        }
    } else {
        columns.push((String::new(), wire_name, read_type(keys, name, report)?));
    }
    Some(ParamKind::List {
        columns,
        min_items,
        max_items,
    })
}

fn read_type(keys: &Keys<'_, '_>, name: &Text<'_>, report: &mut Report) -> Option<ParamType> {
    let types = [("text", 0), ("int", 1), ("decimal", 2), ("date", 3)];
    if keys.lacks("type") {
        let hint = "type = \"text\", \"int\", \"decimal\" or \"date\"";
        report.error(
            name.place,
            format!("`type` of `{}` is missing", name.value),
            hint,
        );
    }
    let kind = keys.choice("type", &types, report)?;
    for (key, of) in [
        ("min", 1),
        ("max", 1),
        ("min_length", 0),
        ("max_length", 0),
        ("one_of", 0),
    ] {
        if keys.has(key) && of != kind {
            let (of, is) = (types[of].0, types[kind].0);
            let message = format!("`{key}` is for parameters of type {of}, and this is {is}");
            let hint = match (key, of) {
                ("min", _) if kind == 0 => "min_length = ... bounds a text".to_owned(),
                ("max", _) if kind == 0 => "max_length = ... bounds a text".to_owned(),
                ("min_length" | "max_length", _) if kind == 1 => {
                    format!("{} = ... bounds an integer", &key[..3])
                }
                _ => format!("remove `{key}`, or type = \"{of}\""),
            };
            report.error(keys.place_of(key), message, hint);
        }
    }
    Some(match kind {
        0 => {
            let max_length = keys.int("max_length", 0..=1 << 20, report).unwrap_or(256) as u32;
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
            ParamType::Text {
                min_length,
                max_length,
                one_of: keys
                    .texts("one_of", report)
                    .into_iter()
                    .map(|t| t.value)
                    .collect(),
            }
        }
        1 => {
            let min = keys
                .int("min", i64::MIN..=i64::MAX, report)
                .unwrap_or(i64::MIN);
            let max = keys.int("max", i64::MIN..=i64::MAX, report);
            let max = max.unwrap_or(i64::MAX);
            if max < min {
                let message = format!("no number is from {min} to {max}");
                report.error(keys.place_of("max"), message, "`max` is `min` or more");
                return Some(ParamType::Int {
                    min: i64::MIN,
                    max: i64::MAX,
                });
            }
            ParamType::Int { min, max }
        }
        2 => ParamType::Decimal,
        _ => ParamType::Date,
    })
}

/// The default as it would stand on the wire; one that its own type refuses is a mistake.
fn read_default(keys: &Keys<'_, '_>, kind: &ParamType, report: &mut Report) -> Option<String> {
    let value = keys.get("default")?;
    let default = match (value.get_ref(), kind) {
        (DeValue::String(text), _) => text.to_string(),
        (DeValue::Integer(number), ParamType::Int { .. }) => number.as_str().replace('_', ""),
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
        ParamType::Text { max_length, .. } => format!("it has at most {max_length} characters"),
        ParamType::Decimal => "a decimal, such as default = \"12.50\"".to_owned(),
        ParamType::Date => "a date, such as default = \"2026-01-31\"".to_owned(),
    };
    // An empty default stands for "none given" of any type that is a text to the page.
    let is_none = default.is_empty() && !matches!(kind, ParamType::Int { .. });
    if !is_none && kind.check(default.as_bytes()).is_err() {
        report.error(
            keys.place_of("default"),
            "the default is not within the parameter's bounds",
            bounds,
        );
    }
    Some(default)
}
