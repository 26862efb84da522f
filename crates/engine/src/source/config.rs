//! Reads the settings of a service, `service.toml`, by their definitions.

use super::declaration::AnswerDecl;
use super::keys::{Keys, Text, TomlText};
use super::step::read_answer;
use crate::diagnostic::{Place, Report, did_you_mean};
use crate::kind::{BackendKind, Kinds};
use crate::settings::{
    BackendConfig, Definition, Origin, PoolSettings, Section, ServiceConfig, Setting,
};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// What `service.toml` holds beside the configuration.
pub(crate) struct ServiceFile<'a> {
    pub(crate) config: ServiceConfig,
    pub(crate) backends: Vec<BackendConfig>,
    /// The answer of a page that needs a session where there is none.
    pub(crate) missing: Option<AnswerDecl<'a>>,
    /// Whether its mistakes are why there is no such answer.
    pub(crate) missing_lost: bool,
    /// Whether its mistakes are why a backend may be absent.
    pub(crate) backends_lost: bool,
}

/// Reads `service.toml`. Whatever is wrong is reported and replaced by its default; `None` where it
/// is no TOML.
pub(crate) fn read<'a>(
    text: &'a str,
    kinds: &[BackendKind],
    report: &mut Report,
) -> Option<ServiceFile<'a>> {
    let mut service = ServiceFile {
        config: ServiceConfig::default(),
        backends: Vec::new(),
        missing: None,
        missing_lost: false,
        backends_lost: false,
    };
    let before = report.errors();
    let toml = TomlText {
        file: "service.toml",
        text,
        start: 0,
        end: text.len(),
    };
    let table = toml.parse(report)?;
    let defaults = ServiceConfig::default();
    let sections = defaults.sections();
    let known: Vec<&str> = (sections.iter().map(|section| section.name()))
        .chain(["backend"])
        .collect();
    let elsewhere = |key: &str| {
        let is = |setting: &&Definition| setting.key == key || setting.rule.was == Some(key);
        let found = sections.iter().filter_map(|section| {
            let setting = section.definitions().iter().find(is)?;
            Some(format!("`{}` of [{}]", setting.key, section.name()))
        });
        let found: Vec<String> = found.collect();
        (!found.is_empty()).then(|| format!("is it {}?", found.join(" or ")))
    };
    let root = Keys::named(toml, &table, 0, &known, elsewhere, report);
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
        let settings = section.definitions();
        let keys = Keys::of_settings(toml, table, offset, settings, others, elsewhere, report);
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
                let hint = format!("[backend.{}]", name.value);
                report.error(name.place, "a backend is a table", hint);
                service.backends_lost = true;
                continue;
            };
            let offset = value.span().start;
            let backend = read_backend(toml, table, offset, &name, kinds, report);
            service.backends.push(backend);
        }
    }
    let is_mistaken = report.errors() > before;
    service.missing_lost = is_mistaken && service.missing.is_none();
    service.backends_lost |= is_mistaken && service.backends.is_empty();
    Some(service)
}

/// Reads a backend's table: the keys of all backends, and those of its kind's own.
fn read_backend<'a>(
    toml: TomlText<'a>,
    table: &DeTable<'a>,
    offset: usize,
    name: &Text<'a>,
    kinds: &[BackendKind],
    report: &mut Report,
) -> BackendConfig {
    let own = |kind: &BackendKind| kind.keys.iter().map(|key| key.name).collect::<Vec<_>>();
    let names: Vec<(&str, usize)> = (kinds.iter().map(|kind| kind.name)).zip(0..).collect();
    let written = table.get("kind").and_then(|kind| kind.get_ref().as_str());
    let kind = written.and_then(|written| kinds.iter().find(|kind| kind.name == written));
    // Without a kind the mistakes are those of the one most likely meant.
    let kind = kind.or(kinds.first().filter(|_| written.is_none()));
    let mut others = vec!["kind"];
    match kind {
        Some(kind) => others.extend(own(kind)),
        // Of a kind that is not known, any key may be.
        None => others.extend(kinds.iter().flat_map(own)),
    }
    let settings = PoolSettings::DEFINITIONS;
    let keys = Keys::of_settings(toml, table, offset, settings, &others, |_| None, report);
    if !keys.has("kind") {
        let hint = kinds
            .first()
            .map(|kind| format!("kind = \"{}\"", kind.name));
        report.error(name.place, "`kind` is missing", hint.unwrap_or_default());
    }
    keys.choice("kind", &names, report);
    let mut backend = BackendConfig {
        name: name.value.clone(),
        kind: kind.map_or("", |kind| kind.name),
        pool: PoolSettings::default(),
        own: BTreeMap::new(),
    };
    for key in kind.map_or(&[][..], |kind| kind.keys) {
        let value = keys.own(key, report).unwrap_or(match key.default {
            Setting::Text(default) => Setting::Text(default.to_owned()),
            Setting::Int(default) => Setting::Int(default),
        });
        backend.own.insert(key.name, value);
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
    kinds: Kinds<'_>,
    name: &str,
    place: Place<'_>,
    report: &mut Report,
) -> Option<usize> {
    let backends = kinds.backends;
    let found = backends.iter().position(|backend| backend.name == name);
    if found.is_none() && !kinds.backends_lost {
        let mut hint = did_you_mean(name, backends.iter().map(|backend| backend.name.as_str()));
        if hint.is_empty() {
            hint = format!("service.toml needs a table [backend.{name}]");
        }
        report.error(place, format!("service.toml has no backend `{name}`"), hint);
    }
    found
}
