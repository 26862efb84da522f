//! Backends: where pages get their data from.
//!
//! A backend is handed all requests of a cohort's stage as one batch (paper, section 3.2,
//! *Process*) and tells later, by key, what was answered; the pipeline waits for it as it waits for
//! a device. Like the pipeline it does no I/O and reads no clock: it acts through a [`Port`] and
//! learns of its connections by events that the pipeline passes on.
//!
//! What the pipeline keeps, so that a backend need not: the place in a cohort that a key stands
//! for, and the deadline towards the client. A key whose answer nobody waits for any more is simply
//! not found; answering it late is no error.

mod answers;
mod besim;
mod circuit;
mod pipe;
mod reader;
mod remote;
#[cfg(test)]
mod tests;
mod url;

pub use besim::EmbeddedBesim;
pub use circuit::CircuitOptions;
pub use reader::AnswerLimits;
pub use remote::{RemoteBesim, RemoteOptions};
pub use url::{BackendUrl, UrlError};

use rhythm_engine::cohort::{Arena, BackendRequest, LaneError, View};
use rhythm_net::{ConnectionId, Ended, Port, Time};

/// One request of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What the answer is told by.
    pub key: u64,
    /// The request's text, in the batch's arena.
    pub text: View,
}

/// All requests of a cohort's stage.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The requests, in order of lanes.
    pub asks: &'a [Ask],
    /// Where their texts are.
    pub arena: &'a Arena,
    /// May a request be sent again after a failure that leaves open whether it was carried out?
    pub idempotent: bool,
    /// When the pipeline gives up on them: an answer is of no use afterwards.
    pub deadline: Time,
}

/// What became of the requests of a backend, for metrics. All are totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCounts {
    /// Requests handed over.
    pub requests: u64,
    /// Those answered with an error.
    pub failures: u64,
    /// Those sent again after a failure.
    pub retries: u64,
    /// Is the circuit open: are requests refused without being sent?
    pub circuit_open: bool,
}

/// What a backend tells answers to: the key, and the answer's body or why there is none.
pub type Tell<'a> = dyn FnMut(u64, Result<&[u8], LaneError>) + 'a;

/// A source of data. See the module's text.
pub trait Backend {
    /// Answers the requests at once, their answers appended to the arena, and returns true; or,
    /// where answering takes I/O, does nothing and returns false: the default. A request left
    /// without an answer fails its lane.
    ///
    /// This is the way of an embedded backend, without a key, a copy or an allocation per request.
    fn answer_into(&mut self, requests: &mut [BackendRequest], arena: &mut Arena) -> bool {
        let _ = (requests, arena);
        false
    }

    /// Takes a batch over. Each of its requests is told of by [`Backend::poll`] exactly once, at
    /// the latest soon after the batch's deadline, also where it is refused.
    fn submit(&mut self, port: &mut dyn Port, batch: Batch<'_>, now: Time);

    /// Tells what was answered since the last poll.
    fn poll(&mut self, tell: &mut Tell<'_>);

    /// Is this a connection of the backend's own? Its events, and only those, are passed on.
    fn owns(&self, connection: ConnectionId) -> bool {
        let _ = connection;
        false
    }

    /// A connection it asked for is open.
    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        let _ = (port, connection, now);
    }

    /// Bytes came in; all of them are taken.
    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], now: Time) {
        let _ = (port, connection, bytes, now);
    }

    /// The input of a connection ended, or it could not be opened.
    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, now: Time) {
        let _ = (port, connection, how, now);
    }

    /// The socket takes bytes again.
    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        let _ = (port, connection, now);
    }

    /// When it wants [`Backend::tick`] at the latest; `None`: never.
    fn wake_at(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let _ = (port, now);
    }

    /// Figures for metrics.
    fn counts(&self) -> BackendCounts {
        BackendCounts::default()
    }
}
