//! What all collectors give.

use std::time::Duration;

/// What is told of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path, maybe cut.
    pub path: &'a str,
    /// What became of it.
    pub what: What,
    /// Which request it is, to find arrival and completion together; 0 where nobody says.
    pub token: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It came.
    Arrived,
    /// It was answered; that it came was told before.
    Completed {
        /// How long after it had come.
        took: Duration,
        /// The status of the answer.
        status: u16,
    },
    /// It was answered, and nothing was told before.
    Whole {
        /// How long after it had come, if that is told.
        took: Option<Duration>,
        /// The status of the answer.
        status: u16,
    },
}

/// What a collector has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that were given.
    pub records: u64,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// What was no record, or one that its writer did not finish.
    pub garbage: u64,
}

impl Counts {
    /// Adds those of another.
    pub fn add(&mut self, more: Counts) {
        self.records = self.records.saturating_add(more.records);
        self.lost = self.lost.saturating_add(more.lost);
        self.garbage = self.garbage.saturating_add(more.garbage);
    }
}
