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
