//! Connections that wait for room in what all may hold, by how long their answers are to be.
//!
//! Where there is some, who asks for little passes who asks for much. Where there is none, each
//! class of answers has its share of what is let through all the same, byte for byte:
//!
//! ```text
//!   a length   of answers that differ by less than twice: beside one of 7 MB go 50 of 140 KB
//!   guesses    nothing is known of the answer but its page's others. Who asks for the first time
//!              passes who has more behind that, and who came last goes in turn with who came
//!              first: a flood of such requests is not a queue to stand behind
//!   pages      of which nothing is known. One answer, and those who wait for that page are seen
//!              anew
//! ```
//!
//! Whose turn it is is seen anew as well: it goes where others taught it belongs by now, and is let
//! through if that is where it has waited.

use rhythm_net::ConnectionId;
use std::collections::VecDeque;

/// Classes: of lengths by their highest bit, of guesses and of pages that are not known.
const GUESS: usize = usize::BITS as usize + 1;
const PAGE: usize = GUESS + 1;

/// Queues: one for each class, and the guesses of who asks for the first time.
const FIRST_GUESS: usize = PAGE + 1;
const QUEUES: usize = FIRST_GUESS + 1;

/// An empty queue keeps memory for so many.
const KEPT: usize = 64;

/// How long an answer is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// In bytes.
    pub bytes: usize,
    /// What that is known by.
    pub by: KnownBy,
}

/// What the length of an answer is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// The answer itself, or the one to the same request before.
    Itself,
    /// The page's others: of this one nothing is known.
    Page,
    /// Nothing: the page was not answered yet. It may be as long as any.
    Nothing,
}

impl Expected {
    /// So many bytes.
    pub const fn bytes(bytes: usize) -> Expected {
        Expected {
            bytes,
            by: KnownBy::Itself,
        }
    }

    fn class(self) -> usize {
        match self.by {
            KnownBy::Itself => (usize::BITS - self.bytes.leading_zeros()) as usize,
            KnownBy::Page => GUESS,
            KnownBy::Nothing => PAGE,
        }
    }

    /// Whether who waits with the one has waited with the other.
    pub(crate) fn is_like(self, other: Expected) -> bool {
        self.class() == other.class()
    }
}

/// Connections that wait for room.
#[derive(Debug)]
pub(crate) struct NoRoom {
    queues: [VecDeque<ConnectionId>; QUEUES],
    /// What each queue was let through: bytes, counted as if it had always asked for some.
    passed: [u64; QUEUES],
    /// The least of those that asked for some, when one was taken.
    turn: u64,
    /// Of guesses by those who ask for the first time, the last goes next.
    is_lasts_turn: bool,
    /// The queue from which one was taken last.
    taken_from: usize,
    waiting: usize,
}

