//! Two nodes served a range, as they did not hear each other. When they do again, one of them is
//! told by whom it is served since: what waits there, of that range, is not known to be anywhere.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme, Unanswered};

#[test]
fn what_waits_of_other_ranges_is_confirmed_all_the_same() {
    for scheme in [Scheme::Ring, Scheme::Chain] {
        let mut ring = Ring::new(Options {
            scheme,
            replicas: NODES - 1,
            acked: true,
            ..Options::default()
        });
        ring.pass(5000, None, |_| {});
        // Node 0 serves all by then, and the others what was its.
        ring.apart = Some(0);
        ring.pass(3000, None, |_| {});
        let of = |ring: &Ring, range| ring.nodes[0].node.claim(range).node;
        assert!((0..NODES).all(|range| of(&ring, range) == 0));
        ring.apart = None;
        // All speak in one step: who hears of a claim has heard who makes it.
        let now = ring.time();
        for live in &mut ring.nodes {
            (0..NODES).for_each(|other| live.node.connected(other, now));
        }
        let keys = [0, 2].map(|range| ring.key_of(range));
        let mut last = 0;
        while of(&ring, 0) == 0 {
            assert!(last < 1000, "nobody disputes it");
            last += 2;
            ring.done.clear();
            let now = ring.time();
            // By themselves: what one turn wrote waits together.
            ring.nodes[0].ask(&[(last, Op::Set(1), keys[0])], now);
            ring.nodes[0].ask(&[(last + 1, Op::Set(1), keys[1])], now);
            ring.pass(10, None, |_| {});
        }
        assert_eq!(of(&ring, 2), 0);
        // Of the first nobody knows.
        assert!(
            ring.done.contains(&(last, Err(Unanswered::Unknown))),
            "{scheme:?}: {:?}",
            ring.done
        );
        ring.pass(2000, None, |_| {});
        let answered = (ring.done.iter()).find(|(command, _)| *command == last + 1);
        assert_eq!(answered, Some(&(last + 1, Ok(None))), "{scheme:?}");
    }
}
