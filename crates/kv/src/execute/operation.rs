//! What commands of all protocols have in common: memcached's `do_store_item`, `do_add_delta` and
//! the like, as decisions over what a key has.

use super::{HashedKey, Long, Turn};
use crate::shared::{CHUNK_MAX, Counter};
use crate::store::{Change, Item, Marks, New, NotStored, Touch, Updated, Value};
use crate::wire::{self, Mode, Rules, number};

/// What became of a value to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is stored.
    Yes {
        /// Under this CAS id.
        cas: u64,
        /// The length of the item's value, in bytes.
        length: usize,
    },
    /// The CAS id was another.
    Exists,
    /// There was no item, and a CAS id was asked for.
    NotFound,
    /// There was an item, or none, where it had to be the other way.
    No,
    /// There is no room for it.
    NoMemory,
}

/// What became of a number to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summed {
    /// It was.
    Yes(Sum),
    /// There was no item.
    NotFound,
    /// The item is no number.
    NotANumber,
    /// The CAS id was another.
    Exists,
    /// There is no room for it.
    NoMemory {
        /// There was no item.
        is_new: bool,
    },
}

/// A number that was changed or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// What it is now.
    pub(super) number: u64,
    /// Its CAS id now.
    pub(super) cas: u64,
    /// When it expired until now; 0 for a new one.
    pub(super) expired: u32,
    /// It is new.
    pub(super) is_new: bool,
}

/// How a number is to be changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) up: bool,
    pub(super) by: u64,
    /// The CAS id that must be there; 0 for none.
    pub(super) cas: u64,
    /// The CAS id that the item gets; none: the next one.
    pub(super) new_cas: Option<u64>,
    /// Where there is an item: its new expiry.
    pub(super) expires: Option<u32>,
    /// Where there is none: a new one's number and expiry.
    pub(super) initial: Option<(u64, u32)>,
}

/// How a value is to be stored, beside what all protocols say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Storing {
    /// One that comes with an older CAS id than the item's is stored, marked as stale.
    pub(super) takes_stale: bool,
    /// Its key came in base64.
    pub(super) is_encoded: bool,
    /// Where there is no room for it, the item that is there goes, whatever the mode.
    pub(super) drops_old: bool,
}

/// The decision about a value to be stored.
fn decide<'a>(
    rules: &Rules,
    store: &wire::Store,
    new: New<'a>,
    takes_stale: bool,
    key: usize,
    item: Option<&Item<'_>>,
) -> (Change<'a>, Stored) {
    let put = |new, length| (Change::Store(new), Stored::Yes { cas: 0, length });
    let Value::Bytes(bytes) = new.value else {
        unreachable!("a value comes as bytes")
    };
    let keep = |stored| (Change::Keep, stored);
    match (store.mode, item) {
        (Mode::Set | Mode::Add, None) | (Mode::Set | Mode::Replace, Some(_)) => {
            put(new, bytes.len())
        }
        (Mode::Cas, None) => keep(Stored::NotFound),
        (Mode::Cas, Some(item)) if store.cas != 0 && store.cas == item.cas() => {
            put(new, bytes.len())
        }
        // An older value than the one there, from one who was told that it may be.
        (Mode::Cas, Some(item)) if takes_stale && store.cas < item.cas() && store.cas != 0 => {
            let new = New {
                expires: item.expires(),
                marks: Marks {
                    stale: true,
                    // Who has won the right to renew it keeps it.
                    won: item.is_won(),
                    ..new.marks
                },
                ..new
            };
            put(new, bytes.len())
        }
        (Mode::Cas, Some(_)) => keep(Stored::Exists),
        (Mode::Append | Mode::Prepend, Some(item)) => {
            let flags = item.flags();
            let size = item.value().len() + bytes.len();
            if store.cas != 0 && store.cas != item.cas() {
                keep(Stored::Exists)
            } else if !rules.item_fits(key, flags, size as u64) {
                keep(Stored::No)
            } else {
                let new = New {
                    value: match store.mode {
                        Mode::Append => Value::Appended(bytes),
                        _ => Value::Prepended(bytes),
                    },
                    flags,
                    expires: item.expires(),
                    // As memcached has it: an item made of two is told as a text.
                    marks: Marks::default(),
                    ..new
                };
                put(new, size)
            }
        }
        (Mode::Append | Mode::Prepend, None) if store.vivify.is_some() => put(new, bytes.len()),
        (Mode::Add, Some(_)) | (_, None) => keep(Stored::No),
    }
}

