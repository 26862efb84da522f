//! A worker: what stands between the event loop of a thread and its pipeline: commands from other
//! threads, and the measure of how busy the loop is. The threads themselves are [`rhythm_net`]'s.

use crate::drain::Drain;
use crate::observe::metrics::WorkerMetrics;
use crate::pipeline::Pipeline;
use crate::site::Site;
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Port, Time, Token, clock};
use std::sync::Arc;

/// The waker of the device.
pub(crate) const DEVICE: Token = Token(1);

/// The waker of the hosts.
pub(crate) const HOSTS: Token = Token(2);

/// What other threads ask of a worker.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Serve this site from now on.
    Reload(Arc<Site>),
    /// Finish what is under way, and end.
    Drain(Drain),
}

/// Passes events on to the pipeline.
pub(crate) struct Worker {
    pipeline: Pipeline,
    metrics: Arc<WorkerMetrics>,
    /// When this turn's first event came.
    turn_began: Option<Time>,
    last_end: Time,
}

impl Worker {
    pub(crate) fn new(pipeline: Pipeline, metrics: Arc<WorkerMetrics>) -> Worker {
        Worker {
            pipeline,
            metrics,
            turn_began: None,
            last_end: clock::monotonic(),
        }
    }

    #[inline]
    fn event(&mut self, now: Time) {
        self.turn_began.get_or_insert(now);
    }
}

impl rhythm_net::Worker for Worker {
    type Command = Command;

    fn obey(&mut self, port: &mut dyn Port, command: Command, now: Time) {
        self.event(now);
        match command {
            Command::Reload(site) => self.pipeline.reload(site),
            Command::Drain(drain) => self.pipeline.drain(port, now, drain),
        }
    }
}

impl Handler for Worker {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        self.event(now);
        self.pipeline.opened(port, accepted, now);
    }

    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        self.event(now);
        self.pipeline.crowded(port, now);
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
        self.pipeline.notified(port, token, now);
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.event(now);
        self.pipeline.tick(port, now);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        // Where the turn had no event.
        self.event(now);
        self.pipeline.idle(port, now);
    }

    fn turn_ended(&mut self, end: Time) {
        self.pipeline.turn_ended(end);
        let began = self.turn_began.take().unwrap_or(end);
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
