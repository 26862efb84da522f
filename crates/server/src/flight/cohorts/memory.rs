//! The memory of cohorts: what they may take together, who waits for some, and what free contexts
//! keep.
//!
//! Nobody waits for memory of one who waits for a backend, but for a moment:
//!
//! - A cohort that finds none for its pages' answers waits in a queue, to run its stage again for
//!   the lanes that were left out. It needs that memory no longer than the stage runs, and once no
//!   other does it may take whatever its answers need.
//! - A cohort asks its backend when there is memory for answers as long as the page's were of late.
//!   It waits for that in the same queue, for [`PATIENCE`] at most, and then asks whatever there
//!   is. An answer for which there is none fails its lane (`MemoryShort`, 503).
//! - Of a page that has not been answered yet, no more lanes are in a cohort than find much memory
//!   each; but those that have waited for as long come together whatever there is, lest calls that
//!   hang take all contexts.

use super::{Cohorts, Flight, Needs, NotOpen, Phase};
use crate::site::epoch::Epoch;
use rhythm_cohort::{ContextId, ContextState};
use rhythm_engine::cohort::Pass;
use rhythm_engine::program::PageProgram;
use rhythm_net::Time;
use std::time::Duration;

/// A free context keeps this much for as long as there is no need elsewhere.
const KEPT_BYTES: usize = 256 << 10;

/// And more for so long.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// With so much taken by all cohorts, one that ends keeps nothing for the next, and one that waits
/// for its backend nothing of what its pages' answers took: contexts that were large in turn would
/// else have all at once what one of them needs at a time.
const KEPT_SUM_BYTES: usize = 16 << 20;

/// What a lane of a page that nothing is known of may take: this part of what is always there for a
/// cohort.
const UNKNOWN_SHARE: usize = 2;

/// Longest that a cohort waits for memory before it asks its backend, and for its backend before it
/// shares memory with others that may not be enough.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a stage that a cohort has run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextPass {
    /// All lanes have run it.
    Over,
    /// It is to be run again, for those that were left out.
    Again,
    /// The same, when its page has its turn again.
    Yield,
    /// The same, once there is memory.
    Wait,
    /// Those that were left out have failed.
    GivenUp,
}

impl Flight {
    /// Until when its cohort waits for memory before it asks its backend, if it waits.
    fn short_until(&self) -> Option<Time> {
        Some(self.short_since? + PATIENCE)
    }
}

impl Cohorts {
    /// Whether a cohort has room for texts of so many bytes, and for so many that are kept of their
    /// requests, for the log and for conditions.
    #[inline]
    pub(super) fn reserve(&self, id: ContextId, texts: usize, kept: usize) -> bool {
        self.pool.cohort(id).arena.reserve(texts)
            && self.flights[id as usize].requests.reserve(kept)
    }

    /// Whether there is memory for all texts that so many lanes take by their end, if they are as
    /// long as the page's were of late. It stays there for the cohort; where nothing is known of
    /// the page, it is enough that much is there now.
    #[inline]
    pub(super) fn expects(&self, id: ContextId, epoch: &Epoch, page: u32, lanes: usize) -> bool {
        let Some(texts) = epoch.sizes(page).texts() else {
            let first_part = self.budget.first_part();
            let much = lanes.saturating_mul(first_part / UNKNOWN_SHARE);
            let left = self.budget.common() - self.budget.lent();
            return much <= first_part.saturating_add(left);
        };
        let of_lanes = lanes.saturating_mul(texts);
        let bytes = of_lanes.saturating_add(epoch.program(page).texts.len());
        self.pool.cohort(id).arena.expects(bytes)
    }

    /// Whether a cohort has room for stragglers of another beside those that it waits with: for
    /// what they have, and for answers as long as the page's were of late, or much for each where
    /// nothing is known of the page. Of such that is not asked for ever, since its calls may hang,
    /// and would then take all contexts.
    pub(crate) fn has_room_for(
        &self,
        id: ContextId,
        from: ContextId,
        needs: Needs,
        now: Time,
    ) -> bool {
        let lanes = self.pool.cohort(id).len() + needs.lanes;
        let (epoch, page) = (
            self.flights[from as usize].epoch(),
            self.pool.key(from).page,
        );
        lanes <= self.waiting_lanes_max()
            && self.reserve(id, needs.bytes, needs.kept)
            && (self.expects(id, epoch, page, lanes)
                || epoch.sizes(page).texts().is_none() && self.has_waited(from, now))
    }

