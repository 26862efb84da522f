//! Backends: where pages get their data from.
//!
//! A backend is handed all queries of a cohort's stage as one batch (paper, section 3.2,
//! *Process*) and tells later, by key, what was answered; the pipeline waits for it as it waits for
//! a device. Like the pipeline it does no I/O and reads no clock: it acts through a [`Port`] and
//! learns of its connections by events that the pipeline passes on.
//!
//! What the pipeline keeps, so that a backend need not: the place in a cohort that a key stands
//! for, and the deadline towards the client. A key whose answer nobody waits for any more is simply
//! not found; answering it late is no error.
//!
//! ```text
//!    kinds      what there is, by `kind = "..."`        registry.rs, kind.rs, a folder a kind
//!      v  locate, as the site is loaded; open, in each worker
//!    embedded   answers a whole batch at once           Embedded, InProcess
//!    or a pool  connections, deadlines, retries         pool/, awaited.rs, arguments.rs
//!      v  ^
//!    its wire   bytes from queries, cells from bytes    wire.rs; over HTTP: http_client/
//!         |
//!    answers    cells until the pipeline polls          answers.rs, failure.rs
//! ```

mod address;
mod answers;
mod arguments;
mod asked;
mod awaited;
mod failure;
mod files;
pub mod http_client;
mod kind;
mod located;
mod password;
mod pause;
mod pool;
mod registry;
mod secured;
mod sql;
mod waited;
mod whole;
mod wire;
mod words;

pub use answers::{QueryAnswers, Tell, Told};
pub use awaited::{Awaited, Which};
pub use failure::{Cause, Failure};
pub(crate) use files::read_regular;
pub use kind::{Kind, Opened};
pub use password::first_line;
pub use pool::{CircuitOptions, ConnectionPool, PoolOptions, ShareOptions};
pub(crate) use registry::query_bytes_max;
pub use registry::sqlite::close as close_databases;
pub use registry::{KINDS, besim, find, kinds, locate, open, reach};
pub(crate) use secured::CONNECTION_BYTES as SECURED_BYTES;
pub(crate) use secured::connector_of;
pub use secured::seal_of;
pub use wire::{Greeting, Unreadable, Verdict, Wire};

use crate::owner::ConnectionOwner;
use rhythm_engine::cohort::{Argument, Queries, Rows};
use rhythm_engine::program::Call;
use rhythm_net::{Peer, Port, Time};

/// The queries of a cohort's stage, each once that several lanes may share.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The call that asks.
    pub call: &'a Call,
    /// Where the arguments of its queries are.
    pub queries: &'a Queries,
    /// The queries that are asked, by their numbers, in order of lanes.
    pub order: &'a [u32],
    /// What is to be asked, in that order.
    pub asks: &'a [Ask],
    /// For each of these, whole lines that its request's head is to have, where the backend
    /// [takes](Backend::takes_fields) such; or nothing for any.
    pub fields: &'a [Box<[u8]>],
    /// How many calls of their requests this backend has answered before.
    pub step: u32,
    /// When the pipeline gives up on them: an answer is of no use afterwards.
    pub deadline: Time,
}

impl<'a> Batch<'a> {
    /// The arguments of what is asked, those of one query after those of the other.
    pub fn arguments(&self, ask: &Ask) -> impl Iterator<Item = Argument<'a>> + Clone + use<'a> {
        let queries = self.queries;
        let asked = &self.order[ask.first..ask.first + ask.count];
        asked
            .iter()
            .flat_map(|query| queries.arguments(*query as usize))
    }
}

/// What a backend is to answer: one query, or several as one, of a backend that does so
/// ([`Backend::merges`]).
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Index into [`Batch::order`].
    pub first: usize,
    /// How many queries: 1, or more that are asked as one. Then each row of the answer begins with
    /// a cell more: the number, from 1 on, of the query that it is for. With a negative one the
    /// answer says nothing of that query, which is to be asked by itself.
    pub count: usize,
    /// What its answer is told by.
    pub key: u64,
    /// Who asks: failures of one are not the backend's.
    pub asker: Asker,
}

