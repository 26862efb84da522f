//! `/config`: the settings in effect, where each comes from, and the memory that they bound.
//!
//! `settings` has the names and the nesting of `service.toml`; `from` has the same with `default`,
//! `file` or `flag`, but for the backends, which a file alone names. docs/settings.md explains
//! `memory`.

use crate::host::files::READ_BYTES_MAX;
use crate::options::session_rules;
use crate::site::Site;
use rhythm_engine::session::SignIns;
use rhythm_engine::settings::{Section, ServiceConfig, Setting, Value};
use rhythm_net::DriverOptions;
use serde_json::{Map, json};

/// Writes it, for people and machines: of a server with so many workers, each with so many
/// contexts.
pub(crate) fn json(config: &ServiceConfig, site: &Site, workers: usize, contexts: usize) -> String {
    let (mut settings, mut from) = (Map::new(), Map::new());
    for section in config.sections() {
        let (mut values, mut origins) = (Map::new(), Map::new());
        for definition in section.definitions() {
            let key = definition.key;
            values.insert(key.to_owned(), value(section.get(key)));
            let origin = config.origin(section.name(), key);
            origins.insert(key.to_owned(), origin.name().into());
        }
        settings.insert(section.name().to_owned(), values.into());
        from.insert(section.name().to_owned(), origins.into());
    }
    let pages = (site.service().pages.iter()).map(|page| page.name.as_str());
    let mut backends = Map::new();
    for backend in &site.service().backends {
        let mut values = Map::new();
        values.insert("kind".to_owned(), backend.kind.into());
        for (key, setting) in &backend.own {
            let setting = match setting {
                Setting::Text(text) => text.as_str().into(),
                Setting::Int(value) => (*value).into(),
            };
            values.insert((*key).to_owned(), setting);
        }
        for definition in backend.pool.definitions() {
            values.insert(
                definition.key.to_owned(),
                value(backend.pool.get(definition.key)),
            );
        }
        backends.insert(backend.name.clone(), values.into());
    }
    settings.insert("backend".to_owned(), backends.into());
    let all = json!({
        "settings": settings,
        "from": from,
        "pages": pages.collect::<Vec<_>>(),
        "memory": memory(config, site, workers, contexts),
    });
    let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
    text.push('\n');
    text
}

fn value(value: Value) -> serde_json::Value {
    match value {
        Value::Number(number) => number.into(),
        Value::Switch(on) => on.into(),
        Value::Map(map) => json!(map),
        Value::None => serde_json::Value::Null,
        Value::Text(_) | Value::Duration(_) | Value::Address(_) => value.to_string().into(),
    }
}

/// The most bytes that the settings allow, by what they are for, and how they come about. What this
/// leaves out is in docs/settings.md, *Memory*.
fn memory(
    config: &ServiceConfig,
    site: &Site,
    workers: usize,
    contexts: usize,
) -> serde_json::Value {
    let (limits, cohort) = (&config.limits, &config.cohort);
    let contexts = product([workers, contexts]);
    let lanes = product([contexts, cohort.size as usize]);
    let connections = limits.connections_max as usize;
    let (head, body) = (
        limits.head_bytes_max as usize,
        limits.body_bytes_max as usize,
    );
    let response = limits.response_bytes_max as usize;
    let parts = [
        (
            "sessions",
            session_rules(&config.session).bytes() + SignIns::BYTES,
        ),
        ("static_files", site.statics.bytes()),
        (
            "file_pieces",
            match site.statics.volumes() {
                0 => 0,
                volumes => product([workers, 1 + volumes, READ_BYTES_MAX]),
            },
        ),
        // A body in chunks is kept as it came and decoded.
        (
            "requests_incomplete",
            product([connections, head.saturating_add(2 * body)]),
        ),
        (
            "requests_stalled",
            product([connections, DriverOptions::default().receive_bytes]),
        ),
        (
            "cohort_texts",
            product([2, contexts, cohort.arena_bytes_max as usize]),
        ),
        ("cohort_answers", product([lanes, response])),
        (
            "answers_waiting",
            product([
                connections,
                limits.pipelined_max as usize,
                response.max(limits.unsent_bytes_max as usize),
            ]),
        ),
    ];
    let sum = (parts.iter()).fold(0, |sum: usize, (_, bytes)| sum.saturating_add(*bytes));
    let bytes: Map<_, _> = (parts.into_iter().chain([("sum", sum)]))
        .map(|(name, bytes)| (name.to_owned(), bytes.into()))
        .collect();
    json!({
        "workers": workers,
        "contexts": contexts,
        "lanes": lanes,
        "connections": connections,
        "bytes_max": bytes,
    })
}

fn product<const N: usize>(factors: [usize; N]) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}
