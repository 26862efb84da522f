//! How alike requests are: the paper's section 2.3 and Figure 2. Traces of requests for one page
//! are merged by `diff`; what the merged one is shorter than all of them one after the other is
//! what ideal hardware that executes them together is faster by.

use similar::DiffOp;
use similar::algorithms::{Capture, myers};

/// How alike the requests of a page are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Similarity {
    /// Traces that were merged.
    pub(super) traces: usize,
    /// Superblocks of them all.
    pub(super) blocks: usize,
    /// Superblocks of the merged one.
    pub(super) merged: usize,
}

impl Similarity {
    /// Of these traces.
    pub(super) fn of(traces: &[Vec<u64>]) -> Similarity {
        let mut merged = traces.first().cloned().unwrap_or_default();
        for trace in traces.iter().skip(1) {
            merged = merge(&merged, trace);
        }
        Similarity {
            traces: traces.len(),
            blocks: traces.iter().map(Vec::len).sum(),
            merged: merged.len(),
        }
    }

    /// The speedup, as a share of the ideal: as many times as there are traces.
    pub(super) fn of_ideal(&self) -> f64 {
        self.blocks as f64 / self.merged.max(1) as f64 / self.traces.max(1) as f64
    }
}

/// The shortest trace that has both in it: what they have in common once, the rest in its place.
/// (Not as texts are compared: what finds a difference sooner that is not the least calls requests
/// half as alike as they are, and in each run another half.)
fn merge(old: &[u64], new: &[u64]) -> Vec<u64> {
    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let mut found = Capture::new();
    let (of_old, of_new) = (0..old.len(), 0..new.len());
    let Ok(()) = myers::diff_deadline_raw(&mut found, old, of_old, new, of_new, None);
    for op in found.into_ops() {
        let (_, of_old, of_new) = op.as_tag_tuple();
        merged.extend_from_slice(&old[of_old]);
        if !matches!(op, DiffOp::Equal { .. }) {
            merged.extend_from_slice(&new[of_new]);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_traces_are_ideal_and_different_ones_are_as_slow_as_one_after_the_other() {
        let one = vec![1, 2, 3, 2, 3, 4];
        let same = Similarity::of(&[one.clone(), one.clone(), one.clone()]);
        assert_eq!((same.blocks, same.merged), (18, 6));
        assert!((same.of_ideal() - 1.0).abs() < 1e-12);
        let other = Similarity::of(&[one.clone(), vec![7, 8, 9]]);
        assert_eq!(other.merged, 9);
        assert!((other.of_ideal() - 0.5).abs() < 1e-12);
        // A loop that goes round once more costs that once.
        let longer = Similarity::of(&[one, vec![1, 2, 3, 2, 3, 2, 3, 4]]);
        assert_eq!(longer.merged, 8);
    }

    #[test]
    fn a_merged_trace_is_the_shortest() {
        // Two that go the same ways, with much between that only one of them does: an even spread
        // of what repeats, by which quick ways to compare are led astray.
        let mut seed = 1u64;
        let mut random = move |of: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) % of
        };
        let common: Vec<u64> = (0..3000).map(|_| random(40)).collect();
        let mut with_others = |own: u64| -> Vec<u64> {
            let with = common.iter().flat_map(|block| {
                let others = random(3) as usize;
                std::iter::repeat_n(own, others).chain([*block])
            });
            with.collect()
        };
        let (one, other) = (with_others(1000), with_others(2000));
        let own = one.len() + other.len() - 2 * common.len();
        let merged = merge(&one, &other).len();
        assert!(merged <= common.len() + own, "{merged}");
    }

    #[test]
    fn a_merged_trace_has_both_in_their_order() {
        let merged = merge(&[1, 2, 5, 6], &[1, 3, 5, 7]);
        let is_in = |trace: &[u64]| {
            let mut rest = merged.iter();
            trace.iter().all(|block| rest.any(|other| other == block))
        };
        assert!(is_in(&[1, 2, 5, 6]) && is_in(&[1, 3, 5, 7]), "{merged:?}");
    }
}
