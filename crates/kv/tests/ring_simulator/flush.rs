//! `flush_all` at one node, while what another one wrote is on its way to copies: all agree on what
//! is there afterwards.

use crate::cluster::{FLUSH, Op};
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme, Unanswered};

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
    ring.nodes[at].flush_in(0);
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
    ring.nodes[2].flush_in(0);
    ring.pass(50, None, |_| {});
    ring.set(0, of_0, 1);
    ring.pass(50, None, |_| {});
    ring.clear();
    ring.pass(100, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [Some(1); NODES]);
}

/// Far more than anybody remembers are on their way at once, each behind a write. They come to an
/// end: what is written then stays.
#[test]
fn many_at_once_are_said_once_by_each() {
    let mut ring = ring(Scheme::Ring);
    let of_0 = ring.key_of(0);
    let now = ring.time();
    for write in 0..500 {
        for node in &mut ring.nodes {
            node.ask(&[(0, Op::Set(write), of_0)], now);
            node.flush_in(0);
        }
    }
    ring.pass(1000, None, |_| {});
    ring.set(0, of_0, 4711);
    ring.pass(1000, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [Some(4711); NODES]);
}

/// It comes about where it was said, and by that everywhere, whoever came since.
#[test]
fn one_that_is_to_come_comes_to_those_who_came_since() {
    let mut ring = ring(Scheme::Ring);
    let [of_0, of_1] = [0, 1].map(|range| ring.key_of(range));
    ring.set(0, of_0, 1);
    ring.nodes[1].flush_in(10);
    ring.pass(1000, Some(2), |_| {});
    ring.begin_anew(2);
    ring.pass(7500, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [Some(1); NODES]);
    ring.pass(2500, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [None; NODES]);
    // One that is said later takes its place.
    ring.set(1, of_1, 2);
    ring.nodes[1].flush_in(2);
    ring.nodes[1].flush_in(10);
    ring.pass(5000, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_1));
    assert_eq!(values, [Some(2); NODES]);
}

/// A link breaks under it, and both are there again at once: the other may not have heard of it.
#[test]
fn who_says_it_is_told_where_a_node_was_lost_before_it_heard() {
    for is_lost in [false, true] {
        let mut ring = ring(Scheme::Ring);
        ring.clog(0, 1);
        ring.done.clear();
        ring.nodes[0].flush_in(0);
        ring.pass(100, None, |_| {});
        assert_eq!(ring.done, [], "not all have heard of it");
        if is_lost {
            ring.pass(3000, Some(1), |_| {});
        }
        ring.clear();
        ring.pass(100, None, |_| {});
        let answer = match is_lost {
            true => Err(Unanswered::Unknown),
            false => Ok(None),
        };
        assert_eq!(ring.done, [(FLUSH, answer)]);
    }
}

/// Another worker writes behind it, and hands that over first.
#[test]
fn what_is_written_behind_it_is_on_all_nodes_whichever_is_handed_over_first() {
    let mut ring = ring(Scheme::Ring);
    let of_0 = ring.key_of(0);
    ring.set(0, of_0, 1);
    let now = ring.time();
    ring.nodes[0].flush_in(0);
    ring.nodes[0].ask(&[(7, Op::Set(2), of_0)], now);
    ring.nodes[0].hands_over_last_first();
    ring.pass(100, None, |_| {});
    let [first, rest @ ..] = [0, 1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(rest, [first; 2]);
}

/// All have heard of the first when the second is on its way from the head to the last node, which
/// has heard of it before: what goes there by way of the one between overtakes it.
#[test]
fn what_a_chain_confirmed_behind_two_flushes_is_on_all_nodes() {
    let times = |most| (0..=most).step_by(10);
    for (between, until) in times(30).flat_map(|of| times(60).map(move |until| (of, until))) {
        let mut ring = ring(Scheme::Chain);
        let of_0 = ring.key_of(0);
        ring.nodes[1].flush_in(0);
        ring.pass(between, None, |_| {});
        ring.nodes[2].flush_in(0);
        ring.pass(until, None, |_| {});
        ring.clog(0, 2);
        ring.pass(100, None, |_| {});
        ring.done.clear();
        let now = ring.time();
        ring.nodes[0].ask(&[(0, Op::Set(1), of_0)], now);
        ring.pass(100, None, |_| {});
        ring.clear();
        ring.pass(1000, None, |_| {});
        assert_eq!(ring.done, [(0, Ok(None))]);
        let values = [0, 1, 2].map(|node| ring.value(node, of_0));
        assert_eq!(values, [Some(1); NODES], "{between} {until}");
    }
}

/// What the other nodes heard it say in an earlier life looks as if it had been later.
#[test]
fn one_that_is_said_by_a_node_whose_clock_was_set_back_is_new() {
    let mut ring = ring(Scheme::Ring);
    ring.nodes[1].flush_in(0);
    ring.pass(100, None, |_| {});
    ring.pass(1000, Some(1), |_| {});
    ring.is_set_back = true;
    ring.begin_anew(1);
    ring.pass(3000, None, |_| {});
    let [of_0, of_1] = [0, 1].map(|range| ring.key_of(range));
    for (range, key) in [(0, of_0), (1, of_1)] {
        ring.set(range, key, 1);
    }
    ring.nodes[1].flush_in(0);
    ring.pass(1000, None, |_| {});
    for key in [of_0, of_1] {
        assert_eq!([0, 1, 2].map(|node| ring.value(node, key)), [None; NODES]);
    }
}

/// It hears that another has heard, before it has anything, and is given what it is to serve by one
/// who has not.
#[test]
fn what_one_that_began_was_given_by_one_who_had_not_heard_is_on_all_nodes() {
    let mut ring = ring(Scheme::Ring);
    let of_1 = ring.key_of(1);
    ring.apart = Some(1);
    ring.pass(1000, None, |_| {});
    ring.set(2, of_1, 1);
    ring.clog(0, 2);
    ring.nodes[0].flush_in(0);
    ring.pass(50, None, |_| {});
    assert_eq!([0, 2].map(|node| ring.value(node, of_1)), [None, Some(1)]);
    ring.begin_anew(1);
    ring.apart = None;
    while ring.nodes[1].node.claim(1).node != 1 || !ring.has(1, 1) {
        ring.pass(10, None, |_| {});
    }
    ring.pass(5000, None, |_| {});
    let [first, rest @ ..] = [1, 0, 2].map(|node| ring.value(node, of_1));
    assert_eq!(rest, [first; 2]);
    ring.clear();
    ring.pass(5000, None, |_| {});
    let [first, rest @ ..] = [1, 0, 2].map(|node| ring.value(node, of_1));
    assert_eq!(rest, [first; 2]);
    ring.set(1, of_1, 3);
    ring.pass(100, None, |_| {});
    let values = [0, 1, 2].map(|node| ring.value(node, of_1));
    assert_eq!(values, [Some(3); NODES]);
}
