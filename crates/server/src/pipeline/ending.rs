//! The ending: what of the drain is due, and whether all is over (`drain.rs`).

use super::Pipeline;
use crate::drain::Drain;
use rhythm_net::{Port, Time};

/// How a pipeline ends.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// When, once it is to.
    drain: Option<Drain>,
    /// The listeners are closed.
    pub(super) nobody_comes: bool,
}

impl Pipeline {
    /// Ends as said: it has [finished](rhythm_net::Handler::finished) when no client is left. To be
    /// called again where that is to be earlier.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time, drain: Drain) {
        self.begin(port, now);
        self.ending.drain = Some(drain);
        self.go_on_draining(port, now);
    }

    /// Time has passed: does what is due of it.
    pub(super) fn tick_ending(&mut self, port: &mut dyn Port, now: Time) {
        if !self.clients.is_draining() {
            self.go_on_draining(port, now);
        }
        if self.ending.drain.is_some_and(|drain| drain.until <= now) {
            self.clients.abort_all(port);
        }
    }

    fn go_on_draining(&mut self, port: &mut dyn Port, now: Time) {
        if let Some(drain) = self.ending.drain
            && drain.accept_until <= now
        {
            port.stop_accepting();
            self.clients.drain(drain.idle_until);
        }
    }

    /// When something of it is due next, if anything.
    pub(super) fn ends_at(&self) -> Option<Time> {
        let drain = self.ending.drain?;
        match self.clients.is_draining() {
            true => Some(drain.until),
            false => Some(drain.accept_until),
        }
    }

    /// Whether it is over.
    pub(super) fn has_ended(&self) -> bool {
        self.ending.drain.is_some_and(|drain| {
            // Past the limit nothing is waited for: a backend may take longer than that, and those
            // who wait to be let in may find no place.
            let over = self.cohorts.requests() == 0 && self.ending.nobody_comes;
            (over || drain.until <= self.turn.now)
                && self.clients.open() == 0
                && self.clients.is_draining()
        })
    }
}
