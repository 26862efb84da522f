//! The patient: clients of which no input was answered yet, or not their last, and those who have
//! left. What answers a client, its handler knows: [`unanswered`](crate::port::Port::unanswered).
//!
//! They are told of when everybody else is answered, a few at a time, and when these are answered
//! the clock says whether the turn has time for more: it does not become long by them.
//! Who asks and is answered, again and again, is not to be delayed by a crowd that comes, that
//! sends byte by byte or more than it awaits, or that goes: a newcomer may bring as much as a turn
//! can do, and it takes the system long to clear away what a client left unread.

use crate::driver::sockets::Connection;
use crate::port::{ConnectionId, TURN_MAX, Time};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::time::Duration;

/// So many are told of before they are answered, and so many told of and let in however long the
/// turn is.
pub(super) const SLICE: usize = 2;
/// An empty line keeps memory for so many.
const KEPT: usize = 64;
/// A turn may be longer by them by such a part of it: who comes in one and is answered in the next
/// has waited no longer than a turn at most.
const PATIENT_MAX: u32 = 2;

/// What a turn has for the patient that took so long before: however long others' work makes turns,
/// as many come of them in a while as ever.
pub(super) fn share(before: Duration) -> Duration {
    before.max(TURN_MAX) / PATIENT_MAX
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Patient {
    /// Those that epoll has listed and nobody was told of, and when it did: one entry for each.
    line: VecDeque<(ConnectionId, Time)>,
}

impl Patient {
    /// Puts a connection that epoll has listed for `flags` into the line, if that is its place.
    pub(super) fn takes(
        &mut self,
        connection: &mut Connection,
        id: ConnectionId,
        flags: EventFlags,
        listed: Time,
    ) -> bool {
        let has_left = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        let is_patient = connection.is_unanswered || (has_left && !connection.is_ours());
        // Who waits goes on waiting.
        if !is_patient && connection.untold.is_empty() {
            return false;
        }
        if connection.untold.is_empty() {
            self.push(id, listed);
        }
        connection.untold |= flags;
        true
    }

    /// Epoll has listed one that is not in the line.
    fn push(&mut self, id: ConnectionId, listed: Time) {
        self.line.push_back((id, listed));
    }

    /// The first in the line.
    pub(super) fn pop(&mut self) -> Option<ConnectionId> {
        let (id, _) = self.line.pop_front()?;
        if self.line.is_empty() {
            // A crowd of them is rare.
            self.line.shrink_to(KEPT);
        }
        Some(id)
    }

    /// When the first in the line was listed; `None` where nobody waits.
    pub(super) fn since(&self) -> Option<Time> {
        Some(self.line.front()?.1)
    }

    /// Nobody waits any more: the connections are gone.
    pub(super) fn forget(&mut self) {
        self.line = VecDeque::new();
    }

    /// Forgets connections that are gone if they may be the most: nothing else takes them away as
    /// long as others are before them. `open` connections there are in all.
    pub(super) fn forget_gone(&mut self, open: usize, is_there: impl Fn(ConnectionId) -> bool) {
        if self.line.len() > 2 * open {
            self.line.retain(|(id, _)| is_there(*id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_are_gone_do_not_pile_up() {
        let mut patient = Patient::default();
        // The first is there all the time; of the others each is gone when the next has come.
        for n in 0..100_000 {
            patient.push(ConnectionId::new(n, 1), Time::ZERO);
            patient.forget_gone(2, |id| id.slot() == 0 || id.slot() == n);
            assert!(patient.line.len() <= 4, "{n}");
        }
        assert_eq!(patient.pop(), Some(ConnectionId::new(0, 1)));
        while patient.pop().is_some() {}
        assert!(patient.line.capacity() <= KEPT);
    }

    #[test]
    fn they_are_told_of_in_their_order() {
        let mut patient = Patient::default();
        assert_eq!(patient.since(), None);
        for n in [3, 1, 2] {
            patient.push(ConnectionId::new(n, 1), Time::from_nanos(u64::from(10 - n)));
        }
        assert_eq!(patient.since(), Some(Time::from_nanos(7)));
        assert_eq!(patient.pop(), Some(ConnectionId::new(3, 1)));
        assert_eq!(patient.since(), Some(Time::from_nanos(9)));
        patient.forget();
        assert_eq!((patient.since(), patient.pop()), (None, None));
    }
}
