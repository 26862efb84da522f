//! Both without room for more, and without leave to evict.

use crate::generate::{self, packet};
use crate::pair::{Pair, Setup, ask};

/// Fills both, each with as many items as it takes, until nothing more goes in.
fn fill(pair: &Pair) {
    for index in 0..2 {
        let mut stream = pair.connect(index);
        for length in [100_000, 5_000, 1_000, 100, 10, 1] {
            let value = "v".repeat(length);
            for number in 0.. {
                let set = format!("add fill:{length}:{number} 0 0 {length}\r\n{value}\r\n");
                let answer = ask(&mut stream, set.as_bytes(), b"mn\r\n", b"MN\r\n");
                if answer.starts_with(b"SERVER_ERROR out of memory") {
                    break;
                }
                assert!(answer.starts_with(b"STORED"), "{}", answer.escape_ascii());
            }
        }
    }
}

#[test]
fn what_finds_no_room_is_told_so() {
    let Some(mut pair) = Pair::started(Setup::Full) else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "n"];
    for name in names {
        let set = format!("set {name} 0 0 1\r\n9\r\n").into_bytes();
        pair.compare_in_step(&[set], b"mn\r\n", b"MN\r\n");
    }
    fill(&pair);
    // First what leaves all as it is: an item that goes makes room.
    let new = ["ma new N0 J5 v\r\n", "mg new N0 v\r\n"].map(|line| line.as_bytes().to_vec());
    pair.compare_in_step(&new, b"mn\r\n", b"MN\r\n");
    let value = "x".repeat(5_000);
    let packets = [
        packet(0x05, &[0; 20], b"new", &[], 0),
        packet(0x02, &[0; 8], b"new", value.as_bytes(), 0),
        packet(0x0e, &[], b"n", value.as_bytes(), 0),
        packet(0x01, &[0; 8], b"k", value.as_bytes(), 0),
        packet(0x00, &[], b"k", &[], 0),
        packet(0x00, &[], b"n", &[], 0),
    ];
    let (noop, answer) = generate::noop();
    pair.compare_in_step(&packets, &noop, &answer);
    // All would be stored if there were room: theirs asks for that first, ours last.
    let mut lines = Vec::new();
    for (verb, name) in [("set", "a"), ("add", "new"), ("replace", "c")] {
        lines.push(format!("{verb} {name} 0 0 5000\r\n{value}\r\n"));
        lines.push(format!("{verb} {name} 0 0 5000 noreply\r\n{value}\r\n"));
    }
    lines.push(format!("cas d 0 0 5000 4\r\n{value}\r\n"));
    for (mode, name) in [("S", "e"), ("E", "new"), ("R", "g"), ("A", "h"), ("P", "i")] {
        lines.push(format!("ms {name} 5000 M{mode}\r\n{value}\r\n"));
    }
    lines.push(format!("append j 0 0 5000\r\n{value}\r\n"));
    lines.push(format!("mg {} v\r\n", names.join(" v\r\nmg ")));
    let lines: Vec<_> = lines.into_iter().map(String::into_bytes).collect();
    pair.compare_in_step(&lines, b"mn\r\n", b"MN\r\n");
}
