//! The header of a page file: routes, parameters and steps, read from TOML but not yet compiled.

use super::config::is_token;
use super::diagnostic::{Place, Report};
use super::keys::{Keys, Text, TomlText, text_of};
use super::program::{self, ParamType, Route, Segment, SessionUse, Type};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line that begins and ends a header.
const FENCE: &str = "+++";

/// A page's header.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    /// Where it begins.
    pub(crate) place: Place<'a>,
    pub(crate) routes: Vec<(Route, Place<'a>)>,
    pub(crate) session: SessionUse,
    pub(crate) content_type: String,
    pub(crate) params: Vec<ParamDecl<'a>>,
    pub(crate) steps: Vec<Step<'a>>,
}

/// A declared parameter.
#[derive(Debug)]
pub(crate) struct ParamDecl<'a> {
    /// The name in the page.
    pub(crate) name: Text<'a>,
    pub(crate) places: Vec<program::Place>,
    pub(crate) kind: ParamKind,
}

#[derive(Debug)]
pub(crate) enum ParamKind {
    Scalar {
        wire_name: String,
        kind: ParamType,
        default: Option<String>,
    },
    List {
        /// Name in the page (empty for plain values), wire name and type of each column.
        columns: Vec<(String, String, ParamType)>,
        min_items: u32,
        max_items: u32,
    },
}

/// An answer by another page: a check's, or the one for a missing session.
#[derive(Debug)]
pub(crate) struct AnswerDecl<'a> {
    pub(crate) page: Text<'a>,
    pub(crate) status: u16,
    /// Variables of that page, by name.
    pub(crate) with: Vec<(Text<'a>, Text<'a>)>,
}

/// One step, with its place.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) kind: StepKind<'a>,
}

#[derive(Debug)]
pub(crate) enum StepKind<'a> {
    Call(CallDecl<'a>),
    Check {
        condition: Text<'a>,
        answer: AnswerDecl<'a>,
    },
    SessionCreate {
        user: Text<'a>,
    },
    SessionDestroy,
    Redirect {
        to: Text<'a>,
        status: u16,
    },
    /// Headers or a status or both.
    Head {
        headers: Vec<(Text<'a>, Text<'a>)>,
        status: Option<u16>,
    },
    File {
        path: Text<'a>,
    },
}

#[derive(Debug)]
pub(crate) struct CallDecl<'a> {
    pub(crate) backend: Text<'a>,
    pub(crate) request: Text<'a>,
    /// The name given to each item, and the list's.
    pub(crate) each: Option<(Text<'a>, String, String)>,
    pub(crate) result_name: Text<'a>,
    pub(crate) columns: Vec<(String, Type)>,
    /// `row` rather than `rows`.
    pub(crate) one_row: bool,
    pub(crate) retry: Option<bool>,
}

/// Splits a page file into its header and the offset where its template begins.
pub(crate) fn split<'a>(
    file: &'a str,
    text: &'a str,
    report: &mut Report,
) -> Option<(TomlText<'a>, usize)> {
    let place = Place {
        file,
        text,
        offset: 0,
    };
    let hint = "a page begins with a header between two lines of +++; templates without one belong into templates/";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or("");
    if first.trim_end() != FENCE {
        report.error(place, "the page has no header", hint);
        return None;
    }
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == FENCE {
            let toml = TomlText {
                file,
                text,
                start: first.len(),
                end,
            };
            return Some((toml, end + line.len()));
        }
        end += line.len();
    }
    report.error(
        place,
        "the header does not end",
        "add a line of +++ after it",
    );
    None
}

