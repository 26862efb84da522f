//! What a cohort did from its launch on, and when, beside when its requests came, for those who ask
//! where a request's time went.
//!
//! Nothing is noted where nobody asks. Lanes that moved away from others take along what these did
//! until then; where stragglers of several cohorts come together, it is what the first of them did
//! that was asked about.

use rhythm_net::Time;
use std::time::Duration;

/// Most that is told apart; what comes then counts with the last.
const MARKS_MAX: usize = 64;

/// When a request came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    /// Its first byte.
    pub(crate) began: Time,
    /// It was whole, and taken.
    pub(crate) arrived: Time,
}

/// What a cohort does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Its stage is run, or waits for a device, or for its page's turn.
    Process,
    /// It waits for memory that others have.
    Memory,
    /// Its backend is waited for.
    Call,
}

/// From when on it does something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) doing: Doing,
    /// Of which stage, or before which.
    pub(crate) stage: u32,
    pub(crate) from: Time,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    marks: Vec<Mark>,
}

/// A part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) doing: Doing,
    pub(crate) stage: u32,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

impl Section {
    /// How long it took.
    pub(crate) fn took(&self) -> Duration {
        self.to.since(self.from)
    }
}

impl Timeline {
    /// A new cohort begins.
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
    }

    /// From now on it does this.
    pub(crate) fn mark(&mut self, doing: Doing, stage: u32, now: Time) {
        let same = |last: &Mark| (last.doing, last.stage) == (doing, stage);
        if self.marks.len() < MARKS_MAX && !self.marks.last().is_some_and(same) {
            let from = self.marks.last().map_or(now, |last| now.max(last.from));
            self.marks.push(Mark { doing, stage, from });
        }
    }

    /// The cohort begins with lanes of another.
    pub(crate) fn follow(&mut self, other: &Timeline) {
        self.marks.clone_from(&other.marks);
    }

    /// When it was launched, if that is known.
    pub(crate) fn launched(&self) -> Option<Time> {
        self.marks.first().map(|first| first.from)
    }

    /// What it did between two times, in order: all that a request was a part of which was taken at
    /// the one and answered at the other.
    pub(crate) fn sections(&self, from: Time, to: Time) -> impl Iterator<Item = Section> {
        let ends = self.marks.iter().skip(1).map(|next| next.from);
        let all = self.marks.iter().zip(ends.chain([Time::NEVER]));
        let sections = all.map(move |(mark, end)| Section {
            doing: mark.doing,
            stage: mark.stage,
            from: mark.from.max(from),
            to: end.min(to),
        });
        sections.filter(|section| section.from < section.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    #[test]
    fn sections_fill_the_time_between_launch_and_answer() {
        let mut line = Timeline::default();
        for (doing, stage, us) in [
            (Doing::Process, 0, 10),
            (Doing::Process, 0, 15),
            (Doing::Memory, 0, 20),
            (Doing::Process, 0, 30),
            (Doing::Call, 1, 31),
            // A clock that was read before.
            (Doing::Process, 1, 25),
        ] {
            line.mark(doing, stage, at(us));
        }
        assert_eq!(line.launched(), Some(at(10)));
        let all: Vec<Section> = line.sections(at(5), at(50)).collect();
        let sum: Duration = all.iter().map(Section::took).sum();
        assert_eq!(sum, Duration::from_micros(40));
        let shown: Vec<_> = (all.iter())
            .map(|it| (it.doing, it.stage, it.took().as_micros()))
            .collect();
        let expected = [
            (Doing::Process, 0, 10),
            (Doing::Memory, 0, 10),
            (Doing::Process, 0, 1),
            (Doing::Process, 1, 19),
        ];
        assert_eq!(shown, expected);
        // Of one that came to it later, as a straggler of another cohort.
        let late: Duration = line.sections(at(30), at(40)).map(|it| it.took()).sum();
        assert_eq!(late, Duration::from_micros(10));
    }

    #[test]
    fn what_is_told_apart_is_bounded() {
        let mut line = Timeline::default();
        for stage in 0..1000 {
            line.mark(Doing::Process, stage, at(u64::from(stage)));
        }
        let took: Duration = line.sections(at(0), at(1000)).map(|it| it.took()).sum();
        assert_eq!(line.marks.len(), MARKS_MAX);
        assert_eq!(took, Duration::from_micros(1000));
    }
}
