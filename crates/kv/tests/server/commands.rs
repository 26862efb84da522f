//! Commands that the differential test cannot compare, or comes to seldom.

use super::{expect, here, start};
use rhythm_kv::shared::Settings;
use std::io::{BufRead, BufReader, Write};

#[test]
fn meta_flags_that_came_later_are_known() {
    let running = start(here());
    let mut stream = running.connect();
    for (sent, answer) in [
        ("ms a 3 E77 c s F5\r\nabc\r\n", "HD c77 s3\r\n"),
        ("ms a 2 MA s\r\nde\r\n", "HD s5\r\n"),
        ("ms b 2 MA\r\nde\r\n", "NS\r\n"),
        ("ms b 2 MA N100 s\r\nde\r\n", "HD s2\r\n"),
        ("mg b v\r\n", "VA 2\r\nde\r\n"),
        ("md a x E80\r\n", "HD\r\n"),
        ("mg a v c f\r\n", "VA 0 c80 f0\r\n\r\n"),
        // In the place of the one there, with its CAS id, and nothing else of it.
        ("ms d 1 F5 T900 E60\r\nx\r\n", "HD\r\n"),
        ("md d x C61\r\n", "EX\r\n"),
        ("md d x C60\r\n", "HD\r\n"),
        ("mg d v c f t h\r\n", "VA 0 c60 f0 t-1 h0\r\n\r\n"),
        ("md d x F7 T-1 E61\r\n", "HD\r\n"),
        ("mg d v\r\n", "EN\r\n"),
        ("ms d 1 F5 E60\r\nx\r\n", "HD\r\n"),
        ("md d x I F7 q\r\nmn\r\n", "MN\r\n"),
        ("mg d v f t\r\n", "VA 0 f7 t-1 X W\r\n\r\n"),
        ("mg d q c C60\r\nmd d C60\r\n", "HD c3 Z X\r\nEX\r\n"),
        // A new number is not told to who wants to hear little.
        ("ma q N0 q v\r\nma q q\r\nma none q\r\n", "NF\r\n"),
        ("mg q v\r\n", "VA 1\r\n1\r\n"),
        ("ma n N0 J5 E90 c v\r\n", "VA 1 c90\r\n5\r\n"),
        ("ma n E91 c\r\n", "HD c91\r\n"),
        ("md n I E92\r\n", "HD\r\n"),
        ("mg n c\r\n", "HD c92 X W\r\n"),
        ("mg n\r\n", "HD Z X\r\n"),
        ("mg new N30 E95 c\r\n", "HD c95 W\r\n"),
        (
            "mg a Ex\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
    ] {
        expect(&mut stream, sent, answer);
    }
}

#[test]
fn a_key_that_came_in_base64_is_told_so_to_all() {
    let running = start(here());
    let mut stream = running.connect();
    for (sent, answer) in [
        ("ms YWJj 1 b k\r\nx\r\n", "HD kYWJj b\r\n"),
        ("mg abc k\r\n", "HD kYWJj b\r\n"),
        ("mg YWJj b k\r\n", "HD kYWJj b\r\n"),
        ("get abc\r\n", "VALUE abc 0 1\r\nx\r\nEND\r\n"),
        // It stays where the item does, and goes with it.
        ("touch abc 100000\r\n", "TOUCHED\r\n"),
        ("md abc I\r\n", "HD\r\n"),
        ("mg abc k\r\n", "HD kYWJj b X W\r\n"),
        ("append abc 0 0 1\r\ny\r\n", "STORED\r\n"),
        ("mg YWJj b k\r\n", "HD kabc\r\n"),
        // Where there is none, as it was asked for.
        ("mg eHl6 b k\r\n", "EN keHl6 b\r\n"),
        ("ms YWJj 2 b\r\n99\r\n", "HD\r\n"),
        ("ma abc k\r\n", "HD kabc\r\n"),
        ("mg abc k\r\n", "HD kabc\r\n"),
        ("ms YWJj 2 b\r\n98\r\n", "HD\r\n"),
        ("ma abc k\r\n", "HD kabc\r\n"),
        ("mg abc k\r\n", "HD kYWJj b\r\n"),
    ] {
        expect(&mut stream, sent, answer);
    }
}

#[test]
fn who_has_won_keeps_the_right_when_an_older_value_comes() {
    let running = start(here());
    let mut stream = running.connect();
    for (sent, answer) in [
        ("ms a 1 c\r\nx\r\n", "HD c1\r\n"),
        ("md a I\r\n", "HD\r\n"),
        ("mg a c\r\n", "HD c2 X W\r\n"),
        ("ms a 1 I C1 c\r\ny\r\n", "HD c3\r\n"),
        ("mg a v\r\n", "VA 1 Z X\r\ny\r\n"),
        // Not so where nobody had won.
        ("ms b 1 c\r\nx\r\n", "HD c4\r\n"),
        ("md b I\r\n", "HD\r\n"),
        ("ms b 1 I C4\r\ny\r\n", "HD\r\n"),
        ("mg b v\r\n", "VA 1 X W\r\ny\r\n"),
    ] {
        expect(&mut stream, sent, answer);
    }
}

#[test]
fn memory_for_items_is_changed_while_it_runs() {
    let running = start(Settings {
        memory: 64 << 20,
        memory_max: 128 << 20,
        item_max: 8 << 20,
        ..here()
    });
    let mut stream = running.connect();
    let failed = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
    let value = "v".repeat(4 << 20);
    let store = |stream: &mut std::net::TcpStream, from: usize| {
        for key in from..from + 20 {
            let command = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
            expect(stream, &command, "STORED\r\n");
        }
        let hits = (from..from + 20).filter(|key| {
            use std::io::Read;
            let command = format!("mg {key} s\r\nmn\r\n");
            stream.write_all(command.as_bytes()).expect("it reads");
            let mut got = Vec::new();
            while !got.ends_with(b"MN\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("an answer");
                got.push(byte[0]);
            }
            got.starts_with(b"HD")
        });
        hits.count()
    };
    // 80 MiB.
    assert!(store(&mut stream, 0) < 16);
    expect(&mut stream, "cache_memlimit 128\r\n", "OK\r\n");
    assert_eq!(store(&mut stream, 100), 20);
    expect(&mut stream, "cache_memlimit 129\r\n", failed);
    expect(&mut stream, "cache_memlimit 32\r\n", "OK\r\n");
    assert!(store(&mut stream, 200) < 8);
    expect(&mut stream, "cache_memlimit 64 noreply\r\nmn\r\n", "MN\r\n");
}

#[test]
fn where_nothing_is_evicted_a_touch_needs_no_room() {
    let running = start(Settings {
        evict: false,
        memory: 2 << 20,
        ..here()
    });
    let mut client = BufReader::new(running.connect());
    let value = "v".repeat(1000);
    let mut answer = String::new();
    let refused = (0..4000).find(|key| {
        let set = format!("set k{key} 0 100 1000\r\n{value}\r\n");
        client
            .get_mut()
            .write_all(set.as_bytes())
            .expect("it reads");
        answer.clear();
        client.read_line(&mut answer).expect("it answers");
        answer != "STORED\r\n"
    });
    assert!(refused.is_some_and(|key| key > 1000), "{refused:?}");
    assert_eq!(answer, "SERVER_ERROR out of memory storing object\r\n");
    let got = format!("TOUCHED\r\nVALUE k2 0 1000\r\n{value}\r\nEND\r\nHD t30000\r\n");
    let sent = "touch k1 10000\r\ngat 20000 k2\r\nmg k3 T30000 t\r\n";
    expect(client.get_mut(), sent, &got);
    for (key, least) in [("k1", 9_000), ("k2", 19_000), ("k3", 29_000)] {
        let mg = format!("mg {key} t\r\n");
        client.get_mut().write_all(mg.as_bytes()).expect("it reads");
        answer.clear();
        client.read_line(&mut answer).expect("it answers");
        let left = answer.trim_end().strip_prefix("HD t").map(str::parse);
        assert!(
            left.is_some_and(|left| left.is_ok_and(|left: u32| left > least)),
            "{answer}"
        );
    }
}
