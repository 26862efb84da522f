//! How large a page's answers are: what they were of late.
//!
//! From it follow how many requests of a connection go on at a time, and how many lanes a cohort
//! takes. What is larger counts at once, and is forgotten bit by bit. Of a page that has not
//! answered yet nothing is known, so it is taken for as large as any may be. It is an expectation:
//! what holds whatever comes is elsewhere (what connections hold, a cohort's bytes).

use crate::observe::metrics::Count;
use rhythm_engine::program::Service;

/// Of what answers do not need any more, this part is forgotten with each cohort.
const FORGOTTEN: u64 = 32;

/// The sizes of a page's answers, in bytes.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// The longest; 0: none is known.
    longest: Count,
    /// What a lane took of its cohort's memory for answers, on average.
    room: Count,
    /// Most lanes of a cohort by that.
    lanes_max: Count,
    /// Bytes of a cohort's answers.
    cohort_max: u64,
}

impl Sizes {
    /// Of a page of this service that has not answered yet, and asks backends or not.
    pub(crate) fn unknown(service: &Service, has_calls: bool) -> Sizes {
        let cohort_max = u64::from(service.config.cohort.answer_bytes_max);
        let (longest, room, lanes_max) = (Count::default(), Count::default(), Count::default());
        // Small cohorts that wait for a backend, perhaps for one that never answers, would take up
        // all contexts.
        lanes_max.set(match has_calls {
            false => lanes(cohort_max, service.config.limits.response_bytes_max.into()),
            true => u64::MAX,
        });
        Sizes {
            longest,
            room,
            lanes_max,
            cohort_max,
        }
    }

    /// How long its next answers may be; `usize::MAX` where nothing is known.
    #[inline]
    pub(crate) fn expected(&self) -> usize {
        match self.longest.get() {
            0 => usize::MAX,
            known => usize::try_from(known).unwrap_or(usize::MAX),
        }
    }

    /// Most lanes of a cohort, at least one.
    #[inline]
    pub(crate) fn lanes_max(&self) -> usize {
        usize::try_from(self.lanes_max.get()).unwrap_or(usize::MAX)
    }

    /// A cohort was answered, at most with so many bytes, and each lane took so many of its memory.
    pub(crate) fn answered(&self, longest: u64, room: u64) {
        for (of_late, now) in [(&self.longest, longest), (&self.room, room)] {
            let before = of_late.get();
            // Not 0: it is known from now on.
            of_late.set(now.max(before - before.div_ceil(FORGOTTEN)).max(1));
        }
        (self.lanes_max).set(lanes(self.cohort_max, self.room.get()));
    }
}

fn lanes(cohort_max: u64, lane: u64) -> u64 {
    (cohort_max / lane.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_count_at_once_and_are_forgotten() {
        let service = Service::default();
        let most = u64::from(service.config.cohort.answer_bytes_max);
        let sizes = Sizes::unknown(&service, false);
        let waits = Sizes::unknown(&service, true);
        assert_eq!(
            waits.lanes_max(),
            usize::MAX,
            "it keeps no contexts from others"
        );
        assert_eq!(sizes.expected(), usize::MAX);
        let any = most / u64::from(service.config.limits.response_bytes_max);
        assert_eq!(sizes.lanes_max() as u64, any);
        sizes.answered(0, 0);
        assert!(sizes.expected() <= 1, "an empty page is small");
        sizes.answered(100, 50);
        assert_eq!(sizes.expected(), 100);
        assert_eq!(sizes.lanes_max() as u64, most / 50);
        sizes.answered(most, 2 * most);
        assert_eq!((sizes.expected() as u64, sizes.lanes_max()), (most, 1));
        for _ in 0..1000 {
            sizes.answered(100, 50);
        }
        assert_eq!(sizes.expected(), 100);
        assert_eq!(sizes.lanes_max() as u64, most / 50);
    }
}
