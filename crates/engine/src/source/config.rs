//! Reads the settings of a service, `service.toml`, by their definitions.

use super::declaration::Instead;
use super::keys::{Keys, Text, TomlText, text_of};
use super::proxy::{self, ProxyDecl};
use super::step::read_instead;
use crate::diagnostic::{Place, Report};
use crate::kind::BackendKind;
use crate::program::ERROR_STATUSES;
use crate::settings::{
    BackendConfig, Definition, KeyFlags, Origin, Outside, PoolSettings, STORED_MAX, Secret,
    Section, ServiceConfig, SessionSettings,
};
use std::collections::BTreeMap;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The key by which a backend is found, where its kind has one, and the key of a file with it.
const URL: &str = "url";
const URL_FILE: &str = "url_file";

/// The tables of `service.toml` that are no settings.
const OTHERS: [&str; 3] = ["backend", "errors", "proxy"];

/// The tables that `service.toml` may have.
pub(super) fn tables() -> Vec<&'static str> {
    let config = ServiceConfig::default();
    let sections = config.sections();
    let settings = sections.iter().map(|section| section.name());
    settings.chain(OTHERS).collect()
}

/// Where `service.toml` is: what its files are relative to, and its variables' values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'f> {
    pub(crate) folder: &'f Path,
    pub(crate) outside: Outside,
}

/// What `service.toml` holds beside the configuration.
pub(crate) struct ServiceFile<'a> {
    pub(crate) config: ServiceConfig,
    pub(crate) backends: Vec<BackendConfig>,
    /// Where each of them stands.
    pub(crate) backend_places: Vec<BackendPlace<'a>>,
    /// The answer of a page that needs a session where there is none.
    pub(crate) missing: Option<Instead<'a>>,
    /// The redirects of `index` of `[static]`: from where, and where they lead.
    pub(crate) index: Vec<(Text<'a>, Text<'a>)>,
    /// The pages of `[errors]`.
    pub(crate) errors: Vec<ErrorDecl<'a>>,
    /// The routes that other servers answer.
    pub(crate) proxies: Vec<ProxyDecl<'a>>,
    /// Where `store` of `[session]` stands, if it does.
    pub(crate) store: Option<Place<'a>>,
    /// The secret that all who serve it have in common.
    pub(crate) secret: Option<Secret>,
    /// Whether its mistakes are why there is none.
    pub(crate) secret_lost: bool,
    /// Whether its mistakes are why sessions may lack a field.
    pub(crate) fields_lost: bool,
    /// Whether its mistakes are why there is no answer for a missing session.
    pub(crate) missing_lost: bool,
    /// Whether its mistakes are why a backend may be absent.
    pub(crate) backends_lost: bool,
}

/// Where a backend stands.
pub(crate) struct BackendPlace<'a> {
    name: Place<'a>,
    /// The values of its kind's own keys that are written.
    keys: Vec<(&'static str, Place<'a>)>,
}

impl<'a> BackendPlace<'a> {
    /// Where what this key says stands, or would.
    pub(crate) fn of(&self, key: &str) -> Place<'a> {
        let written = self.keys.iter().find(|(known, _)| *known == key);
        written.map_or(self.name, |(_, place)| *place)
    }
}

/// A page of `[errors]`.
pub(crate) struct ErrorDecl<'a> {
    /// For which status it is; without one, for all that have none.
    pub(crate) status: Option<u16>,
    /// The page file's name.
    pub(crate) page: Text<'a>,
}

impl ServiceFile<'_> {
    /// What there is where the file cannot be read, which is reported.
    pub(crate) fn lost() -> Self {
        ServiceFile {
            config: ServiceConfig::default(),
            backends: Vec::new(),
            backend_places: Vec::new(),
            missing: None,
            index: Vec::new(),
            errors: Vec::new(),
            proxies: Vec::new(),
            store: None,
            secret: None,
            secret_lost: false,
            fields_lost: true,
            missing_lost: true,
            backends_lost: true,
        }
    }
}

