//! The arena that a cohort's texts live in, and views into it.

use super::budget::{Lease, Share};
use super::error::LaneError;
use super::need::Need;
use rhythm_protocol::scan::html_special;
use std::ops::Range;
use std::rc::Rc;

/// A text in a cohort's arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct View {
    /// Where it starts, in bytes.
    pub offset: u32,
    /// Its length, in bytes.
    pub length: u32,
}

/// The texts of a cohort, one after the other. Append-only until reset.
///
/// Whoever appends on behalf of a lane asks [`Arena::reserve`] first and fails the lane where
/// there is none. What fills it, for a cohort of n lanes: the program's texts once, and for each
/// lane its parameters (its request's size, times how often a byte of it is stored, and what
/// stands for those that it does not have), what its stages make (at most
/// [`LaneLimits::text_bytes_max`](crate::device::LaneLimits::text_bytes_max) a stage, of which what
/// is appended in loops takes four times its length at most) and the
/// answers of backends: their texts, and 8 bytes for each cell of a list, whatever it holds. The
/// cells lie in columns, but count here, so that one bound holds for everything that an answer
/// makes a cohort keep. A bound below n times the most of all these trusts that few lanes take the
/// most.
#[derive(Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    /// See [`Arena::plain`].
    plain: Range<u32>,
    /// Bytes that count against the bound, but lie elsewhere.
    elsewhere: usize,
    bytes_max: usize,
    lease: Lease,
    need: Need,
}

impl Default for Arena {
    /// One as large as views can reach.
    fn default() -> Self {
        Arena::new(Arena::BYTES_MAX)
    }
}

impl Arena {
    /// No arena grows beyond this, so that every offset fits a view.
    pub const BYTES_MAX: usize = 1 << 31;

    /// An empty arena of at most so many bytes, and at most [`Arena::BYTES_MAX`].
    pub fn new(bytes_max: usize) -> Arena {
        Arena {
            bytes: Vec::new(),
            plain: 0..0,
            elsewhere: 0,
            bytes_max: bytes_max.min(Arena::BYTES_MAX),
            lease: Lease::default(),
            need: Need::default(),
        }
    }

    /// The same, of a cohort's share.
    pub fn of_share(share: &Rc<Share>, bytes_max: usize) -> Arena {
        let arena = Arena::new(bytes_max);
        Arena {
            lease: Lease::new(share, arena.bytes_max),
            ..arena
        }
    }

    /// Puts the program's texts at the start of an empty one. They always fit.
    pub(super) fn begin(&mut self, texts: &[u8]) {
        debug_assert!(self.bytes.is_empty() && self.elsewhere == 0);
        self.bytes.extend_from_slice(texts);
    }

    /// Empties it. Memory that was not needed of late is given back; beside it, of what it counts,
    /// so many bytes are kept.
    pub fn rest(&mut self, kept_elsewhere: usize) {
        self.need.needed(self.bytes.len());
        self.bytes.clear();
        self.plain = 0..0;
        self.elsewhere = 0;
        self.need.shrink(&mut self.bytes);
        self.lease.keep(self.bytes.capacity() + kept_elsewhere);
    }

