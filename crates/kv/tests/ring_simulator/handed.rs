//! A node is given a range, and stands still before it says that it serves it.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};

#[test]
fn what_is_confirmed_while_who_was_given_a_range_stands_still_is_kept() {
    for scheme in [Scheme::Ring, Scheme::Chain] {
        let mut ring = Ring::new(Options {
            scheme,
            replicas: NODES - 1,
            acked: true,
            ..Options::default()
        });
        ring.pass(5000, None, |_| {});
        let of_1 = ring.key_of(1);
        ring.set(1, of_1, 1);
        // Node 2 serves what node 1 does, which is back then, and is given it.
        ring.pass(1000, Some(1), |_| {});
        ring.begin_anew(1);
        ring.held = Some(1);
        let serves = |ring: &Ring| ring.nodes[1].node.claim(1).node == 1 && ring.has(1, 1);
        while !serves(&ring) {
            ring.say();
            ring.pass(10, None, |_| {});
        }
        assert_eq!(ring.nodes[2].node.claim(1).node, 2, "{scheme:?}");
        while ring.nodes[2].node.alive() != 0b101 {
            ring.pass(10, Some(1), |_| {});
        }
        let now = ring.time();
        ring.nodes[2].ask(&[(7, Op::Set(2), of_1)], now);
        ring.pass(300, Some(1), |_| {});
        assert!(ring.done.contains(&(7, Ok(None))), "{scheme:?}");
        ring.held = None;
        ring.say();
        ring.pass(5000, None, |_| {});
        let values = [0, 1, 2].map(|node| ring.value(node, of_1));
        assert_eq!(values, [Some(2); NODES], "{scheme:?}");
        // It has it in the end.
        let servers = [0, 1, 2].map(|node| ring.nodes[node].node.claim(1).node);
        assert_eq!(servers, [1; NODES], "{scheme:?}");
    }
}
