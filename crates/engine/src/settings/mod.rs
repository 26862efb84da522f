//! Settings: what can be set, and what is.
//!
//! A setting is defined once, in `tables`: its table and key in `service.toml`, its type with unit
//! and bounds, its default, what it does, its flag, and whether a reload takes a change. From the
//! definition come the reading of `service.toml` (with file, line, column and a hint for each
//! mistake), the flags of `rhythm serve`, what `/config` tells, and the tables of docs/settings.md.
//! So none of these can say something else than another.
//!
//! - `definition`: what is known of a setting, and how its value is read;
//! - `value`: values before they have their types, and the types;
//! - `section`: [`section!`](crate::section), which declares a table of settings as a struct;
//! - `tables`: the tables of `service.toml`; `stored`: a session's fields; `together`: what of them
//!   does not go together;
//! - `service`: all of them, and where each value comes from;
//! - `listen`: where to listen; `backend`: the backends'; `key`: what a kind of theirs has of its
//!   own; `url`: where they are; `outside`: values that `service.toml` is not to have;
//! - `proxy`: routes that are answered elsewhere; `network`: whom of those before us to trust;
//! - `trace`: what is told of traces, and to whom;
//! - `document`: the documentation's tables; [`duration`]: durations as people write them.
//!
//! Limits end in `_max`, a number of bytes has `bytes` in its name, and what is a time has its unit
//! in its value.

mod backend;
mod definition;
pub mod document;
pub mod duration;
mod key;
mod listen;
mod network;
mod outside;
mod proxy;
mod section;
mod service;
mod stored;
mod tables;
mod together;
mod trace;
mod url;
mod value;

pub use backend::{BackendConfig, KeyFlags, PoolSettings};
pub use definition::{
    Definition, Mistake, Rule, SettingKind, address, bytes, choice, count, file, map, text, time,
    timeout,
};
pub use key::{BackendKey, Setting};
pub use listen::{ListenAt, NoPlace};
pub use network::{NoNetwork, Trusted};
pub(crate) use outside::MAKE_SECRET;
pub use outside::{Given, Outside, Secret};
pub use proxy::{
    Balance, HostSent, KeptBy, PatternError, ProxyConfig, ProxyPattern, ProxySettings,
};
pub use section::Section;
pub use service::{Origin, ServiceConfig};
pub(crate) use stored::STORED_MAX;
pub use stored::{StoredField, StoredKind};
pub use tables::{
    AccessLogFormat, CohortPolicy, CohortSettings, GzipSettings, HOST_NAME_MAX, HeaderSettings,
    Limits, LogFormat, RequestIds, ServerSettings, ServiceSettings, SessionSettings,
    StaticSettings, TlsSettings,
};
pub use trace::TraceSettings;
pub use url::{BackendUrl, UrlError, UrlPlace};
pub use value::{NONE, Typed, Value};
