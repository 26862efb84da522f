//! A node that is to be sent a range, is told that it is not, and then that it is, all in one
//! session: what it said to the first is no answer to the last.

use crate::cluster::Op;
use crate::stall::Ring;
use rhythm_kv::ring::Options;
use std::time::Duration;

#[test]
fn who_is_told_to_wait_for_a_range_again_gets_all_of_it() {
    let mut ring = Ring::new(Options {
        replicas: 1,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let of_0 = ring.key_of(0);
    ring.set(0, of_0, 1);
    assert_eq!(ring.nodes[0].node.targets(0), 0b010);
    // Node 1 dies, and node 2 is to have what 0 serves; its answer is long on its way.
    ring.clog(2, 0);
    ring.pass(2000, Some(1), |_| {});
    assert_eq!(ring.nodes[0].node.targets(0), 0b100);
    // Node 1 is back, has it all, and dies again, within a second in which 2 gets something.
    ring.begin_anew(1);
    while ring.nodes[0].node.targets(0) != 0b010 {
        let now = ring.time();
        ring.nodes[0].ask(&[(0, Op::Set(2), of_0)], now);
        ring.pass(10, None, |_| {});
    }
    while ring.nodes[0].node.targets(0) != 0b100 {
        ring.pass(10, Some(1), |_| {});
    }
    ring.clear();
    ring.pass(5000, Some(1), |_| {});
    let status = ring.nodes[0].node.status(ring.time());
    assert_eq!(status.ranges[0].copies, 0b100);
    assert!(ring.has(2, 0));
    assert_eq!(ring.value(2, of_0), Some(2));
}
