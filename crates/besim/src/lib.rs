//! BeSim, the backend simulator of SPECweb's Banking workload, as a pure function.
//!
//! A [`Bank`] keeps nothing but its number of users: accounts, bills, checks and addresses are
//! computed from the user id each time they are asked for, so that any answer can be foretold by
//! whoever has the same function. [`Bank::answer`] is the backend's side (a query in, an answer's
//! body out); the typed accessors ([`Bank::accounts`], [`Bank::bills`], ...) are for those who
//! check pages.
//!
//! ```
//! use rhythm_besim::Bank;
//! let bank = Bank::new(100_000);
//! let mut body = Vec::new();
//! bank.answer(b"1&1&7", &mut body);
//! assert_eq!(body, b"<pre>\n0\ndbf60ed9f736cbeb51800e6021b73379\n</pre>\n");
//! ```
//!
//! The function is integers and tables only, so that a GPU can compute it as well: [`mix`] makes
//! numbers of a user id, [`names`] has the words, [`date`] and [`money`] the two kinds of values,
//! [`bank`] puts them together. A [`query`] asks by a [`Command`]; [`answer`] has the answer to one
//! query as text, [`table`] those to many in columns; [`serve`] speaks the text form over HTTP.
#![forbid(unsafe_code)]

pub mod answer;
pub mod bank;
mod command;
pub mod date;
mod line;
pub mod mix;
pub mod money;
pub mod names;
pub mod query;
pub mod serve;
pub mod table;

pub use bank::{
    Account, Bank, Bill, Bills, Check, Confirmation, MAX_ACCOUNTS, MAX_BILLS, MAX_PAYMENTS,
    Profile, TODAY,
};
pub use command::Command;
pub use date::Date;
pub use money::Cents;
pub use query::{ARGUMENTS_MAX, Argument, Query};
pub use table::Table;

/// The name of its kind, as service.toml has it in a backend's `kind`.
pub const KIND: &str = "besim";

/// What service.toml has for `url` where it is in the server's process, or on its device.
pub const EMBEDDED: &str = "embedded";
