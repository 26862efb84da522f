//! Answers in pieces: begun with a head, appended to, finished (RFC 9112, sections 6 and 7).
//!
//! ```text
//!   begin ---> append ... append ---> finish          the next answer's turn
//!     |          | Wait: more is unsent than the client's budget; go on when it has room
//!     |          | Gone: nobody is there to read it
//!     +----------+---> abandon: the connection ends in this answer's place
//! ```
//!
//! Before its turn an answer's pieces are kept in its connection, within the same budget. One whose
//! length was not said, and which is finished before anything of it is sent, still tells its length
//! (`answer/framing.rs`).

use crate::answer::framing::Framing;
use crate::answer::{AnswerShape, AnswerSlot, Answered, HostId};
use crate::clients::Clients;
use crate::clients::connection::{Begun, Pending, Progress};
use crate::clients::turns::add_to_head;
use rhythm_net::{Port, Time};

/// Whether whoever produces bytes is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// There is room for more.
    More,
    /// Not until told that there is room again.
    Wait,
    /// Nobody waits for them any more. What they are for is over, and is not told of again.
    Gone,
}

impl Clients {
    /// Takes note that a request that was taken and is not answered yet will be, by this host: that
    /// is told when the client goes away ([`Clients::next_gone`]), or that it has. Nothing happens
    /// if the answer is begun.
    pub(crate) fn await_host(&mut self, port: &mut dyn Port, slot: AnswerSlot, host: HostId) {
        self.await_host_while(port, slot, host, false);
    }

    /// As [`Clients::await_host`]; with `ends_with_input` for a client that is gone when it sends
    /// no more, though it could still read: now, if it has said so before.
    pub(crate) fn await_host_while(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        host: HostId,
        ends_with_input: bool,
    ) {
        let is_leaving = (self.gone.iter()).any(|(_, (leaving, _))| *leaving == slot);
        match self.connections.get_mut(slot.connection) {
            Some(connection) if connection.owes(slot.ordinal) => {
                let progress = Progress::Awaited(host);
                let mut pending = Pending::new(slot.ordinal, progress, Vec::new(), false);
                pending.ends_with_input = ends_with_input;
                connection.pending.push(pending);
                let is_over = ends_with_input && connection.peer_finished;
                self.held.take_back(connection, slot.ordinal);
                self.held.count(connection);
                if is_over {
                    // Its host is told of that.
                    port.abort(slot.connection);
                    return self.remove(slot.connection);
                }
                self.relieve(port, slot.connection);
            }
            Some(_) => {}
            None if is_leaving => {}
            None => self.gone.push((host, (slot, None))),
        }
    }

