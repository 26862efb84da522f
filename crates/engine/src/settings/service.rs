//! The settings in effect, and where each comes from.

use super::definition::Definition;
use super::section::Section;
use super::tables::{
    CohortSettings, GzipSettings, HeaderSettings, Limits, ServerSettings, ServiceSettings,
    SessionSettings, StaticSettings,
};
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

/// All settings of a service but its backends'. The fields are the tables of `service.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// `[service]`
    pub service: ServiceSettings,
    /// `[server]`
    pub server: ServerSettings,
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
    /// `[limits]`
    pub limits: Limits,
    /// By table and key; what is not here is a default.
    origins: BTreeMap<(&'static str, &'static str), Origin>,
}

impl ServiceConfig {
    /// The tables, in the order in which they are shown.
    pub fn sections(&self) -> [&dyn Section; 8] {
        [
            &self.service,
            &self.server,
            &self.statics,
            &self.session,
            &self.headers,
            &self.gzip,
            &self.cohort,
            &self.limits,
        ]
    }

    fn section_mut(&mut self, table: &str) -> &mut dyn Section {
        let sections: [&mut dyn Section; 8] = [
            &mut self.service,
            &mut self.server,
            &mut self.statics,
            &mut self.session,
            &mut self.headers,
            &mut self.gzip,
            &mut self.cohort,
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
