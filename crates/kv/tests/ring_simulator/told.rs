//! With leases, a node is told to serve a range, and stands still before it says that it does,
//! until its lease is over: what is confirmed meanwhile is there when it goes on, with another.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(1);
const LASTS: u64 = 1000;

/// `to` serves a range, which nobody knows: it stands still, and `from` told it to. The third is
/// not there.
struct Told {
    ring: Ring,
    range: usize,
    key: usize,
    from: usize,
    to: usize,
}

impl Told {
    fn new() -> Told {
        let mut ring = Ring::with_slots(Options {
            acked: true,
            lease: Some(LEASE),
            ..Options::default()
        });
        ring.pass(5000, None, |_| {});
        let range = 0;
        let [to, from, third] = ring.order(range)[..] else {
            panic!("{NODES} nodes");
        };
        ring.apart = Some(third);
        ring.expire(third);
        ring.pass(1000, None, |_| {});
        ring.expire(to);
        ring.begin_anew(to);
        ring.pass(1000, None, |_| {});
        let key = ring.key_of(range);
        ring.set(from, key, 1);
        ring.register(to);
        ring.held = Some(to);
        let serves =
            |ring: &Ring, node: usize| usize::from(ring.nodes[node].node.claim(range).node) == to;
        while !serves(&ring, to) {
            ring.say();
            ring.pass(10, None, |_| {});
        }
        assert!(!serves(&ring, from) && ring.has(to, range));
        Told {
            ring,
            range,
            key,
            from,
            to,
        }
    }

    /// Time passes, in which `to` stands still.
    fn pass(&mut self, time: u64) {
        let to = self.to;
        self.ring.pass(time, Some(to), |_| {});
    }

    /// Another write is confirmed by who serves the range meanwhile.
    fn write(&mut self) {
        let now = self.ring.time();
        self.ring.done.clear();
        let (done, _) = self.ring.nodes[self.from].ask(&[(0, Op::Set(2), self.key)], now);
        self.ring.done.extend(done);
        self.pass(1000);
        assert_eq!(self.ring.done, [(0, Ok(None))]);
    }

    /// It goes on, and has another lease.
    fn goes_on(&mut self) {
        self.ring.held = None;
        self.ring.say();
        self.ring.pass(100, None, |_| {});
        self.ring.register(self.to);
        self.ring.pass(5000, None, |_| {});
        for node in [self.from, self.to] {
            assert!(self.ring.has(node, self.range));
            assert_eq!(self.ring.value(node, self.key), Some(2), "{node}");
            let server = self.ring.nodes[node].node.claim(self.range).node;
            assert_eq!(usize::from(server), self.to);
        }
    }
}

#[test]
fn what_is_confirmed_while_who_was_told_to_serve_stands_still_is_kept() {
    let mut of = Told::new();
    of.pass(LASTS);
    of.ring.expire(of.to);
    of.pass(LASTS);
    of.write();
    of.goes_on();
}

#[test]
fn so_it_is_where_the_lease_of_who_told_it_is_over_too() {
    let mut of = Told::new();
    of.ring.lose_etcd();
    of.pass(2 * LASTS);
    of.ring.register(of.from);
    // Who was told may have confirmed something, and is waited for.
    of.pass(5 * LASTS);
    of.write();
    of.goes_on();
}
