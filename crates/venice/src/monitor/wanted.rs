//! What a borrower wants.

use crate::name::NodeName;
use crate::resource::Share;
use rhythm_net::Time;

/// What a borrower wants, and who was asked for it. It may wait for donors that are on their way.
pub(super) struct Wanted {
    pub(super) borrower: NodeName,
    pub(super) request: u64,
    pub(super) share: Share,
    /// Who was asked already.
    pub(super) tried: Vec<NodeName>,
    /// Until when it waits at most where nobody has so much.
    pub(super) until: Time,
}
