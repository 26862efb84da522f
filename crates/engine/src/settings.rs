//! What `service.toml` configures, as plain values with their defaults.

use std::collections::BTreeMap;

/// What `service.toml` says, defaults filled in. Durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// The service's name, for logs and metrics.
    pub name: String,
    /// The path under which files of `static/` are served; begins and ends with `/`.
    pub static_mount: String,
    /// Paths that redirect to others, such as `/` to a page.
    pub redirects: BTreeMap<String, String>,
    /// Sessions.
    pub session: SessionConfig,
    /// When cohorts are launched.
    pub cohort: CohortConfig,
    /// Limits on clients and answers.
    pub limits: Limits,
}

/// The session array and its cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The cookie's name.
    pub cookie: String,
    /// Sessions at once.
    pub capacity: u32,
    /// A session unused for so long is over.
    pub idle_timeout_ns: u64,
}

/// When a cohort is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CohortPolicy {
    /// As soon as the device is free and no more input waits, at the latest when full or after the
    /// delay.
    WorkConserving,
    /// When full or after the delay.
    Fixed,
}

/// How cohorts form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CohortConfig {
    /// When a cohort is launched.
    pub policy: CohortPolicy,
    /// Most lanes.
    pub size: u32,
    /// Longest time a request waits for others.
    pub delay_ns: u64,
}

/// Limits on clients and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub max_connections: u32,
    /// Bytes of request line and headers.
    pub head_bytes: u32,
    /// Header fields in a request.
    pub headers: u32,
    /// Bytes of a request's body.
    pub body_bytes: u32,
    /// Time to send the head.
    pub header_timeout_ns: u64,
    /// Time to send the body.
    pub body_timeout_ns: u64,
    /// Time between two requests of a connection.
    pub idle_timeout_ns: u64,
    /// Requests after which a connection is closed; 0: any number.
    pub requests_per_connection: u32,
    /// Bytes of an answer's body.
    pub response_bytes: u32,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        ServiceConfig {
            name: "service".to_owned(),
            static_mount: "/static/".to_owned(),
            redirects: BTreeMap::new(),
            session: SessionConfig {
                cookie: "rhythm_session".to_owned(),
                capacity: 262_144,
                idle_timeout_ns: 30 * 60 * SECOND,
            },
            cohort: CohortConfig {
                policy: CohortPolicy::WorkConserving,
                size: 1024,
                delay_ns: 2_000_000,
            },
            limits: Limits {
                max_connections: 20_000,
                head_bytes: 16_384,
                headers: 100,
                body_bytes: 65_536,
                header_timeout_ns: 10 * SECOND,
                body_timeout_ns: 30 * SECOND,
                idle_timeout_ns: 60 * SECOND,
                requests_per_connection: 0,
                response_bytes: 8 << 20,
            },
        }
    }
}

/// The value of a kind's own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting<T = String> {
    /// A string.
    Text(T),
    /// An integer.
    Int(i64),
}

impl<T: AsRef<str>> Setting<T> {
    /// The string; empty for an integer.
    pub fn text(&self) -> &str {
        match self {
            Setting::Text(text) => text.as_ref(),
            Setting::Int(_) => "",
        }
    }

    /// The integer; 0 for a string.
    pub fn int(&self) -> i64 {
        match self {
            Setting::Text(_) => 0,
            Setting::Int(value) => *value,
        }
    }
}

/// A backend of `service.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendConfig {
    /// Its name, as calls give it.
    pub name: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// A call that takes longer fails.
    pub timeout_ns: u64,
    /// How often a request is sent again where that is safe.
    pub retries: u32,
    /// Most connections to it from one worker.
    pub connections: u32,
    /// The keys of its kind's own, defaults filled in.
    pub own: BTreeMap<&'static str, Setting>,
}

impl BackendConfig {
    /// A string of its kind's own; empty where the kind has no such key.
    pub fn text(&self, key: &str) -> &str {
        self.own.get(key).map_or("", Setting::text)
    }

    /// An integer of its kind's own; 0 where the kind has no such key.
    pub fn int(&self, key: &str) -> i64 {
        self.own.get(key).map_or(0, Setting::int)
    }
}
