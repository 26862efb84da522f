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
//! What is said over a connection is the [`Wire`]'s business. Waiting queries go into the open
//! pipes, the emptiest first; they are encoded for the pipe they go into, and all that one pipe
//! gets leaves in one send. Connections are opened when queries wait that no pipe has room for,
//! and closed after a time without any. A query moves along the arrows as a value with one owner,
//! which is why each is told of exactly once.
//!
//! Where answers come in order, one query may hold up those behind it in its pipe. So a pipe
//! holds more than one only while the backend answers promptly (`pace.rs`), up to its depth; what
//! cannot be sent again (it is not idempotent, or was sent again before) goes alone into an empty
//! pipe; and when the oldest of a pipe takes long all the same, those behind it are sent again
//! elsewhere, alone, while it waits for its answer by itself.
//!
//! Such a pipe is of no use to others until then. So nobody's queries are the oldest in more than
//! some of the pipes, nor are those of calls that take much longer than others, nor those that
//! cannot be sent again: others find the rest (`share.rs`, `statements.rs`, `alone.rs`). Who asks
//! for more waits for the answers to what he has asked, in a line of his own (`waiting.rs`). Who
//! would wait for longer than there is time is refused at once (`overload.rs`). Of what is held
//! connections are taken back, and how often is bounded (`renewals.rs`).
//!
//! What happens when things go wrong:
//!
//! - *No answer in time*: `BackendTimeout`. Where answers come in order, its connection is dropped.
//!   Else it is given up alone, as long as other answers come.
//! - *The connection is lost*: the queries in it are sent again, up to `retries_max` times, where
//!   that is safe: where they are idempotent, or were not sent to their last byte, so that the
//!   other side cannot have begun with them (RFC 9110, section 9.2.2). The others fail with
//!   `BackendFailed`.
//! - *The other side said that it ends the connection* (HTTP's `Connection: close`): it carries out
//!   nothing that came after the query it answered so (RFC 9112, section 9.6); those are sent
//!   again, and others as if the connection were lost.
//! - *No connection can be opened*, or what is opened ends before it is asked anything: every
//!   address is tried, and at least two attempts made; then all that wait fail.
//! - *The backend is elsewhere* (its name leads to other addresses): connections to addresses that
//!   are gone take no more queries, and are closed when they owe nothing that is waited for.
//! - *The backend has undone a query* that stood in another's way: it is sent again, up to
//!   `retries_max` times, whether it is idempotent or not.
//! - *The backend refuses a query* (HTTP's status other than 2xx): `BackendFailed`, and not
//!   repeated: the other side has decided.
//! - *An answer that is malformed or too long*: `BadAnswer` where answers come in order, so that it
//!   is known whose it is; the connection is dropped.
//!
//! Lost connections, queries that were sent and not answered in time, malformed answers and those
//! that say the backend is not in order (HTTP's statuses from 500 on) are failures of the one
//! query that met them; the circuit breaker judges by them whether the backend fails as a whole
//! (`circuit.rs`). While the circuit is open, queries are refused, and so are those beyond the
//! bound of queries under way.

mod alone;
mod circuit;
mod connecting;
mod done;
mod failing;
mod next;
mod options;
mod overload;
mod pace;
mod pipe;
mod refusing;
mod renewals;
mod share;
mod spare;
mod statements;
#[cfg(test)]
mod tests;
mod waiting;

pub use circuit::CircuitOptions;
pub use options::PoolOptions;
pub use share::ShareOptions;

use super::arguments::keep;
use super::awaited::{Sent, Taken};
use super::failure::Cause;
use super::wire::{Unreadable, Verdict, Wire};
use super::{Asker, Backend, BackendCounts, Batch, Tell};
use crate::owner::ConnectionOwner;
use circuit::{Circuit, Named};
use done::Done;
use overload::Overload;
use pace::Pace;
use pipe::{Loss, Pipe};
use renewals::Renewals;
use rhythm_engine::program::Call;
use rhythm_net::sparse::Sparse;
use rhythm_net::{ConnectionId, Ended, Peer, Port, Time};
use statements::Statements;
use std::io::ErrorKind;
use std::time::Duration;
use waiting::Waiting;