/// Reads `service.toml`. Whatever is wrong is reported and replaced by its default.
pub(crate) fn read<'a>(
    text: &'a str,
    kinds: &[BackendKind],
    at: At<'_>,
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
    let elsewhere = |key: &str| {
        let is = |setting: &&Definition| setting.key == key || setting.rule.was == Some(key);
        let found = sections.iter().filter_map(|section| {
            let setting = section.definitions().iter().find(is)?;
            Some(format!("`{}` of [{}]", setting.key, section.name()))
        });
        let found: Vec<String> = found.collect();
        (!found.is_empty()).then(|| format!("is it {}?", found.join(" or ")))
    };
    let root = Keys::named(toml, &table, 0, &tables(), elsewhere, report);
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
        warn_of_together(section.name(), config, &keys, report);
        if section.name() == "session" {
            service.store = keys.has("store").then(|| keys.place_of("store"));
            let SessionSettings {
                secret,
                secret_file,
                ..
            } = &config.session;
            match at.outside.secret(secret, at.folder, secret_file.as_deref()) {
                Ok(secret) => service.secret = secret,
                Err(mistake) => {
                    let mut keys_of_it = ["secret_file", "secret"].into_iter();
                    let written = keys_of_it.find(|key| keys.has(key));
                    let place = keys.place_of(written.unwrap_or("secret"));
                    report.error(place, mistake.message, mistake.hint);
                    service.secret_lost = true;
                }
            }
        }
        if section.name() == "session" && config.session.fields.len() > STORED_MAX {
            let message = "a session has too many fields";
            let hint = format!("at most {STORED_MAX}; what is more belongs into a database");
            report.error(keys.place_of("fields"), message, hint);
        }
        if let Some(index) = keys
            .get("index")
            .and_then(|index| index.get_ref().as_table())
        {
            let leads = Keys::entries(&toml, index).into_iter();
            let both = |(from, to)| Some((from, text_of(&toml, to)?));
            service.index = leads.filter_map(both).collect();
        }
        if section.name() == "session"
            && let Some((missing, offset)) =
                keys.table("missing", "{ page = \"login.html\" }", report)
        {
            let keys = Keys::new(
                toml,
                missing,
                offset,
                &["page", "status", "with", "redirect", "flash"],
                report,
            );
            service.missing = read_instead(&keys, "page", report);
        }
    }
    service.errors = read_errors(&root, report);
    service.proxies = proxy::read(&root, report);
    let backends_lost = read_backends(&root, kinds, at, &mut service, report);
    let is_mistaken = report.errors() > before;
    service.fields_lost = is_mistaken;
    service.missing_lost = is_mistaken && service.missing.is_none();
    service.backends_lost = backends_lost || is_mistaken && service.backends.is_empty();
    service
}

/// Warns of a table's settings that do not go together, at the first that is written.
fn warn_of_together(table: &str, config: &ServiceConfig, keys: &Keys<'_, '_>, report: &mut Report) {
    let (mistake, settings): (_, &[&str]) = match table {
        "server" => {
            let times = &["drain_delay", "drain_timeout", "drain_grace"];
            (config.server.drain_mistake(), times)
        }
        "session" => (
            config.session.reserve_mistake(),
            &["reserve", "sessions_max"],
        ),
        "limits" => {
            let bytes = &["worker_bytes_max", "response_bytes_max"];
            (config.limits.held_mistake(), bytes)
        }
        _ => return,
    };
    if let Some(mistake) = mistake {
        let written = settings.iter().find(|key| keys.has(key));
        let place = keys.place_of(written.unwrap_or(&settings[0]));
        report.warning(place, mistake.message, mistake.hint);
    }
}

