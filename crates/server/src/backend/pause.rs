//! For how long something is left alone that has failed: the longer the more often it fails.

/// Most turns that are left out after a failure.
pub(super) const PAUSE_MAX: u32 = 255;

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// How many turns are left out after the next failure, and are now.
    next: u32,
    left: u32,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { next: 1, left: 0 }
    }
}

impl Pause {
    /// Whether this turn is left out.
    pub(super) fn leaves_out(&mut self) -> bool {
        let leaves_out = self.left > 0;
        self.left = self.left.saturating_sub(1);
        leaves_out
    }

    /// It has failed.
    pub(super) fn failed(&mut self) {
        self.left = self.next;
        self.next = (2 * self.next).min(PAUSE_MAX);
    }

    /// It went well.
    pub(super) fn went_well(&mut self) {
        self.next = (self.next - 1).max(1);
    }

    /// What fails next is left alone for as long as anything is.
    pub(super) fn is_long(&mut self) {
        self.next = PAUSE_MAX;
    }
}
