//! Sessions that several machines share: in which slots those are that began elsewhere, when each
//! was last known to be in their store, and which have ended here of late.
//!
//! The id of a session that began elsewhere names a slot of that machine. Here it has another,
//! which is found by its secret:
//!
//! ```text
//!   place = slot + 1 (32 bits)        0: empty; two for each slot
//! ```
//!
//! A session's place is one of the [`WINDOW`] that follow the one its secret says. As in the index
//! of users a slot's place is written by the slot's owner alone, before its session begins and
//! after it has ended, and has a session that is not the one looked for another secret.

use super::atomic::{AtomicU32, AtomicU64, Ordering};
use super::id::Secret;

/// Places in which a session can be, a cache line of them.
const WINDOW: usize = 16;

/// How many sessions are remembered that have ended here.
const ENDED: usize = 1024;

/// Bits of the secret beside a time.
const TAG_BITS: u32 = 24;
const TAG: u64 = (1 << TAG_BITS) - 1;

/// Later times are this one: decades.
const TIME_MAX: u64 = (1 << (u64::BITS - TAG_BITS)) - 2;

/// See the module's text.
pub(super) struct Shared {
    places: Box<[AtomicU32]>,
    /// For each slot: the time, plus 1, and a part of the secret of the session it is of.
    confirmed: Box<[AtomicU64]>,
    /// For each slot: the mark of the last change of its session.
    marks: Box<[AtomicU64]>,
    /// Halves of the secrets of sessions that have ended here of late: what was asked about one
    /// before the store knew that may be answered after it.
    ended: Box<[AtomicU64]>,
}

impl Shared {
    /// Bytes for each slot.
    pub(super) const BYTES: usize = 2 * size_of::<AtomicU32>() + 2 * size_of::<AtomicU64>();

    /// None yet, for this many slots.
    pub(super) fn new(capacity: u32) -> Shared {
        let capacity = capacity as usize;
        Shared {
            places: (0..2 * capacity).map(|_| AtomicU32::new(0)).collect(),
            confirmed: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
            marks: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
            ended: (0..ENDED).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn window(&self, secret: Secret) -> impl Iterator<Item = &AtomicU32> {
        let count = self.places.len();
        let start = ((u128::from(secret[1]) * count as u128) >> u64::BITS) as usize;
        (0..WINDOW.min(count)).map(move |step| &self.places[(start + step) % count])
    }

    /// The slots that may have a session of this secret: the slots themselves know.
    pub(super) fn slots(&self, secret: Secret) -> impl Iterator<Item = u32> {
        let places = self.window(secret);
        places.filter_map(|place| place.load(Ordering::Acquire).checked_sub(1))
    }

    /// Enters a slot that the caller owns, for a session of this secret. Whether there is a place
    /// for it.
    pub(super) fn insert(&self, secret: Secret, slot: u32) -> bool {
        let take = |place: &AtomicU32| {
            place
                .compare_exchange(0, slot + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        self.window(secret).any(take)
    }

    /// Removes a slot that the caller owns, whose session had this secret.
    pub(super) fn remove(&self, secret: Secret, slot: u32) {
        let is_its = |place: &&AtomicU32| place.load(Ordering::Relaxed) == slot + 1;
        if let Some(place) = self.window(secret).find(is_its) {
            place.store(0, Ordering::Release);
        }
    }

    fn end_of(&self, secret: Secret) -> &AtomicU64 {
        &self.ended[secret[1] as usize % ENDED]
    }

    /// The session of this secret ends here. It is remembered in place of another.
    pub(super) fn end(&self, secret: Secret) {
        self.end_of(secret).store(secret[0], Ordering::SeqCst);
    }

    /// It has not ended: the store has not taken that.
    pub(super) fn go_on(&self, secret: Secret) {
        let none = self.end_of(secret);
        let _ = none.compare_exchange(secret[0], 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether it has ended here of late.
    pub(super) fn has_ended(&self, secret: Secret) -> bool {
        self.end_of(secret).load(Ordering::SeqCst) == secret[0]
    }

    /// The session of this secret was in the store at a time, in milliseconds, or later.
    pub(super) fn confirm(&self, slot: u32, secret: Secret, at: u64) {
        let confirmed = &self.confirmed[slot as usize];
        let mut word = confirmed.load(Ordering::Relaxed);
        while time_of(word, secret).is_none_or(|known| known < at) {
            let new = word_of(at, secret);
            match confirmed.compare_exchange(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// The session of this secret is changed, and counts as there until a time: the change's mark,
    /// which is that time, or later where a change before had it. No two changes of a slot's
    /// sessions have the same, so what becomes of one says nothing of another that began in the
    /// same millisecond.
    pub(super) fn mark(&self, slot: u32, secret: Secret, until: u64) -> u64 {
        let last = &self.marks[slot as usize];
        let mut before = last.load(Ordering::Relaxed);
        let mark = loop {
            let mark = until.max(before.saturating_add(1)).min(TIME_MAX);
            match last.compare_exchange(before, mark, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break mark,
                Err(now) => before = now,
            }
        };
        // A later change may have been quicker: its mark stays.
        self.confirm(slot, secret, mark);
        mark
    }

    /// The time at which it was there is this one, whatever it was before.
    pub(super) fn set(&self, slot: u32, secret: Secret, at: u64) {
        self.confirmed[slot as usize].store(word_of(at, secret), Ordering::Relaxed);
    }

    /// It is this one, if it was that.
    pub(super) fn replace(&self, slot: u32, secret: Secret, was: u64, at: u64) {
        let [was, new] = [was, at].map(|at| word_of(at, secret));
        let confirmed = &self.confirmed[slot as usize];
        let _ = confirmed.compare_exchange(was, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When it was last known to be there, if it ever was.
    pub(super) fn confirmed(&self, slot: u32, secret: Secret) -> Option<u64> {
        time_of(
            self.confirmed[slot as usize].load(Ordering::Relaxed),
            secret,
        )
    }
}

/// The word of a time, for the session of this secret.
fn word_of(at: u64, secret: Secret) -> u64 {
    (at.min(TIME_MAX) + 1) << TAG_BITS | secret[0] & TAG
}

/// The time that a word has for the session of this secret, if it has one.
fn time_of(word: u64, secret: Secret) -> Option<u64> {
    let is_its = (word ^ secret[0]) & TAG == 0;
    (word >> TAG_BITS).checked_sub(1).filter(|_| is_its)
}
