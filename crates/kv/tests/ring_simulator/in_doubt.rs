//! Commands for a node that is alive, and does not know who serves its range: whoever sent them
//! does not wait for ever.

use crate::cluster::{Done, Op};
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Unanswered};
use std::time::Duration;

const NOT_DONE: Result<Option<u64>, Unanswered> = Err(Unanswered::NotDone);

fn ring(lease: Duration) -> Ring {
    let mut ring = Ring::with_slots(Options {
        acked: true,
        lease: Some(lease),
        ..Options::default()
    });
    ring.pass(10_000, None, |_| {});
    ring
}

/// A client has a node do something that another is to do; what it is told at once.
fn ask(ring: &mut Ring, node: usize, client: usize, op: Op, key: usize) {
    let now = ring.time();
    let (done, _) = ring.nodes[node].ask(&[(client, op, key)], now);
    ring.done.extend(done);
}

/// Nobody reaches etcd, and one is gone: of the others none knows whether somebody took what it
/// serves.
#[test]
fn what_waits_for_one_whose_lease_may_be_over_is_told_that_nothing_was_done() {
    let mut ring = ring(Duration::from_secs(1));
    let (server, node, gone) = (0, 1, 2);
    let serves = |range: &usize| usize::from(ring.nodes[node].node.claim(*range).node) == server;
    let range = (0..64).find(serves).expect("each serves some");
    let key = ring.key_of(range);
    ring.set(server, key, 7);
    ring.lose_etcd();
    ring.apart = Some(gone);
    ring.pass(2000, None, |_| {});
    ring.done.clear();
    ask(&mut ring, node, 1, Op::Get, key);
    ask(&mut ring, node, 2, Op::Set(8), key);
    ring.pass(1000, None, |_| {});
    ask(&mut ring, node, 3, Op::Get, key);
    ring.pass(900, None, |_| {});
    assert_eq!(ring.done, []);
    ring.pass(200, None, |_| {});
    assert_eq!(ring.done, [(1, NOT_DONE), (2, NOT_DONE)]);
    // What is there in time goes on, and what was given up is not done any more.
    ring.apart = None;
    ring.pass(200, None, |_| {});
    let rest: &[Done] = &[(3, Ok(Some(7)))];
    assert_eq!(&ring.done[2..], rest);
    for node in 0..NODES {
        ring.register(node);
    }
    ring.pass(5000, None, |_| {});
    assert_eq!(ring.value(server, key), Some(7));
}

/// It may serve the range, or not, as long as it has its lease.
#[test]
fn what_waits_for_one_who_gave_a_range_to_a_node_that_is_gone_is_told_so() {
    let mut ring = ring(Duration::from_secs(60));
    let range = 0;
    let order = ring.order(range);
    let (first, server, node) = (order[0], order[1], order[2]);
    let key = ring.key_of(range);
    ring.expire(first);
    ring.begin_anew(first);
    ring.pass(1000, None, |_| {});
    ring.set(server, key, 7);
    ring.register(first);
    let is_copied = |ring: &Ring| {
        let status = ring.nodes[server].node.status(ring.time());
        status.ranges[range].copies & 1 << first != 0
    };
    for _ in 0..1000 {
        if !is_copied(&ring) {
            ring.pass(10, None, |_| {});
        }
    }
    assert!(is_copied(&ring));
    ring.apart = Some(first);
    ring.pass(1000, None, |_| {});
    ring.done.clear();
    ask(&mut ring, node, 1, Op::Get, key);
    ring.pass(1900, None, |_| {});
    assert_eq!(ring.done, [], "it does not know");
    ring.pass(300, None, |_| {});
    assert_eq!(ring.done, [(1, NOT_DONE)]);
    ring.apart = None;
    ring.pass(1000, None, |_| {});
    assert_eq!(usize::from(ring.nodes[node].node.claim(range).node), first);
    ask(&mut ring, node, 2, Op::Get, key);
    ring.pass(100, None, |_| {});
    assert_eq!(ring.done[1..], [(2, Ok(Some(7)))]);
}
