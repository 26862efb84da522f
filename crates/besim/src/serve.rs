//! BeSim as an HTTP server: `GET /besim?1&3&17`, on any path.
//!
//! Each thread has a listener on the same port and a driver of its own; they share nothing. A
//! connection's answers wait in a queue in the order of its requests, each until its delay is over,
//! so pipelined requests are delayed side by side, as a backend works on them. Delays are up to a
//! millisecond longer than asked for (the grain of the timers).
//!
//! For studying what a front end makes of a bad backend, answers can be delayed, at random if
//! wanted, and a share of them fails: half with status 500, half by dropping the connection. The
//! same seed and requests fail alike.

use crate::bank::Bank;
use crate::mix::mix64;
use rhythm_net::workers::{
    self, Entrance, Inbox, Place, Worker, WorkerError, WorkerOptions, Workers,
};
use rhythm_net::{
    Accepted, ConnectionId, ConnectionTable, Ended, Flushed, Handler, ListenError, ListenOptions,
    Listener, Outgoing, Port, Role, Time, TimerWheel,
};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{Framing, HeadLimits, Method, RequestHead, parse_head};
use rhythm_protocol::http::response::ResponseWriter;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Answers a connection may wait for; beyond, its requests are not read.
const WAITING_MAX: usize = 1024;

/// Bytes of answers not yet taken by a socket; beyond, its requests are not read.
const OUT_MAX: usize = 256 * 1024;

/// The buffer for answers that a connection keeps while it has none to send.
const KEEP_BYTES: usize = 8 * 1024;

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
            users: 100_000,
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
        let make = move |place: Place<'_, Infallible>| {
            Ok::<_, Infallible>(Service::new(&options, place.index as u64))
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

/// An answer that waits for its time.
struct Delayed {
    due: Time,
    /// Nothing if the connection is to be dropped instead.
    bytes: Option<Vec<u8>>,
}

/// A client's connection.
struct Connection {
    head: RequestHead,
    /// Input of which no whole request is made yet.
    input: Vec<u8>,
    waiting: VecDeque<Delayed>,
    out: Outgoing,
    /// No more requests are read: close once all is answered.
    is_last: bool,
    is_paused: bool,
}

/// A thread's connections.
struct Service {
    bank: Bank,
    delay: Duration,
    jitter: Duration,
    /// Of 2^32 requests, how many fail.
    fail_share: u64,
    random: u64,
    connections: ConnectionTable<Connection>,
    timers: TimerWheel,
    body: Vec<u8>,
}

impl Service {
    fn new(options: &ServeOptions, index: u64) -> Service {
        let share = (options.fail_percent / 100.0).clamp(0.0, 1.0);
        Service {
            bank: Bank::new(options.users),
            delay: options.delay,
            jitter: options.jitter,
            fail_share: (share * (1_u64 << 32) as f64) as u64,
            random: mix64(options.seed ^ index << 32),
            connections: ConnectionTable::new(),
            timers: TimerWheel::new(rhythm_net::clock::monotonic()),
            body: Vec::new(),
        }
    }

