//! What became of keys, in the order of its revisions, until all who watch them were told.
//!
//! ```text
//!   push --> | line | line | line | line | line |
//!            ^ who is furthest behind    ^ all the others are told from here on
//! ```
//!
//! Clients that take what they are told are told together, line by line. Who does not is left
//! behind at a place, and goes on from there when he has taken what he got (`Client::behind`). So a
//! line is in memory once, however many are to be told of it, and slow ones cost what the slowest
//! is behind, once.
//!
//! To tell costs no more of a turn than so many looks at lines, one for each who may have to be
//! told: where many watch what changes at once, what is left is told in the next turns, between
//! which nodes hear of each other.

use crate::consensus::keyspace::Change;
use std::collections::VecDeque;

const VERB: &[u8] = b"CHANGED ";
/// Looks at lines in a turn: some 10 ms.
const LOOKS_MAX: usize = 200_000;

/// What is told of a change.
#[derive(Debug)]
pub(super) struct Line {
    text: Box<[u8]>,
    key_len: usize,
    pub(super) revision: u64,
}

impl Line {
    fn new(change: &Change) -> Line {
        let what = if change.is_deleted { "delete" } else { "set" };
        let rest = format!(" {} {what}\r\n", change.revision);
        Line {
            text: [VERB, &change.key, rest.as_bytes()].concat().into(),
            key_len: change.key.len(),
            revision: change.revision,
        }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.text[VERB.len()..][..self.key_len]
    }

    /// Bytes of memory.
    fn size(&self) -> usize {
        size_of::<Line>() + self.text.len()
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// How many are left in this turn.
    looks: usize,
    lines: VecDeque<Line>,
    /// The place of the first line, and of the one that is told next.
    first: u64,
    next: u64,
    bytes: usize,
}

impl Backlog {
    pub(super) fn push(&mut self, change: &Change) {
        let line = Line::new(change);
        self.bytes += line.size();
        self.lines.push_back(line);
    }

    /// Bytes of memory that the lines take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn begin_turn(&mut self) {
        self.looks = LOOKS_MAX;
    }

    /// Whether lines may be looked at in this turn.
    pub(super) fn may_look(&self) -> bool {
        self.looks > 0
    }

    /// The line at a place that was not forgotten is looked at so many times; none: nothing has
    /// become of keys since.
    pub(super) fn look_at(&mut self, place: u64, times: usize) -> Option<&Line> {
        debug_assert!(place >= self.first);
        self.looks = self.looks.saturating_sub(times);
        self.lines.get((place - self.first) as usize)
    }

    /// The place of the line that is to be told next, if it may be looked at in this turn.
    pub(super) fn take_next(&mut self) -> Option<u64> {
        let place = self.next;
        let is_next = self.looks > 0 && !self.is_told();
        self.next += u64::from(is_next);
        is_next.then_some(place)
    }

    /// Whether all was told, or left to those who are behind.
    fn is_told(&self) -> bool {
        self.next - self.first == self.lines.len() as u64
    }

    /// Whether something may be left for the next turn.
    pub(super) fn has_more(&self) -> bool {
        self.looks == 0 || !self.is_told()
    }

    /// Forgets what was told, but for what is there from a place on.
    pub(super) fn forget(&mut self, until: u64) {
        while self.first < self.next.min(until)
            && let Some(line) = self.lines.pop_front()
        {
            self.bytes -= line.size();
            self.first += 1;
        }
        if self.lines.is_empty() {
            self.lines = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_until_they_are_told_and_nobody_is_behind_with_them() {
        let mut backlog = Backlog::default();
        for revision in 1..=4 {
            let key = format!("key-{revision}").into_bytes();
            let is_deleted = revision == 2;
            backlog.push(&Change {
                key,
                revision,
                is_deleted,
            });
        }
        let all = backlog.bytes();
        backlog.forget(u64::MAX);
        assert_eq!(backlog.bytes(), all, "none was told");
        assert_eq!(backlog.take_next(), None, "no turn has begun");
        backlog.begin_turn();
        for place in 0..3 {
            assert_eq!(backlog.take_next(), Some(place));
            let line = backlog.look_at(place, 1).unwrap();
            assert_eq!(line.revision, place + 1);
        }
        assert!(backlog.has_more());
        backlog.forget(1);
        let line = backlog.look_at(1, 1).unwrap();
        let told = &b"CHANGED key-2 2 delete\r\n"[..];
        assert_eq!((line.key(), line.text()), (&b"key-2"[..], told));
        backlog.forget(u64::MAX);
        let line = backlog.look_at(3, 1).unwrap();
        assert_eq!(line.text(), b"CHANGED key-4 4 set\r\n");
        assert_eq!((backlog.take_next(), backlog.take_next()), (Some(3), None));
        assert!(!backlog.has_more() && backlog.look_at(4, LOOKS_MAX).is_none());
        assert!(backlog.has_more() && !backlog.may_look());
        backlog.forget(u64::MAX);
        assert_eq!((backlog.bytes(), backlog.lines.capacity()), (0, 0));
    }
}
