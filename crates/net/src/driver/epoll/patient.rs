//! The patient: clients of which no input was answered yet, or not their last, and those who have
//! left. What answers a client, its handler knows: [`unanswered`](crate::port::Port::unanswered).
//!
//! They are told of when everybody else is answered, and so few that the turn does not become long
//! by them.
//! Who asks and is answered, again and again, is not to be delayed by a crowd that comes, that
//! sends byte by byte or more than it awaits, or that goes: a newcomer may bring as much as a turn
//! can do, and it takes the system long to clear away what a client left unread.

use crate::driver::sockets::Connection;
use crate::port::{ConnectionId, TURN_MAX, Time};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::time::Duration;

/// So many are let in, and so many told of, in one turn at most, and at least where it is longer
/// than it may be.
const ROOM_MAX: usize = 16;
pub(super) const ROOM_MIN: usize = 2;
/// Those beyond the least are told of, and let in, for such a part of a turn at most.
const TOLD_MAX: u32 = 4;
/// An empty line keeps memory for so many.
const KEPT: usize = 64;
/// A turn may be longer by them by such a part of it: who comes in one and is answered in the next
/// has waited no longer than a turn at most.
const PATIENT_MAX: u32 = 2;
/// Of a turn that is long without them so many times as many are told of, and let in, at most.
const LONGER_MAX: u128 = 16;

/// What a turn has for the patient that took so long before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// How many are told of, and how many let in, at most.
    pub(super) room: usize,
    /// For how long those beyond the least are.
    pub(super) told_max: Duration,
    /// How long what they bring may take.
    patient_max: Duration,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Patient {
    /// Those that epoll has listed and nobody was told of, and when it did: one entry for each.
    line: VecDeque<(ConnectionId, Time)>,
    /// For how many a turn has room, of those to tell of and of those to let in.
    room: usize,
}

impl Patient {
    pub(super) fn new() -> Patient {
        Patient {
            line: VecDeque::new(),
            room: ROOM_MAX,
        }
    }

    /// What a turn has for them that took so long before. However long others' work makes turns, as
    /// many come of them in a while as ever.
    pub(super) fn share(&self, before: Duration) -> Share {
        let times = before.as_nanos() / TURN_MAX.as_nanos();
        let before = before.max(TURN_MAX);
        Share {
            room: self.room * times.clamp(1, LONGER_MAX) as usize,
            told_max: before / TOLD_MAX,
            patient_max: before / PATIENT_MAX,
        }
    }

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

    /// What was told of so many of them, and what they brought to do, took so long. If their share
    /// had room for no more, it `was_short`.
    pub(super) fn adapt(&mut self, share: Share, took: Duration, served: usize, was_short: bool) {
        if took > share.patient_max && served > 0 {
            self.room = (self.room / 2).max(ROOM_MIN);
        } else if was_short {
            self.room = (self.room + 1).min(ROOM_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_room_for_fewer_where_they_make_it_long() {
        const MAX: Duration = TURN_MAX.checked_div(PATIENT_MAX).unwrap();
        let mut patient = Patient::new();
        let mut room_after = |took, served, was_short| {
            let share = patient.share(Duration::ZERO);
            patient.adapt(share, took, served, was_short);
            patient.share(Duration::ZERO).room
        };
        assert_eq!(room_after(MAX * 2, 16, true), 8);
        assert_eq!(room_after(MAX * 2, 8, true), 4);
        // Others made it long, who went on in it: nothing is gained by fewer.
        assert_eq!(room_after(TURN_MAX * 2, 0, false), 4);
        assert_eq!(room_after(TURN_MAX * 2, 0, true), 5);
        assert_eq!(room_after(MAX, 5, true), 6);
        assert_eq!(room_after(MAX, 3, false), 6);
        for _ in 0..9 {
            room_after(TURN_MAX, 2, true);
        }
        assert_eq!(room_after(TURN_MAX, 2, true), ROOM_MIN);
        for _ in 0..99 {
            room_after(MAX / 2, 2, true);
        }
        assert_eq!(room_after(MAX / 2, 16, true), ROOM_MAX);
    }

    #[test]
    fn a_turn_that_is_long_without_them_has_room_for_more() {
        let mut patient = Patient::new();
        let long = patient.share(TURN_MAX * 4);
        assert_eq!(long.room, 4 * patient.share(TURN_MAX).room);
        assert_eq!(long.told_max, TURN_MAX);
        assert_eq!(
            patient.share(TURN_MAX * 9999).room,
            ROOM_MAX * LONGER_MAX as usize
        );
        // It may be longer by them, but not much.
        patient.adapt(long, TURN_MAX * 2, 16, true);
        assert_eq!(patient.room, ROOM_MAX);
        patient.adapt(long, TURN_MAX * 3, 16, true);
        assert_eq!(patient.room, ROOM_MAX / 2);
    }

    #[test]
    fn connections_that_are_gone_do_not_pile_up() {
        let mut patient = Patient::new();
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
        let mut patient = Patient::new();
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
