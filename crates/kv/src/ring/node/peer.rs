//! Another node.

use super::super::link::Link;
use rhythm_net::Time;

/// Another node, as this one knows it.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its session; 0: it is not there, as far as is known.
    pub(super) session: u64,
    /// Its last one: what comes of an earlier one is late.
    pub(super) last_session: u64,
    /// Ours with it.
    pub(super) mine: u64,
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
            mine,
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
