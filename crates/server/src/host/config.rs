//! `/config`: the settings in effect, where each comes from, and the memory that they bound.
//!
//! `settings` has the names and the nesting of `service.toml`; `from` has the same with `default`,
//! `file`, `flag` or, of a socket that was passed to the server, `inherited`, but for the backends,
//! which a file alone names. A server of several services has these and `pages` for each, by its
//! name, in `services`. docs/settings.md explains `memory`.

use crate::limits::memory::Memory;
use crate::limits::options::ServerOptions;
use crate::site::{Site, Sites};
use rhythm_engine::settings::{Section, ServiceConfig, Setting, Value};
use serde_json::{Map, json};

/// Writes it, for people and machines: of a server that was started with these options, and has
/// `inherited` sockets in place of what settings of `[server]` ask for.
pub(crate) fn json(
    configs: &[ServiceConfig],
    sites: &Sites,
    options: &ServerOptions,
    inherited: &[(&'static str, String)],
) -> String {
    let memory = memory(&Memory::of_sites(sites, options));
    let mut told = configs.iter().zip(sites.all()).map(|(config, site)| {
        let name = site.label().unwrap_or_default().to_owned();
        (name, of_site(config, site, inherited))
    });
    let mut all: Map<_, _> = match sites.all() {
        [_] => told.next().map(|(_, told)| told).unwrap_or_default(),
        _ => {
            let services: Map<_, _> = told.map(|(name, told)| (name, told.into())).collect();
            [("services".to_owned(), services.into())]
                .into_iter()
                .collect()
        }
    };
    all.insert("memory".to_owned(), memory);
    let text = serde_json::to_string_pretty(&all);
    let mut text = text.expect("maps of JSON have texts for keys");
    text.push('\n');
    text
}

/// A site's settings, where they come from, and its pages.
fn of_site(
    config: &ServiceConfig,
    site: &Site,
    inherited: &[(&'static str, String)],
) -> Map<String, serde_json::Value> {
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
    for (key, places) in inherited {
        settings["server"][key] = places.as_str().into();
        from["server"][key] = "inherited".into();
    }
    let pages = (site.service().pages.iter()).map(|page| page.name.as_str());
    let mut backends = Map::new();
    for backend in &site.service().backends {
        let mut values = Map::new();
        values.insert("kind".to_owned(), backend.kind.into());
        for (key, setting) in backend.shown() {
            let setting = match setting {
                Setting::Text(text) => text.into(),
                Setting::Int(value) => value.into(),
            };
            values.insert(key.to_owned(), setting);
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
    let proxies = site.service().proxies.iter().map(|proxy| {
        let mut values = Map::new();
        let matches = proxy.matches.iter().map(|pattern| pattern.as_str());
        values.insert("match".to_owned(), matches.collect::<Vec<_>>().into());
        let to = proxy.to.iter().map(|(url, _)| url.as_str());
        values.insert("to".to_owned(), to.collect::<Vec<_>>().into());
        for definition in proxy.settings.definitions() {
            let setting = value(proxy.settings.get(definition.key));
            values.insert(definition.key.to_owned(), setting);
        }
        serde_json::Value::from(values)
    });
    settings.insert("proxy".to_owned(), proxies.collect::<Vec<_>>().into());
    let mut all = Map::new();
    all.insert("settings".to_owned(), settings.into());
    all.insert("from".to_owned(), from.into());
    all.insert("pages".to_owned(), pages.collect::<Vec<_>>().into());
    all
}

fn value(value: Value) -> serde_json::Value {
    match value {
        Value::Number(number) => number.into(),
        Value::Switch(on) => on.into(),
        Value::Map(map) => json!(map),
        Value::None => serde_json::Value::Null,
        Value::Text(_) | Value::Duration(_) | Value::Address(_) | Value::Addresses(_) => {
            value.to_string().into()
        }
    }
}

/// The most bytes that the settings allow, by what they are for, and how they come about. What this
/// leaves out is in docs/settings.md, *Memory*.
fn memory(memory: &Memory) -> serde_json::Value {
    let parts = memory.parts.into_iter().chain([("sum", memory.sum())]);
    let bytes: Map<_, _> = parts
        .map(|(name, bytes)| (name.to_owned(), bytes.into()))
        .collect();
    json!({
        "workers": memory.workers,
        "contexts": memory.contexts,
        "lanes": memory.lanes,
        "connections": memory.connections,
        "bytes_max": bytes,
    })
}
