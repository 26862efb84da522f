//! TOML tables with known keys: `service.toml` and the headers of pages are read through these.
//!
//! Every value is taken by key and type; what is missing, of another type, out of bounds or unknown
//! is reported where it stands.

use super::toml_syntax;
use crate::diagnostic::{Place, Report, did_you_mean};
use crate::settings::{
    BackendKey, Definition, Given, Mistake, Outside, Setting, SettingKind, Value,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A file in which TOML stands, from an offset on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TomlText<'a> {
    /// The file's name.
    pub(crate) file: &'a str,
    /// The whole file.
    pub(crate) text: &'a str,
    /// The TOML's part of it.
    pub(crate) start: usize,
    /// Where that ends.
    pub(crate) end: usize,
}

impl<'a> TomlText<'a> {
    pub(crate) fn place(&self, offset: usize) -> Place<'a> {
        Place {
            file: self.file,
            text: self.text,
            offset: self.start + offset,
        }
    }

    /// Parses it, or reports its syntax errors.
    pub(crate) fn parse(&self, report: &mut Report) -> Option<DeTable<'a>> {
        let text = &self.text[self.start..self.end];
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            toml_syntax::report(&errors, text, |offset| self.place(offset), report);
            return None;
        }
        Some(table.into_inner())
    }
}

/// A string of a TOML file, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Text<'a> {
    /// What it says.
    pub(crate) value: String,
    /// Where its first character stands.
    pub(crate) place: Place<'a>,
    /// Whether the file has the string's characters as they are, so that offsets into it are
    /// offsets in the file.
    pub(crate) exact: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(toml: &TomlText<'a>, value: &str, span: std::ops::Range<usize>) -> Text<'a> {
        let raw = (toml.text).get(toml.start + span.start..toml.start + span.end);
        let inside = raw.and_then(|raw| raw.find(value));
        Text {
            value: value.to_owned(),
            place: toml.place(span.start + inside.unwrap_or(0)),
            exact: inside.is_some(),
        }
    }

    /// The place of a byte of it.
    pub(crate) fn at(&self, offset: usize) -> Place<'a> {
        Place {
            offset: self.place.offset + if self.exact { offset } else { 0 },
            ..self.place
        }
    }
}

/// A table whose keys are known.
pub(crate) struct Keys<'t, 'a> {
    pub(crate) toml: TomlText<'a>,
    table: &'t DeTable<'a>,
    /// Where the table begins, for what is missing in it.
    pub(crate) place: Place<'a>,
    /// Whether it has keys that are not known: what is missing may be what they were meant for.
    has_unknown: bool,
}

impl<'t, 'a> Keys<'t, 'a> {
    /// Reports the keys of the table that are not known.
    pub(crate) fn new(
        toml: TomlText<'a>,
        table: &'t DeTable<'a>,
        offset: usize,
        known: &[&str],
        report: &mut Report,
    ) -> Keys<'t, 'a> {
        Keys::named(toml, table, offset, known, |_| None, report)
    }

    /// A table of settings, and of other keys. Keys that settings had once are reported with those
    /// that they have now, and others with what `elsewhere` tells of them.
    pub(crate) fn of_settings(
        toml: TomlText<'a>,
        table: &'t DeTable<'a>,
        offset: usize,
        settings: &'static [Definition],
        others: &[&str],
        elsewhere: impl Fn(&str) -> Option<String>,
        report: &mut Report,
    ) -> Keys<'t, 'a> {
        let known: Vec<&str> = (settings.iter().map(|setting| setting.key))
            .chain(others.iter().copied())
            .collect();
        let told = |key: &str| {
            let is = |setting: &&Definition| setting.rule.was == Some(key);
            match settings.iter().find(is) {
                Some(setting) => Some(format!("it is called `{}` now", setting.key)),
                None => elsewhere(key),
            }
        };
        Keys::named(toml, table, offset, &known, told, report)
    }

    /// As [`Keys::new`], but `told` may know what an unknown key is, for the hint.
    pub(crate) fn named(
        toml: TomlText<'a>,
        table: &'t DeTable<'a>,
        offset: usize,
        known: &[&str],
        told: impl Fn(&str) -> Option<String>,
        report: &mut Report,
    ) -> Keys<'t, 'a> {
        let mut has_unknown = false;
        for (key, _) in table {
            if !known.contains(&key.get_ref().as_ref()) {
                has_unknown = true;
                let hint = told(key.get_ref())
                    .unwrap_or_else(|| did_you_mean(key.get_ref(), known.iter().copied()));
                report.error(
                    toml.place(key.span().start),
                    format!("unknown key `{}`", key.get_ref()),
                    hint,
                );
            }
        }
        Keys {
            toml,
            table,
            place: toml.place(offset),
            has_unknown,
        }
    }

