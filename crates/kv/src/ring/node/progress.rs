//! How far things are with a range: handed over, sent, received; and with this node's lease.

use super::super::ticket::Ticket;
use super::super::wire::Of;
use super::effects::Origin;
use rhythm_net::Time;
use std::time::Duration;

/// A range that is being handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handing {
    pub(super) to: usize,
    pub(super) stage: HandingStage,
    /// When the fence was last asked for.
    pub(super) asked: Time,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum HandingStage {
    /// Until this fence, workers may write.
    Fence(u64),
    /// Until the targets have this batch, not all of them have what was written.
    Flush(u64),
    /// Until the other has this batch, it does not serve.
    Serve(u64),
}

/// How long a range is not handed over after that was begun and taken back, as somebody was not
/// heard who was to know: nobody serves the range while it is tried. Each time that is twice as
/// long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    pub(super) until: Time,
    lasts: Duration,
}

impl Pause {
    const FIRST: Duration = Duration::from_secs(1);
    const LAST: Duration = Duration::from_secs(32);

    /// It was taken back now.
    pub(super) fn begin(&mut self, now: Time) {
        self.lasts = (2 * self.lasts).clamp(Pause::FIRST, Pause::LAST);
        self.until = now + self.lasts;
    }
}

/// How far a target is with a range that this node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// It was told nothing: what it has may be old.
    None,
    /// It was told nothing, and what it has complete is as new as what this node has: it was there
    /// when this one began to serve.
    Kept,
    /// It was told that what it has is old.
    Out,
    /// It was told that it will, by this number.
    Begun(u32),
    /// It waits for the next walk.
    Ready,
    /// The walk sends it what it meets.
    Walking,
    /// It was sent all.
    Ended,
    /// It has the range complete.
    Done,
}

/// A range that this node is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) of: Of,
    /// Which `Begin` said so.
    pub(super) number: u32,
    /// What was put here before this second is not of it.
    pub(super) since: u32,
    pub(super) stage: IncomingStage,
    /// A worker wrote something there that cannot be told from what comes: it is to come anew.
    pub(super) is_spoilt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncomingStage {
    /// The second has not come.
    Waiting,
    /// It comes.
    Coming,
    /// It came; the next walk drops what did not.
    Came,
    /// The walk does.
    Walking,
}

/// A walk through the table.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// Where it is, if there is one.
    pub(super) bucket: Option<usize>,
    /// The ranges, a bit each, that this node was left out of, and of which it drops what is old.
    pub(super) drops: u64,
    /// When it was last told how far it is.
    pub(super) told_at: Time,
    /// Bytes that may still be sent, and when they were last reckoned.
    pub(super) allowance: usize,
    pub(super) reckoned: Time,
    pub(super) keys: Vec<u8>,
}

impl Pass {
    pub(super) fn is_under_way(&self) -> bool {
        self.bucket.is_some()
    }
}

/// Who waits until all before it is confirmed.
#[derive(Debug)]
pub(super) enum Waiter {
    Worker(Ticket),
    Answer(Origin, Vec<u8>),
}

/// A batch that somebody waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) batch: u64,
    /// The ranges that it is of, a bit each.
    pub(super) ranges: u64,
    /// What workers may have written before, and not handed over yet: what waits may show it.
    pub(super) behind: Vec<Ticket>,
    /// It is a flush of all items: where a node goes before it has that, nobody knows whether it
    /// ever does.
    pub(super) flushes: bool,
    pub(super) waiter: Waiter,
}

/// A node that was told something else, or refuses this one.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) name: String,
    /// Who it is, and what differs.
    pub(super) said: String,
    /// Whether it serves something, as far as it says.
    pub(super) serves: bool,
    pub(super) heard: Time,
    /// When it was last told that it is refused.
    pub(super) told: Option<Time>,
}

impl Refused {
    pub(super) fn new(name: String, said: String, now: Time) -> Refused {
        Refused {
            name,
            said,
            serves: true,
            heard: now,
            told: None,
        }
    }
}

/// This node's lease.
#[derive(Debug)]
pub(super) struct OwnLease {
    /// Until when it is there in any case.
    pub(super) until: Time,
    /// Which it is; 0: there was none. And since when it is this one.
    pub(super) number: i64,
    pub(super) since: Time,
    /// Whether others know that this node is there, as far as etcd says.
    pub(super) is_listed: bool,
    /// Claims that it makes have at least this epoch.
    pub(super) epoch: u64,
    /// The nodes that are to be heard before it counts, a bit each.
    pub(super) unmet: u64,
}

impl OwnLease {
    pub(super) fn none(is_listed: bool) -> OwnLease {
        OwnLease {
            until: Time::ZERO,
            number: 0,
            since: Time::ZERO,
            is_listed,
            epoch: 0,
            unmet: 0,
        }
    }
}
