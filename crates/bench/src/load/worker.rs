//! A thread of users: what each asks for next, and what becomes of the answers.
//!
//! The worker is a [`Handler`] of the same driver the server runs on. Each session has at most one
//! connection and, except with `pipeline`, one request under way:
//!
//! ```text
//!   arrive --> ask --> (answer) --> judge --> next: files of the page, the next page of the walk,
//!     ^                                         |   or, after think time, the same
//!     +-------------- leave <-------------------+
//! ```

mod answers;
mod events;

use super::client::{Awaited, Client, Phase};
use super::options::LoadOptions;
use super::report::Counts;
use super::rng::Rng;
use super::target::Target;
use super::walk::{Next, Walk};
use rhythm_net::clock::monotonic;
use rhythm_net::tls::Connector;
use rhythm_net::{ConnectionId, DriverOptions, Flushed, Peer, Port, Time, TimerWheel};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often requests are looked through for those that take too long.
const SCAN: Duration = Duration::from_millis(100);

/// How long a session waits after an error, lest it hammers a server that is down.
const PAUSE: Duration = Duration::from_millis(20);

/// Sessions begun in one go, so that a thousand do not overrun the server's queue of connections.
const STARTS: usize = 32;

/// Time between two goes.
const START_EVERY: Duration = Duration::from_millis(1);

/// What workers tell while they run.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) pages: AtomicU64,
    pub(crate) invalid: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// What all workers are told.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) options: LoadOptions,
    pub(crate) target: Target,
    /// What connections speak TLS by, if they do.
    pub(crate) connector: Option<Arc<Connector>>,
    pub(crate) workers: usize,
    /// Requests that a user has under way at most.
    pub(crate) pipeline: usize,
    /// Kinds of pages.
    pub(crate) pages: usize,
}

/// A thread's users.
pub(crate) struct Worker<W: Walk> {
    setup: Rc<Setup>,
    peer: Peer,
    walk: W,
    counts: Counts,
    live: Arc<Live>,
    /// Where the counts go in the end.
    results: Sender<Counts>,
    clients: Vec<Client<W>>,
    /// The session of each connection slot.
    slots: Vec<u32>,
    timers: TimerWheel,
    /// Expectations to be used again.
    spare: Vec<W::Expected>,
    /// Chooses when users arrive.
    rng: Rng,
    /// Seconds between two arrivals of this worker's users, on average; open loop only.
    arrival_mean: Option<Duration>,
    /// When the user is due who arrives next: one for whom there is no session stays due.
    next_arrival: Time,
    /// Sessions in which nobody is; open loop only.
    idle: Vec<u32>,
    started: usize,
    next_start: Time,
    next_scan: Time,
    measure_from: Time,
    end: Time,
    is_stopping: bool,
    done: usize,
}

impl<W: Walk> Worker<W> {
    /// The bounds of a worker's driver.
    pub(crate) fn driver_options(setup: &Setup) -> DriverOptions {
        DriverOptions {
            // Twice: a connection just closed may linger beside the one that replaces it.
            outgoing_max: 2 * setup.options.sessions.div_ceil(setup.workers) + 16,
            receive_bytes: 256 * 1024,
            ..DriverOptions::default()
        }
    }

    /// The worker `index`, which begins at once.
    pub(crate) fn new(
        setup: Setup,
        walk: W,
        index: usize,
        live: Arc<Live>,
        results: Sender<Counts>,
    ) -> Worker<W> {
        let Setup {
            options,
            target,
            connector,
            workers,
            ..
        } = &setup;
        let sessions = (options.sessions + workers - 1 - index) / workers;
        let now = monotonic();
        let mut rng = Rng::new(options.seed ^ (index as u64) << 48);
        let clients: Vec<Client<W>> = (0..sessions).map(|_| Client::new(rng.bits())).collect();
        let arrival_mean = options
            .arrivals_per_s
            .map(|rate| Duration::from_secs_f64(*workers as f64 / rate));
        Worker {
            peer: Peer {
                seal: connector.as_ref().map(Connector::seal),
                ..Peer::tcp(target.host.as_str(), target.address)
            },
            walk,
            counts: Counts::new(setup.pages),
            live,
            results,
            idle: if arrival_mean.is_some() {
                (0..sessions as u32).rev().collect()
            } else {
                Vec::new()
            },
            started: if arrival_mean.is_some() { sessions } else { 0 },
            clients,
            slots: Vec::new(),
            timers: TimerWheel::new(now),
            spare: Vec::new(),
            next_arrival: arrival_mean.map_or(Time::NEVER, |mean| now + rng.exponential(mean)),
            rng,
            arrival_mean,
            next_start: now,
            next_scan: now + SCAN,
            measure_from: now + options.warmup,
            end: now + options.warmup + options.duration,
            is_stopping: false,
            done: 0,
            setup: Rc::new(setup),
        }
    }

