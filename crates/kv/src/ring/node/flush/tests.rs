use super::super::super::wire::{Claim, Copy, Of};
use super::super::super::{Effects, Options, Placement, Roster, SESSIONS, Terms, View, wire};
use super::*;
use crate::store::{Store, StoreOptions, Worker};
use rhythm_net::Time;
use std::sync::Arc;

const NODES: usize = 3;
const OF: Of = Of { range: 0, epoch: 1 };

struct One {
    node: Node,
    store: Worker,
}

impl One {
    /// One of three nodes of one range, which the first is to serve.
    fn new(me: usize) -> One {
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            ..StoreOptions::default()
        });
        let view = Arc::new(View::new(Placement::whole(), me));
        let (terms, roster) = (Terms::new("node", []), Roster::round(NODES, 1));
        let options = Options::default();
        One {
            node: Node::new(terms, 1, options, view, roster, Time::ZERO),
            store: Store::worker(&Arc::new(store.expect("memory"))).expect("a seat"),
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Node, &mut Local<'_, '_>) -> R) -> R {
        act(&mut self.node, &mut Local::new(&mut self.store.pin(), 5))
    }

    /// It knows these, and has a copy of what one of them serves.
    fn knows(&mut self, others: [usize; 2], server: usize) {
        for other in others {
            self.node.peers[other].session = 1;
        }
        let (epoch, node) = (OF.epoch, server as u8);
        self.node.claims[0] = Claim { epoch, node };
        self.node.complete = 1;
    }

    fn hears(&mut self, from: usize, message: Message<'_>) {
        self.with(|node, local| node.message(from, message, local, &mut Effects::default()));
    }

    /// A frame of these messages is read.
    fn has_read(&mut self) {
        self.with(|node, local| node.drop_flushed(local));
    }

    fn has(&mut self, key: &[u8]) -> bool {
        let pinned = self.store.pin();
        pinned.get(pinned.store().hash(key), key, 5).is_some()
    }
}

fn put(key: &[u8]) -> Copy<'_> {
    Copy {
        key,
        flags: 0,
        left: 0,
        marks: 0,
        value: b"value",
    }
}

fn flush(by: u8, number: u32) -> Flush {
    let life = 1;
    Flush { by, life, number }
}

/// Who served a range says a flush when another does: that one wrote a key anew.
#[test]
fn who_hands_a_range_over_before_he_hears_of_a_flush_drops_nothing_that_is_written_since() {
    let next = Of {
        epoch: 1 + 1_000_000,
        ..OF
    };
    // Who takes it over, and one who has a copy.
    let (mut first, mut copy) = (One::new(0), One::new(2));
    first.knows([1, 2], 1);
    copy.knows([0, 1], 1);
    for (one, third) in [(&mut first, 2), (&mut copy, 0)] {
        one.hears(third, Message::Flush(flush(third as u8, 1)));
        for key in [b"a", b"b"] {
            one.hears(1, Message::Put(OF, put(key)));
            assert!(one.has(key));
        }
    }
    first.hears(1, Message::Serve(OF, 0b100));
    first.has_read();
    assert!(first.node.serves(0));
    assert!(!first.has(b"a") && !first.has(b"b"));
    first.with(|_, local| local.put(put(b"a")));
    copy.hears(0, Message::Put(next, put(b"a")));
    copy.has_read();
    for (one, third) in [(&mut first, 2), (&mut copy, 0)] {
        one.hears(1, Message::Flush(flush(third, 1)));
        one.has_read();
        assert!(one.has(b"a") && !one.has(b"b"), "as the other");
    }
}

/// What is noted of what comes meanwhile is no more than a node has, and goes with who wrote it.
#[test]
fn what_was_written_over_by_one_who_has_heard_of_a_flush_stays() {
    let mut copy = One::new(2);
    copy.knows([0, 1], 1);
    copy.hears(0, Message::Flush(flush(0, 1)));
    for _ in 0..100 {
        copy.hears(1, Message::Put(OF, put(b"a")));
    }
    assert_eq!(copy.node.flushes.noted(), 1);
    copy.node.flushes.came(0, b"a");
    assert_eq!(copy.node.flushes.noted(), 0);
    copy.hears(1, Message::Put(OF, put(b"b")));
    copy.node.lose(1, Time::ZERO, &mut Effects::default());
    assert_eq!(copy.node.flushes.noted(), 0);
    assert!(copy.has(b"a") && copy.has(b"b"));
}

