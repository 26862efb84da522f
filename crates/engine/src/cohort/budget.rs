//! What the cohorts of a worker take together: one budget, and each cohort's share of it.
//!
//! A cohort's first part is always there for it. What it needs beyond is lent to it of what all
//! have in common, and comes back when it ends. Where nothing is left to lend, a cohort is *short*.
//! What it keeps for as long as a backend takes, its texts, is then not to be had. Its pages'
//! answers need memory only while a stage runs, and so they wait: one cohort at a time is *first*,
//! may take whatever its answers need, and gives that back before it does anything else (the
//! banker's rule; Dijkstra, EWD 623). So nobody waits for memory of one who waits for a backend.
//!
//! ```text
//!    first part | first part | ... | what all have in common | one cohort's answers
//!    always there, one a context   | lent                    | for the one that is first
//! ```
//!
//! Buffers ask for memory in large steps: what a cohort does for each lane is to compare two
//! numbers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What the cohorts of a worker have in common.
#[derive(Debug)]
pub struct Budget {
    /// Bytes of each cohort that are always there for it.
    first_part: usize,
    /// Bytes that can be lent.
    common: usize,
    /// Bytes that all have taken, those of first parts included.
    taken: Cell<usize>,
    /// Bytes that are lent.
    lent: Cell<usize>,
    /// Whether a cohort is first.
    has_first: Cell<bool>,
}

impl Budget {
    /// Of cohorts that have a first part of so many bytes each, and so many in common.
    pub fn new(first_part: usize, common: usize) -> Rc<Budget> {
        Rc::new(Budget {
            first_part,
            common,
            taken: Cell::new(0),
            lent: Cell::new(0),
            has_first: Cell::new(false),
        })
    }

    /// Bytes of each cohort that are always there for it.
    pub fn first_part(&self) -> usize {
        self.first_part
    }

    /// Bytes that all have taken, those of first parts included.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Bytes that are lent.
    pub fn lent(&self) -> usize {
        self.lent.get()
    }

    /// Bytes that can be lent, those included that are.
    pub fn common(&self) -> usize {
        self.common
    }

    /// Lends so many bytes if it has them.
    fn lend(&self, bytes: usize) -> bool {
        let lent = self.lent.get().checked_add(bytes);
        let lent = lent.filter(|lent| *lent <= self.common);
        if let Some(lent) = lent {
            self.lent.set(lent);
        }
        lent.is_some()
    }
}

/// What a cohort has of its worker's [`Budget`].
#[derive(Debug)]
pub struct Share {
    budget: Rc<Budget>,
    taken: RefCell<Taken>,
}

/// What a cohort's buffers have taken.
#[derive(Debug, Default)]
struct Taken {
    /// All bytes.
    bytes: usize,
    /// Those beyond the first part that are lent.
    lent: usize,
    /// Those beyond that it has because it is first; all of them for answers.
    own: usize,
    is_first: bool,
}

impl Share {
    /// That of a cohort that has nothing yet.
    pub fn new(budget: &Rc<Budget>) -> Rc<Share> {
        Rc::new(Share {
            budget: budget.clone(),
            taken: RefCell::default(),
        })
    }

    /// Bytes that its buffers have.
    pub fn bytes(&self) -> usize {
        self.taken.borrow().bytes
    }

    /// Whether half is left when so many bytes more are taken: of the first part, or of what can be
    /// lent.
    fn has_plenty(&self, more: usize) -> bool {
        let bytes = self.bytes().saturating_add(more);
        bytes <= self.budget.first_part / 2
            || self.budget.lent().saturating_add(more) <= self.budget.common / 2
    }

    /// Takes so many bytes more if they are there, for answers or for texts.
    fn take(&self, more: usize, for_answers: bool) -> bool {
        let taken = &mut *self.taken.borrow_mut();
        let bytes = taken.bytes.saturating_add(more);
        let beyond = bytes.saturating_sub(self.budget.first_part);
        let missing = beyond.saturating_sub(taken.lent + taken.own);
        if missing > 0 {
            if self.budget.lend(missing) {
                taken.lent += missing;
            } else if taken.is_first && for_answers {
                taken.own += missing;
            } else {
                return false;
            }
        }
        taken.bytes = bytes;
        self.budget.taken.set(self.budget.taken() + more);
        true
    }

