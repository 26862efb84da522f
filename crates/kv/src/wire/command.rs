//! What parsing makes: commands, of all protocols.

use super::base64;
use std::ops::Range;

/// The longest key, in bytes (memcached's `KEY_MAX_LENGTH`).
pub(crate) const KEY_MAX: usize = 250;
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
    /// A key in the bytes, of at most `KEY_MAX`.
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
    /// The CAS id that the item gets; none: the next one.
    pub new_cas: Option<u64>,
    /// Where there is nothing to append to, the value is stored, with this expiry.
    pub vivify: Option<i64>,
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
        /// The command begins with it; else it goes on with [`State::Keys`](super::State::Keys).
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
        verb: Verb,
        /// Which flags.
        index: u32,
    },
    /// A binary request: `Commands::binary[index]`.
    Binary {
        /// Which.
        index: u32,
    },
    /// A key of a line that is refused for a longer one behind it: it is fetched, and touched, but
    /// not answered.
    Fetch {
        /// The new expiry, for `gat` and `gats`.
        touch: Option<i64>,
    },
    /// A command that is answered whatever the store holds. The text has its line end.
    Say(&'static str),
    /// As [`Kind::Say`], of one that counts all the same. The key counts where prefixes do.
    Refuse {
        /// Why.
        why: Refusal,
        /// `noreply`.
        quiet: bool,
    },
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

/// Why a command is refused that `stats` tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With the value the item would be larger than one may be.
    TooLarge,
    /// The value does not end as it must.
    BadChunk,
    /// `flush_all` is not obeyed.
    Flush,
    /// The time of a `flush_all` is no number.
    FlushTime,
}

impl Refusal {
    /// What is answered.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::TooLarge => "SERVER_ERROR object too large for cache\r\n",
            Refusal::BadChunk => "CLIENT_ERROR bad data chunk\r\n",
            Refusal::Flush => "CLIENT_ERROR flush_all not allowed\r\n",
            Refusal::FlushTime => "CLIENT_ERROR invalid exptime argument\r\n",
        }
    }
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

/// Commands as they were parsed.
#[derive(Debug, Default)]
pub struct Commands {
    /// In the order of the bytes.
    pub list: Vec<Command>,
    /// The flags of the meta commands.
    pub meta: Vec<Flags>,
    /// The binary requests.
    pub binary: Vec<Request>,
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

    /// Gives back what is more than so many commands usually take.
    pub(crate) fn shrink_to(&mut self, commands: usize) {
        self.list.shrink_to(commands);
        self.meta.shrink_to(commands / 4);
        self.binary.shrink_to(commands / 4);
        self.decoded.shrink_to(8 * commands);
    }

    pub(super) fn push(&mut self, start: usize, key: Key, kind: Kind) {
        let start = start as u32;
        self.list.push(Command { start, key, kind });
    }

    pub(super) fn say(&mut self, start: usize, text: &'static str) {
        debug_assert!(text.ends_with('\n'));
        self.push(start, Key::default(), Kind::Say(text));
    }

    /// Keeps a key that came in base64.
    pub(super) fn decode(&mut self, text: &[u8]) -> Option<Key> {
        let start = self.decoded.len();
        let len = base64::decode(text, &mut self.decoded)?;
        Some(Key {
            start: start as u32,
            len: len as u8,
            is_decoded: true,
        })
    }
}

/// What the keys of a `get` line have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// `gets`, `gats`.
    pub with_cas: bool,
    /// The expiry of `gat`, `gats`.
    pub touch: Option<i64>,
}

/// The meta commands that have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `mg`
    Get,
    /// `ms`
    Set,
    /// `md`
    Delete,
    /// `ma`
    Arithmetic,
    /// `me`
    Debug,
}

impl Verb {
    pub(super) fn from_byte(byte: u8) -> Option<Verb> {
        Some(match byte {
            b'g' => Verb::Get,
            b's' => Verb::Set,
            b'd' => Verb::Delete,
            b'a' => Verb::Arithmetic,
            b'e' => Verb::Debug,
            _ => return None,
        })
    }
}

