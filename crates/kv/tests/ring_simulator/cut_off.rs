//! A node whom the others do not hear, and whose lease is over by its own clock meanwhile, though
//! it is renewed then: for how long it was not heard counts, and not how long it has the lease.

use crate::stall::{NODES, Ring};
use rhythm_kv::ring::Options;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(1);

#[test]
fn a_lease_that_was_over_and_is_renewed_keeps_no_copy_that_misses_writes() {
    let mut ring = Ring::new(Options {
        replicas: NODES - 1,
        acked: true,
        lease: Some(LEASE),
        ..Options::default()
    });
    ring.pass(10_000, None, |_| {});
    assert!(ring.has(2, 0));
    ring.deaf = Some((2, 0));
    ring.pass(2500, None, |_| {});
    ring.unrenewed = Some(2);
    ring.pass(1200, None, |_| {});
    ring.unrenewed = None;
    // It is given up four and a half leases after it was heard.
    let of_0 = ring.key_of(0);
    ring.set(0, of_0, 1);
    ring.set(0, of_0, 2);
    assert!(!ring.has(2, 0) || ring.value(2, of_0) == Some(2));
}
