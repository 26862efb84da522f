//! What a real etcd answers. Needs Debian's `etcd-server`.

use rhythm_etcd::testing::Members;
use rhythm_etcd::{Change, Etcd, EtcdError, HeldLease, Store, Transaction};
use rhythm_net::Time;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long what must happen may take on a machine with much else to do.
const NEVER: Duration = Duration::from_secs(60);

#[test]
fn what_is_not_there_is_told_from_what_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("etcd");
    let mut server = Members::start(&folder, 1);
    // The name may have another address first.
    let place = format!("localhost:{}/x", server.client(0).port());
    let mut etcd = Etcd::new(&place).expect("a place");
    let lease = etcd.grant(60).expect("it answers");
    let renewed = etcd.keep_alive(lease).expect("it is there");
    assert_eq!(renewed.map(|renewed| renewed.seconds), Some(60));
    assert!(etcd.create("key", "value", lease).expect("there is none"));
    assert!(!etcd.create("key", "other", lease).expect("there is one"));
    let (entry, read) = etcd.get("key").expect("it answers");
    let revision = read.revision;
    assert_eq!(entry.expect("it is there").lease, lease);
    // Nothing comes, and then something.
    etcd.wait(revision, Duration::from_millis(100))
        .expect("time is over");
    let begun = Instant::now();
    assert!(etcd.put("other", "value", 0).expect("it takes it"));
    etcd.wait(revision, NEVER).expect("something came");
    assert!(begun.elapsed() < NEVER);
    etcd.revoke(lease).expect("it is there");
    etcd.revoke(lease).expect("it is gone");
    assert_eq!(etcd.keep_alive(lease).expect("it says so"), None);
    assert!(!etcd.create("key", "value", lease).expect("it says so"));
    assert_eq!(etcd.get("key").expect("it answers").0, None);
    let changes = (0..200).map(|key| Change::put(&format!("key-{key}"), "", 0));
    let error = etcd.transact(&Transaction {
        compares: Vec::new(),
        changes: changes.collect(),
    });
    let error = error.expect_err("they are too many");
    assert!(matches!(&error, EtcdError::Refused { .. }), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("too many operations in txn request"),
        "{error}"
    );
    server.kill(0);
    assert!(matches!(etcd.get("key"), Err(EtcdError::Silent { .. })));
}

/// etcd says in which term it renewed a lease, and that grows when another member leads.
#[test]
fn a_renewal_counts_if_no_other_member_leads_since() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("etcd-terms");
    let mut members = Members::start(&folder, 1);
    let mut etcd = Etcd::new(&members.place("x")).expect("a place");
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let mut lease = HeldLease::new(60);
    lease.grant(&mut etcd, at(0)).expect("it answers");
    let number = lease.number().expect("it has one");
    assert!(etcd.create("key", "value", number).expect("it answers"));
    let (_, first) = etcd.get("key").expect("it answers");
    assert!(lease.renew(&mut etcd, at(10)).expect("it is there"));
    lease.confirm(etcd.get("key").expect("it answers").1);
    assert_eq!(lease.until(), at(64));
    assert!(lease.renew(&mut etcd, at(20)).expect("it is there"));
    members.kill(0);
    members.begin(0);
    members.until_well();
    let (entry, second) = etcd.get("key").expect("it answers");
    assert_eq!(entry.map(|entry| entry.lease), Some(number));
    assert!(second.term > first.term, "{first:?} {second:?}");
    lease.confirm(second);
    assert_eq!(lease.until(), at(64));
}
