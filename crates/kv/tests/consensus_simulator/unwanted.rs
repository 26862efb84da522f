//! What was asked by clients who have gone since.

use crate::disk::SimDisk;
use rhythm_kv::consensus::{Answer, Command, Effects, Node, Options, Outcome, Request, TICK};
use rhythm_kv::wire::Mode;
use rhythm_net::Time;

/// Many more ticks than it takes until one leads.
const TICKS: u32 = 200;

#[test]
fn what_nobody_waits_for_any_more_is_not_begun() {
    let options = Options {
        id: 1,
        nodes: 1,
        digest: 99,
        whose: 0,
        seed: 1,
        started: 1,
        journal_bytes: 1 << 20,
    };
    let mut now = Time::ZERO;
    let mut node = Node::open(options, SimDisk::default(), &[], now).unwrap();
    let store = |key: u8| {
        Request::Change(Command::Store {
            mode: Mode::Set,
            key: vec![key],
            flags: 0,
            value: vec![b'x'; 100_000],
            cas: 0,
            lease: None,
        })
    };
    // Nobody leads yet, so that nothing is begun.
    for ticket in 1..=30_u8 {
        node.ask(ticket.into(), store(ticket), now);
    }
    for gone in (1..=30).filter(|ticket| ticket % 10 != 0) {
        node.forget(gone);
    }
    let mut told = Vec::new();
    let mut effects = Effects::default();
    for _ in 0..TICKS {
        now += TICK;
        node.tick(now);
        node.flush(now, &mut effects).unwrap();
        told.append(&mut effects.answers);
    }
    let stored = |ticket, revision| (ticket, Answer::Done(Outcome::Stored(revision)));
    assert_eq!(told, [stored(10, 1), stored(20, 2), stored(30, 3)]);
    assert_eq!(node.keyspace().len(), 3);

    // What was begun, or is nothing that waits, is not forgotten; and what comes later is done.
    node.ask(31, store(31), now);
    node.flush(now, &mut effects).unwrap();
    (1..=32).for_each(|ticket| node.forget(ticket));
    node.ask(33, store(33), now);
    node.flush(now, &mut effects).unwrap();
    assert_eq!(effects.answers, [stored(31, 4), stored(33, 5)]);
    assert!(node.is_done());
}
