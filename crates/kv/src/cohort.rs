//! The commands of one turn of the loop, from all connections and datagrams of a thread.
//!
//! ```text
//!   received, datagrams --> parts: whose bytes, and where they lie
//!   run                     1. parts parsed, a batch of them         commands
//!                           2. keys hashed, buckets prefetched       \
//!                           3. items prefetched                       > some commands ahead
//!                           4. executed, in order                    /
//!                           5. the next batch
//! ```
//!
//! Memory is bounded in bytes and in commands, since a byte of input may be a command, which takes
//! a hundred. So parts are added up to so many bytes, and parsed up to so many commands at a time;
//! all have their turn before one has another.
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
use crate::input::Input;
use crate::store::{Hash, Store};
use crate::wire::{self, Commands, Rules, Stream};
use rhythm_net::{ConnectionId, DatagramId};
use std::net::SocketAddr;
use std::ops::Range;

/// Bytes from which on the cohort is run at once.
const FULL_BYTES: usize = 256 * 1024;
/// Parts from which on it is.
const FULL_PARTS: usize = 1024;
/// Commands from which on a batch is executed.
const BATCH_COMMANDS: usize = 4096;
/// Commands of a connection's part at most; what is behind them waits for the next cohort. (A
/// datagram's cannot wait: of so many requests all keys are taken, and what is behind them is left
/// out.)
pub const PART_COMMANDS: usize = 4096;
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
    Own(Input),
}

