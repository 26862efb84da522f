//! What a service keeps in sessions beside their user: `fields` of `[session]`.

use super::definition::Mistake;
use std::collections::BTreeMap;

/// Most fields of a session.
pub(crate) const STORED_MAX: usize = 64;
/// Most bytes of a text.
const TEXT_MAX: u16 = 1024;

/// The type of a session's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A text of at most so many bytes; at first it is empty.
    Text(u16),
    /// An integer of 64 bits; at first it is 0.
    Int,
    /// True or false; at first it is false.
    Bool,
}

/// A session's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredField {
    /// Its name: a template has it as `session.NAME`.
    pub name: String,
    /// Its type.
    pub kind: StoredKind,
}

impl StoredKind {
    fn read(text: &str) -> Option<StoredKind> {
        match text.trim() {
            "int" => Some(StoredKind::Int),
            "bool" => Some(StoredKind::Bool),
            text => {
                let length = text.strip_prefix("text(")?.strip_suffix(')')?.trim();
                let length: u16 = length.parse().ok()?;
                (1..=TEXT_MAX)
                    .contains(&length)
                    .then_some(StoredKind::Text(length))
            }
        }
    }
}

/// The fields that are declared so, in the order of their names.
pub(super) fn declared(fields: &BTreeMap<String, String>) -> Vec<StoredField> {
    let field = |(name, kind): (&String, &String)| {
        let (name, kind) = (name.clone(), StoredKind::read(kind)?);
        Some(StoredField { name, kind })
    };
    fields.iter().filter_map(field).collect()
}

/// Refuses what is no field.
pub(super) fn check(name: &str, kind: Option<&str>) -> Result<(), Mistake> {
    let mut bytes = name.bytes();
    let is_name = bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        let message = format!("`{name}` is no name of a session's field");
        return Err(Mistake::new(
            message,
            "a letter, then letters, digits and `_`",
        ));
    }
    if ["userid", "present"].contains(&name) {
        let message = format!("each session has a `{name}` already");
        return Err(Mistake::new(message, "choose another name"));
    }
    if kind.and_then(StoredKind::read).is_none() {
        let message = format!("this is no type of the session's field `{name}`");
        let hint = format!(
            "\"int\", \"bool\" or \"text(40)\", a text of at most so many bytes, {TEXT_MAX} at most"
        );
        return Err(Mistake::new(message, hint));
    }
    Ok(())
}
