//! `rhythm schema`: what may stand in service.toml and in pages' headers, as JSON Schema, by which
//! editors complete and check as one types.
//!
//! Of service.toml it is made from the definitions of the settings; of headers it is written out in
//! `schema/page.json`, and the keys by which kinds of backends are asked are added.

use crate::output::print_line;
use anyhow::{Context, Result};
use clap::ValueEnum;
use rhythm_engine::program::ERROR_STATUSES;
use rhythm_engine::settings::{
    BackendKey, Definition, NONE, PoolSettings, ProxySettings, ServiceConfig, Setting, SettingKind,
    Value,
};
use rhythm_server::backend::kinds;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The version of JSON Schema that editors of TOML understand.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// Print what may stand in service.toml, or in pages' headers, as JSON Schema, for editors.
///
/// Where a service.toml begins with the line `#:schema ./service.schema.json`, editors that know
/// Taplo (such as VS Code with Even Better TOML) complete and check it by that file:
///     rhythm schema service > service.schema.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Of what
    #[arg(value_name = "WHAT")]
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// service.toml
    Service,
    /// The header of a page
    Page,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let schema = match args.of {
        Of::Service => service(),
        Of::Page => page()?,
    };
    print_line(format_args!("{schema:#}"))?;
    Ok(ExitCode::SUCCESS)
}

/// A table of these keys and no other.
fn table(about: &str, keys: Map<String, Json>) -> Json {
    json!({
        "type": "object",
        "description": about.trim(),
        "properties": keys,
        "additionalProperties": false,
    })
}

fn service() -> Json {
    let config = ServiceConfig::default();
    let mut tables = Map::new();
    for section in config.sections() {
        let keys = section.definitions().iter();
        let mut keys: Map<String, Json> = keys.map(setting).collect();
        if section.name() == "session" {
            keys.insert("missing".to_owned(), missing());
        }
        tables.insert(section.name().to_owned(), table(section.about(), keys));
    }
    tables.insert("backend".to_owned(), backends());
    tables.insert("proxy".to_owned(), proxies());
    let statuses = ERROR_STATUSES.iter().map(u16::to_string);
    let page = json!({ "type": "string", "description": "A page file without a route." });
    let errors = statuses.chain(["default".to_owned()]);
    let errors = errors.map(|status| (status, page.clone())).collect();
    let about = "Pages that are shown in place of errors, by status.";
    tables.insert("errors".to_owned(), table(about, errors));
    let mut schema = table("A service of Rhythm.", tables);
    schema["$schema"] = DIALECT.into();
    schema["title"] = "service.toml".into();
    schema
}

/// How pages that need a session are answered where there is none.
fn missing() -> Json {
    let text = json!({ "type": "string" });
    let keys = [
        ("page", text.clone()),
        ("with", json!({ "type": "object" })),
        ("status", json!({ "type": "integer" })),
        ("redirect", text.clone()),
        ("flash", text),
    ];
    let keys = keys.map(|(key, schema)| (key.to_owned(), schema));
    let about = "What answers a page that needs a session, where there is none.";
    table(about, Map::from_iter(keys))
}

/// The tables of backends: by the kind, the keys.
fn backends() -> Json {
    let of_kinds: Vec<Json> = (kinds().iter())
        .map(|kind| {
            let mut keys: Map<String, Json> = (PoolSettings::DEFINITIONS.iter())
                .map(setting)
                .chain(kind.keys.iter().map(own))
                .collect();
            if keys.contains_key("url") {
                let about = "A file whose first line is `url`.";
                let schema = json!({ "type": "string", "description": about });
                keys.insert("url_file".to_owned(), schema);
            }
            keys.insert("kind".to_owned(), json!({ "const": kind.name }));
            let mut of_kind = table(&format!("A backend of kind {}.", kind.name), keys);
            of_kind["required"] = json!(["kind"]);
            of_kind
        })
        .collect();
    json!({
        "type": "object",
        "description": "What pages ask, by name.",
        "additionalProperties": { "oneOf": of_kinds },
    })
}

/// The routes that other servers answer.
fn proxies() -> Json {
    let one_or_more = |about: &str| {
        let text = json!({ "type": "string" });
        let list = json!({ "type": "array", "items": text, "minItems": 1 });
        json!({ "description": about, "anyOf": [text, list] })
    };
    let of_settings = ProxySettings::DEFINITIONS.iter().map(setting);
    let mut keys: Map<String, Json> = of_settings.collect();
    let paths = "The paths that go there, such as \"/app/**\".";
    keys.insert("match".to_owned(), one_or_more(paths));
    let servers = "The servers, such as \"http://127.0.0.1:3000\".";
    keys.insert("to".to_owned(), one_or_more(servers));
    let mut route = table("A route that another server answers.", keys);
    route["required"] = json!(["match", "to"]);
    json!({
        "type": "array",
        "description": "What no page and no file answers, and another server does.",
        "items": route,
    })
}

