//! Flags that override settings. They are made from the settings' definitions, so that they read,
//! check and explain what `service.toml` does.

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use rhythm_engine::settings::{Definition, Origin, ServiceConfig, SettingKind, Value};

/// The settings that flags give.
#[derive(Clone, Debug)]
pub(crate) struct Overrides {
    given: Vec<(&'static str, &'static Definition, Value)>,
}

impl Overrides {
    /// Puts them in the place of what service.toml says.
    pub(crate) fn apply(&self, config: &mut ServiceConfig) {
        for (table, definition, value) in &self.given {
            config.set(table, definition, value.clone(), Origin::Flag);
        }
    }
}

/// A setting that has a flag.
struct Flag {
    table: &'static str,
    about: &'static str,
    name: &'static str,
    definition: &'static Definition,
}

impl Flag {
    fn all() -> Vec<Flag> {
        let config = ServiceConfig::default();
        let sections = config.sections().into_iter();
        let flags = sections.flat_map(|section| {
            section.definitions().iter().filter_map(|definition| {
                Some(Flag {
                    table: section.name(),
                    about: section.about(),
                    name: definition.rule.flag?,
                    definition,
                })
            })
        });
        flags.collect()
    }

    /// The flag that says that there is nothing, where there is something by default or may be.
    fn none(&self) -> Option<String> {
        self.definition
            .may_be_none()
            .then(|| format!("no-{}", self.name))
    }

    fn default(&self) -> Option<String> {
        let default = (self.definition.default)();
        match default {
            Value::None | Value::Switch(false) => None,
            Value::Number(0) => self.definition.rule.none.map(str::to_owned),
            default => Some(default.to_string()),
        }
    }

    fn args(&self) -> Vec<Arg> {
        let definition = self.definition;
        let mut help = definition.summary().to_owned();
        if matches!(definition.rule.kind, SettingKind::File) {
            help += " [relative to the current folder]";
        }
        if let Some(default) = self.default() {
            help += &format!(" [default: {default}]");
        }
        let heading = self.about.trim().trim_end_matches('.');
        let parser = match definition.rule.kind {
            SettingKind::Choice(words) => {
                ValueParser::new(PossibleValuesParser::new(words).map(Value::Text))
            }
            _ => ValueParser::new(|text: &str| match definition.read_flag(text) {
                Ok(value) => Ok(value),
                Err(mistake) if mistake.hint.is_empty() => Err(mistake.message),
                Err(mistake) => Err(format!("{}: {}", mistake.message, mistake.hint)),
            }),
        };
        let mut arg = Arg::new(self.name)
            .long(self.name)
            .help(help)
            .help_heading(heading)
            .value_name(definition.placeholder())
            .value_parser(parser);
        if matches!(definition.rule.kind, SettingKind::Switch) {
            let hidden = arg.num_args(0..=1).require_equals(true);
            arg = hidden.default_missing_value("true");
        }
        if matches!(definition.rule.kind, SettingKind::Addresses) {
            arg = arg.action(ArgAction::Append);
        }
        let mut args = vec![arg];
        if let (Some(none), Some(meaning)) = (self.none(), definition.rule.none) {
            let help = meaning[..1].to_uppercase() + &meaning[1..];
            args.push(
                Arg::new(none.clone())
                    .long(none)
                    .help(help)
                    .help_heading(heading)
                    .conflicts_with(self.name)
                    .action(ArgAction::SetTrue),
            );
        }
        args
    }
}

