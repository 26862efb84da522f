//! memcached's protocols: bytes to commands, with no I/O and no store.
//!
//! ```text
//!   bytes --> parse --> Commands: Command { where it began, key, what to do }
//!               |         spans of the bytes: nothing is copied
//!               v
//!             State: what the bytes that follow belong to
//! ```
//!
//! One [`parse`] takes what there is of a connection's bytes, or a datagram's, and appends the
//! commands that are whole. A command names its key and value as [`Span`]s of those bytes. Keys
//! that came in base64 are the exception: they lie decoded in [`Commands::decoded`].
//!
//! Parsing needs nothing but the bytes and the [`Rules`] of the server, so that a cohort's commands
//! are all parsed before the first is executed. A command that can be refused without a look at the
//! store is refused here, with memcached's very words ([`Kind::Say`]).
//!
//! Where a connection's answers are more than it may have unsent, the commands that are left are
//! thrown away and their bytes parsed again later. So parsing the same bytes from the same
//! [`State`] must give the same commands.

pub mod ascii;
pub mod base64;
pub mod binary;
pub mod meta;
pub mod number;
pub mod udp;

use std::ops::Range;
use std::sync::Arc;

/// The longest key, in bytes (memcached's `KEY_MAX_LENGTH`).
pub const KEY_MAX: usize = 250;
/// What memcached keeps of an item beside key and value, in bytes. With a CAS id it is 8 more; the
/// key has a zero behind it, the value CR LF, and client flags that are not 0 take 4. It is
/// counted where an item's size is compared with the largest (`-I`).
const ITEM_HEADER: u64 = 48;
/// A line that is longer, and has not ended, is no command but a `get` (memcached's own bound).
const LINE_MAX: usize = 2048;
/// The longest line of keys that is waited for. memcached has no bound here.
const KEYS_LINE_MAX: usize = 4 << 20;

/// A part of the bytes that were parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start: u32,
    /// How long it is, in bytes.
    pub len: u32,
}

impl Span {
    /// The span of a range. Nobody parses 4 GiB at once.
    pub fn new(range: Range<usize>) -> Span {
        Span {
            start: range.start as u32,
            len: (range.end - range.start) as u32,
        }
    }

    /// Behind its last byte.
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// What it is a span of.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end()]
    }
}

/// A key: a span of the bytes, or of [`Commands::decoded`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    start: u32,
    len: u8,
    is_decoded: bool,
}

impl Key {
    /// A key in the bytes, of at most [`KEY_MAX`].
    pub fn new(span: Span) -> Key {
        debug_assert!(span.len as usize <= KEY_MAX);
        Key {
            start: span.start,
            len: span.len as u8,
            is_decoded: false,
        }
    }

    /// The key's bytes.
    #[inline]
    pub fn of<'a>(self, bytes: &'a [u8], decoded: &'a [u8]) -> &'a [u8] {
        let from = if self.is_decoded { decoded } else { bytes };
        &from[self.start as usize..][..self.len as usize]
    }
}

/// How a value is stored (memcached's `NREAD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever was there.
    Set,
    /// Only where nothing is.
    Add,
    /// Only where something is.
    Replace,
    /// Behind what is there.
    Append,
    /// In front of what is there.
    Prepend,
    /// Only where the CAS id is the one given.
    Cas,
}

/// What to store, whichever the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// When.
    pub mode: Mode,
    /// The client's flags.
    pub flags: u32,
    /// The expiry as the client said it: seconds from now, or Unix time beyond 30 days.
    pub exptime: i64,
    /// The CAS id that must be there; 0 for none.
    pub cas: u64,
    /// The value.
    pub value: Span,
}

/// What a command wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One key of an ASCII `get`, `gets`, `gat` or `gats`.
    Get {
        /// The CAS id is asked for.
        with_cas: bool,
        /// The new expiry, for `gat` and `gats`.
        touch: Option<i64>,
        /// The command begins with it; else it goes on with [`State::Keys`].
        is_first: bool,
        /// The last key of its line: `END` follows.
        is_last: bool,
    },
    /// An ASCII storage command.
    Store {
        /// What.
        store: Store,
        /// `noreply`.
        quiet: bool,
    },
    /// `delete`.
    Delete {
        /// `noreply`.
        quiet: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// `incr`.
        up: bool,
        /// By how much.
        delta: u64,
        /// `noreply`.
        quiet: bool,
    },
    /// `touch`.
    Touch {
        /// The new expiry.
        exptime: i64,
        /// `noreply`.
        quiet: bool,
    },
    /// `flush_all`.
    Flush {
        /// When; not positive for now.
        exptime: i64,
        /// `noreply`.
        quiet: bool,
    },
    /// `stats` with what it is asked about.
    Stats(Span),
    /// `verbosity`.
    Verbosity {
        /// The new one.
        level: u32,
        /// `noreply`.
        quiet: bool,
    },
    /// `cache_memlimit`.
    Memory {
        /// The new limit in MiB.
        megabytes: u32,
        /// `noreply`.
        quiet: bool,
    },
    /// `shutdown`.
    Shutdown {
        /// `shutdown graceful`.
        graceful: bool,
    },
    /// `version`.
    Version,
    /// A meta command; its flags are `Commands::meta[index]`.
    Meta {
        /// Which.
        verb: meta::Verb,
        /// Which flags.
        index: u32,
    },
    /// A binary request: `Commands::binary[index]`.
    Binary {
        /// Which.
        index: u32,
    },
    /// A command that is answered whatever the store holds. The text has its line end.
    Say(&'static str),
    /// The item of the key is dropped, since a value for it was refused; nothing is answered.
    Drop,
    /// The result of a client's authentication, which answers.
    Auth {
        /// It may go on.
        accepted: bool,
    },
    /// The connection is closed behind the answers before.
    Close,
}

