//! Keys that a kind of backend has of its own in its table of `service.toml`.

/// The value of a key that a kind of backend has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting<T = String> {
    /// A string.
    Text(T),
    /// An integer.
    Int(i64),
}

impl<T: AsRef<str>> Setting<T> {
    /// The string.
    ///
    /// # Panics
    /// If it is an integer: a key's type is that of its default, so that is its kind's mistake.
    pub fn text(&self) -> &str {
        match self {
            Setting::Text(text) => text.as_ref(),
            Setting::Int(value) => unreachable!("{value} is read as a string"),
        }
    }

    /// The integer.
    ///
    /// # Panics
    /// If it is a string, likewise.
    pub fn int(&self) -> i64 {
        match self {
            Setting::Text(text) => unreachable!("{:?} is read as an integer", text.as_ref()),
            Setting::Int(value) => *value,
        }
    }
}

impl Setting<&'static str> {
    /// A default, as a value.
    pub fn owned(self) -> Setting {
        match self {
            Setting::Text(text) => Setting::Text(text.to_owned()),
            Setting::Int(value) => Setting::Int(value),
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