/// One that began anew knows who says a flush, and not yet one who knows both.
#[test]
fn nobody_waits_for_one_who_said_it_before_they_knew_each_other() {
    let mut all = [0, 1, 2].map(One::new);
    let pass = |all: &mut [One; NODES], millis: u64, deaf: Option<(usize, usize)>| {
        let now = Time::from_nanos(1_000_000 * millis);
        for from in 0..NODES {
            let mut out = Effects::default();
            all[from].with(|node, local| node.tick(local, now, &mut out));
            all[from].node.flush(now, &mut out);
            for (to, frames) in out.frames.iter().enumerate() {
                let mut rest = &frames[..];
                while let Ok(Some(length)) = wire::length(rest, usize::MAX) {
                    let (frame, behind) = rest.split_at(length);
                    rest = behind;
                    if deaf != Some((from, to)) {
                        let out = &mut Effects::default();
                        all[to].with(|node, local| node.frame(frame, local, now, out));
                    }
                }
            }
        }
    };
    let deaf = Some((0, 2));
    (0..10).for_each(|step| pass(&mut all, 10 * step, deaf));
    assert_eq!([0, 2].map(|node| all[node].node.alive()), [0b111, 0b110]);
    all[1].with(|node, local| node.flush_all(local));
    (10..20).for_each(|step| pass(&mut all, 10 * step, deaf));
    assert!(all[0].node.flushes.is_under_way());
    (20..40).for_each(|step| pass(&mut all, 10 * step, None));
    assert_eq!([0, 2].map(|node| all[node].node.alive()), [0b111; 2]);
    assert!(all.iter().all(|one| !one.node.flushes.is_under_way()));
    // It may hear of one that all others heard of before.
    let late = flush(0, 7);
    all[2].hears(0, Message::Heard(late));
    all[2].hears(1, Message::Flush(late));
    assert!(!all[2].node.flushes.is_under_way());
    // Or be the only one who ever does.
    all[2].node.complete = 0;
    all[2].hears(0, Message::Heard(flush(0, 8)));
    assert!(!all[2].node.flushes.is_under_way());
}

/// One that begins anew is sent what was written since, by those who have heard, before it hears of
/// the flush by another.
#[test]
fn who_hears_late_of_a_flush_has_what_was_written_since() {
    for has_something in [false, true] {
        let mut one = One::new(2);
        one.knows([0, 1], 0);
        one.node.complete = u64::from(has_something);
        one.hears(0, Message::Heard(flush(1, 1)));
        one.hears(0, Message::Put(OF, put(b"a")));
        // It is sent that as long as it has all, and once more where it has not.
        one.node.complete = 1;
        if !has_something {
            one.hears(1, Message::Heard(flush(1, 1)));
        }
        one.hears(1, Message::Flush(flush(1, 1)));
        assert_eq!(one.has(b"a"), !has_something);
        assert_eq!(one.node.is_alive(0), !has_something);
        assert_eq!(one.node.complete, u64::from(!has_something));
        assert!(one.node.is_alive(1));
    }
}

/// What one wrote before it heard is not to stay where somebody has heard before it came.
#[test]
fn who_says_a_flush_late_to_one_who_has_heard_sends_it_all_anew() {
    for has_something in [false, true] {
        let mut one = One::new(2);
        one.knows([0, 1], 1);
        one.node.complete = 0;
        one.hears(0, Message::Heard(flush(0, 1)));
        one.hears(1, Message::Put(OF, put(b"a")));
        one.node.complete = u64::from(has_something);
        one.hears(1, Message::Flush(flush(0, 1)));
        assert_eq!(one.has(b"a"), has_something);
        assert_eq!(one.node.is_alive(1), !has_something);
        assert_eq!(one.node.complete, 0);
        // Said once more, nothing is.
        one.node.peers[1].session = 1;
        one.node.complete = 1;
        one.hears(0, Message::Flush(flush(0, 1)));
        assert!(one.node.is_alive(0));
    }
}

/// Its clock was set back, and it passes on what its life before said.
#[test]
fn what_an_earlier_life_said_is_not_behind_what_this_one_says() {
    let of_life = |life: u64| Flush {
        life: SESSIONS * life,
        ..flush(0, 1)
    };
    let mut one = One::new(2);
    one.knows([0, 1], 0);
    one.node.peers[0].session = SESSIONS * 4 + 1;
    one.hears(0, Message::Heard(of_life(5)));
    one.hears(0, Message::Flush(of_life(4)));
    assert!(one.node.is_alive(0));
    assert_eq!(one.node.complete, 1);
    // It is said once.
    one.hears(0, Message::Put(OF, put(b"a")));
    one.hears(1, Message::Flush(of_life(4)));
    assert!(one.has(b"a") && !one.node.flushes.is_under_way());
}
