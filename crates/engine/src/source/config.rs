//! Reads the settings of a service, `service.toml`, by their definitions.

use super::declaration::AnswerDecl;
use super::keys::{Keys, Text, TomlText, text_of};
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
    /// Where the redirects lead of `index` of `[static]`.
    pub(crate) index: Vec<Text<'a>>,
    /// Whether its mistakes are why there is no such answer.
    pub(crate) missing_lost: bool,
    /// Whether its mistakes are why a backend may be absent.
    pub(crate) backends_lost: bool,
}

impl ServiceFile<'_> {
    /// What there is where the file cannot be read, which is reported.
    pub(crate) fn lost() -> Self {
        ServiceFile {
            config: ServiceConfig::default(),
            backends: Vec::new(),
            missing: None,
            index: Vec::new(),
            missing_lost: true,
            backends_lost: true,
        }
    }
}

/// Reads `service.toml`. Whatever is wrong is reported and replaced by its default.
pub(crate) fn read<'a>(
    text: &'a str,
    kinds: &[BackendKind],
    report: &mut Report,
) -> ServiceFile<'a> {
    let mut service = ServiceFile::lost();
    let before = report.errors();
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
        let Some((table, offset)) = root.table(section.name(), "...", report) else {
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
        match section.name() {
            "limits" => check_limits(config, &keys, report),
            "server" => {
                if let Some(mistake) = config.server.drain_mistake() {
                    let written = ["drain_delay", "drain_timeout"];
                    let key = written.into_iter().find(|key| keys.has(key));
                    let place = keys.place_of(key.unwrap_or(written[0]));
                    report.warning(place, mistake.message, mistake.hint);
                }
            }
            _ => {}
        }
        if let Some(index) = keys
            .get("index")
            .and_then(|index| index.get_ref().as_table())
        {
            let leads = Keys::entries(&toml, index).into_iter();
            service.index = leads.filter_map(|(_, to)| text_of(&toml, to)).collect();
        }
        if section.name() == "session"
            && let Some((missing, offset)) =
                keys.table("missing", "{ page = \"login.html\" }", report)
        {
            let keys = Keys::new(toml, missing, offset, &["page", "status", "with"], report);
            service.missing = read_answer(&keys, "page", report);
        }
    }
    let mut backends_lost = false;
    if let Some((backends, _)) = root.table("backend", "...", report) {
        for (name, value) in Keys::entries(&toml, backends) {
            let DeValue::Table(table) = value.get_ref() else {
                backends_lost = true;
                if name.value == "kind" {
                    let hint = "[backend.NAME], and below it what it is";
                    report.error(name.place, "a backend has a name of its own", hint);
                    // The others belong to it.
                    break;
                }
                let hint = format!("[backend.{}], and below it kind = \"...\"", name.value);
                report.error(name.place, "a backend is a table", hint);
                continue;
            };
            let offset = value.span().start;
            let backend = read_backend(toml, table, offset, &name, kinds, report);
            service.backends.push(backend);
        }
    }
    let is_mistaken = report.errors() > before;
    service.missing_lost = is_mistaken && service.missing.is_none();
    service.backends_lost = backends_lost || is_mistaken && service.backends.is_empty();
    service
}

/// So many of the longest answers are to fit what a worker's connections may hold: with two that
/// are not taken half of it is held, and with more than all of it connections are dropped to that.
const LONGEST_HELD: u64 = 4;

/// Tells of limits that do not go together.
fn check_limits(config: &ServiceConfig, keys: &Keys<'_, '_>, report: &mut Report) {
    let limits = &config.limits;
    let least = LONGEST_HELD * u64::from(limits.response_bytes_max);
    if u64::from(limits.worker_bytes_max) < least {
        let written = ["worker_bytes_max", "response_bytes_max"];
        let key = written.into_iter().find(|key| keys.has(key));
        let place = keys.place_of(key.unwrap_or(written[0]));
        let message = "few clients that do not take a long answer make others be dropped";
        let hint = format!(
            "`worker_bytes_max` of {LONGEST_HELD} times `response_bytes_max`, which is {least}, or \
             more; or a smaller `response_bytes_max`"
        );
        report.warning(place, message, &hint);
    }
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
    if keys.lacks("kind") {
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
