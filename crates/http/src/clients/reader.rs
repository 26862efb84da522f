//! Reader: from bytes of a connection to requests (paper, section 3.2, *Reader*).
//!
//! Whoever owns the [`Clients`] pulls:
//!
//! ```text
//!   received --> read --> next: a request --> take it, or refuse it, or stall --+
//!   stall over --> proceed --^                                                   |
//!                            +---------------------------------------------------+
//!                            +-- nothing more --> read_done: what is left is kept
//! ```
//!
//! What is left at the end stays with the connection.

use crate::answer::AnswerSlot;
use crate::clients::Clients;
use crate::clients::connection::Stall;
use crate::clients::input::{Input, Next, Reading, Rest, next_piece, next_request};
use crate::clients::share::{REQUEST_BYTES, is_its_turn};
use crate::limits::RequestLimits;
use rhythm_net::{ConnectionId, Port, Time};

impl Clients {
    /// Begins to read what a connection received. `None` where nobody is interested in it.
    pub fn read<'a>(&mut self, id: ConnectionId, received: &'a [u8]) -> Option<Reading<'a>> {
        let connection = self.connections.get_mut(id)?;
        if !connection.takes_input() {
            return None;
        }
        let input = connection.input.take();
        let input = input.unwrap_or_else(|| self.spare.take().unwrap_or_default());
        let mut reading = Reading::new(id, input, received);
        reading.may_be_first = true;
        Some(reading)
    }

    /// Takes up a connection's input again where its stall is over: that for a context (`waited`),
    /// or any other. `None` where it is not.
    pub fn proceed(&mut self, id: ConnectionId, waited: bool) -> Option<Reading<'static>> {
        let connection = self.connections.get_mut(id)?;
        let stall = connection.stall?;
        // It may be told of a stall before this one.
        let is_over = waited || std::mem::take(&mut connection.may_go_on);
        if (stall == Stall::Context) != waited || !is_over {
            return None;
        }
        // It may have stalled again since that was told.
        let limits = &self.upkeep.limits;
        let budget = self.held.budget(limits.unsent_max);
        if matches!(stall, Stall::Output | Stall::Pipelined)
            && !connection.stall_is_over(limits.pipelined_max, budget)
        {
            return None;
        }
        connection.stall = None;
        let input = connection.input.take();
        let input = input.unwrap_or_else(|| self.spare.take().unwrap_or_default());
        let mut reading = Reading::new(id, input, &[]);
        reading.resumes = true;
        reading.may_be_first = waited;
        reading.has_room = stall == Stall::Room;
        Some(reading)
    }

    /// The content of this request, whose head is at hand, is to come in pieces
    /// ([`Reading::in_pieces`]). To be called before the request may be answered: an answer that is
    /// finished before its content came ends the connection.
    pub(crate) fn expect_pieces(&mut self, slot: AnswerSlot) {
        if let Some(connection) = self.connections.get_mut(slot.connection) {
            connection.receiving = Some(slot.ordinal);
        }
    }

    /// There is no room for the request at hand: it is to be read again when its connection's stall
    /// is over. Whether input was taken until now.
    pub fn put_back(
        &mut self,
        port: &mut dyn Port,
        reading: &mut Reading<'_>,
        stall: Stall,
        now: Time,
    ) -> bool {
        let owed = reading.owed.take();
        if let Some(connection) = self.connections.get_mut(reading.id)
            && let Some(owed) = owed
        {
            connection.put_back_request(owed.slot.ordinal);
        }
        let first = self.stall(port, reading.id, stall);
        if first && stall == Stall::Room {
            self.wait_for_room(reading.id, now);
        }
        first
    }

    /// Takes no more input from a connection for now. Whether it was taken until now. A host that
    /// takes no more is waited for whatever else was: only that host knows when it goes on.
    pub(crate) fn stall(&mut self, port: &mut dyn Port, id: ConnectionId, stall: Stall) -> bool {
        let Some(connection) = self.connections.get_mut(id) else {
            return false;
        };
        let first = connection.stall.is_none();
        if first || stall == Stall::Host {
            connection.stop(stall);
        }
        if first && stall == Stall::Turn {
            self.upkeep.may_go_on(id, connection);
        }
        if first {
            port.pause(id);
        }
        first
    }

    /// Finds what comes next in the input. A whole request is taken with that, unless it is
    /// [put back](Clients::put_back).
    pub fn next(
        &mut self,
        port: &mut dyn Port,
        reading: &mut Reading<'_>,
        limits: &RequestLimits,
        now: Time,
    ) -> Next {
        let id = reading.id;
        if reading.is_at_end() {
            return Next::Nothing;
        }
        let Some(connection) = self.connections.get_mut(id) else {
            reading.is_over = true;
            return Next::Nothing;
        };
        if !connection.takes_input() {
            reading.is_over = true;
            return Next::Nothing;
        }
        if reading.is_lost {
            reading.is_over = true;
            port.abort(id);
            self.remove(id);
            return Next::Nothing;
        }
        if reading.input.is_in_pieces() {
            if connection.stall.is_some() {
                return Next::Nothing;
            }
            let next = next_piece(reading);
            if let Some((.., is_last)) = reading.piece().filter(|_| next == Next::Piece) {
                let bytes = reading.content().len() as u64;
                connection.since = self.upkeep.limits.credited(connection.since, bytes, now);
                connection.receiving = connection.receiving.filter(|_| !is_last);
            }
            if reading.is_over {
                port.abort(id);
                self.remove(id);
            }
            return next;
        }
        let of_clients = &self.upkeep.limits;
        let budget = self.held.budget(of_clients.unsent_max);
        if connection.stall.is_none()
            && let Some(stall) = connection.too_much(of_clients.pipelined_max, budget)
        {
            connection.stop(stall);
            port.pause(id);
        }
        if connection.stall.is_some() {
            return Next::Nothing;
        }
        let next = next_request(reading, limits);
        if next == Next::Request {
            reading.is_first = reading.may_be_first && connection.under_way() == 0;
            if reading.is_first {
                // At once.
            } else if is_its_turn(&self.share, &self.upkeep, reading) {
                self.share.take(REQUEST_BYTES);
            } else {
                // Only now: part of a request has a time to be whole in, which must not begin anew.
                self.stall(port, id, Stall::Turn);
                return Next::Nothing;
            }
            let (head, more) = (&reading.input.head, reading.has_more());
            reading.owed = Some(self.upkeep.take(id, connection, head, more));
        }
        next
    }

    /// Keeps what is left of the input, and settles the connection.
    pub fn read_done(&mut self, port: &mut dyn Port, reading: Reading<'_>, now: Time) {
        let (id, resumes) = (reading.id, reading.resumes);
        let Some(connection) = self.connections.get_mut(id) else {
            self.give_back(reading.input);
            return;
        };
        connection.more = false;
        let spare = match reading.rest() {
            Rest::Kept(input) => {
                connection.input = Some(input);
                None
            }
            Rest::Nothing(spare) => Some(spare),
            Rest::Lost => {
                port.abort(id);
                return self.remove(id);
            }
        };
        if resumes && connection.stall.is_none() && connection.takes_input() {
            port.resume(id);
        }
        let is_sent = !self.outbox.is_for(id);
        if (self.upkeep).settle(port, id, connection, &mut self.held, is_sent, now) {
            self.remove(id);
        }
        self.relieve(port, id);
        if let Some(input) = spare {
            self.give_back(input);
        }
    }

    /// Keeps one input's memory for the next, without its bytes.
    fn give_back(&mut self, mut input: Box<Input>) {
        if self.spare.is_none() {
            input.clear();
            self.spare = Some(input);
        }
    }
}
