//! A node that is heard, and is sent everything in vain, as where its port is closed to another.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;

#[test]
fn writes_do_not_wait_on_and_on_for_who_is_heard_and_takes_nothing() {
    let mut ring = Ring::new(Options {
        replicas: NODES - 1,
        acked: true,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let of_0 = ring.key_of(0);
    ring.set(0, of_0, 1);
    ring.deaf = Some((0, 2));
    let now = ring.time();
    ring.nodes[0].ask(&[(7, Op::Set(2), of_0)], now);
    ring.pass(4000, None, |_| {});
    assert!(ring.done.contains(&(7, Ok(None))), "{:?}", ring.done);
    // From then on it is not there, whatever it says.
    ring.set(0, of_0, 3);
    ring.pass(5000, None, |nodes| assert_eq!(nodes[0].node.alive(), 0b011));
    // Nor does each wait for the other where both took it so.
    ring.deaf = Some((2, 0));
    ring.pass(5000, None, |_| {});
    assert_eq!(ring.nodes[2].node.alive(), 0b110);
    ring.deaf = None;
    ring.pass(5000, None, |_| {});
    assert_eq!(ring.nodes[0].node.alive(), 0b111);
    assert!(ring.has(2, 0));
    assert_eq!(ring.value(2, of_0), Some(3));
}