/// Least time between two lines of the log about queries that are too long.
const SAY_TOO_LARGE: Duration = Duration::from_secs(60);

/// A backend that is reached over connections. See the module's text.
#[derive(Debug)]
pub struct ConnectionPool<W: Wire> {
    wire: W,
    options: PoolOptions,
    peers: Vec<Peer>,
    /// The one to connect to next.
    peer_next: usize,
    statements: Statements,
    overload: Overload,
    waiting: Waiting,
    pace: Pace,
    /// Of connections that are given up, and of what goes elsewhere from behind a slow query.
    renewals: Renewals,
    moves: Renewals,
    pipes: Vec<Pipe<W>>,
    circuit: Circuit,
    /// Connections that could not be opened since one could, and was asked something.
    connect_failures: usize,
    /// When one could not last, of those that were begun when the one before had failed.
    connect_failed_at: Time,
    /// Until when no other connection is opened.
    connect_pause: Option<Time>,
    /// Since when the other side's queue was full at each attempt.
    full_since: Option<Time>,
    /// Something has happened in this turn, so that queries may leave at its end.
    has_news: bool,
    /// No query's deadline is earlier.
    deadline_next: Time,
    /// While queries wait: when the next that holds a pipe has taken long.
    slow_at: Time,
    /// Lines of the log that say that a query is too long.
    too_large_said: Sparse,
    done: Done,
}

impl Circuit {
    /// A query was answered so.
    fn judge(&mut self, sent: &Sent, verdict: &Verdict, now: Time) {
        match verdict.is_healthy {
            _ if sent.is_given_up => {}
            true => self.succeeded(&sent.query, now),
            false => {
                let cause = verdict.outcome.err().unwrap_or(Cause::Unwell);
                self.failed(&sent.query, cause, now);
            }
        }
    }
}

impl<W: Wire> ConnectionPool<W> {
    /// A backend of this name at these peers, which are used in turn. Without one every query
    /// fails.
    pub fn new(wire: W, name: &str, peers: Vec<Peer>, options: PoolOptions) -> ConnectionPool<W> {
        ConnectionPool {
            wire,
            options,
            peers,
            peer_next: 0,
            statements: Statements::new(),
            overload: Overload::new(options.timeout),
            waiting: Waiting::default(),
            pace: Pace::new(options.depth_max),
            renewals: Renewals::new(options.connections_max, options.timeout),
            moves: Renewals::new(options.connections_max, options.timeout),
            pipes: Vec::new(),
            circuit: Circuit::new(name, options.circuit),
            connect_failures: 0,
            connect_failed_at: Time::ZERO,
            connect_pause: None,
            full_since: None,
            has_news: false,
            deadline_next: Time::NEVER,
            slow_at: Time::NEVER,
            too_large_said: Sparse::every(SAY_TOO_LARGE),
            done: Done::default(),
        }
    }

    /// Most queries at a time on a connection now.
    fn depth(&self) -> usize {
        match W::IN_ORDER {
            true => self.pace.depth(),
            false => self.options.depth_max.max(1),
        }
    }

    /// Whether a query shares no connection: where answers come in order, another may hold it up,
    /// and then it would have to be sent again.
    fn is_alone(&self, query: &Taken) -> bool {
        W::IN_ORDER && (!query.call.idempotent || query.retries >= self.options.retries_max)
    }

    /// Says that a query of so many bytes is not sent.
    fn say_too_large(&mut self, bytes: usize, now: Time) {
        if self.too_large_said.line(now).is_some() {
            let Named { service, backend } = self.circuit.named();
            tracing::warn!(
                service = service.as_deref(),
                backend = &**backend,
                bytes,
                most = self.options.query_max,
                "a request to the backend is too long and gets 500: bound the parameters that go \
                 into it, by `max_length = ...` of the page, or `max_bytes` of a file, or raise \
                 `request_bytes_max` of the backend"
            );
        }
    }

