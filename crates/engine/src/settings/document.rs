//! Settings as the documentation's tables, in Markdown.

use super::definition::{Definition, SettingKind};
use super::duration;
use super::key::{BackendKey, Setting};
use super::section::Section;
use super::value::Value;
use std::fmt::Write;
use std::time::Duration;

/// What can be listened at.
const ADDRESS: &str = "address and port, or `unix:PATH`";

/// A heading, what a section is about, and its settings.
pub fn section(section: &dyn Section) -> String {
    let about = section.about().trim();
    let table = table(section.definitions());
    format!("### [{}]\n\n{about}\n\n{table}", section.name())
}

/// A line for each setting.
pub fn table(definitions: &[Definition]) -> String {
    let mut text = String::from("| key | value | default | flag | what it does |\n");
    text.push_str("|---|---|---|---|---|\n");
    for definition in definitions {
        let flag = match definition.rule.flag {
            Some(flag) => format!("`--{flag}`"),
            None => String::new(),
        };
        let restart = if definition.rule.needs_restart {
            ""
        } else {
            " (reload)"
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {}{restart} | {} | `{}` | {flag} | {} |",
            definition.key,
            values(definition),
            (definition.default)().to_toml(),
            definition.about.trim(),
        );
    }
    text
}

/// A line for each key of a kind's own.
pub fn keys(keys: &[BackendKey]) -> String {
    let mut text = String::from("| key | default | meaning |\n|---|---|---|\n");
    for key in keys {
        let default = match key.default {
            Setting::Text(text) => Value::Text(text.to_owned()).to_toml(),
            Setting::Int(value) => value.to_string(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{}` | `{default}` | {} |", key.name, key.about);
    }
    text
}

/// What a setting may be, in words.
fn values(definition: &Definition) -> String {
    let values = match definition.rule.kind {
        SettingKind::Count(least, most) => range(least, most, ""),
        SettingKind::Bytes(least, most) => range(least, most, " bytes"),
        SettingKind::Duration(Duration::ZERO) => "duration".to_owned(),
        SettingKind::Duration(least) => format!("duration, from {}", duration::format(least)),
        SettingKind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            words.join(", ")
        }
        SettingKind::Switch => "`true`, `false`".to_owned(),
        SettingKind::Address => ADDRESS.to_owned(),
        SettingKind::Addresses => format!("{ADDRESS}; several with spaces between them"),
        SettingKind::File => "path".to_owned(),
        SettingKind::Text(_) => "text".to_owned(),
        SettingKind::Map(_) => "table of texts".to_owned(),
    };
    match definition.rule.none {
        Some(meaning) if definition.may_be_none() => {
            format!("{values}; `\"none\"`: {meaning}")
        }
        Some(meaning) => format!("{values}; 0: {meaning}"),
        None => values,
    }
}

fn range(least: u32, most: u32, unit: &str) -> String {
    if most == u32::MAX {
        format!("from {least}{unit}")
    } else {
        format!("{least} to {most}{unit}")
    }
}