    /// Whether a cohort has waited for its backend for long.
    fn has_waited(&self, id: ContextId, now: Time) -> bool {
        match self.flights[id as usize].phase {
            Phase::Backend(wait) => now.since(wait.asked) >= PATIENCE,
            _ => false,
        }
    }

    /// Empties a cohort that has ended: what it does not keep is there for others.
    pub(super) fn rest(&mut self, id: ContextId) {
        self.end_first(id);
        let (cohort, flight) = self.pair_mut(id);
        cohort.rest();
        flight.requests.rest();
        flight.short_since = None;
        if self.is_much_taken() {
            self.forget(id);
        }
    }

    /// Whether cohorts have so much that none is kept for the next.
    fn is_much_taken(&self) -> bool {
        self.budget.taken() > KEPT_SUM_BYTES
    }

    /// Another may be first, if this cohort is, whose finished lanes are answered. Whether it was.
    fn end_first(&mut self, id: ContextId) -> bool {
        let was_first = self.flights[id as usize].share.is_first();
        if was_first {
            self.give_output_back(id);
            self.flights[id as usize].share.end_first();
        }
        was_first
    }

    /// Gives the memory of the answers of a cohort back, whose finished lanes are answered.
    fn give_output_back(&mut self, id: ContextId) {
        self.pool.cohort_mut(id).give_output_back();
        self.gave_back = true;
    }

    /// How the stage goes on that a cohort has run last, whose finished lanes are answered. Where
    /// it is short though it was first, it is texts that there is no memory for, and the lanes that
    /// need them fail: they are to be answered, and this is to be asked again.
    pub(crate) fn next_pass(&mut self, id: ContextId) -> NextPass {
        let go = self.pool.cohort_mut(id).next_pass();
        match go {
            Pass::Again => NextPass::Again,
            Pass::Yield => {
                self.end_first(id);
                NextPass::Yield
            }
            Pass::Over => {
                self.end_first(id);
                NextPass::Over
            }
            Pass::Short if self.end_first(id) => {
                self.pool.cohort_mut(id).give_up_pass();
                NextPass::GivenUp
            }
            Pass::Short => NextPass::Wait,
        }
    }

    /// Whether a cohort may ask its backend now: there is memory for the answers that are expected,
    /// or no more to come from others, or it has waited for it long enough.
    pub(crate) fn may_ask(&mut self, id: ContextId, now: Time) -> bool {
        let page = self.pool.key(id).page;
        let flight = &self.flights[id as usize];
        let is_over = flight.short_until().is_some_and(|until| until <= now);
        let (epoch, lanes) = (flight.epoch().clone(), self.pool.cohort(id).len());
        if self.is_scarce() || self.is_much_taken() {
            // Answers of backends, its own and others', need it more.
            self.give_output_back(id);
        }
        if self.expects(id, &epoch, page, lanes) {
            return true;
        }
        self.give_output_back(id);
        self.forget_free();
        self.expects(id, &epoch, page, lanes) || self.others_have_none(id) || is_over
    }

    /// Whether half of what all have in common is lent.
    fn is_scarce(&self) -> bool {
        2 * self.budget.lent() >= self.budget.common()
    }

    /// Whether nothing is lent to others.
    fn others_have_none(&self, id: ContextId) -> bool {
        self.budget.lent() == self.flights[id as usize].share.lent()
    }

    /// Bytes that are lent of what all have in common.
    pub(crate) fn lent(&self) -> usize {
        self.budget.lent()
    }

    /// The same, once free contexts keep none of it.
    pub(crate) fn lent_to_busy(&mut self) -> usize {
        self.forget_free();
        self.budget.lent()
    }

    /// A cohort found no memory: it waits for others to give some back, or to be first.
    pub(crate) fn wait_for_memory(&mut self, id: ContextId, now: Time) {
        self.set_phase(id, Phase::Short);
        self.give_output_back(id);
        let flight = &mut self.flights[id as usize];
        flight.short_since.get_or_insert(now);
        match std::mem::take(&mut flight.was_next) {
            true => self.short.push_front(id),
            false => self.short.push_back(id),
        }
        self.gave_back = false;
    }

