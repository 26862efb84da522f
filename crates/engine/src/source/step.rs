//! Steps as a page's header has them, read but not yet compiled.

use super::call::{self, read_call};
use super::cookie::read_cookies;
use super::declaration::{
    AnswerDecl, Instead, Lost, PAGE_KEYS, RedirectDecl, STEP_KEYS, Step, StepKind, check_name,
    is_name,
};
use super::keys::{Keys, Text, TomlText, text_of};
use crate::diagnostic::{Place, Report, did_you_mean};
use crate::kind::{Asks, Kinds};
use rhythm_protocol::http::head::is_token;
use rhythm_protocol::http::response::SENDERS_HEADERS;
use toml::de::{DeTable, DeValue};

/// Reads what is answered instead: `redirect`, or the page under `page_key`, with its `with`; and
/// the `status`.
pub(crate) fn read_instead<'a>(
    keys: &Keys<'_, 'a>,
    page_key: &str,
    report: &mut Report,
) -> Option<Instead<'a>> {
    if !keys.has("redirect") {
        if keys.has("flash") {
            let hint = "`with` gives it variables";
            let message = "`flash` is for the page that a redirect leads to, not one shown here";
            report.error(keys.key_place("flash"), message, hint);
        }
        return read_answer(keys, page_key, report).map(Instead::Page);
    }
    for key in [page_key, "with"] {
        if keys.has(key) {
            let message = format!("this leads elsewhere, so no `{key}` is looked at");
            let hint = format!("`redirect`, or `{page_key}` and its `with`");
            report.error(keys.key_place(key), message, hint);
        }
    }
    read_redirect(keys, report).map(Instead::Redirect)
}

/// What `else` says where the request goes on to the server that a `[[proxy]]` names. No page is
/// called so: the names of files end in `.html`.
const PROXY: &str = "proxy";

/// Whether `else` says that the request goes on to another server, and where.
fn read_proxy<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Option<Place<'a>> {
    let is_proxy = |value: &DeValue<'_>| value.as_str() == Some(PROXY);
    if !is_proxy(keys.get("else")?.get_ref()) {
        return None;
    }
    for key in ["redirect", "with", "status", "flash"] {
        if keys.has(key) {
            let message = format!("the other server answers, so no `{key}` is looked at");
            report.error(keys.key_place(key), message, "leave it out");
        }
    }
    Some(keys.place_of("else"))
}

/// Reads `redirect` and `status`.
fn read_redirect<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Option<RedirectDecl<'a>> {
    let to = keys.text("redirect", report);
    let status = keys.status(300..=399, 303, report);
    let flash = keys.text("flash", report);
    Some(RedirectDecl {
        to: to?,
        status,
        flash,
    })
}

/// Reads who answers: the page under `page_key`, and `status` and `with`.
fn read_answer<'a>(
    keys: &Keys<'_, 'a>,
    page_key: &str,
    report: &mut Report,
) -> Option<AnswerDecl<'a>> {
    let hint = format!("{page_key} = \"message.html\" names a page file without a route");
    let page = keys.required(page_key, &hint, report)?;
    let status = keys.status(200..=599, 200, report);
    let mut with = Vec::new();
    let table = keys.table("with", "{ title = \"...\" }", report);
    let with_lost = table.is_none() && !keys.lacks("with");
    if let Some((table, _)) = table {
        for (name, value) in Keys::entries(&keys.toml, table) {
            check_name(&name, report);
            let text = text_of(&keys.toml, value);
            if text.is_none() {
                let hint = format!("{} = \"...\"; they are templates, too", name.value);
                report.error(name.place, "values of `with` are strings", hint);
            }
            with.push((name, text));
        }
    }
    Some(AnswerDecl {
        page,
        status,
        with,
        with_lost,
    })
}

