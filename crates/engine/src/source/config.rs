//! Reads the configuration of a service: `service.toml`.

use super::declaration::AnswerDecl;
use super::keys::{Keys, TomlText, text_of};
use super::step::read_answer;
use crate::diagnostic::{Place, Report, did_you_mean};
use crate::settings::{BackendConfig, BackendKind, CohortPolicy, Limits, ServiceConfig};
use rhythm_protocol::http::head::is_token;
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
    let known = [
        "service", "static", "session", "cohort", "limits", "backend",
    ];
    let root = Keys::new(toml, &table, 0, &known, report);
    let config = &mut service.config;

    if let Some(keys) = section(&root, "service", &["name"], report) {
        set(
            &mut config.name,
            keys.text("name", report).map(|text| text.value),
        );
    }
    if let Some(keys) = section(&root, "static", &["mount", "index"], report) {
        if let Some(mount) = keys.text("mount", report) {
            if !mount.value.starts_with('/') {
                report.error(
                    mount.place,
                    "`mount` must begin with `/`",
                    "such as \"/static/\"",
                );
            }
            config.static_mount = mount.value;
            if !config.static_mount.ends_with('/') {
                config.static_mount.push('/');
            }
        }
        if let Some((index, _)) = keys.table("index", report) {
            for (from, to) in Keys::entries(&toml, index) {
                match text_of(&toml, to) {
                    Some(to) if from.value.starts_with('/') => {
                        config.redirects.insert(from.value, to.value);
                    }
                    _ => {
                        let message = "`index` maps paths that begin with `/` to others";
                        report.error(from.place, message, "index = { \"/\" = \"/home\" }");
                    }
                }
            }
        }
    }
    let known = ["cookie", "capacity", "idle_timeout", "missing"];
    if let Some(keys) = section(&root, "session", &known, report) {
        let session = &mut config.session;
        if let Some(cookie) = keys.text("cookie", report) {
            if !is_token(cookie.value.as_bytes()) {
                let hint = "letters, digits, `_` and `-` (RFC 6265, section 4.1.1)";
                report.error(cookie.place, "this is no cookie name", hint);
            }
            session.cookie = cookie.value;
        }
        set_u32(
            &mut session.capacity,
            keys.int("capacity", 1..=1 << 28, report),
        );
        set(
            &mut session.idle_timeout_ns,
            keys.duration("idle_timeout", report),
        );
        if let Some((missing, offset)) = keys.table("missing", report) {
            let keys = Keys::new(toml, missing, offset, &["page", "status", "with"], report);
            service.missing = read_answer(&keys, "page", report);
        }
    }
    if let Some(keys) = section(&root, "cohort", &["policy", "size", "delay"], report) {
        let policies = [
            ("work-conserving", CohortPolicy::WorkConserving),
            ("fixed", CohortPolicy::Fixed),
        ];
        set(
            &mut config.cohort.policy,
            keys.choice("policy", &policies, report),
        );
        set_u32(
            &mut config.cohort.size,
            keys.int("size", 1..=65_536, report),
        );
        set(&mut config.cohort.delay_ns, keys.duration("delay", report));
    }
    read_limits(&root, &mut config.limits, report);
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
            let known = ["kind", "url", "users", "timeout", "retries", "connections"];
            let keys = Keys::new(toml, table, value.span().start, &known, report);
            service
                .backends
                .push(read_backend(&keys, name.value, name.place, report));
        }
    }
    service
}

fn read_limits(root: &Keys<'_, '_>, limits: &mut Limits, report: &mut Report) {
    let known = [
        "max_connections",
        "head_bytes",
        "headers",
        "body_bytes",
        "header_timeout",
        "body_timeout",
        "idle_timeout",
        "requests_per_connection",
        "response_bytes",
    ];
    let Some(keys) = section(root, "limits", &known, report) else {
        return;
    };
    set_u32(
        &mut limits.max_connections,
        keys.int("max_connections", 1..=1 << 24, report),
    );
    set_u32(
        &mut limits.head_bytes,
        keys.int("head_bytes", 512..=1 << 20, report),
    );
    set_u32(&mut limits.headers, keys.int("headers", 8..=10_000, report));
    set_u32(
        &mut limits.body_bytes,
        keys.int("body_bytes", 0..=1 << 30, report),
    );
    set(
        &mut limits.header_timeout_ns,
        keys.duration("header_timeout", report),
    );
    set(
        &mut limits.body_timeout_ns,
        keys.duration("body_timeout", report),
    );
    set(
        &mut limits.idle_timeout_ns,
        keys.duration("idle_timeout", report),
    );
    let requests = keys.int("requests_per_connection", 0..=u32::MAX.into(), report);
    set_u32(&mut limits.requests_per_connection, requests);
    set_u32(
        &mut limits.response_bytes,
        keys.int("response_bytes", 1024..=1 << 30, report),
    );
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
        timeout_ns: 2_000_000_000,
        retries: 1,
        connections: 16,
    };
    set_u32(&mut backend.users, keys.int("users", 1..=1 << 30, report));
    set(&mut backend.timeout_ns, keys.duration("timeout", report));
    set_u32(&mut backend.retries, keys.int("retries", 0..=10, report));
    set_u32(
        &mut backend.connections,
        keys.int("connections", 1..=1024, report),
    );
    backend
}

fn section<'t, 'a>(
    root: &Keys<'t, 'a>,
    name: &str,
    known: &[&str],
    report: &mut Report,
) -> Option<Keys<'t, 'a>> {
    let (table, offset) = root.table(name, report)?;
    Some(Keys::new(root.toml, table, offset, known, report))
}

fn set<T>(to: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *to = value;
    }
}

/// Sets an integer that its bounds keep within 32 bits.
fn set_u32(to: &mut u32, value: Option<i64>) {
    set(to, value.and_then(|value| u32::try_from(value).ok()));
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
