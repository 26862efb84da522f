//! Writing runs: the kernel that appends to the lanes' output regions.
//!
//! Idea: what follows one another in a program is gathered to a list of [`Pieces`], and then each
//! lane gets all of them at once, so that its cursor stays in a register and its region in the
//! first-level cache. What makes it fast beside that:
//! - texts are short, so a copy is one unconditional move of 32 or 64 bytes (several for longer
//!   texts) and the cursor advances by the text's length; what the move wrote beyond it is
//!   overwritten by what comes next. Every region therefore ends with [`SLACK`] bytes that no text
//!   may reach into;
//! - whether a text needs escaping is found by looking at the very 64 bytes being moved; it seldom
//!   does;
//! - the loop over lanes is inside, so the instructions are chosen once a strip.

use super::strip::{Fate, Lanes, Registers, unpack};
use crate::cohort::{Arena, Segment, View};
use crate::device::limits::FOLD_BYTES_MAX;
use crate::program::{FragmentId, Register};
use crate::session::prefetch::prefetch;
use rhythm_protocol::html;
use rhythm_protocol::scan::{ByteSet, Level, Simd, Task};

/// Bytes at a region's end that a move may spill into.
pub(super) const SLACK: usize = 64;

/// Bytes a move takes at most.
const MOVE: usize = 64;

/// Bytes that a move of a shorter text takes: it seldom crosses a line of the cache, which a move
/// of [`MOVE`] bytes nearly always does.
const HALF: usize = MOVE / 2;

/// How many lanes ahead a region's next lines are fetched.
const AHEAD: usize = 3;

/// The bytes that HTML must escape.
const HTML_SPECIAL: ByteSet = ByteSet::new(b"<>&\"'/");

/// What is appended for every selected lane.
enum Piece {
    /// The same text for all.
    Constant {
        /// Where its moves begin in [`Pieces::moves`].
        first_move: usize,
        length: usize,
    },
    /// The same text for all, which stays where it is and is noted as a segment.
    Fragment { fragment: FragmentId, length: usize },
    /// The lane's own text.
    Text {
        from: Register,
        /// Whether it is escaped for HTML.
        escaped: bool,
    },
    /// The lane's own integer.
    Int { from: Register },
}

/// What is to be appended, in order.
#[derive(Default)]
pub(super) struct Pieces {
    list: Vec<Piece>,
    /// Constant texts, padded to whole moves.
    moves: Vec<[u8; MOVE]>,
}

impl Pieces {
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.moves.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a register is among what is to be appended.
    pub(super) fn read(&self, register: Register) -> bool {
        self.list.iter().any(|piece| match piece {
            Piece::Text { from, .. } | Piece::Int { from } => *from == register,
            Piece::Constant { .. } | Piece::Fragment { .. } => false,
        })
    }

    pub(super) fn push_fragment(&mut self, fragment: FragmentId, text: &[u8]) {
        let length = text.len();
        if length > FOLD_BYTES_MAX {
            return self.list.push(Piece::Fragment { fragment, length });
        }
        let first_move = self.moves.len();
        for part in text.chunks(MOVE) {
            let mut padded = [0; MOVE];
            padded[..part.len()].copy_from_slice(part);
            self.moves.push(padded);
        }
        self.list.push(Piece::Constant { first_move, length });
    }

    pub(super) fn push_text(&mut self, from: Register, escaped: bool) {
        self.list.push(Piece::Text { from, escaped });
    }

    pub(super) fn push_int(&mut self, from: Register) {
        self.list.push(Piece::Int { from });
    }
}

/// The output regions of a strip.
pub(super) struct Regions<'a> {
    /// `stride` bytes a lane.
    pub(super) runs: &'a mut [u8],
    pub(super) stride: usize,
    /// `segment_stride` segments a lane.
    pub(super) segments: &'a mut [Segment],
    pub(super) segment_stride: usize,
}

impl Regions<'_> {
    /// Where the lane's texts must end.
    #[inline]
    fn end(&self, lane: u8) -> usize {
        (usize::from(lane) + 1) * self.stride - SLACK
    }

    /// Appends any text to a lane's run; the lane overflows where there is no room.
    pub(super) fn append(&mut self, lanes: &mut Lanes, lane: u8, text: &[u8]) {
        let at = lanes.cursor[usize::from(lane)] as usize;
        match copy(self.runs, at, self.end(lane), text) {
            Some(end) => lanes.cursor[usize::from(lane)] = end as u32,
            None => lanes.end(lane, Fate::Overflowed),
        }
    }

    /// Appends all pieces to every selected lane's run; a lane overflows where there is no room.
    pub(super) fn append_pieces(
        &mut self,
        lanes: &mut Lanes,
        selection: &[u8],
        pieces: &Pieces,
        registers: &Registers,
        arena: &Arena,
        level: Level,
    ) {
        level.run(Append {
            regions: self,
            lanes,
            selection,
            pieces,
            registers,
            texts: arena.bytes(),
        });
    }
}

/// Copies a text to `at`, if it ends before `end`, and gives where it ends.
#[inline]
fn copy(runs: &mut [u8], at: usize, end: usize, text: &[u8]) -> Option<usize> {
    let after = at + text.len();
    if after > end {
        return None;
    }
    runs[at..after].copy_from_slice(text);
    Some(after)
}