/// Reads a header. `None` where its TOML cannot be parsed.
pub(crate) fn read<'a>(toml: TomlText<'a>, report: &mut Report) -> Option<Header<'a>> {
    let table = toml.parse(report)?;
    let known = ["route", "session", "content_type", "params", "step"];
    let keys = Keys::new(toml, &table, 0, &known, report);
    let mut header = Header {
        place: keys.place,
        routes: Vec::new(),
        session: SessionUse::None,
        content_type: "text/html; charset=utf-8".to_owned(),
        params: Vec::new(),
        steps: Vec::new(),
    };
    for text in keys.texts("route", report) {
        if let Some(route) = read_route(&text, report) {
            header.routes.push((route, text.place));
        }
    }
    let uses = [
        ("required", SessionUse::Required),
        ("optional", SessionUse::Optional),
    ];
    header.session = keys.choice("session", &uses, report).unwrap_or_default();
    if let Some(content_type) = keys.text("content_type", report) {
        if content_type
            .value
            .bytes()
            .any(|b| !(b' '..=b'~').contains(&b))
        {
            report.error(
                content_type.place,
                "this is no content type",
                "such as \"text/plain\"",
            );
        }
        header.content_type = content_type.value;
    }
    if let Some((params, _)) = keys.table("params", report) {
        for (name, value) in Keys::entries(&toml, params) {
            header.params.extend(read_param(&toml, name, value, report));
        }
    }
    check_path_params(&header, report);
    match keys.get("step").map(Spanned::get_ref) {
        None => {}
        Some(DeValue::Array(steps)) => {
            for step in steps.iter() {
                let DeValue::Table(table) = step.get_ref() else {
                    let place = toml.place(step.span().start);
                    report.error(place, "a step is a table", "[[step]]");
                    continue;
                };
                header
                    .steps
                    .extend(read_step(toml, table, step.span().start, report));
            }
        }
        Some(_) => {
            report.error(
                keys.place_of("step"),
                "steps are a list of tables",
                "[[step]]",
            );
        }
    }
    Some(header)
}

fn read_route(text: &Text<'_>, report: &mut Report) -> Option<Route> {
    let hint = "a method and a path, such as \"GET /users/{id}\"";
    let Some((method, path)) = text.value.split_once(' ') else {
        report.error(text.place, "this is no route", hint);
        return None;
    };
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    if !methods.contains(&method) {
        let message = format!("`{method}` is no method of a page");
        report.error(
            text.place,
            message,
            format!("one of {}", methods.join(", ")),
        );
        return None;
    }
    let Some(path) = path.strip_prefix('/') else {
        report.error(text.at(method.len() + 1), "a path begins with `/`", hint);
        return None;
    };
    let mut segments = Vec::new();
    for segment in path.split('/') {
        let name = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
        let unfit = |b: u8| b <= b' ' || b"{}?#%".contains(&b);
        segments.push(match name {
            Some(name) if is_name(name) => Segment::Param(name.to_owned()),
            None if !segment.bytes().any(unfit) => Segment::Literal(segment.to_owned()),
            _ => {
                report.error(
                    text.place,
                    format!("`{segment}` is no segment of a path"),
                    hint,
                );
                return None;
            }
        });
    }
    Some(Route {
        method: method.to_owned(),
        segments,
    })
}

