//! What a donor of accelerators offers.

use crate::accelerator::request::Kind;
use crate::loan::LoanKey;
use std::net::SocketAddr;

/// What a donor offers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where borrowers connect to.
    pub listen: SocketAddr,
    /// How many accelerators of each kind: as many jobs of it are done at a time.
    pub accelerators: Vec<(Kind, usize)>,
    /// Bytes that the mailboxes of all borrowers take at most. One takes twice its capacity and
    /// about a mebibyte.
    pub memory: u64,
    /// Connections at a time.
    pub connections: usize,
    /// What anybody shows to have one for as long as it is connected; without, there are loans
    /// alone that someone grants ([`grant`](super::Accelerators::grant)).
    pub offer: Option<LoanKey>,
}
