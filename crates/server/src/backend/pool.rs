//! A pool: a backend on another machine, reached over a few connections that are kept open.
//!
//! ```text
//!    submit --> waiting --> pipes (opening, open) --> answers --> poll
//!                  ^            |                        ^
//!                  |  sent again|  connection lost       |
//!                  +------------+------------------------+
//!                                  not safe to repeat, too late, or sent too often
//! ```
//!
//! What is said over a connection is the [`Wire`]'s business. Waiting requests fill the open pipes,
//! the emptiest first, each up to a depth; all that one pipe gets leaves in one send. Connections
//! are opened when requests wait that no pipe has room for, and closed after a time without any. A
//! request moves along the arrows as a value with one owner, which is why each is told of exactly
//! once.
//!
//! What happens when things go wrong:
//!
//! - *No answer in time*: `BackendTimeout`. Answers come in order, so the one that is late holds up
//!   those behind it, and its connection is dropped.
//! - *The connection is lost*: the requests in it are sent again, up to `retries_max` times, where
//!   that is safe: where they are idempotent, or were not sent to their last byte, so that the
//!   other side cannot have begun with them (RFC 9110, section 9.2.2). The others fail with
//!   `BackendFailed`.
//! - *The other side said that it ends the connection* (HTTP's `Connection: close`): it carries out
//!   nothing that came after the request it answered so (RFC 9112, section 9.6); those are sent
//!   again.
//! - *No connection can be opened*: every address is tried, and at least two attempts made; then
//!   all that wait fail.
//! - *The backend refuses a request* (HTTP's status other than 2xx): `BackendFailed`, and not
//!   repeated: the other side has decided.
//! - *An answer that is malformed or too long*: `BadAnswer`; the connection is dropped.
//!
//! Lost connections, time-outs, malformed answers and those that say the backend is not in order
//! (HTTP's statuses from 500 on) count as failures with the circuit breaker, each once however many
//! requests it meets. While the circuit is open, requests are refused, and so are those beyond the
//! bound of requests under way.

use super::answers::Answers;
use super::circuit::{Circuit, CircuitOptions};
use super::pipe::{Phase, Pipe, Sending};
use super::spare::Spare;
use super::wire::{Greeting, Reply, Unreadable, Wire};
use super::{Backend, BackendCounts, Batch, Tell};
use rhythm_engine::cohort::LaneError;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::{ConnectionId, Ended, Peer, Port, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// How a pool is used. The limits are a worker's, not the process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Most connections at a time; 0 is taken as 1.
    pub connections_max: usize,
    /// Most requests under way on a connection; 0 is taken as 1, which is not to pipeline.
    pub depth_max: usize,
    /// Most requests taken over and not yet answered; beyond, they are refused.
    pub requests_max: usize,
    /// Most bytes of a request as it is sent.
    pub request_max: usize,
    /// How often a request is sent again after a lost connection, where that is safe.
    pub retries_max: u32,
    /// How long a request may take, its waiting and repetition included.
    pub timeout: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How long a connection is kept without requests. Less than the other side keeps it, so that
    /// no request meets a connection that is just being closed.
    pub idle_max: Duration,
    /// When a failing backend is left alone.
    pub circuit: CircuitOptions,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            connections_max: 4,
            depth_max: 128,
            requests_max: 1 << 16,
            request_max: 16 * 1024,
            retries_max: 1,
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            idle_max: Duration::from_secs(4),
            circuit: CircuitOptions::default(),
        }
    }
}

impl PoolOptions {
    /// What a backend's table in service.toml says, and for the rest the defaults.
    pub fn of(config: &BackendConfig) -> PoolOptions {
        PoolOptions {
            connections_max: config.pool.connections_max as usize,
            retries_max: config.pool.retries,
            timeout: config.pool.timeout,
            ..PoolOptions::default()
        }
    }
}

/// How long no other connection is opened after one could not be, while some stand.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Why a pipe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// It broke, or was given up.
    Broken,
    /// What came over it made no sense.
    Unreadable,
    /// The other side said beforehand that it would not go on.
    Announced,
}

/// A backend that is reached over connections. See the module's text.
#[derive(Debug)]
pub struct Pool<W: Wire> {
    wire: W,
    options: PoolOptions,
    peers: Vec<Peer>,
    /// The one to connect to next.
    peer_next: usize,
    waiting: VecDeque<Sending>,
    pipes: Vec<Pipe<W::Reader>>,
    circuit: Circuit,
    /// Connections that could not be opened, in a row.
    connect_failures: usize,
    /// Until when no other connection is opened.
    connect_pause: Option<Time>,
    /// No request's deadline is earlier.
    deadline_next: Time,
    done: Done,
}

