//! BeSim as an HTTP server: `GET /besim?1&3&17`, on any path.
//!
//! Each thread has a listener on the same port and a driver of its own; they share nothing.
//! Connections are `rhythm_http`'s. Requests that are delayed wait in the order of their times, so
//! pipelined ones are delayed side by side, as a backend works on them. Delays are up to a
//! millisecond longer than asked for (the grain of the timers).
//!
//! For studying what a front end makes of a bad backend, answers can be delayed, at random if
//! wanted, and a share of them fails: half with status 500, half by dropping the connection. The
//! same seed and requests fail alike.

use crate::bank::Bank;
use crate::mix::mix64;
use rhythm_http::{
    AnswerShape, AnswerSlot, Answers, ClientLimits, Host, HostServer, Request, RequestLimits,
};
use rhythm_net::workers::{
    self, Entrance, Inbox, WorkerError, WorkerOptions, WorkerThread, Workers,
};
use rhythm_net::{ListenError, ListenOptions, Listener, Role, Time, clock};
use rhythm_protocol::http::request::Method;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Answers a connection may wait for; beyond, its requests are not read.
const PIPELINED_MAX: u32 = 1024;
/// Connections are kept as good as for ever: it is for a front end to close them.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Users of the bank.
    pub users: u32,
    /// Threads.
    pub threads: usize,
    /// How long each answer takes.
    pub delay: Duration,
    /// How much longer it takes at most, at random.
    pub jitter: Duration,
    /// How many of a hundred requests fail.
    pub fail_percent: f64,
    /// What decides about jitter and failures.
    pub seed: u64,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            users: Bank::USERS_DEFAULT,
            threads: 1,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            fail_percent: 0.0,
            seed: 1,
        }
    }
}

/// Why BeSim cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// BeSim, serving.
pub struct Server {
    address: SocketAddr,
    workers: Workers<Infallible>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct Stopper {
    inboxes: Arc<[Inbox<Infallible>]>,
}

impl Stopper {
    /// Makes [`Server::join`] return; answers still delayed are dropped.
    pub fn stop(&self) {
        self.inboxes.iter().for_each(Inbox::stop);
    }
}

impl Server {
    /// Starts to serve: clients can connect when it returns.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(options: &ServeOptions) -> Result<Server, ServeError> {
        let threads = options.threads.max(1);
        let listeners = Listener::bind_group(options.listen, threads, &ListenOptions::default())?;
        let address = listeners
            .first()
            .map_or(options.listen, Listener::local_address);
        let worker_options = WorkerOptions {
            name: "besim",
            threads,
            ..WorkerOptions::default()
        };
        let options = options.clone();
        let make = move |thread: WorkerThread<'_, Infallible>| {
            Ok::<_, Infallible>(server(&options, thread.index as u64))
        };
        let listeners = vec![Entrance::listeners(Role::default(), listeners)];
        let workers = workers::start(&worker_options, listeners, make).map_err(io::Error::other)?;
        Ok(Server { address, workers })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// What ends it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            inboxes: self.workers.inboxes().into(),
        }
    }

    /// Waits until it is stopped.
    ///
    /// # Errors
    /// When a thread could not go on.
    pub fn join(self) -> Result<(), WorkerError> {
        self.workers.join()
    }
}

/// What one thread serves.
fn server(options: &ServeOptions, index: u64) -> HostServer {
    let clients = ClientLimits {
        pipelined_max: PIPELINED_MAX,
        ..ClientLimits::within(TIMEOUT)
    };
    let host = BesimHost::new(options, index);
    // Content is not expected.
    HostServer::new(host, clients, RequestLimits::default(), clock::monotonic())
}

/// What becomes of a request.
enum Outcome {
    Body(Vec<u8>),
    Status(u16),
    /// The connection is dropped instead.
    Drop,
}

/// An answer that waits for its time.
struct Delayed {
    slot: AnswerSlot,
    shape: AnswerShape,
    outcome: Outcome,
}

/// What answers on one thread. See the module's text.
struct BesimHost {
    bank: Bank,
    delay: Duration,
    jitter: Duration,
    /// Of 2^32 requests, how many fail.
    fail_share: u64,
    random: u64,
    /// By when they are due, and among those of one time by their order.
    delayed: BTreeMap<(Time, u64), Delayed>,
    /// Where each stands among them, to take it back when its client is gone.
    owed: HashMap<AnswerSlot, (Time, u64)>,
    order: u64,
}