    /// It waits for memory no more.
    pub(crate) fn found_memory(&mut self, id: ContextId) {
        self.flights[id as usize].short_since = None;
    }

    /// A cohort that waited for memory and is to try again: the one that has waited longest, where
    /// others have given back; else one that can be first, or has waited long enough.
    pub(crate) fn next_with_memory(&mut self, now: Time) -> Option<ContextId> {
        if self.short.is_empty() {
            return None;
        }
        let gave_back = self.gave_back || self.forget_free();
        let may_go_on = |&id: &ContextId| {
            let flight = &self.flights[id as usize];
            match self.pool.cohort(id).is_between_passes() {
                true => flight.share.be_first(),
                false => flight.short_until().is_some_and(|until| until <= now),
            }
        };
        let at = match gave_back {
            true => 0,
            false => self.short.iter().position(may_go_on)?,
        };
        let id = self.short.remove(at)?;
        self.flights[id as usize].was_next = at == 0;
        Some(id)
    }

    /// When the first of the cohorts that wait for memory asks its backend whatever there is.
    pub(crate) fn short_until(&self) -> Option<Time> {
        let asks = |id: &&ContextId| !self.pool.cohort(**id).is_between_passes();
        let untils = self.short.iter().filter(asks);
        untils
            .filter_map(|id| self.flights[*id as usize].short_until())
            .min()
    }

    /// Whether there is room after all in an empty cohort of a page that found none: what it kept
    /// of cohorts before may be of no use to it.
    ///
    /// # Errors
    /// Others have it, which will end; or nobody has, and it will never be there.
    #[cold]
    pub(super) fn find_memory(
        &mut self,
        id: ContextId,
        program: &PageProgram,
        texts: usize,
        kept: usize,
    ) -> Result<(), NotOpen> {
        let (cohort, flight) = self.pair_mut(id);
        cohort.rest();
        cohort.forget();
        flight.requests.forget();
        cohort.reset(program);
        self.forget_free();
        if self.reserve(id, texts, kept) {
            return Ok(());
        }
        match self.others_have_none(id) {
            true => Err(NotOpen::TooLarge),
            false => Err(NotOpen::NoMemory),
        }
    }

    /// Gives back what is kept of earlier cohorts: by a cohort that forms, for its answers, and by
    /// free contexts. Whether that was anything for this cohort.
    #[cold]
    pub(super) fn give_back_kept(&mut self, id: ContextId) -> bool {
        let before = self.flights[id as usize].share.bytes();
        self.give_output_back(id);
        self.forget_free() || self.flights[id as usize].share.bytes() < before
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
    pub(super) fn forget(&mut self, id: ContextId) {
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
        let runs = |&id: &ContextId| self.pool.cohort(id).is_between_passes();
        if firsts == 0 && self.short.iter().any(runs) {
            return Err("cohorts wait to run, and none is first".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::cohorts::{CohortBytes, CohortKey};

    #[test]
    fn what_contexts_keep_for_the_next_cohorts_is_bounded_together() {
        const CONTEXTS: usize = 16;
        let texts = vec![b'x'; KEPT_SUM_BYTES / CONTEXTS * 2];
        let bytes = CohortBytes {
            arena_max: 1 << 30,
            first_part: 1 << 30,
            common_max: 0,
        };
        let mut cohorts = Cohorts::new(CONTEXTS, 0, 1, bytes);
        let ids: Vec<ContextId> = (0..CONTEXTS as u32)
            .map(|page| {
                let key = CohortKey {
                    epoch: 0,
                    page,
                    stage: 0,
                };
                let id = cohorts.pool.open(key, Duration::ZERO, |_| {});
                let id = id.expect("one is free");
                cohorts.pool.cohort_mut(id).arena.push(&texts);
                id
            })
            .collect();
        ids.iter().for_each(|id| cohorts.free(*id));
        let kept = ids.iter().map(|id| cohorts.pool.cohort(*id).capacity());
        let kept: usize = kept.sum();
        assert!((texts.len()..=KEPT_SUM_BYTES).contains(&kept), "{kept}");
        assert_eq!(cohorts.check_memory(), Ok(()));
    }
}
