//! Reads `[[proxy]]` of `service.toml`: routes that another server answers.

use super::keys::{Keys, Text};
use crate::diagnostic::{Place, Report};
use crate::settings::{BackendUrl, ProxyConfig, ProxyPattern, ProxySettings, Section};
use toml::de::{DeTable, DeValue};

/// The keys that are no settings.
pub(super) const OTHERS: [&str; 2] = ["match", "to"];

/// What a route looks like.
const FORM: &str = "[[proxy]], and below it match = \"/app/**\" and to = \"http://127.0.0.1:3000\"";

/// The most routes, and the most servers of one.
const ROUTES_MAX: usize = 256;
const SERVERS_MAX: usize = 64;

/// A route, and where its patterns stand.
pub(crate) struct ProxyDecl<'a> {
    pub(crate) config: ProxyConfig,
    pub(crate) places: Vec<Place<'a>>,
}

/// Whether a service.toml has one, right or wrong.
pub(super) fn is_there(text: &str) -> bool {
    let (table, _) = DeTable::parse_recoverable(text);
    table.get_ref().contains_key("proxy")
}

/// Reads all of them.
pub(super) fn read<'a>(root: &Keys<'_, 'a>, report: &mut Report) -> Vec<ProxyDecl<'a>> {
    let mut all = Vec::new();
    let Some(value) = root.get("proxy") else {
        return all;
    };
    let place = root.place_of("proxy");
    let DeValue::Array(tables) = value.get_ref() else {
        report.error(place, "`proxy` is a list of tables", FORM);
        return all;
    };
    if tables.len() > ROUTES_MAX {
        let message = format!("there are more than {ROUTES_MAX} proxy routes");
        report.error(
            place,
            message,
            "one route may have several paths and servers",
        );
        return all;
    }
    for table in tables {
        let offset = table.span().start;
        let DeValue::Table(table) = table.get_ref() else {
            report.error(root.toml.place(offset), "`proxy` is a list of tables", FORM);
            continue;
        };
        let settings = ProxySettings::DEFINITIONS;
        let toml = root.toml;
        let keys = Keys::of_settings(toml, table, offset, settings, &OTHERS, |_| None, report);
        all.push(read_one(&keys, report));
    }
    all
}

fn read_one<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> ProxyDecl<'a> {
    for (key, form) in [
        ("match", "match = \"/app/**\", or a list of such"),
        ("to", "to = \"http://127.0.0.1:3000\", or a list of such"),
    ] {
        if keys.lacks(key) {
            report.error(keys.place, format!("`{key}` is missing"), form);
        }
    }
    let mut settings = ProxySettings::default();
    for definition in ProxySettings::DEFINITIONS {
        if let Some(value) = keys.setting(definition, report) {
            settings.set(definition.key, value);
        }
    }
    let (mut matches, mut places) = (Vec::new(), Vec::new());
    for text in listed(keys, "match", report) {
        match text.value.parse::<ProxyPattern>() {
            Ok(pattern) => {
                matches.push(pattern);
                places.push(text.place);
            }
            Err(wrong) => {
                let hint = "such as \"/app/**\": `*` is any segment, a last `**` all that follow";
                report.error(text.place, wrong.to_string(), hint);
            }
        }
    }
    let mut to: Vec<(String, BackendUrl)> = Vec::new();
    for text in listed(keys, "to", report) {
        let Some(url) = read_url(&text, report) else {
            continue;
        };
        if to.iter().any(|(_, known)| known.place == url.place) {
            let message = format!("{} is named twice", text.value);
            report.error(text.place, message, "each server once");
            continue;
        }
        to.push((text.value, url));
    }
    if to.len() > SERVERS_MAX {
        let message = format!("a route has more than {SERVERS_MAX} servers");
        report.error(
            keys.place_of("to"),
            message,
            "have some of them behind a balancer",
        );
    }
    ProxyDecl {
        config: ProxyConfig {
            matches,
            to,
            settings,
        },
        places,
    }
}

/// One text at least, where the key is there.
fn listed<'a>(keys: &Keys<'_, 'a>, key: &str, report: &mut Report) -> Vec<Text<'a>> {
    let before = report.errors();
    let texts = keys.texts(key, report);
    if texts.is_empty() && keys.has(key) && report.errors() == before {
        report.error(
            keys.place_of(key),
            format!("`{key}` is empty"),
            "name one at least",
        );
    }
    texts
}

fn read_url(text: &Text<'_>, report: &mut Report) -> Option<BackendUrl> {
    let hint = match text.value.parse::<BackendUrl>() {
        Ok(url) if url.path == "/" && !text.value.ends_with('/') => return Some(url),
        Ok(_) => {
            let message = "a server that is proxied to has no path: it gets the request's own";
            report.error(text.place, message, "such as \"http://127.0.0.1:3000\"");
            return None;
        }
        Err(_) => {
            "such as \"http://127.0.0.1:3000\", \"https://app.internal\" or \
             \"http://unix:/run/app.sock\""
        }
    };
    let wrong = text.value.parse::<BackendUrl>().err()?;
    report.error(text.place, wrong.to_string(), hint);
    None
}
