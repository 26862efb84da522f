//! Writing runs: appending to a lane's output region.
//!
//! What makes it fast:
//! - texts are short, so a copy is one unconditional move of 32 or 64 bytes (several for longer
//!   texts) and the cursor advances by the text's length; what the move wrote beyond it is
//!   overwritten by what comes next. Every region therefore ends with [`SLACK`] bytes that no text
//!   may reach into;
//! - whether a text needs escaping is found by looking at the very bytes being moved; it seldom
//!   does.

use super::strip::unpack;
use super::texts::print;
use crate::cohort::{Segment, View};
use crate::device::functions;
use crate::program::{Escape, Type};
use rhythm_protocol::html;
use rhythm_protocol::scan::{DistinctSet, Simd};

/// Bytes at a region's end that a move may spill into.
pub(super) const SLACK: usize = 64;

/// Bytes a move takes at most.
pub(super) const MOVE: usize = 64;

/// Bytes that a move of a shorter text takes: it seldom crosses a line of the cache, which a move
/// of [`MOVE`] bytes nearly always does.
const HALF: usize = MOVE / 2;

/// The bytes that HTML must escape.
const HTML_SPECIAL: DistinctSet = DistinctSet::new(b"<>&\"'/");

/// The output regions of a strip.
pub(super) struct Regions<'a> {
    /// `stride` bytes a lane.
    pub(super) runs: &'a mut [u8],
    pub(super) stride: usize,
    /// `segment_stride` segments a lane.
    pub(super) segments: &'a mut [Segment],
    pub(super) segment_stride: usize,
}

/// What is left of a lane's output region. Everything appended leaves [`SLACK`] bytes of it; where
/// there is no such room, nothing is appended and the answer is false.
pub(super) struct Out<'a> {
    rest: &'a mut [u8],
}

impl<'a> Out<'a> {
    pub(super) fn new(rest: &'a mut [u8]) -> Out<'a> {
        Out { rest }
    }

    /// How much is left, the slack included.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.rest.len()
    }

    #[inline(always)]
    fn has_room(&self, length: usize) -> bool {
        self.rest.len() >= length + SLACK
    }

    /// Moves all of `from` and advances by `length`, for which there is room.
    #[inline(always)]
    fn move_bytes<const N: usize>(&mut self, from: &[u8; N], length: usize) {
        let rest = std::mem::take(&mut self.rest);
        if let Some(to) = rest.first_chunk_mut() {
            *to = *from;
        }
        self.rest = &mut rest[length..];
    }

    /// Appends the first `length` bytes of whole moves.
    #[inline(always)]
    pub(super) fn constant(&mut self, parts: &[[u8; MOVE]], length: usize) -> bool {
        if !self.has_room(length) {
            return false;
        }
        let mut left = length;
        for part in parts {
            match part.first_chunk::<HALF>() {
                Some(half) if left <= HALF => {
                    self.move_bytes(half, left);
                    break;
                }
                _ if left <= MOVE => {
                    self.move_bytes(part, left);
                    break;
                }
                _ => self.move_bytes(part, MOVE),
            }
            left -= MOVE;
        }
        true
    }

    /// Appends a text of the arena, perhaps escaped for HTML.
    #[inline(always)]
    pub(super) fn text<S: Simd>(&mut self, s: S, texts: &[u8], view: View, escaped: bool) -> bool {
        let (offset, length) = (view.offset as usize, view.length as usize);
        let from = texts.get(offset..).unwrap_or_default();
        if length <= HALF {
            if self.has_room(length)
                && let Some(half) = from.first_chunk::<HALF>()
                && !(escaped && has_special(s, half, length))
            {
                self.move_bytes(half, length);
                return true;
            }
        } else if length <= MOVE
            && self.has_room(length)
            && let Some(whole) = from.first_chunk::<MOVE>()
            && let ([half, rest], _) = whole.as_chunks::<HALF>()
            && !(escaped && (has_special(s, half, HALF) || has_special(s, rest, length - HALF)))
        {
            self.move_bytes(whole, length);
            return true;
        }
        self.any_text(s, &texts[offset..][..length], escaped)
    }

    /// Appends an integer.
    #[inline]
    pub(super) fn int(&mut self, value: i64) -> bool {
        // Its digits end in the middle, so that a move can begin at any of them.
        let mut digits = [0; 2 * HALF];
        let mut at = HALF;
        let mut left = value.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        let length = HALF - at;
        match digits[at..].first_chunk::<HALF>() {
            Some(bytes) if self.has_room(length) => {
                self.move_bytes(bytes, length);
                true
            }
            _ => false,
        }
    }

    /// Appends what is seldom appended.
    #[cold]
    pub(super) fn print(&mut self, texts: &[u8], escape: Escape, kind: Type, cell: u64) -> bool {
        let mut made = Vec::with_capacity(32);
        match kind {
            Type::Text => {
                let View { offset, length } = unpack(cell);
                let text = &texts[offset as usize..][..length as usize];
                functions::escape(escape, text, &mut made);
            }
            _ => print(kind, cell, &mut made),
        }
        self.copy(&made)
    }

    /// Appends any text.
    #[inline]
    fn copy(&mut self, text: &[u8]) -> bool {
        if !self.has_room(text.len()) {
            return false;
        }
        let (to, rest) = std::mem::take(&mut self.rest).split_at_mut(text.len());
        to.copy_from_slice(text);
        self.rest = rest;
        true
    }

    /// Appends a text that is long, at the arena's end, or has something to escape: plain stretches
    /// are copied, others byte by byte.
    fn any_text<S: Simd>(&mut self, s: S, text: &[u8], escaped: bool) -> bool {
        if !escaped {
            return self.copy(text);
        }
        let (stretches, rest) = text.as_chunks::<HALF>();
        stretches
            .iter()
            .all(|stretch| match s.in_distinct(stretch, &HTML_SPECIAL) {
                0 => self.copy(stretch),
                _ => self.escaped(stretch),
            })
            && self.escaped(rest)
    }

    /// Appends a text escaped for HTML.
    fn escaped(&mut self, text: &[u8]) -> bool {
        text.iter().all(|byte| {
            let entity = html::entity(*byte).map(str::as_bytes);
            self.copy(entity.unwrap_or(std::slice::from_ref(byte)))
        })
    }
}

/// Whether there is something to escape in the first `length` bytes.
#[inline(always)]
fn has_special<S: Simd>(s: S, bytes: &[u8; HALF], length: usize) -> bool {
    let others = !0 << length;
    u64::from(s.in_distinct(bytes, &HTML_SPECIAL)) & !others != 0
}
