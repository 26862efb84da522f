//! A way to nodes with an event loop of its own: an executor for who has none.

use crate::link::Remote;
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_net::{ConnectionId, Driver, DriverOptions, Ended, Handler, Port, Time, clock};
use rhythm_server::{ConnectionOwner, DeviceLink};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a turn of the loop waits at most.
const TURN: Duration = Duration::from_millis(20);

/// See the module's text.
pub struct Alone {
    driver: Driver,
    turn: Turn,
}

/// The link as a handler that is done after a turn.
struct Turn {
    link: Remote,
    until: Time,
    is_over: bool,
    done: Vec<Work>,
}

impl std::fmt::Debug for Alone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alone").finish_non_exhaustive()
    }
}

impl Alone {
    /// Drives this link.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new(link: Remote) -> io::Result<Alone> {
        Ok(Alone {
            driver: Driver::new(&DriverOptions::default())?,
            turn: Turn {
                link,
                until: Time::ZERO,
                is_over: true,
                done: Vec::new(),
            },
        })
    }

    /// Waits until a node takes cohorts of this service, or it was said of all why they do not, at
    /// most so long. Whether one does.
    ///
    /// # Errors
    /// The system lets nobody wait.
    pub fn wait_ready(&mut self, service: &Arc<Service>, most: Duration) -> io::Result<bool> {
        let end = clock::monotonic() + most;
        while !self.turn.link.is_ready(service) {
            let now = clock::monotonic();
            if now >= end || self.turn.link.has_none() {
                return Ok(false);
            }
            self.turn.link.offer(self.driver.port(), service, now);
            self.turn()?;
        }
        Ok(true)
    }

    fn turn(&mut self) -> io::Result<()> {
        self.turn.is_over = false;
        self.turn.until = clock::monotonic() + TURN;
        self.driver.run(&mut self.turn)
    }
}

impl Handler for Turn {
    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.link.received(port, id, bytes, now);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.link.ended(port, id, how, now);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.link.writable(port, id, now);
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.link.connected(port, id, now);
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.link.wake_at().is_some_and(|at| at <= now) {
            self.link.tick(port, now);
        }
        self.is_over |= self.until <= now;
    }

    fn idle(&mut self, _: &mut dyn Port, now: Time) {
        self.link.poll(&mut self.done);
        self.is_over |= !self.done.is_empty() || self.until <= now;
    }

    fn wake_at(&self) -> Option<Time> {
        let link = self.link.wake_at().unwrap_or(Time::NEVER);
        Some(link.min(self.until))
    }

    fn finished(&self) -> bool {
        self.is_over
    }
}

impl Executor for Alone {
    fn name(&self) -> &'static str {
        self.turn.link.name()
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        let now = clock::monotonic();
        self.turn.link.submit(self.driver.port(), work, now)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        if self.turn.done.is_empty()
            && self.turn.link.in_flight() > 0
            && let Err(error) = self.turn()
        {
            // Nothing comes any more: whoever waits gives up in the end.
            tracing::error!(%error, "the event loop cannot go on");
        }
        done.append(&mut self.turn.done);
    }

    fn in_flight(&self) -> usize {
        self.turn.link.in_flight() + self.turn.done.len()
    }
}
