//! The commands of one turn of the loop, from all connections and datagrams of a thread.
//!
//! ```text
//!   received, datagrams --> parts: whose bytes, and where they lie
//!   run                     1. all parts parsed                      commands
//!                           2. keys hashed, buckets prefetched       \
//!                           3. items prefetched                       > some commands ahead
//!                           4. executed, in order                    /
//! ```
//!
//! The steps of a key's way are done for many keys before the next, so that their cache misses
//! overlap. What is done ahead has no effect that can be seen: commands are executed one after the
//! other, in the order in which they came, as if each were alone.
//!
//! The pool of `rhythm_cohort` has no part in it: its contexts are for cohorts that wait, for a
//! device or a backend, while others form. This one is begun, run and empty again within a turn, so
//! that one is enough; its policy is the work-conserving one, to run when it is full or when there
//! is no more input.

use crate::execute::{Parsed, Turn};
use crate::store::{Hash, Store};
use crate::wire::{self, Commands, Rules, Stream};
use rhythm_net::{ConnectionId, DatagramId};
use std::net::SocketAddr;
use std::ops::Range;

/// Bytes from which on the cohort is run at once.
const FULL_BYTES: usize = 256 * 1024;
/// Parts from which on it is.
const FULL_PARTS: usize = 1024;
/// Commands that one part has at most; what is behind them waits for the next cohort.
const PART_COMMANDS: usize = 8192;
/// How many commands are hashed, and their buckets prefetched, before one is executed.
const HASHED_AHEAD: usize = 32;
/// And how many items are.
const ITEMS_AHEAD: usize = 16;
/// The steps ahead are made for so many commands at a time.
const STRIDE: usize = 8;

/// Whose bytes they are.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A connection's.
    Connection(ConnectionId),
    /// A datagram's.
    Datagram {
        /// The socket it came to.
        socket: DatagramId,
        /// Who sent it.
        peer: SocketAddr,
        /// How the sender calls it.
        id: u16,
    },
}

/// Where bytes lie.
#[derive(Debug)]
enum Bytes {
    /// Among those of the turn.
    Turn(Range<usize>),
    /// By themselves: they came over several turns.
    Own(Vec<u8>),
}

/// What one connection or datagram brought.
#[derive(Debug)]
pub struct Part {
    /// Whose it is.
    pub source: Source,
    bytes: Bytes,
    /// Its commands.
    pub commands: Range<usize>,
    /// What the sender was in the middle of before it, and is behind it.
    pub before: Stream,
    /// As `before`, behind it.
    pub stream: Stream,
    /// How far the bytes were understood.
    pub parsed: wire::Parsed,
}

/// What one turn brought.
#[derive(Debug, Default)]
pub struct Cohort {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    commands: Commands,
    hashes: Vec<Hash>,
    /// Commands whose buckets, and whose items, are prefetched.
    hashed: usize,
    fetched: usize,
    /// The part that the first command which is not hashed belongs to, or one before it.
    hashed_part: usize,
}

impl Cohort {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it is to be run before more is added.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES || self.parts.len() >= FULL_PARTS
    }

    /// Adds bytes, which are copied.
    pub fn add(&mut self, source: Source, stream: Stream, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let range = start..self.bytes.len();
        self.push(source, stream, Bytes::Turn(range));
    }

    /// Adds bytes that lie by themselves.
    pub(crate) fn add_own(&mut self, source: Source, stream: Stream, bytes: Vec<u8>) {
        self.push(source, stream, Bytes::Own(bytes));
    }

    fn push(&mut self, source: Source, stream: Stream, bytes: Bytes) {
        self.parts.push(Part {
            source,
            bytes,
            commands: 0..0,
            before: stream,
            stream,
            parsed: wire::Parsed::default(),
        });
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// A part.
    pub fn part(&self, index: usize) -> &Part {
        &self.parts[index]
    }

    /// A part's bytes.
    pub fn bytes_of<'a>(&'a self, part: &'a Part) -> &'a [u8] {
        match &part.bytes {
            Bytes::Turn(range) => &self.bytes[range.clone()],
            Bytes::Own(bytes) => bytes,
        }
    }

    /// As many commands as one part has at most: with so many, there may be more in its bytes.
    pub(crate) fn part_commands_max(&self) -> usize {
        PART_COMMANDS
    }

    /// The commands of all parts.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Parses all parts.
    pub fn parse(&mut self, rules: &Rules) {
        for part in &mut self.parts {
            let bytes = match &part.bytes {
                Bytes::Turn(range) => &self.bytes[range.clone()],
                Bytes::Own(bytes) => bytes,
            };
            let first = self.commands.list.len();
            let most = first + PART_COMMANDS;
            part.parsed = wire::parse(&mut part.stream, rules, bytes, most, &mut self.commands);
            part.commands = first..self.commands.list.len();
        }
    }

    /// Takes the steps that come before the execution of a command, for it and those that follow.
    #[inline]
    pub fn prepare(&mut self, index: usize, store: &Store, turn: &Turn<'_>) {
        if index < self.hashed && !index.is_multiple_of(STRIDE) {
            return;
        }
        let all = self.commands.list.len();
        self.hash(all.min(index + HASHED_AHEAD), store, turn);
        if all == 1 {
            return;
        }
        let fetched = all.min(index + ITEMS_AHEAD);
        for hash in &self.hashes[self.fetched..fetched.max(self.fetched)] {
            turn.prefetch_item(*hash);
        }
        self.fetched = fetched.max(self.fetched);
    }

    /// Hashes the keys of the commands up to `until`.
    fn hash(&mut self, until: usize, store: &Store, turn: &Turn<'_>) {
        let mut hashes = std::mem::take(&mut self.hashes);
        while self.hashed < until {
            while self.parts[self.hashed_part].commands.end <= self.hashed {
                self.hashed_part += 1;
            }
            let of = &self.parts[self.hashed_part];
            let bytes = self.bytes_of(of);
            let end = of.commands.end.min(until);
            let alone = self.commands.list.len() == 1;
            for command in &self.commands.list[self.hashed..end] {
                let hash = store.hash(command.key.of(bytes, &self.commands.decoded));
                if !alone {
                    turn.prefetch(hash);
                }
                hashes.push(hash);
            }
            self.hashed = end;
        }
        self.hashes = hashes;
    }

    /// The hash of a command's key, which was prepared.
    #[inline]
    pub fn hash_of(&self, index: usize) -> Hash {
        self.hashes[index]
    }

    /// A part as it is executed.
    #[inline]
    pub fn parsed<'a>(&'a self, part: &'a Part) -> Parsed<'a> {
        Parsed {
            bytes: self.bytes_of(part),
            commands: &self.commands,
        }
    }

    /// Empties it, and keeps its memory, unless that is more than usual.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * FULL_BYTES);
        self.parts.clear();
        self.commands.clear();
        self.hashes.clear();
        (self.hashed, self.fetched, self.hashed_part) = (0, 0, 0);
    }
}
