//! `flush_all` at one node, while what another one wrote is on its way to copies: all agree on what
//! is there afterwards.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};

fn ring(scheme: Scheme) -> Ring {
    let mut ring = Ring::new(Options {
        scheme,
        replicas: NODES - 1,
        acked: scheme == Scheme::Chain,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    ring
}

/// Says it at a node, while a write of range 0 is on its way from one node to another; it comes
/// there when all have heard of the flush.
fn flushed(scheme: Scheme, (from, to): (usize, usize), at: usize) {
    let mut ring = ring(scheme);
    let of_0 = ring.key_of(0);
    ring.set(0, of_0, 1);
    ring.pass(100, None, |_| {});
    ring.clog(from, to);
    let now = ring.time();
    ring.nodes[0].ask(&[(0, Op::Set(2), of_0)], now);
    ring.pass(50, None, |_| {});
    let now = ring.time();
    ring.nodes[at].flush_all(now);
    ring.pass(50, None, |_| {});
    ring.clear();
    ring.pass(100, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [None; NODES], "{scheme:?}");
    // What follows is everywhere.
    ring.set(0, of_0, 3);
    ring.pass(100, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [Some(3); NODES], "{scheme:?}");
}

#[test]
fn what_was_on_its_way_before_is_gone_on_all_nodes() {
    flushed(Scheme::Ring, (0, 1), 2);
    flushed(Scheme::Chain, (1, 2), 2);
}

/// Who serves the range has heard of it by way of another node.
#[test]
fn what_is_written_since_stays_on_a_copy_that_hears_of_it_late() {
    let mut ring = ring(Scheme::Ring);
    let of_0 = ring.key_of(0);
    ring.clog(2, 1);
    let now = ring.time();
    ring.nodes[2].flush_all(now);
    ring.pass(50, None, |_| {});
    ring.set(0, of_0, 1);
    ring.pass(50, None, |_| {});
    ring.clear();
    ring.pass(100, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [Some(1); NODES]);
}
