//! One slot of the array, and the protocol that keeps its readers from seeing half of a change.
//!
//! A slot is free or live. Its state word holds a *generation*, which grows by one with each change
//! between the two (odd: live), and the *tick* of the last use, with a bit that says whether there
//! was any use since the session began (until then it is *fresh*). Every change of the state of a
//! live slot is a compare-and-swap on that one word, which settles all races:
//!
//! - of two threads that destroy or expire a session, one wins, and it owns the slot;
//! - an expiry that decided on an old tick fails if the session has been used meanwhile, so a user
//!   who was just served is never thrown out;
//! - a use that comes late cannot touch the session that follows in the same slot.
//!
//! The rest of a slot (secret, user) is written only by the thread that owns it while it is free.
//! Reading it is a seqlock: load the state, load the rest, look at the state again. It is sound
//! because the rest is stored with `Release` and loaded with `Acquire`: a reader that sees anything
//! written after the session ended therefore also sees, on its second look, that it ended. The
//! second look compares generations, so a mere use does not disturb it; and if it fails, the
//! session did end, so the answer is "none", not another try. A lookup is wait-free but for
//! recording its use.
//!
//! A generation has 31 bits besides the lowest. A reader would have to sleep through exactly 2^31
//! sessions of one slot, between two of its loads, to be fooled.

use super::atomic::{AtomicI64, AtomicU64, Ordering};
use super::id::{Secret, same_secret};

/// A slot; see the head of this file. The alignment keeps it within one cache line.
#[repr(align(32))]
pub(super) struct Slot {
    state: AtomicU64,
    secret: [AtomicU64; 2],
    /// The user's id while the slot is live, and the next free slot while it is in a free list.
    user: AtomicI64,
}

/// The state word as it was loaded: generation in the high half; in the low the tick, and in its
/// highest bit whether the session is fresh.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

/// The bit of a session that was never used.
const FRESH: u32 = 1 << 31;
/// The bits of the tick.
const TICKS: u32 = FRESH - 1;

impl State {
    fn new(generation: u32, tick: u64, fresh: bool) -> State {
        let fresh = if fresh { FRESH } else { 0 };
        State(u64::from(generation) << 32 | u64::from(fresh | tick as u32 & TICKS))
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Does the slot hold a session?
    pub(super) fn live(self) -> bool {
        self.generation() & 1 == 1
    }

    /// Was the session never used since it began?
    pub(super) fn fresh(self) -> bool {
        self.0 as u32 & FRESH != 0
    }

    /// Ticks from the last use to `now`; 0 where another thread's clock is a little ahead. Ticks
    /// are counted modulo 2^31, which is far more than any session is idle.
    pub(super) fn age(self, now: u64) -> u32 {
        let age = (now as u32).wrapping_sub(self.0 as u32) & TICKS;
        if age > TICKS / 2 { 0 } else { age }
    }
}

impl Slot {
    /// A free slot.
    pub(super) fn free(next: u32) -> Slot {
        Slot {
            state: AtomicU64::new(0),
            secret: [AtomicU64::new(0), AtomicU64::new(0)],
            user: AtomicI64::new(i64::from(next)),
        }
    }

    /// The link of a slot in a free list. For a slot that has left the list meanwhile it is
    /// meaningless.
    pub(super) fn next(&self) -> u32 {
        self.user.load(Ordering::Relaxed) as u32
    }

    /// Sets the link; for the owner of a free slot only.
    pub(super) fn set_next(&self, next: u32) {
        self.user.store(i64::from(next), Ordering::Release);
    }

    /// Makes a session of a free slot; for its owner only.
    pub(super) fn begin(&self, user: i64, secret: Secret, now: u64) {
        let free = State(self.state.load(Ordering::Relaxed));
        debug_assert!(!free.live(), "only a free slot has an owner");
        self.user.store(user, Ordering::Release);
        self.secret[0].store(secret[0], Ordering::Release);
        self.secret[1].store(secret[1], Ordering::Release);
        let live = State::new(free.generation().wrapping_add(1), now, true);
        self.state.store(live.0, Ordering::Release);
    }

    /// The state now.
    #[inline]
    pub(super) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// The user, if the slot is live and has this secret. It holds only if [`touch`](Self::touch)
    /// or [`end`](Self::end) with the returned state then finds the session unchanged.
    #[inline]
    pub(super) fn find(&self, secret: Secret) -> Option<(State, i64)> {
        let seen = self.state();
        let user = self.user.load(Ordering::Acquire);
        let found = [
            self.secret[0].load(Ordering::Acquire),
            self.secret[1].load(Ordering::Acquire),
        ];
        (seen.live() && same_secret(found, secret)).then_some((seen, user))
    }

    /// The state and the user, which are of one session if [`end`](Self::end) with the state then
    /// finds that.
    pub(super) fn peek(&self) -> (State, i64) {
        let seen = self.state();
        (seen, self.user.load(Ordering::Acquire))
    }

    /// Whose session it was; for the owner of a slot whose session has ended, until it is given to
    /// a free list.
    pub(super) fn user(&self) -> i64 {
        self.user.load(Ordering::Relaxed)
    }

    /// The secret it had; likewise.
    pub(super) fn secret(&self) -> Secret {
        [0, 1].map(|half| self.secret[half].load(Ordering::Relaxed))
    }

    /// Is the session of `seen` still there? Then it is now one used at `now`.
    ///
    /// The tick is stored only when it is a later one or the first, so sessions in use do not
    /// keep pulling their cache lines from core to core.
    #[inline]
    pub(super) fn touch(&self, seen: State, now: u64) -> bool {
        // Relaxed: what was loaded before was loaded with Acquire, so this load is already bound to
        // see the end of the session if any of that came after it.
        let mut state = State(self.state.load(Ordering::Relaxed));
        loop {
            if state.generation() != seen.generation() {
                return false;
            }
            let later = state.age(now) > 0;
            if !later && !state.fresh() {
                return true;
            }
            let tick = if later { now } else { state.0 };
            match self.swap(state, State::new(state.generation(), tick, false)) {
                Ok(()) => return true,
                Err(actual) => state = actual,
            }
        }
    }

    /// Ends the session of `seen`, even if it has been used since. On true the caller owns the
    /// slot.
    pub(super) fn end(&self, seen: State) -> bool {
        let mut state = seen;
        while state.generation() == seen.generation() {
            match self.end_unused(state) {
                Ok(()) => return true,
                Err(actual) => state = actual,
            }
        }
        false
    }

    /// Ends the session of `seen` if it has not been used since, or tells the state that was in the
    /// way. On success the caller owns the slot.
    pub(super) fn end_unused(&self, seen: State) -> Result<(), State> {
        let generation = seen.generation().wrapping_add(1);
        self.swap(seen, State::new(generation, seen.0, false))
    }

    fn swap(&self, from: State, to: State) -> Result<(), State> {
        self.state
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(State)
    }
}
