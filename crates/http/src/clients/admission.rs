//! Whose request is taken in this turn of the loop, and whose in a later one.
//!
//! ```text
//!   first    of a connection that has nothing under way and did not wait: at once
//!   later    what it has asked behind that, and what has a long answer: while this turn's share
//!            lasts, then in the next turns, connection by connection
//!   no room  of these, what does not fit what all may hold: when it does, in the order in which
//!            they came; or when for a while nothing has, and others are to give way
//! ```
//!
//! So who asks for one thing waits for a turn, whatever others have sent, and a turn is short
//! (`share.rs`).

use crate::clients::Clients;
use crate::clients::connection::Stall;
use crate::clients::input::Reading;
use crate::clients::share::{Share, is_its_turn};
use crate::clients::upkeep::Upkeep;
use rhythm_net::{ConnectionId, Time};
use std::time::Duration;

/// An answer that is expected to be longer takes longer than others should wait for it.
const LONG_BYTES: usize = 64 * 1024;

/// While there is no room, a request is taken all the same as often as this: who holds what others
/// wait for may never take it.
const NO_ROOM_MAX: Duration = Duration::from_millis(50);

/// [`Clients::may_take`].
#[inline]
fn may_take(
    share: &mut Share,
    upkeep: &Upkeep,
    reading: &Reading<'_>,
    bytes: usize,
) -> Result<(), Stall> {
    let is_short = bytes <= LONG_BYTES;
    match reading.is_first {
        true if is_short => return Ok(()),
        true if !is_its_turn(share, upkeep, reading) => return Err(Stall::Turn),
        // If it is not the first, it was seen to that it is its turn.
        true | false => share.take(bytes),
    }
    Ok(())
}

impl Clients {
    /// Nothing more is done in this turn of the driver. To be called in each.
    pub fn turn_is_over(&mut self) {
        self.share.renew();
    }

    /// How long the turn took that was [over](Clients::turn_is_over), if that is known.
    pub fn turn_took(&mut self, took: Duration) {
        self.share.adapt(took);
    }

    /// Whether the whole request at hand is taken now, if its answer has so many bytes that no
    /// connection holds.
    ///
    /// # Errors
    /// What it waits for. It is to be [put back](Clients::put_back).
    #[inline]
    pub fn may_take(&mut self, reading: &Reading<'_>, bytes: usize) -> Result<(), Stall> {
        may_take(&mut self.share, &self.upkeep, reading, bytes)
    }

    /// Whether the whole request at hand is taken now, if its answer is as long as is expected:
    /// `usize::MAX` where nothing is known.
    ///
    /// # Errors
    /// What it waits for. It is to be [put back](Clients::put_back).
    #[inline]
    pub fn admit(&mut self, reading: &Reading<'_>, expected: usize) -> Result<(), Stall> {
        let budget = self.held.budget(self.upkeep.limits.unsent_max);
        let Some(connection) = self.connections.get_mut(reading.id) else {
            return Ok(());
        };
        if !connection.has_room(expected, budget) {
            return Err(Stall::Output);
        }
        if expected == usize::MAX {
            return Ok(());
        }
        let waits = !reading.is_first || expected > LONG_BYTES;
        if waits && !reading.has_room && !self.held.has_room(expected) {
            return Err(Stall::Room);
        }
        may_take(&mut self.share, &self.upkeep, reading, expected)?;
        self.held.promise(connection, expected);
        Ok(())
    }

    /// Whether the connection that has waited longest for room goes on: there is some, it is gone,
    /// or nobody has for a while.
    pub(crate) fn room_opens(&self, now: Time) -> bool {
        let first = self.upkeep.no_room.front();
        first.is_some_and(|id| {
            let connection = self.connections.get(*id);
            now >= self.upkeep.room_at
                || connection.is_none_or(|connection| self.held.has_room(connection.expected))
        })
    }

    /// A connection whose stall is over, for [`Clients::proceed`], while this turn's share lasts.
    pub fn next_unstalled(&mut self, now: Time) -> Option<ConnectionId> {
        if !self.share.is_left() {
            return None;
        }
        while self.room_opens(now)
            && let Some(id) = self.upkeep.no_room.pop_front()
        {
            if let Some(connection) = self.connections.get_mut(id)
                && connection.stall == Some(Stall::Room)
            {
                self.upkeep.room_at = now + NO_ROOM_MAX;
                connection.may_go_on = true;
                return Some(id);
            }
        }
        self.upkeep.unstalled.pop_front()
    }

    /// A connection waits for room from now on.
    pub(crate) fn wait_for_room(&mut self, id: ConnectionId, now: Time) {
        if self.upkeep.no_room.is_empty() {
            self.upkeep.room_at = now + NO_ROOM_MAX;
        }
        self.upkeep.no_room.push_back(id);
    }
}
