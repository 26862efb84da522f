//! How long requests of pages take as a whole: from the first byte of a request to the last byte of
//! its answer, which its client's socket has taken.
//!
//! Nearly all answers are taken in the turn in which they are given, and then a request costs one
//! entry of a list here. Only where some connection holds something is each one's asked for; those
//! that are not taken yet, and files that are yet to be read, are looked at in the turns that
//! follow.

use crate::observe::metrics::PageMetrics;
use rhythm_http::{AnswerSlot, Clients};
use rhythm_net::Time;
use std::sync::Arc;

/// Answers whose sending is waited for at most; others are over, as it is told, with their turn.
const UNSENT_MAX: usize = 1024;

/// A lane's request that is answered: where its answer goes, and when its first byte came.
type Given = (AnswerSlot, Time);

/// See the module's text.
#[derive(Default)]
pub(crate) struct Sending {
    /// Answered in this turn: the page, when their cohort was launched, and how many of `given`.
    served: Vec<(Arc<PageMetrics>, Time, usize)>,
    /// What is not of `served` yet is given just now.
    given: Vec<Given>,
    counted: usize,
    /// Some of them are in pieces that are yet to be read.
    has_streams: bool,
    /// Of turns before.
    unsent: Vec<(Arc<PageMetrics>, Given)>,
}

impl Sending {
    /// A lane's request has its answer.
    #[inline]
    pub(crate) fn gives(&mut self, slot: AnswerSlot, began: Time) {
        self.given.push((slot, began));
    }

    /// What was given last is in pieces.
    pub(crate) fn in_pieces(&mut self) {
        self.has_streams = true;
    }

    /// What was given since the last call was of this page, and launched then.
    #[inline]
    pub(crate) fn served(&mut self, metrics: &Arc<PageMetrics>, launched: Time) {
        let lanes = self.given.len() - self.counted;
        if lanes > 0 {
            self.counted = self.given.len();
            self.served.push((metrics.clone(), launched, lanes));
        }
    }

    /// A turn has ended, and what was given in it has taken until then.
    pub(crate) fn turn_ended(&mut self, clients: &Clients, now: Time) {
        self.unsent.retain(|(metrics, given)| {
            let is_over = is_over(clients, given.0);
            if is_over {
                took(metrics, given.1, now);
            }
            !is_over
        });
        self.count(clients, now);
    }

    /// Counts what was given in a turn.
    #[inline]
    fn count(&mut self, clients: &Clients, now: Time) {
        if self.served.is_empty() {
            return;
        }
        // Who holds nothing has nothing to send.
        let are_sent = clients.held() == 0 && !self.has_streams;
        let mut given = self.given.drain(..);
        for (metrics, launched, lanes) in self.served.drain(..) {
            let service = now.since(launched).as_nanos() as u64;
            metrics.service_time.record(service, lanes as u64);
            for given in given.by_ref().take(lanes) {
                if are_sent || self.unsent.len() >= UNSENT_MAX || is_over(clients, given.0) {
                    took(&metrics, given.1, now);
                } else {
                    self.unsent.push((metrics.clone(), given));
                }
            }
        }
        drop(given);
        (self.counted, self.has_streams) = (0, false);
    }
}

/// Whether nothing of an answer is left to be sent, or nobody is there any more who takes it.
fn is_over(clients: &Clients, slot: AnswerSlot) -> bool {
    clients.is_sent(slot).unwrap_or(true)
}

#[inline]
fn took(metrics: &PageMetrics, began: Time, now: Time) {
    (metrics.whole_time).record(now.since(began).as_nanos() as u64, 1);
}
