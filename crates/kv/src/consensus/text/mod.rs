//! What clients say, and what is said to them: memcached's ASCII protocol with `mg`, `ms`, `md`,
//! `ma` and `mn`, and lines of this keyspace's own for leases and watches. Without I/O.
//!
//! ```text
//!   bytes --> next: Wanted { what is wanted of the node, how it is answered } ... Answer --> bytes
//! ```

mod answer;

pub use answer::How;

use super::keyspace::{Command, VALUE_MAX};
use super::node::{Read, Request};
use crate::wire::{
    self, Commands, Flags, Kind, Mode, Protocol, Refusal, Rules, Stream, Verb, meta,
};

/// Bytes of a command at most: a value, its line, and some of what follows.
pub const COMMAND_MAX: usize = VALUE_MAX + (64 << 10);
/// How long a lease may live without a sign of life, in seconds.
const TTL_MAX: u64 = 86_400;
/// Keys of a `get` that are taken at once, of those behind the first.
const KEYS_AT_ONCE: usize = 64;
/// The longest line of this keyspace's own.
const LINE_MAX: usize = 512;
const BAD: &str = "CLIENT_ERROR bad command line format\r\n";
const UNKNOWN: &str = "CLIENT_ERROR this keyspace has no such command\r\n";
const NO_EXPIRY: &str = "CLIENT_ERROR nothing expires here but with its lease\r\n";
const NO_FLAG: &str = "CLIENT_ERROR this keyspace has no such flag\r\n";
const NO_LEASE: &str = "CLIENT_ERROR no lease: open or attach one, or name it\r\n";

/// Something that a client wants.
#[derive(Debug)]
pub enum Wanted {
    /// Of the node; and how its answer is said.
    Node(Request, How),
    /// That is said, whatever is in the keyspace.
    Say(String),
    /// The same, in the framing of the binary protocol, which is not spoken here.
    Packet(Vec<u8>),
    /// What is stored from now on ends with no lease.
    Detach,
    /// How the node is.
    Stats,
    /// To be gone.
    Close,
}

impl Wanted {
    /// Bytes of the value in it, or of what is said.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Wanted::Node(Request::Change(Command::Store { value, .. }), _) => value.len(),
            Wanted::Say(text) => text.len(),
            Wanted::Packet(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// What may be asked before the answer to another is there: of one kind, as a read must show
    /// what was written before it. None: by itself.
    pub(super) fn kind(&self) -> Option<bool> {
        match self {
            Wanted::Node(_, How::Open | How::Attach(_) | How::Watch(_)) => None,
            Wanted::Node(Request::Read(_), _) => Some(false),
            Wanted::Node(Request::Change(_), _) => Some(true),
            _ => None,
        }
    }
}

/// What is in the midst of being taken from a connection.
#[derive(Debug)]
pub struct Parser {
    stream: Stream,
    commands: Commands,
}

impl Default for Parser {
    fn default() -> Parser {
        let protocol = Protocol::Ascii;
        Parser {
            stream: Stream {
                protocol,
                ..Stream::default()
            },
            commands: Commands::default(),
        }
    }
}

/// What parsing needs to know of the server.
pub fn rules() -> Rules {
    let mut rules = Rules::default();
    // Values are measured as memcached measures items.
    rules.item_max = rules.item_size(250, 1, VALUE_MAX as u64);
    rules
}

impl Parser {
    /// Takes the next command, or some keys of one, whose line is looked through for each so many
    /// of them; how many bytes that were, 0 if it is not whole.
    /// `lease` is the connection's.
    pub fn next(
        &mut self,
        rules: &Rules,
        bytes: &[u8],
        lease: Option<u64>,
        asked: &mut impl Extend<Wanted>,
    ) -> usize {
        let is_between = self.stream.state == wire::State::Between;
        // No line begins so. What is behind it is of the same protocol, and is not read.
        if is_between && bytes.first() == Some(&wire::MAGIC_REQUEST) {
            asked.extend([Wanted::Packet(not_binary(bytes)), Wanted::Close]);
            return bytes.len();
        }
        if is_between && let Some((line, taken)) = own_line(bytes) {
            asked.extend([own(line, lease)]);
            return taken;
        }
        self.commands.clear();
        let (bytes, most) = match self.stream.state {
            // What is behind the line may be one of this keyspace's own.
            wire::State::Keys(_) => (to_line_end(bytes), KEYS_AT_ONCE),
            // Or what is behind a value that is passed over.
            wire::State::Swallow(left) => {
                let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                (&bytes[..here], 1)
            }
            _ => (bytes, 1),
        };
        let parsed = wire::parse(&mut self.stream, rules, bytes, most, &mut self.commands);
        // A line of keys that is refused is refused before any of them is asked for.
        if let (true, wire::State::Keys(get)) = (is_between, self.stream.state) {
            let rest = to_line_end(&bytes[parsed.consumed..]);
            if let Some(said) = refused_keys(get, rest) {
                self.stream.state = wire::State::Between;
                asked.extend([Wanted::Say(said.into())]);
                return parsed.consumed + rest.len();
            }
        }
        let commands = &self.commands;
        asked.extend(commands.list.iter().map(|command| {
            let key = command.key.of(bytes, &commands.decoded).to_vec();
            one(command.kind, key, commands, bytes, lease)
        }));
        parsed.consumed
    }
}

/// What a request of the binary protocol is answered, as far as it has come: that there is no such
/// command.
fn not_binary(request: &[u8]) -> Vec<u8> {
    const UNKNOWN_COMMAND: [u8; 2] = [0, 0x81];
    const SAID: &[u8] = b"this keyspace speaks memcached's text protocol alone";
    let opcode = request.get(1).copied().unwrap_or(0);
    let opaque = request.get(12..16).unwrap_or(&[0; 4]);
    let length = (SAID.len() as u32).to_be_bytes();
    let parts: [&[u8]; 6] = [
        // No key, no extras, no type of data.
        &[wire::MAGIC_RESPONSE, opcode, 0, 0, 0, 0],
        &UNKNOWN_COMMAND,
        &length,
        opaque,
        // No CAS id.
        &[0; 8],
        SAID,
    ];
    parts.concat()
}

/// The line that these bytes begin with, and its end.
fn to_line_end(bytes: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => &bytes[..=end],
        None => bytes,
    }
}

