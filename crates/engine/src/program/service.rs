//! A compiled service: its pages' programs and what they share.

use super::page::PageProgram;
use super::sessions::SessionStore;
use crate::diagnostic::Diagnostic;
use crate::settings::{BackendConfig, ProxyConfig, Secret, ServiceConfig};
use std::sync::Arc;

/// The statuses of what is answered instead of a page.
pub const ERROR_STATUSES: [u16; 17] = [
    400, 403, 404, 405, 408, 413, 414, 415, 417, 429, 431, 500, 501, 502, 503, 504, 505,
];

/// Error pages of a service's own. Each has one field, a text: a sentence that may say more, or
/// nothing.
#[derive(Debug, Default)]
pub struct ErrorPages {
    /// The statuses that have one, in rising order.
    pub statuses: Vec<u16>,
    /// Their pages, in the same order. They have no routes, and nothing else has.
    pub service: Arc<Service>,
}

/// A compiled service.
#[derive(Debug, Default)]
pub struct Service {
    /// Its pages. Else pages are not here: they are part of the pages that show them.
    pub pages: Vec<PageProgram>,
    /// Static texts, the same bytes for all lanes; equal ones are stored once.
    pub fragments: Vec<Box<[u8]>>,
    /// What service.toml says.
    pub config: ServiceConfig,
    /// The backends that calls name by index.
    pub backends: Vec<BackendConfig>,
    /// The routes that other servers answer.
    pub proxies: Vec<ProxyConfig>,
    /// How sessions are asked for that several machines share, if they do.
    pub session_store: Option<SessionStore>,
    /// What seals are made with, where service.toml says it.
    pub secret: Option<Secret>,
    /// What is answered where no page is, if that is the service's own.
    pub error_pages: Option<ErrorPages>,
    /// What is probably not meant, but does no harm.
    pub warnings: Vec<Diagnostic>,
}