/// Reads the tables of backends. Whether a mistake of theirs is why one is absent.
fn read_backends<'a>(
    root: &Keys<'_, 'a>,
    kinds: &[BackendKind],
    at: At<'_>,
    service: &mut ServiceFile<'a>,
    report: &mut Report,
) -> bool {
    let toml = root.toml;
    let Some((tables, _)) = root.table("backend", "...", report) else {
        return false;
    };
    let mut lost = false;
    for (name, value) in Keys::entries(&toml, tables) {
        let DeValue::Table(table) = value.get_ref() else {
            lost = true;
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
        let keys = (toml, table, value.span().start);
        let (backend, place) = read_backend(keys, &name, kinds, at, report);
        service.backends.push(backend);
        service.backend_places.push(place);
    }
    lost
}

/// Reads a backend's table: the keys of all backends, and those of its kind's own.
fn read_backend<'a>(
    (toml, table, offset): (TomlText<'a>, &DeTable<'a>, usize),
    name: &Text<'a>,
    kinds: &[BackendKind],
    at: At<'_>,
    report: &mut Report,
) -> (BackendConfig, BackendPlace<'a>) {
    let own = |kind: &BackendKind| {
        let of_files = kind
            .keys
            .iter()
            .any(|key| key.name == URL)
            .then_some(URL_FILE);
        (kind.keys.iter().map(|key| key.name))
            .chain(of_files)
            .collect::<Vec<_>>()
    };
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
        folder: at.folder.to_owned(),
        pool: PoolSettings::default(),
        own: BTreeMap::new(),
        written: BTreeMap::new(),
        flags: KeyFlags::default(),
    };
    let mut place = BackendPlace {
        name: name.place,
        keys: Vec::new(),
    };
    for key in kind.map_or(&[][..], |kind| kind.keys) {
        if keys.has(key.name) {
            place.keys.push((key.name, keys.place_of(key.name)));
        }
        let (mut given, mut is_written) = (keys.own(key, at.outside, report), keys.has(key.name));
        if key.name == URL
            && let Some(file) = keys.text(URL_FILE, report)
        {
            if is_written {
                let hint = "remove one of them";
                report.error(file.place, "there are both `url` and `url_file`", hint);
            }
            is_written = true;
            let read = at.outside.of_file(key, at.folder, &file.value);
            given = read
                .map_err(|mistake| report.error(file.place, mistake.message, mistake.hint))
                .ok();
        }
        match given {
            Some(given) => backend.give(key.name, given),
            None => {
                backend.own.insert(key.name, key.default.owned());
                if is_written {
                    // What is wrong with calls of it cannot be told.
                    backend.kind = "";
                }
            }
        }
    }
    for definition in PoolSettings::DEFINITIONS {
        if let Some(value) = keys.setting(definition, report) {
            backend.pool.set(definition.key, value);
        }
    }
    (backend, place)
}

/// Reads `[errors]`: pages by status, or `default`.
fn read_errors<'a>(root: &Keys<'_, 'a>, report: &mut Report) -> Vec<ErrorDecl<'a>> {
    let mut errors = Vec::new();
    let Some((table, _)) = root.table("errors", "{ default = \"error.html\" }", report) else {
        return errors;
    };
    for (name, value) in Keys::entries(&root.toml, table) {
        let status = match &*name.value {
            "default" => None,
            text => {
                let status = text.parse().ok();
                let Some(status) = status.filter(|status| ERROR_STATUSES.contains(status)) else {
                    let statuses = ERROR_STATUSES.map(|status| status.to_string()).join(", ");
                    let message = format!("no error is answered with `{text}`");
                    let hint = format!("`default`, or one of {statuses}");
                    report.error(name.place, message, hint);
                    continue;
                };
                Some(status)
            }
        };
        match text_of(&root.toml, value) {
            Some(page) => errors.push(ErrorDecl { status, page }),
            None => {
                let hint = format!("{} = \"error.html\"", name.value);
                report.error(name.place, "an error page is a page file's name", hint);
            }
        }
    }
    errors
}
