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
use crate::cohort::{Arena, Segment, View};
use crate::device::functions;
use crate::program::{Escape, Register, Type};
use rhythm_protocol::html;
use rhythm_protocol::scan::{DistinctSet, Simd, prefetch_at};

/// Bytes at a region's end that a move may spill into.
pub(super) const SLACK: usize = 64;

/// Bytes a move takes at most.
pub(super) const MOVE: usize = 64;

/// Bytes that a move of a shorter text takes: it seldom crosses a line of the cache, which a move
/// of [`MOVE`] bytes nearly always does.
pub(super) const HALF: usize = MOVE / 2;

/// Bytes of a line of the caches.
const LINE: usize = 64;

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

/// A text to append, behind a constant of at most [`MOVE`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    /// Padded.
    pub(super) constant: [u8; MOVE],
    /// The constant's length.
    pub(super) length: u32,
    /// Where the text is, or is put for those who read it later (if nobody does, a register that
    /// is nobody's).
    pub(super) register: Register,
    /// Whether the text is escaped for HTML.
    pub(super) escaped: bool,
    /// Which column of texts it is loaded from, if it is.
    pub(super) column: u16,
}

/// The texts of a cohort, to append from.
#[derive(Clone, Copy)]
pub(super) struct Texts<'a> {
    pub(super) bytes: &'a [u8],
    /// Where those lie that have nothing to escape, and how many bytes of them.
    plain: (u32, u32),
}

impl<'a> Texts<'a> {
    #[inline(always)]
    pub(super) fn of(arena: &'a Arena) -> Texts<'a> {
        let plain = arena.plain();
        Texts {
            bytes: arena.bytes(),
            plain: (plain.start, plain.end - plain.start),
        }
    }

    /// Where the text of a column's item is. Each column has its texts one behind the other, but
    /// the processor sees one load that goes from column to column: what is next in each has to
    /// be asked for.
    #[inline(always)]
    pub(super) fn view(self, column: &[View], item: usize) -> View {
        let view = column[item];
        prefetch_at(column, item + LINE / size_of::<View>());
        prefetch_at(self.bytes, view.offset as usize + LINE);
        view
    }

    /// Whether it is known of a text, without a look at it, that it has nothing to escape. What
    /// begins among such texts is one of them.
    #[inline(always)]
    fn is_plain(self, view: View) -> bool {
        view.offset.wrapping_sub(self.plain.0) < self.plain.1
    }
}

/// What is left of a lane's output region. Everything appended leaves [`SLACK`] bytes of it; where
/// there is no such room, nothing is appended and the answer is false.
pub(super) struct Out<'a> {
    pub(super) rest: &'a mut [u8],
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
        move_to(rest, from);
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

    /// Appends the first `length` bytes of half a move.
    #[inline(always)]
    pub(super) fn short(&mut self, text: &[u8; HALF], length: usize) -> bool {
        let has_room = self.has_room(length);
        if has_room {
            self.move_bytes(text, length);
        }
        has_room
    }

    /// Appends constants and texts, one cell after the other, `view` saying where a cell's text is.
    #[inline(always)]
    pub(super) fn cells<'c, S: Simd>(
        &mut self,
        s: S,
        texts: Texts<'_>,
        cells: &'c [Appended],
        mut view: impl FnMut(&'c Appended) -> View,
    ) -> bool {
        let mut cells = cells.iter();
        loop {
            // By itself, so that the cursor stays in registers.
            let mut rest = std::mem::take(&mut self.rest);
            let other = loop {
                let Some(cell) = cells.next() else {
                    self.rest = rest;
                    return true;
                };
                let view = view(cell);
                match short_cell(
                    s,
                    rest,
                    texts,
                    (&cell.constant, cell.length),
                    view,
                    cell.escaped,
                ) {
                    Ok(left) => rest = left,
                    Err(whole) => {
                        rest = whole;
                        break (cell, view);
                    }
                }
            };
            self.rest = rest;
            let (cell, view) = other;
            if !self.cell(s, texts, (&cell.constant, cell.length), view, cell.escaped) {
                return false;
            }
        }
    }

    /// Appends the first bytes of a constant, and any text behind it.
    #[inline(always)]
    pub(super) fn cell<S: Simd>(
        &mut self,
        s: S,
        texts: Texts<'_>,
        (constant, before): (&[u8; MOVE], u32),
        view: View,
        escaped: bool,
    ) -> bool {
        self.constant(std::slice::from_ref(constant), before as usize)
            && self.any_text(s, texts.bytes, view, escaped)
    }

    /// Appends a text of the arena, perhaps escaped for HTML.
    #[inline(always)]
    pub(super) fn text<S: Simd>(
        &mut self,
        s: S,
        texts: Texts<'_>,
        view: View,
        escaped: bool,
    ) -> bool {
        let (offset, length) = (view.offset as usize, view.length as usize);
        if length <= HALF
            && self.has_room(length)
            && let Some(from) = texts.bytes.get(offset..offset + HALF)
            && let Some(from) = from.first_chunk::<HALF>()
            && !(escaped && has_special(s, from, length))
        {
            self.move_bytes(from, length);
            return true;
        }
        self.any_text(s, texts.bytes, view, escaped)
    }

