//! Many commands that a node is to execute at once: others hear of it meanwhile.

use crate::cluster::Op;
use crate::stall::Ring;
use rhythm_kv::ring::Options;

/// So many come, and so many short ones at most are executed in one turn.
const MANY: usize = 20_000;
const MOST: usize = (1 << 20) / 128;

/// Has time pass until all are answered; how many were in one turn, at most.
fn most_in_a_turn(ring: &mut Ring) -> usize {
    let mut most = 0;
    for _ in 0..1000 {
        let before = ring.done.len();
        ring.pass(10, None, |_| {});
        most = most.max(ring.done.len() - before);
        if ring.done.len() == MANY {
            assert!(ring.done.iter().all(|(_, answer)| *answer == Ok(None)));
            return most;
        }
    }
    panic!("{} are answered", ring.done.len());
}

#[test]
fn what_others_ask_together_is_executed_over_several_turns() {
    let mut ring = Ring::new(Options::default());
    ring.pass(5000, None, |_| {});
    let (key, now) = (ring.key_of(0), ring.time());
    let ops: Vec<_> = (0..MANY).map(|client| (client, Op::Get, key)).collect();
    ring.nodes[1].ask(&ops, now);
    let most = most_in_a_turn(&mut ring);
    assert!(most <= MOST && most > MOST / 2, "{most}");
    let order: Vec<usize> = ring.done.iter().map(|(client, _)| *client).collect();
    assert!(order.is_sorted());
}

#[test]
fn what_waited_until_it_is_known_who_serves_it_is_executed_over_several_turns() {
    let mut ring = Ring::new(Options::default());
    let (key, now) = (ring.key_of(0), ring.time());
    let ops: Vec<_> = (0..MANY).map(|client| (client, Op::Get, key)).collect();
    ring.nodes[0].ask(&ops, now);
    let most = most_in_a_turn(&mut ring);
    assert!(most <= MOST / 2 && most > MOST / 4, "{most}");
}
