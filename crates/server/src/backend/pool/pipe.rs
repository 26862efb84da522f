//! One connection to a remote backend: queries go in at one end, and come out at the other with
//! their answers.
//!
//! All queries put in between two flushes leave in one send, so that a cohort's batch costs a
//! system call and not one a query. A pipe is the owner of the queries in it: when it ends,
//! whoever takes it apart has them all back.

use super::super::arguments::kept;
use super::super::awaited::{Awaited, Sent, Taken, Which};
use super::super::wire::{Greeting, Unreadable, Wire};
use super::pace::{Measured, PATIENCE};
use super::statements::Statements;
use rhythm_net::{ConnectionId, Flushed, Outgoing, Peer, PeerAddress, Port, Time};
use std::io::ErrorKind;
use std::net::SocketAddr;

/// Where a pipe stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The connection is being opened, greetings included, until then.
    Opening { until: Time },
    /// The connection stands. Idle, it is kept until then.
    Open { idle_until: Time },
}

/// Why a pipe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// It broke; or, where there is no error, was closed, or made no sense.
    Broken(Option<ErrorKind>),
    /// It was given up, because of queries that are late.
    Late,
    /// It was given up, because it would belong to one who holds enough. All in it can be sent
    /// again.
    Held,
    /// What came over it made no sense.
    Unreadable,
    /// The other side said with its answer to the query of this number that it would not go on.
    Announced { number: u64 },
}

impl Loss {
    /// Why, as of a connection that could not be opened.
    pub(super) fn kind(self) -> ErrorKind {
        match self {
            Loss::Broken(Some(why)) => why,
            Loss::Unreadable => ErrorKind::InvalidData,
            _ => ErrorKind::UnexpectedEof,
        }
    }
}

/// A connection with the queries in it.
#[derive(Debug)]
pub(super) struct Pipe<W: Wire> {
    pub(super) id: ConnectionId,
    /// The other side's, at a TCP port.
    pub(super) address: Option<SocketAddr>,
    /// When it was begun to be opened.
    pub(super) begun: Time,
    standing: Standing,
    /// What the wire keeps of it.
    pub(super) connection: W::Connection,
    pub(super) awaited: Awaited,
    /// Those behind its oldest query stay where they are until then.
    pub(super) moves_after: Time,
    /// The backend is there no more: it takes no more queries, and is closed when nobody waits for
    /// an answer from it.
    leaves: bool,
    /// Bytes that the socket has not taken.
    unsent: Outgoing,
    /// When the last answer came that did not end it. Before the first, it is not known that the
    /// other side keeps connections, so that only one query is risked.
    answered: Option<Time>,
}

/// Where a peer is, at a TCP port.
pub(super) fn address_of(peer: &Peer) -> Option<SocketAddr> {
    match peer.address {
        PeerAddress::Tcp(address) => Some(address),
        PeerAddress::Unix(_) | PeerAddress::Local(_) => None,
    }
}

/// With so many unsent bytes a pipe takes no more queries. It keeps no larger buffer, either.
pub(super) const UNSENT_MAX: usize = 64 << 10;

impl<W: Wire> Pipe<W> {
    /// A connection that is begun to be opened now, and is to be so by then.
    pub(super) fn new(id: ConnectionId, peer: &Peer, now: Time, until: Time) -> Pipe<W> {
        Pipe {
            id,
            address: address_of(peer),
            begun: now,
            standing: Standing::Opening { until },
            connection: W::Connection::default(),
            awaited: Awaited::default(),
            moves_after: Time::ZERO,
            leaves: false,
            unsent: Outgoing::keeping(UNSENT_MAX),
            answered: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Open { .. })
    }

    /// The connection can be used.
    pub(super) fn open(&mut self, idle_until: Time) {
        self.standing = Standing::Open { idle_until };
    }

    /// An answer came that did not end it.
    pub(super) fn answered(&mut self, now: Time, idle_until: Time) {
        self.answered = Some(now);
        self.open(idle_until);
    }

    /// How many more queries it takes, if it may hold `depth`.
    pub(super) fn room(&self, depth: usize) -> usize {
        let depth = if self.answered.is_some() { depth } else { 1 };
        match self.standing {
            _ if self.leaves => 0,
            Standing::Opening { .. } => 0,
            Standing::Open { .. } if self.unsent.unsent() >= UNSENT_MAX => 0,
            Standing::Open { .. } if W::IN_ORDER && !self.awaited.are_shared() => 0,
            Standing::Open { .. } => depth.saturating_sub(self.awaited.len()),
        }
    }

    /// Since when the other side owes the next answer, where answers come in order.
    pub(super) fn owed(&self) -> Option<(Measured, Time)> {
        let first = self.awaited.first().filter(|_| W::IN_ORDER)?;
        let before = self.answered.filter(|at| *at > first.since);
        Some(match before {
            Some(at) => (Measured::Behind, at),
            None => (Measured::First, first.since),
        })
    }

    /// When those behind its oldest query are to go elsewhere if it says nothing; `None` where
    /// there are none.
    pub(super) fn moves_at(&self) -> Option<Time> {
        let is_held_up = self.awaited.len() > 1 && self.awaited.are_shared();
        (self.owed().filter(|_| is_held_up))
            .map(|(_, since)| (since + PATIENCE).max(self.moves_after))
    }

    /// Whether they would have been moved before, had it not been too often by then.
    pub(super) fn was_put_off(&self) -> bool {
        let since = self.owed().map(|(_, since)| since);
        since.is_some_and(|since| self.moves_after > since + PATIENCE)
    }

