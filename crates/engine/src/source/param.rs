//! Parameters as a page's header declares them.

use super::declaration::{Lost, ParamDecl, ParamKind, check_name};
use super::keys::{Keys, Text, TomlText};
use super::param_type::{TYPE_KEYS, read_default, read_type};
use crate::diagnostic::{Report, did_you_mean};
use crate::program;
use toml::Spanned;
use toml::de::DeValue;

/// The keys of a parameter, but those that say what its values must be.
pub(super) const OWN_KEYS: [&str; 6] = ["in", "name", "default", "list", "min_items", "fields"];

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
    let known: Vec<&str> = OWN_KEYS.into_iter().chain(TYPE_KEYS).collect();
    let keys = Keys::new(*toml, table, value.span().start, &known, report);
    let mut carriers = Vec::new();
    if keys.lacks("in") {
        let hint = "in = \"query\", \"form\", \"json\", \"path\", \"cookie\" or \"header\"";
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
            "json" => program::Carrier::Json,
            other => {
                let known = ["query", "form", "json", "path", "cookie", "header"];
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
        let is_file = matches!(kind, program::ParamType::File { .. });
        if is_file && carriers.iter().any(|c| *c != program::Carrier::Form) {
            let hint = "in = \"form\", and enctype=\"multipart/form-data\" in the form";
            report.error(keys.place_of("in"), "a file comes in a form", hint);
        }
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
    use program::Carrier::{Form, Json, Query};
    let unfit = |carrier: &program::Carrier| !matches!(carrier, Query | Form | Json);
    if carriers.iter().any(unfit) {
        report.error(
            keys.place_of("in"),
            "a list comes from the query, a form or JSON",
            "in = \"query\", in = \"form\" or in = \"json\"",
        );
    }
    if keys.has("default") {
        let hint = "an absent list is empty; min_items = 1 asks for one";
        report.error(keys.place_of("default"), "a list has no default", hint);
    }
    let mut columns = Vec::new();
    let has_records = keys.has("fields");
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
            let known: Vec<&str> = ["name"].into_iter().chain(TYPE_KEYS).collect();
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
        columns.push((
            String::new(),
            wire_name.clone(),
            read_type(keys, name, report)?,
        ));
    }
    let is_file = |kind: &program::ParamType| matches!(kind, program::ParamType::File { .. });
    if columns.iter().any(|(_, _, kind)| is_file(kind)) {
        let hint =
            "a parameter for each: file1 = { in = \"form\", type = \"file\", default = \"\" }";
        report.error(keys.place_of("list"), "a list has no files", hint);
        return None;
    }
    Some(ParamKind::List {
        wire_name,
        has_records,
        columns,
        min_items,
        max_items,
    })
}
