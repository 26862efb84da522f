//! The header of a page file: routes, parameters and steps, read from TOML but not yet compiled.

use super::declaration::{
    ERRORS, JsonMember, Lost, PAGE_KEYS, PageHeader, ParamDecl, ParamKind, STEP_KEYS, is_name,
};
use super::keys::{Keys, Text, TomlText, text_of};
use super::param::read_param;
use super::step::{note_lost, read_step};
use crate::diagnostic::{Place, Report, did_you_mean};
use crate::kind::Kinds;
use crate::program::{self, Route, Segment, SessionUse};
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line that begins and ends a header.
const FENCE: &str = "+++";

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
    let hint = "a page begins with a header between two lines of +++; \
                templates without one belong into templates/";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or("");
    if first.trim_end() != FENCE {
        let begun = text.trim_start();
        match begun.lines().next().map(str::trim_end) {
            Some(FENCE) => {
                let hint = "blank lines stand before it";
                report.error(place, "the first line of a page is +++", hint)
            }
            Some("---") => {
                let hint = "it is TOML between two lines of +++, such as route = \"GET /path\"";
                report.error(place, "a header does not begin with ---", hint)
            }
            _ => report.error(place, "the page has no header", hint),
        };
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

/// Refuses keys of steps that stand in no step, as one mistake, and gives them.
fn refuse_misplaced<'t>(
    toml: TomlText<'_>,
    table: &'t DeTable<'_>,
    kinds: Kinds<'_>,
    report: &mut Report,
) -> Vec<&'t str> {
    let is_of_step = |key: &str| {
        let asks = kinds
            .kinds
            .iter()
            .any(|kind| kind.asks.keys().contains(&key));
        (asks || STEP_KEYS.contains(&key)) && !PAGE_KEYS.contains(&key)
    };
    let mut found: Vec<(usize, &str)> = (table.iter())
        .map(|(key, _)| (key.span().start, key.get_ref().as_ref()))
        .filter(|(_, key)| is_of_step(key))
        .collect();
    found.sort_unstable();
    let keys: Vec<&str> = found.iter().map(|(_, key)| *key).collect();
    if let (Some(&(offset, first)), Some((last, others))) = (found.first(), keys.split_last()) {
        let message = match others {
            [] => format!("`{first}` is a key of a step"),
            _ => format!("`{}` and `{last}` are keys of a step", others.join("`, `")),
        };
        let hint = match table.get(first).map(Spanned::get_ref) {
            Some(DeValue::Table(_)) => {
                format!("a line [[step]], and below it {first} = {{ \"...\" = \"...\" }}")
            }
            _ => "a line [[step]] above begins one".to_owned(),
        };
        report.error(toml.place(offset), message, hint);
    }
    keys
}

/// Reads a header. `None` where its TOML cannot be parsed.
pub(crate) fn read<'a>(
    toml: TomlText<'a>,
    kinds: Kinds<'_>,
    report: &mut Report,
) -> Option<PageHeader<'a>> {
    let before = report.errors();
    let table = toml.parse(report)?;
    let misplaced = refuse_misplaced(toml, &table, kinds, report);
    let known: Vec<&str> = PAGE_KEYS.into_iter().chain(misplaced).collect();
    let keys = Keys::named(toml, &table, 0, &known, near_key_of_step, report);
    // An unknown key may have been meant to declare parameters or steps.
    let declares = |value: &DeValue<'_>| matches!(value, DeValue::Table(_) | DeValue::Array(_));
    let others = (table.iter()).any(|(key, value)| {
        let key: &str = key.get_ref();
        !PAGE_KEYS.contains(&key) && (declares(value.get_ref()) || key == "call")
    });
    let mut header = PageHeader {
        place: keys.place,
        routes: Vec::new(),
        is_routed: keys.has("route"),
        session: SessionUse::None,
        csrf: keys.bool("csrf", report),
        gzip: keys.bool("gzip", report) != Some(false),
        content_type: match keys.has("json") {
            true => "application/json".to_owned(),
            false => "text/html; charset=utf-8".to_owned(),
        },
        json: read_json(&keys, report),
        params: Vec::new(),
        errors_are_values: read_errors(&keys, report),
        steps: Vec::new(),
        lost: Lost {
            names: BTreeSet::new(),
            others,
        },
    };
    for text in keys.texts("route", report) {
        if let Some(route) = read_route(&text, report) {
            header.routes.push((route, text.place));
        }
    }
    header.session = read_session(&keys, report);
    if let Some(content_type) = read_content_type(&keys, report) {
        header.content_type = content_type;
    }
    read_params(&keys, &mut header, report);
    check_path_params(&header, report);
    check_errors(&keys, &header, report);
    check_forms(&header, report);
    check_csrf(&keys, &header, report);
    read_steps(&keys, kinds, &mut header, report);
    if !header.is_routed && report.errors() == before {
        refuse_without_route(&keys, report);
    }
    Some(header)
}

