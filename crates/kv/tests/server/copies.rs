//! Two nodes of which one writes a key and the other has a copy that is read: who answers what.

use super::{NEVER, Running, expect, here, start};
use rhythm_etcd::testing::free_places;
use rhythm_kv::membership::{Membership, Replicate, Transport};
use rhythm_kv::ring::{Elsewhere, Member, Placement, Scheme};
use rhythm_kv::shared::Settings;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Both nodes; of a primary and its copy, the primary first.
fn pair(scheme: Scheme) -> [Running; 2] {
    pair_with(scheme, scheme.elsewhere()).0
}

/// The same, where that becomes of reads of what the other node serves; and the ports by which it
/// is told which keys are whose.
fn pair_with(scheme: Scheme, elsewhere: Elsewhere) -> ([Running; 2], [u16; 2]) {
    let places = free_places(2);
    let members: BTreeMap<usize, Member> = (places.iter().enumerate())
        .map(|(node, backbone)| {
            let member = Member {
                name: format!("node-{node}"),
                host: "127.0.0.1".to_owned(),
                port: backbone.port(),
                backbone: *backbone,
                place: backbone.to_string(),
            };
            (node, member)
        })
        .collect();
    let nodes = [0, 1].map(|me| {
        start(Settings {
            ring: Some(Membership {
                members: members.clone(),
                me,
                transport: Transport::Tcp(places[me]),
                scheme,
                replicas: 1,
                replicate: Replicate::ACKED,
                elsewhere,
                etcd: None,
            }),
            ..here()
        })
    });
    (nodes, [0, 1].map(|node| places[node].port()))
}

/// How often a node found something itself.
fn hits(stream: &mut TcpStream) -> u64 {
    let text = stats(stream, "stats\r\n");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("STAT get_hits "));
    line.and_then(|hits| hits.parse().ok()).expect("it counts")
}

/// All that `stats` says.
fn stats(stream: &mut TcpStream, sent: &str) -> String {
    stream.write_all(sent.as_bytes()).expect("it reads");
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while !text.ends_with("END\r\n") {
        let count = stream.read(&mut bytes).expect("it answers");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    text
}

/// Sends, and reads a line.
fn line(stream: &mut TcpStream, sent: &str) -> String {
    stream.write_all(sent.as_bytes()).expect("it reads");
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("it answers");
        line.extend(byte);
    }
    String::from_utf8_lossy(&line).into_owned()
}

#[test]
fn a_copy_answers_get_and_passes_on_the_rest() {
    let nodes = pair(Scheme::Primary);
    let [mut primary, mut copy] = [&nodes[0], &nodes[1]].map(Running::connect);
    // As long as they do not know each other, it says so.
    while line(&mut copy, "set k 7 0 3\r\nabc\r\n") != "STORED\r\n" {}
    // Until it has caught up, it passes reads on, too.
    let until = Instant::now() + NEVER;
    while hits(&mut copy) == 0 {
        assert!(Instant::now() < until, "it never answers itself");
        expect(&mut copy, "get k\r\n", "VALUE k 7 3\r\nabc\r\nEND\r\n");
        thread::sleep(Duration::from_millis(20));
    }
    // By way of either, what is written is there for both.
    for round in 0..100 {
        let value = format!("{round:03}");
        let found = format!("VALUE k 0 3\r\n{value}\r\nEND\r\n");
        let set = format!("set k 0 0 3\r\n{value}\r\n");
        match round % 2 {
            0 => expect(&mut copy, &set, "STORED\r\n"),
            _ => expect(&mut primary, &set, "STORED\r\n"),
        }
        expect(&mut copy, "get k\r\n", &found);
        expect(&mut primary, "get k\r\n", &found);
        // And behind a write in one go.
        let both = format!("{set}get k\r\n");
        expect(&mut copy, &both, &format!("STORED\r\n{found}"));
    }
    // The primary tells who has copies, and the copy tells of none of its own.
    let until = Instant::now() + NEVER;
    while !stats(&mut primary, "stats ring\r\n").contains("STAT node-1:copies 1\r\n") {
        assert!(Instant::now() < until, "it never tells of the copy");
        thread::sleep(Duration::from_millis(20));
    }
    let of_copy = stats(&mut copy, "stats ring\r\n");
    assert!(of_copy.contains("STAT node-0:copies 0\r\n"), "{of_copy}");
    // CAS ids are the primary's: what its copy shows of them serves there.
    let before = hits(&mut copy);
    let answer = line(&mut copy, "gets k\r\n");
    expect(&mut copy, "", "099\r\nEND\r\n");
    let cas = answer.trim_end().split(' ').nth(4);
    let cas = cas.expect("it has one");
    expect(
        &mut copy,
        &format!("cas k 0 0 1 {cas}\r\nz\r\n"),
        "STORED\r\n",
    );
    assert_eq!(hits(&mut copy), before, "the primary answered that");
}

