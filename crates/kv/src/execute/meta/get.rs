//! `mg`, answered.
//!
//! Whatever it changes of an item is decided in one step with the answer, under the item's locks:
//! no other item than the one that is told of may get its expiry, or be taken for won.

use super::{Asked, NOTHING, key, opaque};
use crate::execute::{HashedKey, Long, Turn, number, value};
use crate::store::{Change, Item, Marks, New, Touch};
use crate::wire::Flags;
use crate::wire::meta::{LONG_OPAQUE, each};

/// An item, as it is told of.
struct Seen {
    length: usize,
    flags: u32,
    cas: u64,
    last_access: u32,
    expires: u32,
    marks: Marks,
    /// It was made just now, for who asks.
    is_new: bool,
    /// Who asks wins the right to renew it.
    wins: bool,
}

impl Seen {
    fn of(item: &Item<'_>, wins: bool) -> Seen {
        Seen {
            length: item.value().len(),
            flags: item.flags(),
            cas: item.cas(),
            last_access: item.last_access(),
            expires: item.expires(),
            marks: item.marks(),
            is_new: false,
            wins,
        }
    }
}

/// What a decision came to.
enum Came {
    /// It was told of an item.
    Told,
    /// There was none, and one was made.
    Made,
    /// There was none.
    Nothing,
}

