//! A worker's turn that began when its node served a range, and goes on when another does: what it
//! reads and writes there is old, and is not to stay.

use crate::cluster::Op;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;

/// A ring in which node 0 has just heard that another serves what it served, and a key of that:
/// there the other has what `op` made of it since.
fn disputed(op: Op) -> (Ring, usize) {
    let mut ring = Ring::new(Options {
        replicas: NODES - 1,
        acked: true,
        sync_rate: 1000,
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let key = ring.key_of(0);
    for number in 0..100 {
        ring.set(0, number, 1);
    }
    ring.apart = Some(0);
    ring.pass(3000, None, |_| {});
    let now = ring.time();
    ring.done.clear();
    ring.nodes[1].ask(&[(7, op, key)], now);
    ring.pass(1000, None, |_| {});
    assert!(ring.done.contains(&(7, Ok(None))), "{:?}", ring.done);
    ring.apart = None;
    while ring.nodes[0].node.claim(0).node == 0 {
        ring.pass(10, None, |_| {});
    }
    (ring, key)
}

#[test]
fn what_is_read_late_does_not_come_back() {
    let (mut ring, key) = disputed(Op::Delete(2));
    let now = ring.time();
    ring.nodes[0].does_late(Op::Get, key, 1, now);
    ring.pass(10_000, None, |_| {});
    assert_eq!(ring.nodes[0].node.claim(0).node, 0);
    let values = [0, 1, 2].map(|node| ring.value(node, key));
    assert_eq!(values, [None; NODES]);
}

/// It was kept from its processor for that long before it handed over what it wrote.
#[test]
fn what_is_written_late_does_not_stay() {
    let mut steps = 0;
    for after in (0..8000).step_by(200) {
        let (mut ring, key) = disputed(Op::Set(2));
        ring.pass(after, None, |_| {});
        if ring.nodes[0].node.claim(0).node == 0 {
            break;
        }
        steps += 1;
        let now = ring.time();
        ring.nodes[0].does_late(Op::Set(3), key, 0, now);
        ring.pass(15_000, None, |_| {});
        assert_eq!(ring.nodes[0].node.claim(0).node, 0, "{after} ms");
        let values = [0, 1, 2].map(|node| ring.value(node, key));
        assert_eq!(values, [Some(2); NODES], "{after} ms");
    }
    assert!(steps > 5, "it has all before something is written");
}