/// Where requests end up.
#[derive(Debug, Default)]
struct Done {
    answers: Answers,
    counts: BackendCounts,
    /// Requests taken over and not yet told of.
    under_way: usize,
    /// Memory for requests.
    spare: Spare,
}

impl Done {
    /// The beginning of a request.
    fn take_over(&mut self) {
        self.counts.requests += 1;
        self.under_way += 1;
    }

    /// The end of a request that was answered, well or not.
    fn tell_reply(&mut self, call: Sending, reply: &Reply, circuit: &mut Circuit, now: Time) {
        match reply.is_healthy {
            true => circuit.succeeded(),
            false => circuit.failed(now),
        }
        self.tell(call, reply.outcome);
    }

    /// The end of a request: the one place where one is told of.
    fn tell(&mut self, call: Sending, answer: Result<i64, LaneError>) {
        self.under_way -= 1;
        self.counts.failures += u64::from(answer.is_err());
        self.answers.push(call.key, answer);
        self.spare.keep(call.bytes);
    }
}

impl<W: Wire> Pool<W> {
    /// A backend at these addresses of a host, which are used in turn. Without an address every
    /// request fails.
    pub fn new(wire: W, host: &str, addresses: Vec<SocketAddr>, options: PoolOptions) -> Pool<W> {
        let peer = |address| Peer::tcp(host, address);
        Pool {
            wire,
            options,
            peers: addresses.into_iter().map(peer).collect(),
            peer_next: 0,
            waiting: VecDeque::new(),
            pipes: Vec::new(),
            circuit: Circuit::new(options.circuit),
            connect_failures: 0,
            connect_pause: None,
            deadline_next: Time::NEVER,
            done: Done::default(),
        }
    }

    fn find(&self, connection: ConnectionId) -> Option<usize> {
        self.pipes
            .iter()
            .position(|pipe| pipe.connection == connection)
    }

    /// Does all that can be done now: fills pipes with what waits and opens others.
    fn pump(&mut self, port: &mut dyn Port, now: Time) {
        let depth = self.options.depth_max.max(1);
        loop {
            if self.circuit.is_open() {
                self.fail_waiting(LaneError::BackendRefused);
            }
            if self.waiting.is_empty() {
                return;
            }
            let emptiest = (self.pipes.iter().enumerate())
                .filter(|(_, pipe)| pipe.room(depth) > 0)
                .min_by_key(|(_, pipe)| pipe.requests.len());
            let Some((at, _)) = emptiest else {
                break;
            };
            let pipe = &mut self.pipes[at];
            while pipe.room(depth) > 0
                && let Some(call) = self.waiting.pop_front()
            {
                pipe.requests.put(call);
            }
            if !pipe.flush(port) {
                self.lose(port, at, Loss::Broken, now);
            }
        }
        self.connect(port, now);
    }

    /// Opens as many connections as the waiting requests need.
    fn connect(&mut self, port: &mut dyn Port, now: Time) {
        if self.connect_pause.is_some_and(|until| now < until) {
            return;
        }
        self.connect_pause = None;
        loop {
            let opening = self.pipes.iter().filter(|pipe| !pipe.is_open()).count();
            let wanted = self.waiting.len().div_ceil(self.options.depth_max.max(1));
            if opening >= wanted
                || self.pipes.len() >= self.options.connections_max.max(1)
                || self.connect_pause.is_some()
            {
                return;
            }
            let peer = self.peers.get(self.peer_next % self.peers.len().max(1));
            self.peer_next = self.peer_next.wrapping_add(1);
            match peer.map(|peer| port.connect(peer)) {
                Some(Ok(connection)) => {
                    let until = now + self.options.connect_timeout;
                    self.pipes.push(Pipe::new(connection, until));
                }
                Some(Err(_)) | None => self.connect_failed(now),
            }
        }
    }

    /// A connection could not be opened. While others stand, there is only to wait; else it is the
    /// backend's failure.
    fn connect_failed(&mut self, now: Time) {
        if self.pipes.iter().any(Pipe::is_open) {
            self.connect_pause = Some(now + CONNECT_PAUSE);
            return;
        }
        self.circuit.failed(now);
        self.connect_failures += 1;
        if self.circuit.is_open() {
            self.fail_waiting(LaneError::BackendRefused);
        } else if self.pipes.is_empty() && self.connect_failures >= self.peers.len().max(2) {
            self.connect_failures = 0;
            self.fail_waiting(LaneError::BackendFailed);
        }
    }

