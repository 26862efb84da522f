//! Scalars: what the best carrier of one has is checked and stored when it is met. What another
//! has, which counts only where those before it have nothing, is remembered until all are read.

use super::lane::{BadParameter, Lane, Value};
use crate::intake::scratch::empty;
use rhythm_engine::program::PageProgram;
use std::ops::Range;

/// See the module's text. It is memory kept from request to request.
#[derive(Debug, Default)]
pub(super) struct Scalars {
    /// Of each the best carrier that has it, by its place among the parameter's, if there is one
    /// yet.
    ranks: Vec<Option<u8>>,
    later: Vec<Later>,
    /// What is remembered, one after the other.
    values: Vec<u8>,
}

/// What a carrier has that is not a scalar's best.
#[derive(Debug)]
struct Later {
    scalar: usize,
    rank: u8,
    value: Result<Range<usize>, &'static str>,
}

impl Scalars {
    /// Begins with a request for a page of so many scalars.
    pub(super) fn begin(&mut self, scalars: usize) {
        self.ranks.clear();
        self.ranks.resize(scalars, None);
    }

    /// Forgets what the request had.
    pub(super) fn rest(&mut self) {
        empty(&mut self.later);
        empty(&mut self.values);
    }

    /// Bytes that it keeps of values.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.values.capacity()
    }

    /// Whether a carrier was met that has this one.
    pub(super) fn has(&self, scalar: usize) -> bool {
        self.ranks[scalar].is_some()
    }

    /// A carrier was met that has this one, which is dealt with elsewhere.
    pub(super) fn met(&mut self, (scalar, rank): (usize, u8)) {
        self.ranks[scalar] = Some(rank);
    }

    /// Takes what a carrier has, unless a better one has something.
    pub(super) fn take(
        &mut self,
        page: &PageProgram,
        (scalar, rank): (usize, u8),
        value: Value<'_>,
        lane: &mut Lane<'_>,
    ) -> Result<(), BadParameter> {
        let known = &mut self.ranks[scalar];
        let value = match *known {
            Some(better) if better < rank => return Ok(()),
            Some(same) if same == rank => value.and(Err("is given twice")),
            _ => value,
        };
        *known = Some(rank);
        if rank == 0 {
            return lane.found(&page.params[scalar], value);
        }
        let is_it = |later: &&Later| (later.scalar, later.rank) == (scalar, rank);
        if self.later.iter().filter(is_it).count() > 1 {
            // That it is given twice is known by now.
            return Ok(());
        }
        let start = self.values.len();
        let value = value.map(|value| {
            self.values.extend_from_slice(value);
            start..self.values.len()
        });
        self.later.push(Later {
            scalar,
            rank,
            value,
        });
        Ok(())
    }

    /// Stores the others: all carriers are read.
    pub(super) fn store(
        &mut self,
        page: &PageProgram,
        lane: &mut Lane<'_>,
    ) -> Result<(), BadParameter> {
        for later in self.later.drain(..) {
            if self.ranks[later.scalar] == Some(later.rank) {
                let value = later.value.map(|range| &self.values[range]);
                lane.found(&page.params[later.scalar], value)?;
            }
        }
        for (param, rank) in page.params.iter().zip(&self.ranks) {
            if rank.is_none() {
                match &param.default {
                    Some(default) => lane.store(param, default.as_bytes())?,
                    None => lane.wrong(param.told, &param.wire_name, "is missing")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cohort, page};
    use super::*;

    #[test]
    fn what_comes_again_and_again_is_remembered_twice() {
        let page = page();
        let mut cohort = cohort(&page);
        let mut lane = Lane {
            lane: cohort.push_lane(),
            cohort: &mut cohort,
        };
        let mut scalars = Scalars::default();
        scalars.begin(page.params.len());
        for _ in 0..1000 {
            let taken = scalars.take(&page, (0, 1), Ok(b"a"), &mut lane);
            assert_eq!(taken, Ok(()));
        }
        assert_eq!(scalars.later.len(), 2);
        let stored = scalars.store(&page, &mut lane);
        assert_eq!(stored, Err(BadParameter::new("v", "is given twice")));
    }
}
