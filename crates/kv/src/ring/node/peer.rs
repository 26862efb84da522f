//! Another node.

use super::super::link::Link;
use rhythm_net::Time;

/// A node that begins has sessions from a multiple of so many on, and no more than these: so others
/// tell its lives.
pub const SESSIONS: u64 = 1 << 20;

/// Which life of a node a session is of.
pub(in super::super) fn life(session: u64) -> u64 {
    session / SESSIONS
}

/// What a node says that is not in the roster.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    pub(super) heard: Time,
    /// The ranges that it has complete, a bit each, under a claim that is no older than the one
    /// that is known here.
    pub(super) has: u64,
    /// As it says of itself (`Head::counts`).
    pub(super) counts: Vec<u64>,
}

/// A life of a node that speaks beside the one that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    pub(super) life: u64,
    pub(super) since: Time,
    pub(super) heard: Time,
    /// How many frames the node had been sent when it was first heard: who heard more than these
    /// speaks now.
    pub(super) sent: u64,
    /// When it was last told that it is refused.
    pub(super) told: Option<Time>,
    /// A frame of it was dropped. Over Ethernet none comes of it before it counts, and then all do.
    pub(super) was_dropped: bool,
}

impl Second {
    pub(super) fn new(life: u64, sent: u64, now: Time) -> Second {
        Second {
            life,
            since: now,
            heard: now,
            sent,
            told: None,
            was_dropped: false,
        }
    }
}

/// Another node, as this one knows it.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its session; 0: it is not there, as far as is known.
    pub(super) session: u64,
    /// Its last one: what comes of an earlier one is late.
    pub(super) last_session: u64,
    /// Another life of it that speaks, too; and one that is not heard for a while.
    pub(super) second: Option<Second>,
    pub(super) barred: Option<(u64, Time)>,
    /// Whether it ever said that it knows this life of ours.
    pub(super) has_known: bool,
    /// Since when it says that it does not know our session, and when it was last told so.
    pub(super) unheard: Option<Time>,
    pub(super) told_unheard: Option<Time>,
    /// It was heard, and took nothing: it is there again when it knows our session. Until then this
    /// is its own, for it may wait for the same of us.
    pub(super) is_deaf: bool,
    pub(super) hears: u64,
    /// When it was in the roster no more; whether it said that it ends; and what it says since.
    pub(super) gone_at: Time,
    pub(super) has_ended: bool,
    pub(super) outside: Option<Outside>,
    /// The ranges that wait, it says, for one that this node may not hear.
    pub(super) awaited: u64,
    /// Ours with it.
    pub(super) mine: u64,
    /// Until then it is not taken for dead where this node lost it to begin anew with it.
    pub(super) anew_until: Time,
    /// How often what was under way with it was lost.
    pub(super) losses: u64,
    pub(super) heard: Time,
    /// How many frames it had sent when it said what is known of it.
    pub(super) count: u64,
    /// How many it was sent.
    pub(super) sent: u64,
    /// When it is sent the next, if nothing else is.
    pub(super) beat_at: Time,
    pub(super) complete: u64,
    /// As it says of itself (`Node::counts`).
    pub(super) counts: Vec<u64>,
    /// The epoch of each range's claim that it knew of when it said so.
    pub(super) epochs: Vec<u64>,
    pub(super) link: Link,
    /// How often bytes of a frame of its came that was not whole yet, and how often it had some of
    /// ours, when it last said so.
    pub(super) parts: u16,
    pub(super) took_parts: u16,
    /// A frame that it was sent, its count and when, until it says that it heard that.
    pub(super) probe: Option<(u64, Time)>,
    /// When the last was sent that it said so of; and the same, or when it was met, in whichever
    /// session.
    pub(super) heard_me: Time,
    pub(super) knew_me: Time,
    /// Frames that were sent again on links before this one.
    pub(super) resent: u64,
    /// Bytes of frames that it was sent.
    pub(super) sent_bytes: u64,
}

impl Peer {
    /// One of which nothing is known, in our first session with it.
    pub(super) fn new(mine: u64, ranges: usize, now: Time) -> Peer {
        Peer {
            session: 0,
            last_session: 0,
            second: None,
            barred: None,
            has_known: false,
            unheard: None,
            told_unheard: None,
            is_deaf: false,
            hears: 0,
            gone_at: Time::ZERO,
            has_ended: false,
            outside: None,
            awaited: 0,
            mine,
            anew_until: Time::ZERO,
            losses: 0,
            heard: now,
            count: 0,
            sent: 0,
            beat_at: now,
            complete: 0,
            counts: vec![0; ranges],
            epochs: vec![0; ranges],
            link: Link::new(now),
            parts: 0,
            took_parts: 0,
            probe: None,
            heard_me: Time::ZERO,
            knew_me: now,
            resent: 0,
            sent_bytes: 0,
        }
    }
}
