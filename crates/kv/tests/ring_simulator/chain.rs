//! What is long on its way from one node of a chain to the next: by the time it comes, the head has
//! sent what followed itself.

use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};
use std::time::Duration;

#[test]
fn what_comes_down_a_chain_that_is_no_more_is_dropped() {
    let mut ring = Ring::new(Options {
        scheme: Scheme::Chain,
        replicas: NODES - 1,
        acked: true,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
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