impl clap::Args for Overrides {
    fn augment_args(command: Command) -> Command {
        command.args(Flag::all().iter().flat_map(Flag::args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Overrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for flag in Flag::all() {
            let values = matches.get_many::<Value>(flag.name);
            let value = match values.and_then(|all| all.cloned().reduce(both)) {
                Some(value) => Some(value),
                None => (flag.none())
                    .is_some_and(|none| matches.get_flag(&none))
                    .then_some(Value::None),
            };
            if let Some(value) = value {
                given.push((flag.table, flag.definition, value));
            }
        }
        Ok(Overrides { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What a flag says that is there twice: all of its addresses.
fn both(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Addresses(mut all), Value::Addresses(more)) => {
            all.extend(more);
            Value::Addresses(all)
        }
        (_, second) => second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    fn parse(flags: &[&str]) -> Result<ServiceConfig, clap::Error> {
        let command = Overrides::augment_args(Command::new("rhythm"));
        let matches = command.try_get_matches_from([&["rhythm"], flags].concat())?;
        let mut config = ServiceConfig::default();
        Overrides::from_arg_matches(&matches)?.apply(&mut config);
        Ok(config)
    }

    /// What a setting can be beside its default, as a flag says it.
    fn other(definition: &Definition) -> String {
        let default = (definition.default)();
        match definition.rule.kind {
            SettingKind::Count(least, _) | SettingKind::Bytes(least, _) => (least + 1).to_string(),
            SettingKind::Duration(_) => "77ms".to_owned(),
            SettingKind::Choice(words) => {
                let is_other = |word: &&&str| Value::Text((**word).to_owned()) != default;
                (*words.iter().find(is_other).unwrap()).to_owned()
            }
            SettingKind::Switch => (default == Value::Switch(false)).to_string(),
            SettingKind::Address => "[::1]:77".to_owned(),
            SettingKind::Addresses => "[::1]:77 unix:/run/a.sock".to_owned(),
            SettingKind::File => "other".to_owned(),
            SettingKind::Text(read) => {
                let mut texts = ["other", "600", "1%", "http://127.0.0.1:4318"]
                    .into_iter()
                    .map(str::to_owned);
                texts.find(|text| read(text.clone()).is_ok()).unwrap()
            }
            SettingKind::Map(_) => panic!("no flag can say a table"),
        }
    }

    #[test]
    fn every_declared_flag_sets_its_setting_and_no_other() {
        let defaults = ServiceConfig::default();
        for flag in Flag::all() {
            let key = flag.definition.key;
            let text = other(flag.definition);
            let config = parse(&[&format!("--{}={text}", flag.name)]).unwrap();
            for section in config.sections() {
                let before = defaults.sections();
                let before = before.iter().find(|s| s.name() == section.name()).unwrap();
                for definition in section.definitions() {
                    let value = section.get(definition.key);
                    if (section.name(), definition.key) == (flag.table, key) {
                        assert_eq!(value.to_string(), text, "{key}");
                        assert_eq!(config.origin(flag.table, key), Origin::Flag);
                    } else {
                        assert_eq!(value, before.get(definition.key), "{key}");
                    }
                }
            }
        }
    }

    #[test]
    fn switches_need_no_value_and_what_may_be_left_out_can_be() {
        assert!(parse(&["--pin"]).unwrap().server.pin);
        assert!(!parse(&["--pin=false"]).unwrap().server.pin);
        assert_eq!(parse(&["--no-admin"]).unwrap().server.admin, None);
        assert_eq!(parse(&["--admin", "none"]).unwrap().server.admin, None);
        assert!(parse(&["--no-admin", "--admin", "[::1]:1"]).is_err());
        assert_eq!(parse(&[]).unwrap(), ServiceConfig::default());
    }

    #[test]
    fn addresses_may_be_said_together_and_one_by_one() {
        let flags = ["--listen", "[::1]:1 unix:/a", "--listen", "[::1]:2"];
        let listen = parse(&flags).unwrap().server.listen;
        assert_eq!(
            Value::Addresses(listen).to_string(),
            "[::1]:1 unix:/a [::1]:2"
        );
        assert!(parse(&["--listen", "unix:"]).is_err());
        assert!(parse(&["--admin", "[::1]:1", "--admin", "[::1]:2"]).is_err());
    }

    #[test]
    fn wrong_values_are_refused_with_what_would_be_right() {
        for (flag, right) in [
            ("--cohort-size=65537", "from 1 to 65536"),
            (
                "--workers=many",
                "`many` is no integer: `workers` is one from 1 to 1024; 0, the default, means one \
                 a core",
            ),
            ("--workers=99999999999999999999", "must be from 1 to 1024"),
            ("--cohort-delay=2", "such as \"2ms\""),
            ("--listen=here", "127.0.0.1:8080"),
            (
                "--access-log-format=xml",
                "[possible values: common, combined, json]",
            ),
        ] {
            let error = parse(&[flag]).unwrap_err().to_string();
            assert!(error.contains(right), "{error}");
        }
    }

    #[test]
    fn help_has_every_declared_flag_with_its_summary() {
        let help = Overrides::augment_args(Command::new("rhythm"));
        let help = help.term_width(1000).render_long_help().to_string();
        for flag in Flag::all() {
            assert!(help.contains(&format!("--{}", flag.name)), "{help}");
            assert!(help.contains(flag.definition.summary()), "{help}");
        }
    }
}