    /// All sessions are over: tells what became of them.
    fn report(&mut self) {
        // Who was due and found no session has waited until the end at least. They
        // are counted when no answer can come any more: there may be many.
        while let Some(mean) = self.arrival_mean.filter(|_| self.next_arrival < self.end) {
            if self.is_measuring(self.next_arrival) {
                (self.counts).never_served(self.end.since(self.next_arrival));
            }
            self.next_arrival += self.rng.exponential(mean);
        }
        // Whoever did not finish in time got no answer.
        for index in 0..self.clients.len() {
            self.unanswered(index, "no answer before the end");
        }
        let counts = std::mem::replace(&mut self.counts, Counts::new(self.setup.pages));
        // Nobody listens where the run was given up.
        let _ = self.results.send(counts);
    }

    fn is_measuring(&self, now: Time) -> bool {
        self.measure_from <= now && now <= self.end
    }

    fn error(&mut self, kind: &str) {
        self.counts.error(kind);
        self.live.errors.fetch_add(1, Ordering::Relaxed);
    }

    // ----- users -----

    /// A user arrives who was due at `due`.
    fn arrive(&mut self, port: &mut dyn Port, index: usize, due: Time) {
        let Client {
            visit,
            rng,
            queue,
            phase,
            since,
            ..
        } = &mut self.clients[index];
        queue.clear();
        *visit = self.walk.arrive(due, rng, queue);
        (*phase, *since) = (Phase::Active, None);
        if self.is_measuring(due) {
            self.counts.visits += 1;
        }
        self.proceed(port, index, due);
    }

    /// The user goes on: asks for what is queued, for the next page, or leaves.
    fn proceed(&mut self, port: &mut dyn Port, index: usize, due: Time) {
        if let Some(ask) = self.clients[index].queue.pop_front() {
            return self.ask(index, ask, due);
        }
        if self.is_stopping {
            if self.clients[index].pending.is_empty() {
                self.leave(port, index, due);
            }
            return;
        }
        let think = self.setup.options.think;
        while self.clients[index].queue.is_empty()
            && self.clients[index].pending.len() < self.setup.pipeline
        {
            let Client { visit, rng, .. } = &mut self.clients[index];
            match self.walk.next(visit, rng) {
                None => return self.leave(port, index, due),
                Some(Next { ask, thinks: true }) if !think.is_zero() => {
                    let at = due + rng.exponential(think);
                    return self.wait(index, Some(ask), at);
                }
                Some(Next { ask, .. }) => self.ask(index, ask, due),
            }
        }
    }

    /// Lets a timer go on with a request, or with a new visit.
    fn wait(&mut self, index: usize, ask: Option<W::Ask>, until: Time) {
        self.clients[index].phase = Phase::Waiting(ask);
        self.timers.set(index as u32, until);
    }

    /// The user leaves; another one comes, or nobody.
    fn leave(&mut self, port: &mut dyn Port, index: usize, due: Time) {
        let client = &mut self.clients[index];
        if let Some(ask) = self.walk.leave(&mut client.visit) {
            client.phase = Phase::Active;
            return self.ask(index, ask, due);
        }
        client.phase = Phase::Idle;
        if self.is_stopping {
            return self.finish(port, index);
        }
        if self.arrival_mean.is_none() {
            // Not a call: users who leave at once would nest without end.
            return self.wait(index, None, due);
        }
        self.idle.push(index as u32);
    }

    /// The session is over for good.
    fn finish(&mut self, port: &mut dyn Port, index: usize) {
        let client = &mut self.clients[index];
        if !matches!(client.phase, Phase::Done) {
            client.phase = Phase::Done;
            if let Some(connection) = self.disconnected(index) {
                port.close(connection);
            }
            self.timers.clear(index as u32);
            self.done += 1;
        }
    }

    /// Something went wrong: the visit ends, and another begins after a pause.
    fn give_up(&mut self, port: &mut dyn Port, index: usize, reason: &str) {
        match self.clients[index].pending.is_empty() {
            true => self.error(reason),
            false => self.unanswered(index, reason),
        }
        let client = &mut self.clients[index];
        client.queue.clear();
        self.walk.given_up(&mut client.visit);
        if let Some(connection) = self.disconnected(index) {
            port.abort(connection);
        }
        if self.is_stopping {
            self.finish(port, index);
        } else if !matches!(self.clients[index].phase, Phase::Idle) {
            // Where nobody is, nobody leaves: the session is among the idle ones already.
            self.wait(index, None, monotonic() + PAUSE);
        }
    }

