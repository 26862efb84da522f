//! The array: what the server does with sessions.
//!
//! Finding a session is one cache line: the id says which. [`SessionArray::lookup_batch`] has the
//! lines of the next lanes on their way while it examines one, so a cohort waits for memory about
//! once instead of once per request.
//!
//! Creating takes a slot from the free lists. When they are empty, sessions may still have expired:
//! they are looked for one after the other from where the last search or [`SessionArray::sweep`]
//! stopped, so that a round through the array finds every one of them. A round that finds none also
//! learned when the next session can expire at the earliest (use only puts that off), and until
//! then a full array refuses in constant time. So [`Full`] is the truth, live users are never
//! evicted, and however many logins are refused, each thread searches the array at most about once
//! per tick, which takes some 10 ms for a million slots.
//!
//! Time is counted in ticks, 1/128 to 1/64 of the idle timeout: the use of a session is recorded
//! once per tick. Sessions expire on the late side: never before the timeout, at the latest 3 %
//! after it.

use super::atomic::{AtomicU32, AtomicU64, Ordering};
use super::free::FreeList;
use super::id::SessionId;
use super::prefetch::prefetch;
use super::slot::Slot;

/// Milliseconds since a moment that the caller chose. All threads must mean the same moment and
/// differ by far less than the idle timeout; none need be monotonic.
pub type Millis = u64;

/// Every session is in use: the answer to creating one more (to a client, 503).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all sessions are in use")]
pub struct Full;

/// How many lookups ahead a batch starts loading: about as many lines as a core can wait for at
/// once.
const AHEAD: usize = 16;

/// More free lists than this bring nothing: what matters is that two threads rarely meet.
const MAX_STACKS: u32 = 16;

/// The sessions of a server, shared by all its threads. All memory is allocated at the start, and
/// no method blocks.
pub struct SessionArray {
    slots: Box<[Slot]>,
    free: FreeList,
    /// Where the next search for expired sessions starts; a hint.
    cursor: AtomicU32,
    /// No session expires before this tick.
    quiet_until: AtomicU64,
    /// A tick is 2^this milliseconds.
    tick_shift: u32,
    /// A session whose last use is more ticks ago has expired.
    idle_ticks: u32,
}

impl SessionArray {
    /// The bytes that each session takes, whether or not it is in use.
    pub const SESSION_BYTES: usize = size_of::<Slot>();

    /// An array for `capacity` sessions, each of which expires when it has not been used for
    /// `idle_timeout`.
    pub fn new(capacity: u32, idle_timeout: Millis) -> SessionArray {
        let (free, slots) = FreeList::new(capacity, MAX_STACKS);
        let tick_shift = (idle_timeout / 64).max(1).ilog2();
        SessionArray {
            slots,
            free,
            cursor: AtomicU32::new(0),
            quiet_until: AtomicU64::new(0),
            tick_shift,
            // At most 128, or 127 where a tick is a millisecond.
            idle_ticks: idle_timeout.div_ceil(1 << tick_shift) as u32,
        }
    }

    /// Creates a session of `user`. `random` must be 128 bits that nobody can predict: knowing them
    /// is all it takes to use the session.
    ///
    /// # Errors
    ///
    /// [`Full`] if every slot holds a session that has not expired, or is in the hands of another
    /// thread that is just filling or returning it.
    pub fn create(&self, user: i64, random: u128, now: Millis) -> Result<SessionId, Full> {
        let now = self.tick(now);
        let slot = self
            .free
            .take(&self.slots, user)
            .or_else(|| self.take_expired(now))
            // What was returned during the search.
            .or_else(|| self.free.take(&self.slots, user))
            .ok_or(Full)?;
        let id = SessionId::new(slot, random);
        self.slots[slot as usize].begin(user, id.secret, now);
        Ok(id)
    }

    /// The user whose session this is, if it exists and has not expired. It counts as a use.
    #[inline]
    pub fn lookup(&self, id: &SessionId, now: Millis) -> Option<i64> {
        self.lookup_at(id, self.tick(now))
    }