pub(crate) fn read_step<'a>(
    toml: TomlText<'a>,
    table: &DeTable<'a>,
    offset: usize,
    kinds: Kinds<'_>,
    report: &mut Report,
) -> Option<Step<'a>> {
    let asks = call::asks(table, kinds);
    if refuse_several(toml, table, asks, report) {
        return None;
    }
    let has = |key: &str| table.contains_key(key);
    let call: Vec<&str> = call::KEYS.into_iter().chain(asks.keys()).collect();
    let known: &[&str] = if has("call") {
        &call
    } else if has("check") {
        &[
            "check", "else", "with", "status", "redirect", "flash", "when",
        ]
    } else if has("session") {
        &["session", "user", "set", "sign_in", "when"]
    } else if has("set") {
        &["set", "when"]
    } else if has("redirect") {
        &["redirect", "status", "flash", "when"]
    } else if has("file") {
        &["file", "when"]
    } else if has("cookies") {
        &["cookies", "when"]
    } else if has("headers") || has("status") && misspelled(table).is_none() {
        &["headers", "status", "when"]
    } else {
        refuse_headless(toml, table, offset, report);
        return None;
    };
    let told = |key: &str| {
        let is_of_page = PAGE_KEYS.contains(&key);
        is_of_page.then(|| "it is a key of the page: it stands above the first [[step]]".to_owned())
    };
    let keys = Keys::named(toml, table, offset, known, told, report);
    let kind = match known[0] {
        "call" => {
            let call = read_call(&keys, asks, report);
            // Of a call that is compiled, that tells of its backend.
            if call.is_none()
                && let Some(backend) = keys.text("call", report)
            {
                kinds.find(&backend.value, backend.place, report);
            }
            StepKind::Call(Box::new(call?))
        }
        "check" => {
            let condition = keys.text("check", report);
            let instead = match read_proxy(&keys, report) {
                Some(place) => Some(Instead::Proxy(place)),
                None => read_instead(&keys, "else", report),
            };
            StepKind::Check {
                condition,
                instead: instead?,
            }
        }
        "session" => {
            if keys.choice("session", &[("create", true), ("destroy", false)], report)? {
                let hint = "user = \"userid\", an expression for the user's number";
                StepKind::SessionCreate {
                    user: keys.required("user", hint, report)?,
                    set: read_set(&keys, report),
                    is_sign_in: keys.bool("sign_in", report) != Some(false),
                }
            } else {
                for key in ["user", "set", "sign_in"]
                    .into_iter()
                    .filter(|key| has(key))
                {
                    report.error(
                        keys.place_of(key),
                        format!("`{key}` is for session = \"create\""),
                        "remove it: the session that there is ends, whose it may be",
                    );
                }
                StepKind::SessionDestroy
            }
        }
        "set" => StepKind::Set {
            fields: read_set(&keys, report),
        },
        "cookies" => StepKind::Cookies(read_cookies(&keys, report)),
        "redirect" => StepKind::Redirect(read_redirect(&keys, report)?),
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
        when: keys.text("when", report),
        kind,
    })
}

/// The keys that say what a step does. `status` stands beside some of the others, too.
const HEADS: [&str; 9] = [
    "call", "check", "session", "set", "redirect", "headers", "cookies", "file", "status",
];

/// Refuses a step of which more than one key says what it does.
fn refuse_several(
    toml: TomlText<'_>,
    table: &DeTable<'_>,
    asks: Asks<'_>,
    report: &mut Report,
) -> bool {
    let has_call = table.contains_key("call");
    let sets_fields = table.get("set").is_some_and(|set| set.get_ref().is_table());
    let mut heads: Vec<(usize, &str)> = (table.iter())
        .map(|(key, _)| (key.span().start, key.get_ref().as_ref()))
        .filter(|(_, key)| HEADS.contains(key) && *key != "status")
        // Beside a call it may be what the call does: it is a key of memcached's.
        .filter(|(_, key)| *key != "set" || !has_call || sets_fields)
        // Likewise what is sent with a request.
        .filter(|(_, key)| *key != "headers" || !has_call || asks != Asks::Http)
        .collect();
    heads.sort_unstable();
    let [(_, first), (second_at, second), ..] = heads[..] else {
        return false;
    };
    // A check may lead elsewhere.
    let are = |one: &str, other: &str| table.contains_key(one) && table.contains_key(other);
    // And a session that begins has fields.
    if heads.len() == 2 && (are("check", "redirect") || are("session", "set")) {
        return false;
    }
    let message = format!("a step is one thing, and this is `{first}` and `{second}`");
    let hint = format!("`{second}` is a step of its own, with its keys: begin it with [[step]]");
    report.error(toml.place(second_at), message, hint);
    true
}

/// The first of a step's unknown keys that is nearly one that says what a step does, and where it
/// stands.
fn misspelled<'t>(table: &'t DeTable<'_>) -> Option<(usize, &'t str)> {
    (table.iter())
        .map(|(key, _)| (key.span().start, key.get_ref().as_ref()))
        .filter(|(_, key)| !STEP_KEYS.contains(key))
        .filter(|(_, key)| did_you_mean(key, HEADS).starts_with("did you mean"))
        .min()
}

