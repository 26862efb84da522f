//! `rhythm kv --ring etcd://`: three processes that etcd knows, of which one dies, one is stopped
//! for a while, one is removed, or only its key; and etcd that is gone for a while, or forgets all.
//! Every write that was confirmed is there, and it says how long nobody served the keys of who
//! died.
//!
//! Needs Debian's `etcd-server`. `RHYTHM_KILLS=200` kills so many; without it each node once.

use crate::number;
use crate::ring::{self, ACKED, ASYNC, Harm, Ring, served_again, under_load};
use crate::server::{Client, NEVER};
use rhythm_etcd::testing::Members;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::iter;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// One of a member, which ends with this.
struct Etcd(Members);

impl Etcd {
    fn start(test: &str) -> Etcd {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-etcd"));
        Etcd(Members::start(&folder, 1))
    }

    fn begin(&mut self) {
        self.0.begin(0);
        self.0.until_well();
    }

    fn end(&mut self) {
        self.0.kill(0);
    }

    /// The keys of all nodes, in base64, in order.
    fn nodes(&self) -> Vec<String> {
        let stream = TcpStream::connect(self.0.client(0)).expect("it is there");
        // From `ring/nodes/` up to `ring/nodes0`.
        let body = r#"{"key": "cmluZy9ub2Rlcy8=", "range_end": "cmluZy9ub2RlczA="}"#;
        let answer = Client::of(stream).ask("POST", "/v3/kv/range", body);
        let said = answer.expect("it answers").body;
        let keys = said.split("\"key\":\"").skip(1);
        let keys = keys.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        keys.collect()
    }

    /// Does something with a key; what is said.
    fn with(&self, what: &str, key: &str) -> String {
        let stream = TcpStream::connect(self.0.client(0)).expect("it is there");
        let body = format!("{{\"key\": \"{key}\"}}");
        let path = format!("/v3/kv/{what}");
        let answer = Client::of(stream).ask("POST", &path, &body);
        answer.expect("it answers").body
    }

    fn place(&self) -> String {
        format!("etcd://{}", self.0.place("ring"))
    }
}

/// Stands between a node and etcd. When the node puts something there, it does not hear that it is
/// done until that is let through.
struct Between {
    at: SocketAddr,
    state: Arc<Held>,
    accepts: Option<JoinHandle<()>>,
}

/// What of it is so by now.
#[derive(Default)]
struct Held {
    has_put: AtomicBool,
    is_through: AtomicBool,
    has_ended: AtomicBool,
}