/// Why a line of several keys is refused, if it is, by those behind the first.
fn refused_keys(get: wire::Get, rest: &[u8]) -> Option<&'static str> {
    let line = rest.strip_suffix(b"\n").unwrap_or(rest);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_too_long = |key: &[u8]| key.len() > wire::KEY_MAX;
    match get.touch {
        Some(_) => Some(UNKNOWN),
        None => line
            .split(|byte| *byte == b' ')
            .any(is_too_long)
            .then_some(BAD),
    }
}

/// The line that these bytes begin with, if it is one of this keyspace's own, and its length.
fn own_line(bytes: &[u8]) -> Option<(&str, usize)> {
    let verbs = ["lease", "attach", "detach", "keepalive", "end", "watchkeys"];
    let end = memchr::memchr(b'\n', &bytes[..bytes.len().min(LINE_MAX)])?;
    let line = str::from_utf8(&bytes[..end]).ok()?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let verb = line.split(' ').next()?;
    verbs.contains(&verb).then_some((line, end + 1))
}

fn own(line: &str, lease: Option<u64>) -> Wanted {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or_default();
    let (word, is_more) = (words.next(), words.next().is_some());
    if is_more {
        return Wanted::Say(BAD.into());
    }
    let number = word.map(str::parse::<u64>);
    let change = |command, how| Wanted::Node(Request::Change(command), how);
    match (verb, number, lease) {
        ("lease", Some(Ok(seconds @ 1..=TTL_MAX)), _) => {
            let ttl = 1000 * seconds;
            change(Command::Open { ttl }, How::Open)
        }
        ("attach", Some(Ok(lease)), _) => change(Command::Renew { lease }, How::Attach(lease)),
        ("detach", None, _) => Wanted::Detach,
        ("keepalive", Some(Ok(lease)), _) | ("keepalive", None, Some(lease)) => {
            change(Command::Renew { lease }, How::KeepAlive)
        }
        ("end", Some(Ok(lease)), _) | ("end", None, Some(lease)) => {
            let renewals = None;
            change(Command::End { lease, renewals }, How::End)
        }
        ("keepalive" | "end", None, None) => Wanted::Say(NO_LEASE.into()),
        ("watchkeys", _, _) => {
            let prefix = word.unwrap_or_default().as_bytes().to_vec();
            Wanted::Node(Request::Read(Read::Revision), How::Watch(prefix))
        }
        _ => Wanted::Say(BAD.into()),
    }
}

