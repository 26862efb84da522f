//! Definitions of settings: all that is known of one, said once.
//!
//! From a definition come how a file's value and a flag's are read and checked, the flag with its
//! help, what the documentation says, and whether a reload is enough for a change.

use super::duration;
use super::listen::{ListenAt, NoPlace};
use super::value::{NONE, Value};
use crate::diagnostic::did_you_mean;
use std::time::Duration;

/// A setting. [`section!`](crate::section) makes these.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its key in its table of `service.toml`.
    pub key: &'static str,
    /// What it does; the first sentence is what help shows.
    pub about: &'static str,
    /// Its value where nobody says another.
    pub default: fn() -> Value,
    /// What it may be.
    pub rule: Rule,
}

/// What a setting may be, and how it is set. Made by [`count`] and its like; the methods refine it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its type, unit and bounds.
    pub kind: SettingKind,
    /// What no value, or 0 for a number, means, where it may have none.
    pub none: Option<&'static str>,
    /// The flag of `rhythm serve` that overrides it, without dashes.
    pub flag: Option<&'static str>,
    /// Whether a change takes effect with the next start only, not with a reload.
    pub needs_restart: bool,
    /// The key it had in former versions.
    pub was: Option<&'static str>,
}

/// Type, unit and bounds of a setting.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// A number of something, from and to.
    Count(u32, u32),
    /// A number of bytes, from and to.
    Bytes(u32, u32),
    /// A time, from this one.
    Duration(Duration),
    /// One of some words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Switch,
    /// A place to listen at.
    Address,
    /// One or more places to listen at.
    Addresses,
    /// A file's path.
    File,
    /// A text, and what completes or refuses it.
    Text(fn(String) -> Result<String, Mistake>),
    /// Texts by their names, and what refuses a name with its text, or with what is none.
    Map(fn(&str, Option<&str>) -> Result<(), Mistake>),
}

/// A value that a setting cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl Mistake {
    /// A mistake.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// What a path looks like.
const FILE_FORM: &str = "such as \"access.log\"";

const fn rule(kind: SettingKind) -> Rule {
    Rule {
        kind,
        none: None,
        flag: None,
        needs_restart: false,
        was: None,
    }
}

/// A number of something within bounds.
pub const fn count(least: u32, most: u32) -> Rule {
    rule(SettingKind::Count(least, most))
}

/// A number of bytes within bounds.
pub const fn bytes(least: u32, most: u32) -> Rule {
    rule(SettingKind::Bytes(least, most))
}

/// A time.
pub const fn time() -> Rule {
    rule(SettingKind::Duration(Duration::ZERO))
}

/// A time after which something fails or ends: with none, everything would.
pub const fn timeout() -> Rule {
    rule(SettingKind::Duration(Duration::from_millis(1)))
}

/// One of some words.
pub const fn choice(words: &'static [&'static str]) -> Rule {
    rule(SettingKind::Choice(words))
}

/// On or off.
pub(crate) const fn switch() -> Rule {
    rule(SettingKind::Switch)
}

/// A place to listen at.
pub const fn address() -> Rule {
    rule(SettingKind::Address)
}

/// One or more places to listen at, separated by spaces.
pub(crate) const fn addresses() -> Rule {
    rule(SettingKind::Addresses)
}

/// A file's path.
pub const fn file() -> Rule {
    rule(SettingKind::File)
}

/// A text that `read` completes or refuses.
pub const fn text(read: fn(String) -> Result<String, Mistake>) -> Rule {
    rule(SettingKind::Text(read))
}

/// Texts by their names, of which `check` refuses some.
pub const fn map(check: fn(&str, Option<&str>) -> Result<(), Mistake>) -> Rule {
    rule(SettingKind::Map(check))
}

impl Rule {
    /// It may have no value, or be 0, which means this.
    pub(crate) const fn or_none(mut self, meaning: &'static str) -> Rule {
        self.none = Some(meaning);
        self
    }

    /// A flag overrides it.
    pub const fn flag(mut self, name: &'static str) -> Rule {
        self.flag = Some(name);
        self
    }

