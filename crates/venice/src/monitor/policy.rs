//! Who is asked to lend: the allocator of the paper's section 5.3.
//!
//! There, "the allocator should consider distance between potential donor and recipient, the nature
//! of the sharing (and thus bandwidth demand), and existing traffic over involved links", and "our
//! current algorithm only considers distance". [`ByDistance`] is that; [`ByDistanceAndLoad`] looks
//! at the rest, too, among nodes that are about as far.

use crate::name::NodeName;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// A node that has enough idle.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub node: NodeName,
    /// In how many of the levels of places it is apart from the borrower; 0 where a place is not
    /// known.
    pub hops: usize,
    /// Of the link between them, if it is known.
    pub latency: Option<Duration>,
    /// Of the link, in bytes a second, if it is known.
    pub bandwidth: Option<u64>,
    /// Tests of the link without an answer, of 1000.
    pub loss_permille: u16,
    /// Loans of which it is the lender.
    pub loans: usize,
    /// Loans between it and this borrower.
    pub loans_here: usize,
    /// What it has idle beyond what is wanted, of that kind.
    pub left: u64,
}

/// A way to choose.
pub trait Policy: Send + Sync {
    /// Its name, as settings have it.
    fn name(&self) -> &'static str;

    /// Which of these is asked first; there is at least one.
    fn choose<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate>;
}

impl Policy for Arc<dyn Policy> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn choose<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        (**self).choose(candidates)
    }
}

/// The paper's: the nearest.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByDistance;

/// The nearest; among those that are about as near, the one with the least lent, then with the
/// widest link.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByDistanceAndLoad;

/// Times are about alike within a factor of two. A link that is not known is further than any that
/// is.
fn class(latency: Option<Duration>) -> u32 {
    latency.map_or(u32::MAX, |latency| latency.as_micros().max(1).ilog2())
}

impl Policy for ByDistance {
    fn name(&self) -> &'static str {
        "distance"
    }

    fn choose<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        candidates.iter().min_by_key(|candidate| {
            let latency = candidate.latency.unwrap_or(Duration::MAX);
            (candidate.hops, latency, candidate.node.clone())
        })
    }
}

impl Policy for ByDistanceAndLoad {
    fn name(&self) -> &'static str {
        "load"
    }

    fn choose<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        candidates.iter().min_by_key(|candidate| {
            (
                // What loses one in ten is no link for memory, however near.
                candidate.loss_permille >= 100,
                candidate.hops,
                class(candidate.latency),
                candidate.loans + candidate.loans_here,
                Reverse(candidate.bandwidth.map_or(0, |bytes| bytes.max(1).ilog2())),
                Reverse(candidate.left),
                candidate.node.clone(),
            )
        })
    }
}

/// In how many levels places are apart: `hall1/rack2` and `hall1/rack3` in one, `hall2/rack2` and
/// `hall1/rack2` in two.
pub(super) fn hops(one: &str, other: &str) -> usize {
    if one.is_empty() || other.is_empty() {
        return 0;
    }
    let same = one.split('/').zip(other.split('/'));
    let same = same.take_while(|(one, other)| one == other).count();
    one.split('/').count().max(other.split('/').count()) - same
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(node: &str, change: impl FnOnce(&mut Candidate)) -> Candidate {
        let mut candidate = Candidate {
            node: node.parse().expect("a name"),
            hops: 1,
            latency: Some(Duration::from_micros(100)),
            bandwidth: Some(1 << 30),
            loss_permille: 0,
            loans: 0,
            loans_here: 0,
            left: 0,
        };
        change(&mut candidate);
        candidate
    }

    fn chosen(policy: &dyn Policy, candidates: &[Candidate]) -> String {
        let chosen = policy.choose(candidates).expect("there is one");
        chosen.node.to_string()
    }

    #[test]
    fn places_are_apart_by_levels() {
        assert_eq!(hops("hall1/rack2", "hall1/rack2"), 0);
        assert_eq!(hops("hall1/rack2", "hall1/rack3"), 1);
        assert_eq!(hops("hall2/rack2", "hall1/rack2"), 2);
        assert_eq!(hops("hall1", "hall1/rack2"), 1);
        assert_eq!(hops("", "hall1/rack2"), 0);
    }

    #[test]
    fn the_paper_takes_the_nearest() {
        let far = candidate("a", |far| far.hops = 2);
        let near = candidate("b", |near| near.loans = 9);
        let nearer = candidate("c", |near| near.latency = Some(Duration::from_micros(99)));
        let unknown = candidate("d", |unknown| unknown.latency = None);
        let all = [far, near, nearer, unknown];
        assert_eq!(chosen(&ByDistance, &all), "c");
        assert_eq!(chosen(&ByDistance, &all[..2]), "b");
    }

    #[test]
    fn of_those_that_are_as_near_the_least_loaded_is_taken() {
        let far = candidate("a", |far| far.hops = 2);
        let busy = candidate("b", |busy| busy.loans = 1);
        let idle = candidate("c", |idle| idle.latency = Some(Duration::from_micros(120)));
        let narrow = candidate("d", |narrow| narrow.bandwidth = Some(1 << 20));
        let lossy = candidate("e", |lossy| (lossy.hops, lossy.loss_permille) = (0, 300));
        let all = [lossy, far, busy, narrow, idle];
        assert_eq!(chosen(&ByDistanceAndLoad, &all), "c");
        assert_eq!(chosen(&ByDistanceAndLoad, &all[..4]), "d");
        assert_eq!(chosen(&ByDistanceAndLoad, &all[..3]), "b");
        assert_eq!(chosen(&ByDistanceAndLoad, &all[..1]), "e");
    }
}