/// The key of a step that an unknown key of a page is like, for a hint, if it is like none of a
/// page's.
fn near_key_of_step(key: &str) -> Option<String> {
    let near = |known: &[&str]| {
        let hint = did_you_mean(key, known.iter().copied());
        hint.strip_suffix('?').map(str::to_owned)
    };
    match near(&PAGE_KEYS) {
        Some(_) => None,
        None => Some(format!(
            "{}, a key of a step ([[step]])?",
            near(&STEP_KEYS)?
        )),
    }
}

/// Reads `session`. Whatever a word that is none of its was to mean, the page looks at the session.
fn read_session(keys: &Keys<'_, '_>, report: &mut Report) -> SessionUse {
    let uses = [
        ("required", SessionUse::Required),
        ("optional", SessionUse::Optional),
    ];
    let word = keys.get("session").map(Spanned::get_ref);
    let of_step =
        (word.and_then(DeValue::as_str)).filter(|word| ["create", "destroy"].contains(word));
    let read = match of_step {
        Some(word) => {
            let message = format!("`session` cannot be `{word}` here");
            let hint = format!("a step does that: [[step]], and below it session = \"{word}\"");
            report.error(keys.place_of("session"), message, hint);
            None
        }
        None => keys.choice("session", &uses, report),
    };
    match read {
        None if keys.has("session") => SessionUse::Optional,
        read => read.unwrap_or_default(),
    }
}

/// Reads `errors`: whether parameters that are wrong are told to the page.
fn read_errors(keys: &Keys<'_, '_>, report: &mut Report) -> bool {
    let what = [("values", true), ("400", false)];
    keys.choice("errors", &what, report).unwrap_or_default()
}

/// Where the page is told of parameters that are wrong, there are some, and none has the name under
/// which it is.
fn check_errors(keys: &Keys<'_, '_>, header: &PageHeader<'_>, report: &mut Report) {
    if !header.errors_are_values {
        return;
    }
    for param in &header.params {
        let name = &param.name;
        if ERRORS.contains(&name.value.as_str()) {
            let message = format!(
                "with `errors = \"values\"` the name `{}` is taken",
                name.value
            );
            let hint = "choose another, and keep what it is on the wire by name = \"...\"";
            report.error(name.place, message, hint);
        }
    }
    let is_complete = header.lost.names.is_empty() && !header.lost.others;
    if is_complete && !header.params.iter().any(ParamDecl::is_typed) {
        let message = "the page has no parameter in its query, form or JSON";
        let hint = "of others, in its path, cookies and headers, wrong ones answer 400";
        report.error(keys.place_of("errors"), message, hint);
    }
}

/// Reads `content_type`, if it is there.
fn read_content_type(keys: &Keys<'_, '_>, report: &mut Report) -> Option<String> {
    let content_type = keys.text("content_type", report)?;
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
    if !content_type.value.bytes().all(is_printable) {
        let hint = "printable ASCII, such as \"text/plain; charset=utf-8\"";
        report.error(content_type.place, "this is no content type", hint);
    }
    Some(content_type.value)
}

/// Reads `json`.
fn read_json<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Vec<JsonMember<'a>> {
    let mut members = Vec::new();
    let Some((table, _)) = keys.table("json", "{ items = \"items\" }", report) else {
        return members;
    };
    for (name, value) in Keys::entries(&keys.toml, table) {
        match text_of(&keys.toml, value) {
            Some(value) => members.push(JsonMember { name, value }),
            None => {
                let hint = format!("{0} = \"...\": a number is {0} = \"7\"", name.value);
                report.error(
                    name.place,
                    "values of `json` are expressions, in strings",
                    hint,
                );
            }
        }
    }
    members
}

/// Reads `params`.
fn read_params<'a>(keys: &Keys<'_, 'a>, header: &mut PageHeader<'a>, report: &mut Report) {
    let form = "{ id = { in = \"query\", type = \"int\" } }";
    let Some((params, _)) = keys.table("params", form, report) else {
        header.lost.others |= keys.has("params");
        return;
    };
    for (name, value) in Keys::entries(&keys.toml, params) {
        let declared = name.value.clone();
        let is_table = matches!(value.get_ref(), DeValue::Table(_));
        if PAGE_KEYS.contains(&declared.as_str()) && !is_table {
            let message = format!("`{declared}` is a key of the page, not a parameter");
            report.error(name.place, message, "it stands above [params]");
            continue;
        }
        match read_param(&keys.toml, name, value, &mut header.lost, report) {
            Some(param) => header.params.push(param),
            None => {
                header.lost.names.insert(declared);
            }
        }
    }
}

/// Reads the steps.
fn read_steps<'a>(
    keys: &Keys<'_, 'a>,
    kinds: Kinds<'_>,
    header: &mut PageHeader<'a>,
    report: &mut Report,
) {
    let toml = keys.toml;
    let steps = match keys.get("step").map(Spanned::get_ref) {
        None => return,
        Some(DeValue::Array(steps)) => steps,
        Some(_) => {
            let message = "steps are a list of tables";
            let hint = "[[step]], in two brackets, begins each of them";
            report.error(keys.place_of("step"), message, hint);
            header.lost.others = true;
            return;
        }
    };
    for step in steps.iter() {
        let start = step.span().start;
        let DeValue::Table(table) = step.get_ref() else {
            report.error(toml.place(start), "a step is a table", "[[step]]");
            header.lost.others = true;
            continue;
        };
        match read_step(toml, table, start, kinds, report) {
            Some(step) => header.steps.push(step),
            None => note_lost(table, &mut header.lost),
        }
    }
}

