//! A call that queries ask by, shared by them, and its number.

use rhythm_engine::program::Call;
use std::ops::Deref;
use std::rc::Rc;

/// Names a call among those that a pool knows. Small: the lowest that was free. Where a call lies
/// in memory would name it, too, but differently in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallNumber(pub(super) usize);

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    call: Rc<Call>,
    number: CallNumber,
}

impl Asked {
    /// This call, under this number.
    pub(super) fn new(call: Call, number: CallNumber) -> Asked {
        Asked {
            call: Rc::new(call),
            number,
        }
    }

    pub(super) fn number(&self) -> CallNumber {
        self.number
    }

    /// Whether others hold it than this one.
    pub(super) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.call) > 1
    }
}

impl Deref for Asked {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}
