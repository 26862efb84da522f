//! A node is sent what it does not have while clients write: whoever else takes little of that does
//! not keep it from it.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;
use std::time::Duration;

#[test]
fn a_neighbor_that_takes_too_little_does_not_keep_another_from_its_copies() {
    let most = 1 << 14;
    let mut ring = Ring::new(Options {
        replicas: NODES - 1,
        queue_max: most,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let [of_0, of_2] = [0, 2].map(|range| ring.key_of(range));
    ring.set(2, of_2, 1);
    ring.pass(2000, Some(2), |_| {});
    // As much waits for node 1 as there may before writes wait, or somewhat less.
    ring.clog(0, 1);
    let waits = |ring: &Ring| ring.nodes[0].node.status(ring.time()).nodes[1].unacknowledged;
    while waits(&ring) < most * 3 / 4 {
        let now = ring.time();
        for client in 0..20 {
            ring.nodes[0].ask(&[(client, Op::Set(1), of_0)], now);
        }
        ring.pass(10, Some(2), |_| {});
    }
    ring.begin_anew(2);
    ring.pass(5000, None, |_| {});
    assert!((0..NODES).all(|range| ring.has(2, range)));
    assert_eq!(ring.value(2, of_2), Some(1));
}

/// It has nothing that is to be told from what it gets: no second is to pass for that, whichever
/// node it is, and whether the others still know it when it begins.
#[test]
fn a_node_that_begins_with_nothing_serves_again_at_once() {
    for node in 0..NODES {
        for gone in [100, 3000] {
            let mut ring = Ring::new(Options::default());
            ring.pass(5000, None, |_| {});
            let key = ring.key_of(node);
            ring.set(node, key, 1);
            ring.pass(500 + gone, Some(node), |_| {});
            ring.begin_anew(node);
            // Until it is seen that the one before it is gone.
            let known = 500_u64.saturating_sub(gone);
            ring.pass(known + 250, None, |_| {});
            let serves = ring.nodes[node].node.claim(node).node;
            assert_eq!(
                (usize::from(serves), ring.has(node, node)),
                (node, true),
                "{gone}"
            );
            assert_eq!(ring.value(node, key), Some(1));
        }
    }
}

/// An earlier life claimed what it served, and the others take that for alive yet.
#[test]
fn what_an_earlier_life_claimed_is_not_told_as_served() {
    let mut ring = Ring::new(Options::default());
    ring.pass(5000, None, |_| {});
    ring.begin_anew(1);
    let told = |ring: &mut Ring| {
        ring.pass(10, None, |_| {});
        let claim = ring.nodes[1].node.status(ring.time()).ranges[1].claim;
        let is_told = claim.epoch > 0 && claim.node == 1;
        assert!(!is_told || ring.has(1, 1));
        is_told
    };
    assert_eq!((0..500).filter(|_| told(&mut ring)).count().min(1), 1);
}