    fn fail_waiting(&mut self, error: LaneError) {
        for call in self.waiting.drain(..) {
            self.done.tell(call, Err(error));
        }
    }

    /// Ends a pipe and decides over the requests in it.
    fn lose(&mut self, port: &mut dyn Port, at: usize, loss: Loss, now: Time) {
        let mut pipe = self.pipes.swap_remove(at);
        if loss == Loss::Announced {
            port.close(pipe.connection);
        } else {
            port.abort(pipe.connection);
            if pipe.requests.len() > 0 {
                self.circuit.failed(now);
            }
        }
        if loss == Loss::Unreadable
            && let Some(call) = pipe.requests.take_answered()
        {
            self.done.tell(call, Err(LaneError::BadAnswer));
        }
        // From the back, so that the first is the first again.
        while let Some((mut call, delivered)) = pipe.requests.take_back() {
            let again = match loss {
                // Not counted: each announced end comes with an answer, so there is progress.
                Loss::Announced => true,
                _ if call.retries >= self.options.retries_max => false,
                _ if delivered && !call.idempotent => false,
                _ => {
                    call.retries += 1;
                    true
                }
            };
            if call.deadline <= now {
                self.done.tell(call, Err(LaneError::BackendTimeout));
            } else if again {
                self.done.counts.retries += 1;
                self.waiting.push_front(call);
            } else {
                self.done.tell(call, Err(LaneError::BackendFailed));
            }
        }
    }

    /// Takes the answers out of what came in, and says how the pipe ended if it did.
    fn read(&mut self, at: usize, mut input: &[u8], now: Time) -> Option<Loss> {
        let Pool {
            wire,
            pipes,
            circuit,
            done,
            options,
            ..
        } = self;
        let Pipe {
            reader,
            requests,
            phase,
            proven,
            ..
        } = &mut pipes[at];
        loop {
            let columns = requests.columns_next();
            let (used, reply) = match wire.decode(reader, input, columns, &mut done.answers) {
                Ok((used, Some(reply))) => (used, reply),
                Ok((_, None)) => return None,
                Err(Unreadable) => {
                    done.answers.discard();
                    return Some(Loss::Unreadable);
                }
            };
            let Some(call) = requests.take_answered() else {
                // Nobody asked.
                done.answers.discard();
                return Some(Loss::Broken);
            };
            done.tell_reply(call, &reply, circuit, now);
            if !reply.goes_on {
                return Some(Loss::Announced);
            }
            *proven = true;
            *phase = Phase::Open {
                idle_until: now + options.idle_max,
            };
            input = &input[used..];
        }
    }

    /// Goes on with opening a connection, and says how it ended if it did.
    fn greet(&mut self, at: usize, input: &[u8], port: &mut dyn Port, now: Time) -> Option<Loss> {
        let pipe = &mut self.pipes[at];
        let mut out = Vec::new();
        let greeting = match self.wire.greet(&mut pipe.reader, input, &mut out) {
            Ok(greeting) => greeting,
            Err(Unreadable) => return Some(Loss::Unreadable),
        };
        pipe.requests.put_greeting(&out);
        if !pipe.flush(port) {
            return Some(Loss::Broken);
        }
        let Greeting::Done { used } = greeting else {
            return None;
        };
        self.connect_failures = 0;
        pipe.phase = Phase::Open {
            idle_until: now + self.options.idle_max,
        };
        match &input[used..] {
            [] => None,
            rest => self.read(at, rest, now),
        }
    }

    /// Ends a connection, whether it is in use already or not.
    fn lose_or_drop(&mut self, port: &mut dyn Port, at: usize, loss: Loss, now: Time) {
        match self.pipes[at].is_open() {
            true => self.lose(port, at, loss, now),
            false => self.drop_opening(port, at, now),
        }
    }

    /// A connection ended before it could be used.
    fn drop_opening(&mut self, port: &mut dyn Port, at: usize, now: Time) {
        let pipe = self.pipes.swap_remove(at);
        port.abort(pipe.connection);
        self.connect_failed(now);
    }

    /// Gives up what is late: waiting requests, and pipes with such requests.
    fn expire(&mut self, port: &mut dyn Port, now: Time) {
        let mut late = false;
        for _ in 0..self.waiting.len() {
            match self.waiting.pop_front() {
                Some(call) if call.deadline <= now => {
                    self.done.tell(call, Err(LaneError::BackendTimeout));
                    late = true;
                }
                Some(call) => self.waiting.push_back(call),
                None => break,
            }
        }
        if late {
            self.circuit.failed(now);
        }
        let is_late =
            |pipe: &Pipe<W::Reader>| pipe.requests.calls().any(|call| call.deadline <= now);
        while let Some(at) = self.pipes.iter().position(is_late) {
            self.lose(port, at, Loss::Broken, now);
        }
        let under_way =
            (self.waiting.iter()).chain(self.pipes.iter().flat_map(|p| p.requests.calls()));
        self.deadline_next = under_way
            .map(|call| call.deadline)
            .min()
            .unwrap_or(Time::NEVER);
    }
}