    /// [`Out::text`] for any: what is plain is moved in stretches, what is not byte by byte.
    #[inline(always)]
    fn any_text<S: Simd>(&mut self, s: S, texts: &[u8], view: View, escaped: bool) -> bool {
        let mut text = &texts[view.offset as usize..];
        let mut left = view.length as usize;
        if !escaped {
            return self.copy(&text[..left]);
        }
        while left > 0 {
            let padded;
            let stretch = match text.first_chunk::<HALF>() {
                Some(stretch) => stretch,
                None => {
                    let mut last = [0; HALF];
                    last[..text.len()].copy_from_slice(text);
                    padded = last;
                    &padded
                }
            };
            let others = !0u64 << left.min(HALF);
            let special = u64::from(s.in_distinct(stretch, &HTML_SPECIAL)) | others;
            let plain = special.trailing_zeros() as usize;
            if !self.has_room(plain) {
                return false;
            }
            self.move_bytes(stretch, plain);
            (text, left) = (&text[plain..], left - plain);
            if plain < HALF && left > 0 {
                let entity = html::entity(text[0]).unwrap_or_default().as_bytes();
                if !self.copy(entity) {
                    return false;
                }
                (text, left) = (&text[1..], left - 1);
            }
        }
        true
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

    /// Appends what is seldom appended, and is `made` first.
    #[cold]
    pub(super) fn print(
        &mut self,
        texts: &[u8],
        escape: Escape,
        kind: Type,
        cell: u64,
        made: &mut Vec<u8>,
    ) -> bool {
        made.clear();
        match kind {
            Type::Text => {
                let View { offset, length } = unpack(cell);
                let text = &texts[offset as usize..][..length as usize];
                functions::escape(escape, text, made);
            }
            _ => print(kind, cell, made),
        }
        self.copy(made)
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
}

/// Appends the first bytes of a constant, and a short text behind it that has nothing to escape,
/// and gives what is left.
///
/// # Errors
/// All of it: the text is another, or there is no room.
#[inline(always)]
pub(super) fn short_cell<'r, S: Simd>(
    s: S,
    rest: &'r mut [u8],
    texts: Texts<'_>,
    (constant, before): (&[u8; MOVE], u32),
    view: View,
    escaped: bool,
) -> Result<&'r mut [u8], &'r mut [u8]> {
    let (before, length) = (before as usize, view.length as usize);
    let offset = view.offset as usize;
    if length > HALF || rest.len() < before + length + SLACK {
        return Err(rest);
    }
    let from = texts.bytes.get(offset..offset + HALF);
    let Some(from) = from.and_then(<[u8]>::first_chunk::<HALF>) else {
        return Err(rest);
    };
    // No look at a text hurries it from memory where that is not needed.
    if escaped && !texts.is_plain(view) && has_special(s, from, length) {
        return Err(rest);
    }
    let ([first, second], _) = constant.as_chunks::<HALF>() else {
        unreachable!("a move has two halves");
    };
    move_to(rest, first);
    if before > HALF {
        move_to(&mut rest[HALF..], second);
    }
    let rest = &mut rest[before..];
    move_to(rest, from);
    Ok(&mut rest[length..])
}

/// Appends the first bytes of a constant, for which there is room, and gives what is left.
#[inline(always)]
pub(super) fn short_constant<'r, const N: usize>(
    rest: &'r mut [u8],
    constant: &[u8; N],
    length: u32,
) -> Result<&'r mut [u8], &'r mut [u8]> {
    if rest.len() < length as usize + SLACK {
        return Err(rest);
    }
    move_to(rest, constant);
    Ok(&mut rest[length as usize..])
}

/// Whether there is something to escape in the first `length` bytes.
#[inline(always)]
fn has_special<S: Simd>(s: S, bytes: &[u8; HALF], length: usize) -> bool {
    let others = !0 << length;
    u64::from(s.in_distinct(bytes, &HTML_SPECIAL)) & !others != 0
}

/// Moves all of `from` to the beginning of `to`, which is at least as long.
#[inline(always)]
fn move_to<const N: usize>(to: &mut [u8], from: &[u8; N]) {
    if let Some(to) = to.first_chunk_mut() {
        *to = *from;
    }
}

/// Appends a number or truth value as output prints it.
pub(super) fn print(kind: Type, cell: u64, to: &mut Vec<u8>) {
    match kind {
        Type::Int => functions::print_int(cell as i64, to),
        Type::Float => functions::print_float(f64::from_bits(cell), to),
        Type::Bool => to.extend_from_slice(functions::print_bool(cell != 0)),
        Type::Text => unreachable!("texts are put, not printed"),
    }
}
