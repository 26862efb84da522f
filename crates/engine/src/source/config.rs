//! Reads the settings of a service, `service.toml`, by their definitions.

use super::declaration::AnswerDecl;
use super::keys::{Keys, TomlText};
use super::step::read_answer;
use crate::diagnostic::{Place, Report, did_you_mean};
use crate::settings::{BackendConfig, BackendKind, Origin, PoolSettings, Section, ServiceConfig};
use toml::de::DeValue;

/// What `service.toml` holds beside the configuration.
pub(crate) struct ServiceFile<'a> {
    pub(crate) config: ServiceConfig,
    pub(crate) backends: Vec<BackendConfig>,
    /// The answer of a page that needs a session where there is none.
    pub(crate) missing: Option<AnswerDecl<'a>>,
}

/// Reads `service.toml`. Whatever is wrong is reported and replaced by its default.
pub(crate) fn read<'a>(text: &'a str, report: &mut Report) -> ServiceFile<'a> {
    let mut service = ServiceFile {
        config: ServiceConfig::default(),
        backends: Vec::new(),
        missing: None,
    };
    let toml = TomlText {
        file: "service.toml",
        text,
        start: 0,
        end: text.len(),
    };
    let Some(table) = toml.parse(report) else {
        return service;
    };
    let defaults = ServiceConfig::default();
    let sections = defaults.sections();
    let known: Vec<&str> = (sections.iter().map(|section| section.name()))
        .chain(["backend"])
        .collect();
    let root = Keys::new(toml, &table, 0, &known, report);
    let config = &mut service.config;
    for section in sections {
        let Some((table, offset)) = root.table(section.name(), report) else {
            continue;
        };
        // How a missing session is answered is no value, but an answer to be compiled.
        let others: &[&str] = match section.name() {
            "session" => &["missing"],
            _ => &[],
        };
        let keys = Keys::of_settings(toml, table, offset, section.definitions(), others, report);
        for definition in section.definitions() {
            if let Some(value) = keys.setting(definition, report) {
                config.set(section.name(), definition, value, Origin::File);
            }
        }
        if section.name() == "session"
            && let Some((missing, offset)) = keys.table("missing", report)
        {
            let keys = Keys::new(toml, missing, offset, &["page", "status", "with"], report);
            service.missing = read_answer(&keys, "page", report);
        }
    }
    if let Some((backends, _)) = root.table("backend", report) {
        for (name, value) in Keys::entries(&toml, backends) {
            let DeValue::Table(table) = value.get_ref() else {
                report.error(
                    name.place,
                    "a backend is a table",
                    format!("[backend.{}]", name.value),
                );
                continue;
            };
            let (offset, others) = (value.span().start, ["kind", "url", "users"]);
            let settings = PoolSettings::DEFINITIONS;
            let keys = Keys::of_settings(toml, table, offset, settings, &others, report);
            service
                .backends
                .push(read_backend(&keys, name.value, name.place, report));
        }
    }
    service
}

fn read_backend(
    keys: &Keys<'_, '_>,
    name: String,
    place: Place<'_>,
    report: &mut Report,
) -> BackendConfig {
    if !keys.has("kind") {
        report.error(place, "`kind` is missing", "kind = \"besim\"");
    }
    let kind = keys.choice("kind", &[("besim", BackendKind::BeSim)], report);
    let url = keys
        .text("url", report)
        .filter(|url| url.value != "embedded");
    if let Some(url) = &url
        && !url.value.starts_with("http://")
    {
        let hint = "\"embedded\", or such as \"http://127.0.0.1:8081/besim\"";
        report.error(url.place, "this is no address of a backend", hint);
    }
    let mut backend = BackendConfig {
        name,
        kind: kind.unwrap_or(BackendKind::BeSim),
        url: url.map(|url| url.value),
        users: 100_000,
        pool: PoolSettings::default(),
    };
    let users = keys.int("users", 1..=1 << 30, report);
    if let Some(users) = users.and_then(|users| u32::try_from(users).ok()) {
        backend.users = users;
    }
    for definition in PoolSettings::DEFINITIONS {
        if let Some(value) = keys.setting(definition, report) {
            backend.pool.set(definition.key, value);
        }
    }
    backend
}

/// Finds a backend by name, or reports what there is.
pub(crate) fn find_backend(
    backends: &[BackendConfig],
    name: &str,
    place: Place<'_>,
    report: &mut Report,
) -> Option<usize> {
    let found = backends.iter().position(|backend| backend.name == name);
    if found.is_none() {
        let mut hint = did_you_mean(name, backends.iter().map(|backend| backend.name.as_str()));
        if hint.is_empty() {
            hint = format!("service.toml needs a table [backend.{name}]");
        }
        report.error(place, format!("service.toml has no backend `{name}`"), hint);
    }
    found
}
