//! The ending: what of the drain is due, and whether all is over (`drain.rs`).

use crate::drain::Drain;
use rhythm_http::Clients;
use rhythm_net::{Port, Time};

/// How a pipeline ends.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// When, once it is to.
    drain: Option<Drain>,
    /// The listeners are closed.
    pub(super) nobody_comes: bool,
}

impl Ending {
    /// Ends as said; again, where that is to be earlier.
    pub(super) fn begin(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        drain: Drain,
        now: Time,
    ) {
        self.drain = Some(drain);
        self.go_on(port, clients, now);
    }

    /// Time has passed: does what is due of it.
    pub(super) fn tick(&self, port: &mut dyn Port, clients: &mut Clients, now: Time) {
        if !clients.is_draining() {
            self.go_on(port, clients, now);
        }
        if self.drain.is_some_and(|drain| drain.until <= now) {
            clients.abort_all(port);
        }
    }

    fn go_on(&self, port: &mut dyn Port, clients: &mut Clients, now: Time) {
        if let Some(drain) = self.drain
            && drain.accept_until <= now
        {
            port.stop_accepting();
            clients.drain(drain.idle_until);
        }
    }

    /// When something of it is due next, if anything.
    pub(super) fn wake_at(&self, clients: &Clients) -> Option<Time> {
        let drain = self.drain?;
        match clients.is_draining() {
            true => Some(drain.until),
            false => Some(drain.accept_until),
        }
    }

    /// Whether it is over, where so many requests are not answered.
    pub(super) fn is_over(&self, clients: &Clients, requests: usize, now: Time) -> bool {
        self.drain.is_some_and(|drain| {
            // Past the limit nothing is waited for: a backend may take longer than that, and those
            // who wait to be let in may find no place.
            let over = requests == 0 && self.nobody_comes;
            (over || drain.until <= now) && clients.open() == 0 && clients.is_draining()
        })
    }
}