/// One command, or one key of a command that names several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Command {
    /// Where its bytes began. From there they are parsed again if it is not executed now.
    pub start: u32,
    /// Of no meaning where there is none.
    pub key: Key,
    /// What it wants.
    pub kind: Kind,
}

impl Command {
    /// Whether it looks at the store by its key, so that fetching it in advance helps.
    pub fn has_key(&self) -> bool {
        self.key.len > 0
    }
}

/// Commands as they were parsed.
#[derive(Debug, Default)]
pub struct Commands {
    /// In the order of the bytes.
    pub list: Vec<Command>,
    /// The flags of the meta commands.
    pub meta: Vec<meta::Flags>,
    /// The binary requests.
    pub binary: Vec<binary::Request>,
    /// Keys that came in base64, as they are.
    pub decoded: Vec<u8>,
}

impl Commands {
    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.meta.clear();
        self.binary.clear();
        self.decoded.clear();
    }

    fn push(&mut self, start: usize, key: Key, kind: Kind) {
        let start = start as u32;
        self.list.push(Command { start, key, kind });
    }

    fn say(&mut self, start: usize, text: &'static str) {
        debug_assert!(text.ends_with('\n'));
        self.push(start, Key::default(), Kind::Say(text));
    }

    /// Keeps a key that came in base64.
    fn decode(&mut self, text: &[u8]) -> Option<Key> {
        let start = self.decoded.len();
        let len = base64::decode(text, &mut self.decoded)?;
        Some(Key {
            start: start as u32,
            len: len as u8,
            is_decoded: true,
        })
    }
}

/// A protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The first byte says which.
    #[default]
    Negotiating,
    /// Lines: the classic commands and the meta commands.
    Ascii,
    /// Packets with headers of 24 bytes.
    Binary,
}

impl Protocol {
    /// As `stats settings` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Negotiating => "auto-negotiate",
            Protocol::Ascii => "ascii",
            Protocol::Binary => "binary",
        }
    }
}

/// What a connection's next bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// A new command.
    #[default]
    Between,
    /// More keys of a line of which some were answered.
    Keys(ascii::Get),
    /// So many bytes of a value that was refused.
    Swallow(u64),
    /// Of no interest any more.
    Closed,
}

/// What a connection is in the middle of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// How it speaks.
    pub protocol: Protocol,
    /// What comes next.
    pub state: State,
    /// It must say who it is before anything else.
    pub is_stranger: bool,
}

/// Users and their passwords (`-Y`).
pub type Users = Vec<(Vec<u8>, Vec<u8>)>;

/// What the server allows, as far as parsing needs it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The largest item (`-I`), counted as memcached counts it, in bytes.
    pub item_max: u64,
    /// Items have CAS ids (not with `-C`).
    pub with_cas: bool,
    /// `flush_all` is obeyed (not with `-F`).
    pub may_flush: bool,
    /// `shutdown` is obeyed (`-A`).
    pub may_shut_down: bool,
    /// Who may come in; none: everybody.
    pub users: Arc<Users>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            item_max: 1 << 20,
            with_cas: true,
            may_flush: true,
            may_shut_down: false,
            users: Arc::default(),
        }
    }
}

impl Rules {
    /// The size that memcached would give an item, in bytes.
    pub fn item_size(&self, key: usize, flags: u32, value: u64) -> u64 {
        let cas = 8 * u64::from(self.with_cas);
        let flags = 4 * u64::from(flags != 0);
        ITEM_HEADER + cas + key as u64 + 1 + flags + value + 2
    }

    /// Whether an item is not too large.
    pub fn item_fits(&self, key: usize, flags: u32, value: u64) -> bool {
        self.item_size(key, flags, value) <= self.item_max
    }
}

/// How far a parse came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes that belong to the commands that were appended, or to none.
    pub consumed: usize,
    /// From there on, so many bytes are needed at least to get further; 0 if that is unknown.
    pub needed: usize,
}

/// Appends the commands in `bytes`, up to about `commands_max` of them.
///
/// What is left begins with a command that is not whole, or is beyond the bound.
pub fn parse(
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    commands_max: usize,
    commands: &mut Commands,
) -> Parsed {
    let mut at = 0;
    let mut needed = 0;
    while at < bytes.len() && commands.list.len() < commands_max {
        if stream.protocol == Protocol::Negotiating {
            stream.protocol = match bytes[at] {
                binary::MAGIC_REQUEST => Protocol::Binary,
                _ => Protocol::Ascii,
            };
        }
        let step = match (stream.state, stream.protocol) {
            (State::Closed, _) => Step::Done(bytes.len() - at),
            (State::Swallow(left), _) => {
                let here = left.min((bytes.len() - at) as u64);
                stream.state = match left - here {
                    0 => State::Between,
                    left => State::Swallow(left),
                };
                Step::Done(here as usize)
            }
            (_, Protocol::Binary) => binary::parse(stream, rules, bytes, at, commands),
            _ if stream.is_stranger => ascii::greet(stream, rules, bytes, at, commands),
            _ => ascii::parse(stream, rules, bytes, at, commands),
        };
        match step {
            Step::Done(taken) => at += taken,
            Step::Need(more) => {
                needed = more;
                break;
            }
        }
    }
    Parsed {
        consumed: at,
        needed,
    }
}

/// What a parser made of the bytes from one place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many bytes are dealt with.
    Done(usize),
    /// The command is not whole; so many bytes from its beginning on are needed, 0 for unknown.
    Need(usize),
}

#[cfg(test)]
mod tests;