    /// A change needs a restart.
    pub(crate) const fn restart(mut self) -> Rule {
        self.needs_restart = true;
        self
    }

    /// It had this key.
    pub const fn was(mut self, key: &'static str) -> Rule {
        self.was = Some(key);
        self
    }
}

impl Definition {
    /// Reads an integer of a file.
    ///
    /// # Errors
    /// When the setting is no number, or not this one.
    pub(crate) fn read_integer(&self, integer: i64) -> Result<Value, Mistake> {
        let (SettingKind::Count(least, most) | SettingKind::Bytes(least, most)) = self.rule.kind
        else {
            let port = u16::try_from(integer).ok();
            return Err(match self.rule.kind {
                SettingKind::Address | SettingKind::Addresses => self.no_address(port),
                _ => self.mistyped(),
            });
        };
        let number = u32::try_from(integer).ok();
        match number.filter(|number| {
            (least..=most).contains(number) || *number == 0 && self.rule.none.is_some()
        }) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(self.must_be(&format!("from {least} to {most}"), self.default_hint())),
        }
    }

    /// Reads a string of a file.
    ///
    /// # Errors
    /// When the setting is no text, or not this one.
    pub(crate) fn read_text(&self, text: &str) -> Result<Value, Mistake> {
        if text == NONE && self.may_be_none() {
            return Ok(Value::None);
        }
        match self.rule.kind {
            SettingKind::Duration(least) => match duration::parse(text) {
                Ok(duration) if duration < least => {
                    let what = format!("at least {}", duration::format(least));
                    Err(self.must_be(&what, self.default_hint()))
                }
                Ok(duration) => Ok(Value::Duration(duration)),
                Err(_) => Err(self.must_be("a duration", duration::FORM)),
            },
            SettingKind::Choice(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Text((*word).to_owned())),
                None => Err(Mistake::new(
                    format!("`{}` cannot be `{text}`", self.key),
                    did_you_mean(text, words.iter().copied()),
                )),
            },
            SettingKind::Address => self.read_address(text).map(Value::Address),
            SettingKind::Addresses => self.read_addresses(text).map(Value::Addresses),
            SettingKind::File if text.is_empty() => Err(self.must_be("a file's path", FILE_FORM)),
            SettingKind::File => Ok(Value::Text(text.to_owned())),
            SettingKind::Text(read) => read(text.to_owned()).map(Value::Text),
            SettingKind::Count(..)
            | SettingKind::Bytes(..)
            | SettingKind::Switch
            | SettingKind::Map(_) => Err(self.mistyped()),
        }
    }

    fn read_address(&self, text: &str) -> Result<ListenAt, Mistake> {
        text.parse().map_err(|NoPlace| {
            let port = text.rsplit_once(':').map_or(text, |(_, port)| port);
            self.no_address(port.parse().ok())
        })
    }

    fn read_addresses(&self, text: &str) -> Result<Vec<ListenAt>, Mistake> {
        let mut all = Vec::new();
        for text in text.split_ascii_whitespace() {
            let address = self.read_address(text)?;
            if all.contains(&address) {
                let message = format!("`{}` has {address} twice", self.key);
                return Err(Mistake::new(message, "each address once"));
            }
            all.push(address);
        }
        match all.is_empty() {
            true => Err(self.no_address(None)),
            false => Ok(all),
        }
    }

    /// Reads what a flag says.
    ///
    /// # Errors
    /// When it is nothing the setting can be.
    pub fn read_flag(&self, text: &str) -> Result<Value, Mistake> {
        match self.rule.kind {
            SettingKind::Count(least, most) | SettingKind::Bytes(least, most) => {
                let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
                match text.parse() {
                    Ok(integer) => self.read_integer(integer),
                    // One that is too large for any setting.
                    Err(_) if is_number => self.read_integer(i64::MAX),
                    Err(_) => {
                        let (key, default) = (self.key, self.default_hint());
                        let hint = format!("`{key}` is one from {least} to {most}; {default}");
                        Err(Mistake::new(format!("`{text}` is no integer"), hint))
                    }
                }
            }
            SettingKind::Switch => match text.parse() {
                Ok(on) => Ok(Value::Switch(on)),
                Err(_) => Err(self.mistyped()),
            },
            _ => self.read_text(text),
        }
    }

    /// Whether it may have no value. A number without one is 0.
    pub fn may_be_none(&self) -> bool {
        let is_number = matches!(
            self.rule.kind,
            SettingKind::Count(..) | SettingKind::Bytes(..)
        );
        self.rule.none.is_some() && !is_number
    }

    /// The mistake of a value of another type.
    pub(crate) fn mistyped(&self) -> Mistake {
        match self.rule.kind {
            SettingKind::Count(least, most) | SettingKind::Bytes(least, most) => {
                let default = self.default_hint();
                self.must_be("an integer", format!("from {least} to {most}; {default}"))
            }
            SettingKind::Switch => self.must_be("true or false", "without quotes"),
            SettingKind::Map(_) => {
                let form = format!("{} = {{ \"...\" = \"...\" }}", self.key);
                self.must_be("a table", form)
            }
            SettingKind::Duration(_) => self.must_be("a duration in quotes", duration::FORM),
            SettingKind::Choice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                self.must_be("a string", words.join(" or "))
            }
            SettingKind::Address | SettingKind::Addresses => self.no_address(None),
            SettingKind::File => self.must_be("a string", FILE_FORM),
            SettingKind::Text(_) => {
                let default = (self.default)().to_toml();
                self.must_be("a string", format!("in quotes; the default is {default}"))
            }
        }
    }

    /// The mistake of what is no address, though it may be a port, or have one.
    fn no_address(&self, port: Option<u16>) -> Mistake {
        let port = port.unwrap_or(8080);
        let form = format!(
            "such as \"127.0.0.1:{port}\", for this machine alone, or \"0.0.0.0:{port}\", or \
             \"[::]:{port}\" with IPv6, or a Unix socket, \"unix:/run/site.sock\", which is a file"
        );
        let none = (self.rule.none).map(|none| format!("; \"none\": {none}"));
        let several = matches!(self.rule.kind, SettingKind::Addresses);
        let several = several.then_some("; several are separated by spaces");
        let form = form + several.unwrap_or_default() + none.as_deref().unwrap_or_default();
        self.must_be("an IP address and a port, or `unix:` and a path", form)
    }

    fn must_be(&self, what: &str, hint: impl Into<String>) -> Mistake {
        Mistake::new(format!("`{}` must be {what}", self.key), hint)
    }

    /// What a number is where nobody says another, and its unit.
    fn default_hint(&self) -> String {
        let unit = match self.rule.kind {
            SettingKind::Bytes(..) => " bytes",
            _ => "",
        };
        let default = (self.default)();
        match (&default, self.rule.none) {
            (Value::Number(0), Some(meaning)) => format!("0, the default, means {meaning}"),
            (_, Some(meaning)) => format!("0 means {meaning}; the default is {default}{unit}"),
            (_, None) => format!("the default is {default}{unit}"),
        }
    }

    /// Its unit or type, as help names a flag's value.
    pub fn placeholder(&self) -> &'static str {
        match self.rule.kind {
            SettingKind::Count(..) => "N",
            SettingKind::Bytes(..) => "BYTES",
            SettingKind::Duration(_) => "DURATION",
            SettingKind::Choice(_) => "CHOICE",
            SettingKind::Switch => "BOOL",
            SettingKind::Address | SettingKind::Addresses => "ADDR",
            SettingKind::File => "FILE",
            SettingKind::Text(_) | SettingKind::Map(_) => "TEXT",
        }
    }

    /// The first sentence of what it does, without its full stop.
    pub fn summary(&self) -> &'static str {
        let about = self.about.trim();
        let first = about.split_once(". ").map_or(about, |(first, _)| first);
        first.trim_end_matches('.')
    }
}
