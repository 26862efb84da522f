//! What clients, and nodes that were told something else, cannot do to a ring of `rhythm kv`: take
//! memory by asking a node for what another serves, keep its thread from the others by many
//! commands at once, or have two rings where there is one.

use crate::kv::resident;
use crate::ring::{ACKED, ASYNC, Client, Ring};
use crate::server::NEVER;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A value as long as may be, nearly.
const LONG: usize = 1_000_000;

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a time-out");
    stream
}

/// Writes by one connection, and takes so many bytes of answers.
fn exchange(stream: &mut TcpStream, bytes: &[u8], answer: usize) -> Vec<u8> {
    stream.write_all(bytes).expect("it takes it");
    let mut taken = vec![0; answer];
    stream.read_exact(&mut taken).expect("it answers");
    taken
}

/// A long value of every node is there.
fn store_long(ring: &Ring<'_>) -> Vec<String> {
    let keys: Vec<String> = (0..8).map(|key| format!("long-{key}")).collect();
    let mut stream = connect(ring.clients[0]);
    for key in &keys {
        let mut set = format!("set {key} 0 0 {LONG}\r\n").into_bytes();
        set.resize(set.len() + LONG, b'x');
        set.extend_from_slice(b"\r\n");
        assert_eq!(exchange(&mut stream, &set, 8), b"STORED\r\n");
    }
    keys
}

#[test]
fn who_asks_for_long_values_of_other_nodes_and_reads_nothing_takes_little_memory() {
    let ring = Ring::start("kv-long-unread", ASYNC);
    let keys = store_long(&ring);
    let before = (0..3).map(|node| resident(ring.process(node)));
    let before: Vec<usize> = before.collect();
    // As lines, and as keys of one line.
    let lines: String = (0..3000)
        .map(|at| format!("get {}\r\n", keys[at % 8]))
        .collect();
    let keys: String = (0..3000).map(|at| format!(" {}", keys[at % 8])).collect();
    let asked = [lines, format!("get{keys}\r\n")];
    let open: Vec<TcpStream> = (0..3)
        .flat_map(|node| asked.iter().map(move |asked| (node, asked)))
        .map(|(node, asked)| {
            let mut stream = connect(ring.clients[node]);
            stream.write_all(asked.as_bytes()).expect("it takes it");
            stream
        })
        .collect();
    // Two connections a node, of 32 answers each, and what is under way between nodes.
    let most = 160 << 20;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        for (node, before) in before.iter().enumerate() {
            let more = resident(ring.process(node)).saturating_sub(*before);
            assert!(more < most, "{} MiB more", more >> 20);
        }
        thread::sleep(Duration::from_millis(20));
    }
    // It is served, and the ring is whole.
    ring.until_whole();
    drop(open);
    let mut client = Client::new(&ring.clients);
    for node in 0..3 {
        let (said, value) = client.ask(node, "get long-0\r\n").expect("an answer");
        assert_eq!(value.len(), LONG, "{said}");
    }
}

#[test]
fn a_crowd_that_writes_to_any_node_does_not_keep_others_from_theirs() {
    let ring = Ring::start("kv-write-crowd", ACKED);
    let at = ring.clients[0];
    let crowd: Vec<_> = (0..50)
        .map(|client| {
            thread::spawn(move || {
                let value = "y".repeat(1000);
                let set = |key| format!("set {client}-{key} 0 0 1000 noreply\r\n{value}\r\n");
                let burst: String = (0..500).map(set).collect();
                let mut stream = connect(at);
                stream.write_all(burst.as_bytes()).expect("it takes it");
                // All was executed when this is answered.
                exchange(&mut stream, b"mn\r\n", 4)
            })
        })
        .collect();
    // Whoever serves the key, it is stored meanwhile.
    let mut client = Client::new(&ring.clients);
    for key in 0..30 {
        let said = client.ask(0, &format!("set probe-{key} 0 0 1\r\nx\r\n"));
        assert_eq!(said.expect("an answer").0, "STORED\r\n");
    }
    for one in crowd {
        assert_eq!(one.join().expect("it is answered"), b"MN\r\n");
    }
    ring.until_whole();
}

#[test]
fn a_node_that_was_told_something_else_does_not_begin_beside_the_others() {
    let mut ring = Ring::start("kv-otherwise", ACKED);
    let clients = ring.clients.clone();
    let mut client = Client::new(&clients);
    let set = client.ask(0, "set kept 0 0 4\r\nhere\r\n");
    assert_eq!(set.expect("an answer").0, "STORED\r\n");
    ring.kill(1);
    ring.copies = ASYNC;
    ring.begin(1);
    let admin = ring.admins[1];
    let ready = || {
        let stream = TcpStream::connect(admin).ok()?;
        let answer = crate::server::Client::of(stream)
            .ask("GET", "/readyz", "")
            .ok()?;
        Some((answer.status, answer.body))
    };
    let start = Instant::now();
    let differs = "it does not begin to serve: ";
    while !ready().is_some_and(|(status, said)| status == 503 && said.contains(differs)) {
        assert!(start.elapsed() < NEVER, "{:?}", ready());
        thread::sleep(Duration::from_millis(20));
    }
    // It waits for longer than it looks for others, and the others serve what is there.
    thread::sleep(Duration::from_millis(2500));
    let (status, said) = ready().expect("it answers");
    assert_eq!(status, 503, "{said}");
    for node in [0, 2] {
        let (said, value) = client.ask(node, "get kept\r\n").expect("an answer");
        assert_eq!(value, b"here", "{said}");
    }
    // Told the same, it is one of them.
    ring.kill(1);
    ring.copies = ACKED;
    ring.begin(1);
    ring.until_whole();
    let (said, value) = client.ask(1, "get kept\r\n").expect("an answer");
    assert_eq!(value, b"here", "{said}");
}
