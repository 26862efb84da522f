//! Writing runs: the kernels that put text into the lanes' output regions.
//!
//! Idea: for each lane, copy the text to the lane's cursor and advance it. What makes it fast:
//! - texts are short, so a copy is one unconditional move of 64 bytes (several for longer texts)
//!   and the cursor advances by the text's length; what the move wrote beyond it is overwritten by
//!   what comes next. Every region therefore ends with [`SLACK`] bytes that no text may reach into;
//! - whether a text needs escaping is found by looking at the very 64 bytes being moved; it seldom
//!   does;
//! - the loop over lanes is inside, so the operation and the instructions for it are chosen once a
//!   strip.

use super::strip::{Fate, Lanes, STRIP, unpack};
use crate::cohort::Segment;
use crate::cohort::{Arena, View};
use crate::device::functions;
use crate::device::limits::FOLD_BYTES_MAX;
use crate::program::Escape;
use rhythm_protocol::html;
use rhythm_protocol::scan::{ByteSet, Level, Simd, Task};

/// Bytes at a region's end that a move may spill into.
pub(super) const SLACK: usize = 64;

/// Bytes a move takes.
const MOVE: usize = 64;

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

impl Regions<'_> {
    /// Where the lane's texts must end.
    #[inline]
    fn end(&self, lane: u8) -> usize {
        (usize::from(lane) + 1) * self.stride - SLACK
    }

    /// Copies any text to the lane's run; the lane overflows where there is no room.
    #[inline]
    fn copy(&mut self, lanes: &mut Lanes, lane: u8, text: &[u8]) {
        let at = lanes.cursor[usize::from(lane)] as usize;
        if at + text.len() > self.end(lane) {
            return lanes.end(lane, Fate::Overflowed);
        }
        self.runs[at..at + text.len()].copy_from_slice(text);
        lanes.cursor[usize::from(lane)] += text.len() as u32;
    }

    /// Puts the same short text into every selected lane's run.
    pub(super) fn put_constant(
        &mut self,
        lanes: &mut Lanes,
        selection: &[u8],
        text: &[u8],
        level: Level,
    ) {
        let mut padded = [[0; MOVE]; FOLD_BYTES_MAX / MOVE];
        debug_assert!(text.len() <= FOLD_BYTES_MAX);
        for (padded, part) in padded.iter_mut().zip(text.chunks(MOVE)) {
            padded[..part.len()].copy_from_slice(part);
        }
        level.run(PutConstant {
            regions: self,
            lanes,
            selection,
            moves: &padded[..text.len().div_ceil(MOVE)],
            length: text.len(),
        });
    }

    /// Notes that a fragment comes here in every selected lane's body.
    pub(super) fn put_segment(
        &mut self,
        lanes: &mut Lanes,
        selection: &[u8],
        fragment: u32,
        bytes: usize,
    ) {
        for &lane in selection {
            let own = usize::from(lane);
            let count = lanes.segments[own] as usize;
            if count == self.segment_stride {
                lanes.end(lane, Fate::Overflowed);
                continue;
            }
            self.segments[own * self.segment_stride + count] = Segment {
                run_end: lanes.cursor[own] - (own * self.stride) as u32,
                fragment,
            };
            lanes.segments[own] += 1;
            lanes.fragment_bytes[own] += bytes;
        }
    }

    /// Puts each selected lane's text, a view in `cells`, escaped.
    pub(super) fn put_texts(
        &mut self,
        lanes: &mut Lanes,
        selection: &[u8],
        cells: &[u64; STRIP],
        arena: &Arena,
        escape: Escape,
        level: Level,
    ) {
        match escape {
            Escape::None => level.run(PutTexts {
                regions: self,
                lanes,
                selection,
                cells,
                arena,
                special: None,
            }),
            Escape::Html => level.run(PutTexts {
                regions: self,
                lanes,
                selection,
                cells,
                arena,
                special: Some(HTML_SPECIAL),
            }),
            Escape::Percent | Escape::Header => {
                let mut escaped = Vec::new();
                for &lane in selection {
                    escaped.clear();
                    let text = arena.get(unpack(cells[usize::from(lane)]));
                    functions::escape(escape, text, &mut escaped);
                    self.copy(lanes, lane, &escaped);
                }
            }
        }
    }

    fn escape_bytes(&mut self, lanes: &mut Lanes, lane: u8, text: &[u8]) {
        for byte in text {
            match html::entity(*byte) {
                Some(entity) => self.copy(lanes, lane, entity.as_bytes()),
                None => self.copy(lanes, lane, std::slice::from_ref(byte)),
            }
        }
    }

    /// Puts the text that `print` appends for each selected lane: digits, so nothing to escape.
    pub(super) fn put_printed(
        &mut self,
        lanes: &mut Lanes,
        selection: &[u8],
        cells: &[u64; STRIP],
        print: impl Fn(u64, &mut Vec<u8>),
    ) {
        let mut text = Vec::with_capacity(32);
        for &lane in selection {
            text.clear();
            print(cells[usize::from(lane)], &mut text);
            self.copy(lanes, lane, &text);
        }
    }
}

