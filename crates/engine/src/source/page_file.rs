//! A page file, split into its header and its template.

use super::declaration::PageHeader;
use crate::diagnostic::Place;

/// A page file, split and read.
pub(crate) struct PageFile<'a> {
    /// `pages/NAME.html`.
    pub(crate) path: &'a str,
    /// `NAME.html`, as `else` gives it.
    pub(crate) file_name: &'a str,
    pub(crate) header: PageHeader<'a>,
    /// Where its template begins.
    pub(crate) template: Place<'a>,
}