    /// Gives so many bytes back that were taken.
    fn give_back(&self, bytes: usize) {
        let taken = &mut *self.taken.borrow_mut();
        debug_assert!(bytes <= taken.bytes, "what was taken is given back");
        taken.bytes -= bytes;
        self.budget.taken.set(self.budget.taken() - bytes);
        let beyond = taken.bytes.saturating_sub(self.budget.first_part);
        let surplus = (taken.lent + taken.own).saturating_sub(beyond);
        // So that none of it is left when the answers have given back theirs.
        let own = surplus.min(taken.own);
        let lent = surplus - own;
        taken.own -= own;
        taken.lent -= lent;
        self.budget.lent.set(self.budget.lent() - lent);
    }

    /// Makes this cohort first, if none is. Whether it is now.
    pub fn be_first(&self) -> bool {
        let taken = &mut *self.taken.borrow_mut();
        taken.is_first |= !self.budget.has_first.replace(true);
        taken.is_first
    }

    /// Whether this cohort is first.
    pub fn is_first(&self) -> bool {
        self.taken.borrow().is_first
    }

    /// Another may be first: what the cohort had for its answers is given back.
    pub fn end_first(&self) {
        let taken = &mut *self.taken.borrow_mut();
        debug_assert_eq!(taken.own, 0, "its answers have given back before");
        if std::mem::take(&mut taken.is_first) {
            self.budget.has_first.set(false);
        }
    }

    /// Bytes that are lent to it.
    pub fn lent(&self) -> usize {
        self.taken.borrow().lent
    }
}

/// The least that a buffer asks for at once, where it is there.
const STEP_BYTES: usize = 4096;

/// What a buffer has of its cohort's share.
#[derive(Debug)]
pub(super) struct Lease {
    /// `None`: whatever it asks for.
    share: Option<Rc<Share>>,
    bytes: Cell<usize>,
    /// It asks for no more at once than this, but where it needs more.
    at_once_max: usize,
    /// It is for answers: whose cohort is first has all there is.
    for_answers: bool,
    /// It has asked for more than was there.
    is_short: Cell<bool>,
}

impl Default for Lease {
    /// Of no share: there is always as much as it asks for.
    fn default() -> Self {
        Lease {
            share: None,
            bytes: Cell::new(usize::MAX),
            at_once_max: usize::MAX,
            for_answers: false,
            is_short: Cell::new(false),
        }
    }
}

impl Lease {
    /// Of a share, with nothing yet, for a buffer of usually no more than so many bytes.
    pub(super) fn new(share: &Rc<Share>, usual_max: usize) -> Lease {
        Lease {
            share: Some(share.clone()),
            bytes: Cell::new(0),
            at_once_max: usual_max,
            for_answers: false,
            is_short: Cell::new(false),
        }
    }

    /// The same, for a buffer of answers.
    pub(super) fn for_answers(share: &Rc<Share>, usual_max: usize) -> Lease {
        let mut lease = Lease::new(share, usual_max);
        lease.for_answers = true;
        lease
    }

    /// Whether the buffer may have so many bytes in all. They stay there for it.
    #[inline]
    pub(super) fn covers(&self, bytes: usize) -> bool {
        bytes <= self.bytes.get() || self.grow(bytes)
    }

    #[cold]
    fn grow(&self, bytes: usize) -> bool {
        let had = self.bytes.get();
        let share = self.share.as_ref().expect("it has not all there is");
        // Twice what it had, as its buffer grows, so that it rarely asks; else what it needs, so
        // that no buffer has what another lacks.
        let at_once = had.saturating_mul(2).max(STEP_BYTES);
        let at_once = at_once.min(self.at_once_max).max(bytes);
        let wanted = match share.has_plenty(at_once - had) {
            true => at_once,
            false => bytes,
        };
        let got = (share.take(wanted - had, self.for_answers)).then_some(wanted);
        match got {
            Some(bytes) => self.bytes.set(bytes),
            None => self.is_short.set(true),
        }
        got.is_some()
    }

    /// Whether it has asked for more than was there since this was last asked.
    pub(super) fn take_short(&self) -> bool {
        self.is_short.take()
    }

