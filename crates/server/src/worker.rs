//! A worker: one thread with its own event loop, listener, pipeline and executor.
//!
//! The loop is the driver's; here is what stands between it and the pipeline: commands from other
//! threads, the measure of how busy the loop is, and the new start after a panic.

use crate::observe::metrics::WorkerMetrics;
use crate::pipeline::Pipeline;
use crate::site::Site;
use rhythm_net::{Accepted, ConnectionId, Driver, Ended, Handler, Port, Time, Token, Waker, clock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The waker of commands.
pub(crate) const COMMANDS: Token = Token(0);
/// The waker of the device.
pub(crate) const DEVICE: Token = Token(1);

/// What other threads ask of a worker.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Serve this site from now on.
    Reload(Arc<Site>),
    /// Finish what is under way, within this time, and end.
    Drain(Duration),
}

/// Where commands are left for a worker.
#[derive(Debug)]
pub(crate) struct Inbox {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Inbox {
        Inbox {
            commands: Mutex::default(),
            waker,
        }
    }

    pub(crate) fn send(&self, command: Command) {
        self.commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(command);
        self.waker.wake();
    }

    fn take(&self) -> Vec<Command> {
        std::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Passes events on to the pipeline.
struct Worker<'a> {
    pipeline: &'a mut Pipeline,
    inbox: &'a Inbox,
    metrics: &'a WorkerMetrics,
    /// A drain to go on with after a new start.
    drained: &'a mut Option<Duration>,
    site: &'a mut Arc<Site>,
    /// When this turn's first event came.
    turn_began: Option<Time>,
    last_end: Time,
}

impl Worker<'_> {
    #[inline]
    fn event(&mut self, now: Time) {
        self.turn_began.get_or_insert(now);
    }

    fn obey(&mut self, port: &mut dyn Port, now: Time) {
        for command in self.inbox.take() {
            match command {
                Command::Reload(site) => {
                    *self.site = site.clone();
                    self.pipeline.reload(site);
                }
                Command::Drain(limit) => {
                    *self.drained = Some(limit);
                    self.pipeline.drain(port, now, limit);
                }
            }
        }
    }
}

impl Handler for Worker<'_> {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        self.event(now);
        self.pipeline.opened(port, accepted, now);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.event(now);
        self.pipeline.received(port, id, bytes, now);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.event(now);
        self.pipeline.ended(port, id, how, now);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.event(now);
        self.pipeline.writable(port, id, now);
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.event(now);
        self.pipeline.connected(port, id, now);
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        self.event(now);
        if token == COMMANDS {
            self.obey(port, now);
        } else {
            self.pipeline.notified(port, token, now);
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.event(now);
        self.pipeline.tick(port, now);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.pipeline.idle(port, now);
        let end = clock::monotonic();
        self.pipeline.turn_ended(end);
        let began = self.turn_began.take().unwrap_or(now);
        self.metrics.busy_ns.add(end.since(began).as_nanos() as u64);
        self.metrics
            .total_ns
            .add(end.since(self.last_end).as_nanos() as u64);
        self.last_end = end;
    }

    fn wake_at(&self) -> Option<Time> {
        self.pipeline.wake_at()
    }

    fn finished(&self) -> bool {
        self.pipeline.finished()
    }
}

/// Runs a worker until it has drained. `make` makes its pipeline, at first and after each panic.
pub(crate) fn run(
    index: usize,
    driver: &mut Driver,
    inbox: &Inbox,
    metrics: &WorkerMetrics,
    mut site: Arc<Site>,
    mut pipeline: Pipeline,
    make: &mut dyn FnMut(Arc<Site>) -> Result<Pipeline, String>,
) {
    let mut drained = None;
    loop {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            driver.run(&mut Worker {
                pipeline: &mut pipeline,
                inbox,
                metrics,
                drained: &mut drained,
                site: &mut site,
                turn_began: None,
                last_end: clock::monotonic(),
            })
        }));
        match ran {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                tracing::error!(worker = index, %error, "the event loop cannot go on");
                return;
            }
            Err(_) => {}
        }
        // The panic's message is on stderr already. Its cause may be in any of the pipeline's
        // state, so all of it goes, with the connections; the listener and the other workers serve
        // on.
        tracing::error!(worker = index, "a worker panicked and starts anew");
        metrics.restarts.add(1);
        let old = pipeline;
        let gone = catch_unwind(AssertUnwindSafe(|| old.abandon(driver.port())));
        if gone.is_err() {
            tracing::error!(worker = index, "connections of before could not be dropped");
        }
        pipeline = match make(site.clone()) {
            Ok(pipeline) => pipeline,
            Err(error) => {
                tracing::error!(worker = index, error, "a worker could not start anew");
                return;
            }
        };
        if let Some(limit) = drained {
            pipeline.drain(driver.port(), clock::monotonic(), limit);
        }
    }
}