    /// The next 64 random bits.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.random)
    }

    fn forget(&mut self, id: ConnectionId) {
        if self.connections.remove(id).is_some() {
            self.timers.clear(id.slot());
        }
    }

    /// Answers the whole requests in the input, and sends what is due. Requests beyond the room for
    /// answers are left, to be taken up when there is room again.
    fn work(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        while self.take_requests(port, id, now) {
            self.send(port, id, now);
        }
        self.send(port, id, now);
    }

    /// Makes answers of the whole requests in the input. Whether there may be more than there was
    /// room for.
    fn take_requests(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> bool {
        let Some(mut connection) = self.connections.remove(id) else {
            return false;
        };
        let mut used = 0;
        while !connection.is_last && connection.has_room() && used < connection.input.len() {
            let input = &connection.input[used..];
            match parse_head(&mut connection.head, input, &HeadLimits::default()) {
                Ok(Progress::Partial) => break,
                Ok(Progress::Complete { head_len }) => {
                    let delayed = self.answer(&connection.head, input, now);
                    let head = &connection.head;
                    // Content is not expected; what follows could not be told from it.
                    connection.is_last = !head.keep_alive()
                        || head.framing() != Framing::None
                        || delayed.bytes.is_none();
                    connection.waiting.push_back(delayed);
                    used += head_len;
                }
                Err(error) => {
                    connection.is_last = true;
                    let bytes = Some(plain(error.status(), false));
                    connection.waiting.push_back(Delayed { due: now, bytes });
                }
            }
        }
        connection.input.drain(..used);
        let filled_up = used > 0 && !connection.has_room();
        if connection.has_room() == connection.is_paused {
            connection.is_paused = !connection.is_paused;
            if connection.is_paused {
                port.pause(id);
            } else {
                port.resume(id);
            }
        }
        self.connections.insert(id, connection);
        filled_up
    }

    fn answer(&mut self, head: &RequestHead, bytes: &[u8], now: Time) -> Delayed {
        let random = self.random();
        let jitter = self
            .jitter
            .mul_f64((random >> 32) as f64 / (1_u64 << 32) as f64);
        let due = now + self.delay + jitter;
        if (random & 0xffff_ffff) < self.fail_share {
            // Bits that have nothing to do with those above.
            let bytes = (self.random() & 1 == 0).then(|| plain(500, head.keep_alive()));
            return Delayed { due, bytes };
        }
        if head.framing() != Framing::None {
            return Delayed {
                due,
                bytes: Some(plain(413, false)),
            };
        }
        let is_head = match head.method() {
            Method::Get => false,
            Method::Head => true,
            _ => {
                return Delayed {
                    due,
                    bytes: Some(plain(405, head.keep_alive())),
                };
            }
        };
        self.body.clear();
        self.bank.answer(head.query().of(bytes), &mut self.body);
        let mut out = Vec::with_capacity(128 + self.body.len());
        let mut writer = ResponseWriter::new(&mut out, 200);
        writer
            .content_type("text/html; charset=utf-8")
            .content_length(self.body.len() as u64)
            .connection(head.keep_alive(), head.is_http10())
            .end();
        if !is_head {
            out.extend_from_slice(&self.body);
        }
        Delayed {
            due,
            bytes: Some(out),
        }
    }

    /// Sends the answers whose time has come, and closes after the last.
    fn send(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        while let Some(delayed) = connection
            .waiting
            .front_mut()
            .filter(|first| first.due <= now)
        {
            let bytes = delayed.bytes.take();
            connection.waiting.pop_front();
            match bytes {
                Some(bytes) => connection.out.push(&bytes),
                None => {
                    port.abort(id);
                    return self.forget(id);
                }
            }
        }
        match connection.out.flush(port, id) {
            Flushed::All if connection.is_last && connection.waiting.is_empty() => {
                port.close(id);
                return self.forget(id);
            }
            Flushed::All | Flushed::Some => {}
            Flushed::Gone => return self.forget(id),
        }
        match connection.waiting.front() {
            Some(delayed) => self.timers.set(id.slot(), delayed.due),
            None => self.timers.clear(id.slot()),
        }
    }
}

impl Connection {
    fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX && self.out.unsent() < OUT_MAX
    }
}

/// An answer without a body worth reading.
fn plain(status: u16, keep_alive: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ResponseWriter::new(&mut out, status);
    if status == 405 {
        writer.allow(["GET", "HEAD"]);
    }
    writer.content_length(0).connection(keep_alive, false).end();
    out
}

impl Worker for Service {
    type Command = Infallible;
}

impl Handler for Service {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        let connection = Connection {
            head: RequestHead::new(),
            input: Vec::new(),
            waiting: VecDeque::new(),
            out: Outgoing::keeping(KEEP_BYTES),
            is_last: false,
            is_paused: false,
        };
        self.connections.insert(accepted.connection, connection);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        let connection = self.connections.get_mut(id);
        if let Some(connection) = connection.filter(|connection| !connection.is_last) {
            connection.input.extend_from_slice(bytes);
            self.work(port, id, now);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        match (how, self.connections.get_mut(id)) {
            (Ended::PeerFinished, Some(connection)) => {
                connection.is_last = true;
                self.send(port, id, now);
            }
            _ => self.forget(id),
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Some(connection) = self.connections.get_mut(id) {
            match connection.out.writable(port, id) {
                Flushed::Gone => self.forget(id),
                Flushed::All | Flushed::Some => self.work(port, id, now),
            }
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let mut due = Vec::new();
        self.timers.expire(now, |slot| due.push(slot));
        for slot in due {
            let id = self.connections.id_at(slot);
            debug_assert!(id.is_some(), "a connection that is forgotten has no timer");
            if let Some(id) = id {
                // First what is due goes out, which makes room for more requests.
                self.send(port, id, now);
                self.work(port, id, now);
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.timers.wake_at()
    }
}
