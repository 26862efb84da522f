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