/// Moves 64 bytes. The target is in bounds by the region's slack; the compiler keeps the check,
/// which always holds, and makes the copy one to four moves.
#[inline(always)]
fn move_bytes(to: &mut [u8], at: usize, from: &[u8; MOVE]) {
    if let Some(Ok(to)) = to.get_mut(at..at + MOVE).map(<&mut [u8; MOVE]>::try_from) {
        *to = *from;
    }
}

/// [`Regions::put_constant`], compiled for each instruction set.
struct PutConstant<'a, 'r> {
    regions: &'a mut Regions<'r>,
    lanes: &'a mut Lanes,
    selection: &'a [u8],
    /// The text, padded to whole moves.
    moves: &'a [[u8; MOVE]],
    length: usize,
}

impl Task for PutConstant<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let PutConstant {
            regions,
            lanes,
            selection,
            moves,
            length,
        } = self;
        for &lane in selection {
            let own = usize::from(lane);
            let at = lanes.cursor[own] as usize;
            if at + length > regions.end(lane) {
                lanes.end(lane, Fate::Overflowed);
                continue;
            }
            for (i, part) in moves.iter().enumerate() {
                move_bytes(regions.runs, at + i * MOVE, part);
            }
            lanes.cursor[own] += length as u32;
        }
    }
}

/// [`Regions::put_texts`], compiled for each instruction set.
struct PutTexts<'a, 'r> {
    regions: &'a mut Regions<'r>,
    lanes: &'a mut Lanes,
    selection: &'a [u8],
    cells: &'a [u64; STRIP],
    arena: &'a Arena,
    /// The bytes to escape; `None` where the texts are safe.
    special: Option<ByteSet>,
}

impl Task for PutTexts<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PutTexts {
            regions,
            lanes,
            selection,
            cells,
            arena,
            special,
        } = self;
        let texts = arena.bytes();
        for &lane in selection {
            let View { offset, length } = unpack(cells[usize::from(lane)]);
            let (offset, length) = (offset as usize, length as usize);
            let at = lanes.cursor[usize::from(lane)] as usize;
            let is_short =
                length < MOVE && offset + MOVE <= texts.len() && at + length <= regions.end(lane);
            if is_short
                && let Some(Ok(bytes)) = texts
                    .get(offset..offset + MOVE)
                    .map(<&[u8; MOVE]>::try_from)
            {
                let mask = special.map_or(0, |set| simd.in_set(simd.load(bytes), &set));
                if mask & ((1 << length) - 1) == 0 {
                    move_bytes(regions.runs, at, bytes);
                    lanes.cursor[usize::from(lane)] += length as u32;
                    continue;
                }
            }
            // Long, at the arena's end, or with something to escape: plain stretches are copied,
            // others byte by byte.
            for stretch in texts[offset..offset + length].chunks(MOVE) {
                // Bytes that `load` adds to a short stretch are zero, hence not special.
                match special {
                    Some(set) if simd.in_set(simd.load(stretch), &set) != 0 => {
                        regions.escape_bytes(lanes, lane, stretch);
                    }
                    _ => regions.copy(lanes, lane, stretch),
                }
            }
        }
    }
}