/// What one connection or datagram brought.
#[derive(Debug)]
pub struct Part {
    /// Whose it is.
    pub source: Source,
    bytes: Bytes,
    /// As many commands as it has at most: with so many, there may be more in its bytes.
    pub commands_max: usize,
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
    /// How many bytes there are, with those that lie by themselves.
    length: usize,
    parts: Vec<Part>,
    /// The first part that is not parsed.
    unparsed: usize,
    /// The commands of the batch, and the hashes of their keys.
    commands: Commands,
    hashes: Vec<Hash>,
    /// Commands whose buckets, and whose items, are prefetched, or that are passed over.
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
        self.length >= FULL_BYTES || self.parts.len() >= FULL_PARTS
    }

    /// Adds bytes, which are copied, of which so many commands are taken at most.
    pub fn add(&mut self, source: Source, stream: Stream, commands_max: usize, bytes: &[u8]) {
        let start = self.bytes.len();
        self.length += bytes.len();
        self.bytes.extend_from_slice(bytes);
        let range = start..self.bytes.len();
        self.push(source, stream, commands_max, Bytes::Turn(range));
    }

    /// Adds bytes that lie by themselves.
    pub(crate) fn add_own(
        &mut self,
        source: Source,
        stream: Stream,
        commands_max: usize,
        bytes: Input,
    ) {
        self.length += bytes.len();
        self.push(source, stream, commands_max, Bytes::Own(bytes));
    }

    fn push(&mut self, source: Source, stream: Stream, commands_max: usize, bytes: Bytes) {
        self.parts.push(Part {
            source,
            bytes,
            commands_max,
            commands: 0..0,
            before: stream,
            stream,
            parsed: wire::Parsed::default(),
        });
    }

    /// A part.
    pub fn part(&self, index: usize) -> &Part {
        &self.parts[index]
    }

    /// A part's bytes.
    pub fn bytes_of<'a>(&'a self, part: &'a Part) -> &'a [u8] {
        match &part.bytes {
            Bytes::Turn(range) => &self.bytes[range.clone()],
            Bytes::Own(bytes) => bytes.rest(),
        }
    }

    /// Whether a part can be left in front of its command `at`. The commands that one request
    /// became are executed together: where they began it is parsed, and answered, again.
    pub(crate) fn can_leave(&self, index: usize, at: usize) -> bool {
        let list = &self.commands.list;
        at == self.parts[index].commands.start || list[at - 1].start != list[at].start
    }

    /// Takes what of a part's bytes is behind so many, so that nothing of the part is left. `None`
    /// where there is no memory for it.
    pub(crate) fn leave(&mut self, index: usize, done: usize) -> Option<Input> {
        match &mut self.parts[index].bytes {
            Bytes::Turn(range) => {
                let mut rest = Input::default();
                let is_there = rest.append(&self.bytes[range.clone()][done..], 0);
                is_there.then_some(rest)
            }
            Bytes::Own(bytes) => {
                let mut rest = std::mem::take(bytes);
                rest.take(done);
                Some(rest)
            }
        }
    }

    /// Takes the last of the parts that are not parsed yet out again, with its bytes.
    pub(crate) fn take_back(&mut self) -> Option<(Source, Input)> {
        let index = self.parts.len().checked_sub(1)?;
        if index < self.unparsed {
            return None;
        }
        let input = self.leave(index, 0)?;
        let part = self.parts.pop()?;
        Some((part.source, input))
    }

    /// The commands of the batch.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Forgets the commands of the batch that was executed, and parses the parts of the next one:
    /// these. There are none when all had their turn.
    pub fn parse(&mut self, rules: &Rules) -> Range<usize> {
        self.commands.clear();
        self.hashes.clear();
        (self.hashed, self.fetched, self.hashed_part) = (0, 0, self.unparsed);
        for part in &mut self.parts[self.unparsed..] {
            if self.commands.list.len() >= BATCH_COMMANDS {
                break;
            }
            let bytes = match &part.bytes {
                Bytes::Turn(range) => &self.bytes[range.clone()],
                Bytes::Own(bytes) => bytes.rest(),
            };
            let first = self.commands.list.len();
            let (stream, commands) = (&mut part.stream, &mut self.commands);
            part.parsed = match part.source {
                Source::Connection(_) => {
                    wire::parse(stream, rules, bytes, first + part.commands_max, commands)
                }
                Source::Datagram { .. } => {
                    wire::parse_datagram(stream, rules, bytes, part.commands_max, commands)
                }
            };
            part.commands = first..self.commands.list.len();
            self.unparsed += 1;
        }
        self.hashed_part..self.unparsed
    }

    /// Takes the steps that come before the execution of a command, for it and those that follow.
    #[inline]
    pub fn prepare(&mut self, index: usize, store: &Store, turn: &Turn<'_>) {
        if index < self.hashed && !index.is_multiple_of(STRIDE) {
            return;
        }
        self.pass_over(index);
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

    /// Commands before this one are not executed any more. What was not hashed of them never is:
    /// their part may be left, and its bytes with it.
    fn pass_over(&mut self, index: usize) {
        if self.hashed < index {
            self.hashes.resize(index, Hash::NONE);
            (self.hashed, self.fetched) = (index, index);
        }
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
        self.length = 0;
        self.parts.clear();
        self.unparsed = 0;
        self.commands.clear();
        self.commands.shrink_to(BATCH_COMMANDS);
        self.hashes.clear();
        self.hashes.shrink_to(BATCH_COMMANDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{Settings, Shared, Start};
    use crate::store::StoreOptions;
    use rhythm_net::Time;
    use std::sync::Arc;

    /// Has each input in two parts, prepares one command of each, and leaves the others.
    fn leave_most_of(inputs: &[Vec<u8>]) {
        let store = Arc::new(Store::new(StoreOptions::default()).expect("memory"));
        let settings = Settings::default();
        let start = Start::new(Time::ZERO, 0);
        let shared = Shared::new(settings, Arc::clone(&store), start, |_| {});
        let mut worker = store.worker().expect("the first");
        let clock = shared.clock(Time::ZERO);
        let turn = Turn::new(worker.pin(), clock, &shared, shared.counters(0));
        let mut cohort = Cohort::default();
        let mut add = |bytes: &Vec<u8>, is_own: bool| {
            let source = Source::Connection(ConnectionId::new(0, 0));
            let mut input = Input::default();
            assert!(input.append(bytes, 0));
            match is_own {
                true => cohort.add_own(source, Stream::default(), PART_COMMANDS, input),
                false => cohort.add(source, Stream::default(), PART_COMMANDS, bytes),
            }
        };
        for input in inputs {
            add(input, true);
            add(input, false);
        }
        let all = cohort.parse(&Rules::default());
        assert_eq!(all, 0..2 * inputs.len(), "one batch");
        for index in all {
            let commands = cohort.part(index).commands.clone();
            let (first, second) = (commands.start, commands.start + 1);
            cohort.prepare(first, &store, &turn);
            let bytes = &inputs[index / 2];
            let [command, next] = [first, second].map(|at| cohort.commands().list[at]);
            let key = command.key.of(bytes, &cohort.commands().decoded);
            assert_eq!(cohort.hash_of(first), store.hash(key), "part {index}");
            let rest = cohort.leave(index, next.start as usize).expect("memory");
            assert_eq!(rest.rest(), &bytes[next.start as usize..]);
        }
    }

    #[test]
    fn parts_are_left_before_all_of_their_commands_are_hashed() {
        let many = 3 * HASHED_AHEAD;
        let keys: Vec<String> = (0..many).map(|key| format!("key{key}")).collect();
        let each = |line: &dyn Fn(&str) -> Vec<u8>| -> Vec<u8> {
            keys.iter().flat_map(|key| line(key)).collect()
        };
        let binary = |key: &str| {
            let len = key.len() as u8;
            let mut packet = [0; 24];
            (packet[0], packet[3], packet[11]) = (0x80, len, len);
            [&packet[..], key.as_bytes()].concat()
        };
        leave_most_of(&[
            each(&|key| format!("get {key}\r\n").into()),
            format!("gets {}\r\n", keys.join(" ")).into(),
            each(&|key| format!("set {key} 0 0 1 noreply\r\nx\r\n").into()),
            each(&|key| format!("mg {key} v q\r\n").into()),
            each(&|key| format!("md {} b q\r\n", &key.repeat(4)[..4]).into()),
            each(&binary),
        ]);
    }

    #[test]
    fn what_one_request_became_stays_together() {
        let packet = |opcode| {
            let mut packet = [0; 24];
            (packet[0], packet[1]) = (0x80, opcode);
            packet
        };
        let (noop, quit) = (packet(0x0a), packet(0x07));
        let mut cohort = Cohort::default();
        for _ in 0..2 {
            let source = Source::Connection(ConnectionId::new(0, 0));
            let packets = [noop, noop, quit].concat();
            cohort.add(source, Stream::default(), PART_COMMANDS, &packets);
        }
        for index in cohort.parse(&Rules::default()) {
            let commands = cohort.part(index).commands.clone();
            let can: Vec<_> = commands.map(|at| cohort.can_leave(index, at)).collect();
            // The last one closes the connection, behind the answer to what asked for that.
            assert_eq!(can, [true, true, true, false]);
        }
    }
}
