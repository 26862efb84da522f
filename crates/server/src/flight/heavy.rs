//! Heavy: the pages whose cohorts take long, one pass a turn of the loop.
//!
//! An executor ends a pass of a stage when it has done as much as others should wait for
//! ([`Cohort::yields`]). The cohort's page is heavy from then on, until that stage is run whole in
//! one pass: what it has to run waits here, and so does what forms of it, and its passes are short
//! ([`Cohort::hurries`]). When all else that is due was
//! launched, one heavy page has its turn, for one pass, and then the loop has its own: who came
//! meanwhile is read, and launched before the next. Heavy pages have their turns one after the
//! other, whichever has more to run; and they have not all contexts, however many ask for them.
//!
//! [`Cohort::yields`]: rhythm_engine::cohort::Cohort::yields
//! [`Cohort::hurries`]: rhythm_engine::cohort::Cohort::hurries

use crate::flight::cohorts::{CohortKey, Cohorts, Phase};
use rhythm_cohort::ContextId;
use std::collections::{BTreeSet, VecDeque};

/// A page of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageKey {
    epoch: u32,
    page: u32,
}

impl PageKey {
    fn of(key: CohortKey) -> PageKey {
        PageKey {
            epoch: key.epoch,
            page: key.page,
        }
    }

    /// Whether a cohort is of this page.
    pub(crate) fn is_of(self, key: CohortKey) -> bool {
        self == PageKey::of(key)
    }
}

/// What has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeavyTurn {
    /// This cohort's next pass or stage.
    Resume(ContextId),
    /// A cohort of this page, if one is to be launched.
    Launch(PageKey),
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Heavy {
    /// The pages, in the order of their turns, each with its stage that takes long.
    pages: VecDeque<(PageKey, usize)>,
    /// Their cohorts that have something to run, longest first.
    put_off: VecDeque<ContextId>,
    /// How many pages are yet to be asked in this turn of the loop, until one has run something.
    left: usize,
}

impl Heavy {
    /// Whether a cohort's page is heavy: it is not run before it has its turn.
    #[inline]
    pub(crate) fn has(&self, key: CohortKey) -> bool {
        !self.pages.is_empty() && self.stage_of(PageKey::of(key)).is_some()
    }

    fn stage_of(&self, page: PageKey) -> Option<usize> {
        let mut pages = self.pages.iter();
        let (_, stage) = pages.find(|(other, _)| *other == page)?;
        Some(*stage)
    }

    /// A stage of a cohort was run, and `yields` or is over; `is_whole`: that was its only pass.
    #[inline]
    pub(crate) fn ran(&mut self, key: CohortKey, stage: usize, yields: bool, is_whole: bool) {
        if self.pages.is_empty() && !yields {
            return;
        }
        let page = PageKey::of(key);
        match self.stage_of(page) {
            None if yields => self.pages.push_back((page, stage)),
            Some(long) if is_whole && long == stage => self.forget(page),
            _ => {}
        }
    }

    /// A page is heavy no more, or nothing was to be run of it in its turn.
    pub(crate) fn forget(&mut self, page: PageKey) {
        self.pages.retain(|(other, _)| *other != page);
    }

    /// A busy cohort waits until its page has its turn.
    pub(crate) fn put_off(&mut self, cohorts: &mut Cohorts, id: ContextId) {
        cohorts.set_phase(id, Phase::Ready);
        self.put_off.push_back(id);
    }

    /// The turn of the loop is over.
    #[inline]
    pub(crate) fn turn_ended(&mut self) {
        self.left = self.pages.len().max(usize::from(!self.put_off.is_empty()));
    }

    /// What has its turn now, if nothing had it yet in this turn of the loop. Where nothing comes
    /// of it, this is to be asked again.
    pub(crate) fn next(&mut self, cohorts: &Cohorts) -> Option<HeavyTurn> {
        self.left = self.left.checked_sub(1)?;
        // Of a page that is heavy no more there may be some left.
        let of_none = |id: &ContextId| !self.has(cohorts.pool.key(*id));
        let first = self.put_off.iter().position(of_none);
        if let Some(id) = first.and_then(|at| self.put_off.remove(at)) {
            self.had_turn();
            return Some(HeavyTurn::Resume(id));
        }
        self.pages.rotate_left(usize::from(!self.pages.is_empty()));
        let (page, _) = *self.pages.back()?;
        let of_page = |id: &ContextId| page.is_of(cohorts.pool.key(*id));
        let first = self.put_off.iter().position(of_page);
        match first.and_then(|at| self.put_off.remove(at)) {
            Some(id) => {
                self.had_turn();
                Some(HeavyTurn::Resume(id))
            }
            None => Some(HeavyTurn::Launch(page)),
        }
    }

    /// A page has had its turn.
    pub(crate) fn had_turn(&mut self) {
        self.left = 0;
    }

    /// Whether something is to be run as soon as the loop has another turn.
    pub(crate) fn is_waiting(&self, cohorts: &Cohorts) -> bool {
        let is_full = || {
            let mut full = cohorts.pool.full();
            full.any(|id| self.has(cohorts.pool.key(id)))
        };
        !self.put_off.is_empty() || !self.pages.is_empty() && is_full()
    }

    /// What must hold between two events.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn check(&self, cohorts: &Cohorts) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for &id in &self.put_off {
            let phase = cohorts.phase(id);
            if phase != Phase::Ready || !seen.insert(id) {
                return Err(format!(
                    "context {id} is put off, and {phase:?} or twice so"
                ));
            }
        }
        Ok(())
    }
}