impl NoRoom {
    pub(crate) fn new() -> NoRoom {
        NoRoom {
            queues: std::array::from_fn(|_| VecDeque::new()),
            passed: [0; QUEUES],
            turn: 0,
            is_lasts_turn: true,
            taken_from: 0,
            waiting: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many wait, those included that are gone.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// One waits for such an answer, which `is_first` of what it asks.
    pub(crate) fn push(&mut self, id: ConnectionId, expected: Expected, is_first: bool) {
        let queue = match expected.class() {
            GUESS if is_first => FIRST_GUESS,
            class => class,
        };
        if self.queues[queue].is_empty() {
            // While it asked for nothing it saved nothing.
            self.passed[queue] = self.passed[queue].max(self.turn);
        }
        self.queues[queue].push_back(id);
        self.waiting += 1;
    }

    /// The queue that was let through least, the shortest answers of these.
    pub(crate) fn fairest(&self) -> Option<usize> {
        let waiting = (0..QUEUES).filter(|queue| !self.queues[*queue].is_empty());
        waiting.min_by_key(|queue| self.passed[*queue])
    }

    /// Who is next in each queue, those for short answers first.
    pub(crate) fn nexts(&self) -> impl Iterator<Item = (usize, ConnectionId)> {
        let nexts = self.queues.iter().enumerate();
        nexts.filter_map(|(queue, ids)| {
            let next = match self.is_from_end(queue) {
                true => ids.back(),
                false => ids.front(),
            };
            Some((queue, *next?))
        })
    }

    fn is_from_end(&self, queue: usize) -> bool {
        queue == FIRST_GUESS && self.is_lasts_turn
    }

    /// Who is next in a queue waits no more.
    pub(crate) fn take(&mut self, queue: usize) -> Option<ConnectionId> {
        self.turn = self.passed[self.fairest()?];
        let is_from_end = self.is_from_end(queue);
        let ids = &mut self.queues[queue];
        let id = match is_from_end {
            true => ids.pop_back()?,
            false => ids.pop_front()?,
        };
        if ids.is_empty() {
            ids.shrink_to(KEPT);
        }
        self.is_lasts_turn ^= queue == FIRST_GUESS;
        self.taken_from = queue;
        self.waiting -= 1;
        Some(id)
    }

    /// Who was taken last is let through, with an answer of so many bytes.
    pub(crate) fn let_through(&mut self, bytes: usize) {
        let passed = &mut self.passed[self.taken_from];
        *passed = passed.saturating_add(bytes as u64);
    }

    /// Forgets those who do not wait any more if they may be the most: nothing else takes them away
    /// as long as one before them waits. `open` connections there are in all.
    pub(crate) fn forget_gone(&mut self, open: usize, waits: impl Fn(ConnectionId) -> bool) {
        if self.waiting <= 2 * open {
            return;
        }
        for ids in &mut self.queues {
            ids.retain(|id| waits(*id));
        }
        self.waiting = self.queues.iter().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    /// Lets so many through, as if there were no room, whose answers have so many bytes.
    fn pass(waiting: &mut NoRoom, count: usize, bytes: fn(u32) -> usize) -> Vec<ConnectionId> {
        let next = |_| {
            let id = waiting.take(waiting.fairest()?)?;
            waiting.let_through(bytes(id.slot()));
            Some(id)
        };
        (0..count).map_while(next).collect()
    }

    #[test]
    fn short_answers_pass_long_ones_where_there_is_room_and_all_are_let_through() {
        const BYTES: [usize; 4] = [7_000_000, 100_000, 7_100_000, 70_000];
        let mut waiting = NoRoom::new();
        assert_eq!(waiting.fairest(), None);
        for (slot, bytes) in BYTES.iter().enumerate() {
            waiting.push(id(slot as u32), Expected::bytes(*bytes), true);
        }
        let nexts: Vec<ConnectionId> = waiting.nexts().map(|(_, id)| id).collect();
        assert_eq!(nexts, [id(1), id(0)]);
        let passed = pass(&mut waiting, 9, |slot| BYTES[slot as usize]);
        assert_eq!(passed, [1, 0, 3, 2].map(id));
        assert!(waiting.is_empty());
    }

    #[test]
    fn each_length_gets_as_many_bytes_and_what_is_guessed_as_many_again() {
        let mut waiting = NoRoom::new();
        for slot in 0..300 {
            waiting.push(id(slot), Expected::bytes(8 << 20), true);
            waiting.push(id(1000 + slot), Expected::bytes(1 << 20), true);
            let expected = Expected {
                by: KnownBy::Page,
                ..Expected::bytes(8 << 20)
            };
            waiting.push(id(2000 + slot), expected, true);
        }
        let bytes = |slot| match slot {
            1000..2000 => 1 << 20,
            4000.. => 100_000,
            _ => 8 << 20,
        };
        let passed = pass(&mut waiting, 100, bytes);
        let of = |from: u32| {
            let between = |one: &&ConnectionId| (from..from + 300).contains(&one.slot());
            passed.iter().filter(between).count()
        };
        assert_eq!([of(0), of(1000), of(2000)], [10, 80, 10]);
        // Who comes later has saved nothing, and is behind nobody.
        waiting.push(id(4000), Expected::bytes(100_000), true);
        waiting.push(id(4001), Expected::bytes(100_000), true);
        let passed = pass(&mut waiting, 12, bytes);
        assert!(passed.contains(&id(4000)) && passed.contains(&id(4001)));
        assert!(passed.iter().any(|one| one.slot() < 4000));
    }

    #[test]
    fn a_first_guess_and_a_page_that_is_not_known_stand_behind_no_flood_of_guesses() {
        let mut waiting = NoRoom::new();
        let guess = Expected {
            by: KnownBy::Page,
            ..Expected::bytes(80_000)
        };
        for slot in 0..3000 {
            waiting.push(id(slot), guess, true);
            waiting.push(id(3000 + slot), guess, false);
        }
        let [newcomer, page] = [id(6000), id(6001)];
        waiting.push(newcomer, guess, true);
        let unknown = Expected {
            by: KnownBy::Nothing,
            ..Expected::bytes(1 << 20)
        };
        waiting.push(page, unknown, true);
        let passed = pass(&mut waiting, 60, |_| 80_000);
        assert!(passed[..3].contains(&newcomer) && passed[..3].contains(&page));
        // Nor does who came first, or asks for more, wait for ever.
        assert!(passed.contains(&id(0)) && passed.contains(&id(3000)));
        // That one was taken does not count before it is let through.
        for slot in 7000..7002 {
            waiting.push(id(slot), unknown, true);
        }
        let before = waiting.fairest();
        for slot in 7000..7002 {
            assert_eq!(waiting.fairest(), before);
            assert_eq!(waiting.take(before.expect("they wait")), Some(id(slot)));
        }
    }

    #[test]
    fn connections_that_are_gone_do_not_pile_up() {
        let mut waiting = NoRoom::new();
        // One stays in each class; of the others each goes away while it waits.
        for slot in 0..100_000 {
            let expected = Expected::bytes(1 << (17 + slot % 2));
            waiting.push(id(slot), expected, true);
            waiting.forget_gone(3, |one| one.slot() < 2 || one.slot() == slot);
            assert!(waiting.len() <= 6, "{slot}");
        }
        let kept: usize = waiting.queues.iter().map(VecDeque::capacity).sum();
        assert!(kept < 2 * KEPT, "{kept}");
        // Those that are there keep their places.
        assert_eq!(pass(&mut waiting, 2, |_| 1 << 20), [0, 1].map(id));
    }
}