/// A key of a kind's own.
fn own(key: &BackendKey) -> (String, Json) {
    let mut schema = match key.default {
        Setting::Text(default) => json!({ "type": "string", "default": default }),
        Setting::Int(default) => json!({ "type": "integer", "default": default }),
    };
    schema["description"] = key.about.into();
    (key.name.to_owned(), schema)
}

/// A setting.
fn setting(definition: &Definition) -> (String, Json) {
    let mut schema = match definition.rule.kind {
        SettingKind::Count(least, most) | SettingKind::Bytes(least, most) => {
            let least = if definition.rule.none.is_some() {
                0
            } else {
                least
            };
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        SettingKind::Duration(_) => json!({
            "type": "string",
            "pattern": r"^([0-9]+\.?[0-9]*|\.[0-9]+) *(ns|us|ms|s|m|h)$",
        }),
        SettingKind::Choice(words) => json!({ "enum": words }),
        SettingKind::Switch => json!({ "type": "boolean" }),
        SettingKind::Address
        | SettingKind::Addresses
        | SettingKind::File
        | SettingKind::Text(_) => json!({ "type": "string" }),
        SettingKind::Map(_) => json!({
            "type": "object",
            "additionalProperties": { "type": "string" },
        }),
    };
    if definition.may_be_none() {
        schema = json!({ "anyOf": [schema, { "const": NONE }] });
    }
    schema["description"] = definition.about.trim().into();
    schema["default"] = match (definition.default)() {
        Value::Number(number) => number.into(),
        Value::Switch(on) => on.into(),
        Value::Map(map) => json!(map),
        other => other.to_string().into(),
    };
    (definition.key.to_owned(), schema)
}

fn page() -> Result<Json> {
    let mut schema: Json = serde_json::from_str(include_str!("schema/page.json"))?;
    schema["$schema"] = DIALECT.into();
    let step = schema["definitions"]["step"]["properties"].as_object_mut();
    let step = step.context("steps have keys")?;
    let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let kinds = kinds();
    for kind in &kinds {
        for key in kind.asks.keys() {
            by_key.entry(key).or_default().push(kind.name);
        }
    }
    for (key, kinds) in by_key {
        let about = format!("Of a call of a backend of kind {}.", kinds.join(" or "));
        step.entry(key)
            .or_insert_with(|| json!({ "description": about }));
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::source::{
        page_keys, param_keys, param_types, proxy_keys, service_tables, step_keys,
    };
    use std::collections::BTreeSet;

    fn keys(of: &Json) -> BTreeSet<String> {
        let keys = of["properties"].as_object().expect("a table").keys();
        keys.cloned().collect()
    }

    fn known(keys: Vec<&str>) -> BTreeSet<String> {
        keys.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_schema_of_pages_has_their_keys_and_no_others() {
        let schema = page().expect("it is JSON");
        assert_eq!(keys(&schema), known(page_keys()));
        let definitions = &schema["definitions"];
        assert_eq!(keys(&definitions["param"]), known(param_keys()));
        let types = definitions["type"]["enum"].as_array().expect("a list");
        let types = types.iter().filter_map(Json::as_str).map(str::to_owned);
        assert_eq!(types.collect::<BTreeSet<_>>(), known(param_types()));
        let kinds = kinds();
        assert_eq!(
            keys(&schema["definitions"]["step"]),
            known(step_keys(&kinds))
        );
    }

    #[test]
    fn the_schema_of_services_has_their_tables() {
        let schema = service();
        assert_eq!(keys(&schema), known(service_tables()));
        let tables = &schema["properties"];
        let settings = ProxySettings::DEFINITIONS.iter();
        let of_proxy = settings.map(|it| it.key).chain(proxy_keys()).collect();
        assert_eq!(keys(&tables["proxy"]["items"]), known(of_proxy));
        assert_eq!(tables["session"]["properties"]["csrf"]["type"], "boolean");
        assert!(tables["session"]["properties"]["missing"].is_object());
        assert!(tables["errors"]["properties"]["404"].is_object());
        let kinds = tables["backend"]["additionalProperties"]["oneOf"].as_array();
        let kinds = kinds.expect("a list");
        let has_url_file = |kind: &&Json| kind["properties"]["url_file"].is_object();
        assert_eq!(kinds.iter().filter(has_url_file).count(), kinds.len() - 1);
    }
}
