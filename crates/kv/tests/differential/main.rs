//! This server beside Debian's memcached: the same bytes to both, and the same bytes from both.
//!
//! ```text
//!   generate: commands --+--> ours   --> answers --\
//!                        |                          == , byte for byte
//!                        +--> theirs --> answers --/
//! ```
//!
//! Both begin empty and are sent nothing else, so that even CAS ids are the same. Their clocks tick
//! apart, so what is left of a time to live may differ by that, and the last access is compared
//! with what memcached documents of it (`same`). Where expiries come about, commands are sent and
//! answered between two ticks (`seconds`). Without `memcached` on the machine nothing is compared,
//! and the test says so.
//!
//! memcached runs without its LRU's thread and crawler, which refer to items when they like: a
//! number is changed where it lies only if nobody else refers to it, and else is a new item.
//!
//! `DIFFERENTIAL_SECONDS` says how long each test goes on, `DIFFERENTIAL_SEED` where it begins, and
//! `DIFFERENTIAL_TRACE` has all told that is sent and answered.

mod counters;
mod full;
mod generate;
mod pair;
mod same;
mod seconds;
mod setups;
mod statistics;

use generate::{Generator, Random};
use pair::{Pair, Setup};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// How long each test goes on.
fn seconds() -> Duration {
    let given = std::env::var("DIFFERENTIAL_SECONDS").ok();
    Duration::from_secs(given.and_then(|text| text.parse().ok()).unwrap_or(2))
}

/// Where each test begins.
fn given_seed() -> u64 {
    let given = std::env::var("DIFFERENTIAL_SEED").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Runs a test's steps with a new seed each, until the time is up.
fn repeat(step: impl FnMut(&mut Pair, &mut Generator)) {
    repeat_with(Setup::Usual, step);
}

fn repeat_with(setup: Setup, mut step: impl FnMut(&mut Pair, &mut Generator)) {
    let Some(mut pair) = Pair::started(setup) else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    // 1.6.18 changes a number in place, and fills it up with blanks, where none of its threads
    // refers to the item just then: once in some 10,000 commands it does what it does not do a
    // second time. Who asks for a long run is told of that, too.
    let is_long = std::env::var_os("DIFFERENTIAL_SECONDS").is_some();
    let mut round = |pair: &mut Pair, seed: u64| {
        let mut generator = Generator::new(Random(seed));
        generator.has_numbers_apart = !is_long;
        // The panic that a difference ends with has the commands; this has where to begin anew.
        pair.seed = seed;
        step(pair, &mut generator);
    };
    let first = given_seed();
    let until = Instant::now() + seconds();
    let mut seed = first;
    while seed == first || Instant::now() < until {
        let differs = catch_unwind(AssertUnwindSafe(|| round(&mut pair, seed))).err();
        if let Some(difference) = differs {
            if is_long {
                resume_unwind(difference);
            }
            // All that both have done, done again by others: what differs again is a difference.
            pair = Pair::started(setup).expect("it did before");
            (first..=seed).for_each(|seed| round(&mut pair, seed));
            eprintln!("seed {seed}: it differed once, and not again");
        }
        seed += 1;
    }
    eprintln!("{} rounds", seed - first);
}

#[test]
fn ascii_commands_one_by_one() {
    repeat(|pair, generator| {
        let commands: Vec<_> = (0..100).map(|_| generator.ascii()).collect();
        // An item that is stored tells whether both have given as many CAS ids by now.
        pair.compare_in_step(&commands, b"ms probe 1 c\r\nx\r\nmn\r\n", b"MN\r\n");
    });
}

/// Numbers with a minus are stored here alone: nowhere else memcached is to find one behind a
/// number beyond 2^63, of which there is none here.
#[test]
fn arithmetic_on_values_with_a_minus() {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    for value in [
        "-",
        "-0",
        "-1",
        "--1",
        " -1",
        "1-",
        "1 -",
        "-18446744073709551615",
    ] {
        let set = format!("set n 0 0 {}\r\n{value}\r\n", value.len());
        let commands = [
            set.as_str(),
            "incr n 1\r\n",
            "decr n 1\r\n",
            "incr n -1\r\n",
            "ma n v\r\n",
            "ma n D-1 v\r\n",
            "get n\r\n",
        ];
        let commands = commands.map(|command| command.as_bytes().to_vec());
        pair.compare_in_step(&commands, b"mn\r\n", b"MN\r\n");
    }
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
        // Behind a line that is wrong, the next command would be a part of its value's line.
        generator.has_wrong_ends = false;
        // With a key that is too long memcached drops the answers before it.
        generator.has_long_keys = false;
        generator.has_numbers_apart = true;
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
        generator.has_long_keys = false;
        let command = match generator.random.one_in(3) {
            true => generator.binary(),
            false => generator.ascii(),
        };
        let bytes = generator.mangled(command);
        // A mangled expiry may come about before the next round.
        let flush = b"flush_all\r\n";
        pair.compare_whole(flush, &[flush.len()], false);
        // What they tell of themselves is compared elsewhere; whether a long line is taken for one,
        // or is the end, depends on how much of it comes at once.
        let is_apart = |word: &[u8]| word == b"stats";
        // Meta flags that theirs does not know.
        let has = |flag: &[u8]| bytes.windows(flag.len()).any(|part| part == flag);
        let is_later = match bytes.get(..2) {
            _ if has(b" E") || has(b" x") => bytes.starts_with(b"m"),
            // That it may stand there was so before, but it did nothing.
            Some(b"ms") => has(b" s") || has(b" N") && (has(b" MA") || has(b" MP")),
            // A number that is made is told.
            Some(b"ma") => has(b" q") && has(b" N"),
            _ => false,
        };
        let is_stat = bytes.starts_with(&[0x80, 0x10]);
        // Ours has addresses for 16 times its memory, and says so beyond.
        let is_beyond = bytes.windows(16).any(|word| word == b"cache_memlimit 2");
        if is_beyond || is_stat || is_later || bytes.len() > 1500 || bytes.windows(5).any(is_apart)
        {
            return;
        }
        let pieces = generator.pieces(&bytes);
        pair.compare_whole(&bytes, &pieces, true);
        if bytes.windows(5).any(|word| word == b"cache") {
            let memory = format!("cache_memlimit {}\r\n", pair::MEMORY).into_bytes();
            pair.compare_whole(&memory, &[memory.len()], false);
        }
    });
}

