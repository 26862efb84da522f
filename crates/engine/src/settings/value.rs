//! Values of settings: what a file or a flag says, before it gets its type.

use super::duration;
use super::listen::ListenAt;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// What a setting without a value is called, in files and flags alike.
pub const NONE: &str = "none";

/// A setting's value. Its [`Display`](fmt::Display) is as a flag takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count, or a number of bytes.
    Number(u32),
    /// A time.
    Duration(Duration),
    /// A text, a choice or a path.
    Text(String),
    /// On or off.
    Switch(bool),
    /// A place to listen at.
    Address(ListenAt),
    /// Several such.
    Addresses(Vec<ListenAt>),
    /// Texts by their names.
    Map(BTreeMap<String, String>),
    /// Nothing: a setting that may be left out is.
    None,
}

impl Value {
    /// As TOML has it.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        match self {
            Value::Number(_) | Value::Switch(_) => toml = self.to_string(),
            Value::Map(map) => {
                toml.push('{');
                for (index, (name, text)) in map.iter().enumerate() {
                    toml.push_str(if index == 0 { " " } else { ", " });
                    quote(name, &mut toml);
                    toml.push_str(" = ");
                    quote(text, &mut toml);
                }
                toml.push_str(" }");
            }
            _ => quote(&self.to_string(), &mut toml),
        }
        toml
    }
}

/// Writes a basic string of TOML.
fn quote(text: &str, toml: &mut String) {
    toml.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => toml.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(toml, "\\U{:08X}", u32::from(c));
            }
            c => toml.push(c),
        }
    }
    toml.push('"');
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Duration(duration) => f.write_str(&duration::format(*duration)),
            Value::Text(text) => f.write_str(text),
            Value::Switch(on) => on.fmt(f),
            Value::Address(address) => address.fmt(f),
            Value::Addresses(all) => {
                let all: Vec<String> = all.iter().map(ListenAt::to_string).collect();
                f.write_str(&all.join(" "))
            }
            Value::Map(_) => f.write_str(&self.to_toml()),
            Value::None => f.write_str(NONE),
        }
    }
}

/// A type that a setting has in the program.
pub trait Typed: Sized {
    /// The value of this type; `None` where the definition allows what the type does not have,
    /// which is a mistake of the definition.
    fn from_value(value: Value) -> Option<Self>;

    /// What [`Typed::from_value`] makes this of.
    fn to_value(&self) -> Value;
}

macro_rules! typed {
    ($($type:ty: $variant:ident,)*) => {$(
        impl Typed for $type {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn to_value(&self) -> Value {
                Value::$variant(self.clone())
            }
        }
    )*};
}

typed! {
    u32: Number,
    Duration: Duration,
    String: Text,
    bool: Switch,
    ListenAt: Address,
    Vec<ListenAt>: Addresses,
    BTreeMap<String, String>: Map,
}

impl Typed for PathBuf {
    fn from_value(value: Value) -> Option<Self> {
        String::from_value(value).map(PathBuf::from)
    }

    fn to_value(&self) -> Value {
        // What was not UTF-8 could not have been read.
        Value::Text(self.to_string_lossy().into_owned())
    }
}

/// What may be left out.
impl<T: Typed> Typed for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            value => T::from_value(value).map(Some),
        }
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::None, T::to_value)
    }
}

/// A number of which 0 means that there is none; the definition says what that does.
impl Typed for Option<NonZeroU32> {
    fn from_value(value: Value) -> Option<Self> {
        u32::from_value(value).map(NonZeroU32::new)
    }

    fn to_value(&self) -> Value {
        Value::Number(self.map_or(0, NonZeroU32::get))
    }
}

/// Declares a choice: an enum and its words.
#[macro_export]
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            /// The words for it in files and flags.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::settings::Typed for $name {
            fn from_value(value: $crate::settings::Value) -> Option<Self> {
                match value {
                    $($crate::settings::Value::Text(word) if word == $word => {
                        Some($name::$variant)
                    })+
                    _ => None,
                }
            }

            fn to_value(&self) -> $crate::settings::Value {
                let word = match self {
                    $($name::$variant => $word,)+
                };
                $crate::settings::Value::Text(word.to_owned())
            }
        }
    };
}
