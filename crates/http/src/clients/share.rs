//! The share of a turn of the loop: what of it is for requests that may as well wait.
//!
//! It is counted in bytes of answers, since these can be told before they are made. How many it has
//! follows from how long turns take: what a byte costs is not the same from one machine to the
//! next, nor from one moment to the next (one that the system has to find new memory for costs it
//! 20 times as much as one that it has memory for at hand).

use crate::clients::input::Reading;
use crate::clients::upkeep::Upkeep;
use rhythm_net::TURN_MAX;
use std::time::Duration;

/// What a request counts at least.
pub(crate) const REQUEST_BYTES: usize = 4 * 1024;

/// The least share, the first one, and the largest.
const SHARE_BYTES_MIN: usize = 4 * REQUEST_BYTES;
const SHARE_BYTES: usize = 16 * REQUEST_BYTES;
const SHARE_BYTES_MAX: usize = 256 * REQUEST_BYTES;

/// What is left of a share at least after a turn that took too long, and what part of it is added
/// after one that did not.
const CUT_MAX: f64 = 0.25;
const GROWS: usize = 8;

/// What of a turn is for requests that may as well wait.
#[derive(Debug)]
pub(crate) struct Share {
    /// Bytes for a turn.
    size: usize,
    /// What is left in this one.
    left: usize,
    /// The last turn had none left.
    was_short: bool,
}

impl Share {
    pub(crate) fn new() -> Share {
        Share {
            size: SHARE_BYTES,
            left: SHARE_BYTES,
            was_short: false,
        }
    }

    /// Whether there is some left.
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// A request is taken whose answer is to have so many bytes.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// The next turn has its own.
    pub(crate) fn renew(&mut self) {
        self.was_short = self.left == 0;
        self.left = self.size;
    }

    /// So long the turn took whose share is over. What was too much is cut at once, but not by what
    /// one turn alone may have cost; what was too little grows bit by bit: the next bytes may cost
    /// 20 times as much as these, and then a turn takes 20 times too long.
    pub(crate) fn adapt(&mut self, took: Duration) {
        if took > TURN_MAX {
            let part = TURN_MAX.as_secs_f64() / took.as_secs_f64();
            let size = self.size as f64 * part.max(CUT_MAX);
            self.size = (size as usize).max(SHARE_BYTES_MIN);
        } else if self.was_short {
            self.size = (self.size + self.size / GROWS).min(SHARE_BYTES_MAX);
        }
        self.left = self.left.min(self.size);
    }
}

/// Whether a request may be taken in this turn that could as well wait.
#[inline]
pub(crate) fn is_its_turn(share: &Share, upkeep: &Upkeep, reading: &Reading<'_>) -> bool {
    share.is_left() && (reading.resumes() || upkeep.unstalled.is_empty())
}
