//! How large a page's answers are: what they were of late.
//!
//! From it follow how many requests of a connection go on at a time, and how many lanes a cohort
//! takes. What is larger counts at once, and is forgotten bit by bit; it outlives a reload. Of a
//! page that has not answered yet nothing is known, so it is taken for as large as any may be. It
//! is an expectation: what holds whatever comes is elsewhere (what connections hold, a cohort's
//! bytes).

use rhythm_engine::program::Service;
use rhythm_http::{Expected, KnownBy};
use rhythm_observe::Count;

/// Of what answers do not need any more, this part is forgotten with each cohort.
const FORGOTTEN: u64 = 32;

/// The sizes of a page's answers, in bytes.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// The longest; 0: none is known.
    longest: Count,
    /// What is expected then.
    unknown: usize,
    /// What a lane took of its cohort's memory for answers, on average.
    room: Count,
    /// What a lane took of it for texts by its end, the answers of backends among them, on average;
    /// 0: that is not known.
    texts: Count,
    /// Most lanes of a cohort by its answers.
    lanes_max: Count,
    /// Bytes of a cohort's answers.
    cohort_max: u64,
}

impl Sizes {
    /// Of a page of this service that has not answered yet, and asks backends or not.
    pub(crate) fn unknown(service: &Service, has_calls: bool) -> Sizes {
        let cohort_max = u64::from(service.config.cohort.answer_bytes_max);
        let lanes_max = Count::default();
        // Small cohorts that wait for a backend, perhaps for one that never answers, take up all
        // contexts: those are as large as can be without one's answer leaving no room for another.
        let room = match has_calls {
            false => cohort_max,
            true => cohort_max.max(service.config.cohort.arena_bytes_max.into()),
        };
        lanes_max.set(lanes(room, service.config.limits.response_bytes_max.into()));
        let texts = Count::default();
        // What a page without backends makes of its parameters is no more to speak of.
        texts.set(u64::from(!has_calls));
        Sizes {
            longest: Count::default(),
            // What a backend is asked for may come at any time, or never.
            unknown: match has_calls {
                false => service.config.limits.response_bytes_max as usize,
                true => usize::MAX,
            },
            room: Count::default(),
            texts,
            lanes_max,
            cohort_max,
        }
    }

    /// With what is known of the same page by other sizes, if anything.
    pub(crate) fn known_as(self, other: &Sizes) -> Sizes {
        if other.texts.get() > 0 {
            self.texts.set(other.texts.get());
        }
        if other.longest.get() > 0 {
            self.longest.set(other.longest.get());
            self.room.set(other.room.get());
            (self.lanes_max).set(lanes(self.cohort_max, self.room.get()));
        }
        self
    }

    /// How long its next answers may be; where nothing is known, as long as any, or `usize::MAX`
    /// where they are not to be waited for.
    #[inline]
    pub(crate) fn expected(&self) -> Expected {
        match self.longest.get() {
            0 => Expected {
                bytes: self.unknown,
                by: KnownBy::Nothing,
            },
            known => Expected {
                bytes: usize::try_from(known).unwrap_or(usize::MAX),
                by: KnownBy::Page,
            },
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
            // Not 0: it is known from now on.
            of_late.set(lately(of_late, now).max(1));
        }
        (self.lanes_max).set(lanes(self.cohort_max, self.room.get()));
    }

    /// What a lane takes by its end for texts; `None` where that is not known.
    pub(crate) fn texts(&self) -> Option<usize> {
        let known = Some(self.texts.get()).filter(|texts| *texts > 0)?;
        Some(usize::try_from(known).unwrap_or(usize::MAX))
    }

    /// A cohort has ended, and each lane took so much for texts.
    pub(crate) fn took(&self, texts: u64) {
        self.texts.set(lately(&self.texts, texts).max(1));
    }
}

/// What was needed of late, with this.
fn lately(of_late: &Count, now: u64) -> u64 {
    let before = of_late.get();
    now.max(before - before.div_ceil(FORGOTTEN))
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
        let response = u64::from(service.config.limits.response_bytes_max);
        let waits = Sizes::unknown(&service, true).lanes_max() as u64;
        let arena = u64::from(service.config.cohort.arena_bytes_max);
        assert_eq!(waits, arena / response, "its answers have room");
        assert_eq!(sizes.expected().bytes as u64, response);
        assert_eq!(Sizes::unknown(&service, true).expected().bytes, usize::MAX);
        let any = most / response;
        assert_eq!(sizes.lanes_max() as u64, any);
        sizes.answered(0, 0);
        assert!(sizes.expected().bytes <= 1, "an empty page is small");
        sizes.answered(100, 50);
        assert_eq!(sizes.expected().bytes, 100);
        assert_eq!(sizes.lanes_max() as u64, most / 50);
        sizes.answered(most, 2 * most);
        assert_eq!(
            (sizes.expected().bytes as u64, sizes.lanes_max()),
            (most, 1)
        );
        for _ in 0..1000 {
            sizes.answered(100, 50);
        }
        let mut reloaded = Service::default();
        reloaded.config.cohort.answer_bytes_max /= 2;
        let after = Sizes::unknown(&reloaded, true).known_as(&sizes);
        assert_eq!(
            (after.expected().bytes, after.lanes_max() as u64),
            (100, most / 100)
        );
        let still = Sizes::unknown(&service, true).known_as(&Sizes::unknown(&service, false));
        assert_eq!(
            (still.expected().bytes, still.lanes_max() as u64),
            (usize::MAX, waits)
        );
        assert_eq!(sizes.expected().bytes, 100);
        assert_eq!(sizes.lanes_max() as u64, most / 50);
    }

    #[test]
    fn what_backends_answer_is_unknown_until_a_cohort_has_ended() {
        let service = Service::default();
        assert_eq!(Sizes::unknown(&service, false).texts(), Some(1));
        let sizes = Sizes::unknown(&service, true);
        assert_eq!(sizes.texts(), None);
        sizes.answered(100, 50);
        assert_eq!(sizes.texts(), None);
        sizes.took(0);
        assert_eq!(sizes.texts(), Some(1));
        sizes.took(700);
        let unknown = Sizes::unknown(&service, true);
        assert_eq!(unknown.known_as(&sizes).texts(), Some(700));
    }
}
