//! A compiled service: its pages' programs and what they share.

use super::page::PageProgram;
use crate::diagnostic::Diagnostic;
use crate::settings::{BackendConfig, ServiceConfig};

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
    /// What is probably not meant, but does no harm.
    pub warnings: Vec<Diagnostic>,
}
