//! How carriers end when the server does: nobody's request is lost on the way (RFC 9113, section
//! 6.8).
//!
//! ```text
//!   drain                        the peer's answer, or `farewell`       all streams are over
//!     |                                       |                                |
//!     |  GOAWAY of 2^31-1, and a PING:        |  GOAWAY of the last stream     |  closed
//!     |  begin nothing more. What is on       |  that was seen: what is        |
//!     |  its way is answered like the rest    |  behind it, ask elsewhere      |
//! ```
//!
//! h2 says both and closes. Here is what it leaves open: peers that do not answer the PING, or take
//! nothing, and for how long a worker waits that has nothing else to do.

use crate::carrier::Over;
use crate::multiplexed::Multiplexed;
use crate::state::{LAST_MOMENT, State};
use h2::Reason;
use rhythm_net::{Handler, Port, Time};

impl State {
    /// Tells all peers to begin nothing more.
    pub(crate) fn drain(&mut self) {
        if self.draining.is_some() {
            return;
        }
        let now = self.now;
        self.draining = Some(now);
        for id in self.carriers() {
            if let Some(carrier) = self.carrier(id) {
                carrier.leave();
                carrier.since = now;
            }
            self.mark(id);
        }
    }

    /// Whether requests that come now came too late to be on their way when all were told.
    pub(crate) fn takes_no_more(&self) -> bool {
        let since = self.draining;
        since.is_some_and(|since| self.now.since(since) >= LAST_MOMENT)
    }

    /// When carriers are waited for no more, where the handler is done.
    pub(crate) fn ends_at(&self) -> Option<Time> {
        self.finished.map(|since| since + LAST_MOMENT)
    }
}

impl<H: Handler> Multiplexed<H> {
    /// The handler may be done: then carriers end as well, and are waited for no longer than for a
    /// moment. A request that was on its way has the handler go on.
    pub(crate) fn see_to_the_end(&mut self, port: &mut dyn Port) {
        if self.state.carriers == 0 || !self.handler.finished() {
            self.state.finished = None;
            return;
        }
        self.state.drain();
        self.state.finished.get_or_insert(self.state.now);
        if self.state.ends_at().is_some_and(|at| at <= self.state.now) {
            self.end_all(port);
        } else {
            self.settle(port);
        }
    }

    /// Ends all carriers, whatever is left of them.
    fn end_all(&mut self, port: &mut dyn Port) {
        let now = self.state.now;
        for id in self.state.carriers() {
            let Some(carrier) = self.state.carrier(id) else {
                continue;
            };
            if carrier.is_closing {
                // Its last word is said, and not taken yet.
                port.abort(id);
                self.end(port, id, Over::Gone);
                continue;
            }
            // Nobody was told of these, whatever their number: that goes before the last word,
            // which would have them seen.
            for asked in &mut carrier.asked {
                asked.respond.send_reset(Reason::REFUSED_STREAM);
            }
            if carrier.drive(port, id, now) == Some(Over::Gone) {
                self.end(port, id, Over::Gone);
            } else {
                self.end_at_once(port, id, |port, id| port.abort(id));
            }
        }
    }
}