/// What the flags of a command ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flags {
    /// All of them, as they stand in the line.
    pub text: Span,
    /// `b`: the key is in base64, here and in the answer.
    pub base64: bool,
    /// `u`: neither the last access nor whether there was one changes.
    pub no_update: bool,
    /// `v`: the value is asked for.
    pub value: bool,
    /// `h`, `l`: what was before this access is told.
    pub before: bool,
    /// `q`: the usual answer is left out.
    pub quiet: bool,
    /// `I`: invalidate (`md`), or store where the CAS id is older, as stale (`ms`).
    pub stale: bool,
    /// `T`: the new expiry.
    pub exptime: Option<i32>,
    /// `N`: where nothing is, an item is made, with this expiry.
    pub vivify: Option<i32>,
    /// `R`: who finds less time left than this wins the right to recache.
    pub recache: Option<i32>,
    /// `C`: the CAS id that must be there.
    pub cas: Option<u64>,
    /// `E`: the CAS id that the item gets.
    pub new_cas: Option<u64>,
    /// `x`: the value is dropped, and the item stays.
    pub drops_value: bool,
    /// `F`: the client's flags.
    pub client_flags: u32,
    /// `M` for `ma`: up, not down.
    pub up: bool,
    /// `J`: the number to begin with.
    pub initial: u64,
    /// `D`: the number to add or take away.
    pub delta: u64,
    /// `O` is longer than an answer has room for. memcached says so when it makes the answer: what
    /// the flags before it ask for is done by then.
    pub long_opaque: bool,
    /// What `ms` stores.
    pub store: Option<Store>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Well.
    Success = 0,
    /// Nothing is under the key.
    NotFound = 1,
    /// Something is, or something else.
    Exists = 2,
    /// The item is too large.
    TooLarge = 3,
    /// The lengths in the header do not go with the opcode.
    Invalid = 4,
    /// Nothing was stored.
    NotStored = 5,
    /// `incr` or `decr` of what is no number.
    NotANumber = 6,
    /// It is not allowed.
    Auth = 0x20,
    /// No such opcode.
    UnknownCommand = 0x81,
    /// There is no room.
    NoMemory = 0x82,
}

impl Status {
    /// What an error's response says.
    pub fn text(self) -> &'static str {
        match self {
            Status::Success => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotANumber => "Non-numeric server-side value for incr or decr",
            Status::Auth => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::NoMemory => "Out of memory allocating item",
        }
    }
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// GET, GETK, GAT, GATK, TOUCH, and the quiet ones.
    Get {
        /// The new expiry.
        touch: Option<u32>,
        /// The key is told again.
        with_key: bool,
        /// The value is asked for (not by TOUCH).
        with_value: bool,
    },
    /// SET, ADD, REPLACE, APPEND, PREPEND.
    Store(Store),
    /// DELETE.
    Delete,
    /// INCREMENT, DECREMENT.
    Arithmetic {
        /// INCREMENT.
        up: bool,
        /// By how much.
        delta: u64,
        /// The number that is stored where there is none.
        initial: u64,
        /// Its expiry; `u32::MAX`: none is stored.
        exptime: u32,
    },
    /// FLUSH.
    Flush {
        /// When; 0 for now.
        exptime: u32,
    },
    /// NOOP.
    Noop,
    /// VERSION.
    Version,
    /// STAT; the key says what about.
    Stat,
    /// QUIT; [`Kind::Close`] follows.
    Quit,
    /// It is refused, whatever the store holds.
    Refused(Status),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// As it came: the response has it.
    pub opcode: u8,
    /// Only what is not usual is answered.
    pub quiet: bool,
    /// The client's, for the response.
    pub opaque: u32,
    /// The CAS id that must be there; 0 for none.
    pub cas: u64,
    /// What it wants.
    pub what: What,
}
