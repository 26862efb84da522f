//! This server beside Debian's memcached: the same bytes to both, and the same bytes from both.
//!
//! ```text
//!   generate: commands --+--> ours   --> answers --\
//!                        |                          == , byte for byte
//!                        +--> theirs --> answers --/
//! ```
//!
//! Both begin empty and are sent nothing else, so that even CAS ids are the same. What must differ
//! is masked: what is left of a time to live, and how long ago something was (`pair::masked`).
//! Without `memcached` on the machine nothing is compared, and the test says so.
//!
//! `DIFFERENTIAL_SECONDS` says how long each test goes on, `DIFFERENTIAL_SEED` where it begins, and
//! `DIFFERENTIAL_TRACE` has all told that is sent and answered.

mod generate;
mod pair;

use generate::{Generator, Random};
use pair::Pair;
use std::time::{Duration, Instant};

/// How long each test goes on.
fn seconds() -> Duration {
    let given = std::env::var("DIFFERENTIAL_SECONDS").ok();
    Duration::from_secs(given.and_then(|text| text.parse().ok()).unwrap_or(2))
}

/// Runs a test's steps with a new seed each, until the time is up.
fn repeat(mut step: impl FnMut(&mut Pair, &mut Generator)) {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let given = std::env::var("DIFFERENTIAL_SEED").ok();
    let mut seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    let until = Instant::now() + seconds();
    let mut count = 0;
    while count == 0 || Instant::now() < until {
        let mut generator = Generator::new(Random(seed));
        // The panic that a difference ends with has the commands; this has where to begin anew.
        pair.seed = seed;
        step(&mut pair, &mut generator);
        seed += 1;
        count += 1;
    }
    eprintln!("{count} rounds");
}

#[test]
fn ascii_commands_one_by_one() {
    repeat(|pair, generator| {
        let commands: Vec<_> = (0..100).map(|_| generator.ascii()).collect();
        // An item that is stored tells whether both have given as many CAS ids by now.
        pair.compare_in_step(&commands, b"ms probe 1 c\r\nx\r\nmn\r\n", b"MN\r\n");
    });
}

#[test]
fn binary_requests_one_by_one() {
    repeat(|pair, generator| {
        let commands: Vec<_> = (0..100).map(|_| generator.binary()).collect();
        let (noop, answer) = generate::noop();
        pair.compare_in_step(&commands, &noop, &answer);
    });
}

#[test]
fn commands_together_and_in_pieces() {
    repeat(|pair, generator| {
        let is_binary = generator.random.one_in(3);
        let mut bytes = Vec::new();
        for _ in 0..1 + generator.random.below(30) {
            let command = match is_binary {
                true => generator.binary(),
                false => generator.ascii(),
            };
            bytes.extend(command);
        }
        let pieces = generator.pieces(&bytes);
        pair.compare_whole(&bytes, &pieces, false);
    });
}

#[test]
fn mistakes() {
    repeat(|pair, generator| {
        generator.has_wrong_lengths = true;
        let command = match generator.random.one_in(3) {
            true => generator.binary(),
            false => generator.ascii(),
        };
        let bytes = generator.mangled(command);
        // A mangled expiry may come about before the next round.
        let flush = b"flush_all\r\n";
        pair.compare_whole(flush, &[flush.len()], false);
        // What they tell of themselves is their own, and only theirs can change its memory; whether
        // a long line is taken for one, or is the end, depends on how much of it comes at once.
        let is_apart = |word: &[u8]| matches!(word, b"stats" | b"cache");
        // Meta flags that theirs does not know.
        let is_later = |flag: &[u8]| matches!(flag, b" E" | b" x");
        let is_later = bytes.starts_with(b"m") && bytes.windows(2).any(is_later);
        if is_later || bytes.len() > 1500 || bytes.windows(5).any(is_apart) {
            return;
        }
        let pieces = generator.pieces(&bytes);
        pair.compare_whole(&bytes, &pieces, true);
    });
}

#[test]
fn datagrams() {
    repeat(|pair, generator| {
        for _ in 0..20 {
            let is_binary = generator.random.one_in(3);
            let command = match is_binary {
                true => generator.binary(),
                false => generator.ascii(),
            };
            // The versions are not of the same length, which a datagram's is told of.
            if command == b"version\r\n" {
                continue;
            }
            let (noop, answer) = generate::noop();
            match is_binary {
                true => pair.compare_datagram(&command, &noop, &answer),
                false => pair.compare_datagram(&command, b"mn\r\n", b"MN\r\n"),
            }
        }
    });
}