    /// Gives back what is beyond so many bytes.
    pub(super) fn keep(&self, bytes: usize) {
        if let Some(share) = &self.share
            && bytes < self.bytes.get()
        {
            share.give_back(self.bytes.replace(bytes) - bytes);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_cohort_may_always_go_on() {
        let budget = Budget::new(10, 100);
        let shares: Vec<_> = (0..3).map(|_| Share::new(&budget)).collect();
        let leases: Vec<_> = (shares.iter())
            .map(|share| Lease::for_answers(share, 0))
            .collect();
        assert!(leases[0].covers(10), "a first part is always there");
        assert_eq!(budget.lent(), 0);
        assert!(leases[0].covers(90) && leases[0].covers(20));
        assert_eq!(budget.lent(), 80);
        assert!(!leases[0].take_short());
        assert!(leases[1].covers(30), "as much as is there");
        assert_eq!(budget.lent(), 100);
        assert!(leases[2].covers(10) && !leases[2].covers(11));
        assert!(leases[2].take_short() && !leases[2].take_short());
        assert!(shares[1].be_first() && shares[1].be_first());
        assert!(!shares[2].be_first(), "there is one");
        assert!(leases[1].covers(1_000_000), "it goes on");
        assert!(
            !Lease::new(&shares[1], 0).covers(1),
            "texts have no part in it"
        );
        assert!(!leases[2].covers(11) && !leases[0].covers(91));
        assert_eq!(budget.lent(), 100);
        leases[1].keep(10);
        shares[1].end_first();
        assert_eq!((shares[1].is_first(), budget.lent()), (false, 80));
        assert!(leases[2].covers(11), "it gave back");
        assert!(shares[2].be_first());
    }

    #[test]
    fn who_was_first_keeps_what_is_lent_for_texts() {
        let budget = Budget::new(0, 100);
        let [first, other] = [(); 2].map(|()| Share::new(&budget));
        let [texts, others] = [&first, &other].map(|share| Lease::new(share, 0));
        let answers = Lease::for_answers(&first, 0);
        assert!(others.covers(60) && first.be_first() && texts.covers(40));
        assert!(answers.covers(50) && !texts.covers(41));
        answers.keep(0);
        first.end_first();
        assert_eq!((first.lent(), budget.lent()), (40, 100));
        assert!(!answers.covers(1));
    }

    #[test]
    fn what_a_buffer_had_comes_back_with_its_end() {
        let budget = Budget::new(10, 100);
        let share = Share::new(&budget);
        let leases = [Lease::new(&share, 0), Lease::for_answers(&share, 0)];
        assert!(leases.iter().all(|lease| lease.covers(30)));
        assert_eq!((share.bytes(), budget.lent()), (60, 50));
        let [texts, answers] = leases;
        drop(texts);
        assert_eq!((share.bytes(), budget.lent()), (30, 20));
        drop(answers);
        assert_eq!((share.bytes(), budget.lent()), (0, 0));
    }

    proptest! {
        /// Whatever is asked for and given back, what is lent is what the shares say, and fits.
        #[test]
        fn keeps_its_books(
            steps in prop::collection::vec((0usize..3, 0usize..2, 0usize..200, 0u8..4), 0..200),
        ) {
            let budget = Budget::new(20, 150);
            let shares: Vec<_> = (0..3).map(|_| Share::new(&budget)).collect();
            let leases: Vec<Vec<_>> = (shares.iter())
                .map(|share| vec![Lease::new(share, 30), Lease::for_answers(share, 0)])
                .collect();
            for (cohort, buffer, bytes, step) in steps {
                let (share, lease) = (&shares[cohort], &leases[cohort][buffer]);
                match step {
                    0 => {
                        let others = leases[cohort][1 - buffer].bytes.get();
                        let covers = lease.covers(bytes);
                        let has_all = share.is_first() && lease.for_answers;
                        prop_assert!(covers || !has_all && bytes + others > 20);
                    }
                    1 => lease.keep(bytes),
                    2 => drop(share.be_first()),
                    _ => {
                        leases[cohort][1].keep(0);
                        share.end_first();
                    }
                }
                let (mut lent, mut all) = (0, 0);
                for (share, leases) in shares.iter().zip(&leases) {
                    let bytes: usize = leases.iter().map(|lease| lease.bytes.get()).sum();
                    prop_assert_eq!(share.bytes(), bytes);
                    let taken = share.taken.borrow();
                    prop_assert_eq!(taken.lent + taken.own, bytes.saturating_sub(20));
                    prop_assert!(taken.own == 0 || taken.is_first);
                    lent += taken.lent;
                    all += bytes;
                }
                prop_assert!(shares.iter().filter(|share| share.is_first()).count() <= 1);
                prop_assert!(budget.lent() == lent && lent <= 150);
                prop_assert_eq!(budget.taken(), all);
            }
        }
    }
}
