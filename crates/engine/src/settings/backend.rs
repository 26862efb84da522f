//! What `service.toml` says of a backend.

use super::definition::{bytes, count, time, timeout};
use super::key::Setting;
use super::outside::Given;
use super::section::Section;
use super::value::Value;
use crate::section;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// A backend of `service.toml`.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendConfig {
    /// Its name, as calls give it.
    pub name: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// The service's folder, which paths of its keys are relative to.
    pub folder: PathBuf,
    /// What backends of every kind have.
    pub pool: PoolSettings,
    /// The keys of its kind's own, defaults filled in.
    pub own: BTreeMap<&'static str, Setting>,
    /// What is shown in place of those that are not to be seen, since they came from outside of
    /// `service.toml`: the key that was written, and its value.
    pub written: BTreeMap<&'static str, (String, String)>,
    /// What of its kind's own flags have said.
    pub flags: KeyFlags,
}

/// The flags that say keys of a backend in place of `service.toml`, each by its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFlags(BTreeMap<&'static str, String>);

impl KeyFlags {
    /// Has a flag say a key of a backend.
    pub fn add(&mut self, backend: &str, key: &'static str) {
        let flag = match key {
            "url" => format!("--backend {backend}=URL"),
            key => format!("--backend {backend}.{key}=..."),
        };
        self.0.insert(key, flag);
    }

    /// What is told of the backend, where keys stand in backquotes: with the flags in the place of
    /// those that they say.
    pub fn told(&self, text: &str) -> String {
        let mut told = text.to_owned();
        for (key, flag) in &self.0 {
            told = told.replace(&format!("`{key}`"), &format!("`{flag}`"));
        }
        told
    }
}

impl fmt::Debug for BackendConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}

impl BackendConfig {
    /// The keys of its kind's own and their values, as they may be shown.
    pub fn shown(&self) -> impl Iterator<Item = (&str, Setting<&str>)> {
        self.own
            .iter()
            .map(|(key, setting)| match (self.written.get(key), setting) {
                (Some((key, value)), _) => (key.as_str(), Setting::Text(value.as_str())),
                (None, Setting::Text(text)) => (*key, Setting::Text(text.as_str())),
                (None, Setting::Int(value)) => (*key, Setting::Int(*value)),
            })
    }

    /// Has a key of its kind's own be what was given.
    pub fn give(&mut self, key: &'static str, given: Given) {
        self.own.insert(key, given.value);
        match given.written {
            Some(written) => self.written.insert(key, written),
            None => self.written.remove(key),
        };
    }

    /// A string of its kind's own, as it may be shown.
    ///
    /// # Panics
    /// As [`BackendConfig::text`].
    pub fn shown_text(&self, key: &str) -> &str {
        match self.written.get(key) {
            Some((_, value)) => value,
            None => self.text(key),
        }
    }

    /// A string of its kind's own.
    ///
    /// # Panics
    /// If its kind has no such key, or it is an integer: the caller's mistake.
    pub fn text(&self, key: &str) -> &str {
        self.own(key).text()
    }

    /// An integer of its kind's own.
    ///
    /// # Panics
    /// If its kind has no such key, or it is a string: the caller's mistake.
    pub fn int(&self, key: &str) -> i64 {
        self.own(key).int()
    }

    fn own(&self, key: &str) -> &Setting {
        match self.own.get(key) {
            Some(setting) => setting,
            None => unreachable!("backends of kind {} have no key {key}", self.kind),
        }
    }

    /// Its table as `service.toml` has it, with all keys.
    pub fn to_toml(&self) -> String {
        let text = |text: &str| Value::Text(text.to_owned()).to_toml();
        let mut toml = format!("[backend.{}]\n", text(&self.name));
        // Writing to a string cannot fail.
        let _ = writeln!(toml, "kind = {}", text(self.kind));
        for (key, setting) in self.shown() {
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
        retries_max: u32 = 1; count(0, 10).was("retries"),
        /// Connections to it from one worker at a time.
        connections_max: u32 = 16; count(1, 1024).was("connections"),
        /// Requests on one of its connections at a time, beyond one only while answers are prompt
        /// and where the request may be sent again.
        depth_max: Option<NonZeroU32> = None;
            count(1, 1024).or_none("what its kind gains from").was("depth"),
        /// Most of these connections that wait for calls of one user at a time; the others of his
        /// calls wait. By what cannot be sent again, all users hold no more than that together
        /// beyond one each; with 0, a quarter. Who has no session is one with all of his address
        /// (for IPv6, a network of 64 bits), or by himself on his connection where
        /// `failed_sign_ins_per_address_max` and `connections_per_address_max` are 0, as behind a
        /// proxy.
        connections_per_user_max: Option<NonZeroU32> = None;
            count(1, 1024).or_none("half while others wait, all but an eighth while nobody does"),
        /// Most calls of one user under way or waiting at a time; beyond, they fail with 503.
        calls_per_user_max: u32 = 4096; count(1, 65_536),
        /// Bytes of a request: what its call says, and its arguments before they are encoded (a
        /// file as `hex` has twice its bytes). A longer one is not sent, and answers 500.
        request_bytes_max: u32 = 16_384; bytes(1024, 16 << 20),
        /// Calls that fail make it count as failing if they are so many, within a window, and most,
        /// of several users and for most of what is asked.
        circuit_failures: u32 = 20; count(1, 1_000_000),
        /// That window: what happened before counts half.
        circuit_window: Duration = Duration::from_secs(5); time(),
        /// How often the name in its address is looked up again, as it is within a second or two
        /// while the backend fails as a whole. 0s: with the service alone.
        look_up_every: Duration = Duration::from_secs(30); time(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn what_a_flag_has_said_is_told_by_its_flag() {
        let mut flags = KeyFlags::default();
        flags.add("shop", "url");
        flags.add("shop", "password_file");
        assert_eq!(
            flags.told("see `url`, `password_file` and `tls_ca`"),
            "see `--backend shop=URL`, `--backend shop.password_file=...` and `tls_ca`"
        );
    }

    #[test]
    fn a_key_that_a_kind_does_not_have_is_no_value() {
        let own = [
            ("url", Setting::Text("there".to_owned())),
            ("users", Setting::Int(7)),
        ];
        let config = BackendConfig {
            name: "bank".to_owned(),
            kind: "made",
            folder: PathBuf::new(),
            pool: PoolSettings::default(),
            own: own.into(),
            written: BTreeMap::new(),
            flags: KeyFlags::default(),
        };
        assert_eq!((config.text("url"), config.int("users")), ("there", 7));
        for key in ["url", "other"] {
            assert!(catch_unwind(|| config.int(key)).is_err(), "{key}");
        }
        for key in ["users", "other"] {
            assert!(catch_unwind(|| config.text(key).len()).is_err(), "{key}");
        }
    }
}
