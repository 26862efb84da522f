//! Which class a request is of, and what is known of the classes (section III-A).
//!
//! ```text
//! method, path ──rules (globs, in their order)──▶ class ──table──▶ friendly to all threads?
//! ```
//!
//! Rules and friendliness come from the user, from [`tpcw`] (Table V), or from [`mod@derive`] (two
//! logs compared). The learned policy needs classes only, not what they are friendly to; without
//! any rules, the first part of the path is the class, once a request of it was answered with
//! success. The number of classes is bounded: what finds no room is [`ClassId::OTHER`], until a
//! class that was not asked for in a long time gives way.

pub mod derive;
mod glob;
pub mod log;
mod rules;
mod table;
pub mod tpcw;

pub use rules::{Classifier, RuleError};
pub(crate) use table::MAX_CLASSES;
pub use table::{Class, ClassId, ClassTable, Friendly};