impl Turn<'_> {
    /// Changes what a key has. That there is nothing is noted, too: copies may be there.
    pub(super) fn update<'v, T>(
        &mut self,
        at: HashedKey<'_>,
        mut decide: impl FnMut(Option<&Item<'_>>) -> (Change<'v>, T),
    ) -> Result<Updated<T>, NotStored> {
        self.announce();
        let mut writes = false;
        let now = self.clock.now;
        let updated = self.pinned.update(at.hash, at.key, now, |item| {
            let (change, outcome) = decide(item);
            writes = item.is_none() || !matches!(change, Change::Keep);
            (change, outcome)
        });
        if writes && let Some(written) = &mut self.written {
            written.key(at.key);
        }
        updated
    }

    /// Stores a value.
    pub(super) fn store(
        &mut self,
        at: HashedKey<'_>,
        store: &wire::Store,
        value: &[u8],
        how: Storing,
    ) -> Stored {
        self.count(Counter::CmdSet);
        let new = New {
            value: Value::Bytes(value),
            flags: store.flags,
            expires: self.clock.expiry(store.vivify.unwrap_or(store.exptime)),
            cas: store.new_cas,
            marks: Marks {
                encoded: how.is_encoded,
                ..Marks::default()
            },
        };
        let rules = &self.shared.rules;
        let now = self.clock.now;
        let updated = self.update(at, |item| {
            if let (Mode::Add, Some(item)) = (store.mode, item) {
                item.renew(now);
            }
            decide(rules, store, new, how.takes_stale, at.key.len(), item)
        });
        let stored = match updated {
            Ok(updated) => match updated.outcome {
                Stored::Yes { length, .. } => Stored::Yes {
                    cas: updated.cas,
                    length,
                },
                other => other,
            },
            Err(NotStored::OutOfMemory | NotStored::TooLarge) => {
                self.count(Counter::StoreNoMemory);
                match store.mode {
                    // What was there would be taken for what could not be stored.
                    Mode::Set => self.remove(at),
                    _ if how.drops_old => self.remove(at),
                    _ => {}
                }
                return Stored::NoMemory;
            }
        };
        if store.mode == Mode::Cas {
            self.count(match stored {
                Stored::Yes { .. } => Counter::CasHits,
                Stored::Exists => Counter::CasBadval,
                _ => Counter::CasMisses,
            });
        }
        stored
    }

    /// Adds to a number, or takes away from it.
    pub(super) fn sum(&mut self, at: HashedKey<'_>, delta: Delta) -> Summed {
        let rules = &self.shared.rules;
        // An item that memcached has in several chunks is no number, whatever it begins with.
        let chunked = |item: &Item<'_>| {
            let size = item.value().len() as u64;
            rules.item_size(at.key.len(), item.flags(), size) > u64::from(CHUNK_MAX)
        };
        let (mut is_new, mut length) = (false, 0);
        let updated = self.update(at, |item| {
            is_new = item.is_none();
            length = item.map_or(0, |item| item.value().len());
            match item {
                Some(item) if chunked(item) => (Change::Keep, Summed::NotANumber),
                Some(item) => delta.of(item),
                None => delta.of_nothing(),
            }
        });
        // A number may be looked for behind many blanks.
        self.pinned.looked_through(length);
        let summed = match updated {
            Ok(updated) => match updated.outcome {
                Summed::Yes(sum) => Summed::Yes(Sum {
                    cas: updated.cas,
                    ..sum
                }),
                other => other,
            },
            Err(NotStored::OutOfMemory | NotStored::TooLarge) => Summed::NoMemory { is_new },
        };
        let counter = match (delta.up, summed) {
            (true, Summed::Yes(Sum { is_new: false, .. })) => Counter::IncrHits,
            (false, Summed::Yes(Sum { is_new: false, .. })) => Counter::DecrHits,
            (true, Summed::NotFound) => Counter::IncrMisses,
            (false, Summed::NotFound) => Counter::DecrMisses,
            _ => return summed,
        };
        self.count(counter);
        summed
    }

    /// Drops a key's item.
    pub(super) fn remove(&mut self, at: HashedKey<'_>) {
        let updated = self.update(at, |_| (Change::Remove, ()));
        debug_assert!(updated.is_ok(), "to drop an item takes no room");
    }

    /// Drops a key's item, if it has the CAS id (none: whichever). Whether it was there, and had
    /// it.
    pub(super) fn delete(&mut self, at: HashedKey<'_>, cas: Option<u64>) -> Option<bool> {
        let updated = self.update(at, |item| match item {
            None => (Change::Keep, None),
            Some(item) if cas.is_none_or(|cas| cas == item.cas()) => (Change::Remove, Some(true)),
            Some(_) => (Change::Keep, Some(false)),
        });
        let deleted = updated.map_or(None, |updated| updated.outcome);
        match deleted {
            Some(true) => self.count(Counter::DeleteHits),
            None => self.count(Counter::DeleteMisses),
            Some(false) => {}
        }
        deleted
    }

    /// Gives a key's item another expiry. Whether there was one.
    pub(super) fn touch(&mut self, at: HashedKey<'_>, exptime: i64) -> bool {
        self.get_and_touch(at, exptime, |_, _, _| {}, &mut Vec::new())
    }

    /// Tells of a key's item and gives it another expiry, in one step: no other item than the one
    /// that is told of may get that. Whether there was one; else nothing is told.
    pub(super) fn get_and_touch(
        &mut self,
        at: HashedKey<'_>,
        exptime: i64,
        tell: impl Fn(&Item<'_>, &mut Long, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> bool {
        let expires = self.clock.expiry(exptime);
        let (before, mut long) = (out.len(), None);
        let updated = self.update(at, |item| {
            // It may be decided again.
            out.truncate(before);
            long = None;
            let Some(item) = item else {
                return (Change::Keep, false);
            };
            tell(item, &mut long, out);
            let touch = Touch {
                expires,
                wins: false,
                fetches: true,
            };
            (Change::Touch(touch), true)
        });
        debug_assert!(
            updated.is_ok(),
            "an item lasts longer where it lies, if need be"
        );
        self.long = long;
        updated.is_ok_and(|updated| updated.outcome)
    }

    /// Counts a key that is fetched and has no item it could be told of: whether it had one whose
    /// time was over. That goes, so that it is counted once.
    pub(super) fn missed(&mut self, at: HashedKey<'_>) {
        let now = self.clock.now;
        let Some(item) = self.pinned.made(at.hash, at.key) else {
            return;
        };
        let expires = item.expires();
        // Another thread may have stored one since.
        if self.pinned.get(at.hash, at.key, now).is_some() {
            return;
        }
        self.count(match expires != 0 && expires <= now {
            true => Counter::GetExpired,
            false => Counter::GetFlushed,
        });
        // No copies are made of what is no item any more, and none dropped.
        let gone = self
            .pinned
            .update(at.hash, at.key, now, |_| (Change::Keep, ()));
        debug_assert!(gone.is_ok(), "to drop an item takes no room");
    }

    /// Counts a fetch, or a touch.
    pub(super) fn count_fetch(&self, touches: bool, is_hit: bool) {
        let (commands, outcome) = match (touches, is_hit) {
            (false, true) => (Counter::CmdGet, Counter::GetHits),
            (false, false) => (Counter::CmdGet, Counter::GetMisses),
            (true, true) => (Counter::CmdTouch, Counter::TouchHits),
            (true, false) => (Counter::CmdTouch, Counter::TouchMisses),
        };
        self.count(commands);
        self.count(outcome);
    }

    /// Drops all items: now, or when a client's expiry comes.
    pub(super) fn flush(&mut self, exptime: i64) {
        self.count(Counter::CmdFlush);
        let now = self.clock.now;
        let at = match exptime > 0 {
            true => self.clock.expiry(exptime),
            false => now,
        };
        if self.clock.is_before_all(at) {
            // All that is there is younger. memcached gives a CAS id away all the same.
            self.shared.store.next_cas();
            return;
        }
        let due = self.shared.store.flush_due(at);
        match &mut self.written {
            // The thread of the ring, which executes this, has all nodes do it when it is due:
            // their stores' seconds do not begin at once.
            Some(written) if due > now => return written.flush_at(due),
            Some(written) => written.flush(),
            None => {}
        }
        self.shared.store.flush_all(at, now);
    }
}