/// Who asks a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Who it is. What one asker holds of a backend is bounded, and others do not wait for it.
    pub number: u64,
    /// Which of the visitors of one address it is, as far as they are told apart: what they hold
    /// is bounded together, but each has turns of his own. 0 of whoever is signed in.
    pub visitor: u8,
}

impl Asker {
    /// How many visitors of one address are told apart.
    pub(crate) const VISITORS_MAX: u8 = 32;
}

/// A backend in this process, which answers a whole batch at once, without keys and copies.
pub trait Embedded {
    /// Answers the queries. One left without an answer fails its lane.
    fn answer(&mut self, queries: &Queries, rows: &mut Rows<'_>);
}

/// What became of the queries of a backend, for metrics: totals since the start, and what is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCounts {
    /// Queries sent again after a failure.
    pub retries: u64,
    /// Queries not answered yet, now.
    pub under_way: u64,
    /// Those of them that wait for a place on a connection.
    pub waiting: u64,
    /// Connections that stand now.
    pub connections: u64,
    /// Is the circuit open, with no trial gone well since?
    pub circuit_open: bool,
    /// Are some calls answered all the same?
    pub answers_some: bool,
}

/// A source of data. See the module's text.
pub trait Backend: ConnectionOwner {
    /// The backend as one that answers at once; `None` where answering takes I/O: the default.
    fn embedded(&mut self) -> Option<&mut dyn Embedded> {
        None
    }

    /// It is that of the service of this label, of those that are served beside each other: for the
    /// log.
    fn belongs_to(&mut self, service: &str) {
        let _ = service;
    }

    /// Takes a batch over. Each of its queries is told of by [`Backend::poll`] exactly once, at
    /// the latest soon after the batch's deadline, also where it is refused. Never called on an
    /// embedded backend.
    fn submit(&mut self, port: &mut dyn Port, batch: Batch<'_>, now: Time);

    /// How many bytes are kept of the calls of one who asks that it has taken over and not told of;
    /// more than of anybody where it takes no further ones of his. Of several who ask the same, the
    /// one with the fewest asks.
    fn held_of(&self, asker: u64) -> usize {
        let _ = asker;
        0
    }

    /// Whether what it is asked by has fields that tell of the request for which it is asked.
    fn takes_fields(&self) -> bool {
        false
    }

    /// How many queries of this call can be asked as one now; less than 2: none. Where such a one
    /// is answered with another status than 0, or fails by its own doing, they are asked one by
    /// one.
    fn merges(&mut self, call: &Call) -> usize {
        let _ = call;
        0
    }

    /// The backend is at these peers from now on, all of them at TCP ports, as those before were.
    /// Whether it goes on so; else another is to be made.
    fn relocate(&mut self, peers: &[Peer]) -> bool {
        let _ = peers;
        false
    }

    /// The turn ends: sends what was handed over in it, and what could not leave before. Whether
    /// there is something to tell.
    fn turn_ends(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let _ = (port, now);
        false
    }

    /// Tells what was answered since the last poll.
    fn poll(&mut self, tell: &mut Tell<'_>);

    /// Nobody asks it any more, or waits for its answers: it gives its connections back.
    fn close(&mut self, port: &mut dyn Port) {
        let _ = port;
    }

    /// Figures for metrics.
    fn counts(&self) -> BackendCounts {
        BackendCounts::default()
    }
}

/// An embedded backend as a [`Backend`].
#[derive(Debug)]
pub struct InProcess<E>(pub E);

impl<E> ConnectionOwner for InProcess<E> {}

impl<E: Embedded> Backend for InProcess<E> {
    fn embedded(&mut self) -> Option<&mut dyn Embedded> {
        Some(&mut self.0)
    }

    fn submit(&mut self, _: &mut dyn Port, _: Batch<'_>, _: Time) {
        unreachable!("an embedded backend answers at once");
    }

    fn poll(&mut self, _: &mut Tell<'_>) {}
}