    fn find(&self, connection: ConnectionId) -> Option<usize> {
        self.pipes.iter().position(|pipe| pipe.id == connection)
    }

    /// Does all that can be done now: fills pipes with what waits and opens others. Once a turn, so
    /// that what several batches ask leaves in one send.
    fn pump(&mut self, port: &mut dyn Port, now: Time) {
        // The first pipe to try, by how full it is: those before took nothing of what waits.
        let mut from = (0, 0);
        self.slow_at = Time::NEVER;
        while let Some(at) = self.pipes.iter().position(Pipe::has_left) {
            let pipe = self.pipes.swap_remove(at);
            match pipe.is_open() {
                true => port.close(pipe.id),
                false => port.abort(pipe.id),
            }
        }
        let has_slow = !self.waiting.is_empty() && self.has_slow(now);
        let mut has_refused = false;
        loop {
            if self.circuit.is_open() && !std::mem::replace(&mut has_refused, true) {
                self.refuse_waiting();
            }
            if self.waiting.is_empty() {
                self.overload.is_over();
                return;
            }
            let depth = self.depth();
            let emptiest = (self.pipes.iter().enumerate())
                .filter(|(_, pipe)| pipe.room(depth) > 0)
                .map(|(at, pipe)| (pipe.awaited.len(), at))
                .filter(|pipe| *pipe >= from)
                .min();
            let Some((length, at)) = emptiest else {
                let is_of_use = |pool: &mut Self| {
                    pool.any_may_go(has_slow, now) || pool.first_waits(now) || pool.alone_waits(now)
                };
                if has_slow && is_of_use(self) && self.take_back(port, now) {
                    from = (0, 0);
                    continue;
                }
                break;
            };
            let mut any = false;
            while self.pipes[at].room(depth) > 0
                && let Some(query) = self.next_for(at, has_slow, now)
            {
                self.pipes[at].put(&mut self.wire, query, now);
                any = true;
            }
            if !any {
                // What an empty one does not take, no other empty one does; but behind his own
                // calls one may have more who holds enough.
                from = match length {
                    0 => (1, 0),
                    _ => (length, at + 1),
                };
                continue;
            }
            from = (0, 0);
            // It has stood for a turn, and so is one that was opened.
            self.connect_failures = 0;
            self.circuit.reached();
            if !self.pipes[at].flush(port) {
                self.lose(port, at, Loss::Broken(None), now);
            }
        }
        self.refuse_beyond(now);
        self.connect(port, has_slow, now);
        if W::IN_ORDER {
            self.slow_at = self.next_slow_at(now);
            if has_slow && !self.renewals.is_left(now) {
                self.slow_at = self.slow_at.min(self.renewals.next_at());
            }
        }
    }

    /// Says what a query needs that takes several ways, and how the pipe ended if it did.
    fn go_on(&mut self, at: usize, port: &mut dyn Port) -> Option<Loss> {
        let pipe = &mut self.pipes[at];
        let is_said = !pipe.go_on(&mut self.wire) || pipe.flush(port);
        (!is_said).then_some(Loss::Broken(None))
    }

