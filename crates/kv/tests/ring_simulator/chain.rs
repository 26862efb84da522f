//! What is long on its way from one node of a chain to the next: by the time it comes, the head has
//! sent what followed itself.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};
use rhythm_net::Time;
use std::time::Duration;

/// One with a chain of all nodes for each range.
fn ring() -> Ring {
    let mut ring = Ring::new(Options {
        scheme: Scheme::Chain,
        replicas: NODES - 1,
        acked: true,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    ring
}

#[test]
fn what_comes_down_a_chain_that_is_no_more_is_dropped() {
    let mut ring = ring();
    let (of_0, now) = (ring.key_of(0), ring.time());
    assert!(ring.nodes[2].view.may_read_copy(0, now), "there is a chain");
    // The chain begins again meanwhile, so that all of the next one is on its way.
    ring.clog(1, 2);
    ring.set(0, of_0, 1);
    ring.pass(1200, None, |_| {});
    ring.set(0, of_0, 2);
    ring.set(0, of_0, 3);
    ring.clear();
    ring.pass(10, None, |_| {});
    assert_eq!(ring.value(2, of_0), Some(3));
}

/// Of a head's chains one comes to an end at a node that takes nothing of the one before it: writes
/// of that range wait, and those of the others do not.
#[test]
fn a_slow_chain_stops_its_own_writes_only() {
    let mut ring = Ring::with_slots(Options {
        scheme: Scheme::Chain,
        replicas: NODES - 1,
        acked: true,
        queue_max: 4096,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let now = ring.time();
    let ends_at = |ring: &Ring, tail: usize| {
        let mut ranges = 0..ring.placement.ranges();
        let is_it = |range: &usize| {
            ring.nodes[0].node.claim(*range).node == 0
                && ring.nodes[tail].view.may_read_copy(*range, now)
        };
        ranges.find(is_it).expect("there is a chain")
    };
    let [well, ill] = [1, 2].map(|tail| ends_at(&ring, tail));
    let [of_well, of_ill] = [well, ill].map(|range| ring.key_of(range));
    ring.clog(1, 2);
    let mut write = 0;
    while ring.nodes[0].view.full() == 0 {
        assert!(write < 300, "writes wait at last");
        let now = ring.time();
        // By themselves: what one turn writes of a key goes once.
        for client in 0..20 {
            ring.nodes[0].ask(&[(client, Op::Set(write), of_ill)], now);
        }
        write += 1;
        ring.pass(10, None, |_| {});
    }
    assert_eq!(ring.nodes[0].view.full(), 1 << ill);
    let now = ring.time();
    ring.nodes[0].ask(&[(1000, Op::Set(4711), of_well)], now);
    ring.pass(50, None, |nodes| assert_eq!(nodes[0].view.full(), 1 << ill));
    assert_eq!(ring.value(1, of_well), Some(4711));
}

/// The last node takes the head for dead a moment before the next does, who passes on what he had
/// of it.
#[test]
fn what_comes_of_a_dead_head_holds_up_nobody() {
    let mut ring = ring();
    let [of_0, of_2] = [0, 2].map(|range| ring.key_of(range));
    ring.clog(1, 2);
    let now = ring.time();
    ring.nodes[0].ask(&[(0, Op::Set(1), of_0)], now);
    ring.pass(50, None, |_| {});
    ring.deaf = Some((0, 2));
    ring.pass(50, None, |_| {});
    ring.apart = Some(0);
    let knows = |ring: &Ring, node: usize| ring.nodes[node].node.alive() & 1 != 0;
    while knows(&ring, 2) {
        ring.pass(10, None, |_| {});
    }
    assert!(knows(&ring, 1));
    ring.clear();
    ring.pass(20, None, |_| {});
    assert_eq!(ring.value(2, of_0), Some(1), "it came");
    ring.pass(3000, None, |_| {});
    ring.nodes[2].flush_in(0);
    ring.pass(20, None, |_| {});
    ring.set(2, of_2, 2);
}

/// A flush that was to come comes about in the moment in which the last node is taken for dead,
/// and something is on its way there.
#[test]
fn what_is_flushed_when_a_node_dies_holds_up_nobody() {
    // When it is heard last follows from what was said before.
    for at in (0..50).step_by(10) {
        let mut ring = ring();
        let of_1 = ring.key_of(1);
        ring.nodes[1].flush_in(2);
        ring.pass(1000 + at, None, |_| {});
        ring.set(1, of_1, 1);
        let ends = Time::from_nanos(6_500_000_000);
        ring.pass(ends.since(ring.time()).as_millis() as u64, None, |_| {});
        ring.apart = Some(0);
        let now = ring.time();
        ring.nodes[1].ask(&[(1, Op::Set(2), of_1)], now);
        ring.pass(3000, None, |_| {});
        ring.set(1, of_1, 3);
    }
}

/// Two of its nodes hear each other, and nothing gets through from one to the other: the head is
/// heard by both.
#[test]
fn a_chain_that_never_comes_about_is_tried_ever_more_seldom() {
    let mut ring = ring();
    let (of_0, began) = (ring.key_of(0), ring.time());
    ring.clog(1, 2);
    let (mut write, mut slow) = (0, Vec::new());
    while ring.time().since(began) < Duration::from_secs(25) {
        let asked = ring.time();
        write += 1;
        ring.set(0, of_0, write);
        if ring.time().since(asked) >= Duration::from_millis(300) {
            slow.push(asked.since(began));
        }
        ring.pass(50, None, |_| {});
    }
    assert!((1..=6).contains(&slow.len()), "{slow:?}");
    // When it does, it is there.
    ring.clear();
    ring.pass(60_000, None, |_| {});
    let now = ring.time();
    assert!(ring.nodes[2].view.may_read_copy(0, now));
}
