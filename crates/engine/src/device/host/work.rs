//! Work: what a pass of a stage may cost before others have their turn.
//!
//! It is counted as it is done, in bytes: of texts that are made, of what is appended and stands in
//! bodies as fragments, [`TURN_WORK`] for each turn of a loop, and [`OPERATION_WORK`] for each
//! operation outside of loops. How long it takes differs from page to page, within an order of
//! magnitude; that is enough to tell the page that takes a millisecond from the one that takes
//! seconds.

/// A turn of a loop counts as so many bytes: it takes about as long as to copy them.
pub(super) const TURN_WORK: usize = 256;

/// An operation outside of loops counts as so many bytes. It takes longer than to copy them, but a
/// page has few; of one that has a hundred thousand, not all lanes are to run in a pass.
pub(super) const OPERATION_WORK: usize = 1;

/// A pass of a stage does not begin with another lane when it has done so much: a few milliseconds'
/// work, with the sending of what came of it.
pub const PASS_WORK_MAX: usize = 8 << 20;

/// Of a cohort that [hurries](crate::cohort::Cohort::hurries) not when it has done so much: what
/// others wait for without its being of matter to them.
pub(super) const SHORT_PASS_WORK_MAX: usize = 512 << 10;

/// What is done of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassWork {
    /// How much may be done.
    pub(super) max: usize,
    /// How much is.
    pub(super) done: usize,
    /// How many lanes have come through.
    pub(super) lanes: usize,
}

impl PassWork {
    /// Whether other lanes are to wait for another pass. The first goes on in any case.
    pub(super) fn is_enough(&self) -> bool {
        self.done >= self.max && self.lanes > 0
    }

    /// How many lanes may begin together if each does so much.
    pub(super) fn lanes_of(&self, expected: usize) -> usize {
        (self.max.saturating_sub(self.done) / expected.max(1)).max(1)
    }
}
