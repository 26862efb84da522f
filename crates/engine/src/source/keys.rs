//! TOML tables with known keys: `service.toml` and the headers of pages are read through these.
//!
//! Every value is taken by key and type; what is missing, of another type, out of bounds or unknown
//! is reported where it stands.

use crate::diagnostic::{Place, Report, did_you_mean};
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

    /// Parses it, or reports all its syntax errors.
    pub(crate) fn parse(&self, report: &mut Report) -> Option<DeTable<'a>> {
        let (table, errors) = DeTable::parse_recoverable(&self.text[self.start..self.end]);
        for error in &errors {
            let offset = error.span().map_or(0, |span| span.start);
            report.error(self.place(offset), error.message().trim_end(), "");
        }
        errors.is_empty().then(|| table.into_inner())
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
    fn new(toml: &TomlText<'a>, value: &str, span: std::ops::Range<usize>) -> Text<'a> {
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
        let keys = Keys {
            toml,
            table,
            place: toml.place(offset),
        };
        for (key, _) in table {
            if !known.contains(&key.get_ref().as_ref()) {
                let hint = did_you_mean(key.get_ref(), known.iter().copied());
                report.error(
                    toml.place(key.span().start),
                    format!("unknown key `{}`", key.get_ref()),
                    hint,
                );
            }
        }
        keys
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

    /// The place of a key's value, or of the table where the key is absent.
    pub(crate) fn place_of(&self, key: &str) -> Place<'a> {
        self.get(key)
            .map_or(self.place, |value| self.toml.place(value.span().start))
    }

    fn mistyped(&self, key: &str, wanted: &str, report: &mut Report) {
        report.error(self.place_of(key), format!("`{key}` must be {wanted}"), "");
    }

    pub(crate) fn text(&self, key: &str, report: &mut Report) -> Option<Text<'a>> {
        let value = self.get(key)?;
        let text = text_of(&self.toml, value);
        if text.is_none() {
            self.mistyped(key, "a string", report);
        }
        text
    }

    /// A string that must be there.
    pub(crate) fn required(&self, key: &str, hint: &str, report: &mut Report) -> Option<Text<'a>> {
        if !self.has(key) {
            report.error(self.place, format!("`{key}` is missing"), hint);
        }
        self.text(key, report)
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
            self.mistyped(key, "a string or a list of strings", report);
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

    pub(crate) fn int(
        &self,
        key: &str,
        bounds: RangeInclusive<i64>,
        report: &mut Report,
    ) -> Option<i64> {
        let value = self.get(key)?;
        let DeValue::Integer(integer) = value.get_ref() else {
            self.mistyped(key, "an integer", report);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = bounds.into_inner();
            self.mistyped(key, &format!("from {least} to {most}"), report);
        }
        number
    }

    pub(crate) fn bool(&self, key: &str, report: &mut Report) -> Option<bool> {
        match self.get(key)?.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            _ => {
                self.mistyped(key, "true or false", report);
                None
            }
        }
    }

    /// A duration such as `"2ms"`, in nanoseconds.
    pub(crate) fn duration(&self, key: &str, report: &mut Report) -> Option<u64> {
        let text = self.text(key, report)?;
        let nanoseconds = nanoseconds(&text.value);
        if nanoseconds.is_none() {
            report.error(
                text.place,
                format!("`{key}` must be a duration"),
                "a number and ns, us, ms, s, m or h, such as \"2ms\" or \"30m\"",
            );
        }
        nanoseconds
    }

    /// A table.
    pub(crate) fn table(&self, key: &str, report: &mut Report) -> Option<(&'t DeTable<'a>, usize)> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some((table, value.span().start)),
            _ => {
                self.mistyped(key, "a table", report);
                None
            }
        }
    }
}

/// The string that a value is.
pub(crate) fn text_of<'a>(toml: &TomlText<'a>, value: &Spanned<DeValue<'a>>) -> Option<Text<'a>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Text::new(toml, text, value.span())),
        _ => None,
    }
}

/// Reads a duration: digits and a unit.
fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim_start() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations() {
        assert_eq!(nanoseconds("2ms"), Some(2_000_000));
        assert_eq!(nanoseconds("30 m"), Some(1_800_000_000_000));
        assert_eq!(nanoseconds("0s"), Some(0));
        for bad in ["", "2", "ms", "-2ms", "2.5s", "99999999999h", "2 weeks"] {
            assert_eq!(nanoseconds(bad), None, "{bad}");
        }
    }
}
