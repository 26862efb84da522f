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
use rhythm_protocol::scan::{ByteSet, Simd};

/// Bytes at a region's end that a move may spill into.
pub(super) const SLACK: usize = 64;

/// Bytes a move takes at most.
pub(super) const MOVE: usize = 64;

/// Bytes that a move of a shorter text takes: it seldom crosses a line of the cache, which a move
/// of [`MOVE`] bytes nearly always does.
const HALF: usize = MOVE / 2;

/// The bytes that HTML must escape.
const HTML_SPECIAL: ByteSet = ByteSet::new(b"<>&\"'/");

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

    /// Moves the first N of 64 bytes and advances by `length`, for which there is room.
    #[inline(always)]
    fn move_bytes<const N: usize>(&mut self, from: &[u8; MOVE], length: usize) {
        let rest = std::mem::take(&mut self.rest);
        if let (Some(to), Some(from)) = (rest.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
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
            if left <= HALF {
                self.move_bytes::<HALF>(part, left);
                break;
            }
            let now = left.min(MOVE);
            self.move_bytes::<MOVE>(part, now);
            left -= now;
            if left == 0 {
                break;
            }
        }
        true
    }

    /// Appends a text of the arena, perhaps escaped for HTML.
    #[inline(always)]
    pub(super) fn text<S: Simd>(&mut self, s: S, texts: &[u8], view: View, escaped: bool) -> bool {
        let (offset, length) = (view.offset as usize, view.length as usize);
        if length < MOVE
            && self.has_room(length)
            && let Some(bytes) = texts.get(offset..).and_then(<[u8]>::first_chunk::<MOVE>)
        {
            let special = match escaped {
                true => s.in_set(s.load(bytes), &HTML_SPECIAL),
                false => 0,
            };
            if special & ((1 << length) - 1) == 0 {
                match length <= HALF {
                    true => self.move_bytes::<HALF>(bytes, length),
                    false => self.move_bytes::<MOVE>(bytes, length),
                }
                return true;
            }
        }
        let text = &texts[offset..][..length];
        match escaped {
            true => self.escaped(s, text),
            false => self.copy(text),
        }
    }

    /// Appends an integer.
    #[inline(always)]
    pub(super) fn int(&mut self, value: i64) -> bool {
        self.copy(itoa::Buffer::new().format(value).as_bytes())
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
    #[inline(always)]
    fn escaped<S: Simd>(&mut self, s: S, text: &[u8]) -> bool {
        text.chunks(MOVE).all(|stretch| {
            // Bytes that `load` adds to a short stretch are zero, hence not special.
            match s.in_set(s.load(stretch), &HTML_SPECIAL) {
                0 => self.copy(stretch),
                _ => self.escaped_bytes(stretch),
            }
        })
    }

    /// Appends a text escaped for HTML.
    fn escaped_bytes(&mut self, text: &[u8]) -> bool {
        text.iter().all(|byte| {
            let entity = html::entity(*byte).map(str::as_bytes);
            self.copy(entity.unwrap_or(std::slice::from_ref(byte)))
        })
    }
}
