//! A node's place in a ring, kept in a real etcd, which is gone for a while and comes back with
//! nothing; and servers that register there when they have all they need, and not before. Needs
//! Debian's `etcd-server`.

use rhythm_etcd::testing::{Members, free_places};
use rhythm_etcd::{Etcd, Store};
use rhythm_kv::membership::{Candidate, Replicate};
use rhythm_kv::registration::{News, Registration, registered, remove};
use rhythm_kv::ring::{Elsewhere, Lease, Member, Scheme};
use rhythm_kv::server::Server;
use rhythm_kv::shared::{Listen, Settings};
use rhythm_net::{Time, clock};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

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
    let backbone = free_places(1)[0];
    let me = Member {
        name: "node".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 11211,
        backbone,
        place: backbone.to_string(),
    };
    let there = || vec![me.clone()];
    let node = Registration::new(etcd.clone(), me.clone(), LEASE, |_| {}, || true);
    let node = node.expect("it is the only one");
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

/// A node's settings, of these places for clients, other nodes and the admin listener.
fn settings(etcd: &Etcd, name: &str, places: &[SocketAddr]) -> Settings {
    let [client, backbone, admin] = *places else {
        panic!("three places");
    };
    Settings {
        port: Some(client.port()),
        listen: vec![Listen {
            host: Some(client.ip().to_string()),
            port: None,
        }],
        threads: 1,
        admin: Some(admin),
        candidate: Some(Candidate {
            etcd: etcd.clone(),
            me: Member {
                name: name.to_owned(),
                host: client.ip().to_string(),
                port: client.port(),
                backbone,
                place: backbone.to_string(),
            },
            lease: LEASE,
            scheme: Scheme::Ring,
            replicas: 1,
            replicate: Replicate::ACKED,
            elsewhere: Elsewhere::Forward,
        }),
        ..Settings::default()
    }
}

fn get(at: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    let asked = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}

/// Waits until that is told there.
fn until_told(at: SocketAddr, path: &str, status: &str, said: &str) {
    let begun = Instant::now();
    loop {
        let told = get(at, path).unwrap_or_default();
        if told.starts_with(&format!("HTTP/1.1 {status}")) && told.contains(said) {
            return;
        }
        assert!(begun.elapsed() < NEVER, "{path}: {told}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Others would count on it: as long as its lease lasts they wait for it.
#[test]
fn a_node_that_cannot_start_was_never_registered() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kv-start-refused");
    let members = Members::start(&folder, 1);
    let mut etcd = Etcd::new(&members.place("ring")).expect("a place");
    let before = etcd.entries().expect("it answers").1.revision;
    // Of its three places, one after the other is somebody's; then there is no memory.
    for taken in 0..4 {
        let places = free_places(3);
        let holder = places.get(taken).map(TcpListener::bind);
        let mut settings = settings(&etcd, "node", &places);
        if taken == 3 {
            (settings.memory, settings.memory_max) = (1 << 50, 0);
        }
        let started = Server::start(settings, |_| {}).map(drop);
        let error = started.expect_err("it cannot").to_string();
        let said = match taken {
            1 => "--backbone: ",
            2 => "--admin: ",
            3 => "cannot reserve",
            _ => "in use",
        };
        assert!(error.contains(said), "{error}");
        drop(holder);
    }
    // Not for a moment.
    let (keys, at) = etcd.entries().expect("it answers");
    assert_eq!((keys.len(), at.revision), (0, before));
}

#[test]
fn a_second_node_of_a_name_says_what_it_waits_for_and_begins_when_that_is_gone() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kv-second");
    let members = Members::start(&folder, 1);
    let etcd = Etcd::new(&members.place("ring")).expect("a place");
    let (first, second) = (free_places(3), free_places(3));
    let start = |places: &[SocketAddr]| Server::start(settings(&etcd, "node", places), |_| {});
    let node = start(&first).expect("it is the only one");
    until_told(first[2], "/readyz", "200", "ok");
    thread::scope(|scope| {
        let other = scope.spawn(|| start(&second));
        let waits = format!(
            "starting: it waits for another node called node, of {}, to end, or its lease to be \
             over",
            first[0]
        );
        until_told(second[2], "/readyz", "503", &waits);
        until_told(second[2], "/healthz", "200", "ok");
        until_told(second[2], "/metrics", "200", "# EOF");
        until_told(second[2], "/dashboard.json", "200", "starting");
        node.handle().end();
        node.join().expect("it was told to");
        let other = other.join().expect("it does not panic");
        let other = other.expect("the first is gone");
        until_told(second[2], "/readyz", "200", "ok");
        until_told(second[2], "/metrics", "200", "rhythm_kv_commands_total");
        other.handle().stop();
        other.join().expect("it was told to");
    });
}
