//! How many queries a connection takes at a time, where answers come in order: as many as cost
//! each other no time.
//!
//! Behind a query that takes long the others of its connection wait, so more than one is put in
//! only while the backend is prompt. What tells is how long an answer takes behind another one: the
//! time that a first one takes is that of the way as well, and of machines that have much to do.
//!
//! - *Answers behind others* let in as many as come within a moment (`PROMPT`), no less than half
//!   as many as before, and a quarter where one of them takes longer.
//! - *Answers that come together*, the first with those behind it, let in twice as many.
//! - *One alone* lets in more if it came within a moment, and only one if it took long. Between the
//!   two it tells nothing; so where one at a time is the rule, two are tried after some such, more
//!   seldom whenever that failed.
//! - *A connection that says nothing* for long while queries stand behind its oldest lets in only
//!   one from then on. Where some calls take long and others do not, that happens again and again,
//!   and what stood behind is asked twice: so each time it lasts for twice as many prompt answers.

use std::time::Duration;

/// How long the last of a connection's queries may wait for those before it.
const PROMPT: Duration = Duration::from_millis(2);

/// A connection that has said nothing for this time keeps no query waiting behind its oldest.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// Answers that come together after a longer time than this let in no more: twice as many might
/// take more than the patience.
const TOGETHER: Duration = Duration::from_millis(5);

/// Answers that tell nothing, until two at a time are tried: at first, and at most.
const TRY_AFTER: [u32; 2] = [16, 1024];

/// What was measured of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// The time since the query was put into a connection without others.
    First,
    /// The time since the answer before.
    Behind,
}

/// For so many prompt answers only one is let in after the second time that a connection said
/// nothing, and at most.
const HELD: [u32; 2] = [8, 4096];

/// See the module's text.
#[derive(Debug)]
pub(super) struct Pace {
    depth: usize,
    depth_max: usize,
    /// Answers since one told anything.
    untold: u32,
    /// So many of them and two at a time are tried.
    try_after: u32,
    /// For so many more prompt answers only one is let in: now, and after the next time that a
    /// connection says nothing.
    held: [u32; 2],
}

impl Pace {
    /// Nothing is known yet: every connection is tried with one query first anyway.
    pub(super) fn new(depth_max: usize) -> Pace {
        let depth_max = depth_max.max(1);
        Pace {
            depth: depth_max,
            depth_max,
            untold: 0,
            try_after: TRY_AFTER[0],
            held: [0; 2],
        }
    }

    /// Most queries at a time on a connection.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// A connection gave so many answers at once, at least one, which took this time.
    pub(super) fn answered(&mut self, count: usize, measured: Measured, took: Duration) {
        let prompt = PROMPT.as_nanos() * count as u128 / took.as_nanos().max(1);
        let prompt = usize::try_from(prompt).unwrap_or(usize::MAX);
        let depth = match measured {
            Measured::First if count > 1 => {
                self.try_after = TRY_AFTER[0];
                match took <= TOGETHER {
                    true => self.depth.max(2 * count),
                    false => self.depth,
                }
            }
            _ if took >= PATIENCE => 1,
            Measured::First if prompt == 0 => return self.untold(),
            Measured::First if self.held[0] > 0 => {
                self.held[0] -= 1;
                return;
            }
            Measured::First => self.depth.max(prompt.min(2 * self.depth)),
            // A moment's delay, as others on the machine cause it, does not end it.
            Measured::Behind if prompt == 0 => self.depth / 4,
            Measured::Behind => {
                self.held[1] = self.held[1].saturating_sub(count.try_into().unwrap_or(u32::MAX));
                prompt.clamp(self.depth / 2, 2 * self.depth)
            }
        };
        self.set(depth);
    }

    /// A connection said nothing for too long.
    pub(super) fn stalled(&mut self) {
        if self.depth > 1 {
            let [held, next] = &mut self.held;
            *held = *next;
            *next = (2 * *next).clamp(HELD[0], HELD[1]);
        }
        self.set(1);
    }

    /// An answer told nothing.
    fn untold(&mut self) {
        self.untold += 1;
        if self.depth == 1 && self.untold >= self.try_after {
            self.set(2);
        }
    }

