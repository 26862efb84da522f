//! What a borrower wants, and nobody has yet.

use crate::name::NodeName;

/// What a borrower wants that came before its donors may have.
pub(super) struct Early {
    pub(super) borrower: NodeName,
    pub(super) request: u64,
    pub(super) bytes: u64,
    /// Who was asked already.
    pub(super) tried: Vec<NodeName>,
}
