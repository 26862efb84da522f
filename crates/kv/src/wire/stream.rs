//! What a connection is in the middle of, and what the server allows it.

use super::command::{Command, Get, Kind};
use std::sync::Arc;

/// What memcached keeps of an item beside key and value, in bytes. With a CAS id it is 8 more; the
/// key has a zero behind it, the value CR LF, and client flags that are not 0 take 4. It is
/// counted where an item's size is compared with the largest (`-I`).
pub(crate) const ITEM_HEADER: u32 = 48;
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
    Keys(Get),
    /// So many bytes of a value that was refused.
    Swallow(u64),
    /// Of no interest any more.
    Closed,
}

impl State {
    /// What a command's bytes are to be parsed again as, if what they came in was parsed as this.
    pub(crate) fn again(self, command: &Command) -> State {
        match command.kind {
            Kind::Get {
                with_cas,
                touch,
                is_first: false,
                ..
            } => State::Keys(Get { with_cas, touch }),
            // A mistake in keys that are gone on with is still one of their line.
            _ if command.start == 0 => self,
            _ => State::Between,
        }
    }
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
    /// It is a datagram: nothing comes behind its bytes.
    pub is_datagram: bool,
}

impl Stream {
    /// A datagram's.
    pub(crate) fn of_datagram() -> Stream {
        Stream {
            is_datagram: true,
            ..Stream::default()
        }
    }
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
    pub(crate) fn item_size(&self, key: usize, flags: u32, value: u64) -> u64 {
        let cas = 8 * u64::from(self.with_cas);
        let flags = 4 * u64::from(flags != 0);
        u64::from(ITEM_HEADER) + cas + key as u64 + 1 + flags + value + 2
    }

    /// Whether an item is not too large.
    pub(crate) fn item_fits(&self, key: usize, flags: u32, value: u64) -> bool {
        self.item_size(key, flags, value) <= self.item_max
    }
}

/// How far a parse came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes that belong to the commands that were appended, or to none.
    pub consumed: usize,
    /// From there on, so many bytes are needed at least to get further.
    pub needed: usize,
    /// Or a line's end, before that.
    pub or_line: bool,
}

/// What a parser made of the bytes from one place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes are dealt with.
    Done(usize),
    /// The command is not whole; so many bytes from its beginning on are needed.
    Need(usize),
    /// Its line is not whole: its end is needed, or so many bytes.
    NeedLine(usize),
}
