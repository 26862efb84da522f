//! The binary requests, answered.

use super::operation::{Delta, Stored, Storing, Summed};
use super::packet::Head;
use super::{HashedKey, Long, Turn, stats, value};
use crate::shared::{Counter, VERSION};
use crate::store::Item;
use crate::wire::{Mode, Request, Status, Store, What};

/// A response to `request` with nothing in it.
fn head(request: &Request) -> Head {
    Head {
        opcode: request.opcode,
        opaque: request.opaque,
        ..Head::default()
    }
}

/// An error's response, which is sent even to quiet requests.
fn refuse(request: &Request, status: Status, out: &mut Vec<u8>) {
    refuse_saying(request, status, status.text(), out);
}

/// As [`refuse`], in other words.
fn refuse_saying(request: &Request, status: Status, text: &str, out: &mut Vec<u8>) {
    let head = Head {
        status: status as u16,
        value: text.len(),
        ..head(request)
    };
    head.write(out);
    out.extend_from_slice(text.as_bytes());
}

/// A success without more than a CAS id.
fn succeed(request: &Request, cas: u64, value: &[u8], out: &mut Vec<u8>) {
    if !request.quiet {
        let value_len = value.len();
        let head = Head {
            cas,
            value: value_len,
            ..head(request)
        };
        head.write(out);
        out.extend_from_slice(value);
    }
}

impl Turn<'_> {
    /// A binary request.
    pub(super) fn binary(
        &mut self,
        at: HashedKey<'_>,
        request: &Request,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) {
        match request.what {
            What::Get {
                touch,
                with_key,
                with_value,
            } => self.binary_get(at, request, touch, with_key, with_value, out),
            What::Store(store) => self.binary_store(at, request, &store, bytes, out),
            What::Delete => {
                self.shared.prefixes.deleted(at.key);
                let cas = (request.cas != 0).then_some(request.cas);
                match self.delete(at, cas) {
                    Some(true) => succeed(request, 0, b"", out),
                    Some(false) => refuse(request, Status::Exists, out),
                    None => refuse(request, Status::NotFound, out),
                }
            }
            What::Arithmetic {
                up,
                delta,
                initial,
                exptime,
            } => {
                let expires = self.clock.expiry(exptime.into());
                let delta = Delta {
                    up,
                    by: delta,
                    cas: request.cas,
                    new_cas: None,
                    expires: None,
                    initial: (exptime != u32::MAX).then_some((initial, expires)),
                };
                match self.sum(at, delta) {
                    Summed::Yes(sum) => {
                        succeed(request, sum.cas, &sum.number.to_be_bytes(), out);
                    }
                    Summed::NotFound => refuse(request, Status::NotFound, out),
                    Summed::Exists => refuse(request, Status::Exists, out),
                    Summed::NotANumber => refuse(request, Status::NotANumber, out),
                    Summed::NoMemory { is_new } => {
                        let text = match is_new {
                            true => "Out of memory allocating new item",
                            false => "Out of memory incrementing value",
                        };
                        refuse_saying(request, Status::NoMemory, text, out);
                    }
                }
            }
            What::Flush { exptime } => {
                self.flush(exptime.into());
                succeed(request, 0, b"", out);
            }
            What::Noop | What::Quit => succeed(request, 0, b"", out),
            What::Version => succeed(request, 0, VERSION.as_bytes(), out),
            What::Stat => {
                let known = stats::packets(self.shared, &self.clock, at.key, request, out);
                if !known {
                    refuse(request, Status::NotFound, out);
                }
            }
            What::Refused(status) => {
                if status == Status::TooLarge {
                    self.shared.prefixes.stored(at.key);
                    self.count(Counter::BinaryTooLarge);
                }
                refuse(request, status, out);
            }
        }
    }

    fn binary_get(
        &mut self,
        at: HashedKey<'_>,
        request: &Request,
        touch: Option<u32>,
        with_key: bool,
        with_value: bool,
        out: &mut Vec<u8>,
    ) {
        let now = self.clock.now;
        let key: &[u8] = if with_key { at.key } else { b"" };
        let tell = |item: &Item<'_>, long: &mut Long, out: &mut Vec<u8>| {
            let length = if with_value { item.value().len() } else { 0 };
            let head = Head {
                cas: item.cas(),
                extras: 4,
                key: key.len(),
                value: length,
                ..head(request)
            };
            if item.is_here() {
                out.reserve(length + key.len() + 32);
            }
            head.write(out);
            out.extend_from_slice(&item.flags().to_be_bytes());
            out.extend_from_slice(key);
            if with_value {
                value(item, long, out);
            }
        };
        let is_hit = match (self.pinned.get(at.hash, at.key, now), touch) {
            (Some(item), None) => {
                tell(&item, &mut self.long, out);
                item.access(now);
                true
            }
            (Some(_), Some(exptime)) => self.get_and_touch(at, exptime.into(), tell, out),
            (None, _) => {
                self.missed(at);
                false
            }
        };
        if is_hit || request.quiet {
        } else if with_key {
            let head = Head {
                status: Status::NotFound as u16,
                key: key.len(),
                ..head(request)
            };
            head.write(out);
            out.extend_from_slice(key);
        } else {
            refuse(request, Status::NotFound, out);
        }
        self.count_fetch(touch.is_some(), is_hit);
        self.shared.prefixes.fetched(at.key, is_hit);
    }

    fn binary_store(
        &mut self,
        at: HashedKey<'_>,
        request: &Request,
        store: &Store,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) {
        self.shared.prefixes.stored(at.key);
        match self.store(at, store, store.value.of(bytes), Storing::default()) {
            Stored::Yes { cas, .. } => succeed(request, cas, b"", out),
            Stored::Exists => refuse(request, Status::Exists, out),
            Stored::NotFound => refuse(request, Status::NotFound, out),
            Stored::NoMemory => refuse(request, Status::NoMemory, out),
            Stored::No => {
                let status = match store.mode {
                    Mode::Add => Status::Exists,
                    Mode::Replace => Status::NotFound,
                    _ => Status::NotStored,
                };
                refuse(request, status, out);
            }
        }
    }
}
