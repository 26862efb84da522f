//! Many commands for a node that says nothing: those for others go on.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;

/// What may be held in one place.
const MOST: usize = 4096;

/// What a command costs, at least.
const COST: usize = 128;

fn ring() -> Ring {
    let mut ring = Ring::new(Options {
        queue_max: MOST,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    ring
}

fn crowded(ring: &Ring, node: usize) -> u64 {
    ring.nodes[node].view.crowded()
}

#[test]
fn commands_for_a_node_that_is_gone_wait_and_those_for_others_do_not() {
    let mut ring = ring();
    let of = [0, 1, 2].map(|range| ring.key_of(range));
    // A node stands still, and as much comes for it as is taken.
    let mut asked = 0;
    while crowded(&ring, 0) & 1 << 2 == 0 {
        assert!(asked < 1000, "it waits with its clients at last");
        let now = ring.time();
        let ops: Vec<_> = (asked..asked + 10).map(|n| (n, Op::Get, of[2])).collect();
        ring.nodes[0].ask(&ops, now);
        asked += 10;
        ring.pass(10, Some(2), |nodes| {
            assert_eq!(nodes[0].node.alive(), 0b111)
        });
    }
    // What is sent there, and what waits, is not much more than that.
    assert!(asked * COST < 3 * MOST, "{asked}");
    // The others are well, and so are commands for them, for as long as it is not known.
    let mut rounds = 0;
    while ring.nodes[0].node.alive() == 0b111 {
        rounds += 1;
        assert_eq!(crowded(&ring, 0), 1 << 2, "{rounds}");
        ring.done.clear();
        let now = ring.time();
        ring.nodes[0].ask(&[(5000, Op::Set(rounds), of[1])], now);
        ring.pass(50, Some(2), |_| {});
        assert!(ring.done.contains(&(5000, Ok(None))), "{rounds}");
    }
    assert!(rounds > 1, "it is found dead too soon");
    assert_eq!(ring.value(1, of[1]), Some(rounds));
    // Another serves its keys: all that waits is answered.
    ring.pass(1000, Some(2), |_| {});
    assert!((0..NODES).all(|node| crowded(&ring, node) == 0));
    assert!(ring.nodes[0].waiting.is_empty());
}

#[test]
fn what_waits_for_ranges_that_turn_ill_one_after_the_other_is_bounded() {
    let mut ring = ring();
    let of = [1, 2].map(|range| ring.key_of(range));
    ring.apart = Some(0);
    let mut asked = 0;
    // Whoever asks does not look whether there is room.
    while crowded(&ring, 0) != u64::MAX {
        assert!(asked < 1000, "all wait with their clients at last");
        let now = ring.time();
        let ops: Vec<_> = (asked..asked + 10)
            .map(|n| (n, Op::Get, of[n % 2]))
            .collect();
        ring.nodes[0].ask(&ops, now);
        asked += 10;
        ring.pass(10, None, |nodes| assert_eq!(nodes[0].node.alive(), 0b111));
    }
    // What was sent to each of them, and what waits.
    assert!(asked * COST < 5 * MOST, "{asked}");
}

#[test]
fn writes_wait_for_a_copy_that_is_not_taken_and_others_do_not() {
    let mut ring = Ring::with_slots(Options {
        queue_max: MOST,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    // What node 0 serves, by who has its copies.
    let copied = |ring: &Ring, to: usize| {
        let ranges = 0..ring.placement.ranges();
        let of = ranges.filter(|range| ring.nodes[0].node.targets(*range) == 1 << to);
        of.fold(0_u64, |set, range| set | 1 << range)
    };
    let [by_1, by_2] = [1, 2].map(|node| copied(&ring, node));
    let [well, ill] = [by_1, by_2].map(|ranges| ring.key_of(ranges.trailing_zeros() as usize));
    let mut write = 0;
    while ring.nodes[0].view.full() == 0 {
        assert!(write < 1000, "writes wait at last");
        let now = ring.time();
        let ops: Vec<_> = (0..10).map(|n| (n, Op::Set(write), ill)).collect();
        ring.nodes[0].ask(&ops, now);
        write += 1;
        ring.pass(10, Some(2), |nodes| {
            assert_eq!(nodes[0].node.alive(), 0b111)
        });
    }
    assert_eq!(ring.nodes[0].view.full(), by_2);
    let now = ring.time();
    ring.nodes[0].ask(&[(0, Op::Set(4711), well)], now);
    ring.pass(50, Some(2), |nodes| assert_eq!(nodes[0].view.full(), by_2));
    assert_eq!(ring.value(1, well), Some(4711));
    // Nor do those that another node passes on, behind one that waits.
    let now = ring.time();
    ring.done.clear();
    ring.nodes[1].ask(&[(1, Op::Set(4712), ill), (2, Op::Set(4713), well)], now);
    ring.pass(50, Some(2), |nodes| assert_eq!(nodes[0].view.full(), by_2));
    assert_eq!(ring.done, [(2, Ok(None))]);
    ring.pass(5000, None, |_| {});
    assert!(ring.done.contains(&(1, Ok(None))));
    assert_eq!(ring.value(0, ill), Some(4712));
}
