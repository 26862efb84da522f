//! A node that leaves while it is sent anew what it has a copy of: another serves it since, and it
//! may have what that one has not. All that was confirmed it has, and it is needed as long as
//! nobody else has that.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;

#[test]
fn a_copy_that_is_sent_anew_goes_when_those_who_stay_have_theirs() {
    let mut ring = Ring::new(Options {
        replicas: NODES - 1,
        acked: true,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let number = ring.key_of(1);
    let now = ring.time();
    ring.nodes[1].ask(&[(0, Op::Set(1), number)], now);
    ring.pass(100, None, |_| {});
    // It dies, and the next one takes its range. The one behind that waits for the next second,
    // as something was put there in this one.
    ring.pass(600, Some(1), |_| {});
    assert_eq!(ring.nodes[2].node.claim(1).node, 2);
    assert_eq!(ring.nodes[2].node.targets(1), 0b001);
    ring.begin_anew(1);
    while ring.nodes[2].node.alive() != 0b111 {
        ring.pass(10, None, |_| {});
    }
    let now = ring.time();
    assert!(ring.nodes[0].node.status(now).ranges[1].is_coming);
    assert_eq!(ring.nodes[1].node.complete(), 0);
    ring.nodes[0].leave(now);
    ring.pass(3000, None, |nodes| {
        let [left, back] = [0, 1].map(|node| nodes[node].node.complete() & 0b010 != 0);
        assert!(left || back, "only the server has it");
    });
    let now = ring.time();
    assert!(ring.nodes[0].node.has_left(now));
    let of_1 = |node: usize| ring.nodes[node].node.claim(1).node;
    assert_eq!([1, 2].map(of_1), [1, 1]);
    assert_eq!(ring.nodes[1].items(1, now).len(), 1);
}

/// A ring in which node 0 alone has what it served, and node 1 begins to be sent that; node 2 has
/// left.
fn with_one_that_begins() -> Ring {
    let mut ring = Ring::new(Options {
        acked: true,
        sync_rate: 1000,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    for number in 0..KEYS {
        ring.set(0, number, 1);
    }
    let now = ring.time();
    ring.nodes[2].leave(now);
    ring.pass(5000, None, |_| {});
    assert!(ring.nodes[2].node.has_left(ring.time()));
    let now = ring.time();
    ring.nodes[2].node.go(now);
    ring.pass(1000, None, |_| {});
    ring.pass(1000, Some(1), |_| {});
    ring.begin_anew(1);
    while ring.nodes[0].node.alive() != 0b011 {
        ring.pass(10, None, |_| {});
    }
    ring.pass(100, None, |_| {});
    assert_eq!(ring.nodes[1].node.complete(), 0);
    ring
}

const KEYS: usize = 50;

#[test]
fn who_stays_and_is_silent_for_a_moment_is_waited_for() {
    let mut ring = with_one_that_begins();
    let now = ring.time();
    ring.nodes[0].leave(now);
    let has_left = |ring: &Ring| ring.nodes[0].node.has_left(ring.time());
    ring.pass(1500, Some(1), |_| {});
    assert_eq!(ring.nodes[0].node.alive(), 0b001);
    while ring.nodes[0].node.alive() != 0b011 {
        assert!(!has_left(&ring));
        ring.pass(10, None, |_| {});
    }
    ring.pass(10_000, None, |_| {});
    assert!(has_left(&ring));
    let values = (0..KEYS).map(|number| ring.value(1, number));
    assert_eq!(values.collect::<Vec<_>>(), [Some(1); KEYS]);
}

#[test]
fn who_is_gone_for_long_or_said_so_is_not_waited_for() {
    let mut ring = with_one_that_begins();
    ring.pass(6000, Some(1), |_| {});
    let now = ring.time();
    ring.nodes[0].leave(now);
    ring.pass(600, Some(1), |_| {});
    assert!(ring.nodes[0].node.has_left(ring.time()));
    // It is not there either, and said so.
    let mut ring = with_one_that_begins();
    let now = ring.time();
    ring.nodes[1].leave(now);
    ring.nodes[1].node.go(now);
    ring.pass(100, None, |_| {});
    let now = ring.time();
    ring.nodes[0].leave(now);
    ring.pass(300, None, |nodes| assert!(!nodes[0].node.has_left(now)));
    ring.pass(300, None, |_| {});
    assert!(ring.nodes[0].node.has_left(ring.time()));
}
