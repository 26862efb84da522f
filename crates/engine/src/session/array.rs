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
//! One user has no more sessions than the rules allow: a sign-in beyond them ends the user's
//! oldest. A session counts as soon as it begins, and only then are the user's others counted, with
//! a fence between: of two sign-ins at once, one sees the other at least.
//!
//! Time is counted in ticks, 1/128 to 1/64 of the idle timeout: the use of a session is recorded
//! once per tick. Sessions expire on the late side: never before the timeout, at the latest 3 %
//! after it.

use super::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use super::free::FreeList;
use super::id::SessionId;
use super::shared::Shared;
use super::slot::{Slot, State};
use super::users::UserIndex;
use core::num::NonZeroU32;
use rhythm_protocol::scan::prefetch;

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
const STACKS_MAX: u32 = 16;

/// How many sessions there are, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRules {
    /// Sessions at once.
    pub capacity: u32,
    /// A session that is not used for so long has expired.
    pub idle_timeout: Millis,
    /// One that was never used since it began expires after this; not longer than `idle_timeout`.
    pub unused_timeout: Millis,
    /// Sessions of one user; `None` for any number.
    pub per_user_max: Option<NonZeroU32>,
    /// While fewer slots are free than this, a user who signs in keeps that session alone: the rest
    /// is for those who have none. Only where `per_user_max` is set.
    pub reserve: u32,
    /// Other machines have sessions in common with this one.
    pub is_shared: bool,
}

impl SessionRules {
    /// Any number of sessions for each user, used or not.
    pub fn new(capacity: u32, idle_timeout: Millis) -> SessionRules {
        SessionRules {
            capacity,
            idle_timeout,
            unused_timeout: idle_timeout,
            per_user_max: None,
            reserve: 0,
            is_shared: false,
        }
    }

    /// The bytes that an array by these rules takes, all of them at the start.
    pub fn bytes(&self) -> usize {
        let index = self.per_user_max.map_or(0, |_| UserIndex::BYTES);
        let shared = if self.is_shared { Shared::BYTES } else { 0 };
        (size_of::<Slot>() + index + shared).saturating_mul(self.capacity as usize)
    }
}

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
    /// One that was never used, and began more ticks ago, likewise.
    unused_ticks: u32,
    /// The sessions of each user and how many those may be, where that is limited.
    users: Option<(UserIndex, u32)>,
    /// Those that began elsewhere, where there are such.
    shared: Option<Shared>,
    /// See [`SessionRules::reserve`].
    reserve: usize,
    /// Sessions that ended because their user had more than may be.
    replaced: AtomicU64,
}

impl SessionArray {
    /// An array for `capacity` sessions, each of which expires when it has not been used for
    /// `idle_timeout`.
    pub fn new(capacity: u32, idle_timeout: Millis) -> SessionArray {
        SessionArray::with(SessionRules::new(capacity, idle_timeout))
    }

    /// An array by these rules.
    pub fn with(rules: SessionRules) -> SessionArray {
        let SessionRules {
            capacity,
            idle_timeout,
            ..
        } = rules;
        let (free, slots) = FreeList::new(capacity, STACKS_MAX);
        let tick_shift = (idle_timeout / 64).max(1).ilog2();
        let unused_timeout = rules.unused_timeout.min(idle_timeout);
        SessionArray {
            unused_ticks: unused_timeout.div_ceil(1 << tick_shift) as u32,
            users: (rules.per_user_max).map(|most| (UserIndex::new(capacity), most.get())),
            shared: rules.is_shared.then(|| Shared::new(capacity)),
            reserve: rules.reserve as usize,
            replaced: AtomicU64::new(0),
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
        self.create_for(user, random, now, &mut |_| {})
    }

    /// [`create`](Self::create), which tells of the user's sessions that end for the new one, but
    /// for those that have expired here.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn create_for(
        &self,
        user: i64,
        random: u128,
        now: Millis,
        ended: &mut dyn FnMut(SessionId),
    ) -> Result<SessionId, Full> {
        let now = self.tick(now);
        let slot = (self.take_free(user, now))
            // Who has a session already gives it for the new one.
            .or_else(|| self.end_oldest(user, 0, now, ended))
            .ok_or(Full)?;
        let id = SessionId::new(slot, random);
        if let Some((index, _)) = &self.users {
            index.insert(user, slot);
        }
        self.slots[slot as usize].begin(user, id.secret, now);
        self.keep_limit(user, now, ended);
        Ok(id)
    }

