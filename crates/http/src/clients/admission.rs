//! Whose request is taken in this turn of the loop, and whose in a later one.
//!
//! ```text
//!   first    of a connection that has nothing under way and did not wait: at once
//!   later    what it has asked behind that, what has a long answer, and what was announced
//!            (`Expect`): while this turn's quantum lasts, then in the next turns, connection by
//!            connection
//!   no room  of these, what does not fit what all may hold: when it does, short answers first; or
//!            one after a while, each class in its turn, and others give way (`no_room.rs`). They
//!            and the later ones go in turn
//! ```
//!
//! So who asks for one thing waits for a turn, whatever others have sent, and a turn is short
//! (`quantum.rs`).

use crate::clients::Clients;
use crate::clients::at_hand::AtHand;
use crate::clients::connection::Connection;
use crate::clients::input::{Reading, State};
use crate::clients::no_room::Expected;
use crate::clients::quantum::{Quantum, is_its_turn};
use crate::clients::reader::Reader;
use crate::clients::stall::Stall;
use crate::clients::upkeep::Upkeep;
use rhythm_net::{ConnectionId, ConnectionTable, Time};
use std::time::Duration;

/// An answer of more bytes takes longer than others should wait for it.
pub const LONG_BYTES: usize = 64 * 1024;

/// While there is no room, a request is taken all the same as often as this: who holds what others
/// wait for may never take it.
const NO_ROOM_MAX: Duration = Duration::from_millis(50);

/// Of what is made for those, so many bytes in that time, where others are stuck: they do not keep
/// a thread busy.
const STUCK_BYTES: f64 = (16 << 20) as f64;

/// [`Reader::may_take`].
#[inline]
fn may_take(
    quantum: &mut Quantum,
    upkeep: &Upkeep,
    reading: &Reading<'_>,
    bytes: usize,
) -> Result<(), Stall> {
    let is_short = bytes <= LONG_BYTES;
    match reading.is_first() {
        true if is_short => return Ok(()),
        true if !is_its_turn(quantum, upkeep, reading) => return Err(Stall::Turn),
        // If it is not the first, it was seen to that it is its turn.
        true | false => quantum.take(bytes),
    }
    Ok(())
}

impl Reader<'_, '_> {
    /// Whether the whole request at hand is taken now, if its answer has so many bytes that no
    /// connection holds.
    ///
    /// # Errors
    /// What it waits for. It is to be [put back](Reader::put_back).
    #[inline]
    pub fn may_take(&mut self, bytes: usize) -> Result<(), Stall> {
        self.take_back_promise();
        may_take(self.at.quantum, self.at.upkeep, &self.reading, bytes)
    }

    /// Nothing is promised for the request at hand: it is taken otherwise, or not now.
    #[inline]
    pub(crate) fn take_back_promise(&mut self) {
        if let State::Whole { owed, .. } = &self.reading.state {
            let connection = &mut *self.at.connection;
            self.at.held.take_back(connection, owed.slot.ordinal);
        }
    }

    /// Whether the whole request at hand is taken now, if its answer is as long as is expected;
    /// with `None`, where nothing is known of it, not even when it may come, no room is kept for
    /// it.
    ///
    /// # Errors
    /// What it waits for. It is to be [put back](Reader::put_back).
    #[inline]
    pub fn admit(&mut self, expected: Option<Expected>) -> Result<(), Stall> {
        self.take_back_promise();
        let budget = self.at.budget();
        let waited = match self.reading.has_room() {
            true => self.at.connection.expected,
            false => None,
        };
        if !self.at.connection.note_expected(expected, budget) {
            return Err(Stall::Output);
        }
        let Some(expected) = expected else {
            return Ok(());
        };
        let bytes = expected.bytes;
        if waited.is_some_and(|waited| waited.is_like(expected)) {
            self.at.upkeep.let_through(bytes);
        } else {
            // Who was taken for longer has waited as if it were.
            let is_first = self.reading.is_first() || waited.is_some();
            if (!is_first || bytes > LONG_BYTES) && !self.at.held.has_room(bytes) {
                return Err(Stall::Room);
            }
        }
        self.may_take(bytes)?;
        if let State::Whole { owed, .. } = &self.reading.state {
            let connection = &mut *self.at.connection;
            self.at.held.promise(connection, owed.slot.ordinal, bytes);
        }
        Ok(())
    }
}

impl AtHand<'_> {
    /// The connection waits for room from now on, with a request that `is_first` of what it asks.
    pub(crate) fn wait_for_room(&mut self, is_first: bool, now: Time) {
        if self.upkeep.no_room.is_empty() {
            self.upkeep.room_at = now + NO_ROOM_MAX;
        }
        let Some(expected) = self.connection.expected else {
            unreachable!("nobody waits for room that is not kept");
        };
        self.upkeep.no_room.push(self.id, expected, is_first);
    }
}

