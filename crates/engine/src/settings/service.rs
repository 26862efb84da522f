//! The settings in effect, and where each comes from.

use super::definition::Definition;
use super::section::Section;
use super::tables::{
    CohortSettings, GzipSettings, HeaderSettings, Limits, ServerSettings, ServiceSettings,
    SessionSettings, StaticSettings, TlsSettings,
};
use super::trace::TraceSettings;
use super::value::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where a setting's value comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    Default,
    /// `service.toml`.
    File,
    /// A flag of the command line, which overrides the file.
    Flag,
}

impl Origin {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::File => "file",
            Origin::Flag => "flag",
        }
    }
}

/// The tables whose settings are the whole server's, where it has several services.
const OF_SERVER: [&str; 4] = ["server", "cohort", "trace", "limits"];

/// All settings of a service but its backends'. The fields are the tables of `service.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// `[service]`
    pub service: ServiceSettings,
    /// `[server]`
    pub server: ServerSettings,
    /// `[tls]`
    pub tls: TlsSettings,
    /// `[static]`
    pub statics: StaticSettings,
    /// `[session]`
    pub session: SessionSettings,
    /// `[headers]`
    pub headers: HeaderSettings,
    /// `[gzip]`
    pub gzip: GzipSettings,
    /// `[cohort]`
    pub cohort: CohortSettings,
    /// `[trace]`
    pub trace: TraceSettings,
    /// `[limits]`
    pub limits: Limits,
    /// By table and key; what is not here is a default.
    origins: BTreeMap<(&'static str, &'static str), Origin>,
}

impl ServiceConfig {
    /// The tables, in the order in which they are shown.
    pub fn sections(&self) -> [&dyn Section; 10] {
        [
            &self.service,
            &self.server,
            &self.tls,
            &self.statics,
            &self.session,
            &self.headers,
            &self.gzip,
            &self.cohort,
            &self.trace,
            &self.limits,
        ]
    }

    fn section_mut(&mut self, table: &str) -> &mut dyn Section {
        let sections: [&mut dyn Section; 10] = [
            &mut self.service,
            &mut self.server,
            &mut self.tls,
            &mut self.statics,
            &mut self.session,
            &mut self.headers,
            &mut self.gzip,
            &mut self.cohort,
            &mut self.trace,
            &mut self.limits,
        ];
        let found = (sections.into_iter()).find(|section| section.name() == table);
        found.unwrap_or_else(|| panic!("service.toml has no table [{table}]"))
    }

    /// Sets what a definition of this table has read.
    ///
    /// # Panics
    /// When the table has no such setting.
    pub fn set(
        &mut self,
        table: &'static str,
        definition: &Definition,
        value: Value,
        origin: Origin,
    ) {
        self.section_mut(table).set(definition.key, value);
        self.origins.insert((table, definition.key), origin);
    }

    /// Where a setting's value comes from.
    pub fn origin(&self, table: &str, key: &str) -> Origin {
        self.origins.get(&(table, key)).copied().unwrap_or_default()
    }

