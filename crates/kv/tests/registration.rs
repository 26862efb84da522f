//! A node's place in a ring, kept in a real etcd, which is gone for a while and comes back with
//! nothing. Needs Debian's `etcd-server`.

use rhythm_etcd::Etcd;
use rhythm_etcd::testing::{Members, free_places};
use rhythm_kv::registration::{News, Registration, registered, remove};
use rhythm_kv::ring::{Lease, Member};
use rhythm_net::{Time, clock};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// How long what must happen may take on a machine with much else to do.
const NEVER: Duration = Duration::from_secs(60);
/// Seconds that a lease lasts.
const LEASE: u64 = 2;

/// Waits until a lease is told of that is so.
fn until_lease(heard: &Receiver<News>, is: impl Fn(&Lease) -> bool) -> Lease {
    loop {
        match heard.recv_timeout(NEVER).expect("it is told") {
            News::Lease(lease) if is(&lease) => return lease,
            News::Lease(_) | News::Members(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_node_keeps_its_place_in_etcd_until_it_ends() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kv-registration");
    let mut members = Members::start(&folder, 1);
    let mut etcd = Etcd::new(&members.place("ring")).expect("a place");
    let me = Member {
        name: "node".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 11211,
        backbone: free_places(1)[0],
    };
    let there = || vec![me.clone()];
    let node = Registration::new(etcd.clone(), me.clone(), LEASE).expect("it is the only one");
    let first = node.lease;
    assert_eq!(node.members.values().cloned().collect::<Vec<_>>(), there());
    let (say, heard) = mpsc::channel();
    let kept = node.keep(move |news| {
        // At the end nobody hears it.
        let _ = say.send(news);
    });
    let kept = kept.expect("there are threads");
    // It is renewed for longer than it lasts.
    let later = first.until + Duration::from_secs(LEASE);
    let lease = until_lease(&heard, |lease| lease.until > later);
    assert_eq!(lease.number, first.number);
    assert_eq!(registered(&mut etcd).expect("it answers"), there());
    // etcd forgets it: it has none, and then another one.
    members.kill(0);
    members.forget(0);
    members.begin(0);
    until_lease(&heard, |lease| lease.until == Time::ZERO);
    let lease = until_lease(&heard, |lease| lease.until > clock::monotonic());
    assert_ne!(lease.number, first.number);
    assert_eq!(registered(&mut etcd).expect("it answers"), there());
    // It is asked to leave, and ends: who asked is told so.
    let asks = thread::spawn(move || {
        let left = remove(&mut etcd, "node").expect("etcd answers");
        (left, remove(&mut etcd, "node").expect("etcd answers"))
    });
    let is_asked = || heard.recv_timeout(NEVER).expect("it is told") == News::Leave;
    while !is_asked() {}
    drop(kept);
    assert_eq!(asks.join().expect("it ends"), (true, false));
}
