//! A server that is proxied to: its connections, and whether it is well.
//!
//! ```text
//!   well --- failures_max connections fail, or it says that it is not in order ---> aside
//!    ^                                                                                |
//!    |                                                                      aside is over
//!    +---- it is reached ---- one request tries it; the others go elsewhere <---------+
//! ```
//!
//! It is reached when a connection to it is open: one that it had before tells nothing of that. (A
//! route's only server is asked by either.)
//!
//! One that refuses connections may be started anew just now: for `restart_timeout` it is away, and
//! requests for which there is no other wait for it, one of which tries it every now and then.

use super::shares::{Holder, Shares};
use super::told::{News, Unwell};
use crate::observe::metrics::ProxyMetrics;
use rhythm_net::{ConnectionId, Peer, Time};
use std::sync::Arc;
use std::time::Duration;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Upstream {
    /// As its URL was written.
    pub(super) name: Arc<str>,
    /// What its URL has for a Host.
    pub(super) authority: String,
    /// Where its name leads.
    peers: Vec<Peer>,
    /// Which of them is tried first: the last that was reached.
    first: usize,
    /// Connections that stand or are being opened.
    pub(super) connections: usize,
    /// Those of them that nothing is under way on, the one used last at the end.
    pub(super) idle: Vec<ConnectionId>,
    /// Requests under way on it.
    pub(super) under_way: usize,
    /// Whose they are.
    shares: Shares,
    /// Connections that failed since one was opened.
    failures: u32,
    /// Until when it is aside.
    aside: Option<Time>,
    /// It refuses connections since it was reached last: until when it may be about to be there
    /// again, as one is that is started anew.
    away: Option<Time>,
    /// It did so for its queue alone, which is full.
    is_crowded: bool,
    /// One that waits for that tries it soon.
    pub(super) is_tried_soon: bool,
    /// It says itself that it is not in order, or nothing, for this cause.
    pub(super) unwell: Option<Unwell>,
    /// What the log knows of that.
    pub(super) news: News,
    pub(super) metrics: Arc<ProxyMetrics>,
}

impl Upstream {
    pub(super) fn new(
        name: &str,
        authority: &str,
        peers: Vec<Peer>,
        metrics: Arc<ProxyMetrics>,
    ) -> Upstream {
        Upstream {
            name: name.into(),
            authority: authority.to_owned(),
            peers,
            first: 0,
            connections: 0,
            idle: Vec::new(),
            under_way: 0,
            shares: Shares::default(),
            failures: 0,
            aside: None,
            away: None,
            is_crowded: false,
            is_tried_soon: false,
            unwell: None,
            news: News::default(),
            metrics,
        }
    }

    /// None of its places was tried.
    pub(super) fn untried(&self) -> Tried {
        let (first, count) = (self.first, 0);
        Tried { first, count }
    }

    /// Where it is, beside what was tried before; none, where all of it was.
    pub(super) fn peer(&self, tried: Tried) -> Option<&Peer> {
        let count = self.peers.len();
        (tried.count < count).then(|| &self.peers[(tried.first + tried.count) % count])
    }

    /// Where it is, for the log.
    pub(super) fn place(&self) -> String {
        let places: Vec<String> = self.peers.iter().map(Peer::to_string).collect();
        places.join(", ")
    }

    /// A connection is open, to where it is beside what was tried before. Whether it was aside, or
    /// away.
    pub(super) fn reached(&mut self, tried: Tried) -> bool {
        self.first = (tried.first + tried.count) % self.peers.len().max(1);
        self.failures = 0;
        let (was_aside, was_away) = (self.aside.take().is_some(), self.away.take().is_some());
        was_aside || was_away
    }

    /// It refuses connections, and may do so for this time where it is started anew; or
    /// `is_crowded`: its queue is full.
    pub(super) fn refused(&mut self, is_crowded: bool, restart: Duration, now: Time) {
        self.is_crowded = is_crowded && (self.away.is_none() || self.is_crowded);
        self.away.get_or_insert(now + restart);
    }

    /// A connection that it had before was of use. One whose queue was full goes on taking from
    /// it, so that it is waited for anew when that is full again; whether one that refuses all will
    /// take others is not told by that.
    pub(super) fn answered(&mut self) {
        self.away.take_if(|_| self.is_crowded);
    }

    /// Until when it may be about to be there again, where it refuses connections.
    pub(super) fn away_until(&self) -> Option<Time> {
        self.away
    }

    /// Whether that is still to be waited for.
    pub(super) fn is_away(&self, now: Time) -> bool {
        self.away.is_some_and(|until| now < until)
    }

    /// No connection could be opened. Whether it is aside now, and was not before.
    pub(super) fn failed(&mut self, failures_max: u32, aside: Duration, now: Time) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures < failures_max {
            return false;
        }
        self.aside.replace(now + aside).is_none()
    }

    /// Whether one may have another request under way on it, which has so many connections.
    pub(super) fn may_take(&self, who: Holder, most: usize) -> bool {
        let left = most.saturating_sub(self.under_way);
        self.shares.may_take(who, left)
    }

    /// A request is under way on it.
    pub(super) fn entered(&mut self, who: Holder) {
        self.shares.take(who);
        self.under_way += 1;
    }

    /// A request is not under way on it any more.
    pub(super) fn left(&mut self, who: Holder) {
        self.shares.give(who);
        self.under_way -= 1;
    }

    /// Whether it may be asked; when it is aside, since when it may be tried.
    pub(super) fn state(&self, now: Time) -> State {
        match self.aside {
            _ if self.unwell.is_some() => State::Aside(Time::NEVER),
            None => State::Well,
            Some(until) if until <= now => State::Trial,
            Some(until) => State::Aside(until),
        }
    }

    /// A request tries it: the others go elsewhere until this is known to have gone well.
    pub(super) fn is_tried(&mut self, aside: Duration, now: Time) {
        if self.aside.is_some_and(|until| until <= now) {
            self.aside = Some(now + aside);
        }
    }
}

/// Which of a server's places were tried: so many, from the one on that was its first then. Who
/// else reaches it meanwhile may have another be first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    first: usize,
    count: usize,
}

impl Tried {
    /// With the next one.
    pub(super) fn and_next(self) -> Tried {
        let count = self.count + 1;
        Tried { count, ..self }
    }
}

/// Whether a server may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It may.
    Well,
    /// One request may try it.
    Trial,
    /// Until then it is better left alone.
    Aside(Time),
}
