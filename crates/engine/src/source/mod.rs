//! Sources: the files of a service, read but not compiled.
//!
//! - `keys`: TOML, with the place of each mistake; `toml_syntax` tells what is wrong where it is
//!   none;
//! - `config`: `service.toml`; `proxy`: its routes that other servers answer;
//! - `declaration`: what a page's header says; `header`, `param`, `step`, `call` and
//!   `cookie` read it;
//! - `page_file`: a page file, split into header and template;
//! - `template`: MiniJinja's parser; `syntax` tells what is wrong where it cannot go on.

mod call;
mod command;
pub(crate) mod config;
mod cookie;
pub(crate) mod declaration;
pub(crate) mod header;
mod http_call;
pub(crate) mod keys;
mod page_file;
mod param;
mod param_type;
pub(crate) mod proxy;
mod step;
mod syntax;
pub(crate) mod template;
mod toml_syntax;

pub(crate) use page_file::PageFile;

use crate::diagnostic::Report;
use crate::kind::BackendKind;
use crate::settings::{BackendConfig, Mistake, Outside, Secret, ServiceConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The tables of `service.toml`.
pub fn service_tables() -> Vec<&'static str> {
    config::tables()
}

/// The keys of a `[[proxy]]` that are no settings.
pub fn proxy_keys() -> Vec<&'static str> {
    proxy::OTHERS.to_vec()
}

/// The keys of a page's header.
pub fn page_keys() -> Vec<&'static str> {
    declaration::PAGE_KEYS.to_vec()
}

/// The keys of a page's parameters.
pub fn param_keys() -> Vec<&'static str> {
    param::OWN_KEYS
        .into_iter()
        .chain(param_type::TYPE_KEYS)
        .collect()
}

/// The types that parameters can have.
pub fn param_types() -> Vec<&'static str> {
    param_type::TYPES.map(|(name, _)| name).to_vec()
}

/// The keys of a page's steps, those included that say what backends of these kinds are asked.
pub fn step_keys(kinds: &[BackendKind]) -> Vec<&str> {
    let asks = kinds.iter().flat_map(|kind| kind.asks.keys());
    declaration::STEP_KEYS.into_iter().chain(asks).collect()
}

/// The files of a service, by their paths within its folder.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The service's folder, which is read by whoever makes this; paths of files that backends have
    /// are relative to it.
    pub folder: PathBuf,
    /// Texts: `service.toml`, `pages/*.html`, `templates/*.html`.
    pub files: BTreeMap<String, String>,
    /// Paths of static files, relative to `static/`.
    pub static_files: BTreeSet<String>,
    /// Files that could not be read, by their paths within the folder, and why.
    pub unread: BTreeMap<String, Mistake>,
    /// Files of `pages/` and `templates/` that are neither, for what their names end in.
    pub others: BTreeSet<String>,
    /// Where `service.toml` has values from that it does not say itself.
    pub outside: Outside,
    /// Backends, by their names, that are others than `service.toml` says.
    pub backends: BTreeMap<String, BackendConfig>,
}

impl Sources {
    /// Whether `service.toml` has routes that other servers answer, right or wrong.
    pub fn has_proxies(&self) -> bool {
        let text = self.files.get("service.toml");
        text.is_some_and(|text| proxy::is_there(text))
    }

    /// The settings, before anything is compiled: what is wrong with them is as if it was not
    /// there, and is told by [`compile`](crate::compile::compile).
    pub fn config(&self, kinds: &[BackendKind]) -> ServiceConfig {
        self.service_file(kinds, &mut Report::default()).config
    }

    /// The secret that `service.toml` names, likewise.
    pub fn secret(&self, kinds: &[BackendKind]) -> Option<Secret> {
        self.service_file(kinds, &mut Report::default()).secret
    }

    /// The backends that `service.toml` says, likewise, and whether anything is wrong with it, for
    /// which one may be absent, or other than is meant.
    pub fn declared_backends(&self, kinds: &[BackendKind]) -> (Vec<BackendConfig>, bool) {
        let mut report = Report::default();
        let backends = self.service_file(kinds, &mut report).backends;
        let is_there = self.files.contains_key("service.toml");
        (backends, report.errors() > 0 || !is_there)
    }

    fn service_file(&self, kinds: &[BackendKind], report: &mut Report) -> config::ServiceFile<'_> {
        let text = self.files.get("service.toml").map_or("", String::as_str);
        config::read(text, kinds, self.at(), report)
    }

    /// Where `service.toml` is.
    pub(crate) fn at(&self) -> config::At<'_> {
        config::At {
            folder: &self.folder,
            outside: self.outside,
        }
    }
}
