//! What a node has under way: what waits, what was said to the leader, what is not written yet.

use super::request::{Read, Ticket};
use raft::Ready;
use rhythm_net::Time;
use std::time::Duration;

/// After so many ticks what had no effect is said again.
pub(super) const AGAIN_TICKS: u64 = 4;
/// Bytes of a batch, but for its last command.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// How long a client waits for most of the nodes.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Something asked that waits.
#[derive(Debug)]
pub(super) struct Asked<T> {
    pub(super) what: T,
    /// None: the node itself asked for it.
    pub(super) ticket: Option<Ticket>,
    pub(super) at: Time,
}

/// When something was said to the leader: which one, and at which tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) leader: (u64, u64),
    pub(super) tick: u64,
}

/// The batch on its way.
#[derive(Debug)]
pub(super) struct Underway {
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) asked: Vec<Option<Ticket>>,
    /// Since when who asked first waits.
    pub(super) at: Time,
    pub(super) said: Option<Said>,
}

/// The question on its way.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) reads: Vec<Asked<Read>>,
    pub(super) said: Option<Said>,
    /// All up to this place of the log has to be executed before it is answered.
    pub(super) index: Option<u64>,
}

/// What could not be written yet.
pub(super) struct Stalled {
    pub(super) ready: Ready,
    pub(super) again_at: Time,
}
