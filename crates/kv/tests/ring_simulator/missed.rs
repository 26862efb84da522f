//! A node dies, and begins anew before the others miss it, when nobody else has all that it served:
//! they count the life before, and take what that served when they miss it.

use crate::cluster::{Live, Op};
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;

const KEYS: usize = 60;

/// How many nodes serve a range.
fn servers(nodes: &[Live], range: usize) -> usize {
    let serves = |(node, live): &(usize, &Live)| {
        let claim = live.node.claim(range);
        let has = live.node.complete() & 1 << range != 0;
        claim.epoch > 0 && usize::from(claim.node) == *node && has
    };
    nodes.iter().enumerate().filter(serves).count()
}

#[test]
fn who_begins_anew_before_it_is_missed_takes_nothing_beside_another() {
    for is_set_back in [false, true] {
        let mut ring = Ring::new(Options {
            acked: true,
            sync_rate: 1000,
            ..Options::default()
        });
        ring.is_set_back = is_set_back;
        ring.pass(5000, None, |_| {});
        for number in 0..KEYS {
            let now = ring.time();
            ring.nodes[0].ask(&[(0, Op::Set(1), number)], now);
            ring.pass(10, None, |_| {});
        }
        ring.begin_anew(1);
        ring.begin_anew(2);
        ring.pass(700, None, |_| {});
        assert!(!ring.has(1, 0) && !ring.has(2, 0));
        ring.begin_anew(0);
        ring.pass(3000, None, |nodes| {
            let all = [0, 1, 2].map(|range| servers(nodes, range));
            assert!(all.iter().all(|of| *of < 2), "{all:?} {is_set_back}");
        });
        let servers = [0, 1, 2].map(|range| servers(&ring.nodes, range));
        assert_eq!(servers, [1; NODES]);
    }
}
