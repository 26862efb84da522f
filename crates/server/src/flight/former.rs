//! Former: which cohort is launched when, and who waits for a context (paper, section 3.1).
//!
//! In: cohorts that take lanes, and the time. Out: cohorts to be launched, each with the reason.

use crate::flight::cohorts::{CohortKey, Cohorts, since_origin};
use crate::site::epochs::Epochs;
use rhythm_cohort::{Circumstances, ContextId, Formation, LaunchReason};
use rhythm_http::Stall;
use rhythm_net::{ConnectionId, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// What else decides about launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook<'a> {
    /// The epochs that requests belong to now: others take no more lanes.
    pub(crate) epochs: &'a Epochs,
    /// No request comes after those that are here.
    pub(crate) draining: bool,
    /// No stage is under way on the device.
    pub(crate) idle: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Former {
    formation: Formation,
    /// Connections that wait for a free context, longest first: of heavy pages, and of others. For
    /// those there may be one where there is none for a heavy page.
    waiters: [VecDeque<ConnectionId>; 2],
    /// Connections that wait for memory, longest first. Others pass them: they need more than a
    /// context always has.
    short: VecDeque<Short>,
    /// Since when the one waits for memory that tries again.
    trying: Option<Time>,
}

/// A connection that waits for memory.
#[derive(Clone, Copy, Debug)]
struct Short {
    id: ConnectionId,
    since: Time,
    /// Bytes that others had of it when it found none last: it tries again when they have less.
    lent: usize,
}

/// Longest that a request waits for memory that others have, but for as long as those take to end
/// that have it then. It is told to come again: who comes after it may take what it waits for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Former {
    /// Nobody waits yet.
    pub(crate) fn new(formation: Formation) -> Former {
        Former {
            formation,
            waiters: Default::default(),
            short: VecDeque::new(),
            trying: None,
        }
    }

    /// A full cohort to be launched, of those that `may` be.
    #[inline]
    pub(crate) fn next_full(
        &self,
        cohorts: &Cohorts,
        may: impl Fn(CohortKey) -> bool,
    ) -> Option<ContextId> {
        let pool = &cohorts.pool;
        pool.full().find(|&id| may(pool.key(id)))
    }

    /// A cohort to be launched now, of those that `may` be: full ones first, then the oldest.
    pub(crate) fn next_launch(
        &self,
        cohorts: &Cohorts,
        outlook: Outlook<'_>,
        now: Time,
        may: impl Fn(CohortKey) -> bool,
    ) -> Option<(ContextId, LaunchReason)> {
        if let Some(id) = self.next_full(cohorts, &may) {
            return Some((id, LaunchReason::Full));
        }
        let pool = &cohorts.pool;
        // Cohorts of stragglers go on when they have their answers.
        let mut new = pool.forming().filter(|&id| {
            let key = pool.key(id);
            key.stage == 0 && may(key)
        });
        new.find_map(|id| {
            let reason = self.formation.decide(Circumstances {
                lanes: pool.cohort(id).len(),
                waited: since_origin(now).saturating_sub(pool.since(id)),
                idle: outlook.idle,
                draining: outlook.draining || !outlook.epochs.has(pool.key(id).epoch),
            });
            reason.map(|reason| (id, reason))
        })
    }

    /// When the oldest cohort that forms is to be launched at the latest.
    pub(crate) fn wake_at(&self, cohorts: &Cohorts) -> Option<Time> {
        let pool = &cohorts.pool;
        (pool.forming().filter(|&id| pool.key(id).stage == 0))
            .map(|id| Time::ZERO + pool.since(id) + self.formation.delay)
            .min()
    }

    /// A connection has stalled, of a request for a page that is `heavy` or not, with so much
    /// memory `lent` to others. Whether it waits for something here: a context, or memory. One that
    /// tried again keeps its place among those that wait for memory.
    pub(crate) fn wait(
        &mut self,
        id: ConnectionId,
        stall: Stall,
        heavy: bool,
        lent: usize,
        now: Time,
    ) -> bool {
        let short = |since, lent| Short { id, since, lent };
        match (stall, self.trying.take()) {
            (Stall::Context, None) => self.waiters[usize::from(heavy)].push_back(id),
            (Stall::Memory, None) => self.short.push_back(short(now, lent)),
            (Stall::Memory, Some(since)) => self.short.push_front(short(since, lent)),
            // It was not for memory.
            (Stall::Context, Some(since)) => self.short.push_front(short(since, usize::MAX)),
            _ => return false,
        }
        true
    }

    /// How many connections wait for a context, those included that are gone.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.iter().map(VecDeque::len).sum()
    }

    /// How many connections wait for memory, those included that are gone.
    pub(crate) fn short(&self) -> usize {
        self.short.len()
    }

    /// The connection that has waited for memory longest, if less is `lent` than when it found none
    /// last, or it has waited long enough; it tries again. Those that are gone are forgotten: what
    /// they lacked is nobody's measure.
    pub(crate) fn next_short(
        &mut self,
        lent: impl FnOnce() -> usize,
        is_open: impl Fn(ConnectionId) -> bool,
        now: Time,
    ) -> Option<ConnectionId> {
        while self.short.front().is_some_and(|it| !is_open(it.id)) {
            self.short.pop_front();
        }
        let first = self.short.front()?;
        if lent() >= first.lent && now.since(first.since) < PATIENCE {
            return None;
        }
        let Short { id, since, .. } = self.short.pop_front()?;
        self.trying = Some(since);
        Some(id)
    }

    /// Whether the request at hand has waited for memory long enough.
    #[inline]
    pub(crate) fn gives_up(&self, now: Time) -> bool {
        self.trying
            .is_some_and(|since| now.since(since) >= PATIENCE)
    }

    /// The request at hand waits no more.
    #[inline]
    pub(crate) fn taken(&mut self) {
        self.trying = None;
    }

    /// Forgets connections that are gone if they may be the most of those that wait: as long as no
    /// context is free, nothing else takes them away. `open` connections there are in all.
    pub(crate) fn forget_gone(&mut self, open: usize, is_open: impl Fn(ConnectionId) -> bool) {
        if self.waiting() > 2 * open {
            for waiters in &mut self.waiters {
                waiters.retain(|id| is_open(*id));
            }
        }
        if self.short.len() > 2 * open {
            self.short.retain(|short| is_open(short.id));
        }
    }

    /// How many connections wait for a context, of heavy pages or of others.
    pub(crate) fn waiting_of(&self, heavy: bool) -> usize {
        self.waiters[usize::from(heavy)].len()
    }

    /// Of these, the connection that has waited longest; it waits no more.
    pub(crate) fn next_waiter(&mut self, heavy: bool) -> Option<ConnectionId> {
        self.waiters[usize::from(heavy)].pop_front()
    }

    /// The connection that began to wait last found no context again: it keeps its place before
    /// the others.
    pub(crate) fn first_again(&mut self, heavy: bool) {
        debug_assert_ne!(self.waiting_of(heavy), 0);
        self.waiters[usize::from(heavy)].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_cohort::Policy;

    #[test]
    fn connections_that_are_gone_do_not_pile_up() {
        let mut former = Former::new(Formation {
            policy: Policy::WorkConserving,
            lanes_max: 1,
            delay: Duration::ZERO,
        });
        // One stays; of the others each goes away while it waits.
        let id = |slot| ConnectionId::new(slot, 0);
        for slot in 0..100 {
            former.wait(id(slot), Stall::Context, false, 0, Time::ZERO);
            former.forget_gone(2, |at| at == id(0) || at == id(slot));
            assert!(former.waiting() <= 4, "{slot}");
        }
        // Those that are there keep their places.
        assert_eq!(former.next_waiter(false), Some(id(0)));
    }

    #[test]
    fn who_waits_for_memory_keeps_its_place_and_gives_up_at_last() {
        let mut former = Former::new(Formation {
            policy: Policy::WorkConserving,
            lanes_max: 1,
            delay: Duration::ZERO,
        });
        let id = |slot| ConnectionId::new(slot, 0);
        for slot in 0..3 {
            assert!(former.wait(id(slot), Stall::Memory, false, 9, Time::ZERO));
        }
        assert!(!former.wait(id(3), Stall::Room, false, 9, Time::ZERO));
        let later = Time::ZERO + PATIENCE;
        let early = Time::ZERO + (PATIENCE - Duration::from_nanos(1));
        assert!(!former.gives_up(later), "none tries again");
        for lent in [8, 5] {
            assert_eq!(former.next_short(|| lent, |_| true, early), Some(id(0)));
            assert!(!former.gives_up(early));
            assert!(former.wait(id(0), Stall::Memory, false, lent, early));
            let again = former.next_short(|| lent, |_| true, early);
            assert_eq!(again, None, "it would find as little");
        }
        assert_eq!(former.next_short(|| 5, |_| true, later), Some(id(0)));
        assert!(former.gives_up(later));
        former.taken();
        assert!(
            !former.gives_up(later),
            "what comes behind it has not waited"
        );
        assert_eq!(former.next_short(|| 8, |_| true, early), Some(id(1)));
        assert_eq!(former.short(), 1);
        assert!(former.wait(id(1), Stall::Context, false, 8, early));
        assert_eq!(
            (former.waiting(), former.short()),
            (0, 2),
            "nor has it a context"
        );
        assert_eq!(former.next_short(|| 8, |_| true, early), Some(id(1)));
        former.taken();
        // One that is gone lacked more than the next.
        for (slot, lent) in [(5, 3), (6, 9)] {
            assert!(former.wait(id(slot), Stall::Memory, false, lent, Time::ZERO));
        }
        assert_eq!(former.next_short(|| 5, |_| true, early), Some(id(2)));
        former.taken();
        assert_eq!(former.next_short(|| 5, |_| true, early), None);
        let is_open = |it| it != id(5);
        assert_eq!(former.next_short(|| 5, is_open, early), Some(id(6)));
    }
}
