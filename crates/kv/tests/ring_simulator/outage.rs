//! etcd is away for longer than a lease, or comes back with nothing: all leases end, though all
//! nodes are there, and one after the other has another.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(1);
/// The same, in milliseconds; one that is let go, and silent, is waited for four times as long.
const LASTS: u64 = 1000;
const WAITED: u64 = 4 * LASTS + 500;

/// A ring, a range, and a key of it: node 0 has no copy of it, which is served by `server` and
/// copied to `copy`.
struct Served {
    ring: Ring,
    range: usize,
    key: usize,
    server: usize,
    copy: usize,
}

impl Served {
    fn new() -> Served {
        let mut ring = Ring::with_slots(Options {
            acked: true,
            lease: Some(LEASE),
            ..Options::default()
        });
        ring.pass(10_000, None, |_| {});
        let is_elsewhere = |range: &usize| !ring.has(0, *range);
        let range = (0..64)
            .find(is_elsewhere)
            .expect("one copy of each is made");
        let server = usize::from(ring.nodes[0].node.claim(range).node);
        let (key, copy) = (ring.key_of(range), NODES - server);
        assert!(ring.has(copy, range));
        ring.set(server, key, 7);
        ring.pass(100, None, |_| {});
        Served {
            ring,
            range,
            key,
            server,
            copy,
        }
    }

    fn server_now(&self, node: usize) -> usize {
        self.ring.nodes[node].node.claim(self.range).node.into()
    }
}

#[test]
fn who_registers_first_takes_nothing_that_others_have() {
    let mut of = Served::new();
    of.ring.lose_etcd();
    of.ring.pass(2 * LASTS, None, |_| {});
    for node in [0, of.copy, of.server] {
        of.ring.register(node);
        of.ring.pass(10 * LASTS, None, |_| {});
    }
    assert_eq!(of.server_now(0), of.server);
    assert_eq!(of.ring.value(of.server, of.key), Some(7));
    of.ring.set(of.server, of.key, 8);
}

/// It begins with nothing, and is alone as far as etcd knows.
#[test]
fn who_begins_meanwhile_takes_nothing_that_others_have() {
    let mut of = Served::new();
    of.ring.lose_etcd();
    of.ring.pass(2 * LASTS, None, |_| {});
    of.ring.begin_anew(0);
    for node in [0, of.copy, of.server] {
        of.ring.register(node);
        of.ring.pass(3 * LASTS, None, |_| {});
    }
    of.ring.pass(10 * LASTS, None, |_| {});
    assert_eq!(of.server_now(0), of.server);
    assert_eq!(of.ring.value(of.server, of.key), Some(7));
}

/// No copy is known to have all, and one has more than the others.
#[test]
fn where_one_dies_meanwhile_who_had_its_copy_takes_over() {
    for is_first in [false, true] {
        let mut of = Served::new();
        of.ring.lose_etcd();
        of.ring.pass(2 * LASTS, None, |_| {});
        of.ring.apart = Some(of.server);
        let mut order = [0, of.copy];
        if is_first {
            order.reverse();
        }
        for node in order {
            of.ring.register(node);
            of.ring.pass(LASTS, None, |_| {});
        }
        of.ring.pass(WAITED + 2 * LASTS, None, |_| {});
        assert_eq!(of.server_now(0), of.copy, "{is_first}");
        assert_eq!(of.ring.value(of.copy, of.key), Some(7));
        of.ring.set(of.copy, of.key, 8);
    }
}

/// Who stands before it has come back just before, and has nothing yet.
#[test]
fn where_one_dies_meanwhile_who_comes_first_and_has_nothing_does_not_take_over() {
    let mut ring = Ring::with_slots(Options {
        acked: true,
        lease: Some(LEASE),
        ..Options::default()
    });
    ring.pass(10_000, None, |_| {});
    let is_second = |range: &usize| ring.order(*range)[1] == 0;
    let range = (0..64).find(is_second).expect("each is, somewhere");
    let order = ring.order(range);
    let (server, copy, key) = (order[0], order[2], ring.key_of(range));
    ring.apart = Some(0);
    ring.expire(0);
    ring.pass(5000, None, |_| {});
    ring.set(server, key, 7);
    ring.begin_anew(0);
    ring.apart = None;
    ring.register(0);
    ring.pass(20, None, |_| {});
    assert!(ring.has(copy, range) && !ring.has(0, range));
    ring.lose_etcd();
    ring.apart = Some(server);
    ring.pass(2 * LASTS, None, |_| {});
    ring.register(0);
    ring.register(copy);
    ring.pass(WAITED + 2 * LASTS, None, |_| {});
    assert_eq!(ring.value(copy, key), Some(7));
    let now = ring.nodes[0].node.claim(range).node;
    assert_eq!(ring.value(now.into(), key), Some(7));
}

/// It is waited for, and not for ever.
#[test]
fn what_only_the_dead_had_is_begun_anew() {
    let mut of = Served::new();
    of.ring.lose_etcd();
    of.ring.pass(2 * LASTS, None, |_| {});
    of.ring.apart = Some(of.server);
    of.ring.begin_anew(of.copy);
    of.ring.register(0);
    of.ring.register(of.copy);
    of.ring.pass(3 * LASTS, None, |_| {});
    assert_eq!(of.server_now(0), of.server);
    of.ring.pass(WAITED + LASTS, None, |_| {});
    assert_ne!(of.server_now(0), of.server);
    let server = of.server_now(0);
    of.ring.set(server, of.key, 8);
}

/// A node was let go, and others took what it served, before these lose their leases, too.
#[test]
fn what_is_shown_without_a_lease_is_not_old_where_one_that_was_let_go_is_back() {
    let shown = |of: &mut Served| {
        let (now, copy) = (of.ring.time(), of.copy);
        let (done, _) = of.ring.nodes[copy].ask(&[(1, Op::Get, of.key)], now);
        done.first().map(|(_, found)| *found)
    };
    // One that died long ago takes nobody's word away; nor does one that died just now.
    for dead_for in [2 * LASTS, LASTS + 100] {
        let mut of = Served::new();
        of.ring.apart = Some(of.server);
        of.ring.pass(LASTS, None, |_| {});
        of.ring.expire(of.server);
        of.ring.pass(dead_for - LASTS, None, |_| {});
        of.ring.lose_etcd();
        of.ring.pass(10 * LASTS, None, |_| {});
        assert_eq!(of.server_now(of.copy), of.copy);
        assert_eq!(shown(&mut of), Some(Ok(Some(7))), "{dead_for}");
    }
    // One that is cut from etcd speaks, and has another lease when the others have none.
    let mut of = Served::new();
    of.ring.expire(of.server);
    of.ring.pass(2 * LASTS, None, |_| {});
    assert_eq!(of.server_now(of.copy), of.copy);
    assert_eq!(shown(&mut of), Some(Ok(Some(7))));
    of.ring.lose_etcd();
    of.ring.pass(2 * LASTS, None, |_| {});
    of.ring.register(of.server);
    of.ring.pass(100, None, |_| {});
    of.ring.set(of.server, of.key, 8);
    assert_eq!(shown(&mut of), None, "it waits");
    of.ring.pass(10 * LASTS, None, |_| {});
    assert_eq!(shown(&mut of), None, "it waits");
}
