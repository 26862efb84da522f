//! The memory of cohorts: what they may take together, who waits for some, and what free contexts
//! keep.
//!
//! A cohort that finds none waits in a queue, to run its stage again for the lanes that were left
//! out, or to ask its backend. The one that has waited longest tries again when a cohort has ended,
//! and may take whatever a cohort may once no other may. So a cohort that waits is behind one that
//! does not wait for memory, and nobody waits for ever.

use super::{Cohorts, Phase};
use rhythm_cohort::{ContextId, ContextState};
use rhythm_engine::cohort::Go;
use rhythm_engine::device::LaneLimits;
use rhythm_net::Time;
use std::time::Duration;

/// What a pipeline's cohorts may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortBytes {
    /// Most of a cohort's texts; likewise of its queries', of its answers but for one alone, and of
    /// what is kept of its requests.
    pub arena_max: usize,
    /// Of all these, what is always there for each context.
    pub first_part: usize,
    /// What all contexts may take beyond that together, but for one at a time.
    pub common_max: usize,
}

impl CohortBytes {
    /// The most of so many contexts, whose lanes have these limits.
    pub(crate) fn most(&self, contexts: usize, limits: LaneLimits) -> usize {
        // Beside runs lie segments: of short ones a quarter, of long ones a sixteenth.
        let (arena, body) = (self.arena_max, limits.body_bytes_max);
        let of_first = [arena.saturating_mul(4), arena / 4, body, body / 16];
        of_first
            .into_iter()
            .chain([self.common_max, contexts.saturating_mul(self.first_part)])
            .fold(0, usize::saturating_add)
    }
}

/// A free context keeps this much for as long as there is no need elsewhere.
const KEPT_BYTES: usize = 256 << 10;

/// And more for so long.
const KEPT_FOR: Duration = Duration::from_secs(1);

impl Cohorts {
    /// Whether a cohort has room for texts of so many bytes, and for what is kept of their requests:
    /// as much at most for the log and for conditions, both.
    #[inline]
    pub(super) fn has_room(&self, id: ContextId, texts: usize, kept: usize) -> bool {
        self.pool.cohort(id).arena.has_room(texts)
            && self.flights[id as usize].requests.has_room(kept)
    }

    /// Empties a cohort that has ended: what it does not keep is there for others.
    pub(super) fn rest(&mut self, id: ContextId) {
        let (cohort, flight) = self.pair_mut(id);
        cohort.rest();
        flight.requests.rest();
        if flight.share.end().is_err() {
            cohort.forget();
            flight.requests.forget();
            let ended = flight.share.end();
            debug_assert_eq!(ended, Ok(()), "it keeps nothing");
        }
    }

    /// How the stage goes on that a cohort has run last, whose finished lanes are answered.
    pub(crate) fn next_go(&mut self, id: ContextId) -> Go {
        self.pool.cohort_mut(id).next_go()
    }

    /// Whether a cohort is not to ask its backend now: what is left is for the answers that others
    /// wait for.
    pub(crate) fn is_scarce_for(&self, id: ContextId) -> bool {
        self.is_scarce() && !self.flights[id as usize].share.is_first()
    }

    /// Bytes that are lent of what all have in common.
    pub(crate) fn lent(&self) -> usize {
        self.budget.lent()
    }

    /// Whether half of what all have in common is lent.
    fn is_scarce(&self) -> bool {
        2 * self.budget.lent() >= self.budget.common()
    }

    /// A cohort found no memory: it waits for others to give some back, or to be first.
    pub(crate) fn wait_for_memory(&mut self, id: ContextId) {
        self.is_now(id, Phase::Short);
        let flight = &mut self.flights[id as usize];
        match std::mem::take(&mut flight.was_next) {
            true => self.short.push_front(id),
            false => self.short.push_back(id),
        }
        self.gave_back = false;
    }

    /// A cohort that waited for memory and is to try again: the one that has waited longest, where
    /// none is first or others have given back.
    pub(crate) fn next_with_memory(&mut self) -> Option<ContextId> {
        let &id = self.short.front()?;
        let found = self.gave_back && !self.is_scarce()
            || self.forget_free()
            || self.flights[id as usize].share.be_first();
        if !found {
            return None;
        }
        self.short.pop_front();
        self.flights[id as usize].was_next = true;
        Some(id)
    }

    /// Whether there is room after all in an empty cohort that found none: with what free contexts
    /// keep, or as the first. Else others have it, which will end.
    #[cold]
    pub(super) fn finds_memory(&mut self, id: ContextId, bytes: usize) -> bool {
        self.forget_free();
        self.has_room(id, bytes, bytes)
            || self.short.is_empty()
                && self.flights[id as usize].share.be_first()
                && self.has_room(id, bytes, bytes)
    }

    /// Gives back what free contexts keep. Whether anything was lent of it.
    fn forget_free(&mut self) -> bool {
        let before = self.budget.lent();
        for id in 0..self.pool.len() as ContextId {
            if self.pool.state(id) == ContextState::Free {
                self.forget(id);
            }
        }
        self.budget.lent() < before
    }

    /// A free context gives back what it keeps.
    fn forget(&mut self, id: ContextId) {
        let (cohort, flight) = self.pair_mut(id);
        cohort.forget();
        flight.requests.forget();
        flight.keeps_since = None;
    }

    /// Contexts that have been free for a while give back what they keep, where that is much.
    /// Whether there are others that keep some, and will.
    pub(crate) fn forget_unused(&mut self, now: Time) -> bool {
        let mut any = false;
        for id in 0..self.pool.len() as ContextId {
            if self.pool.state(id) != ContextState::Free {
                continue;
            }
            let (cohort, flight) = self.pair_mut(id);
            if cohort.capacity() + flight.requests.capacity() <= KEPT_BYTES {
                continue;
            }
            let since = *flight.keeps_since.get_or_insert(now);
            if now.since(since) >= KEPT_FOR {
                self.forget(id);
            } else {
                any = true;
            }
        }
        any
    }

    /// What must hold between two events.
    ///
    /// # Errors
    /// What does not hold.
    pub(super) fn check_memory(&self) -> Result<(), String> {
        let (lent, common) = (self.budget.lent(), self.budget.common());
        if lent > common {
            return Err(format!("{lent} bytes are lent of {common}"));
        }
        let firsts = self.flights.iter().filter(|flight| flight.share.is_first());
        let firsts = firsts.count();
        if firsts > 1 {
            return Err(format!("{firsts} cohorts are first"));
        }
        if firsts == 0 && !self.short.is_empty() && !self.freed {
            return Err("cohorts wait for memory, and none is first".to_owned());
        }
        Ok(())
    }
}
