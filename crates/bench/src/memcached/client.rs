//! A client's way to a node: its connection or datagram socket, and its requests under way there.

use super::binary;
use super::items::Items;
use super::options::Words;
use super::versions::{OLDER, Versions};
use rhythm_net::{ConnectionId, Outgoing, Time};
use std::collections::VecDeque;
use std::io::Write;

/// Bytes of requests that keep their buffer.
const OUT_KEPT: usize = 64 * 1024;
/// Before the commands of a datagram and before each part of an answer: the request's number, which
/// part this is, how many there are, and two bytes of zero.
pub(super) const FRAME: usize = 8;

/// A request that is under way.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What it is called in datagrams.
    pub(super) id: u16,
    /// A write of its only key; else it asks for them all.
    pub(super) is_write: bool,
    /// The keys with the oldest version that each may have.
    pub(super) keys: Vec<(u32, u32)>,
    /// How many of the keys were answered, or passed over.
    pub(super) answered: usize,
    /// Of these, those that had a value.
    pub(super) hits: usize,
    /// Of those passed over, the ones whose values were acknowledged.
    pub(super) gone: Vec<u32>,
    /// The server did not do it, or not all of it.
    pub(super) is_refused: bool,
    /// Sent, or due in open loop.
    pub(super) started: Time,
    /// Sent; what the time-out counts from.
    pub(super) sent: Time,
    /// By datagrams: what came of the answer and is not whole.
    pub(super) input: Vec<u8>,
    /// By datagrams: the part that comes next, and how many the answer has.
    pub(super) part: (u16, u16),
}

impl Asked {
    /// So many more of its keys are not there.
    pub(super) fn pass_over(&mut self, count: usize) {
        let keys = &self.keys[self.answered..][..count];
        let stored = keys.iter().filter(|(_, oldest)| *oldest > 0);
        self.gone.extend(stored.map(|(key, _)| *key));
        self.answered += count;
    }
}

/// A client's way to a node. Where there is no ring, it is all that the client has.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: Option<ConnectionId>,
    pub(super) is_connected: bool,
    /// When to connect again after a failure.
    pub(super) retry_at: Option<Time>,
    /// What the connection's socket has not taken yet.
    pub(super) out: Outgoing,
    /// What came and is not whole.
    pub(super) input: Vec<u8>,
    pub(super) pending: VecDeque<Asked>,
    pub(super) next_id: u16,
    pub(super) is_done: bool,
}

impl Client {
    pub(super) fn new() -> Client {
        Client {
            connection: None,
            is_connected: false,
            retry_at: None,
            out: Outgoing::keeping(OUT_KEPT),
            input: Vec::new(),
            pending: VecDeque::new(),
            next_id: 0,
            is_done: false,
        }
    }

    /// Forgets the connection, and what was under way on it.
    pub(super) fn disconnected(&mut self) -> Option<ConnectionId> {
        self.is_connected = false;
        self.out.clear();
        self.input.clear();
        self.connection.take()
    }
}

/// Appends a request to `out`: commands in these words, behind a frame if they go by datagram.
pub(super) fn write_request(
    words: Words,
    asked: &Asked,
    version: u32,
    items: &Items,
    udp: bool,
    out: &mut Vec<u8>,
) {
    if udp {
        out.extend_from_slice(&asked.id.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
    }
    if words == Words::Binary {
        return match asked.is_write {
            true => binary::write_set(asked.keys[0].0, version, items, out),
            false => binary::write_get(asked.keys.iter().map(|(key, _)| *key), items, out),
        };
    }
    if asked.is_write {
        return write_set(words, asked.keys[0].0, version, items, out);
    }
    let many = asked.keys.len() > 1;
    if words == Words::Ascii {
        out.extend_from_slice(b"get");
    }
    for (key, _) in &asked.keys {
        match words {
            Words::Ascii => {
                out.push(b' ');
                items.write_key(*key, out);
            }
            _ => {
                out.extend_from_slice(b"mg ");
                items.write_key(*key, out);
                out.extend_from_slice(if many { b" k v q\r\n" } else { b" k v\r\n" });
            }
        }
    }
    match words {
        Words::Ascii => out.extend_from_slice(b"\r\n"),
        _ if many => out.extend_from_slice(b"mn\r\n"),
        _ => {}
    }
}

fn write_set(words: Words, key: u32, version: u32, items: &Items, out: &mut Vec<u8>) {
    out.extend_from_slice(match words {
        Words::Ascii => b"set ",
        _ => b"ms ",
    });
    items.write_key(key, out);
    let flags = match words {
        Words::Ascii => " 0 0",
        _ => "",
    };
    // Writing to memory does not fail.
    let _ = write!(out, "{flags} {}\r\n", items.value_bytes(key));
    items.write_value(key, version, out);
    out.extend_from_slice(b"\r\n");
}

/// What is wrong with a value that came for a request, if anything: `Ok` says that it is one of the
/// keys still to be answered, and passes over those before it, which were missing.
pub(super) fn judge(
    asked: &mut Asked,
    key: &[u8],
    value: &[u8],
    items: &Items,
    versions: &Versions,
    validates: bool,
) -> Result<(), &'static str> {
    let number = items.number(key);
    let rest = &asked.keys[asked.answered..];
    let Some(at) = rest.iter().position(|(asked, _)| Some(*asked) == number) else {
        return Err("a key that was not asked for, or is answered already");
    };
    let (key, oldest) = rest[at];
    asked.pass_over(at);
    asked.answered += 1;
    asked.hits += 1;
    if !validates {
        return Ok(());
    }
    match items.version(key, value)? {
        version if version < oldest => Err(OLDER),
        version if version > versions.newest(key) => Err("a version that nobody has written yet"),
        _ => Ok(()),
    }
}
