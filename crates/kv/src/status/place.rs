//! Where a node is asked.

use super::text::shown;

/// The longest name of a node.
pub const NAME_MAX: usize = 64;

/// Of a node, where it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What it is called; none: it is not known before it says so.
    pub(super) name: Option<String>,
    /// `HOST:PORT` of its clients' port.
    pub(super) at: String,
}

impl Place {
    /// As it is shown until the node itself has said what it is called.
    pub(super) fn shown(&self) -> String {
        let at = shown(&self.at);
        match &self.name {
            Some(name) => format!("{} ({at})", shown(name)),
            None => at,
        }
    }

    /// As short as it can be told from others.
    pub(super) fn called(&self) -> String {
        shown(self.name.as_ref().unwrap_or(&self.at))
    }
}
