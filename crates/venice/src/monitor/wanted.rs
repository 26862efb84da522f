//! What borrowers want that nobody could lend yet, in the order in which it is asked for again.

use crate::name::NodeName;
use crate::resource::Share;
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Until when something waits at most where nobody has so much; and of several with one time, which
/// came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) until: Time,
    number: u64,
}

/// What a borrower wants, and who was asked for it. It may wait for donors that are on their way.
pub(super) struct Wanted {
    pub(super) borrower: NodeName,
    pub(super) request: u64,
    pub(super) share: Share,
    /// Who was asked already.
    pub(super) tried: Vec<NodeName>,
    /// Its place among those who wait, however often it waits.
    pub(super) turn: Turn,
}

/// Those who wait are asked for again, in their order.
pub(super) struct Asking {
    pub(super) since: Time,
    /// The last who was; none: the first is next.
    pub(super) behind: Option<Turn>,
    /// All are to be once more: something came that those in front were not asked for.
    pub(super) again: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Waiting {
    rows: BTreeMap<Turn, Wanted>,
    by_borrower: BTreeMap<NodeName, BTreeSet<Turn>>,
    last: u64,
}

impl Waiting {
    /// The turn of what came last.
    pub(super) fn turn(&mut self, until: Time) -> Turn {
        self.last += 1;
        let number = self.last;
        Turn { until, number }
    }

    pub(super) fn insert(&mut self, wanted: Wanted) {
        let turns = self.by_borrower.entry(wanted.borrower.clone());
        turns.or_default().insert(wanted.turn);
        self.rows.insert(wanted.turn, wanted);
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// How much of it a node wants.
    pub(super) fn count_of(&self, borrower: &NodeName) -> usize {
        self.by_borrower.get(borrower).map_or(0, BTreeSet::len)
    }

    /// Until when the first waits.
    pub(super) fn until(&self) -> Option<Time> {
        self.rows.keys().next().map(|turn| turn.until)
    }

    /// Takes the first behind this one; the first of all where there is none.
    pub(super) fn take_behind(&mut self, turn: Option<Turn>) -> Option<Wanted> {
        let behind = turn.map_or(Bound::Unbounded, Bound::Excluded);
        let next = *self.rows.range((behind, Bound::Unbounded)).next()?.0;
        self.take(next)
    }

    /// Takes the first that has waited too long.
    pub(super) fn take_late(&mut self, now: Time) -> Option<Wanted> {
        let first = *self.rows.keys().next()?;
        (first.until <= now).then(|| self.take(first)).flatten()
    }

    fn take(&mut self, turn: Turn) -> Option<Wanted> {
        let wanted = self.rows.remove(&turn)?;
        if let Some(turns) = self.by_borrower.get_mut(&wanted.borrower) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.by_borrower.remove(&wanted.borrower);
            }
        }
        Some(wanted)
    }

    /// A node waits no more.
    pub(super) fn forget(&mut self, borrower: &NodeName) {
        for turn in self.by_borrower.remove(borrower).into_iter().flatten() {
            self.rows.remove(&turn);
        }
    }
}
