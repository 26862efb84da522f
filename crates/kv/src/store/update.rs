//! Writes: what a key has is looked up, what becomes of it is decided, and done, all under the
//! locks of its buckets.

use super::Pinned;
use super::change::{Change, Marks, New, NotStored, Touch, Updated, Value};
use super::counters::Counter;
use super::hash::Hash;
use super::items::{Found, Locks};
use super::long::{LONG, Long, Recipe};
use super::segments::{Body, Item, Segments, VALUE_MAX, Wants, Words, bytes};

/// Digits of the largest number.
const DIGITS: usize = 20;

/// Why an attempt did not come to an end.
enum Stop<'a> {
    /// It is repeated when there is room.
    Wants(Wants),
    /// The same, for an item to last longer; where none can be made it does so where it lies.
    Longer(Wants),
    /// It is repeated when this value is made.
    Long(Recipe<'a>),
    /// It failed.
    Not(NotStored),
}

/// What one attempt has of those before it.
#[derive(Default)]
struct Earlier<'a> {
    long: Long<'a>,
    /// There is no room for an item to last longer elsewhere.
    in_place: bool,
}

/// What the key has.
#[derive(Clone, Copy)]
struct Has<'k, 't> {
    key: &'k [u8],
    found: Option<Found<'t>>,
    is_valid: bool,
}

impl<'t> Has<'_, 't> {
    fn valid(self) -> Option<Found<'t>> {
        self.found.filter(|_| self.is_valid)
    }
}

/// What an attempt did.
#[derive(Default)]
struct Done {
    cas: u64,
    /// Units that were written.
    units: u32,
    /// Bytes of the value that were copied for it.
    copied: usize,
    /// Is the table fuller?
    grew: bool,
}