/// What a command of memcached's is here.
fn one(kind: Kind, key: Vec<u8>, of: &Commands, bytes: &[u8], lease: Option<u64>) -> Wanted {
    let change = |command, how| Wanted::Node(Request::Change(command), how);
    let stored = |store: wire::Store, key| Command::Store {
        mode: store.mode,
        key,
        flags: store.flags,
        value: store.value.of(bytes).to_vec(),
        cas: store.cas,
        lease,
    };
    match kind {
        Kind::Get {
            with_cas,
            touch: None,
            is_last,
            ..
        } => {
            let how = How::Get {
                key: key.clone(),
                with_cas,
                is_last,
            };
            Wanted::Node(Request::Read(Read::Item(key)), how)
        }
        Kind::Store { store, quiet } if store.exptime != 0 => say_unless(quiet, NO_EXPIRY),
        Kind::Store { store, quiet } => change(stored(store, key), How::Line { quiet }),
        Kind::Delete { quiet } => change(Command::Delete { key, cas: None }, How::Line { quiet }),
        Kind::Arithmetic { up, delta, quiet } => {
            change(Command::Arithmetic { key, up, delta }, How::Line { quiet })
        }
        Kind::Meta { verb, index } => {
            let flags = &of.meta[index as usize];
            let text: Vec<_> = meta::each(flags.text, bytes).map(<[u8]>::to_vec).collect();
            match refused(verb, flags, &text) {
                Some(said) => Wanted::Say(said.into()),
                None => of_meta(verb, flags, key, text, stored),
            }
        }
        Kind::Stats(_) => Wanted::Stats,
        Kind::Version => Wanted::Say(format!("VERSION {}\r\n", crate::shared::VERSION)),
        Kind::Say(text) => Wanted::Say(text.into()),
        Kind::Verbosity { quiet, .. } => say_unless(quiet, "OK\r\n"),
        // What was there stays: the value for it was refused.
        Kind::Drop => Wanted::Say(String::new()),
        Kind::Close => Wanted::Close,
        Kind::Touch { quiet, .. } | Kind::Flush { quiet, .. } | Kind::Memory { quiet, .. } => {
            say_unless(quiet, UNKNOWN)
        }
        // What is behind it on its line is refused, and that is said once.
        Kind::Fetch { .. } => Wanted::Say(String::new()),
        Kind::Refuse {
            why: Refusal::Flush | Refusal::FlushTime,
            quiet,
        } => say_unless(quiet, UNKNOWN),
        Kind::Refuse { why, quiet } => say_unless(quiet, why.text()),
        _ => Wanted::Say(UNKNOWN.into()),
    }
}

/// Says something, or nothing to who said `noreply`: it would be taken for the next answer.
fn say_unless(quiet: bool, text: &str) -> Wanted {
    Wanted::Say(if quiet { "" } else { text }.into())
}

/// Why a meta command is not executed, if it is not.
fn refused(verb: Verb, flags: &Flags, text: &[Vec<u8>]) -> Option<&'static str> {
    let known: &[u8] = match verb {
        Verb::Get => b"vfkOsctq",
        Verb::Set => b"FCMTkOcsq",
        Verb::Delete => b"CkOq",
        Verb::Arithmetic => b"DMvkOctq",
        Verb::Debug => return Some(UNKNOWN),
    };
    if text.iter().any(|flag| !known.contains(&flag[0])) {
        return Some(NO_FLAG);
    }
    if flags.long_opaque {
        return Some(meta::LONG_OPAQUE);
    }
    // None has that revision, and here 0 is for what has none to look at.
    let appends = (flags.store.as_ref())
        .is_some_and(|store| matches!(store.mode, Mode::Append | Mode::Prepend));
    if appends && flags.cas == Some(0) {
        return Some(BAD);
    }
    flags.exptime.is_some_and(|at| at != 0).then_some(NO_EXPIRY)
}

fn of_meta(
    verb: Verb,
    flags: &Flags,
    key: Vec<u8>,
    text: Vec<Vec<u8>>,
    stored: impl Fn(wire::Store, Vec<u8>) -> Command,
) -> Wanted {
    let how = How::Meta {
        verb,
        key: key.clone(),
        flags: text,
        length: flags.store.map_or(0, |store| store.value.len as usize),
    };
    let request = match (verb, flags.store) {
        (Verb::Get | Verb::Debug, _) => Request::Read(Read::Item(key)),
        (Verb::Set, Some(store)) => Request::Change(stored(store, key)),
        (Verb::Set, None) => return Wanted::Say(BAD.into()),
        (Verb::Delete, _) => Request::Change(Command::Delete {
            key,
            cas: flags.cas,
        }),
        (Verb::Arithmetic, _) => Request::Change(Command::Arithmetic {
            key,
            up: flags.up,
            delta: flags.delta,
        }),
    };
    Wanted::Node(request, how)
}

#[cfg(test)]
mod tests;