/// Refuses what means nothing to a page that is shown in place of others.
fn refuse_without_route(keys: &Keys<'_, '_>, report: &mut Report) {
    for key in ["params", "step", "session", "csrf", "gzip", "errors"] {
        if !keys.has(key) {
            continue;
        }
        let message = format!("`{key}` means nothing to a page without a route");
        let hint = match key {
            "session" => {
                "leave it out: it knows the session of the page in whose place it is shown; or \
                 route = \"GET /path\""
            }
            "gzip" => {
                "leave it out: the page in whose place it is shown says whether it may be \
                 compressed"
            }
            _ => {
                "route = \"GET /path\"; without one it is shown in place of others, which give it \
                 variables by `with`"
            }
        };
        report.error(keys.key_place(key), message, hint);
    }
}

fn read_route(text: &Text<'_>, report: &mut Report) -> Option<Route> {
    let hint = "a method and a path, such as \"GET /users/{id}\"";
    let Some((method, path)) = text.value.split_once(' ') else {
        let hint = match text.value.starts_with('/') {
            true => format!("a method and a path: \"GET {}\"", text.value),
            false => hint.to_owned(),
        };
        report.error(text.place, "this is no route", hint);
        return None;
    };
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    if !methods.contains(&method) {
        let message = format!("`{method}` is no method of a page");
        let upper = method.to_ascii_uppercase();
        let hint = match methods.contains(&upper.as_str()) {
            true => format!("did you mean `{upper}`?"),
            false => format!("one of {}", methods.join(", ")),
        };
        report.error(text.place, message, hint);
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
            None if !segment.bytes().any(unfit) => {
                if let Some(name) = segment.strip_prefix([':', '*', '<']) {
                    let hint = match is_name(name) {
                        true => format!("{{{name}}} is a parameter"),
                        false => "{name} is a parameter, for one segment".to_owned(),
                    };
                    let message = format!("`{segment}` stands for itself here");
                    report.warning(text.place, message, hint);
                }
                Segment::Literal(segment.to_owned())
            }
            _ => {
                let hint = match segment.contains('?') {
                    true => "a route ends before its `?`: params.id = { in = \"query\", ... }",
                    false => hint,
                };
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

/// A page that answers GET alone is sent no forms.
fn check_forms(header: &PageHeader<'_>, report: &mut Report) {
    if !header.only_gets() || header.routes.is_empty() {
        return;
    }
    use program::Carrier::{Form, Json};
    for param in &header.params {
        let is_content = |carrier: &program::Carrier| matches!(carrier, Form | Json);
        if !param.carriers.is_empty() && param.carriers.iter().all(is_content) {
            let what = match param.carriers[..] {
                [Json] => "JSON",
                _ => "a form",
            };
            let message = format!(
                "`{}` is of {what}, and this page answers GET, with which none is sent",
                param.name.value
            );
            let hint = "in = \"query\" (a form with method=get sends that), or a route with POST";
            report.warning(param.name.place, message, hint);
        }
    }
}

/// A page that answers GET alone asks for no CSRF token.
fn check_csrf(keys: &Keys<'_, '_>, header: &PageHeader<'_>, report: &mut Report) {
    if keys.has("csrf") && header.only_gets() && !header.routes.is_empty() {
        let message = "this page answers GET, for which no CSRF token is asked";
        let hint = "leave `csrf` out: {{ csrf_input }} goes where the form is, and `csrf` where it \
                    leads";
        report.warning(keys.key_place("csrf"), message, hint);
    }
}

/// Each path parameter stands in each route, and each `{name}` is a path parameter.
fn check_path_params(header: &PageHeader<'_>, report: &mut Report) {
    let from_path: Vec<(&str, Place<'_>)> = (header.params.iter())
        .filter(|param| param.carriers.contains(&program::Carrier::Path))
        .filter_map(|param| match &param.kind {
            ParamKind::Scalar { wire_name, .. } => Some((wire_name.as_str(), param.name.place)),
            ParamKind::List { .. } => None,
        })
        .collect();
    // Which one a parameter with mistakes would have been is not known.
    let complete = header.lost.names.is_empty()
        && !header.lost.others
        && header.params.iter().all(|param| !param.carriers.is_empty());
    for (route, place) in &header.routes {
        let mut seen: Vec<&str> = Vec::new();
        for segment in &route.segments {
            let Segment::Param(name) = segment else {
                continue;
            };
            if seen.contains(&name.as_str()) {
                let message = format!("`{{{name}}}` stands twice in the path");
                report.error(*place, message, "give each segment a name of its own");
            } else if complete && !from_path.iter().any(|(wire_name, _)| wire_name == name) {
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