    /// The query that holds it: the oldest that somebody waits for.
    pub(super) fn oldest(&self) -> Option<&Taken> {
        Some(&self.awaited.wanted().next()?.query)
    }

    /// Who has its oldest query.
    pub(super) fn owner(&self) -> Option<u64> {
        Some(self.oldest()?.asker)
    }

    /// Whether a slow query holds it.
    pub(super) fn is_slow(&self, statements: &Statements, now: Time) -> bool {
        let since = self.owed().map_or(now, |(_, since)| since);
        self.oldest()
            .is_some_and(|query| statements.takes_long(query.call.number(), now.since(since)))
    }

    /// Likewise whether that query itself has taken long.
    pub(super) fn has_taken_long(&self, statements: &Statements, now: Time) -> bool {
        let patience = |query: &Taken| statements.patience(query.call.number());
        (self.owed().zip(self.oldest()))
            .is_some_and(|((_, since), query)| now.since(since) >= patience(query))
    }

    /// Whether somebody waits for an answer from it.
    pub(super) fn is_wanted(&self) -> bool {
        self.awaited.wanted().next().is_some()
    }

    /// The backend is at these peers from now on.
    pub(super) fn relocate(&mut self, peers: &[Peer]) {
        let is_known = |address| peers.iter().any(|peer| address_of(peer) == Some(address));
        self.leaves = self.address.is_some_and(|address| !is_known(address));
    }

    /// Whether it can be closed, as the backend is there no more.
    pub(super) fn has_left(&self) -> bool {
        self.leaves && !self.is_wanted()
    }

    /// Whether it takes no more queries, and nobody waits for what it owes: those behind a slow
    /// one are sent again elsewhere, and the other side may work on them here for long.
    pub(super) fn is_spent(&self) -> bool {
        let is_held_up = W::IN_ORDER && self.awaited.len() > 0;
        self.is_open() && is_held_up && !self.is_wanted()
    }

    /// Whether a query in it is past its deadline.
    pub(super) fn is_late(&self, now: Time) -> bool {
        (self.awaited.wanted()).any(|sent| sent.query.deadline <= now)
    }

    /// Whether it is to be ended because of queries that are late: where answers come in order,
    /// they hold up the others; else where nothing was answered since one of them was sent, or so
    /// many stay unanswered that they take half of the places in it.
    pub(super) fn is_stuck(&self, depth: usize, now: Time) -> bool {
        let is_unheard = |sent: &Sent| self.answered.is_none_or(|answered| answered <= sent.since);
        let mut late = (self.awaited.wanted()).filter(|sent| sent.query.deadline <= now);
        let given_up = self.awaited.len() - self.awaited.wanted().count();
        W::IN_ORDER || late.any(is_unheard) || given_up > depth / 2
    }

    /// When it wants to be looked at, if nothing happens before.
    pub(super) fn wake_at(&self) -> Time {
        match self.standing {
            Standing::Opening { until } => until,
            Standing::Open { idle_until } if !self.is_wanted() => idle_until,
            Standing::Open { .. } => self.moves_at().unwrap_or(Time::NEVER),
        }
    }

    /// Goes on with opening the connection, to leave with the next flush.
    pub(super) fn greet(&mut self, wire: &mut W, input: &[u8]) -> Result<Greeting, Unreadable> {
        let connection = &mut self.connection;
        self.unsent.write(|out| wire.greet(connection, input, out))
    }

    /// Puts a query in, to leave with the next flush.
    pub(super) fn put(&mut self, wire: &mut W, query: Taken, now: Time) {
        let (connection, number) = (&mut self.connection, self.awaited.number_next());
        let arguments = kept(&query.arguments);
        let asked = (&*query.call, &*query.fields);
        self.unsent
            .write(|out| wire.encode_with(connection, number, asked, arguments, out));
        let end = self.unsent.sent_total() + self.unsent.unsent() as u64;
        self.awaited.push(query, end, now);
    }

    /// Goes on with a query that takes several ways, to leave with the next flush. Whether there
    /// was something to be said.
    pub(super) fn go_on(&mut self, wire: &mut W) -> bool {
        let (connection, before) = (&mut self.connection, self.unsent.unsent());
        self.unsent.write(|out| wire.goes_on(connection, out));
        self.unsent.unsent() > before
    }

    /// Sends what the socket takes. False: the connection is gone.
    #[must_use]
    pub(super) fn flush(&mut self, port: &mut dyn Port) -> bool {
        self.unsent.flush(port, self.id) != Flushed::Gone
    }

    /// The socket takes bytes again: as [`Pipe::flush`].
    #[must_use]
    pub(super) fn writable(&mut self, port: &mut dyn Port) -> bool {
        self.unsent.writable(port, self.id) != Flushed::Gone
    }

    /// Whether no query was ever put in.
    pub(super) fn is_unused(&self) -> bool {
        self.awaited.number_next() == 0
    }

    /// Whether the other side has a query that it has not answered.
    pub(super) fn is_asked(&self) -> bool {
        let sent_total = self.unsent.sent_total();
        (self.awaited.first()).is_some_and(|first| first.end <= sent_total)
    }

    /// The query that an answer is for. `None` where there is none, or where it was not sent to
    /// its last byte: nobody can have answered it.
    pub(super) fn take_answered(&mut self, which: Which) -> Option<Sent> {
        self.awaited.take(which, self.unsent.sent_total())
    }

    /// Takes the last query back, and says whether the other side may have all of it: without its
    /// last byte it cannot have begun with it.
    pub(super) fn take_back(&mut self) -> Option<(Sent, bool)> {
        let last = self.awaited.take_last()?;
        let is_delivered = last.end <= self.unsent.sent_total();
        Some((last, is_delivered))
    }
}
