//! How many requests a connection takes at a time, where answers come in order: as many as were
//! answered of late within a moment.
//!
//! Behind a request that takes long the others of its connection wait, so more than one is put in
//! only while the backend is prompt. How long an answer takes is measured wherever some come: the
//! time since the one before, or since the request was sent. The depth doubles as long as that
//! allows it, shrinks with answers that are slow, and falls to 1 with one that takes long.

use std::time::Duration;

/// How long the last of a connection's requests may wait for those before it.
const PROMPT: Duration = Duration::from_millis(2);

/// A connection that has said nothing for this time keeps no request waiting behind its oldest.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Pace {
    depth: usize,
    depth_max: usize,
}

impl Pace {
    /// Nothing is known yet: every connection is tried with one request first anyway.
    pub(super) fn new(depth_max: usize) -> Pace {
        let depth_max = depth_max.max(1);
        Pace {
            depth: depth_max,
            depth_max,
        }
    }

    /// Most requests at a time on a connection.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// A connection gave so many answers within this time.
    pub(super) fn answered(&mut self, count: usize, took: Duration) {
        let count = count.max(1) as u128;
        let prompt = PROMPT.as_nanos() * count / took.as_nanos().max(1);
        let prompt = usize::try_from(prompt).unwrap_or(usize::MAX);
        self.depth = match prompt {
            0 if took >= PATIENCE => 1,
            // A moment's delay, as others on the machine cause it, does not end it.
            0 => self.depth / 4,
            _ if prompt > self.depth => prompt.min(2 * self.depth),
            _ => prompt.max(self.depth / 2),
        };
        self.depth = self.depth.clamp(1, self.depth_max);
    }

    /// A connection said nothing for too long.
    pub(super) fn stalled(&mut self) {
        self.depth = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_answers_deepen_and_a_slow_one_ends_it() {
        let [us, ms] = [Duration::from_micros(1), Duration::from_millis(1)];
        let mut pace = Pace::new(100);
        pace.answered(1, 20 * ms);
        assert_eq!(pace.depth(), 1);
        let depths: Vec<usize> = (0..8)
            .map(|_| {
                pace.answered(pace.depth(), 100 * us);
                pace.depth()
            })
            .collect();
        assert_eq!(depths, [2, 4, 8, 16, 32, 64, 100, 100]);
        // Half a millisecond each: four of them are two.
        for depth in [50, 25, 12, 6, 4, 4] {
            pace.answered(2, ms);
            assert_eq!(pace.depth(), depth);
        }
        pace.answered(1, 3 * ms);
        assert_eq!(pace.depth(), 1);
        pace.answered(1, Duration::ZERO);
        assert_eq!(pace.depth(), 2);
        pace.stalled();
        assert_eq!(pace.depth(), 1);
    }
}