impl Upkeep {
    /// The connection that was taken last of those that wait for room is let through, with an
    /// answer of so many bytes.
    fn let_through(&mut self, bytes: usize) {
        self.no_room.let_through(bytes);
        self.room_at = self.next_room_at;
    }

    /// Forgets connections that are gone if they may be the most of those that wait.
    fn forget_gone(&mut self, connections: &ConnectionTable<Connection>) {
        let open = connections.len();
        self.no_room.forget_gone(open, |id| {
            let connection = connections.get(id);
            connection.is_some_and(|connection| connection.stall == Some(Stall::Room))
        });
        if self.unstalled.len() > 2 * open {
            self.unstalled.retain(|id| connections.get(*id).is_some());
        }
    }
}

impl Clients {
    /// A turn of the driver is over, which took so long. To be called in each.
    pub fn turn_is_over(&mut self, took: Duration) {
        self.quantum.renew(took);
        self.upkeep.forget_gone(&self.connections);
    }

    /// Connections that wait to go on, those included that are gone: of these there are no more
    /// than of others when a turn [is over](Clients::turn_is_over).
    pub fn waiting(&self) -> usize {
        self.upkeep.no_room.len().max(self.upkeep.unstalled.len())
    }

    /// Which queue's first goes on of those who wait for room, if any: that which was let through
    /// least, when it is time for that, else for the shortest answer, if there is room for it or
    /// nobody waits for it any more.
    #[inline]
    fn goes_on(&self, now: Time) -> Option<usize> {
        if self.upkeep.no_room.is_empty() {
            return None;
        }
        if now >= self.upkeep.room_at {
            return self.upkeep.no_room.fairest();
        }
        let goes = self.upkeep.no_room.nexts().find(|(_, id)| {
            let connection = self.connections.get(*id);
            let expected = connection.and_then(|connection| connection.expected);
            expected.is_none_or(|expected| self.held.has_room(expected.bytes))
        });
        goes.map(|(queue, _)| queue)
    }

    /// Whether somebody who waits for room goes on.
    pub(crate) fn room_opens(&self, now: Time) -> bool {
        self.goes_on(now).is_some()
    }

    /// Where what was taken of the turn's quantum is used up and answered, there is more of it,
    /// unless the turn `took` as long as it may by then.
    pub fn next_slice(&mut self, took: impl FnOnce() -> Duration) {
        if !self.quantum.is_left() {
            self.quantum.next_slice(took());
        }
    }

    /// A connection whose stall is over, for [`Clients::proceed`], while the slice at hand of this
    /// turn's quantum lasts ([`Clients::next_slice`] has another): those who wait for room and the
    /// others in turn, as one of either may take all of it.
    pub fn next_unstalled(&mut self, now: Time) -> Option<ConnectionId> {
        if !self.quantum.is_left() {
            return None;
        }
        let is_others_turn = std::mem::take(&mut self.upkeep.was_rooms_turn);
        if !is_others_turn || self.upkeep.unstalled.is_empty() {
            let id = self.next_for_room(now);
            self.upkeep.was_rooms_turn = id.is_some();
            if id.is_some() {
                return id;
            }
        }
        self.upkeep.unstalled.pop_front()
    }

    /// Of those who wait for room, one who goes on.
    fn next_for_room(&mut self, now: Time) -> Option<ConnectionId> {
        while let Some(queue) = self.goes_on(now)
            && let Some(id) = self.upkeep.no_room.take(queue)
        {
            self.upkeep.next_room_at = match now >= self.upkeep.room_at {
                true => now + self.until_next(id, now),
                false => self.upkeep.room_at,
            };
            if let Some(connection) = self.connections.get_mut(id)
                && connection.stall == Some(Stall::Room)
            {
                connection.may_go_on = true;
                return Some(id);
            }
        }
        None
    }

    /// When the next goes on without room after this one: soon, where who gives way for it is
    /// stuck, since others may be as well.
    fn until_next(&mut self, id: ConnectionId, now: Time) -> Duration {
        let connection = self.connections.get(id);
        let Some(expected) = connection.and_then(|connection| connection.expected) else {
            return Duration::ZERO;
        };
        let slowest = self.slowest_since(id);
        match slowest.is_some_and(|since| since + NO_ROOM_MAX <= now) {
            true => NO_ROOM_MAX.mul_f64((expected.bytes as f64 / STUCK_BYTES).min(1.0)),
            false => NO_ROOM_MAX,
        }
    }
}