    /// Takes the answers out of what came in, and says how the pipe ended if it did.
    fn read(&mut self, at: usize, mut input: &[u8], now: Time) -> Option<Loss> {
        let ConnectionPool {
            wire,
            pipes,
            circuit,
            done,
            options,
            pace,
            statements,
            overload,
            waiting,
            ..
        } = self;
        let pipe = &mut pipes[at];
        let (owed, mut count) = (pipe.owed(), 0);
        loop {
            if W::IN_ORDER && !input.is_empty() && !pipe.is_asked() {
                // Nobody asked: a part of an answer that was kept would be the next user's.
                return Some(Loss::Broken(Some(ErrorKind::InvalidData)));
            }
            let Pipe {
                connection,
                awaited,
                ..
            } = pipe;
            let decoded = wire.decode(connection, input, awaited, &mut done.answers);
            let (used, verdict) = match decoded {
                Ok((used, Some(verdict))) => (used, verdict),
                Ok((_, None)) => {
                    if let Some((measured, since)) = owed.filter(|_| count > 0) {
                        pace.answered(count, measured, now.since(since));
                    }
                    return None;
                }
                Err(Unreadable) => {
                    done.answers.discard();
                    return Some(Loss::Unreadable);
                }
            };
            let since = pipe.owed().map(|(_, since)| since);
            let Some(sent) = pipe.take_answered(verdict.query) else {
                // Nobody asked.
                done.answers.discard();
                return Some(Loss::Broken(Some(ErrorKind::InvalidData)));
            };
            let number = sent.number;
            circuit.judge(&sent, &verdict, now);
            if !sent.is_given_up {
                let took = now.since(since.unwrap_or(sent.since));
                let is_slow = statements.answered(&sent.query, took, now);
                overload.answered(&sent.query, is_slow, now);
            }
            let again = done.tell_or_repeat::<W>(sent, &verdict, pipe.address, options);
            again
                .into_iter()
                .for_each(|query| waiting.push_front(query));
            count += 1;
            if !verdict.goes_on {
                return Some(Loss::Announced { number });
            }
            pipe.answered(now, now + options.idle_max);
            input = &input[used..];
        }
    }
}

impl<W: Wire> ConnectionOwner for ConnectionPool<W> {
    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) -> bool {
        let Some(at) = self.find(connection) else {
            return false;
        };
        if let Some(loss) = self.greet(at, b"", port, now) {
            self.lose_or_drop(port, at, loss, now);
        }
        self.has_news = true;
        true
    }

    fn received(
        &mut self,
        port: &mut dyn Port,
        connection: ConnectionId,
        bytes: &[u8],
        now: Time,
    ) -> bool {
        let Some(at) = self.find(connection) else {
            return false;
        };
        if !self.pipes[at].is_open() {
            if let Some(loss) = self.greet(at, bytes, port, now) {
                self.lose_or_drop(port, at, loss, now);
            }
        } else if let Some(loss) = (self.read(at, bytes, now)).or_else(|| self.go_on(at, port)) {
            self.lose(port, at, loss, now);
        }
        self.has_news = true;
        true
    }

    fn ended(
        &mut self,
        port: &mut dyn Port,
        connection: ConnectionId,
        how: Ended,
        now: Time,
    ) -> bool {
        let Some(at) = self.find(connection) else {
            return false;
        };
        let why = match how {
            Ended::PeerFinished => None,
            Ended::Failed(why) => Some(why),
        };
        match self.pipes[at].is_open() {
            true => self.ended_open(port, at, why, now),
            false => {
                let why = why.unwrap_or(ErrorKind::UnexpectedEof);
                self.drop_opening(port, at, why, now);
            }
        }
        self.has_news = true;
        true
    }

    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) -> bool {
        let Some(at) = self.find(connection) else {
            return false;
        };
        if !self.pipes[at].writable(port) {
            self.lose_or_drop(port, at, Loss::Broken(None), now);
        }
        self.has_news = true;
        true
    }

    fn wake_at(&self) -> Option<Time> {
        let deadline = (self.done.under_way > 0).then_some(self.deadline_next);
        let pause = self.connect_pause.filter(|_| !self.waiting.is_empty());
        (self.pipes.iter().map(Pipe::wake_at))
            .chain(deadline)
            .chain(pause)
            .chain([self.slow_at])
            .chain(self.probe_at())
            .filter(|at| *at != Time::NEVER)
            .min()
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.deadline_next <= now {
            self.expire(port, now);
        }
        while let Some(at) = self.pipes.iter().position(|pipe| pipe.wake_at() <= now) {
            if self.pipes[at].is_open() && self.pipes[at].is_wanted() {
                self.move_behind(port, at, now);
                continue;
            }
            let pipe = self.pipes.swap_remove(at);
            if pipe.is_open() {
                port.close(pipe.id);
            } else {
                port.abort(pipe.id);
                self.connect_failed(pipe.address, pipe.begun, ErrorKind::TimedOut, now);
            }
        }
        self.probe(port, now);
        self.has_news = true;
    }
}

