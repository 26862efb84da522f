//! Memory that a cohort keeps for the next one: what cohorts needed of late, not what a burst
//! needed once.

/// How much was needed of late. What is needed counts at once, and is forgotten bit by bit, so that
/// cohorts of unlike sizes in turn give nothing back that the next of them takes again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// Items.
    recent: usize,
}

/// Bytes that are never given back: below, there is nothing to win.
pub(super) const LEAST_BYTES: usize = 256 << 10;

/// Bytes beyond which nothing is kept, whatever was needed of late: a context that nobody uses for
/// a while forgets nothing, and there are many. To ask the system anew for so much costs little
/// beside filling it.
pub(super) const MOST_BYTES: usize = 2 << 20;

/// Of what is not needed any more, this part is forgotten with each cohort.
const FORGOTTEN: usize = 32;

impl Need {
    /// A cohort ends that needed so many items.
    pub(super) fn needed(&mut self, items: usize) {
        let forgotten = self.recent.div_ceil(FORGOTTEN);
        self.recent = items.max(self.recent - forgotten);
    }

    /// Gives memory back if it is more than twice, as growing makes it, what was needed of late. Of
    /// the items then those beyond are lost.
    pub(super) fn shrink<T>(self, of: &mut Vec<T>) {
        let most = MOST_BYTES / size_of::<T>();
        let kept = self.recent.clamp(LEAST_BYTES / size_of::<T>(), most);
        if of.capacity() > 2 * kept {
            of.truncate(kept);
            of.shrink_to(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_forgotten_and_what_is_needed_is_kept() {
        const BURST: usize = 16 * LEAST_BYTES;
        const USUAL: usize = 3 * LEAST_BYTES;
        let (mut need, mut bytes) = (Need::default(), Vec::<u8>::new());
        let mut cohort = |needs: usize, bytes: &mut Vec<u8>| {
            bytes.resize(needs, 0);
            need.needed(needs);
            bytes.clear();
            need.shrink(bytes);
            bytes.capacity()
        };
        assert!(cohort(BURST, &mut bytes) >= BURST);
        assert!(cohort(0, &mut bytes) >= BURST, "the next may be as large");
        let capacities: Vec<usize> = (0..200).map(|_| cohort(USUAL, &mut bytes)).collect();
        assert!(*capacities.last().expect("some") <= 2 * USUAL);
        let changes = capacities.windows(2).filter(|pair| pair[0] != pair[1]);
        assert!(changes.count() < 8, "it shrinks rarely: {capacities:?}");
        for _ in 0..1000 {
            cohort(0, &mut bytes);
        }
        assert!(bytes.capacity() <= 2 * LEAST_BYTES);
    }
}
