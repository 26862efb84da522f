//! Reader: from bytes of a connection to requests (paper, section 3.2, *Reader*).
//!
//! Whoever owns the [`Clients`] pulls:
//!
//! ```text
//!   received -----> read ----+
//!   stall over --> proceed --+--> next: a request --> take it, or put it back ----+
//!                            ^                                                    |
//!                            +----------------------------------------------------+
//!                            +--> pause: others are answered --> go_on --> next ...
//!                            +--> nothing more --> leave: what is left is kept, read_done
//! ```
//!
//! The connection is looked up when its input begins to be read, and again where others, or itself,
//! are answered before all of it is.

use crate::answer::AnswerSlot;
use crate::clients::Clients;
use crate::clients::at_hand::AtHand;
use crate::clients::input::{Input, Next, Reading, Rest, State, next_piece, next_request};
use crate::clients::quantum::{REQUEST_BYTES, is_its_turn};
use crate::clients::stall::Stall;
use crate::limits::RequestLimits;
use rhythm_net::{ConnectionId, Port, Time};

/// A connection whose input is being read. See the module's text.
#[derive(Debug)]
pub struct Reader<'c, 'a> {
    pub(crate) at: AtHand<'c>,
    /// Its input.
    pub reading: Reading<'a>,
}

/// What is left to do for a connection whose input was read.
#[must_use = "see Clients::read_done"]
#[derive(Clone, Copy, Debug)]
pub struct Left {
    id: ConnectionId,
    /// The connection is over: it is to be removed.
    is_over: bool,
}

impl Clients {
    /// Begins to read what a connection received. `None` where nobody is interested in it.
    #[inline]
    pub fn read<'a>(&mut self, id: ConnectionId, received: &'a [u8]) -> Option<Reader<'_, 'a>> {
        let at = self.at_hand(id)?;
        if !at.connection.takes_input() {
            return None;
        }
        Some(Reader::new(at, received, None))
    }

    /// Takes up a connection's input again where its stall is over: that for a context or
    /// for memory (`waited`), or any other. `None` where it is not.
    pub fn proceed(&mut self, id: ConnectionId, waited: bool) -> Option<Reader<'_, 'static>> {
        let at = self.at_hand(id)?;
        let stall = at.connection.stall?;
        // It may be told of a stall before this one.
        let is_over = waited || std::mem::take(&mut at.connection.may_go_on);
        if matches!(stall, Stall::Context | Stall::Memory) != waited || !is_over {
            return None;
        }
        // It may have stalled again since that was told.
        let (budget, pipelined_max) = (at.budget(), at.upkeep.limits.pipelined_max);
        if matches!(stall, Stall::Output | Stall::Pipelined)
            && !at.connection.stall_is_over(pipelined_max, budget)
        {
            return None;
        }
        at.connection.stall = None;
        Some(Reader::new(at, &[], Some(stall)))
    }

    /// Goes on to read an input that was [set aside](Reader::pause).
    ///
    /// # Errors
    /// The connection is gone.
    #[inline]
    pub fn go_on<'a>(&mut self, reading: Reading<'a>) -> Result<Reader<'_, 'a>, Left> {
        let id = reading.id;
        match self.at_hand(id) {
            Some(at) => Ok(Reader { at, reading }),
            None => Err(Left { id, is_over: true }),
        }
    }

    /// What follows when a connection's input was read.
    #[inline]
    pub fn read_done(&mut self, port: &mut dyn Port, left: Left) {
        if left.is_over {
            self.remove(left.id);
        }
        self.relieve(port, left.id);
    }

    /// The content of this request, whose head is at hand, is to come in pieces
    /// ([`Reading::in_pieces`]). To be called before the request may be answered: an answer that is
    /// finished before its content came ends the connection. `is_tunnel`: it is what another
    /// protocol says, which takes no time that counts, and has no end.
    pub(crate) fn expect_pieces(&mut self, slot: AnswerSlot, is_tunnel: bool) {
        if let Some(connection) = self.connections.get_mut(slot.connection) {
            connection.receiving = Some(slot.ordinal);
            connection.is_tunnel = is_tunnel;
        }
    }

    /// See [`AtHand::stall`].
    pub(crate) fn stall(&mut self, port: &mut dyn Port, id: ConnectionId, stall: Stall) -> bool {
        (self.at_hand(id)).is_some_and(|mut at| at.stall(port, stall))
    }
}

impl<'c, 'a> Reader<'c, 'a> {
    #[inline]
    fn new(at: AtHand<'c>, received: &'a [u8], after: Option<Stall>) -> Reader<'c, 'a> {
        let input = at.connection.input.take();
        let input = input.unwrap_or_else(|| at.spare.take().unwrap_or_default());
        let reading = Reading::new(at.id, input, received, after);
        Reader { at, reading }
    }

