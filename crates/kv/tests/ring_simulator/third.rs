//! Two nodes that are well, and a third that is dead, and has its lease: it is not to keep one of
//! the two from serving what it served, nor from sending the other what that does not have.

use crate::cluster::Op;
use crate::stall::Ring;
use rhythm_kv::ring::Options;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);

/// A range that `server` serves, and is to give to `first`, who comes back with nothing.
struct Back {
    ring: Ring,
    range: usize,
    key: usize,
    first: usize,
    server: usize,
    third: usize,
}

impl Back {
    /// It has begun, and all know of it; what it is to have is on its way.
    fn new() -> Back {
        let mut ring = Ring::with_slots(Options {
            replicas: 2,
            lease: Some(LEASE),
            ..Options::default()
        });
        ring.pass(10_000, None, |_| {});
        let range = 0;
        let order = ring.order(range);
        let (first, server, third) = (order[0], order[1], order[2]);
        ring.expire(first);
        ring.begin_anew(first);
        ring.pass(1000, None, |_| {});
        ring.clog(server, first);
        ring.register(first);
        ring.pass(1000, None, |_| {});
        let key = ring.key_of(range);
        Back {
            ring,
            range,
            key,
            first,
            server,
            third,
        }
    }

    fn serves(&self, node: usize) -> bool {
        usize::from(self.ring.nodes[node].node.claim(self.range).node) == node
    }

    fn is_copied(&self) -> bool {
        let status = self.ring.nodes[self.server].node.status(self.ring.time());
        status.ranges[self.range].copies & 1 << self.first != 0
    }

    /// Whether a write and a read of the range are answered at once.
    fn is_served(&mut self, write: u64) -> bool {
        let (now, key) = (self.ring.time(), self.key);
        let ops = [(1, Op::Set(write), key), (2, Op::Get, key)];
        let (done, _) = self.ring.nodes[self.server].ask(&ops, now);
        done == [(2, Ok(Some(write))), (1, Ok(None))]
            || done == [(1, Ok(None)), (2, Ok(Some(write)))]
    }
}

#[test]
fn a_range_is_not_withdrawn_to_be_given_away_while_a_third_node_may_be_dead() {
    let mut of = Back::new();
    of.ring.apart = Some(of.third);
    assert!(of.is_served(1));
    of.ring.pass(1000, None, |_| {});
    of.ring.clear();
    for write in 2..500 {
        of.ring.pass(10, None, |_| {});
        assert!(of.is_served(write), "{write}");
    }
    assert!(of.is_copied() && of.serves(of.server));
    // It goes on when that one is there again.
    of.ring.apart = None;
    of.ring.pass(2000, None, |_| {});
    assert!(of.serves(of.first));
    assert_eq!(of.ring.value(of.first, of.key), Some(499));
}

#[test]
fn a_range_that_is_given_away_is_taken_back_when_a_third_node_may_be_dead() {
    let mut of = Back::new();
    of.ring.clear();
    let mut write = 1;
    while !of.is_copied() {
        assert!(of.is_served(write) && write < 1000);
        of.ring.pass(10, None, |_| {});
        write += 1;
    }
    // It has something, and does not say so.
    of.ring.apart = Some(of.third);
    of.ring.pass(100, None, |_| {});
    assert!(!of.is_served(write), "it is given away");
    of.ring.pass(1000, None, |_| {});
    for write in write + 1..write + 300 {
        assert!(of.is_served(write), "{write}");
        of.ring.pass(10, None, |_| {});
    }
    assert!(of.serves(of.server));
    of.ring.apart = None;
    of.ring.pass(2000, None, |_| {});
    assert!(of.serves(of.first));
}

/// It has a turn once a second, and acknowledges what it was sent then.
#[test]
fn a_range_is_seldom_withdrawn_to_be_given_away_while_a_third_node_is_slow() {
    let mut of = Back::new();
    of.ring.clear();
    let mut withdrawn = 0;
    for write in 1..6000 {
        let still = (write % 100 != 0).then_some(of.third);
        withdrawn += u64::from(!of.is_served(write));
        of.ring.pass(10, still, |_| {});
    }
    assert!(of.is_copied() && of.serves(of.server));
    // In steps of 10 ms: each try is half a second, of this minute.
    assert!((50..=350).contains(&withdrawn), "{withdrawn}");
    of.ring.pass(40_000, None, |_| {});
    assert!(of.serves(of.first));
}

/// Both begin with nothing, and one of them is sent what it is to have first, or both by one walk.
#[test]
fn one_that_takes_nothing_does_not_keep_another_from_being_sent_what_it_is_to_have() {
    for gone in [1, 2] {
        let mut ring = Ring::with_slots(Options {
            replicas: 2,
            lease: Some(LEASE),
            queue_max: 4096,
            ..Options::default()
        });
        ring.pass(10_000, None, |_| {});
        for node in [1, 2] {
            ring.expire(node);
            ring.begin_anew(node);
        }
        ring.pass(2000, None, |_| {});
        for key in 0..2000 {
            let now = ring.time();
            let (done, _) = ring.nodes[0].ask(&[(0, Op::Set(7), key)], now);
            assert_eq!(done, [(0, Ok(None))]);
        }
        ring.pass(100, None, |_| {});
        for node in [1, 2] {
            ring.register(node);
        }
        let sent = |ring: &Ring| ring.nodes[0].node.status(ring.time()).caught_up;
        let before = sent(&ring);
        for _ in 0..500 {
            if sent(&ring) == before {
                ring.pass(10, None, |_| {});
            }
        }
        assert!(sent(&ring) > before, "a walk is under way");
        // Each knows the other by then: it waits for that before it is sent anything.
        ring.pass(200, None, |_| {});
        ring.apart = Some(gone);
        ring.pass(5000, None, |_| {});
        let has_all = |ring: &Ring, node: usize| ring.nodes[node].node.complete() == u64::MAX;
        assert!(has_all(&ring, 3 - gone), "{gone} is gone");
        assert!(!has_all(&ring, gone), "it was cut off in the midst of it");
        assert_eq!(ring.value(3 - gone, 1999), Some(7));
        ring.apart = None;
        ring.pass(5000, None, |_| {});
        assert!(has_all(&ring, gone));
        assert_eq!(ring.value(gone, 1999), Some(7));
    }
}