/// Each path parameter stands in each route, and each `{name}` is a path parameter.
fn check_path_params(header: &Header<'_>, report: &mut Report) {
    let from_path: Vec<(&str, Place<'_>)> = (header.params.iter())
        .filter(|param| param.places.contains(&program::Place::Path))
        .filter_map(|param| match &param.kind {
            ParamKind::Scalar { wire_name, .. } => Some((wire_name.as_str(), param.name.place)),
            ParamKind::List { .. } => None,
        })
        .collect();
    for (route, place) in &header.routes {
        let mut seen: Vec<&str> = Vec::new();
        for segment in &route.segments {
            let Segment::Param(name) = segment else {
                continue;
            };
            if seen.contains(&name.as_str()) {
                report.error(*place, format!("`{{{name}}}` stands twice in the path"), "");
            } else if !from_path.iter().any(|(wire_name, _)| wire_name == name) {
                let hint = format!("{name} = {{ in = \"path\", type = \"text\" }}");
                report.error(
                    *place,
                    format!("`{name}` is not declared as a path parameter"),
                    hint,
                );
            }
            seen.push(name);
        }
        for (name, place) in &from_path {
            if !seen.contains(name) {
                let message = format!("the route has no segment {{{name}}}");
                report.error(
                    *place,
                    message,
                    "a path parameter stands in every route of its page",
                );
            }
        }
    }
}

/// Whether a text may be a name in a template.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reports a name that cannot be used in templates.
fn check_name(name: &Text<'_>, report: &mut Report) {
    let reserved = [
        "session", "loop", "self", "super", "range", "true", "false", "none", "True", "False",
        "None", "not", "and", "or", "in", "is", "if", "else",
    ];
    if !is_name(&name.value) {
        let hint = "letters, digits and `_`; `name = \"...\"` gives another name on the wire";
        report.error(
            name.place,
            format!("`{}` is no name for templates", name.value),
            hint,
        );
    } else if reserved.contains(&name.value.as_str()) {
        let hint = "choose another; `name = \"...\"` gives another name on the wire";
        report.error(
            name.place,
            format!("the name `{}` is taken by the page language", name.value),
            hint,
        );
    }
}

fn read_param<'a>(
    toml: &TomlText<'a>,
    name: Text<'a>,
    value: &Spanned<DeValue<'a>>,
    report: &mut Report,
) -> Option<ParamDecl<'a>> {
    check_name(&name, report);
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
    let mut places = Vec::new();
    if !keys.has("in") {
        let hint = "in = \"query\", \"form\", \"path\", \"cookie\" or \"header\"";
        report.error(
            name.place,
            format!("`in` of `{}` is missing", name.value),
            hint,
        );
    }
    for text in keys.texts("in", report) {
        places.push(match text.value.as_str() {
            "query" => program::Place::Query,
            "form" => program::Place::Form,
            "path" => program::Place::Path,
            "cookie" => program::Place::Cookie,
            "header" => program::Place::Header,
            other => {
                let hint = "query, form, path, cookie or header";
                report.error(
                    text.place,
                    format!("a parameter cannot be in `{other}`"),
                    hint,
                );
                continue;
            }
        });
    }
    let wire_name = keys.text("name", report);
    let wire_name = wire_name.map_or_else(|| name.value.clone(), |wire_name| wire_name.value);
    let kind = if keys.has("list") {
        read_list(&keys, &name, wire_name, &places, report)?
    } else {
        for key in ["min_items", "fields"] {
            if keys.has(key) {
                let hint = "list = 16 makes a list of at most 16 items";
                report.error(keys.place_of(key), format!("`{key}` is for lists"), hint);
            }
        }
        let kind = read_type(&keys, &name, report)?;
        let default = read_default(&keys, &kind, report);
        if places.contains(&program::Place::Path) && default.is_some() {
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
    Some(ParamDecl { name, places, kind })
}

fn read_list(
    keys: &Keys<'_, '_>,
    name: &Text<'_>,
    wire_name: String,
    places: &[program::Place],
    report: &mut Report,
) -> Option<ParamKind> {
    let max_items = keys.int("list", 1..=4096, report)? as u32;
    let min_items = keys
        .int("min_items", 0..=max_items.into(), report)
        .unwrap_or(0) as u32;
    let unfit = |p: &program::Place| !matches!(p, program::Place::Query | program::Place::Form);
    if places.iter().any(unfit) {
        report.error(
            keys.place_of("in"),
            "a list comes from the query or a form",
            "",
        );
    }
    if keys.has("default") {
        let hint = "an absent list is empty; min_items = 1 asks for one";
        report.error(keys.place_of("default"), "a list has no default", hint);
    }
    let mut columns = Vec::new();
    if let Some((fields, _)) = keys.table("fields", report) {
        if keys.has("type") {
            report.error(
                keys.place_of("type"),
                "a list has `type` or `fields`, not both",
                "",
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
            report.error(keys.place_of("fields"), "a record needs fields", "");
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
    if !keys.has("type") {
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
            let message = format!("`{key}` is for parameters of type {}", types[of].0);
            report.error(keys.place_of(key), message, "");
        }
    }
    Some(match kind {
        0 => {
            let max_length = keys.int("max_length", 0..=1 << 20, report).unwrap_or(256) as u32;
            let min_length = keys
                .int("min_length", 0..=max_length.into(), report)
                .unwrap_or(0);
            ParamType::Text {
                min_length: min_length as u32,
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
            ParamType::Int {
                min,
                max: keys.int("max", min..=i64::MAX, report).unwrap_or(i64::MAX),
            }
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
    // An empty default stands for "none given" of any type that is a text to the page.
    let fits = match kind {
        ParamType::Int { min, max } => default
            .parse::<i64>()
            .is_ok_and(|number| (min..=max).contains(&&number)),
        ParamType::Text {
            max_length, one_of, ..
        } => {
            default.chars().count() <= *max_length as usize
                && (default.is_empty() || one_of.is_empty() || one_of.contains(&default))
        }
        ParamType::Decimal | ParamType::Date => true,
    };
    if !fits {
        report.error(
            keys.place_of("default"),
            "the default is not within the parameter's bounds",
            "",
        );
    }
    Some(default)
}

/// Reads who answers: the page under `page_key`, and `status` and `with`.
pub(crate) fn read_answer<'a>(
    keys: &Keys<'_, 'a>,
    page_key: &str,
    report: &mut Report,
) -> Option<AnswerDecl<'a>> {
    let hint = format!("{page_key} = \"message.html\" names a page file without a route");
    let page = keys.required(page_key, &hint, report)?;
    let status = keys.int("status", 200..=599, report).unwrap_or(200) as u16;
    let mut with = Vec::new();
    if let Some((table, _)) = keys.table("with", report) {
        for (name, value) in Keys::entries(&keys.toml, table) {
            check_name(&name, report);
            match text_of(&keys.toml, value) {
                Some(text) => with.push((name, text)),
                None => {
                    report.error(
                        name.place,
                        "values of `with` are strings",
                        "they are templates, too",
                    );
                }
            }
        }
    }
    Some(AnswerDecl { page, status, with })
}

fn read_step<'a>(
    toml: TomlText<'a>,
    table: &DeTable<'a>,
    offset: usize,
    report: &mut Report,
) -> Option<Step<'a>> {
    let has = |key: &str| table.contains_key(key);
    let known: &[&str] = if has("call") {
        &["call", "request", "rows", "row", "each", "retry"]
    } else if has("check") {
        &["check", "else", "with", "status"]
    } else if has("session") {
        &["session", "user"]
    } else if has("redirect") {
        &["redirect", "status"]
    } else if has("file") {
        &["file"]
    } else if has("headers") || has("status") {
        &["headers", "status"]
    } else {
        let place = toml.place(offset);
        let hint = "a step has one of: call, check, session, redirect, headers, status, file";
        report.error(place, "this step does nothing", hint);
        return None;
    };
    let keys = Keys::new(toml, table, offset, known, report);
    let kind = match known[0] {
        "call" => StepKind::Call(read_call(&keys, report)?),
        "check" => StepKind::Check {
            condition: keys.text("check", report)?,
            answer: read_answer(&keys, "else", report)?,
        },
        "session" => {
            if keys.choice("session", &[("create", true), ("destroy", false)], report)? {
                let hint = "user = \"userid\", an expression for the user's number";
                StepKind::SessionCreate {
                    user: keys.required("user", hint, report)?,
                }
            } else {
                if has("user") {
                    report.error(
                        keys.place_of("user"),
                        "`user` is for session = \"create\"",
                        "",
                    );
                }
                StepKind::SessionDestroy
            }
        }
        "redirect" => StepKind::Redirect {
            to: keys.text("redirect", report)?,
            status: keys.int("status", 300..=399, report).unwrap_or(303) as u16,
        },
        "file" => StepKind::File {
            path: keys.text("file", report)?,
        },
        _ => StepKind::Head {
            headers: read_headers(&keys, report),
            status: keys
                .int("status", 200..=599, report)
                .map(|status| status as u16),
        },
    };
    Some(Step {
        place: keys.place,
        kind,
    })
}

fn read_headers<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Vec<(Text<'a>, Text<'a>)> {
    /// What the server itself says in every answer.
    const SERVERS_OWN: [&str; 6] = [
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "date",
        "set-cookie",
    ];
    let mut headers = Vec::new();
    let Some((table, _)) = keys.table("headers", report) else {
        return headers;
    };
    for (name, value) in Keys::entries(&keys.toml, table) {
        let lower = name.value.to_ascii_lowercase();
        if name.value.is_empty() || !name.value.bytes().all(is_token) {
            report.error(
                name.place,
                "this is no header name",
                "RFC 9110, section 5.1",
            );
        } else if SERVERS_OWN.contains(&lower.as_str()) {
            let hint = "the key content_type of the page sets its type";
            report.error(
                name.place,
                format!("{} is set by the server", name.value),
                hint,
            );
        }
        match text_of(&keys.toml, value) {
            Some(text) => headers.push((name, text)),
            None => {
                report.error(name.place, "a header's value is a string", "");
            }
        }
    }
    headers
}

fn read_call<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Option<CallDecl<'a>> {
    let hint = "rows = \"name(column, column:int)\", or row = ... for exactly one row";
    let one_row = keys.has("row");
    if one_row && keys.has("rows") {
        report.error(
            keys.place_of("row"),
            "a call has `row` or `rows`, not both",
            hint,
        );
    }
    let result = keys.required(if one_row { "row" } else { "rows" }, hint, report);
    let request = keys.required("request", "request = \"...\", a template", report);
    let each = match keys.text("each", report) {
        None => None,
        Some(text) => {
            let parts: Vec<&str> = text.value.split_whitespace().collect();
            match parts[..] {
                [item, "in", list] if is_name(item) && is_name(list) => {
                    let (item, list) = (item.to_owned(), list.to_owned());
                    Some((text, item, list))
                }
                _ => {
                    report.error(
                        text.place,
                        "`each` must be of the form \"item in list\"",
                        "",
                    );
                    return None;
                }
            }
        }
    };
    let retry = keys.bool("retry", report);
    let backend = keys.text("call", report)?;
    let result = result?;
    let (name, columns) = read_columns(&result, hint, report)?;
    if one_row && each.is_some() {
        report.error(
            keys.place_of("row"),
            "a call for each item answers rows",
            "rows = ...",
        );
    }
    Some(CallDecl {
        backend,
        request: request?,
        each,
        result_name: Text {
            value: name,
            ..result
        },
        columns,
        one_row,
        retry,
    })
}

/// Reads `name(col, col:int)`.
fn read_columns(
    text: &Text<'_>,
    hint: &str,
    report: &mut Report,
) -> Option<(String, Vec<(String, Type)>)> {
    let parts = text
        .value
        .trim()
        .strip_suffix(')')
        .and_then(|rest| rest.split_once('('));
    let Some((name, list)) = parts else {
        report.error(
            text.place,
            "this does not name rows and their columns",
            hint,
        );
        return None;
    };
    let name = name.trim();
    check_name(
        &Text {
            value: name.to_owned(),
            ..text.clone()
        },
        report,
    );
    let mut columns: Vec<(String, Type)> = Vec::new();
    for column in list.split(',') {
        let (column, kind) = match column.trim().split_once(':') {
            None => (column.trim(), Type::Text),
            Some((column, kind)) => match kind.trim() {
                "int" => (column.trim(), Type::Int),
                "text" => (column.trim(), Type::Text),
                other => {
                    report.error(
                        text.place,
                        format!("a column is no `{other}`"),
                        "int or text",
                    );
                    (column.trim(), Type::Text)
                }
            },
        };
        if !is_name(column) {
            report.error(
                text.place,
                format!("`{column}` is no name of a column"),
                hint,
            );
            return None;
        }
        if columns.iter().any(|(known, _)| known == column) {
            report.error(text.place, format!("two columns are named `{column}`"), "");
        }
        columns.push((column.to_owned(), kind));
    }
    Some((name.to_owned(), columns))
}