impl BesimHost {
    /// `index`: which of several hosts that fail differently.
    fn new(options: &ServeOptions, index: u64) -> BesimHost {
        let share = (options.fail_percent / 100.0).clamp(0.0, 1.0);
        BesimHost {
            bank: Bank::new(options.users),
            delay: options.delay,
            jitter: options.jitter,
            fail_share: (share * (1_u64 << 32) as f64) as u64,
            random: mix64(options.seed ^ index << 32),
            delayed: BTreeMap::new(),
            owed: HashMap::new(),
            order: 0,
        }
    }

    /// The next 64 random bits.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.random)
    }

    /// What becomes of a request, and how long that takes.
    fn decide(&mut self, request: &Request<'_>) -> (Duration, Outcome) {
        let random = self.random();
        let jitter = self
            .jitter
            .mul_f64((random >> 32) as f64 / (1_u64 << 32) as f64);
        let takes = self.delay + jitter;
        if (random & 0xffff_ffff) < self.fail_share {
            // Bits that have nothing to do with those above.
            let outcome = match self.random() & 1 {
                0 => Outcome::Status(500),
                _ => Outcome::Drop,
            };
            return (takes, outcome);
        }
        let (head, bytes) = (request.head, request.bytes);
        if !matches!(head.method(), Method::Get | Method::Head) {
            return (takes, Outcome::Status(405));
        }
        let mut body = Vec::new();
        self.bank.answer(head.query().of(bytes), &mut body);
        (takes, Outcome::Body(body))
    }
}

impl Host for BesimHost {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let (takes, outcome) = self.decide(&request);
        let delayed = Delayed {
            slot: request.slot,
            shape: request.shape,
            outcome,
        };
        if takes.is_zero() {
            return delayed.give(answers);
        }
        self.order += 1;
        let key = (answers.now() + takes, self.order);
        self.owed.insert(delayed.slot, key);
        self.delayed.insert(key, delayed);
    }

    fn gone(&mut self, slot: AnswerSlot) {
        if let Some(key) = self.owed.remove(&slot) {
            self.delayed.remove(&key);
        }
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= answers.now()
        {
            let delayed = first.remove();
            self.owed.remove(&delayed.slot);
            delayed.give(answers);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }
}

impl Delayed {
    fn give(self, answers: &mut Answers<'_>) {
        let Delayed {
            slot,
            shape,
            outcome,
        } = self;
        match outcome {
            Outcome::Body(body) => answers.answer(slot, shape, 200, &body, |head| {
                head.content_type("text/html; charset=utf-8");
            }),
            Outcome::Status(status) => answers.answer(slot, shape, status, b"", |head| {
                if status == 405 {
                    head.allow(["GET", "HEAD"]);
                }
            }),
            Outcome::Drop => answers.abandon(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_net::testing::TestPort;
    use rhythm_net::{Accepted, ConnectionId, Ended, Handler};

    #[test]
    fn answers_to_clients_that_are_gone_are_not_kept() {
        let options = ServeOptions {
            delay: Duration::from_secs(3600),
            ..ServeOptions::default()
        };
        let clients = ClientLimits::within(TIMEOUT);
        let host = BesimHost::new(&options, 0);
        let mut server = HostServer::new(host, clients, RequestLimits::default(), Time::ZERO);
        let mut port = TestPort::default();
        for generation in 0..10 {
            let connection = ConnectionId::new(0, generation);
            let accepted = Accepted {
                connection,
                peer: options.listen.into(),
                role: Role::default(),
            };
            let request = b"GET /besim?1&3&17 HTTP/1.1\r\nHost: b\r\n\r\n";
            port.accept(connection);
            server.opened(&mut port, accepted, Time::ZERO);
            server.received(&mut port, connection, &request.repeat(3), Time::ZERO);
            server.idle(&mut port, Time::ZERO);
            server.turn_ended(Time::ZERO);
            assert_eq!(server.wake_at(), Some(Time::ZERO + options.delay));
            server.ended(
                &mut port,
                connection,
                Ended::Failed(io::ErrorKind::ConnectionReset),
                Time::ZERO,
            );
            server.idle(&mut port, Time::ZERO);
            // What is left is time-outs of connections.
            assert!(server.wake_at() > Some(Time::ZERO + options.delay));
        }
    }
}