    /// Every setting: its table, its definition and its value.
    fn all(&self) -> impl Iterator<Item = (&'static str, &'static Definition, Value)> {
        self.sections().into_iter().flat_map(|section| {
            let of = move |definition: &'static Definition| {
                (section.name(), definition, section.get(definition.key))
            };
            section.definitions().iter().map(of)
        })
    }

    /// What is in effect once a server that was started with this has read `reloaded`, and the
    /// settings, as `table.key`, of which it keeps the old values until it is started again.
    pub fn reloaded(&self, reloaded: &ServiceConfig) -> (ServiceConfig, Vec<String>) {
        let mut config = reloaded.clone();
        let mut kept = Vec::new();
        let both = self.all().zip(reloaded.all());
        for ((table, definition, old), (_, _, new)) in both {
            if definition.rule.needs_restart {
                if old != new {
                    kept.push(format!("{table}.{}", definition.key));
                }
                let origin = self.origin(table, definition.key);
                config.set(table, definition, old, origin);
            }
        }
        (config, kept)
    }

    /// Has the services of one server agree on the settings that are the whole server's, in the
    /// tables `[server]`, `[cohort]`, `[trace]` and `[limits]`: what one says holds for those that
    /// say none.
    ///
    /// # Errors
    /// Two say different things; the sentence has their names.
    pub fn agree(configs: &mut [(&str, &mut ServiceConfig)]) -> Result<(), String> {
        let defaults = ServiceConfig::default();
        let of_server =
            |(table, ..): &(&'static str, &'static Definition, Value)| OF_SERVER.contains(table);
        for (table, definition, _) in defaults.all().filter(of_server) {
            let key = definition.key;
            let said = |(_, config): &&(&str, &mut ServiceConfig)| {
                config.origin(table, key) != Origin::Default
            };
            let Some((first, config)) = configs.iter().find(said) else {
                continue;
            };
            let (value, origin) = (config.value(table, key), config.origin(table, key));
            let differs =
                |(_, config): &&(&str, &mut ServiceConfig)| config.value(table, key) != value;
            if let Some((other, config)) = configs.iter().filter(said).find(differs) {
                let others = config.value(table, key);
                return Err(format!(
                    "`{key}` of [{table}] is {} in service {first}, and {} in service {other}: it \
                     is the whole server's; say it in one of them, or the same in both",
                    value.to_toml(),
                    others.to_toml()
                ));
            }
            for (_, config) in configs.iter_mut() {
                config.set(table, definition, value.clone(), origin);
            }
        }
        Ok(())
    }

    /// The value of a setting of this table.
    fn value(&self, table: &str, key: &'static str) -> Value {
        let sections = self.sections();
        let found = (sections.iter()).find(|section| section.name() == table);
        let section = found.unwrap_or_else(|| panic!("service.toml has no table [{table}]"));
        section.get(key)
    }

    /// The settings as a `service.toml` that sets them all, each with where it comes from.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = writeln!(toml, "{text}");
        };
        for (index, section) in self.sections().into_iter().enumerate() {
            let table = section.name();
            line(format_args!(
                "{}[{table}]",
                if index == 0 { "" } else { "\n" }
            ));
            for definition in section.definitions() {
                let key = definition.key;
                let value = section.get(key).to_toml();
                let origin = self.origin(table, key).name();
                line(format_args!("{:42} # {origin}", format!("{key} = {value}")));
            }
        }
        toml
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a service say a setting of [limits] or [server].
    fn say(config: &mut ServiceConfig, table: &'static str, key: &str, text: &str) {
        let all = config.all();
        let mut found = all.filter(|(of, definition, _)| (*of, definition.key) == (table, key));
        let (_, definition, _) = found.next().expect("there is one");
        drop(found);
        let value = definition.read_flag(text).expect("it can be read");
        config.set(table, definition, value, Origin::File);
    }

    #[test]
    fn services_of_one_server_agree_on_what_is_its() {
        let [mut bank, mut shop] = [(); 2].map(|()| ServiceConfig::default());
        say(&mut bank, "limits", "body_bytes_max", "9");
        say(&mut shop, "server", "workers", "3");
        for config in [&mut bank, &mut shop] {
            say(config, "cohort", "size", "7");
        }
        say(&mut bank, "session", "cookie_secure", "true");
        let mut both = [("bank", &mut bank), ("shop", &mut shop)];
        assert_eq!(ServiceConfig::agree(&mut both), Ok(()));
        for config in [&bank, &shop] {
            assert_eq!(config.limits.body_bytes_max, 9);
            assert_eq!(config.origin("limits", "body_bytes_max"), Origin::File);
            assert_eq!(config.server.workers.map(|it| it.get()), Some(3));
            assert_eq!(config.cohort.size, 7);
            assert_eq!(config.origin("limits", "head_bytes_max"), Origin::Default);
        }
        assert!(bank.session.cookie_secure && !shop.session.cookie_secure);
        say(&mut shop, "limits", "body_bytes_max", "10");
        let mut both = [("bank", &mut bank), ("shop", &mut shop)];
        let why = ServiceConfig::agree(&mut both).expect_err("they differ");
        assert!(
            why.contains("is 9 in service bank, and 10 in service shop"),
            "{why}"
        );
        assert_eq!(shop.limits.body_bytes_max, 10);
    }
}