    /// The value of a setting, where the table has a right one.
    pub(crate) fn setting(&self, definition: &Definition, report: &mut Report) -> Option<Value> {
        let value = self.get(definition.key)?;
        let mut place = self.toml.place(value.span().start);
        let read = match (value.get_ref(), definition.rule.kind) {
            (DeValue::Integer(integer), _) => {
                let integer = i64::from_str_radix(integer.as_str(), integer.radix());
                // What has more than 64 bits is out of all bounds.
                definition.read_integer(integer.unwrap_or(i64::MAX))
            }
            (DeValue::String(text), _) => {
                place = Text::new(&self.toml, text, value.span()).place;
                definition.read_text(text)
            }
            (DeValue::Boolean(on), SettingKind::Switch) => Ok(Value::Switch(*on)),
            (DeValue::Table(table), SettingKind::Map(check)) => {
                return Some(Value::Map(self.map(table, check, report)));
            }
            _ => Err(definition.mistyped()),
        };
        let report_it = |mistake: Mistake| report.error(place, mistake.message, mistake.hint);
        read.map_err(report_it).ok()
    }

    /// The right ones of the texts that an author named.
    fn map(
        &self,
        table: &'t DeTable<'a>,
        check: fn(&str, Option<&str>) -> Result<(), Mistake>,
        report: &mut Report,
    ) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        for (name, value) in Keys::entries(&self.toml, table) {
            let text = text_of(&self.toml, value).map(|text| text.value);
            if let Err(mistake) = check(&name.value, text.as_deref()) {
                report.error(name.place, mistake.message, mistake.hint);
            } else if let Some(text) = text {
                map.insert(name.value, text);
            }
        }
        map
    }

    /// Reads a table whose keys are names given by the author, in the order of the file.
    pub(crate) fn entries(
        toml: &TomlText<'a>,
        table: &'t DeTable<'a>,
    ) -> Vec<(Text<'a>, &'t Spanned<DeValue<'a>>)> {
        let mut entries: Vec<_> = (table.iter())
            .map(|(key, value): (&Spanned<DeString<'a>>, _)| {
                (Text::new(toml, key.get_ref(), key.span()), value)
            })
            .collect();
        entries.sort_by_key(|(key, _)| key.place.offset);
        entries
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A key that is there, as a text.
    pub(crate) fn key_text(&self, key: &str) -> Text<'a> {
        Text {
            value: key.to_owned(),
            place: self.key_place(key),
            exact: false,
        }
    }

    /// The place of a key, or of the table where it is absent.
    pub(crate) fn key_place(&self, key: &str) -> Place<'a> {
        let found = self.table.get_key_value(key);
        found.map_or(self.place, |(key, _)| self.toml.place(key.span().start))
    }

    /// Whether a key is missing, and nothing else that is reported tells why.
    pub(crate) fn lacks(&self, key: &str) -> bool {
        !self.has(key) && !self.has_unknown
    }

    /// The place of a key's value, or of the table where the key is absent.
    pub(crate) fn place_of(&self, key: &str) -> Place<'a> {
        self.get(key)
            .map_or(self.place, |value| self.toml.place(value.span().start))
    }

    fn mistyped(&self, key: &str, wanted: &str, form: &str, report: &mut Report) {
        let message = format!("`{key}` must be {wanted}");
        report.error(self.place_of(key), message, format!("{key} = {form}"));
    }

    /// What a key's value would be as a string.
    fn quoted(&self, key: &str) -> String {
        match self.get(key).map(Spanned::get_ref) {
            Some(DeValue::Integer(number)) => format!("\"{}\"", number.as_str()),
            Some(DeValue::Boolean(value)) => format!("\"{value}\""),
            _ => "\"...\"".to_owned(),
        }
    }

    pub(crate) fn text(&self, key: &str, report: &mut Report) -> Option<Text<'a>> {
        let value = self.get(key)?;
        let text = text_of(&self.toml, value);
        if text.is_none() {
            self.mistyped(key, "a string", &self.quoted(key), report);
        }
        text
    }

    /// The value of a key that a kind of backends has of its own.
    pub(crate) fn own(
        &self,
        key: &BackendKey,
        outside: Outside,
        report: &mut Report,
    ) -> Option<Given> {
        let value = self.get(key.name)?;
        let place = self.toml.place(value.span().start);
        let (read, place) = match key.default {
            Setting::Text(_) => match text_of(&self.toml, value) {
                Some(text) => (outside.given(key, &text.value), text.place),
                None => (Err(key.is_none("a string")), place),
            },
            Setting::Int(_) => {
                let value = integer_of(value).map(Setting::Int);
                let value = value.ok_or_else(|| key.is_none("an integer"));
                (value.and_then(|value| key.checked(value)), place)
            }
        };
        read.map_err(|mistake| report.error(place, mistake.message, mistake.hint))
            .ok()
    }

    /// A string that must be there.
    pub(crate) fn required(&self, key: &str, hint: &str, report: &mut Report) -> Option<Text<'a>> {
        if self.lacks(key) {
            report.error(self.place, format!("`{key}` is missing"), hint);
        }
        self.text(key, report)
    }

    /// A word of a command: a string, or an integer.
    pub(crate) fn word(&self, key: &str, report: &mut Report) -> Option<Text<'a>> {
        let word = word_of(&self.toml, self.get(key)?);
        if word.is_none() {
            self.mistyped(key, "a string", &self.quoted(key), report);
        }
        word
    }

    /// A list of words, one at least, which looks like `form`.
    pub(crate) fn words(
        &self,
        key: &str,
        form: &str,
        report: &mut Report,
    ) -> Option<Vec<Text<'a>>> {
        let words: Option<Vec<_>> = match self.get(key)?.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| word_of(&self.toml, item)).collect(),
            _ => None,
        };
        let words = words.filter(|words| !words.is_empty());
        if words.is_none() {
            self.mistyped(key, "a list of strings", form, report);
        }
        words
    }

    /// A string or a list of strings.
    pub(crate) fn texts(&self, key: &str, report: &mut Report) -> Vec<Text<'a>> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let texts: Option<Vec<_>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| text_of(&self.toml, item)).collect(),
            _ => text_of(&self.toml, value).map(|text| vec![text]),
        };
        texts.unwrap_or_else(|| {
            let form = match self.get(key).map(Spanned::get_ref) {
                Some(DeValue::Array(_)) => "[\"...\", \"...\"]",
                _ => &self.quoted(key),
            };
            self.mistyped(key, "a string or a list of strings", form, report);
            Vec::new()
        })
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        report: &mut Report,
    ) -> Option<T> {
        let is_word = |value: &Spanned<DeValue<'_>>| value.get_ref().is_str();
        if self.get(key).is_some_and(|value| !is_word(value)) {
            let words: Vec<_> = (choices.iter())
                .map(|(word, _)| format!("\"{word}\""))
                .collect();
            self.mistyped(key, "a string", &words.join(" or "), report);
            return None;
        }
        let text = self.text(key, report)?;
        let found = choices.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let words = choices.iter().map(|(word, _)| *word);
            let hint = did_you_mean(&text.value, words);
            report.error(
                text.place,
                format!("`{key}` cannot be `{}`", text.value),
                hint,
            );
        }
        found.map(|(_, value)| *value)
    }

    /// The status of an answer; without one, or without a right one, `usual`.
    pub(crate) fn status(
        &self,
        bounds: RangeInclusive<i64>,
        usual: u16,
        report: &mut Report,
    ) -> u16 {
        let status = self.int_like("status", bounds, Some(usual.into()), report);
        status.map_or(usual, |status| status as u16)
    }

    /// An integer within bounds.
    pub(crate) fn int(
        &self,
        key: &str,
        bounds: RangeInclusive<i64>,
        report: &mut Report,
    ) -> Option<i64> {
        self.int_like(key, bounds, None, report)
    }

    /// An integer within bounds, of which an example may be a better one than the nearest.
    fn int_like(
        &self,
        key: &str,
        bounds: RangeInclusive<i64>,
        example: Option<i64>,
        report: &mut Report,
    ) -> Option<i64> {
        let value = self.get(key)?;
        if !matches!(value.get_ref(), DeValue::Integer(_)) {
            let quoted = value.get_ref().as_str().and_then(|text| text.parse().ok());
            let meant = quoted.filter(|number| bounds.contains(number));
            let meant = meant.or(example).unwrap_or(*bounds.start().max(&0));
            let form = format!("{meant}, without quotes");
            self.mistyped(key, "an integer", &form, report);
            return None;
        }
        let number = integer_of(value).filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = bounds.into_inner();
            let nearest = match integer_of(value) {
                Some(number) if number < least => least,
                _ => most,
            };
            let wanted = format!("from {least} to {most}");
            let form = example.unwrap_or(nearest).to_string();
            self.mistyped(key, &wanted, &form, report);
        }
        number
    }

    pub(crate) fn bool(&self, key: &str, report: &mut Report) -> Option<bool> {
        match self.get(key)?.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            _ => {
                self.mistyped(key, "true or false", "true, without quotes", report);
                None
            }
        }
    }

    /// A table, which looks like `form`.
    pub(crate) fn table(
        &self,
        key: &str,
        form: &str,
        report: &mut Report,
    ) -> Option<(&'t DeTable<'a>, usize)> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some((table, value.span().start)),
            _ => {
                self.mistyped(key, "a table", form, report);
                None
            }
        }
    }
}

/// The integer that a value is, of at most 64 bits.
fn integer_of(value: &Spanned<DeValue<'_>>) -> Option<i64> {
    match value.get_ref() {
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        _ => None,
    }
}

/// The word of a command that a value is.
fn word_of<'a>(toml: &TomlText<'a>, value: &Spanned<DeValue<'a>>) -> Option<Text<'a>> {
    let number = || {
        let number = integer_of(value)?.to_string();
        Some(Text::new(toml, &number, value.span()))
    };
    text_of(toml, value).or_else(number)
}

/// The string that a value is.
pub(crate) fn text_of<'a>(toml: &TomlText<'a>, value: &Spanned<DeValue<'a>>) -> Option<Text<'a>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Text::new(toml, text, value.span())),
        _ => None,
    }
}
