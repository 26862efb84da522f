//! Pages: from page files to programs.
//!
//! `service.toml` and the page files of a folder become a [`Service`]: one [`program::PageProgram`] a page, the
//! fragments they share and the configuration that comes with them.

pub mod program;

use program::PageProgram;

/// A compiled service.
#[derive(Debug)]
pub struct Service {
    /// Its pages. Else pages are not here: they are part of the pages that show them.
    pub pages: Vec<PageProgram>,
    /// Static texts, the same bytes for all lanes; equal ones are stored once.
    pub fragments: Vec<Box<[u8]>>,
}