impl Asked<'_> {
    /// Whether who finds this item wins the right to renew it, which nobody has already: of a stale
    /// one who comes first; of one with little time left (`R`) as well.
    fn wins(&self, item: &Item<'_>) -> bool {
        // That the opaque is too long is said before.
        if item.is_won() || self.flags.long_opaque {
            return false;
        }
        if item.is_stale() {
            return true;
        }
        let Some(least) = self.flags.recache.map(|exptime| self.seconds(exptime)) else {
            return false;
        };
        // What counts is the time left before or after a `T`, as the flags stand.
        let mut letters = each(self.flags.text, self.bytes).map(|flag| flag[0]);
        let is_touched = letters.find(|letter| matches!(letter, b'T' | b'R')) == Some(b'T');
        let expires = match self.flags.exptime {
            Some(exptime) if is_touched => self.seconds(exptime),
            _ => item.expires(),
        };
        expires != 0 && expires < least
    }

    /// Tells of an item, up to its value; or says that the opaque is too long.
    fn tell(&self, name: &[u8], seen: &Seen, out: &mut Vec<u8>) {
        let flags = self.flags;
        if flags.long_opaque {
            return out.extend_from_slice(LONG_OPAQUE.as_bytes());
        }
        if flags.value {
            out.extend_from_slice(b"VA ");
            number(seen.length as u64, out);
        } else {
            out.extend_from_slice(b"HD");
        }
        let mut expires = seen.expires;
        for flag in each(flags.text, self.bytes) {
            match flag[0] {
                // The time left is that of before or after, as the flags stand.
                b'T' | b'N' => expires = self.expiry(flag[0], seen.is_new).unwrap_or(expires),
                b's' => {
                    out.extend_from_slice(b" s");
                    number(seen.length as u64, out);
                }
                b't' => self.time_left(expires, out),
                b'c' => {
                    out.extend_from_slice(b" c");
                    number(seen.cas, out);
                }
                b'f' => {
                    out.extend_from_slice(b" f");
                    number(seen.flags.into(), out);
                }
                b'l' => {
                    out.extend_from_slice(b" l");
                    let since = self.clock.now.saturating_sub(seen.last_access);
                    number(since.into(), out);
                }
                b'h' => out.extend_from_slice(match seen.marks.fetched {
                    true => b" h1",
                    false => b" h0",
                }),
                b'O' => opaque(flag, out),
                b'k' => key(name, seen.marks.encoded, out),
                _ => {}
            }
        }
        for (is, mark) in [
            (seen.marks.won && !seen.wins, b" Z"),
            (seen.marks.stale, b" X"),
            (seen.wins, b" W"),
        ] {
            if is {
                out.extend_from_slice(mark);
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Tells of an item, with its value if that is asked for.
    fn tell_all(
        &self,
        name: &[u8],
        item: &Item<'_>,
        wins: bool,
        long: &mut Long,
        out: &mut Vec<u8>,
    ) {
        let has_value = self.flags.value && !self.flags.long_opaque;
        if has_value && item.is_here() {
            out.reserve(item.value().len() + 256);
        }
        self.tell(name, &Seen::of(item, wins), out);
        if has_value {
            value(item, long, out);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Whether it is noted that an item was accessed. As in memcached, what needs to know of
    /// earlier accesses has its own noted last, which it does not come to with a long opaque.
    fn accesses(&self) -> bool {
        let Flags {
            exptime,
            vivify,
            recache,
            ..
        } = *self.flags;
        let is_late = exptime.or(vivify).or(recache).is_some() || self.flags.before;
        !(self.flags.no_update || self.flags.long_opaque && is_late)
    }
}

impl Turn<'_> {
    pub(super) fn meta_get(&mut self, at: HashedKey<'_>, asked: &Asked<'_>, out: &mut Vec<u8>) {
        let (flags, now) = (asked.flags, self.clock.now);
        let touches = flags.exptime.is_some();
        let is_told = match self.pinned.get(at.hash, at.key, now) {
            Some(item) if !touches && !asked.wins(&item) => {
                asked.tell_all(at.key, &item, false, &mut self.long, out);
                if asked.accesses() {
                    item.access(now);
                }
                true
            }
            None if flags.vivify.is_none() => {
                self.missed(at);
                false
            }
            _ => self.meta_get_and_change(at, asked, out),
        };
        match is_told {
            true if flags.long_opaque => {}
            true => self.count_fetch(touches, true),
            false => {
                self.count_fetch(false, false);
                if flags.long_opaque {
                    out.extend_from_slice(LONG_OPAQUE.as_bytes());
                } else if !flags.quiet {
                    out.extend_from_slice(b"EN");
                    asked.echo(at.key, out);
                }
            }
        }
    }

    /// Tells of an item, and changes of it what is asked for; or, with `N`, makes one where there
    /// is none, for who then wins to renew it. False: there is none, and nothing is told.
    fn meta_get_and_change(
        &mut self,
        at: HashedKey<'_>,
        asked: &Asked<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let (flags, now) = (asked.flags, self.clock.now);
        let new = New {
            value: NOTHING,
            flags: 0,
            expires: asked.last_expiry(true).unwrap_or(0),
            cas: flags.new_cas,
            marks: Marks {
                // Who made it wins, if that can be told.
                won: !flags.long_opaque,
                fetched: asked.accesses(),
                ..Marks::default()
            },
        };
        let (before, mut long) = (out.len(), None);
        let updated = self.update(at, |item| {
            // It may be decided again.
            out.truncate(before);
            long = None;
            match item {
                Some(item) => {
                    let wins = asked.wins(item);
                    asked.tell_all(at.key, item, wins, &mut long, out);
                    let touch = Touch {
                        expires: asked.last_expiry(false).unwrap_or(item.expires()),
                        wins,
                        fetches: asked.accesses(),
                    };
                    if wins || touch.expires != item.expires() {
                        return (Change::Touch(touch), Came::Told);
                    }
                    // Copies need not hear of it.
                    if touch.fetches {
                        item.access(now);
                    }
                    (Change::Keep, Came::Told)
                }
                None if flags.vivify.is_some() => (Change::Store(new), Came::Made),
                None => (Change::Keep, Came::Nothing),
            }
        });
        let Ok(updated) = updated else {
            // There is no room for a new one.
            return false;
        };
        self.long = long;
        match updated.outcome {
            Came::Told => {}
            Came::Made => {
                let seen = Seen {
                    length: 0,
                    flags: 0,
                    cas: updated.cas,
                    last_access: now,
                    expires: 0,
                    marks: Marks::default(),
                    is_new: true,
                    wins: true,
                };
                asked.tell(at.key, &seen, out);
                if flags.value && !flags.long_opaque {
                    out.extend_from_slice(b"\r\n");
                }
            }
            Came::Nothing => return false,
        }
        true
    }
}
