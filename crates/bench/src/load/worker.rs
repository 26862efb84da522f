//! A thread of users: what each asks for next, and what becomes of the answers.
//!
//! The worker is a [`Handler`] of the same driver the server runs on. Each session has at most one
//! connection and, except with `pipeline`, one request under way:
//!
//! ```text
//!   arrive --> ask --> (answer) --> judge --> next: files of the page, the next page of the chain,
//!     ^                                         |   or, after think time, the same
//!     +-------------- leave <-------------------+
//! ```

mod answers;
mod events;

use super::chain::Page;
use super::client::{Awaited, Client, Phase};
use super::expect::Expected;
use super::judge::Judge;
use super::options::LoadOptions;
use super::report::Counts;
use super::rng::Rng;
use super::target::Target;
use super::visit::{Ask, Probe, Side, Visit};
use rhythm_besim::Bank;
use rhythm_net::clock::monotonic;
use rhythm_net::{ConnectionId, DriverOptions, Flushed, Peer, Port, Time, TimerWheel};
use std::collections::VecDeque;
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
    pub(crate) workers: usize,
}

/// The time between two wrong passwords of all workers.
const WRONG_EVERY: Duration = Duration::from_secs(2);

/// A thread's users.
pub(crate) struct Worker {
    setup: Rc<Setup>,
    peer: Peer,
    bank: Bank,
    judge: Judge,
    counts: Counts,
    live: Arc<Live>,
    /// Where the counts go in the end.
    results: Sender<Counts>,
    clients: Vec<Client>,
    /// The session of each connection slot.
    slots: Vec<u32>,
    timers: TimerWheel,
    /// Expectations to be used again.
    spare: Vec<Expected>,
    /// Chooses when users arrive.
    rng: Rng,
    /// Seconds between two arrivals of this worker's users, on average; open loop only.
    arrival_mean: Option<Duration>,
    next_arrival: Time,
    /// When users arrived for whom there was no session.
    waiting: VecDeque<Time>,
    idle: Vec<u32>,
    started: usize,
    next_start: Time,
    /// When a wrong password may be tried again.
    next_wrong: Time,
    next_scan: Time,
    measure_from: Time,
    end: Time,
    is_stopping: bool,
    done: usize,
}

