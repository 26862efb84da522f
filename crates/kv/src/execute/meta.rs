//! The meta commands, answered.

use super::ascii::NOT_A_NUMBER;
use super::operation::{Delta, Stored, Storing, Sum, Summed};
use super::{HashedKey, Turn, number, value};
use crate::shared::Counter;
use crate::store::{Change, Item, Marks, New, Value};
use crate::wire::meta::{LONG_OPAQUE, each};
use crate::wire::{Flags, Verb, base64};

/// The value of an item that is made only to be renewed.
const NOTHING: Value<'static> = Value::Bytes(b"");

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
        match verb {
            Verb::Get => self.meta_get(at, flags, bytes, out),
            Verb::Set => self.meta_set(at, flags, bytes, out),
            Verb::Delete => self.meta_delete(at, flags, bytes, out),
            Verb::Arithmetic => self.meta_arithmetic(at, flags, bytes, out),
            Verb::Debug => self.meta_debug(at, out),
        }
    }

    fn seconds(&self, exptime: i32) -> u32 {
        self.clock.expiry(exptime.into())
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

    /// Makes an item where there is none, for who then wins to renew it. Whether there was none.
    /// Its expiry comes with the answer ([`Turn::expire`]).
    fn vivify(&mut self, at: HashedKey<'_>, flags: &Flags) -> bool {
        let new = New {
            value: NOTHING,
            flags: 0,
            expires: 0,
            cas: flags.new_cas,
            // Who made it wins, if that can be told.
            marks: Marks {
                won: !flags.long_opaque,
                ..Marks::default()
            },
        };
        let updated = self.update(at, |item| match item {
            None => (Change::Store(new), true),
            Some(_) => (Change::Keep, false),
        });
        updated.is_ok_and(|updated| updated.outcome)
    }

    /// Whether a client that finds this item may renew it, if nobody does already: of a stale one
    /// who comes first; of one with little time left (`R`) as well.
    fn may_win(&self, item: &Item<'_>, flags: &Flags, bytes: &[u8]) -> bool {
        if item.is_stale() {
            return true;
        }
        let Some(least) = flags.recache.map(|exptime| self.seconds(exptime)) else {
            return false;
        };
        // What counts is the time left before or after a `T`, as the flags stand.
        let mut letters = each(flags.text, bytes).map(|flag| flag[0]);
        let is_touched = letters.find(|letter| matches!(letter, b'T' | b'R')) == Some(b'T');
        let expires = match flags.exptime {
            Some(exptime) if is_touched => self.seconds(exptime),
            _ => item.expires(),
        };
        expires != 0 && expires < least
    }

    /// Takes the right to renew an item, if nobody has it.
    fn win(&mut self, at: HashedKey<'_>) -> bool {
        let updated = self.update(at, |item| match item {
            Some(item) if !item.is_won() => (Change::Win, true),
            _ => (Change::Keep, false),
        });
        updated.is_ok_and(|updated| updated.outcome)
    }

    fn meta_get(&mut self, at: HashedKey<'_>, flags: &Flags, bytes: &[u8], out: &mut Vec<u8>) {
        let now = self.clock.now;
        let is_new = flags.vivify.is_some() && self.vivify(at, flags);
        let touches = flags.exptime.is_some();
        // As in memcached, who makes an item is told of it in any case.
        let mut found = match is_new {
            true => self.pinned.made(at.hash, at.key),
            false => self.pinned.get(at.hash, at.key, now),
        };
        if let (true, Some(item)) = (flags.long_opaque, &found) {
            // As in memcached, what needs to know of earlier accesses has its own noted last.
            let is_late = touches || flags.vivify.or(flags.recache).is_some() || flags.before;
            if !flags.no_update && !is_late {
                item.access(now);
            }
            return self.refuse_opaque(at, flags, bytes, is_new, out);
        }
        let was_won = !is_new && found.as_ref().is_some_and(Item::is_won);
        let may_win = found
            .as_ref()
            .is_some_and(|item| self.may_win(item, flags, bytes));
        let mut wins = is_new && found.is_some();
        if may_win && !was_won && !is_new {
            wins = self.win(at);
            found = self.pinned.get(at.hash, at.key, now);
        }
        let Some(item) = found else {
            self.missed(at);
            self.count_fetch(false, false);
            if flags.long_opaque {
                out.extend_from_slice(LONG_OPAQUE.as_bytes());
            } else if !flags.quiet {
                out.extend_from_slice(b"EN");
                echo(at.key, flags, bytes, out);
            }
            return;
        };
        let length = item.value().len();
        if flags.value {
            if item.is_here() {
                out.reserve(length + 256);
            }
            out.extend_from_slice(b"VA ");
            number(length as u64, out);
        } else {
            out.extend_from_slice(b"HD");
        }
        let mut expires = item.expires();
        for flag in each(flags.text, bytes) {
            match flag[0] {
                b'T' | b'N' => {
                    expires = self.flag_expiry(flag[0], flags, is_new).unwrap_or(expires)
                }
                b's' => {
                    out.extend_from_slice(b" s");
                    number(length as u64, out);
                }
                b't' => self.time_left(expires, out),
                b'c' => {
                    out.extend_from_slice(b" c");
                    number(item.cas(), out);
                }
                b'f' => {
                    out.extend_from_slice(b" f");
                    number(item.flags().into(), out);
                }
                b'l' => {
                    out.extend_from_slice(b" l");
                    number(now.saturating_sub(item.last_access()).into(), out);
                }
                b'h' => out.extend_from_slice(match item.is_fetched() {
                    true => b" h1",
                    false => b" h0",
                }),
                b'O' => opaque(flag, out),
                b'k' => key(at.key, item.is_encoded(), out),
                _ => {}
            }
        }
        // Another may have won since, which comes to the same.
        if was_won || may_win && !wins {
            out.extend_from_slice(b" Z");
        }
        if item.is_stale() {
            out.extend_from_slice(b" X");
        }
        if wins {
            out.extend_from_slice(b" W");
        }
        out.extend_from_slice(b"\r\n");
        if flags.value {
            value(&item, &mut self.long, out);
            out.extend_from_slice(b"\r\n");
        }
        if !flags.no_update {
            item.access(now);
        }
        if expires != item.expires() {
            self.expire(at, expires);
        }
        self.count_fetch(touches, true);
    }

    /// What a flag `T`, or `N` on a new item, says of the expiry.
    fn flag_expiry(&self, flag: u8, flags: &Flags, is_new: bool) -> Option<u32> {
        let exptime = match flag {
            b'T' => flags.exptime,
            _ => flags.vivify.filter(|_| is_new),
        };
        exptime.map(|exptime| self.seconds(exptime))
    }

    /// Says that the opaque is too long. What the flags before it ask for is done.
    fn refuse_opaque(
        &mut self,
        at: HashedKey<'_>,
        flags: &Flags,
        bytes: &[u8],
        is_new: bool,
        out: &mut Vec<u8>,
    ) {
        let before = each(flags.text, bytes).take_while(|flag| flag[0] != b'O');
        let expiries = before.filter_map(|flag| match flag[0] {
            b'T' | b'N' => self.flag_expiry(flag[0], flags, is_new),
            _ => None,
        });
        if let Some(expires) = expiries.last() {
            self.expire(at, expires);
        }
        out.extend_from_slice(LONG_OPAQUE.as_bytes());
    }

    /// Gives an item another expiry, which may have passed: so this comes behind the answer.
    fn expire(&mut self, at: HashedKey<'_>, expires: u32) {
        let updated = self.update(at, |_| (Change::Touch(expires), ()));
        debug_assert!(
            updated.is_ok(),
            "an item lasts longer where it lies, if need be"
        );
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

    fn meta_delete(&mut self, at: HashedKey<'_>, flags: &Flags, bytes: &[u8], out: &mut Vec<u8>) {
        let deleted = match flags.stale || flags.drops_value {
            true => self.invalidate(at, flags),
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
        echo(at.key, flags, bytes, out);
    }

    /// Marks an item as stale, drops its value, or both, instead of dropping it.
    fn invalidate(&mut self, at: HashedKey<'_>, flags: &Flags) -> Option<bool> {
        let expires = flags.exptime.map(|exptime| self.seconds(exptime));
        let updated = self.update(at, |item| match item {
            None => (Change::Keep, None),
            Some(item) if flags.cas.is_some_and(|cas| cas != item.cas()) => {
                (Change::Keep, Some(false))
            }
            Some(item) => {
                let (value, client_flags, marks) = match flags.drops_value {
                    true => (NOTHING, 0, Marks::default()),
                    false => (Value::Same, item.flags(), item.marks()),
                };
                let new = New {
                    value,
                    flags: client_flags,
                    expires: expires.unwrap_or(item.expires()),
                    cas: flags.new_cas,
                    // Whoever comes next may win.
                    marks: Marks {
                        stale: flags.stale,
                        won: false,
                        ..marks
                    },
                };
                (Change::Store(new), Some(true))
            }
        });
        // Without room to mark it, it goes: nobody may take it for fresh.
        match updated {
            Ok(updated) => {
                if updated.outcome.is_none() {
                    self.count(Counter::DeleteMisses);
                }
                updated.outcome
            }
            Err(_) => self.delete(at, None),
        }
    }

    fn meta_arithmetic(
        &mut self,
        at: HashedKey<'_>,
        flags: &Flags,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) {
        let delta = Delta {
            up: flags.up,
            by: flags.delta,
            cas: flags.cas.unwrap_or(0),
            new_cas: flags.new_cas,
            initial: flags.vivify.map(|_| (flags.initial, 0)),
        };
        let sum = match self.sum(at, delta) {
            Summed::Yes(sum) if flags.long_opaque => {
                return self.refuse_opaque(at, flags, bytes, sum.is_new, out);
            }
            Summed::Yes(sum) => sum,
            Summed::NotFound | Summed::Exists if flags.long_opaque => {
                return out.extend_from_slice(LONG_OPAQUE.as_bytes());
            }
            Summed::NotFound => {
                out.extend_from_slice(b"NF");
                return echo(at.key, flags, bytes, out);
            }
            Summed::Exists => {
                out.extend_from_slice(b"EX");
                return echo(at.key, flags, bytes, out);
            }
            Summed::NotANumber => return out.extend_from_slice(NOT_A_NUMBER),
            Summed::NoMemory { is_new } => {
                return out.extend_from_slice(match is_new {
                    true => b"SERVER_ERROR Out of memory allocating new item\r\n",
                    false => b"SERVER_ERROR out of memory\r\n",
                });
            }
        };
        // A new number is told even to who wants to hear nothing.
        let is_told = !flags.quiet || sum.is_new;
        let before = out.len();
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(sum.number);
        if flags.value {
            out.extend_from_slice(b"VA ");
            number(text.len() as u64, out);
        } else {
            out.extend_from_slice(b"HD");
        }
        let Sum { cas, is_new, .. } = sum;
        let mut expires = sum.expires;
        for flag in each(flags.text, bytes) {
            match flag[0] {
                // The time left is that of before or after, as the flags stand.
                b'T' | b'N' => {
                    expires = self.flag_expiry(flag[0], flags, is_new).unwrap_or(expires)
                }
                b't' => self.time_left(expires, out),
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
        if !is_told {
            out.truncate(before);
        }
        if expires != sum.expires {
            self.expire(at, expires);
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

/// What every answer returns if it is asked to: opaque and key. Then the line ends.
fn echo(name: &[u8], flags: &Flags, bytes: &[u8], out: &mut Vec<u8>) {
    for flag in each(flags.text, bytes) {
        match flag[0] {
            b'O' => opaque(flag, out),
            b'k' => key(name, flags.base64, out),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
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
