//! What two threads do to one key at a time: each answer is of the item that it changes.

use super::*;
use crate::shared::{Settings, Start};
use crate::store::{Store, StoreOptions, Worker};
use crate::wire::{self, Stream};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long each is tried. Without one step for both, some ten of a second's tries go wrong.
const LONG_ENOUGH: Duration = Duration::from_millis(500);
/// The second of the calendar at the start.
const UNIX: u64 = 1_700_000_000;
const BUSY: Duration = Duration::from_secs(30);

/// Who sends commands, one at a time.
struct Client<'a> {
    worker: Worker,
    shared: &'a Shared,
    commands: Commands,
    out: Vec<u8>,
}

impl Client<'_> {
    /// The answer to a command.
    fn ask(&mut self, bytes: &[u8]) -> &[u8] {
        self.commands.clear();
        self.out.clear();
        let rules = &self.shared.rules;
        let parsed = wire::parse(&mut Stream::default(), rules, bytes, 9, &mut self.commands);
        assert_eq!(parsed.consumed, bytes.len());
        let (clock, store) = (self.shared.clock(Time::ZERO), &self.shared.store);
        let counters = self.shared.counters(0);
        let mut turn = Turn::new(self.worker.pin(), clock, self.shared, counters);
        let commands = &self.commands;
        for command in &commands.list {
            let hash = store.hash(command.key.of(bytes, &commands.decoded));
            turn.execute(Parsed { bytes, commands }, command, hash, &mut self.out);
        }
        &self.out
    }
}

/// That it is over, however it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does one thing, and meanwhile the other again and again, each with a client of its own.
fn two(one: impl FnOnce(&mut Client<'_>), mut other: impl FnMut(&mut Client<'_>) + Send) {
    let store = Arc::new(Store::new(StoreOptions::default()).expect("memory"));
    let start = Start::new(Time::ZERO, UNIX);
    let shared = Shared::new(Settings::default(), Arc::clone(&store), start, |_| {});
    let client = || Client {
        worker: store.worker().expect("there are four"),
        shared: &shared,
        commands: Commands::default(),
        out: Vec::new(),
    };
    let (mut first, mut second, is_over) = (client(), client(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                other(&mut second);
            }
        });
        let _over = Over(&is_over);
        one(&mut first);
    });
}

/// The last number of an answer, that is the item's value.
fn last_number(answer: &[u8]) -> Option<u64> {
    // Of a packet it is behind the head and the client's flags.
    let text = match answer {
        [0x81, ..] => answer.get(28..)?,
        line => line,
    };
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().rev();
    lines.find_map(|line| line.parse().ok())
}

/// A binary GAT of `k`, with an expiry of long ago: there are none below 0.
fn binary_gat() -> Vec<u8> {
    let mut packet = vec![0; 24];
    (packet[0], packet[1], packet[3], packet[4], packet[11]) = (0x80, 0x1d, 1, 4, 5);
    packet.extend((UNIX as u32 / 2).to_be_bytes());
    packet.push(b'k');
    packet
}

#[test]
fn what_expires_is_what_was_told_of() {
    let touching = [
        b"gat -1 k\r\n",
        &binary_gat()[..],
        b"mg k v T-1\r\n",
        b"ma k v D0 T-1\r\n",
    ];
    for command in touching {
        let (mut missed, mut told) = (Vec::new(), Vec::new());
        two(
            |client| {
                let until = Instant::now() + LONG_ENOUGH;
                for count in 1_u64.. {
                    let number = count.to_string();
                    let set = format!("set k 0 0 {}\r\n{number}\r\n", number.len());
                    client.ask(set.as_bytes());
                    if client.ask(b"get k\r\n") == b"END\r\n" {
                        missed.push(count);
                    }
                    // Long enough, but for a machine that is busy.
                    let now = Instant::now();
                    if now > until && missed.len() > 10 || now > until + BUSY {
                        break;
                    }
                }
            },
            |client| told.extend(last_number(client.ask(command))),
        );
        let name = String::from_utf8_lossy(command);
        assert!(missed.len() > 10, "{name}: both were at it");
        let lost = missed
            .iter()
            .filter(|number| told.binary_search(number).is_err());
        assert_eq!(lost.count(), 0, "{name}: of {}", missed.len());
    }
}

#[test]
fn what_is_won_is_what_is_stale_and_what_is_made_was_not_there() {
    let mut answers = [(); 2].map(|()| BTreeMap::new());
    two(
        |client| {
            let until = Instant::now() + LONG_ENOUGH;
            while Instant::now() < until {
                client.ask(b"md k I q\r\n");
                client.ask(b"ms k 1 q\r\nx\r\n");
                // Who makes it gives it an expiry of long ago, and this one none.
                assert_eq!(client.ask(b"mg new v\r\n"), b"EN\r\n");
                client.ask(b"ms new 1 q\r\nx\r\n");
                assert_eq!(client.ask(b"mg new v\r\n"), b"VA 1\r\nx\r\n");
                client.ask(b"md new q\r\n");
            }
        },
        |client| {
            let commands = [&b"mg k\r\n"[..], b"mg new N-1\r\n"];
            for (command, answers) in commands.iter().zip(&mut answers) {
                let answer = String::from_utf8_lossy(client.ask(command)).into_owned();
                *answers.entry(answer).or_insert(0) += 1;
            }
        },
    );
    // What is fresh is not won.
    let expected = [
        &["EN\r\n", "HD\r\n", "HD X W\r\n", "HD Z X\r\n"][..],
        &["HD\r\n", "HD W\r\n"],
    ];
    for (answers, expected) in answers.iter().zip(expected) {
        let is_expected = |answer: &String| expected.contains(&answer.as_str());
        assert!(answers.keys().all(is_expected), "{answers:?}");
        assert!(answers.len() > 1, "both were at it: {answers:?}");
    }
}
