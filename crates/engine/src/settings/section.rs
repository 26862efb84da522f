//! Sections: tables of settings, each declared once, as a struct and as definitions.

use super::definition::Definition;
use super::value::Value;
use std::fmt;

/// A table of settings with their values. [`section!`](crate::section) implements it.
pub trait Section: fmt::Debug {
    /// The table's name in `service.toml`.
    fn name(&self) -> &'static str;

    /// What the table is about.
    fn about(&self) -> &'static str;

    /// Its settings, in the order in which they are shown.
    fn definitions(&self) -> &'static [Definition];

    /// The value of a setting.
    ///
    /// # Panics
    /// When there is none with this key.
    fn get(&self, key: &str) -> Value;

    /// Sets a setting to what its definition has read.
    ///
    /// # Panics
    /// When there is none with this key, or not with such values.
    fn set(&mut self, key: &str, value: Value);
}

/// Declares a table of settings: a struct with their types and defaults, and their definitions.
///
/// ```
/// use rhythm_engine::settings::{bytes, time};
/// use std::time::Duration;
///
/// rhythm_engine::section! {
///     /// How a toy is used.
///     pub struct ToySettings = "toy" {
///         /// Bytes of its answer. More are refused.
///         answer_bytes_max: u32 = 512; bytes(1, 1 << 20).was("answer_bytes"),
///         /// A call that takes longer fails.
///         timeout: Duration = Duration::from_secs(2); time(),
///     }
/// }
///
/// assert_eq!(ToySettings::default().answer_bytes_max, 512);
/// assert_eq!(ToySettings::DEFINITIONS[1].summary(), "A call that takes longer fails");
/// ```
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub struct $section:ident = $table:literal {
            $(
                $(#[doc = $help:literal])+
                $key:ident: $type:ty = $default:expr; $rule:expr,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $section {
            $($(#[doc = $help])+ pub $key: $type,)+
        }

        impl $section {
            /// Its settings, in the order in which they are shown.
            pub const DEFINITIONS: &'static [$crate::settings::Definition] = &[
                $($crate::settings::Definition {
                    key: stringify!($key),
                    about: concat!($($help),+),
                    default: || {
                        let default: $type = $default;
                        $crate::settings::Typed::to_value(&default)
                    },
                    rule: $rule,
                },)+
            ];
        }

        impl Default for $section {
            fn default() -> Self {
                $section { $($key: $default,)+ }
            }
        }

        impl $crate::settings::Section for $section {
            fn name(&self) -> &'static str {
                $table
            }

            fn about(&self) -> &'static str {
                concat!($($about),+)
            }

            fn definitions(&self) -> &'static [$crate::settings::Definition] {
                Self::DEFINITIONS
            }

            fn get(&self, key: &str) -> $crate::settings::Value {
                match key {
                    $(stringify!($key) => $crate::settings::Typed::to_value(&self.$key),)+
                    _ => panic!("[{}] has no setting `{key}`", $table),
                }
            }

            fn set(&mut self, key: &str, value: $crate::settings::Value) {
                match key {
                    $(stringify!($key) => match $crate::settings::Typed::from_value(value) {
                        Some(value) => self.$key = value,
                        None => panic!("`{key}` of [{}] has no such values", $table),
                    },)+
                    _ => panic!("[{}] has no setting `{key}`", $table),
                }
            }
        }
    };
}