    /// Takes a slot that is free, or whose session has expired.
    fn take_free(&self, user: i64, now: u64) -> Option<u32> {
        (self.free.take(&self.slots, user))
            .or_else(|| self.take_expired(now))
            // What was returned during the search.
            .or_else(|| self.free.take(&self.slots, user))
    }

    /// A session of this id is known to be `user`'s, wherever it began: it is one that is used
    /// here, from now on. Gives the id by which it is here; `None` where there is no room for it,
    /// or sessions are not shared. It ends none of the user's others.
    pub fn adopt(&self, id: &SessionId, user: i64, now: Millis) -> Option<SessionId> {
        let shared = self.shared.as_ref()?;
        let now = self.tick(now);
        let touch = |here: &SessionId| {
            let slot = &self.slots[here.slot as usize];
            let found = slot.find(here.secret);
            found.is_some_and(|(seen, known)| known == user && slot.touch(seen, now))
        };
        if let Some(here) = self.here(id).filter(touch) {
            return Some(here);
        }
        let slot = self.take_free(user, now)?;
        if !shared.insert(id.secret, slot) {
            self.free.give(&self.slots, slot);
            return None;
        }
        if let Some((index, _)) = &self.users {
            index.insert(user, slot);
        }
        self.slots[slot as usize].begin(user, id.secret, now);
        let here = SessionId { slot, ..*id };
        touch(&here).then_some(here)
    }

    /// The id by which a session is here, expired or not, if it is: its own, or that of the slot
    /// which one has that began elsewhere.
    pub fn here(&self, id: &SessionId) -> Option<SessionId> {
        let is_in = |slot: u32| {
            let slot = self.slots.get(slot as usize);
            slot.is_some_and(|slot| slot.find(id.secret).is_some())
        };
        if is_in(id.slot) {
            return Some(*id);
        }
        let mut slots = self.shared.as_ref()?.slots(id.secret);
        let slot = slots.find(|slot| is_in(*slot))?;
        Some(SessionId { slot, ..*id })
    }

    /// Whose session it is, expired or not. It counts as no use.
    pub fn user_of(&self, id: &SessionId) -> Option<i64> {
        let here = self.here(id)?;
        let found = self.slots[here.slot as usize].find(here.secret);
        found.map(|(_, user)| user)
    }

    /// A session was in the store of all machines at this time, if no later one is known.
    pub fn confirm(&self, id: &SessionId, at: Millis) {
        self.of_shared(id, |shared, here| {
            shared.confirm(here.slot, here.secret, at)
        });
    }

    /// What a session keeps is changed here, and the store is told of that, which takes until then
    /// at most: so long what the store says is older than what is here. Gives the change's mark,
    /// for [`changed`](Self::changed), which grows with each change of a session.
    pub fn changes(&self, id: &SessionId, until: Millis) -> Millis {
        let mut mark = until;
        self.of_shared(id, |shared, here| {
            mark = shared.mark(here.slot, here.secret, until);
        });
        mark
    }

    /// The store has the change of this mark: at this time it has what is here, unless it is being
    /// changed again.
    pub fn changed(&self, id: &SessionId, mark: Millis, at: Millis) {
        self.of_shared(id, |shared, here| {
            shared.replace(here.slot, here.secret, mark, at)
        });
    }

    /// What the store has of a session is not known: it is to be asked.
    pub fn doubt(&self, id: &SessionId) {
        self.of_shared(id, |shared, here| shared.set(here.slot, here.secret, 0));
    }

