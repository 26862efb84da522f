//! What connections hold. Who gives way when it is too much is in `relief.rs`.
//!
//! A connection holds the input that no request was made of yet, the answers that are ready before
//! their turn or not whole, and the bytes that its client has not taken. It is bounded three times:
//!
//! ```text
//!   a connection   unsent_max     no request is taken, and no more of a stream is made, while its
//!                                 answers are more (`Connection::note_expected`, `Clients::flow`)
//!   a thread       held_max / 2   from a connection one request at a time, and none before the
//!                                 answer to the one before is taken
//!                  held_max       no request is taken whose answer is expected to be beyond it,
//!                                 unless it is a connection's first and not long
//!                                 (`admission.rs`)
//!                                 the slowest are dropped, until it is not more (`relief.rs`)
//! ```
//!
//! The first three keep what is reasonable from growing; they go by what answers are expected to
//! be. The last holds whatever comes: only the connection that is answered at the moment may be
//! beyond it, with one answer.
//!
//! What is counted is memory, not bytes of content: what the buffers have of the system.

use crate::clients::connection::{Connection, Promise, Waiting};
use rhythm_net::Time;
use smallvec::SmallVec;

/// What all connections of a thread hold. Each has its part noted in it ([`Connection::held`]).
#[derive(Debug)]
pub(crate) struct Held {
    /// Bytes now.
    pub(crate) total: usize,
    /// Bytes that are expected of requests that were taken and are not answered. Each connection
    /// has its part noted in it ([`Connection::promises`]).
    pub(crate) promised: usize,
    /// Most of them.
    pub(crate) max: usize,
    /// Connections that have given way.
    pub(crate) dropped: u64,
    /// When something happened to a connection last.
    pub(crate) now: Time,
}

impl Held {
    /// Nothing is held yet, and so many bytes may be.
    pub(crate) fn new(max: usize) -> Held {
        Held {
            total: 0,
            promised: 0,
            max,
            dropped: 0,
            now: Time::ZERO,
        }
    }

    /// Counts what a connection holds by now.
    #[inline]
    pub(crate) fn count(&mut self, connection: &mut Connection) {
        if !connection.promises.is_empty() {
            self.take_back_over(connection);
        }
        let now = connection.memory();
        if now != connection.held {
            self.total = self.total - connection.held + now;
            connection.held = now;
        }
    }

    /// A request of a connection is taken, whose answer is expected to have so many bytes.
    #[inline]
    pub(crate) fn promise(&mut self, connection: &mut Connection, ordinal: u32, bytes: usize) {
        connection.promises.push(Promise { ordinal, bytes });
        self.promised += bytes;
    }

    /// What was promised for this answer is not expected any more: it is there, or is not to come
    /// as was thought.
    #[inline]
    pub(crate) fn take_back(&mut self, connection: &mut Connection, ordinal: u32) {
        let is_its = |promise: &Promise| promise.ordinal == ordinal;
        if let Some(at) = connection.promises.iter().position(is_its) {
            self.promised -= connection.promises.remove(at).bytes;
            if connection.promises.is_empty() {
                // With the memory that many took.
                connection.promises = SmallVec::new();
            }
        }
    }

    /// The same, of all answers that are written, or that nobody is owed any more.
    fn take_back_over(&mut self, connection: &mut Connection) {
        let mut promises = std::mem::take(&mut connection.promises);
        promises.retain(|promise| {
            let is_due = connection.is_due(promise.ordinal);
            if !is_due {
                self.promised -= promise.bytes;
            }
            is_due
        });
        if !promises.is_empty() {
            connection.promises = promises;
        }
    }

    /// Whether there is room for an answer of so many bytes beside what is held and promised. One
    /// that is longer than all together may be is taken alone.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let all = (self.total + self.promised).saturating_add(bytes);
        all <= self.max || self.promised == 0 && self.total <= self.max / 2 && bytes > self.max / 2
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        self.total -= connection.held;
        let promised = connection.promises.iter().map(|promise| promise.bytes);
        self.promised -= promised.sum::<usize>();
    }

    /// Who has less of it is slower, by when it took something last, or is to take more: who waits
    /// for us is not slow, unless it was behind with what there is of its answer.
    pub(crate) fn haste(connection: &Connection) -> (bool, Time) {
        let since = connection.since;
        if connection.waiting == Waiting::Answer {
            (connection.even_at <= since, connection.output_since(since))
        } else {
            (false, since.max(connection.takes_until))
        }
    }

    /// Whether somebody has to give way.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.total > self.max
    }

    /// What a connection's answers may be, where the limit for each is this.
    #[inline]
    pub(crate) fn budget(&self, unsent_max: usize) -> usize {
        match self.total > self.max / 2 {
            // Nothing but the one answer that may always go on.
            true => 1,
            false => unsent_max,
        }
    }
}