/// Refuses a step of which no key says what it does: one is misspelled, or missing beside others.
fn refuse_headless(toml: TomlText<'_>, table: &DeTable<'_>, offset: usize, report: &mut Report) {
    let one_of =
        "a step has one of: call, check, session, set, redirect, headers, cookies, status, file";
    let mut keys: Vec<(usize, &str)> = (table.iter())
        .map(|(key, _)| (key.span().start, key.get_ref().as_ref()))
        .collect();
    keys.sort_unstable();
    let unknown = |(_, key): &&(usize, &str)| !STEP_KEYS.contains(key);
    let (place, message, hint) = match (misspelled(table), keys.first()) {
        (Some((at, key)), _) => (at, format!("unknown key `{key}`"), did_you_mean(key, HEADS)),
        (None, Some((at, key))) if unknown(&&(*at, *key)) => {
            (*at, format!("unknown key `{key}`"), one_of.to_owned())
        }
        (None, Some((at, key))) => {
            let of = match *key {
                "flash" => "redirect = \"...\"",
                "else" | "with" => "check = \"...\"",
                "user" | "sign_in" => "session = \"create\"",
                "rows" | "row" | "each" | "retry" | "optional" | "share" | "merge" | "query"
                | "exec" | "args" => "call = \"...\"",
                _ => "call, check, session, set, redirect, headers, cookies, status or file",
            };
            let message = format!("this step has `{key}`, but nothing says what it does");
            (*at, message, format!("it needs {of}"))
        }
        (None, None) => {
            let message = "this step does nothing";
            (offset, message.to_owned(), one_of.to_owned())
        }
    };
    report.error(toml.place(place), message, hint);
}

/// Reads `set`: expressions by the names of fields.
fn read_set<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Vec<(Text<'a>, Text<'a>)> {
    let mut fields = Vec::new();
    let Some((table, _)) = keys.table("set", "{ name = \"known.name\" }", report) else {
        return fields;
    };
    for (name, value) in Keys::entries(&keys.toml, table) {
        match text_of(&keys.toml, value) {
            Some(text) => fields.push((name, text)),
            None => {
                let hint = format!("{0} = \"...\": a number is {0} = \"7\"", name.value);
                let message = "values of `set` are expressions, in strings";
                report.error(name.place, message, hint);
            }
        }
    }
    fields
}

fn read_headers<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Vec<(Text<'a>, Text<'a>)> {
    /// What else the server itself says.
    const SERVERS_OWN: [&str; 2] = ["content-type", "set-cookie"];
    let mut headers = Vec::new();
    let Some((table, _)) = keys.table("headers", "{ \"Cache-Control\" = \"...\" }", report) else {
        return headers;
    };
    for (name, value) in Keys::entries(&keys.toml, table) {
        let lower = name.value.to_ascii_lowercase();
        if !is_token(name.value.as_bytes()) {
            report.error(
                name.place,
                "this is no header name",
                "letters, digits and `-`, such as \"Cache-Control\" (RFC 9110, section 5.1)",
            );
        } else if (SERVERS_OWN.iter().chain(&SENDERS_HEADERS)).any(|own| *own == lower) {
            let hint = match lower.as_str() {
                "content-type" => "content_type = \"...\" at the top of the header sets it",
                "set-cookie" => "`cookies` of a step sets cookies, `session` that of the session",
                _ => "remove it",
            };
            report.error(
                name.place,
                format!("{} is set by the server", name.value),
                hint,
            );
        }
        match text_of(&keys.toml, value) {
            Some(text) => headers.push((name, text)),
            None => {
                let hint = format!("{} = \"...\", a template", name.value);
                report.error(name.place, "a header's value is a string", hint);
            }
        }
    }
    headers
}

/// Notes what a step that could not be read would have declared.
pub(crate) fn note_lost(table: &DeTable<'_>, lost: &mut Lost) {
    let declared = table.get("rows").or(table.get("row"));
    let text = declared.and_then(|text| text.get_ref().as_str());
    let name = text.map(|text| text.split('(').next().unwrap_or_default().trim());
    match name.filter(|name| is_name(name)) {
        Some(name) => {
            lost.names.insert(name.to_owned());
        }
        None => lost.others |= table.contains_key("call"),
    }
}