    /// Does something for a session that other machines have, too, if it is here.
    fn of_shared(&self, id: &SessionId, act: impl FnOnce(&Shared, &SessionId)) {
        if let (Some(shared), Some(here)) = (&self.shared, self.here(id)) {
            act(shared, &here);
        }
    }

    /// Ends a session that other machines have, too, as [`destroy`](Self::destroy) does: it is
    /// remembered, so that what the store said of it before is known to be late.
    pub fn end(&self, id: &SessionId) -> bool {
        if let Some(shared) = &self.shared {
            shared.end(id.secret);
        }
        // Who adopts it meanwhile sees that it has ended, or is seen here.
        fence(Ordering::SeqCst);
        self.destroy(id)
    }

    /// The store does not know that a session has ended: it may be adopted again.
    pub fn go_on(&self, id: &SessionId) {
        if let Some(shared) = &self.shared {
            shared.go_on(id.secret);
        }
    }

    /// Whether a session has ended here of late, which the store may not have known when it was
    /// asked; if so, it is nowhere in the array. To be asked behind [`adopt`](Self::adopt).
    pub fn has_ended(&self, id: &SessionId) -> bool {
        fence(Ordering::SeqCst);
        let has_ended = (self.shared.as_ref()).is_some_and(|shared| shared.has_ended(id.secret));
        if has_ended {
            self.destroy(id);
        }
        has_ended
    }

    /// Whether other machines have sessions in common with this one.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether a session was known to be in the store later than then, or is as it will be there.
    pub fn is_confirmed(&self, id: &SessionId, since: Millis) -> bool {
        self.confirmed(id).is_some_and(|at| at > since)
    }

    /// When a session was last known to be in the store; a time to come while it is not yet as it
    /// will be there.
    fn confirmed(&self, id: &SessionId) -> Option<Millis> {
        let here = self.here(id)?;
        self.shared.as_ref()?.confirmed(here.slot, here.secret)
    }

    /// When it counts as asked what the store has of a session, where that is asked now: what was
    /// confirmed in this very millisecond is older than the answer if it was before, and newer if
    /// it is yet to be. (Of two changes that are both confirmed in it the second is not told from
    /// the first.)
    pub fn asks(&self, id: &SessionId, now: Millis) -> Millis {
        match self.confirmed(id) == Some(now) {
            true => now,
            false => now.saturating_sub(1),
        }
    }

    /// Ends sessions of a user, oldest first, until there are no more than may be.
    fn keep_limit(&self, user: i64, now: u64, told: &mut dyn FnMut(SessionId)) {
        let Some((_, most)) = self.users else {
            return;
        };
        let scarce = self.reserve > 0 && self.free.count() < self.reserve;
        let most = if scarce { 1 } else { most };
        fence(Ordering::SeqCst);
        while let Some(ended) = self.end_oldest(user, most, now, told) {
            self.free.give(&self.slots, ended);
        }
    }

    /// Ends the oldest session of a user if there are more than `most`, those that have expired
    /// before all others. The caller owns its slot.
    ///
    /// Of two that sign in at once, that may be the caller's own: all agree on which is the oldest,
    /// so they do not end each other's.
    fn end_oldest(
        &self,
        user: i64,
        most: u32,
        now: u64,
        told: &mut dyn FnMut(SessionId),
    ) -> Option<u32> {
        let (index, _) = self.users.as_ref()?;
        loop {
            let (mut count, mut oldest) = (0, None::<((bool, u32), u32, State)>);
            for entry in index.of(user) {
                let (seen, owner) = self.slots[entry.slot as usize].peek();
                if !seen.live() || owner != user {
                    continue;
                }
                count += 1;
                let rank = (self.is_expired(seen, now), entry.age);
                if oldest.is_none_or(|(most, ..)| rank > most) {
                    oldest = Some((rank, entry.slot, seen));
                }
            }
            let ((is_expired, _), slot, seen) = oldest.filter(|_| count > most)?;
            // Else another thread has just ended it: others may be left that are too many.
            if self.slots[slot as usize].end(seen) {
                let secret = self.slots[slot as usize].secret();
                self.forget(slot);
                // What has expired here may be in use elsewhere.
                if !is_expired {
                    let id = SessionId { slot, secret };
                    self.end(&id);
                    told(id);
                }
                self.replaced.fetch_add(1, Ordering::Relaxed);
                return Some(slot);
            }
        }
    }

