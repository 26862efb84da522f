//! Both started in other ways than the usual one.

use crate::generate::{self, Generator, packet};
use crate::pair::{Pair, Setup, ask};
use crate::{repeat, repeat_with};

/// Without CAS ids a flush takes all of its second, in which their clocks are not at one.
fn is_flush(command: &[u8]) -> bool {
    command.starts_with(b"flush_all") || matches!(command, [0x80, 0x08 | 0x18, ..])
}

#[test]
fn without_cas_ids() {
    repeat_with(Setup::WithoutCas, |pair, generator| {
        let some = |of: &mut dyn FnMut() -> Vec<u8>| -> Vec<_> {
            let commands = (0..60).map(|_| of());
            commands.filter(|command| !is_flush(command)).collect()
        };
        let lines = some(&mut || generator.ascii());
        pair.compare_in_step(&lines, b"ms probe 1 c\r\nx\r\nmn\r\n", b"MN\r\n");
        let packets = some(&mut || generator.binary());
        let (noop, answer) = generate::noop();
        pair.compare_in_step(&packets, &noop, &answer);
    });
}

#[test]
fn without_flushes() {
    let Some(mut pair) = Pair::started(Setup::WithoutFlush) else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let lines = [
        "set a 0 0 1\r\nx\r\n",
        "flush_all\r\n",
        "flush_all noreply\r\n",
        "flush_all x\r\n",
        "flush_all x y z\r\n",
        "get a\r\n",
    ];
    let lines = lines.map(|line| (line.as_bytes().to_vec(), false));
    let packets = [
        (packet(0x08, &[], &[], &[], 0), true),
        (packet(0x18, &[0; 4], &[], &[], 0), true),
    ];
    pair.compare_counts(&[&lines[..], &packets].concat(), &["cmd_flush", "get_hits"]);
}

/// What a client that is to say who it is may say.
fn said(generator: &mut Generator) -> Vec<u8> {
    let random = &mut generator.random;
    let value = |length: usize| "user secret ".repeat(1 + length / 12)[..length].to_owned();
    let text = match random.below(14) {
        0 | 1 => "set x 0 0 11\r\nuser secret\r\n".to_owned(),
        2 => "set x 0 0 10\r\nuser wrong\r\n".to_owned(),
        3 => "set x 0 0 12\r\nuser\tsecret \r\n".to_owned(),
        4 => "set x 0 0 11\r\nuser secretxx".to_owned(),
        5 => "set x 0 0 4\r\nuser\r\n".to_owned(),
        6 => "set x y z 11\nuser secret\r\n".to_owned(),
        7 => "set x 0 0\r\n".to_owned(),
        8 => "add x 0 0\r\n".to_owned(),
        9 | 10 => "get a\r\n".to_owned(),
        // As long as their buffer with its end, and longer.
        11 => {
            let length = 16_382 - 2 + random.below(6);
            format!("set x 0 0 {length}\r\n{}\r\n", value(length))
        }
        _ => {
            let length = random.below(5000);
            format!("set x 0 0 {length}\r\n{}\r\n", value(length))
        }
    };
    text.into_bytes()
}

#[test]
fn clients_that_are_to_say_who_they_are() {
    repeat_with(Setup::WithUsers, |pair, generator| {
        // A byte that is no line yet is waited for, even if it ends one.
        for bytes in [&b"\n"[..], b"\n\n", b"\nx"] {
            pair.compare_whole(bytes, &[bytes.len()], false);
        }
        let mut streams = [pair.connect(0), pair.connect(1)];
        for _ in 0..8 {
            // One by one: their answers to those that come together are lost but for the last.
            let bytes = said(generator);
            let answers = (streams.each_mut()).map(|stream| ask(stream, &bytes, b"", b"\n"));
            pair.assert_same(&bytes, &answers[0], &answers[1]);
            if !answers[0].ends_with(b"\n") {
                break;
            }
        }
    });
}

#[test]
fn binary_lengths_beyond_what_is_there() {
    repeat(|pair, generator| {
        // Stores whose value would be that long they read from before their buffer.
        let opcode = [0x00, 0x04, 0x0a, 0x10, 0x20, 0x21, 0x22, 0x77][generator.random.below(8)];
        let key: &[u8] = match opcode {
            0x10 => b"key",
            _ => [&b""[..], b"key"][generator.random.below(2)],
        };
        let mut bytes = packet(opcode, &[], key, &[], 0);
        let body: u32 = 0x8000_0000 + key.len() as u32 + generator.random.below(1 << 31) as u32 / 2;
        bytes[8..12].copy_from_slice(&body.to_be_bytes());
        let (noop, answer) = generate::noop();
        pair.compare_in_step(&[bytes], &noop, &answer);
    });
}