    /// No answer comes any more to what a session has under way. What was due in the measurement
    /// was waited for until now at least.
    fn unanswered(&mut self, index: usize, reason: &str) {
        let now = monotonic();
        while let Some(pending) = self.clients[index].pending.pop_front() {
            self.error(reason);
            if self.is_measuring(pending.started) {
                let kind = self.walk.kind(pending.ask);
                (self.counts).never_answered(kind, now.since(pending.started));
            }
            self.spare.push(pending.expected);
        }
    }

    // ----- requests -----

    /// Writes a request; it is sent by [`Worker::flush`].
    fn ask(&mut self, index: usize, ask: W::Ask, due: Time) {
        let host = &self.setup.target.host;
        let mut expected = self.spare.pop().unwrap_or_default();
        let Client {
            visit,
            rng,
            request,
            queue,
            ..
        } = &mut self.clients[index];
        request.clear();
        if let Err(before) = (self.walk).ask(ask, visit, rng, host, request, &mut expected) {
            queue.push_front(ask);
            self.spare.push(expected);
            return self.ask(index, before, due);
        }
        if self.setup.options.gzip {
            accept_gzip(request);
        }
        let client = &mut self.clients[index];
        client.out.push(&client.request);
        let now = monotonic();
        let from = if self.arrival_mean.is_some() {
            due
        } else {
            now
        };
        client.phase = Phase::Active;
        client.is_retried = false;
        client.pending.push_back(Awaited {
            ask,
            started: client.since.take().unwrap_or(from),
            sent: now,
            expected,
            is_head: client.request.starts_with(b"HEAD"),
            is_safe: !client.request.starts_with(b"POST"),
        });
    }

    /// Forgets a session's connection.
    fn disconnected(&mut self, index: usize) -> Option<ConnectionId> {
        let client = &mut self.clients[index];
        let connection = client.disconnected();
        if connection.is_some() {
            self.walk.lost(&mut client.visit);
        }
        connection
    }

    /// Sends what is written, on a new connection if there is none.
    fn flush(&mut self, port: &mut dyn Port, index: usize) {
        let client = &mut self.clients[index];
        match client.connection {
            None if !client.out.is_empty() => self.connect(port, index),
            Some(connection) if client.is_connected => {
                let flushed = client.out.flush(port, connection);
                self.flushed(port, index, flushed);
            }
            _ => {}
        }
    }

    /// The session's connection takes bytes again, or for the first time.
    fn writable(&mut self, port: &mut dyn Port, index: usize) {
        let client = &mut self.clients[index];
        if let Some(connection) = client.connection {
            let flushed = client.out.writable(port, connection);
            self.flushed(port, index, flushed);
        }
    }

    fn flushed(&mut self, port: &mut dyn Port, index: usize, flushed: Flushed) {
        if flushed == Flushed::Gone {
            self.lost(port, index, "connection closed while sending");
        }
    }

    fn connect(&mut self, port: &mut dyn Port, index: usize) {
        match port.connect(&self.peer) {
            Ok(connection) => {
                let slot = connection.slot() as usize;
                if self.slots.len() <= slot {
                    self.slots.resize(slot + 1, u32::MAX);
                }
                self.slots[slot] = index as u32;
                self.clients[index].connection = Some(connection);
                self.counts.connections += 1;
            }
            Err(error) => self.give_up(port, index, &format!("connect: {error}")),
        }
    }

    /// The connection is gone with a request under way.
    fn lost(&mut self, port: &mut dyn Port, index: usize, reason: &str) {
        if self.clients[index].may_retry() {
            if let Some(connection) = self.disconnected(index) {
                port.abort(connection);
            }
            let client = &mut self.clients[index];
            client.is_retried = true;
            client.out.push(&client.request);
            self.counts.retries += 1;
            return self.connect(port, index);
        }
        self.give_up(port, index, reason);
    }

    /// The session of a connection.
    fn session(&self, connection: ConnectionId) -> Option<usize> {
        let index = *self.slots.get(connection.slot() as usize)? as usize;
        (self.clients.get(index)?.connection == Some(connection)).then_some(index)
    }
}

/// Adds to a request that its answer may come compressed.
fn accept_gzip(request: &mut Vec<u8>) {
    if let Some(end) = memchr::memchr(b'\n', request) {
        let line = *b"Accept-Encoding: gzip\r\n";
        drop(request.splice(end + 1..end + 1, line));
    }
}