#[test]
fn a_chain_is_read_at_its_tail_and_shows_a_connection_what_it_wrote() {
    let nodes = pair(Scheme::Chain);
    let mut ends = [&nodes[0], &nodes[1]].map(Running::connect);
    while line(&mut ends[0], "set k0 0 0 3\r\nabc\r\n") != "STORED\r\n" {}
    // Whose hits grow by what both are asked.
    let mut counted = |command: &str| {
        let before = ends.each_mut().map(hits);
        for end in &mut ends {
            line(end, command);
            expect(end, "", "abc\r\nEND\r\n");
        }
        let after = ends.each_mut().map(hits);
        [after[0] - before[0], after[1] - before[1]]
    };
    let until = Instant::now() + NEVER;
    let head = loop {
        // What shows more than the value is the head's.
        let of_head = counted("gets k0\r\n");
        let of_tail = counted("get k0\r\n");
        if of_head == [2, 0] && of_tail == [0, 2] {
            break 0;
        }
        if of_head == [0, 2] && of_tail == [2, 0] {
            break 1;
        }
        assert!(Instant::now() < until, "{of_head:?}, {of_tail:?}");
        thread::sleep(Duration::from_millis(20));
    };
    let mut last = "abc".to_owned();
    for round in 0..200 {
        let value = format!("{round:03}");
        let found = |value: &str| format!("VALUE k0 0 3\r\n{value}\r\nEND\r\n");
        let set = format!("set k0 0 0 3\r\n{value}\r\n");
        let by = (head + round) % 2;
        match round / 2 % 3 {
            0 => expect(&mut ends[by], &set, "STORED\r\n"),
            // In one go, each of them finds what is before it and nothing behind it.
            1 => {
                let said = format!("STORED\r\n{}", found(&value));
                expect(&mut ends[by], &format!("{set}get k0\r\n"), &said);
            }
            _ => {
                let said = format!("{}STORED\r\n{}", found(&last), found(&value));
                expect(&mut ends[by], &format!("get k0\r\n{set}get k0\r\n"), &said);
            }
        }
        ends.iter_mut()
            .for_each(|end| expect(end, "get k0\r\n", &found(&value)));
        last = value;
    }
}

/// Of a ring they do where that was asked for, and of a primary they do not where it was not.
#[test]
fn copies_answer_get_where_that_was_asked_for() {
    for (scheme, elsewhere) in [
        (Scheme::Ring, Elsewhere::Serve),
        (Scheme::Ring, Elsewhere::Forward),
        (Scheme::Primary, Elsewhere::Forward),
    ] {
        let (nodes, ports) = pair_with(scheme, elsewhere);
        let placement = match scheme {
            Scheme::Primary => Placement::whole(),
            _ => Placement::new(ports.map(|port| ("127.0.0.1", port))),
        };
        let mut keys = (0..).map(|number| format!("k{number}"));
        let key = keys.find(|key| placement.range(key.as_bytes()) == 0);
        let key = key.expect("one is of the first node");
        let [mut first, mut copy] = [&nodes[0], &nodes[1]].map(Running::connect);
        let set = |value: &str| format!("set {key} 0 0 3\r\n{value}\r\n");
        let get = format!("get {key}\r\n");
        let found = |value: &str| format!("VALUE {key} 0 3\r\n{value}\r\nEND\r\n");
        while line(&mut copy, &set("abc")) != "STORED\r\n" {}
        // Which of its gets it answers itself. It may serve all keys for a moment, where it is
        // there sooner than the first node.
        let mut answers_some = || {
            let before = hits(&mut copy);
            for _ in 0..50 {
                expect(&mut copy, &get, &found("abc"));
                thread::sleep(Duration::from_millis(10));
            }
            hits(&mut copy) > before
        };
        let (begun, serves) = (Instant::now(), elsewhere == Elsewhere::Serve);
        while answers_some() != serves {
            assert!(begun.elapsed() < NEVER, "{scheme:?} {elsewhere:?}");
        }
        // Whoever wrote it, and whoever is asked: what was confirmed is found.
        for round in 0..100 {
            let value = format!("{round:03}");
            let writer = if round % 2 == 0 {
                &mut copy
            } else {
                &mut first
            };
            expect(writer, &set(&value), "STORED\r\n");
            expect(&mut copy, &get, &found(&value));
            expect(&mut first, &get, &found(&value));
        }
    }
}