    /// [`lookup`](Self::lookup) of each id of a cohort, into the same place of `users`. Lanes
    /// without an id get `None`.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn lookup_batch(&self, ids: &[Option<SessionId>], now: Millis, users: &mut [Option<i64>]) {
        assert_eq!(ids.len(), users.len(), "a user for each id");
        let now = self.tick(now);
        for id in ids.iter().take(AHEAD) {
            self.prefetch(id);
        }
        for (lane, (id, user)) in ids.iter().zip(users).enumerate() {
            if let Some(later) = ids.get(lane + AHEAD) {
                self.prefetch(later);
            }
            *user = id.as_ref().and_then(|id| self.lookup_at(id, now));
        }
    }

    /// Ends a session, and tells whether it was still there (expired or not). Of several threads
    /// that end the same session, one is told so.
    pub fn destroy(&self, id: &SessionId) -> bool {
        let Some(slot) = self.slots.get(id.slot as usize) else {
            return false;
        };
        let ended = slot.find(id.secret).is_some_and(|(seen, _)| slot.end(seen));
        if ended {
            self.free.give(&self.slots, id.slot);
        }
        ended
    }

    /// Examines the next `budget` slots and frees those whose sessions have expired; returns how
    /// many that were. To be called now and then: a small budget keeps each call short, and
    /// successive calls go round the array.
    pub fn sweep(&self, now: Millis, budget: usize) -> usize {
        let now = self.tick(now);
        let mut freed = 0;
        let mut last = None;
        for slot in self.round().take(budget) {
            if self.expire(slot, now).is_ok() {
                self.free.give(&self.slots, slot);
                freed += 1;
            }
            last = Some(slot);
        }
        if let Some(last) = last {
            self.cursor.store(last + 1, Ordering::Relaxed);
        }
        freed
    }

    /// Sessions that exist, expired ones that nobody has noticed included; a few more or less than
    /// that while other threads create and destroy.
    pub fn live(&self) -> usize {
        self.capacity().saturating_sub(self.free.count())
    }

    /// The number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn tick(&self, now: Millis) -> u64 {
        now >> self.tick_shift
    }

    #[inline]
    fn prefetch(&self, id: &Option<SessionId>) {
        if let Some(slot) = id.as_ref().and_then(|id| self.slots.get(id.slot as usize)) {
            prefetch(slot);
        }
    }

    #[inline]
    fn lookup_at(&self, id: &SessionId, now: u64) -> Option<i64> {
        let slot = self.slots.get(id.slot as usize)?;
        let (seen, user) = slot.find(id.secret)?;
        (seen.age(now) <= self.idle_ticks && slot.touch(seen, now)).then_some(user)
    }

    /// Every slot once, from the cursor on.
    fn round(&self) -> impl Iterator<Item = u32> {
        let capacity = self.slots.len() as u32;
        let start = self.cursor.load(Ordering::Relaxed).min(capacity);
        (start..capacity).chain(0..start)
    }

    /// Ends the slot's session if it has expired, which makes the caller the slot's owner.
    /// Otherwise tells how many ticks it has been idle, if there is one.
    fn expire(&self, slot: u32, now: u64) -> Result<(), u32> {
        let slot = &self.slots[slot as usize];
        let state = slot.state();
        let age = if state.live() { state.age(now) } else { 0 };
        if age <= self.idle_ticks {
            return Err(age);
        }
        // On failure it was used or destroyed just now.
        slot.end_unused(state).map_err(|_| 0)
    }

    /// Takes over the slot of a session that has expired. `None` if there was none.
    #[cold]
    fn take_expired(&self, now: u64) -> Option<u32> {
        if now < self.quiet_until.load(Ordering::Relaxed) {
            return None;
        }
        // A slot that is free now may get a session in this tick, or in the last one by a thread
        // whose clock is behind.
        let mut oldest = 1;
        for slot in self.round() {
            match self.expire(slot, now) {
                Ok(()) => {
                    self.cursor.store(slot + 1, Ordering::Relaxed);
                    return Some(slot);
                }
                Err(age) => oldest = oldest.max(age),
            }
        }
        let left = u64::from(self.idle_ticks + 1).saturating_sub(u64::from(oldest));
        self.quiet_until.store(now + left, Ordering::Relaxed);
        None
    }
}
