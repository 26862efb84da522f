//! The classic commands of the ASCII protocol, answered.

use super::operation::{Delta, Stored, Storing, Sum, Summed};
use super::{HashedKey, Long, Turn, number, stats, value};
use crate::shared::{Counter, VERSION};
use crate::store::Item;
use crate::wire::{self, Kind};

/// What a value's line has beside key and value, at most: `VALUE`, flags, length, CAS id, line
/// ends.
const VALUE_LINE: usize = 64;

impl Turn<'_> {
    /// One key of a `get`.
    #[inline]
    pub(super) fn get(
        &mut self,
        at: HashedKey<'_>,
        with_cas: bool,
        touch: Option<i64>,
        out: &mut Vec<u8>,
    ) {
        let tell = |item: &Item<'_>, long: &mut Long, out: &mut Vec<u8>| {
            value_line(item, at.key, with_cas, long, out);
        };
        self.fetch_and_tell(at, touch, tell, out);
    }

    /// A key of a line that is refused for another: it is fetched, and nothing is told of it.
    pub(super) fn fetch(&mut self, at: HashedKey<'_>, touch: Option<i64>) {
        self.fetch_and_tell(at, touch, |_, _, _| {}, &mut Vec::new());
    }

    #[inline]
    fn fetch_and_tell(
        &mut self,
        at: HashedKey<'_>,
        touch: Option<i64>,
        tell: impl Fn(&Item<'_>, &mut Long, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let now = self.clock.now;
        let is_hit = match (self.pinned.get(at.hash, at.key, now), touch) {
            (Some(item), None) => {
                tell(&item, &mut self.long, out);
                item.access(now);
                true
            }
            (Some(_), Some(exptime)) => self.get_and_touch(at, exptime, tell, out),
            (None, _) => {
                self.missed(at);
                false
            }
        };
        self.count_fetch(touch.is_some(), is_hit);
        self.shared.prefixes.fetched(at.key, is_hit);
    }

    /// A storage command.
    pub(super) fn store_line(
        &mut self,
        at: HashedKey<'_>,
        store: &wire::Store,
        bytes: &[u8],
        quiet: bool,
        out: &mut Vec<u8>,
    ) {
        self.shared.prefixes.stored(at.key);
        let stored = self.store(at, store, store.value.of(bytes), Storing::default());
        if !quiet {
            out.extend_from_slice(match stored {
                Stored::Yes { .. } => b"STORED\r\n",
                Stored::Exists => b"EXISTS\r\n",
                Stored::NotFound => b"NOT_FOUND\r\n",
                Stored::No => b"NOT_STORED\r\n",
                Stored::NoMemory => b"SERVER_ERROR out of memory storing object\r\n",
            });
        }
    }

    /// Any other command of one line.
    pub(super) fn line(&mut self, at: HashedKey<'_>, kind: Kind, bytes: &[u8], out: &mut Vec<u8>) {
        let mut say = |quiet: bool, text: &[u8]| {
            if !quiet {
                out.extend_from_slice(text);
            }
        };
        match kind {
            Kind::Delete { quiet } => {
                self.shared.prefixes.deleted(at.key);
                match self.delete(at, None) {
                    Some(_) => say(quiet, b"DELETED\r\n"),
                    None => say(quiet, b"NOT_FOUND\r\n"),
                }
            }
            Kind::Arithmetic { up, delta, quiet } => {
                let delta = Delta {
                    up,
                    by: delta,
                    cas: 0,
                    new_cas: None,
                    expires: None,
                    initial: None,
                };
                match self.sum(at, delta) {
                    Summed::Yes(Sum { number: sum, .. }) if !quiet => {
                        number(sum, out);
                        out.extend_from_slice(b"\r\n");
                    }
                    Summed::Yes(_) => {}
                    Summed::NotFound | Summed::Exists => say(quiet, b"NOT_FOUND\r\n"),
                    Summed::NotANumber => say(quiet, NOT_A_NUMBER),
                    Summed::NoMemory { .. } => say(quiet, b"SERVER_ERROR out of memory\r\n"),
                }
            }
            Kind::Touch { exptime, quiet } => {
                let is_hit = self.touch(at, exptime);
                self.count_fetch(true, is_hit);
                match is_hit {
                    true => say(quiet, b"TOUCHED\r\n"),
                    false => say(quiet, b"NOT_FOUND\r\n"),
                }
            }
            Kind::Flush { exptime, quiet } => {
                self.flush(exptime);
                say(quiet, b"OK\r\n");
            }
            Kind::Verbosity { level, quiet } => {
                self.shared.set_verbosity(level);
                say(quiet, b"OK\r\n");
            }
            Kind::Memory { megabytes, quiet } => say(quiet, self.set_memory(megabytes)),
            Kind::Version => out.extend_from_slice(format!("VERSION {VERSION}\r\n").as_bytes()),
            Kind::Stats(about) => stats::lines(self.shared, &self.clock, about.of(bytes), out),
            Kind::Auth { accepted } => {
                self.count(Counter::AuthCmds);
                match accepted {
                    true => say(false, b"STORED\r\n"),
                    false => {
                        self.count(Counter::AuthErrors);
                        say(false, b"CLIENT_ERROR authentication failure\r\n");
                    }
                }
            }
            _ => debug_assert!(false, "executed elsewhere"),
        }
    }

    /// `cache_memlimit`.
    fn set_memory(&self, megabytes: u32) -> &'static [u8] {
        match megabytes {
            0..8 => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
            1_000_000_001.. => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
            _ if self.shared.store.set_memory((megabytes as usize) << 20) => b"OK\r\n",
            _ => b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
        }
    }
}

/// An item with its value, as `get` tells it.
#[inline]
fn value_line(item: &Item<'_>, key: &[u8], with_cas: bool, long: &mut Long, out: &mut Vec<u8>) {
    let length = item.value().len();
    if item.is_here() {
        out.reserve(VALUE_LINE + key.len() + length);
    }
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    number(item.flags().into(), out);
    out.push(b' ');
    number(length as u64, out);
    if with_cas {
        out.push(b' ');
        number(item.cas(), out);
    }
    out.extend_from_slice(b"\r\n");
    value(item, long, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) const NOT_A_NUMBER: &[u8] =
    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