    /// Takes note of an answer that this host owes, and of which it makes nothing before its turn:
    /// so many bytes are expected of it then. The host is told when the client goes away, or that
    /// it has. Whether its turn has come; if not, its host is told of room when it has.
    pub fn await_turn(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        host: HostId,
        expected: usize,
    ) -> bool {
        self.await_host(port, slot, host);
        let budget = self.held.budget(self.upkeep.limits.unsent_max);
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            // Its host is told of that.
            return false;
        };
        let has_room = connection.outgoing.unsent() <= budget / 2;
        let is_turn = connection.next_answer == slot.ordinal && has_room;
        let Some(index) = connection.position(slot.ordinal) else {
            // Whoever begins it learns that nobody waits for it.
            return true;
        };
        let pending = &mut connection.pending[index];
        pending.expected = expected;
        pending.waits = !is_turn;
        is_turn
    }

    /// A host's answer that is yet to be given takes so many bytes of memory elsewhere until it is:
    /// they count as held by its connection.
    pub fn keeps_beside(&mut self, port: &mut dyn Port, slot: AnswerSlot, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(slot.connection)
            && let Some(index) = connection.position(slot.ordinal)
        {
            connection.pending[index].beside = bytes;
            self.held.count(connection);
            self.relieve(port, slot.connection);
        }
    }

    /// It takes so many bytes less there by now.
    pub(crate) fn keeps_less_beside(&mut self, slot: AnswerSlot, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(slot.connection)
            && let Some(index) = connection.position(slot.ordinal)
        {
            let beside = &mut connection.pending[index].beside;
            *beside = beside.saturating_sub(bytes);
            self.held.count(connection);
        }
    }

    /// What was sent by now of an answer in pieces.
    pub(crate) fn sent(&self, slot: AnswerSlot) -> Option<Answered> {
        let connection = self.connections.get(slot.connection)?;
        let index = connection.position(slot.ordinal)?;
        connection.sent_of(&connection.pending[index], 0)
    }

    /// Begins an answer whose body comes in pieces. `head` appends all of the head, and gives where
    /// its line of chunks begins.
    pub(crate) fn begin(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        shape: AnswerShape,
        begun: Begun,
        now: Time,
        head: impl FnOnce(AnswerShape, &mut Vec<u8>) -> usize,
    ) {
        let draining = self.upkeep.drain.is_some();
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return;
        };
        if let Some(index) = connection.position(slot.ordinal) {
            let progress = connection.pending[index].progress;
            assert!(
                !matches!(progress, Progress::Begun(_)),
                "an answer is begun once"
            );
        }
        if !connection.is_unanswered(slot.ordinal) {
            return;
        }
        let mut shape = connection.shape_now(slot.ordinal, shape, draining);
        if begun.framing == Framing::Close {
            shape.close = true;
            let behind = connection.cut_behind(slot.ordinal);
            self.gone.extend(behind.iter().filter_map(|pending| {
                let ordinal = pending.ordinal;
                Some((pending.host()?, (AnswerSlot { ordinal, ..slot }, None)))
            }));
        }
        self.held.take_back(connection, slot.ordinal);
        let index = connection.position(slot.ordinal).unwrap_or_else(|| {
            let progress = Progress::Awaited(begun.host);
            let pending = Pending::new(slot.ordinal, progress, Vec::new(), false);
            connection.pending.push(pending);
            connection.pending.len() - 1
        });
        let added = connection.take_added(slot.ordinal);
        let pending = &mut connection.pending[index];
        assert_eq!(
            pending.progress,
            Progress::Awaited(begun.host),
            "an answer is begun once, by its host"
        );
        pending.close = shape.close;
        pending.expected = 0;
        let mut begun = begun;
        let start = pending.bytes.len();
        let mut line = head(shape, &mut pending.bytes);
        if let Some(lines) = added {
            line += add_to_head(&mut pending.bytes, start, &lines);
        }
        if let Framing::Open(open) = &mut begun.framing {
            (open.line, open.body) = (line, pending.bytes.len());
        }
        pending.progress = Progress::Begun(begun);
        self.held.count(connection);
        if connection.next_answer == slot.ordinal {
            self.catch_up(port, slot.connection, now);
        }
    }

    /// Appends a piece to the body of an answer that was begun. What is appended is always taken;
    /// who goes on after [`Flow::Wait`] gives up the bound on memory. With more than was said the
    /// answer is abandoned: what stands in its head is wrong. It is to wait when so many bytes are
    /// unsent, or as many as the limits say.
    pub(crate) fn append(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        piece: &[u8],
        unsent_max: usize,
        now: Time,
    ) -> Flow {
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return Flow::Gone;
        };
        let is_turn = connection.next_answer == slot.ordinal;
        let Some(index) = connection.position(slot.ordinal) else {
            return Flow::Gone;
        };
        let pending = &mut connection.pending[index];
        let begun = match &mut pending.progress {
            Progress::Begun(begun) => begun,
            Progress::Abandoned | Progress::Finished => return Flow::Gone,
            Progress::Awaited(_) => panic!("an answer that is appended to was begun"),
        };
        if matches!(begun.framing, Framing::Length(left) if piece.len() as u64 > left) {
            self.abandon(port, slot, now);
            return Flow::Gone;
        }
        if begun.framing != Framing::None {
            begun.answered.body_length += piece.len() as u64;
        }
        if let Framing::Length(left) = &mut begun.framing {
            *left -= piece.len() as u64;
        }
        let framing = begun.framing;
        let most = framing.most(piece);
        if is_turn {
            let write = |out: &mut Vec<u8>| framing.write(piece, out);
            self.write(port, slot.connection, now, most, write);
        } else if pending.bytes.try_reserve(most).is_err() {
            // Without memory for it, the connection ends in its place.
            self.abandon(port, slot, now);
            return Flow::Gone;
        } else {
            framing.write(piece, &mut pending.bytes);
            self.held.count(connection);
        }
        self.relieve(port, slot.connection);
        self.flow(slot, unsent_max)
    }

    /// Whether there is room for more of an answer in pieces; if not, [`Clients::next_roomy`] tells
    /// of it when there is.
    fn flow(&mut self, slot: AnswerSlot, unsent_max: usize) -> Flow {
        let unsent_max = unsent_max.min(self.upkeep.limits.unsent_max);
        let budget = self.held.budget(unsent_max);
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return Flow::Gone;
        };
        // The one whose turn it is goes on whatever others have ready.
        let unsent = match connection.next_answer == slot.ordinal {
            true => connection.outgoing.unsent(),
            false => connection.unsent(),
        };
        let Some(index) = connection.position(slot.ordinal) else {
            unreachable!("it was appended to");
        };
        let pending = &mut connection.pending[index];
        pending.waits = unsent >= budget;
        if pending.waits {
            Flow::Wait
        } else {
            Flow::More
        }
    }

    /// Finishes an answer that was begun. One that is shorter than was said is abandoned: nothing
    /// else tells the client. One that is abandoned stays so. Gives what was answered; `None` where
    /// it was not.
    pub(crate) fn finish(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        now: Time,
    ) -> Option<Answered> {
        let connection = self.connections.get_mut(slot.connection)?;
        let is_turn = connection.next_answer == slot.ordinal;
        let index = connection.position(slot.ordinal)?;
        let Begun {
            framing, answered, ..
        } = match connection.pending[index].progress {
            Progress::Begun(begun) => begun,
            Progress::Abandoned | Progress::Finished => return None,
            Progress::Awaited(_) => panic!("an answer that is finished was begun"),
        };
        let close = connection.drop_content(slot.ordinal);
        let pending = &mut connection.pending[index];
        if matches!(framing, Framing::Length(1..)) {
            self.abandon(port, slot, now);
            return None;
        }
        pending.close |= close;
        if !is_turn {
            framing.end(&mut pending.bytes);
            pending.progress = Progress::Finished;
            self.held.count(connection);
            return Some(answered);
        }
        let pending = connection.pending.swap_remove(index);
        connection.turn_over(pending.close);
        let write = |out: &mut Vec<u8>| framing.end(out);
        self.write(port, slot.connection, now, framing.most(&[]), write);
        self.catch_up(port, slot.connection, now);
        Some(answered)
    }

    /// Whether an answer was begun, and is neither finished nor given up.
    pub(crate) fn has_begun(&self, slot: AnswerSlot) -> bool {
        let connection = self.connections.get(slot.connection);
        connection.is_some_and(|connection| {
            (connection.position(slot.ordinal)).is_some_and(|index| {
                matches!(connection.pending[index].progress, Progress::Begun(_))
            })
        })
    }

    /// Gives up an answer, begun or not: the connection is dropped when its turn comes. Nothing
    /// happens to one that was given, or given up.
    pub(crate) fn abandon(&mut self, port: &mut dyn Port, slot: AnswerSlot, now: Time) {
        let has_begun = self.has_begun(slot);
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return;
        };
        if !has_begun && !connection.is_unanswered(slot.ordinal) {
            return;
        }
        connection.last_taken = true;
        connection.receiving = None;
        if connection.next_answer == slot.ordinal {
            connection.decide(&mut self.outbox.bytes);
        }
        match connection.position(slot.ordinal) {
            Some(index) => connection.pending[index].progress = Progress::Abandoned,
            None => {
                let pending = Pending::new(slot.ordinal, Progress::Abandoned, Vec::new(), true);
                connection.pending.push(pending);
            }
        }
        self.held.take_back(connection, slot.ordinal);
        self.held.count(connection);
        if connection.next_answer == slot.ordinal {
            self.catch_up(port, slot.connection, now);
        }
    }
}
