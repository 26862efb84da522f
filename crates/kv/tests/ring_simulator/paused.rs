//! A node stands still for long enough to be given up, and is there again when who gave it up is
//! dead: what it has is old, and nobody who could have told it so is left.

use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};

#[test]
fn who_was_given_up_does_not_take_over_before_one_that_was_not() {
    for (scheme, wait) in [
        (Scheme::Ring, 0),
        (Scheme::Ring, 300),
        (Scheme::Chain, 0),
        (Scheme::Chain, 300),
    ] {
        let mut ring = Ring::new(Options {
            scheme,
            replicas: NODES - 1,
            acked: true,
            ..Options::default()
        });
        ring.pass(5000, None, |_| {});
        let of_0 = ring.key_of(0);
        ring.set(0, of_0, 1);
        ring.pass(100, None, |_| {});
        // Node 0 gives node 1 up, and what it confirms from then on is at node 2.
        while ring.nodes[0].node.alive() != 0b101 {
            ring.pass(10, Some(1), |_| {});
        }
        let now = ring.time();
        ring.nodes[0].ask(&[(7, crate::cluster::Op::Set(2), of_0)], now);
        ring.pass(300, Some(1), |_| {});
        assert!(ring.done.contains(&(7, Ok(None))), "{scheme:?}");
        // Node 0 is gone, which the others do not know yet when node 1 goes on.
        ring.apart = Some(0);
        ring.pass(wait, Some(1), |_| {});
        assert!(ring.has(1, 0), "{scheme:?}");
        ring.pass(4000, None, |_| {});
        let values = [1, 2].map(|node| ring.value(node, of_0));
        assert_eq!(values, [Some(2); 2], "{scheme:?} {wait}");
        // It has it anew, and serves it, as it stands before the other.
        assert_eq!(
            [1, 2].map(|node| ring.nodes[node].node.claim(0).node),
            [1; 2]
        );
    }
}

/// Who served the range renewed its claim again, for another loss, and died before it could say who
/// counts under that. What it said of the time before is as good.
#[test]
fn who_was_given_up_does_not_take_over_where_the_claim_was_renewed_since() {
    let mut ring = Ring::new(Options {
        replicas: NODES - 1,
        acked: true,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let of_0 = ring.key_of(0);
    ring.set(0, of_0, 1);
    ring.pass(100, None, |_| {});
    let loses_1 = |ring: &mut Ring| {
        while ring.nodes[0].node.alive() != 0b101 {
            ring.pass(10, Some(1), |_| {});
        }
    };
    loses_1(&mut ring);
    let now = ring.time();
    ring.nodes[0].ask(&[(7, crate::cluster::Op::Set(2), of_0)], now);
    ring.pass(300, Some(1), |_| {});
    assert!(ring.done.contains(&(7, Ok(None))));
    // It is heard again for a moment, and hears nothing.
    ring.deaf = Some((0, 1));
    while ring.nodes[0].node.alive() != 0b111 {
        ring.pass(10, None, |_| {});
    }
    ring.clog(0, 2);
    loses_1(&mut ring);
    ring.pass(200, Some(1), |_| {});
    let epochs = [0, 1, 2].map(|node| ring.nodes[node].node.claim(0).epoch);
    // Node 2 told node 1 of the first time.
    assert_eq!(epochs, [1, 0, 1].map(|renewed| epochs[1] + renewed));
    ring.apart = Some(0);
    ring.break_off();
    assert!(ring.has(1, 0));
    ring.pass(4000, None, |_| {});
    let values = [1, 2].map(|node| ring.value(node, of_0));
    assert_eq!(values, [Some(2); 2]);
}
