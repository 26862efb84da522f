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
    /// The longest.
    longest: OfLate,
    /// What is expected while none is known; `None`: it is not waited for.
    unknown: Option<usize>,
    /// What a lane took of its cohort's memory for answers, on average.
    room: OfLate,
    /// What a lane took of it for texts by its end, the answers of backends among them, on average.
    texts: OfLate,
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
        let texts = OfLate::default();
        if !has_calls {
            // What it makes of its parameters is not to speak of.
            texts.needs(0);
        }
        let response_bytes_max = service.config.limits.response_bytes_max as usize;
        Sizes {
            longest: OfLate::default(),
            // What a backend is asked for may come at any time, or never.
            unknown: (!has_calls).then_some(response_bytes_max),
            room: OfLate::default(),
            texts,
            lanes_max,
            cohort_max,
        }
    }

    /// With what is known of the same page by other sizes, if anything.
    pub(crate) fn known_as(self, other: &Sizes) -> Sizes {
        for (own, known) in [
            (&self.texts, &other.texts),
            (&self.longest, &other.longest),
            (&self.room, &other.room),
        ] {
            if let Some(known) = known.get() {
                own.needs(known);
            }
        }
        self.fit_lanes();
        self
    }

    /// How long its next answers may be; where nothing is known, as long as any, or `None` where
    /// they are not to be waited for.
    #[inline]
    pub(crate) fn expected(&self) -> Option<Expected> {
        let (bytes, by) = match self.longest.get() {
            Some(longest) => (saturated(longest), KnownBy::Page),
            None => (self.unknown?, KnownBy::Nothing),
        };
        Some(Expected { bytes, by })
    }

    /// Most lanes of a cohort, at least one.
    #[inline]
    pub(crate) fn lanes_max(&self) -> usize {
        saturated(self.lanes_max.get())
    }

    /// A cohort was answered, at most with so many bytes, and each lane took so many of its memory.
    pub(crate) fn answered(&self, longest: u64, room: u64) {
        self.longest.needs(longest);
        self.room.needs(room);
        self.fit_lanes();
    }

    /// A cohort takes as many lanes as have room in it, if it is known how much one takes.
    fn fit_lanes(&self) {
        if let Some(room) = self.room.get() {
            self.lanes_max.set(lanes(self.cohort_max, room));
        }
    }

    /// What a lane takes by its end for texts; `None` where that is not known.
    pub(crate) fn texts(&self) -> Option<usize> {
        self.texts.get().map(saturated)
    }

    /// A cohort has ended, and each lane took so much for texts.
    pub(crate) fn took(&self, texts: u64) {
        self.texts.needs(texts);
    }
}

/// What was needed of late, once anything was: what is more counts at once, and is forgotten bit by
/// bit.
#[derive(Debug, Default)]
struct OfLate {
    /// At least 1 from when it is known.
    bytes: Count,
}

impl OfLate {
    fn get(&self) -> Option<u64> {
        Some(self.bytes.get()).filter(|bytes| *bytes > 0)
    }

    /// So much is needed now.
    fn needs(&self, now: u64) {
        let before = self.bytes.get();
        let left = before - before.div_ceil(FORGOTTEN);
        self.bytes.set(now.max(left).max(1));
    }
}

fn saturated(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
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
        let expected = |sizes: &Sizes| sizes.expected().map(|expected| expected.bytes as u64);
        assert_eq!(expected(&sizes), Some(response));
        assert_eq!(expected(&Sizes::unknown(&service, true)), None);
        let any = most / response;
        assert_eq!(sizes.lanes_max() as u64, any);
        sizes.answered(0, 0);
        let small = expected(&sizes);
        assert!(
            small.is_some_and(|bytes| bytes <= 1),
            "an empty page is small"
        );
        sizes.answered(100, 50);
        assert_eq!(expected(&sizes), Some(100));
        assert_eq!(sizes.lanes_max() as u64, most / 50);
        sizes.answered(most, 2 * most);
        assert_eq!((expected(&sizes), sizes.lanes_max()), (Some(most), 1));
        for _ in 0..1000 {
            sizes.answered(100, 50);
        }
        let mut reloaded = Service::default();
        reloaded.config.cohort.answer_bytes_max /= 2;
        let after = Sizes::unknown(&reloaded, true).known_as(&sizes);
        assert_eq!(
            (expected(&after), after.lanes_max() as u64),
            (Some(100), most / 100)
        );
        let still = Sizes::unknown(&service, true).known_as(&Sizes::unknown(&service, false));
        assert_eq!((expected(&still), still.lanes_max() as u64), (None, waits));
        assert_eq!(expected(&sizes), Some(100));
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