    /// Takes a slot that the caller owns, and whose session has ended, out of the index.
    fn forget(&self, slot: u32) {
        if let Some((index, _)) = &self.users {
            index.remove(self.slots[slot as usize].user(), slot);
        }
        if let Some(shared) = &self.shared {
            shared.remove(self.slots[slot as usize].secret(), slot);
        }
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

    /// Whether a session exists, expired or not. It counts as no use.
    pub fn has(&self, id: &SessionId) -> bool {
        self.here(id).is_some()
    }

    /// Ends a session, and tells whether it was still there (expired or not). Of several threads
    /// that end the same session, one is told so.
    pub fn destroy(&self, id: &SessionId) -> bool {
        if self.shared.is_none() {
            return self.destroy_here(id);
        }
        let mut ended = false;
        // Of one that began elsewhere two threads may have made two.
        while let Some(here) = self.here(id) {
            ended |= self.destroy_here(&here);
        }
        ended
    }

    fn destroy_here(&self, id: &SessionId) -> bool {
        let Some(slot) = self.slots.get(id.slot as usize) else {
            return false;
        };
        let ended = slot.find(id.secret).is_some_and(|(seen, _)| slot.end(seen));
        if ended {
            self.forget(id.slot);
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

    /// Sessions that ended because their user signed in once more than may be, since the start.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
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
        match self.lookup_in(id, now) {
            None if self.shared.is_some() => self.lookup_in(&self.here(id)?, now),
            found => found,
        }
    }

    #[inline]
    fn lookup_in(&self, id: &SessionId, now: u64) -> Option<i64> {
        let slot = self.slots.get(id.slot as usize)?;
        let (seen, user) = slot.find(id.secret)?;
        (!self.is_expired(seen, now) && slot.touch(seen, now)).then_some(user)
    }

    /// For how many ticks a session of this state lives.
    #[inline]
    fn life(&self, state: State) -> u32 {
        if state.fresh() {
            self.unused_ticks
        } else {
            self.idle_ticks
        }
    }

    #[inline]
    fn is_expired(&self, state: State, now: u64) -> bool {
        state.age(now) > self.life(state)
    }

    /// Every slot once, from the cursor on.
    fn round(&self) -> impl Iterator<Item = u32> {
        let capacity = self.slots.len() as u32;
        let start = self.cursor.load(Ordering::Relaxed).min(capacity);
        (start..capacity).chain(0..start)
    }

    /// Ends the slot's session if it has expired, which makes the caller the slot's owner.
    /// Otherwise tells in how many ticks it will have at the earliest.
    fn expire(&self, slot: u32, now: u64) -> Result<(), u32> {
        // A slot that is free now may get a session in this tick, or in the last one by a thread
        // whose clock is behind.
        let of_new = self.unused_ticks;
        let to_end = &self.slots[slot as usize];
        let state = to_end.state();
        if !state.live() {
            return Err(of_new);
        }
        if !self.is_expired(state, now) {
            let left = self.life(state) + 1 - state.age(now);
            return Err(left.min(of_new));
        }
        // On failure it was used or destroyed just now.
        to_end.end_unused(state).map_err(|_| of_new)?;
        self.forget(slot);
        Ok(())
    }

    /// Takes over the slot of a session that has expired. `None` if there was none.
    #[cold]
    fn take_expired(&self, now: u64) -> Option<u32> {
        if now < self.quiet_until.load(Ordering::Relaxed) {
            return None;
        }
        let mut left = self.unused_ticks;
        for slot in self.round() {
            match self.expire(slot, now) {
                Ok(()) => {
                    self.cursor.store(slot + 1, Ordering::Relaxed);
                    return Some(slot);
                }
                Err(until) => left = left.min(until),
            }
        }
        self.quiet_until
            .store(now + u64::from(left), Ordering::Relaxed);
        None
    }
}