impl<W: Wire> Backend for ConnectionPool<W> {
    fn belongs_to(&mut self, service: &str) {
        self.circuit.belongs_to(service);
    }

    fn submit(&mut self, _: &mut dyn Port, batch: Batch<'_>, now: Time) {
        let deadline = batch.deadline.min(now + self.options.timeout);
        let call = self.statements.share(batch.call);
        let may_be_slow = self.statements.may_be_slow(call.number());
        let pieces = call.form.pieces.iter();
        let literal_bytes: usize = pieces.map(|piece| piece.len()).sum();
        for (at, ask) in batch.asks.iter().enumerate() {
            let key = ask.key;
            let Asker {
                number: asker,
                visitor,
            } = ask.asker;
            let mut arguments = self.done.spare.take();
            keep(batch.arguments(ask), &mut arguments);
            let length = literal_bytes + arguments.len();
            let fields = batch.fields.get(at).cloned().unwrap_or_default();
            let bytes = size_of::<Sent>() + arguments.capacity() + fields.len();
            let refusal = if length > self.options.query_max {
                self.say_too_large(length, now);
                Some(Cause::TooLong)
            } else if let Some(cause) = self.wire.refuses(&call, batch.arguments(ask)) {
                Some(cause)
            } else if deadline <= now {
                Some(Cause::Unsent)
            } else if self.done.is_full(bytes, asker, &self.options) {
                Some(Cause::TooMany)
            } else if !self.circuit.admit(asker, call.number(), now) {
                Some(Cause::LeftAlone)
            } else {
                None
            };
            let mut query = Taken {
                key,
                call: call.clone(),
                asker,
                visitor,
                arguments,
                fields,
                bytes,
                deadline,
                step: batch.step,
                retries: 0,
                is_alone: false,
                may_be_slow,
            };
            query.is_alone = self.is_alone(&query);
            self.done.take_over(bytes, asker);
            match refusal {
                Some(cause) => self.done.tell(query, Err(cause.at(None))),
                None => {
                    self.deadline_next = self.deadline_next.min(deadline);
                    self.waiting.push_back(query);
                }
            }
        }
        self.has_news = true;
    }

    fn held_of(&self, asker: u64) -> usize {
        self.done.held_of(asker, &self.options)
    }

    fn takes_fields(&self) -> bool {
        W::TAKES_FIELDS
    }

    fn merges(&mut self, call: &Call) -> usize {
        self.wire.merges(call)
    }

    fn relocate(&mut self, peers: &[Peer]) -> bool {
        self.peers = peers.to_vec();
        self.connect_failures = 0;
        self.connect_pause = None;
        self.full_since = None;
        for pipe in &mut self.pipes {
            pipe.relocate(peers);
        }
        self.has_news = true;
        true
    }

    fn turn_ends(&mut self, port: &mut dyn Port, now: Time) -> bool {
        if std::mem::take(&mut self.has_news) {
            self.pump(port, now);
        }
        !self.done.answers.is_empty()
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.done.answers.tell(tell);
    }

    fn close(&mut self, port: &mut dyn Port) {
        for pipe in self.pipes.drain(..) {
            port.abort(pipe.id);
        }
    }

    fn counts(&self) -> BackendCounts {
        BackendCounts {
            under_way: self.done.under_way as u64,
            waiting: self.waiting.counts().iter().sum::<usize>() as u64,
            connections: self.pipes.iter().filter(|pipe| pipe.is_open()).count() as u64,
            circuit_open: self.circuit.fails(),
            answers_some: self.circuit.spares_some(),
            ..self.done.counts
        }
    }
}