impl Between {
    fn start(etcd: SocketAddr) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let state = Arc::new(Held::default());
        let held = Arc::clone(&state);
        let accept = move || {
            for node in listener.incoming() {
                if held.has_ended.load(Ordering::Acquire) {
                    return;
                }
                let node = node.expect("somebody connects");
                let etcd = TcpStream::connect(etcd).expect("it is there");
                let [asks, answers] = [&node, &etcd].map(|one| one.try_clone().expect("room"));
                let [of_asks, of_answers] = [(); 2].map(|()| Arc::clone(&held));
                // Each ends when who is read from does.
                thread::spawn(move || of_asks.pass(asks, etcd, true));
                thread::spawn(move || of_answers.pass(answers, node, false));
            }
        };
        Between {
            at,
            state,
            accepts: Some(thread::spawn(accept)),
        }
    }

    fn until_put(&self) {
        let start = Instant::now();
        while !self.state.has_put.load(Ordering::Acquire) {
            assert!(start.elapsed() < NEVER, "nothing is put");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn let_through(&self) {
        self.state.is_through.store(true, Ordering::Release);
    }
}

impl Held {
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_asked: bool) {
        let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if is_asked {
                said.extend_from_slice(&bytes[..count]);
                if String::from_utf8_lossy(&said).contains("request_put") {
                    self.has_put.store(true, Ordering::Release);
                }
            }
            let is_held = || {
                let is_through = self.is_through.load(Ordering::Acquire);
                !is_asked && self.has_put.load(Ordering::Acquire) && !is_through
            };
            while is_held() {
                thread::sleep(Duration::from_millis(1));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // Who is gone is gone for the other.
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.let_through();
        self.state.has_ended.store(true, Ordering::Release);
        // It sees that when somebody comes.
        let _ = TcpStream::connect(self.at);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

/// What a node answers to one command at a time, until that is `wanted`.
fn until(places: &[SocketAddr], node: usize, command: &str, wanted: &str) {
    let start = Instant::now();
    let mut client = ring::Client::new(places);
    let answers = iter::repeat_with(|| client.ask(node, command));
    for answer in answers {
        if answer
            .as_ref()
            .is_some_and(|(line, _)| line.contains(wanted))
        {
            return;
        }
        assert!(
            start.elapsed() < NEVER,
            "{command:?} is answered {answer:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nodes_that_etcd_knows_die_and_come_back_and_nothing_confirmed_is_lost() {
    let etcd = Etcd::start("kv-etcd");
    let mut ring = Ring::of_etcd("kv-etcd", etcd.place(), ACKED);
    (0..3).for_each(|node| ring.begin(node));
    ring.until_whole();
    let kills = number("RHYTHM_KILLS").unwrap_or(3);
    let outcome = under_load(ring, Harm::Errors, kills, |ring, round, victim| {
        // Every second one is only stopped, and goes on when others have taken its place.
        let is_stopped = round % 2 == 1;
        match is_stopped {
            true => ring.signal(victim, Signal::STOP),
            false => ring.kill(victim),
        }
        let gap = served_again(&ring.clients, victim);
        match is_stopped {
            true => ring.signal(victim, Signal::CONT),
            false => ring.begin(victim),
        }
        gap
    });
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}

/// Others take what it serves at once, though its lease is there.
#[test]
fn a_node_whose_key_is_removed_comes_back_and_nothing_confirmed_is_lost() {
    let etcd = Etcd::start("kv-etcd-keys");
    let mut ring = Ring::of_etcd("kv-etcd-keys", etcd.place(), ACKED);
    (0..3).for_each(|node| ring.begin(node));
    ring.until_whole();
    let keys = etcd.nodes();
    assert_eq!(keys.len(), 3);
    let outcome = under_load(ring, Harm::Errors, 3, |_, round, _| {
        let (begun, key) = (Instant::now(), &*keys[round % 3]);
        let said = etcd.with("deleterange", key);
        assert!(said.contains("\"deleted\":\"1\""), "{said}");
        while !etcd.with("range", key).contains("\"count\":\"1\"") {
            assert!(begun.elapsed() < NEVER, "it does not come back");
            thread::sleep(Duration::from_millis(20));
        }
        begun.elapsed()
    });
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}

#[test]
fn without_etcd_reads_go_on_and_writes_end_with_the_lease() {
    let mut etcd = Etcd::start("kv-no-etcd");
    let mut ring = Ring::of_etcd("kv-no-etcd", etcd.place(), ACKED);
    (0..3).for_each(|node| ring.begin(node));
    ring.until_whole();
    let places = ring.clients.clone();
    for node in 0..3 {
        until(&places, node, "set key 0 0 5\r\nvalue\r\n", "STORED");
    }
    etcd.end();
    let said = "SERVER_ERROR this node has no lease: it takes no writes now";
    for node in 0..3 {
        until(&places, node, "set key 0 0 5\r\nother\r\n", said);
        until(&places, node, "delete key\r\n", said);
        until(&places, node, "get key\r\n", "VALUE key 0 5");
    }
    etcd.begin();
    for node in 0..3 {
        until(&places, node, "set key 0 0 5\r\nthird\r\n", "STORED");
    }
    ring.until_whole();
}

/// All leases end, and one node after the other has another: none of them takes as empty what the
/// others have.
#[test]
fn etcd_comes_back_with_nothing_and_nothing_confirmed_is_lost() {
    let mut etcd = Etcd::start("kv-etcd-forgets");
    let mut ring = Ring::of_etcd("kv-etcd-forgets", etcd.place(), ACKED);
    (0..3).for_each(|node| ring.begin(node));
    ring.until_whole();
    let places = ring.clients.clone();
    let mut client = ring::Client::new(&places);
    for key in 0..300 {
        let set = format!("set key-{key} 0 0 1\r\nx\r\n");
        until(&places, key % 3, &set, "STORED");
    }
    etcd.end();
    for node in 0..3 {
        until(&places, node, "delete key\r\n", "SERVER_ERROR");
    }
    etcd.0.forget(0);
    etcd.begin();
    for node in 0..3 {
        until(&places, node, "set other 0 0 1\r\ny\r\n", "STORED");
    }
    ring.until_whole();
    for key in 0..300 {
        let got = client.ask(key % 3, &format!("get key-{key}\r\n"));
        assert_eq!(got.expect("an answer").1, b"x", "key-{key}");
    }
}

#[test]
fn a_node_is_removed_and_another_takes_its_share() {
    let etcd = Etcd::start("kv-members");
    let mut ring = Ring::of_etcd("kv-members", etcd.place(), ASYNC);
    ring.begin(0);
    ring.begin(1);
    ring.until_whole();
    let places = ring.clients.clone();
    let keys = 0..200;
    for key in keys.clone() {
        let set = format!("set key-{key} 0 0 1\r\nx\r\n");
        until(&places, key % 2, &set, "STORED");
    }
    let has_all = |node: usize| {
        let mut client = ring::Client::new(&places);
        for key in keys.clone() {
            let got = client.ask(node, &format!("get key-{key}\r\n"));
            let got = got.expect("an answer");
            assert_eq!(got.1, b"x", "key-{key} at {node}: {got:?}");
        }
    };
    ring.begin(2);
    ring.until_whole();
    let said = ring.tool("status", &[]).stdout;
    let said = String::from_utf8(said).expect("text");
    assert!(
        said.contains("c: there") && !said.contains("c: there, serves 0"),
        "{said}"
    );
    has_all(2);
    let removed = ring.tool("remove", &["a"]);
    assert!(removed.status.success(), "{removed:?}");
    ring.ended(0);
    ring.until_whole();
    has_all(1);
    has_all(2);
    let unknown = ring.tool("remove", &["a"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("no node called a"), "{said}");
    let added = ring.tool("add", &["d", "h:1", "127.0.0.1:1"]);
    let said = String::from_utf8_lossy(&added.stderr).into_owned();
    assert!(said.contains("a node adds itself"), "{said}");
}

/// The others would count on it as long as its lease lasts.
#[test]
fn a_node_that_is_told_to_end_while_it_registers_is_known_no_more() {
    let etcd = Etcd::start("kv-etcd-told");
    let between = Between::start(etcd.0.client(0));
    let place = format!("etcd://{}/ring", between.at);
    let mut ring = Ring::of_etcd("kv-etcd-told", place, ACKED);
    ring.begin(0);
    between.until_put();
    ring.signal(0, Signal::TERM);
    thread::sleep(Duration::from_millis(100));
    between.let_through();
    ring.ended(0);
    assert_eq!(etcd.nodes(), [""; 0]);
}

/// Who waits for that before he takes the next machine down would take what the ring has with it.
#[test]
fn the_last_node_without_copies_is_not_well() {
    let etcd = Etcd::start("kv-etcd-last");
    let mut ring = Ring::of_etcd("kv-etcd-last", etcd.place(), ACKED);
    ring.begin(0);
    ring.begin(1);
    ring.until_whole();
    ring.kill(1);
    let start = Instant::now();
    loop {
        let output = ring.tool("status", &[]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success(), "{said}");
        // When the lease of the other is over.
        let tells_of_b = ["b: ", "b ("].iter().any(|b| said.contains(b));
        if said.contains("  a: there, serves 64\n") && !tells_of_b {
            let last = said.lines().last().unwrap_or_default();
            let few = "not well: 1 of the 2 nodes are there that --replicas 1 takes; 64 ranges";
            assert!(last.starts_with(few), "{said}");
            assert!(
                last.ends_with(": start 1 more; until then end no node"),
                "{said}"
            );
            break;
        }
        assert!(start.elapsed() < NEVER, "{said}");
        thread::sleep(Duration::from_millis(50));
    }
    ring.begin(1);
    ring.until_whole();
}