impl Pinned<'_> {
    /// Changes what the key has, atomically: `decide` is given its valid item and says what to do,
    /// and something to be returned. It may be called more than once, only the last time counting,
    /// and must not use the store.
    ///
    /// # Errors
    /// The item is too large or there is no room; nothing has changed.
    pub fn update<'a, T>(
        &mut self,
        hash: Hash,
        key: &[u8],
        now: u32,
        mut decide: impl FnMut(Option<&Item<'_>>) -> (Change<'a>, T),
    ) -> Result<Updated<T>, NotStored> {
        debug_assert_eq!(hash, self.store.hash(key));
        let mut earlier = Earlier::default();
        loop {
            let stop = match self.attempt(hash, key, now, &earlier, &mut decide) {
                Ok((done, outcome)) => {
                    if done.grew {
                        self.store.items.grow(&self.guard);
                    }
                    if done.units > 0 {
                        self.store.help(&self.guard, done.units, now);
                    }
                    self.work += done.copied;
                    let cas = done.cas;
                    return Ok(Updated { outcome, cas });
                }
                Err(stop) => stop,
            };
            let goes_on = match stop {
                Stop::Wants(wanted) => self.make_room(wanted, now),
                Stop::Longer(wanted) => {
                    earlier.in_place = !self.make_room(wanted, now);
                    true
                }
                Stop::Long(recipe) => self.make_long(&mut earlier.long, recipe, now),
                Stop::Not(NotStored::OutOfMemory) => false,
                Stop::Not(not) => return Err(not),
            };
            if !goes_on {
                self.count(Counter::Refused, 1);
                return Err(NotStored::OutOfMemory);
            }
        }
    }

    fn attempt<'a, T>(
        &self,
        hash: Hash,
        key: &[u8],
        now: u32,
        earlier: &Earlier<'a>,
        decide: &mut impl FnMut(Option<&Item<'_>>) -> (Change<'a>, T),
    ) -> Result<(Done, T), Stop<'a>> {
        let mut locks = self.guard.lock(hash);
        let found = locks.find(key);
        let has = Has {
            key,
            found,
            is_valid: found.is_some_and(|found| self.store.is_valid(&found.item, now)),
        };
        let (change, outcome) = decide(has.valid().as_ref().map(|found| &found.item));
        let mut done = Done::default();
        match (change, has.valid()) {
            (Change::Store(new), valid) => {
                let accessed = match (new.value, valid) {
                    (Value::Same, Some(valid)) => valid.item.last_access(),
                    _ => now,
                };
                done = self.put(&mut locks, has, now, new, accessed, &earlier.long)?;
            }
            (Change::Touch(touch), Some(valid)) => {
                done = self.touch(&mut locks, has, valid, now, touch, earlier.in_place)?;
            }
            (Change::Remove, Some(valid)) => {
                self.count(Counter::BytesOut, valid.item.size() as u64);
                locks.remove(valid);
            }
            (Change::Keep, Some(_)) => {}
            (_, None) => {
                // Whoever comes by takes away what is no longer valid.
                if let Some(found) = found {
                    self.store.count_removed(&self.guard, &found.item, false);
                    locks.remove(found);
                }
            }
        }
        Ok((done, outcome))
    }

    /// Changes what may change of an item: where it lies, or, where that would not last as long,
    /// in another place.
    fn touch<'t>(
        &self,
        locks: &mut Locks<'t>,
        has: Has<'_, 't>,
        valid: Found<'t>,
        now: u32,
        touch: Touch,
        in_place: bool,
    ) -> Result<Done, Stop<'static>> {
        let item = valid.item;
        if !locks.touch(valid, touch.expires) {
            let marks = item.marks();
            let new = New {
                value: Value::Same,
                flags: item.flags(),
                expires: touch.expires,
                cas: Some(item.cas()),
                marks: Marks {
                    won: marks.won || touch.wins,
                    fetched: marks.fetched || touch.fetches,
                    ..marks
                },
            };
            let accessed = match touch.fetches {
                true => now,
                false => item.last_access(),
            };
            if !in_place {
                match self.put(locks, has, now, new, accessed, &Long::default()) {
                    Ok(done) => return Ok(done),
                    Err(Stop::Wants(wanted)) => return Err(Stop::Longer(wanted)),
                    // What is there may stay, whatever the system refuses.
                    Err(_) => {}
                }
            }
            locks.prolong(valid, touch.expires);
        }
        if touch.wins {
            item.set_won();
        }
        if touch.fetches {
            item.access(now);
        }
        Ok(Done::default())
    }

    /// Stores an item in the place of what the key has, valid or not; it was last accessed then.
    fn put<'a, 't>(
        &self,
        locks: &mut Locks<'t>,
        has: Has<'_, 't>,
        now: u32,
        new: New<'a>,
        accessed: u32,
        long: &Long<'a>,
    ) -> Result<Done, Stop<'a>> {
        let Has { key, found, .. } = has;
        let current = has.valid().map(|found| found.item);
        let before = current.as_ref().map_or(&[][..], Item::value);
        let (mut digits, mut blanks) = ([0; DIGITS], 0);
        let parts = match new.value {
            Value::Bytes(bytes) => [bytes, &[]],
            Value::Appended(bytes) => [before, bytes],
            Value::Prepended(bytes) => [bytes, before],
            Value::Same => [before, &[]],
            Value::Number { number, width } => {
                let digits = decimal(number, &mut digits);
                blanks = width.saturating_sub(digits.len());
                [digits, &[]]
            }
        };
        let length = parts[0].len() + parts[1].len() + blanks;
        let options = &self.store.options;
        let segments = &self.store.items.segments;
        if key.len() + length > options.item_max {
            return Err(Stop::Not(NotStored::TooLarge));
        }
        let mut body = Body::Here(parts, blanks);
        let size = bytes(key.len(), new.flags, &body);
        if length > VALUE_MAX || size > segments.item_max() {
            let shared = match new.value {
                // By the item that goes and the one that comes.
                Value::Same => current.as_ref().and_then(Item::large),
                _ => None,
            };
            // What another is put together of is there until it is.
            let parted = match new.value {
                Value::Appended(_) | Value::Prepended(_) => current.as_ref(),
                _ => None,
            };
            let beside = parted.map_or(0, Item::elsewhere) as usize;
            body = match shared {
                Some(large) => Body::Large(large),
                None if !segments.is_possible(length + beside) => {
                    return Err(Stop::Not(NotStored::OutOfMemory));
                }
                None => self.long_value(new.value, current.as_ref(), parts, blanks, long)?,
            };
        }
        let slot = match found {
            Some(_) => None,
            None => locks.vacancy(),
        };
        // No slot, and none can be made: another item gives up its own.
        let other = match (found, slot) {
            (None, None) => Some(self.least_wanted(locks, now)?),
            _ => None,
        };
        let size = bytes(key.len(), new.flags, &body);
        let units = segments.units(size);
        let group = Segments::group(new.expires, now);
        let elsewhere = body.elsewhere();
        let copied = match (&body, new.value) {
            (Body::Large(_), Value::Same) => 0,
            _ => length,
        };
        let room = self.guard.room(group, units).map_err(Stop::Wants)?;
        let words = Words {
            flags: new.flags,
            cas: new.cas.unwrap_or_else(|| self.store.next_cas()),
            expires: new.expires,
            accessed,
            marks: new.marks,
        };
        if let Some(found) = found {
            self.count(Counter::BytesOut, found.item.size() as u64);
        }
        if let Some(other) = &other {
            let valid = self.store.is_valid(&other.item, now);
            self.store.count_removed(&self.guard, &other.item, valid);
        }
        match (slot, found.or(other)) {
            (Some(slot), _) => locks.fill(slot, room, key, &words, body),
            (None, Some(old)) => locks.replace(old, room, key, &words, body),
            (None, None) => unreachable!("an item that gives up its slot was looked for"),
        }
        self.count(Counter::Stored, 1);
        self.count(Counter::BytesIn, size as u64 + elsewhere);
        Ok(Done {
            cas: words.cas,
            units,
            copied,
            grew: slot.is_some(),
        })
    }

    /// Memory of its own for a long value. What takes long to copy is made beforehand.
    fn long_value<'a>(
        &self,
        value: Value<'a>,
        current: Option<&Item<'_>>,
        parts: [&[u8]; 2],
        blanks: usize,
        long: &Long<'a>,
    ) -> Result<Body<'static>, Stop<'a>> {
        if parts[0].len() + parts[1].len() > LONG
            && let Some(recipe) = Recipe::of(value, current)
            && long.may_be_made()
        {
            return long
                .made(&recipe)
                .map(Body::Large)
                .ok_or(Stop::Long(recipe));
        }
        let large = self.guard.large(parts, blanks).map_err(Stop::Wants)?;
        large.ok_or(Stop::Not(NotStored::OutOfMemory))
    }

    /// Of the items in the locked buckets one that is not valid, or else the one that was accessed
    /// the longest ago, if it may be evicted.
    fn least_wanted<'t>(&self, locks: &Locks<'t>, now: u32) -> Result<Found<'t>, Stop<'static>> {
        let valid = |found: &Found<'_>| self.store.is_valid(&found.item, now);
        (locks.all())
            .min_by_key(|found| (valid(found), found.item.last_access()))
            .filter(|found| self.store.options.evict || !valid(found))
            .ok_or(Stop::Not(NotStored::OutOfMemory))
    }

    fn count(&self, counter: Counter, much: u64) {
        self.store.counters(&self.guard).add(counter, much);
    }
}

/// A number in decimal, at the end of the room for it.
fn decimal(mut number: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut at = DIGITS;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}