impl Delta {
    fn of(self, item: &Item<'_>) -> (Change<'static>, Summed) {
        let keep = |summed| (Change::Keep, summed);
        let value = item.value();
        if value.is_empty() {
            return keep(Summed::NotANumber);
        }
        if self.cas != 0 && self.cas != item.cas() {
            return keep(Summed::Exists);
        }
        let Some(before) = number::unsigned64(value) else {
            return keep(Summed::NotANumber);
        };
        let number = match self.up {
            true => before.wrapping_add(self.by),
            false => before.saturating_sub(self.by),
        };
        let expired = item.expires();
        let width = value.len();
        // A number is changed where it lies if there is room, and leaves a blank behind it if it
        // gets shorter; one that gets longer is a new item.
        let is_same = number.checked_ilog10().unwrap_or(0) < width as u32;
        let new = New {
            value: Value::Number { number, width },
            flags: item.flags(),
            expires: self.expires.unwrap_or(expired),
            cas: self.new_cas,
            marks: if is_same {
                item.marks()
            } else {
                Marks::default()
            },
        };
        let sum = Sum {
            number,
            cas: 0,
            expired,
            is_new: false,
        };
        (Change::Store(new), Summed::Yes(sum))
    }

    fn of_nothing(self) -> (Change<'static>, Summed) {
        let Some((number, expires)) = self.initial else {
            return (Change::Keep, Summed::NotFound);
        };
        let new = New {
            value: Value::Number { number, width: 0 },
            flags: 0,
            expires,
            cas: self.new_cas,
            marks: Marks::default(),
        };
        let sum = Sum {
            number,
            cas: 0,
            expired: 0,
            is_new: true,
        };
        (Change::Store(new), Summed::Yes(sum))
    }
}
