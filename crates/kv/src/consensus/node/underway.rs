//! What a node has under way: what waits, what was said to the leader, what is not written yet.

use super::request::{Read, Ticket};
use crate::consensus::keyspace::Command;
use raft::Ready;
use rhythm_net::Time;
use std::ops::RangeInclusive;
use std::time::Duration;

/// After so many ticks what had no effect is said again, and then after twice as many each time, up
/// to so many: where it takes long, it is on its way yet.
pub(super) const AGAIN_TICKS: u64 = 4;
pub(super) const AGAIN_TICKS_MAX: u64 = 32;
/// Bytes of a batch, but for its last command.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// How long a client waits for most of the nodes.
pub(in crate::consensus) const PATIENCE: Duration = Duration::from_secs(5);

/// Something asked that waits.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) what: T,
    /// None: the node itself asked for it.
    pub(super) ticket: Option<Ticket>,
    pub(super) at: Time,
}

/// A change that waits.
#[derive(Debug)]
pub(super) struct WaitingChange {
    pub(super) asked: Waiting<Command>,
    /// The last ticket when it was asked for: its own, if it is a client's.
    pub(super) place: Ticket,
    /// Its client is gone.
    pub(super) is_unwanted: bool,
}

impl WaitingChange {
    /// Who waits for it.
    pub(super) fn awaited_by(&self) -> Option<Ticket> {
        self.asked.ticket.filter(|_| !self.is_unwanted)
    }
}

/// When something was said to the leader: which one, at which tick, and for how many ticks nothing
/// need come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) leader: (u64, u64),
    pub(super) tick: u64,
    pub(super) patience: u64,
}

/// The batch on its way.
#[derive(Debug)]
pub(super) struct Underway {
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    /// Who waits for it, and since when, the first first.
    pub(super) asked: Vec<(Option<Ticket>, Time)>,
    pub(super) said: Option<Said>,
}

/// The question on its way.
#[derive(Debug)]
pub(super) struct Question {
    /// The numbers under which it was asked, from the first to the last.
    pub(super) numbers: RangeInclusive<u64>,
    pub(super) reads: Vec<Waiting<Read>>,
    pub(super) said: Option<Said>,
    /// All up to this place of the log has to be executed before it is answered.
    pub(super) index: Option<u64>,
}

/// What could not be written yet.
pub(super) struct Stalled {
    pub(super) ready: Ready,
    pub(super) again_at: Time,
}
