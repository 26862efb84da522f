//! Answers on their way out, each in its turn.
//!
//! An answer whose turn has come is written into the one buffer that all connections share. What
//! follows for the same connection joins it, and it is sent when another connection's turn comes,
//! when it is full, or when there is no more to do. Only an answer that is too early, or that the
//! socket does not take, is kept in its connection.

use crate::answer::{AnswerShape, AnswerSlot};
use crate::clients::{Clients, credited};
use crate::connection::{Pending, Progress};
use rhythm_net::{ConnectionId, Flushed, Port, Time};
use rhythm_protocol::http::response::CONTINUE;
use std::ops::Range;
use std::sync::Arc;

/// A file of at least this size is not copied into the outbox.
const FILE_SHARED_BYTES: usize = 32 * 1024;

impl Clients {
    /// Gives a whole answer. `write` appends it; where the client is gone it is not called.
    #[inline]
    pub fn answer(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        shape: AnswerShape,
        now: Time,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let AnswerSlot {
            connection: to,
            ordinal,
        } = slot;
        let Some(connection) = self.connections.get_mut(to) else {
            return;
        };
        let close = connection.drop_content(ordinal) | shape.close;
        let is_plain = connection.pending.is_empty() && connection.continue_at.is_none();
        if connection.next_answer != ordinal {
            let mut bytes = Vec::new();
            write(&mut bytes);
            let early = Pending::new(ordinal, Progress::Finished, bytes, close);
            match connection.position(ordinal) {
                Some(index) => connection.pending[index] = early,
                None => connection.pending.push(early),
            }
            return;
        }
        if !is_plain && let Some(index) = connection.position(ordinal) {
            connection.pending.swap_remove(index);
        }
        connection.turn_over(close);
        self.write(port, to, now, write);
        if !is_plain {
            self.catch_up(port, to, now);
        }
    }

    /// As [`Clients::answer`] for an answer with a part of a file as its body.
    #[allow(clippy::too_many_arguments)]
    pub fn answer_file(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        shape: AnswerShape,
        now: Time,
        head: impl FnOnce(&mut Vec<u8>),
        file: &Arc<[u8]>,
        range: Range<usize>,
    ) {
        let to = slot.connection;
        let connection = self.connections.get(to);
        let early = connection.is_some_and(|connection| connection.next_answer != slot.ordinal);
        if range.len() < FILE_SHARED_BYTES || early {
            return self.answer(port, slot, shape, now, |out| {
                head(out);
                out.extend_from_slice(&file[range]);
            });
        }
        // What is in the outbox goes before it.
        self.flush(port, now);
        let Some(connection) = self.connections.get_mut(to) else {
            return;
        };
        connection.turn_over(shape.close);
        connection.outgoing.write(head);
        connection.outgoing.push_shared(file.clone(), range);
        self.catch_up(port, to, now);
        self.send(port, to, now);
    }

    /// Sends `100 Continue` for the request that is to be taken next, once all answers before its
    /// own are written.
    pub fn send_continue(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.continue_at = Some(connection.requests);
            self.catch_up(port, id, now);
        }
    }

    /// As [`Clients::send_continue`], for a request that was taken and whose content comes in
    /// pieces.
    pub(crate) fn continue_with(&mut self, port: &mut dyn Port, slot: AnswerSlot, now: Time) {
        if let Some(connection) = self.connections.get_mut(slot.connection)
            && connection.receiving == Some(slot.ordinal)
        {
            connection.continue_at = Some(slot.ordinal);
            self.catch_up(port, slot.connection, now);
        }
    }

    /// Appends to what a connection is sent.
    #[inline]
    pub(crate) fn write(
        &mut self,
        port: &mut dyn Port,
        to: ConnectionId,
        now: Time,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(connection) = self.connections.get_mut(to) else {
            return;
        };
        if !connection.outgoing.is_empty() {
            connection.outgoing.write(write);
            return;
        }
        if !self.outbox.is_for(to) {
            self.flush(port, now);
            self.outbox.to = Some(to);
        }
        write(&mut self.outbox.bytes);
        if self.outbox.is_full() {
            self.flush(port, now);
        }
    }

    /// What follows when a connection's next answer has been written: those that were too early,
    /// `100 Continue`.
    #[cold]
    pub(crate) fn catch_up(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        while let Some(connection) = self.connections.get_mut(id) {
            let position = connection.position(connection.next_answer);
            if connection.continue_at == Some(connection.next_answer) {
                connection.continue_at = None;
                // Not once its answer is begun.
                let progress = position.map(|index| connection.pending[index].progress);
                if matches!(progress, None | Some(Progress::Awaited(_))) {
                    self.write(port, id, now, |out| out.extend_from_slice(CONTINUE));
                    continue;
                }
            }
            let Some(index) = position else {
                break;
            };
            let bytes = std::mem::take(&mut connection.pending[index].bytes);
            let is_whole = match connection.pending[index].progress {
                Progress::Finished => true,
                Progress::Awaited(_) | Progress::Begun(_) => false,
                Progress::Abandoned => {
                    self.flush(port, now);
                    port.abort(id);
                    self.remove(id);
                    return;
                }
            };
            if is_whole {
                let early = connection.pending.swap_remove(index);
                connection.turn_over(early.close);
            }
            self.write(port, id, now, |out| out.extend_from_slice(&bytes));
            if !is_whole {
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(id)
            && connection.pending.is_empty()
        {
            // Its memory too: an idle connection has none.
            connection.pending = Vec::new();
        }
    }

    /// Sends what the outbox holds.
    pub fn flush(&mut self, port: &mut dyn Port, now: Time) {
        let Some(id) = self.outbox.to.take() else {
            return;
        };
        let Some(connection) = self.connections.get_mut(id) else {
            unreachable!("what is removed is not sent");
        };
        let flushed = connection.outgoing.send(port, id, &self.outbox.bytes);
        self.outbox.bytes.clear();
        match flushed {
            Flushed::Gone => self.remove(id),
            Flushed::All | Flushed::Some => self.settle(port, id, now),
        }
    }

    /// Sends what a connection is owed, beside the outbox.
    fn send(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        match connection.outgoing.flush(port, id) {
            Flushed::Gone => self.remove(id),
            Flushed::All | Flushed::Some => self.settle(port, id, now),
        }
    }

    /// The socket takes bytes again.
    pub fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let before = connection.outgoing.sent_total();
        let flushed = connection.outgoing.writable(port, id);
        let taken = connection.outgoing.sent_total() - before;
        connection.since = credited(connection.since, taken, now);
        match flushed {
            Flushed::Gone => self.remove(id),
            Flushed::All | Flushed::Some => self.settle(port, id, now),
        }
    }
}