    fn set(&mut self, depth: usize) {
        if self.depth == 2 && depth < 2 {
            self.try_after = (2 * self.try_after).min(TRY_AFTER[1]);
        }
        self.untold = 0;
        self.depth = depth.clamp(1, self.depth_max);
    }
}

#[cfg(test)]
mod tests {
    use super::Measured::{Behind, First};
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn prompt_answers_deepen_and_a_slow_one_ends_it() {
        let mut pace = Pace::new(100);
        pace.answered(1, First, 20 * MS);
        assert_eq!(pace.depth(), 1);
        let depths: Vec<usize> = (0..8)
            .map(|_| {
                pace.answered(pace.depth(), Behind, 100 * US);
                pace.depth()
            })
            .collect();
        assert_eq!(depths, [2, 4, 8, 16, 32, 64, 100, 100]);
        // Half a millisecond each: four of them are two.
        for depth in [50, 25, 12, 6, 4, 4] {
            pace.answered(2, Behind, MS);
            assert_eq!(pace.depth(), depth);
        }
        pace.answered(1, Behind, 3 * MS);
        assert_eq!(pace.depth(), 1);
        pace.answered(1, Behind, Duration::ZERO);
        assert_eq!(pace.depth(), 2);
        pace.stalled();
        assert_eq!(pace.depth(), 1);
    }

    #[test]
    fn the_way_of_the_first_is_not_the_time_of_those_behind() {
        let mut pace = Pace::new(100);
        pace.stalled();
        for (count, took, depth) in [
            // One alone: prompt, or neither prompt nor slow.
            (1, MS, 2),
            (1, 4 * MS, 2),
            // Together, however few come within a moment.
            (2, 4 * MS, 4),
            (3, 5 * MS, 6),
            (6, 6 * MS, 6),
            (6, 5 * MS, 12),
            (2, 100 * US, 12),
            (1, MS, 12),
            (1, 3 * MS, 12),
            (12, 11 * MS, 12),
            (1, 10 * MS, 1),
        ] {
            pace.answered(count, First, took);
            assert_eq!(pace.depth(), depth, "{count} in {took:?}");
        }
    }

    #[test]
    fn silence_holds_one_for_longer_each_time() {
        let mut pace = Pace::new(100);
        let until_two = |pace: &mut Pace| {
            let one = |pace: &mut Pace| {
                pace.answered(1, First, MS);
                pace.depth()
            };
            (0..9000).take_while(|_| one(pace) == 1).count()
        };
        for answers in [0, 8, 16, 32, 64] {
            pace.stalled();
            // That it goes on says nothing new.
            pace.stalled();
            assert_eq!(until_two(&mut pace), answers);
        }
        // It takes as many prompt answers behind others for that to be forgotten.
        for _ in 0..128 {
            pace.answered(1, Behind, 100 * US);
        }
        pace.stalled();
        assert_eq!(until_two(&mut pace), 0);
        for _ in 0..20 {
            pace.stalled();
            until_two(&mut pace);
        }
        pace.stalled();
        assert_eq!(until_two(&mut pace), 4096);
    }

    #[test]
    fn two_are_tried_more_seldom_whenever_that_fails() {
        let mut pace = Pace::new(100);
        pace.stalled();
        let until_tried = |pace: &mut Pace| {
            let one = |pace: &mut Pace| {
                pace.answered(1, First, 3 * MS);
                pace.depth()
            };
            1 + (0..5000).take_while(|_| one(pace) == 1).count()
        };
        for answers in [16, 32, 64, 128, 256, 512, 1024, 1024] {
            assert_eq!(until_tried(&mut pace), answers);
            // Two in three milliseconds each.
            pace.answered(1, Behind, 3 * MS);
            assert_eq!(pace.depth(), 1);
        }
        assert_eq!(until_tried(&mut pace), 1024);
        pace.answered(2, First, 6 * MS);
        assert_eq!(pace.depth(), 2);
        pace.stalled();
        assert_eq!(until_tried(&mut pace), 32);
        // Where all take long, there is nothing to try.
        pace.stalled();
        (0..5000).for_each(|_| pace.answered(1, First, 20 * MS));
        assert_eq!(pace.depth(), 1);
    }
}