#[test]
fn as_time_passes() {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let until = Instant::now() + seconds();
    let mut random = Random(given_seed());
    let (mut count, mut torn) = (0, 0);
    while count < 3 || Instant::now() < until {
        pair.seed = random.0;
        let mut generator = Generator::new(Random(random.0));
        generator.is_near = true;
        let commands: Vec<_> = (0..30).flat_map(|_| generator.timed()).collect();
        // Where a clock ticked in between, nobody can tell which command it came before.
        match pair.compare_in_a_second(&commands) {
            true => count += 1,
            false => {
                torn += 1;
                assert!(torn < 10 + count, "seconds are too short here");
                pair = Pair::start().expect("it did before");
            }
        }
        random.below(2);
    }
    eprintln!("{count} seconds, and {torn} that a clock ticked in");
}

#[test]
fn keys_before_one_that_is_too_long_are_fetched() {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let long = "k".repeat(251);
    for verb in ["get", "gets", "gat -1", "gats -1"] {
        for text in [
            "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\nset c 0 0 1\r\nz\r\n".to_owned(),
            format!("{verb} a b {long} c\r\n"),
            "me a\r\nme b\r\nme c\r\nget a b c\r\n".to_owned(),
        ] {
            pair.compare_whole(text.as_bytes(), &[text.len()], false);
        }
    }
}

#[test]
fn long_lines() {
    repeat(|pair, generator| {
        let words = [
            "get", "gets", "gat 0", "set", "incr", "mg", "ms", "nonsense", "  get",
        ];
        let word = words[generator.random.below(words.len())];
        let length = match generator.random.below(4) {
            0 => 2000 + generator.random.below(100),
            1 => 100 + generator.random.below(400),
            // As long as their buffer, and longer.
            2 => 16_384 - 4 + generator.random.below(8),
            _ => 2000 + generator.random.below(18_000),
        };
        let fill = ["x", " x", " a", " ", " k v", "\0"];
        let fill = fill[generator.random.below(fill.len())];
        let mut line = word.to_owned();
        while line.len() < length {
            line += fill;
        }
        // At once, both see all of it.
        let whole = format!("{line}\r\n").into_bytes();
        pair.compare_in_step(&[whole], b"mn\r\n", b"MN\r\n");
        // Without its end they wait for that, or no longer.
        if line.len() > 2048 && !word.trim_start().starts_with("get") {
            pair.compare_unfinished(line.as_bytes());
        }
    });
}

#[test]
fn statistics_have_the_same_shape() {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    pair.compare_statistics();
}

#[test]
fn datagrams_of_as_many_keys_as_are_taken_at_a_time() {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let set = b"set a 0 0 1\r\nx\r\n";
    pair.compare_whole(set, &[set.len()], false);
    for verb in ["get", "gets", "gat 0"] {
        for keys in [21, 22, 23, 44, 45, 46, 68] {
            for key in [" a", " none"] {
                for blanks in ["", " ", "  ", "   "] {
                    let line = format!("{verb}{}{blanks}\r\n", key.repeat(keys));
                    pair.compare_datagram(line.as_bytes(), b"mn\r\n", b"MN\r\n");
                }
            }
        }
    }
    pair.compare_datagram(b"gat 10\r\n", b"mn\r\n", b"MN\r\n");
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