    /// [`Clients::add_lines`], for the request at hand.
    pub fn add_lines(&mut self, lines: &[u8]) {
        let AnswerSlot { ordinal, .. } = self.reading.owed().slot;
        self.at.connection.added.push((ordinal, lines.into()));
        self.at.count();
    }

    /// [`Clients::deserted`].
    pub fn deserted(&self) -> u64 {
        self.at.deserted
    }

    /// Sets the input aside, so that others, or this connection, can be answered meanwhile.
    pub fn pause(self) -> Reading<'a> {
        self.reading
    }

    /// There is no room for the request at hand: it is to be read again when its connection's stall
    /// is over. Whether input was taken until now.
    pub fn put_back(&mut self, port: &mut dyn Port, stall: Stall, now: Time) -> bool {
        let is_first = self.reading.is_first();
        self.take_back_promise();
        if let State::Whole { owed, .. } = self.reading.state {
            self.at.connection.put_back_request(owed.slot.ordinal);
            self.at.connection.input_since = owed.began;
            self.reading.state = State::Open;
        }
        let first = self.at.stall(port, stall);
        if first && stall == Stall::Room {
            self.at.wait_for_room(is_first, now);
        }
        first
    }

    /// Finds what comes next in the input. A whole request is taken with that, unless it is
    /// [put back](Reader::put_back).
    pub fn next(&mut self, port: &mut dyn Port, limits: &RequestLimits, now: Time) -> Next {
        let Reader { at, reading } = self;
        if reading.is_at_end() {
            return Next::Nothing;
        }
        if !at.connection.takes_input() {
            reading.state = State::Over;
            return Next::Nothing;
        }
        if matches!(reading.state, State::Lost) {
            reading.abort(port);
            return Next::Nothing;
        }
        if reading.input.is_in_pieces() {
            return self.next_piece(port, now);
        }
        if at.connection.stall.is_none() {
            let (budget, pipelined_max) = (at.budget(), at.upkeep.limits.pipelined_max);
            if let Some(stall) = at.connection.too_much(pipelined_max, budget) {
                at.connection.stop(stall);
                port.pause(at.id);
            }
        }
        if at.connection.stall.is_some() {
            return Next::Nothing;
        }
        let next = next_request(reading, at.template, limits);
        if next == Next::Request {
            // Who announces content has said that he can wait, whether he does or not.
            let is_first = reading.may_be_first()
                && at.connection.under_way() == 0
                && !reading.input.head.expect_continue();
            at.connection.is_patient = !is_first;
            if is_first {
                // At once.
            } else if is_its_turn(at.quantum, at.upkeep, reading) {
                at.quantum.take(REQUEST_BYTES);
            } else {
                // Only now: part of a request has a time to be whole in, which must not begin anew.
                at.stall(port, Stall::Turn);
                return Next::Nothing;
            }
            let (head, more) = (&reading.input.head, reading.has_more());
            let owed = at.upkeep.take(at.id, at.connection, head, more);
            reading.state = State::Whole { owed, is_first };
        }
        next
    }

    /// The next piece of a request's content.
    #[cold]
    fn next_piece(&mut self, port: &mut dyn Port, now: Time) -> Next {
        let Reader { at, reading } = self;
        if at.connection.stall.is_some() {
            return Next::Nothing;
        }
        let next = next_piece(reading);
        if let Some((.., is_last)) = reading.piece().filter(|_| next == Next::Piece) {
            let (connection, limits) = (&mut *at.connection, &at.upkeep.limits);
            // While it takes nothing of an answer, what it sends wins it no time.
            if connection.outgoing.is_empty() {
                let bytes = reading.content().len() as u64;
                connection.since = limits.credited(connection.since, bytes, now);
            }
            connection.receiving = connection.receiving.filter(|_| !is_last);
        }
        if matches!(reading.state, State::Over) {
            reading.abort(port);
        }
        next
    }

    /// Keeps what is left of the input, and settles the connection.
    #[inline]
    pub fn leave(self, port: &mut dyn Port, now: Time) -> Left {
        let Reader { mut at, reading } = self;
        let (id, resumes) = (at.id, reading.resumes());
        let is_aborted = matches!(reading.state, State::Aborted);
        at.connection.more = false;
        match reading.rest() {
            Rest::Kept(input) => {
                at.connection.input = Some(input);
                at.connection.input_since.get_or_insert(now);
            }
            Rest::Nothing(input) => {
                at.connection.input_since = None;
                give_back(at.spare, input);
            }
            Rest::Lost => {
                port.abort(id);
                return Left { id, is_over: true };
            }
        }
        if is_aborted {
            return Left { id, is_over: true };
        }
        if resumes && at.connection.stall.is_none() && at.connection.takes_input() {
            port.resume(id);
        }
        let is_over = at.settle(port, now);
        Left { id, is_over }
    }
}

/// Keeps one input's memory for the next, without its bytes.
fn give_back(spare: &mut Option<Box<Input>>, mut input: Box<Input>) {
    if spare.is_none() {
        input.clear();
        *spare = Some(input);
    }
}