    /// Keeps the first `length` bytes. Nothing has a view of what lies behind.
    pub(super) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.plain.end = self.plain.end.min(length as u32);
        self.plain.start = self.plain.start.min(self.plain.end);
    }

    /// Gives all memory of an empty one back.
    pub fn forget(&mut self) {
        debug_assert!(self.bytes.is_empty(), "what is in use is not forgotten");
        self.bytes = Vec::new();
        self.lease.keep(0);
    }

    /// Its bound, in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Whether `more` bytes can be appended or charged. Where that is so, they are its own.
    #[inline]
    pub fn reserve(&self, more: usize) -> bool {
        self.could_hold(more) && self.lease.covers(self.used() + more)
    }

    /// Whether `more` bytes could be appended if its cohort were alone.
    #[inline]
    pub fn could_hold(&self, more: usize) -> bool {
        more <= (self.bytes_max).saturating_sub(self.used())
    }

    /// Why a lane fails for which there is no room for so many bytes.
    pub(super) fn refusal(&self, more: usize) -> LaneError {
        match self.could_hold(more) {
            true => LaneError::MemoryShort,
            false => LaneError::ArenaFull,
        }
    }

    /// Bytes that are in use.
    pub fn used(&self) -> usize {
        self.bytes.len() + self.elsewhere
    }

    /// Whether there is memory for so many bytes in all, as far as it can hold them. It stays there
    /// for it.
    pub fn expects(&self, bytes: usize) -> bool {
        self.lease.covers(bytes.min(self.bytes_max))
    }

    /// Whether it had no room, but that a cohort that is alone has, since this was last asked.
    pub(crate) fn take_short(&self) -> bool {
        self.lease.take_short()
    }

    /// Counts bytes that lie elsewhere, for which there is room.
    #[inline]
    pub(super) fn charge(&mut self, bytes: usize) {
        assert!(self.reserve(bytes), "whoever charges asks for room before");
        self.elsewhere += bytes;
    }

    /// Takes back what was charged.
    pub(super) fn give_back(&mut self, bytes: usize) {
        assert!(bytes <= self.elsewhere, "what was charged is given back");
        self.elsewhere -= bytes;
    }

    /// Appends a text and gives its view.
    ///
    /// # Panics
    /// If there is no room for it: the caller's mistake.
    #[inline]
    pub fn push(&mut self, text: &[u8]) -> View {
        assert!(
            self.reserve(text.len()),
            "whoever appends asks for room before"
        );
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        View {
            offset,
            length: text.len() as u32,
        }
    }

    /// [`Arena::push`] for texts that have nothing to escape for HTML.
    pub(super) fn push_plain(&mut self, texts: &[u8]) -> View {
        debug_assert_eq!(html_special(texts), None, "it was looked for");
        let view = self.push(texts);
        // Of those that stand one behind the other all are known, of others the last ones.
        if view.offset != self.plain.end {
            self.plain.start = view.offset;
        }
        self.plain.end = view.offset + view.length;
        view
    }

    /// Where texts lie of which it is known that they have nothing to escape for HTML. No text
    /// begins here and ends elsewhere.
    #[inline]
    pub fn plain(&self) -> Range<u32> {
        self.plain.clone()
    }

    /// Appends what `write` appends and gives its view.
    ///
    /// # Panics
    /// If there was no room for it: the caller's mistake.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> View {
        let offset = self.bytes.len();
        write(&mut self.bytes);
        assert!(
            self.bytes.len() + self.elsewhere <= self.bytes_max,
            "whoever appends asks for room before"
        );
        View {
            offset: offset as u32,
            length: (self.bytes.len() - offset) as u32,
        }
    }

    /// Appends texts to one that is empty or was made by this; `None` where there is no room.
    ///
    /// It has room behind it, by its length alone, so it moves as seldom as it doubles; a view of
    /// it that was there before stays as it is.
    pub(crate) fn append(
        &mut self,
        text: View,
        parts: impl Iterator<Item = View> + Clone,
    ) -> Option<View> {
        let more: usize = parts.clone().map(|part| part.length as usize).sum();
        let [length, longer] = [text.length as usize, text.length as usize + more];
        let room = room_of(longer);
        let start = if room_of(length) == room {
            text.offset as usize
        } else {
            if !self.reserve(room) {
                return None;
            }
            let start = self.bytes.len();
            let old = text.offset as usize..text.offset as usize + length;
            self.bytes.extend_from_within(old);
            self.bytes.resize(start + room, 0);
            start
        };
        let mut end = start + length;
        for part in parts {
            let from = part.offset as usize..(part.offset + part.length) as usize;
            self.bytes.copy_within(from, end);
            end += part.length as usize;
        }
        Some(View {
            offset: start as u32,
            length: longer as u32,
        })
    }

    /// The text of a view into this arena.
    #[inline]
    pub fn get(&self, view: View) -> &[u8] {
        &self.bytes[view.offset as usize..][..view.length as usize]
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that it has of the system.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The room that a text takes to which others are appended.
fn room_of(length: usize) -> usize {
    match length {
        0 => 0,
        length => length.next_power_of_two().max(APPENDED_MIN),
    }
}

/// The least of it, so that short ones seldom move.
const APPENDED_MIN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_stands_behind_and_costs_its_length() {
        let mut arena = Arena::new(2000);
        let [word, other] = [&b"abc"[..], b"-"].map(|text| arena.push(text));
        let mut text = View::default();
        let mut before = Vec::new();
        for turn in 0..70 {
            text = (arena.append(text, [word, other].into_iter())).expect("there is room");
            assert_eq!(text.length, (turn + 1) * 4);
            before.push(text);
            // Others lie behind it.
            arena.push(b"x");
        }
        for (turn, text) in before.iter().enumerate() {
            assert_eq!(arena.get(*text), b"abc-".repeat(turn + 1));
        }
        // 32, 64, 128, 256 and 512, and what lies between them.
        assert_eq!(arena.used(), 4 + 70 + 992);
        assert_eq!(arena.append(text, [text; 2].into_iter()), None);
        // One that is empty has no room, wherever it lies.
        let empty = View {
            offset: 1,
            length: 0,
        };
        assert_eq!(arena.append(empty, [empty].into_iter()), Some(empty));
        assert_eq!(arena.get(word), b"abc");
    }

    #[test]
    fn what_is_plain_is_known_as_far_as_it_stands_together() {
        let mut arena = Arena::default();
        assert!(arena.plain().is_empty());
        arena.push(b"<a>");
        arena.push_plain(b"12");
        arena.push_plain(b"34");
        assert_eq!(arena.plain(), 3..7);
        arena.push(b"5");
        assert_eq!(arena.plain(), 3..7);
        arena.push_plain(b"67");
        assert_eq!(arena.plain(), 8..10);
        arena.rest(0);
        assert!(arena.plain().is_empty());
    }
}
