//! What `service.toml` says of a backend.

use super::definition::{count, time, timeout};
use super::section::Section;
use super::value::Value;
use crate::section;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;

/// The value of a key that a kind of backend has of its own.
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

/// A key of a kind's own.
#[derive(Clone, Copy, Debug)]
pub struct BackendKey {
    /// The key.
    pub name: &'static str,
    /// What it does, for the documentation.
    pub about: &'static str,
    /// Its value where it is absent, by which its type is known, too.
    pub default: Setting<&'static str>,
    /// Whether it may have this value.
    pub check: fn(&Setting) -> bool,
    /// What is told whoever wrote something else.
    pub wrong: &'static str,
    /// What it may be, likewise.
    pub hint: &'static str,
}

/// A backend of `service.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendConfig {
    /// Its name, as calls give it.
    pub name: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// What backends of every kind have.
    pub pool: PoolSettings,
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

    /// Its table as `service.toml` has it, with all keys.
    pub fn to_toml(&self) -> String {
        let text = |text: &str| Value::Text(text.to_owned()).to_toml();
        let mut toml = format!("[backend.{}]\n", text(&self.name));
        // Writing to a string cannot fail.
        let _ = writeln!(toml, "kind = {}", text(self.kind));
        for (key, setting) in &self.own {
            let _ = match setting {
                Setting::Text(value) => writeln!(toml, "{key} = {}", text(value)),
                Setting::Int(value) => writeln!(toml, "{key} = {value}"),
            };
        }
        for definition in self.pool.definitions() {
            let (key, value) = (definition.key, self.pool.get(definition.key));
            let _ = writeln!(toml, "{key} = {}", value.to_toml());
        }
        toml
    }
}

section! {
    /// A backend: what backends of every kind have, beside `kind`.
    pub struct PoolSettings = "backend.NAME" {
        /// A call that takes longer fails; only its request is affected.
        timeout: Duration = Duration::from_secs(2); timeout(),
        /// After this the requests of a cohort that have their answers go on without the others,
        /// which join a later cohort. Never less than 100us.
        straggler_delay: Duration = Duration::from_millis(1); time(),
        /// How often a request is sent again where that is safe.
        retries: u32 = 1; count(0, 10),
        /// Connections to it from one worker at a time.
        connections_max: u32 = 16; count(1, 1024).was("connections"),
        /// Requests on one of its connections at a time, beyond one only while answers are prompt
        /// and where the request may be sent again.
        depth: Option<NonZeroU32> = None; count(1, 1024).or_none("what its kind gains from"),
        /// Most of these connections that wait for calls of one user (or, without a session, of one
        /// client's connection) at a time; the others of his calls wait.
        connections_per_user_max: Option<NonZeroU32> = None;
            count(1, 1024).or_none("half while others wait, all but an eighth while nobody does"),
        /// Most calls of one user under way or waiting at a time; beyond, they fail with 503.
        calls_per_user_max: u32 = 4096; count(1, 65_536),
        /// Calls that fail make it count as failing if they are so many, within a window, and most,
        /// of several users and for most of what is asked.
        circuit_failures: u32 = 20; count(1, 1_000_000),
        /// That window: what happened before counts half.
        circuit_window: Duration = Duration::from_secs(5); time(),
    }
}