/// Moves the first `length` of 64 bytes, and what follows them. The target is in bounds by the
/// region's slack; the compiler keeps the check, which always holds, and makes the copy one to four
/// moves.
#[inline(always)]
fn move_bytes(to: &mut [u8], at: usize, from: &[u8; MOVE], length: usize) {
    if length <= HALF {
        move_whole::<HALF>(to, at, from);
    } else {
        move_whole::<MOVE>(to, at, from);
    }
}

#[inline(always)]
fn move_whole<const N: usize>(to: &mut [u8], at: usize, from: &[u8; MOVE]) {
    if let (Some(to), Some(from)) = (
        to.get_mut(at..).and_then(|to| to.first_chunk_mut::<N>()),
        from.first_chunk::<N>(),
    ) {
        *to = *from;
    }
}

/// [`Regions::append_pieces`], compiled for each instruction set.
struct Append<'a, 'r> {
    regions: &'a mut Regions<'r>,
    lanes: &'a mut Lanes,
    selection: &'a [u8],
    pieces: &'a Pieces,
    registers: &'a Registers,
    /// The arena.
    texts: &'a [u8],
}

impl Task for Append<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        for (i, &lane) in self.selection.iter().enumerate() {
            if let Some(later) = self.selection.get(i + AHEAD) {
                let at = self.lanes.cursor[usize::from(*later)] as usize;
                if let Some(next) = self.regions.runs.get(at..at + 2 * MOVE) {
                    prefetch(&next[0]);
                    prefetch(&next[MOVE]);
                }
            }
            let start = self.lanes.cursor[usize::from(lane)] as usize;
            let end = self.regions.end(lane);
            let mut at = Some(start);
            for piece in &self.pieces.list {
                let Some(before) = at else { break };
                at = self.piece(s, piece, lane, before, end);
            }
            match at {
                Some(at) => self.lanes.cursor[usize::from(lane)] = at as u32,
                None => self.lanes.end(lane, Fate::Overflowed),
            }
        }
    }
}

impl Append<'_, '_> {
    /// Appends a piece at `at` and gives where it ends; `None` where that would be past `end`.
    #[inline(always)]
    fn piece<S: Simd>(
        &mut self,
        s: S,
        piece: &Piece,
        lane: u8,
        at: usize,
        end: usize,
    ) -> Option<usize> {
        let own = usize::from(lane);
        let runs = &mut *self.regions.runs;
        match *piece {
            Piece::Constant { first_move, length } => {
                if at + length > end {
                    return None;
                }
                let parts = &self.pieces.moves[first_move..][..length.div_ceil(MOVE)];
                for (i, part) in parts.iter().enumerate() {
                    move_bytes(runs, at + i * MOVE, part, length - i * MOVE);
                }
                Some(at + length)
            }
            Piece::Fragment { fragment, length } => {
                let count = self.lanes.segments[own] as usize;
                if count == self.regions.segment_stride {
                    return None;
                }
                self.regions.segments[own * self.regions.segment_stride + count] = Segment {
                    run_end: (at - own * self.regions.stride) as u32,
                    fragment,
                };
                self.lanes.segments[own] += 1;
                self.lanes.fragment_bytes[own] += length;
                Some(at)
            }
            Piece::Text { from, escaped } => {
                let View { offset, length } = unpack(self.registers.column(from)[own]);
                let (offset, length) = (offset as usize, length as usize);
                if length < MOVE
                    && at + length <= end
                    && let Some(Ok(bytes)) = (self.texts)
                        .get(offset..offset + MOVE)
                        .map(<&[u8; MOVE]>::try_from)
                {
                    let special = match escaped {
                        true => s.in_set(s.load(bytes), &HTML_SPECIAL),
                        false => 0,
                    };
                    if special & ((1 << length) - 1) == 0 {
                        move_bytes(runs, at, bytes, length);
                        return Some(at + length);
                    }
                }
                let text = &self.texts[offset..offset + length];
                append_stretches(s, runs, at, end, text, escaped)
            }
            Piece::Int { from } => {
                let value = self.registers.column(from)[own] as i64;
                copy(runs, at, end, itoa::Buffer::new().format(value).as_bytes())
            }
        }
    }
}

/// Appends a text that is long, at the arena's end, or has something to escape: plain stretches are
/// copied, others byte by byte.
#[inline(always)]
fn append_stretches<S: Simd>(
    s: S,
    runs: &mut [u8],
    mut at: usize,
    end: usize,
    text: &[u8],
    escaped: bool,
) -> Option<usize> {
    for stretch in text.chunks(MOVE) {
        // Bytes that `load` adds to a short stretch are zero, hence not special.
        at = match escaped && s.in_set(s.load(stretch), &HTML_SPECIAL) != 0 {
            true => append_escaped(runs, at, end, stretch)?,
            false => copy(runs, at, end, stretch)?,
        };
    }
    Some(at)
}

/// Appends a text escaped for HTML.
fn append_escaped(runs: &mut [u8], mut at: usize, end: usize, text: &[u8]) -> Option<usize> {
    for byte in text {
        let entity = html::entity(*byte).map(str::as_bytes);
        at = copy(runs, at, end, entity.unwrap_or(std::slice::from_ref(byte)))?;
    }
    Some(at)
}