/// Who said it has it come about, and the other hears of it then.
#[test]
fn a_flush_that_is_to_come_comes_to_both_nodes() {
    let nodes = pair(Scheme::Primary);
    let [mut primary, mut copy] = [&nodes[0], &nodes[1]].map(Running::connect);
    let found = "VALUE k 7 3\r\nabc\r\nEND\r\n";
    while line(&mut copy, "set k 7 0 3\r\nabc\r\n") != "STORED\r\n" {}
    // The later one counts.
    expect(&mut copy, "flush_all 2\r\nflush_all 8\r\n", "OK\r\nOK\r\n");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2500) {
        expect(&mut primary, "get k\r\n", found);
        expect(&mut copy, "get k\r\n", found);
        thread::sleep(Duration::from_millis(50));
    }
    for node in [&mut primary, &mut copy] {
        while line(node, "get k\r\n") != "END\r\n" {
            expect(node, "", "abc\r\nEND\r\n");
            assert!(began.elapsed() < NEVER, "it never comes about");
            thread::sleep(Duration::from_millis(20));
        }
    }
    // One that comes within this second is there at once.
    expect(&mut primary, "set k 7 0 3\r\nabc\r\n", "STORED\r\n");
    expect(&mut copy, "get k\r\n", found);
    expect(&mut copy, "flush_all 1\r\n", "OK\r\n");
    expect(&mut primary, "get k\r\n", "END\r\n");
    expect(&mut copy, "get k\r\n", "END\r\n");
}

/// As fast as they are said, and many times as much of them as may be on its way to the ring's
/// thread.
#[test]
fn writes_that_have_no_answer_wait_for_room_and_come_to_both_nodes() {
    let nodes = pair(Scheme::Primary);
    let [mut primary, mut copy] = [&nodes[0], &nodes[1]].map(Running::connect);
    while line(&mut copy, "set k 0 0 3\r\nabc\r\n") != "STORED\r\n" {}
    primary.set_write_timeout(Some(NEVER)).expect("a time");
    let keys: Vec<String> = (0..1000).map(|number| format!("{number:0>200}")).collect();
    for round in 100..140 {
        let set = |key: &String| format!("set {key} 0 0 3 noreply\r\n{round}\r\n");
        let sets: String = keys.iter().map(set).collect();
        primary.write_all(sets.as_bytes()).expect("it reads");
    }
    expect(&mut primary, "set k 0 0 3\r\nxyz\r\n", "STORED\r\n");
    for end in [&mut primary, &mut copy] {
        for key in &keys {
            let found = format!("VALUE {key} 0 3\r\n139\r\nEND\r\n");
            expect(end, &format!("get {key}\r\n"), &found);
        }
    }
}

/// On one connection it comes behind what was said before it, wherever that goes, and before what
/// was said behind it.
#[test]
fn a_flush_is_in_order_with_what_its_connection_says_beside() {
    for scheme in [Scheme::Primary, Scheme::Ring, Scheme::Chain] {
        let nodes = pair(scheme);
        let mut ends = [&nodes[0], &nodes[1]].map(Running::connect);
        while line(&mut ends[1], "set k 7 0 3\r\nabc\r\n") != "STORED\r\n" {}
        let found = "VALUE k 7 3\r\nabc\r\nEND\r\n";
        for _ in 0..50 {
            for end in &mut ends {
                let set = "set k 7 0 3\r\nabc\r\n";
                let asked = format!("{set}flush_all\r\nget k\r\n{set}get k\r\n");
                let said = format!("STORED\r\nOK\r\nEND\r\nSTORED\r\n{found}");
                expect(end, &asked, &said);
                let asked = format!("{set}flush_all noreply\r\nget k\r\n");
                expect(end, &asked, "STORED\r\nEND\r\n");
            }
        }
    }
}
