//! What is long on its way from one node of a chain to the next: by the time it comes, the head has
//! sent what followed itself.

use crate::cluster::Op;
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