impl Worker {
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
        index: usize,
        live: Arc<Live>,
        results: Sender<Counts>,
    ) -> Worker {
        let Setup {
            options,
            target,
            workers,
        } = &setup;
        let sessions = (options.sessions + workers - 1 - index) / workers;
        let now = monotonic();
        let mut rng = Rng::new(options.seed ^ (index as u64) << 48);
        let clients: Vec<Client> = (0..sessions).map(|_| Client::new(rng.bits())).collect();
        let arrival_mean = options
            .arrivals_per_s
            .map(|rate| Duration::from_secs_f64(*workers as f64 / rate));
        Worker {
            peer: Peer::tcp(target.host.as_str(), target.address),
            bank: Bank::new(options.users),
            judge: Judge::new(options.validate),
            counts: Counts::new(),
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
            waiting: VecDeque::new(),
            next_start: now,
            next_wrong: now,
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
        // Whoever did not finish in time got no answer.
        let pending = self.clients.iter().map(|client| client.pending.len());
        let unanswered: usize = pending.sum();
        (0..unanswered).for_each(|_| self.error("no answer before the end"));
        let counts = std::mem::replace(&mut self.counts, Counts::new());
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
        let setup = Rc::clone(&self.setup);
        let options = &setup.options;
        let client = &mut self.clients[index];
        client.queue.clear();
        let user = 1 + client.rng.below(options.users);
        // Three of four browsers have been here before.
        client.visit = Visit::new(user, client.rng.one_in(4));
        client.phase = Phase::Active;
        // Few: servers refuse addresses from which many come.
        let is_walk = options.refusals && options.page.is_none();
        if is_walk && client.rng.one_in(64) && due >= self.next_wrong {
            self.next_wrong = due + WRONG_EVERY * setup.workers as u32;
            client.queue.push_back(Ask::Probe(Probe::WrongPassword));
        }
        client.queue.push_back(Ask::Page(Page::Login));
        if self.is_measuring(due) {
            self.counts.visits += 1;
        }
        self.proceed(port, index, due);
    }

    /// The user goes on: asks for what is queued, for the next page, or leaves.
    fn proceed(&mut self, port: &mut dyn Port, index: usize, due: Time) {
        let setup = Rc::clone(&self.setup);
        let options = &setup.options;
        let client = &mut self.clients[index];
        if let Some(ask) = client.queue.pop_front() {
            return self.ask(index, ask, due);
        }
        if self.is_stopping {
            if client.pending.is_empty() {
                self.leave(port, index, due);
            }
            return;
        }
        if let Some(page) = options.page {
            client.visit.side = Side::Front;
            while self.clients[index].pending.len() < options.pipeline
                && self.clients[index].queue.is_empty()
            {
                self.ask(index, Ask::Page(page), due);
            }
            return;
        }
        let visit = &mut client.visit;
        let next = if visit.last == Page::CheckDetailImage && visit.side == Side::Front {
            visit.side = Side::Back;
            Some(Page::CheckDetailImage)
        } else {
            visit.side = Side::Front;
            visit.last.follow(&mut client.rng)
        };
        let Some(page) = next else {
            return self.leave(port, index, due);
        };
        if options.think.is_zero() || page == Page::CheckDetailImage {
            return self.ask(index, Ask::Page(page), due);
        }
        let at = due + client.rng.exponential(options.think);
        self.wait(index, Some(page), at);
    }

    /// Lets a timer go on with a page, or with a new visit.
    fn wait(&mut self, index: usize, page: Option<Page>, until: Time) {
        self.clients[index].phase = Phase::Waiting(page);
        self.timers.set(index as u32, until);
    }

    /// The user leaves; another one comes, or nobody.
    fn leave(&mut self, port: &mut dyn Port, index: usize, due: Time) {
        let client = &mut self.clients[index];
        if client.visit.signed_in && self.setup.options.sign_out {
            client.visit.signed_in = false;
            client.phase = Phase::Active;
            return self.ask(index, Ask::SignOut, due);
        }
        client.phase = Phase::Idle;
        if self.is_stopping {
            return self.finish(port, index);
        }
        if self.arrival_mean.is_none() {
            // Not a call: users who leave at once would nest without end.
            return self.wait(index, None, due);
        }
        match self.waiting.pop_front() {
            Some(arrived) => self.arrive(port, index, arrived),
            None => self.idle.push(index as u32),
        }
    }

    /// The session is over for good.
    fn finish(&mut self, port: &mut dyn Port, index: usize) {
        let client = &mut self.clients[index];
        if client.phase != Phase::Done {
            client.phase = Phase::Done;
            if let Some(connection) = client.disconnected() {
                port.close(connection);
            }
            self.timers.clear(index as u32);
            self.done += 1;
        }
    }

    /// Something went wrong: the visit ends, and another begins after a pause.
    fn give_up(&mut self, port: &mut dyn Port, index: usize, reason: &str) {
        let client = &mut self.clients[index];
        let requests = client.pending.len().max(1);
        self.spare
            .extend(client.pending.drain(..).map(|pending| pending.expected));
        client.queue.clear();
        client.visit.signed_in = false;
        if let Some(connection) = client.disconnected() {
            port.abort(connection);
        }
        (0..requests).for_each(|_| self.error(reason));
        if self.is_stopping {
            self.finish(port, index);
        } else {
            self.wait(index, None, monotonic() + PAUSE);
        }
    }

    // ----- requests -----

    /// Writes a request; it is sent by [`Worker::flush`].
    fn ask(&mut self, index: usize, ask: Ask, due: Time) {
        let setup = Rc::clone(&self.setup);
        let (options, host) = (&setup.options, &setup.target.host);
        let client = &mut self.clients[index];
        let reference = match ask {
            Ask::Page(Page::CheckDetailImage) if options.validate => {
                client.visit.check = client.visit.check.max(1);
                self.judge.files.of_check(&self.bank, &client.visit)
            }
            _ => None,
        };
        // An image is compared with the file, so that must be known.
        if let Some(file) = reference.filter(|file| self.judge.files.get(*file).bytes.is_none()) {
            client.queue.push_front(ask);
            return self.ask(index, Ask::Static(file), due);
        }
        client.request.clear();
        let mut expected = self.spare.pop().unwrap_or_default();
        let mut is_conditional = false;
        match ask {
            Ask::Page(page) => {
                client.visit.page(
                    page,
                    &self.bank,
                    host,
                    &mut client.rng,
                    &mut client.request,
                    &mut expected,
                );
                client.visit.last = page;
            }
            Ask::Static(file) => {
                let files = &self.judge.files;
                let condition = files.condition(file, !client.visit.fresh, &mut client.rng);
                is_conditional = !condition.is_empty();
                let path = &files.get(file).path;
                client
                    .visit
                    .static_file(path, &condition, host, &mut client.request);
            }
            Ask::Probe(probe) => {
                client
                    .visit
                    .probe(probe, &self.bank, host, &mut client.request, &mut expected)
            }
            Ask::SignOut => client.visit.sign_out(host, &mut client.request),
        }
        client.out.push(&client.request);
        let now = monotonic();
        client.phase = Phase::Active;
        client.is_retried = false;
        client.pending.push_back(Awaited {
            ask,
            started: if self.arrival_mean.is_some() {
                due
            } else {
                now
            },
            sent: now,
            expected,
            file: reference,
            is_conditional,
            is_safe: !client.request.starts_with(b"POST"),
        });
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
        let client = &mut self.clients[index];
        if client.may_retry() {
            if let Some(connection) = client.disconnected() {
                port.abort(connection);
            }
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
