//! The meta commands, answered.

mod get;

use super::ascii::NOT_A_NUMBER;
use super::operation::{Delta, Stored, Storing, Sum, Summed};
use super::{HashedKey, Turn, number};
use crate::shared::{Clock, Counter};
use crate::store::{Change, Item, Marks, New, Value};
use crate::wire::meta::{LONG_OPAQUE, each};
use crate::wire::{Flags, Verb, base64};

/// The value of an item that is made only to be renewed.
const NOTHING: Value<'static> = Value::Bytes(b"");

/// The flags of a command, and what they mean when it is executed.
struct Asked<'a> {
    flags: &'a Flags,
    /// What they stand in.
    bytes: &'a [u8],
    clock: Clock,
}

impl Asked<'_> {
    fn seconds(&self, exptime: i32) -> u32 {
        self.clock.expiry(exptime.into())
    }

    /// What a flag `T`, or `N` on a new item, says of the expiry.
    fn expiry(&self, flag: u8, is_new: bool) -> Option<u32> {
        let exptime = match flag {
            b'T' => self.flags.exptime,
            b'N' => self.flags.vivify.filter(|_| is_new),
            _ => None,
        };
        exptime.map(|exptime| self.seconds(exptime))
    }

    /// The expiry that an item has in the end, if the flags say something of it. Those behind an
    /// opaque that is too long do not count: memcached comes no further.
    fn last_expiry(&self, is_new: bool) -> Option<u32> {
        each(self.flags.text, self.bytes)
            .take_while(|flag| !(self.flags.long_opaque && flag[0] == b'O'))
            .filter_map(|flag| self.expiry(flag[0], is_new))
            .last()
    }

    /// How many seconds an item has left; -1 for one that does not expire.
    fn time_left(&self, expires: u32, out: &mut Vec<u8>) {
        match expires {
            0 => out.extend_from_slice(b" t-1"),
            _ => {
                out.extend_from_slice(b" t");
                number(expires.wrapping_sub(self.clock.now).into(), out);
            }
        }
    }

    /// What every answer returns if it is asked to: opaque and key. Then the line ends.
    fn echo(&self, name: &[u8], out: &mut Vec<u8>) {
        for flag in each(self.flags.text, self.bytes) {
            match flag[0] {
                b'O' => opaque(flag, out),
                b'k' => key(name, self.flags.base64, out),
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Turn<'_> {
    /// A meta command.
    pub(super) fn meta(
        &mut self,
        at: HashedKey<'_>,
        verb: Verb,
        flags: &Flags,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) {
        let asked = Asked {
            flags,
            bytes,
            clock: self.clock,
        };
        match verb {
            Verb::Get => self.meta_get(at, &asked, out),
            Verb::Set => self.meta_set(at, flags, bytes, out),
            Verb::Delete => self.meta_delete(at, &asked, out),
            Verb::Arithmetic => self.meta_arithmetic(at, &asked, out),
            Verb::Debug => self.meta_debug(at, out),
        }
    }

    fn meta_set(&mut self, at: HashedKey<'_>, flags: &Flags, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(store) = &flags.store else {
            return debug_assert!(false, "an ms has what it stores");
        };
        let (mut cas, mut length) = (0, store.value.len as usize);
        let how = Storing {
            takes_stale: flags.stale,
            is_encoded: flags.base64,
            drops_old: true,
        };
        let status: &[u8] = match self.store(at, store, store.value.of(bytes), how) {
            Stored::Yes {
                cas: new,
                length: stored,
            } => {
                if flags.quiet {
                    return;
                }
                (cas, length) = (new, stored);
                b"HD"
            }
            Stored::Exists => b"EX",
            Stored::NotFound => b"NF",
            Stored::No => b"NS",
            Stored::NoMemory => {
                return out.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
            }
        };
        out.extend_from_slice(status);
        for flag in each(flags.text, bytes) {
            match flag[0] {
                b'O' => opaque(flag, out),
                b'k' => key(at.key, flags.base64, out),
                b'c' => {
                    out.extend_from_slice(b" c");
                    number(cas, out);
                }
                b's' => {
                    out.extend_from_slice(b" s");
                    number(length as u64, out);
                }
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    fn meta_delete(&mut self, at: HashedKey<'_>, asked: &Asked<'_>, out: &mut Vec<u8>) {
        let flags = asked.flags;
        let deleted = match flags.stale || flags.drops_value {
            true => self.invalidate(at, asked),
            false => self.delete(at, flags.cas),
        };
        let status: &[u8] = match deleted {
            Some(true) if flags.quiet => return,
            Some(true) => b"HD",
            Some(false) => {
                self.count(Counter::DeleteMisses);
                b"EX"
            }
            None => b"NF",
        };
        out.extend_from_slice(status);
        asked.echo(at.key, out);
    }

    /// Marks an item as stale, drops its value, or both, instead of dropping it.
    fn invalidate(&mut self, at: HashedKey<'_>, asked: &Asked<'_>) -> Option<bool> {
        let flags = asked.flags;
        let expires = flags.exptime.map(|exptime| asked.seconds(exptime));
        let updated = self.update(at, |item| match item {
            None => (Change::Keep, None),
            Some(item) if flags.cas.is_some_and(|cas| cas != item.cas()) => {
                (Change::Keep, Some(false))
            }
            // As memcached has it, an item in the place of the one there, with nothing of it but
            // its CAS id where none is asked for.
            Some(item) if flags.drops_value => {
                let new = New {
                    value: NOTHING,
                    flags: flags.client_flags,
                    expires: expires.unwrap_or(0),
                    cas: flags.new_cas.or((!flags.stale).then_some(item.cas())),
                    marks: Marks {
                        stale: flags.stale,
                        ..Marks::default()
                    },
                };
                (Change::Store(new), Some(true))
            }
            Some(item) => {
                let new = New {
                    value: Value::Same,
                    flags: item.flags(),
                    expires: expires.unwrap_or(item.expires()),
                    cas: flags.new_cas,
                    // Whoever comes next may win.
                    marks: Marks {
                        stale: true,
                        won: false,
                        ..item.marks()
                    },
                };
                (Change::Store(new), Some(true))
            }
        });
        let Ok(updated) = updated else {
            // Without room to mark it, it goes: nobody may take it for fresh.
            return self.delete(at, flags.cas);
        };
        match updated.outcome {
            None => self.count(Counter::DeleteMisses),
            Some(true) if !flags.stale => self.count(Counter::DeleteHits),
            Some(_) => {}
        }
        updated.outcome
    }

    fn meta_arithmetic(&mut self, at: HashedKey<'_>, asked: &Asked<'_>, out: &mut Vec<u8>) {
        let flags = asked.flags;
        let of_new = || (flags.initial, asked.last_expiry(true).unwrap_or(0));
        let delta = Delta {
            up: flags.up,
            by: flags.delta,
            cas: flags.cas.unwrap_or(0),
            new_cas: flags.new_cas,
            expires: asked.last_expiry(false),
            initial: flags.vivify.map(|_| of_new()),
        };
        let sum = match self.sum(at, delta) {
            Summed::Yes(_) | Summed::NotFound | Summed::Exists if flags.long_opaque => {
                return out.extend_from_slice(LONG_OPAQUE.as_bytes());
            }
            Summed::Yes(_) if flags.quiet => return,
            Summed::Yes(sum) => sum,
            Summed::NotFound => {
                out.extend_from_slice(b"NF");
                return asked.echo(at.key, out);
            }
            Summed::Exists => {
                out.extend_from_slice(b"EX");
                return asked.echo(at.key, out);
            }
            Summed::NotANumber => return out.extend_from_slice(NOT_A_NUMBER),
            Summed::NoMemory { is_new } => {
                return out.extend_from_slice(match is_new {
                    true => b"SERVER_ERROR Out of memory allocating new item\r\n",
                    false => b"SERVER_ERROR out of memory\r\n",
                });
            }
        };
        let Sum {
            cas,
            is_new,
            expired: mut expires,
            ..
        } = sum;
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(sum.number);
        if flags.value {
            out.extend_from_slice(b"VA ");
            number(text.len() as u64, out);
        } else {
            out.extend_from_slice(b"HD");
        }
        for flag in each(flags.text, asked.bytes) {
            match flag[0] {
                // The time left is that of before or after, as the flags stand.
                b'T' | b'N' => expires = asked.expiry(flag[0], is_new).unwrap_or(expires),
                b't' => asked.time_left(expires, out),
                b'c' => {
                    out.extend_from_slice(b" c");
                    number(cas, out);
                }
                b'O' => opaque(flag, out),
                b'k' => key(at.key, flags.base64, out),
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
        if flags.value {
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }

    fn meta_debug(&mut self, at: HashedKey<'_>, out: &mut Vec<u8>) {
        self.count(Counter::CmdMeta);
        let now = self.clock.now;
        let Some(item) = self.pinned.get(at.hash, at.key, now) else {
            return out.extend_from_slice(b"EN\r\n");
        };
        out.extend_from_slice(b"ME ");
        match item.is_encoded() {
            true => base64::encode(at.key, out),
            false => out.extend_from_slice(at.key),
        }
        let size = self.size_of(&item, at.key);
        let line = format!(
            " exp={} la={} cas={} fetch={} cls={} size={size}\r\n",
            match item.expires() {
                0 => -1,
                // Counted towards the expiry, as memcached does here.
                expires => now.wrapping_sub(expires) as i32,
            },
            now.saturating_sub(item.last_access()),
            item.cas(),
            if item.is_fetched() { "yes" } else { "no" },
            self.shared.settings.slab_class(size),
        );
        out.extend_from_slice(line.as_bytes());
    }

    /// The size that memcached would give an item, in bytes.
    fn size_of(&self, item: &Item<'_>, key: &[u8]) -> u64 {
        let value = item.value().len() as u64;
        self.shared.rules.item_size(key.len(), item.flags(), value)
    }
}

fn opaque(flag: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(flag);
}

fn key(key: &[u8], is_encoded: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b" k");
    if is_encoded {
        base64::encode(key, out);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}