impl<W: Wire> Backend for Pool<W> {
    fn submit(&mut self, port: &mut dyn Port, batch: Batch<'_>, now: Time) {
        let deadline = batch.deadline.min(now + self.options.timeout);
        for (request, key) in batch.keys.iter().enumerate() {
            let mut bytes = self.done.spare.take();
            let arguments = batch.requests.arguments(request);
            self.wire.encode(batch.call, arguments, &mut bytes);
            let refusal = if bytes.len() > self.options.request_max {
                Some(LaneError::TooLarge)
            } else if deadline <= now {
                Some(LaneError::BackendTimeout)
            } else if self.done.under_way >= self.options.requests_max || !self.circuit.admit(now) {
                Some(LaneError::BackendRefused)
            } else {
                None
            };
            let call = Sending {
                key: *key,
                bytes,
                columns: batch.call.columns,
                deadline,
                idempotent: batch.call.idempotent,
                retries: 0,
            };
            self.done.take_over();
            match refusal {
                Some(error) => self.done.tell(call, Err(error)),
                None => {
                    self.deadline_next = self.deadline_next.min(deadline);
                    self.waiting.push_back(call);
                }
            }
        }
        self.pump(port, now);
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.done.answers.tell(tell);
    }

    fn owns(&self, connection: ConnectionId) -> bool {
        self.find(connection).is_some()
    }

    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        if let Some(at) = self.find(connection) {
            if let Some(loss) = self.greet(at, b"", port, now) {
                self.lose_or_drop(port, at, loss, now);
            }
            self.pump(port, now);
        }
    }

    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], now: Time) {
        if let Some(at) = self.find(connection) {
            if !self.pipes[at].is_open() {
                if let Some(loss) = self.greet(at, bytes, port, now) {
                    self.lose_or_drop(port, at, loss, now);
                }
            } else if let Some(loss) = self.read(at, bytes, now) {
                self.lose(port, at, loss, now);
            }
            self.pump(port, now);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, now: Time) {
        let Some(at) = self.find(connection) else {
            return;
        };
        let pipe = &mut self.pipes[at];
        if !pipe.is_open() {
            self.drop_opening(port, at, now);
        } else {
            // What ends with the connection is complete now.
            let mut loss = Loss::Broken;
            let columns = pipe.requests.columns_next();
            let answers = &mut self.done.answers;
            if how == Ended::PeerFinished
                && let Some(reply) = self.wire.finish(&mut pipe.reader, columns, answers)
            {
                match pipe.requests.take_answered() {
                    None => answers.discard(),
                    Some(call) => {
                        self.done.tell_reply(call, &reply, &mut self.circuit, now);
                        loss = Loss::Announced;
                    }
                }
            }
            self.lose(port, at, loss, now);
        }
        self.pump(port, now);
    }

    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        if let Some(at) = self.find(connection) {
            self.pipes[at].requests.unblock();
            if !self.pipes[at].flush(port) {
                self.lose_or_drop(port, at, Loss::Broken, now);
            }
            self.pump(port, now);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let deadline = (self.done.under_way > 0).then_some(self.deadline_next);
        let pause = self.connect_pause.filter(|_| !self.waiting.is_empty());
        (self.pipes.iter().map(Pipe::wake_at))
            .chain(deadline)
            .chain(pause)
            .filter(|at| *at != Time::NEVER)
            .min()
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.deadline_next <= now {
            self.expire(port, now);
        }
        while let Some(at) = self.pipes.iter().position(|pipe| pipe.wake_at() <= now) {
            let pipe = self.pipes.swap_remove(at);
            if pipe.is_open() {
                port.close(pipe.connection);
            } else {
                port.abort(pipe.connection);
                self.connect_failed(now);
            }
        }
        self.pump(port, now);
    }

    fn close(&mut self, port: &mut dyn Port) {
        for pipe in self.pipes.drain(..) {
            port.abort(pipe.connection);
        }
    }

    fn counts(&self) -> BackendCounts {
        BackendCounts {
            circuit_open: self.circuit.refuses(),
            ..self.done.counts
        }
    }
}
