//! A node that is to have copies no more, as another is back: what it had of them goes. It may be
//! the only one that is there later, and is not to have overwritten and deleted values come back.

use crate::cluster::Op;
use crate::stall::Ring;
use rhythm_kv::ring::Options;

#[test]
fn what_a_node_was_left_out_of_does_not_come_back() {
    let mut ring = Ring::new(Options::default());
    ring.pass(5000, None, |_| {});
    let of_0 = ring.key_of(0);
    // Node 2 has the copy while node 1 is gone.
    ring.pass(2000, Some(1), |_| {});
    ring.set(0, of_0, 1);
    ring.pass(2000, Some(1), |_| {});
    assert_eq!((ring.has(2, 0), ring.value(2, of_0)), (true, Some(1)));
    ring.begin_anew(1);
    ring.pass(5000, None, |_| {});
    assert_eq!((ring.has(1, 0), ring.has(2, 0)), (true, false));
    ring.set(0, of_0, 2);
    // Both who have it are gone at a time.
    ring.apart = Some(1);
    ring.pass(5000, Some(0), |_| {});
    assert_eq!(ring.nodes[2].node.claim(0).node, 2);
    assert_eq!(ring.value(2, of_0), None);
    // It is not for long that it takes nothing.
    let now = ring.time();
    ring.nodes[2].ask(&[(0, Op::Set(3), of_0)], now);
    ring.pass(100, Some(0), |_| {});
    assert_eq!(ring.value(2, of_0), Some(3));
}

/// It is to have them again before they are gone: what it is sent then stays.
#[test]
fn who_is_to_have_again_what_it_was_left_out_of_has_all_of_it() {
    let mut ring = Ring::new(Options::default());
    ring.pass(5000, None, |_| {});
    let of_0 = ring.key_of(0);
    for write in 1..6 {
        ring.pass(2000, Some(1), |_| {});
        ring.set(0, of_0, write);
        ring.begin_anew(1);
        // Some step of its way there, another each time.
        ring.pass(400 + 50 * write, None, |_| {});
    }
    ring.pass(5000, Some(1), |_| {});
    assert_eq!((ring.has(2, 0), ring.value(2, of_0)), (true, Some(5)));
}
