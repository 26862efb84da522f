//! A long frame to a node that takes its bytes one by one.

use crate::cluster::Op;
use crate::stall::Ring;
use rhythm_kv::ring::Options;

#[test]
fn who_takes_some_bytes_all_the_time_is_not_stuck_and_is_sent_nothing_again() {
    let mut ring = Ring::new(Options::default());
    ring.pass(5000, None, |_| {});
    let of_0 = ring.key_of(0);
    ring.clog(0, 1);
    let now = ring.time();
    let resent = ring.nodes[0].node.status(now).nodes[1].resent;
    ring.nodes[0].ask(&[(0, Op::Set(1), of_0)], now);
    ring.pass(5000, None, |nodes| assert_eq!(nodes[0].node.alive(), 0b111));
    let status = ring.nodes[0].node.status(ring.time());
    assert!(status.nodes[1].unacknowledged > 0);
    assert_eq!(status.nodes[1].resent, resent);
    ring.clear();
    ring.pass(100, None, |_| {});
    assert_eq!(ring.value(1, of_0), Some(1));
}
