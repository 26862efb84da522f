//! Operations that run as one, lane by lane: the kernel that most pages spend their time in.
//!
//! What makes no texts and asks nothing (loads, computations, output, and branches and loops of
//! these) needs no other lane. A sequence of such operations is turned to [`Step`]s, once for each
//! page, with jumps in place of blocks; then each lane takes all of its steps before the next lane
//! begins. So its cursor stays in a register, its region and its cells in the first-level cache,
//! and a loop takes as many turns as the lane has.
//!
//! [`Step::Compute`] is what is seldom wanted: `compute` does it.

use super::compute::Cells;
use super::step::{Columns, Row, Step, Steps, word};
use super::strip::{Fate, Lanes, Registers, unpack};
use super::write::{Appended, MOVE, Out, Regions};
use crate::cohort::{Arena, LaneError, Segment, SessionChange, Span, View};
use crate::device::functions;
use crate::program::{PageProgram, StageProgram};
use crate::session::prefetch::prefetch;
use rhythm_protocol::scan::{Simd, Task};
use std::hint;

/// How many lanes ahead a region's first lines are fetched.
const AHEAD: usize = 3;

/// All selected lanes taking their steps, compiled for each instruction set.
pub(super) struct Walk<'w, 'r> {
    pub(super) steps: &'w Steps,
    pub(super) columns: &'w Columns<'w>,
    pub(super) selection: &'w [u8],
    pub(super) program: &'w PageProgram,
    pub(super) stage: &'w StageProgram,
    pub(super) arena: &'w Arena,
    pub(super) registers: &'w mut Registers,
    pub(super) lanes: &'w mut Lanes,
    pub(super) regions: &'w mut Regions<'r>,
}

impl Task for Walk<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let stride = self.regions.stride;
        for (i, &lane) in self.selection.iter().enumerate() {
            if let Some(later) = self.selection.get(i + AHEAD) {
                let at = self.lanes.cursor[usize::from(*later)] as usize;
                if let Some(next) = self.regions.runs.get(at..at + 2 * MOVE) {
                    prefetch(&next[0]);
                    prefetch(&next[MOVE]);
                }
            }
            let own = usize::from(lane);
            let (start, end) = (self.lanes.cursor[own] as usize, (own + 1) * stride);
            // Taken out, so that the cursor is at hand whatever else is written.
            let runs = std::mem::take(&mut self.regions.runs);
            let mut out = Out::new(&mut runs[start..end]);
            let fate = self.lane(s, lane, &mut out);
            self.lanes.cursor[own] = (end - out.room()) as u32;
            self.regions.runs = runs;
            if fate != Fate::Running {
                self.lanes.end(lane, fate);
            }
        }
    }
}

impl Walk<'_, '_> {
    /// Takes a lane's steps, and tells what befell it.
    #[inline(always)]
    fn lane<S: Simd>(&mut self, s: S, lane: u8, out: &mut Out<'_>) -> Fate {
        let own = usize::from(lane);
        let index = self.lanes.index[own] as usize;
        let texts = self.arena.bytes();
        let columns = self.columns;
        let mut next = 0;
        while let Some(step) = self.steps.list.get(next) {
            next += 1;
            match *step {
                Step::Constant { first_move, length } => {
                    let length = length as usize;
                    let Some(parts) = self.steps.moves.get(first_move as usize..) else {
                        unreachable!("constants are beside their steps");
                    };
                    if !out.constant(parts, length) {
                        return Fate::Overflowed;
                    }
                }
                Step::Text { from, escaped } => {
                    let view = unpack(self.registers.column(from)[own]);
                    if !out.text(s, texts, view, escaped) {
                        return Fate::Overflowed;
                    }
                }
                Step::Cells { row, first, count } => {
                    let cells = &self.steps.cells[first as usize..][..count as usize];
                    let at = match row {
                        Row::Registers => None,
                        Row::Fields => Some(index),
                        Row::Item { position, spans } => {
                            let position = self.registers.column(position)[own];
                            match item(columns.spans[usize::from(spans)][index], position) {
                                Some(at) => Some(at),
                                None => return Fate::Failed(LaneError::OutOfRange),
                            }
                        }
                    };
                    let registers = &mut *self.registers;
                    let appended = match at {
                        Some(at) => out.cells(s, texts, cells, |cell| {
                            let view = columns.texts[usize::from(cell.column)][at];
                            registers.set(cell.register, lane, view);
                            view
                        }),
                        None => {
                            let view = |cell: &Appended| registers.view(cell.register, lane);
                            out.cells(s, texts, cells, view)
                        }
                    };
                    if !appended {
                        return Fate::Overflowed;
                    }
                }
                Step::Item {
                    to,
                    position,
                    spans,
                    values,
                } => {
                    let position = self.registers.column(position)[own];
                    let span = columns.spans[usize::from(spans)][index];
                    let Some(at) = item(span, position) else {
                        return Fate::Failed(LaneError::OutOfRange);
                    };
                    self.registers.set(to, lane, columns.cell(values, at));
                }
                Step::Field { to, values } => {
                    self.registers.set(to, lane, columns.cell(values, index))
                }
                Step::Length { to, spans } => {
                    let span = columns.spans[usize::from(spans)][index];
                    self.registers.set(to, lane, i64::from(span.length));
                }
                Step::Choose { first, count } => {
                    let choices = &self.steps.choices[first as usize..][..=count as usize];
                    let mut chosen = count as usize;
                    for at in (0..chosen).rev() {
                        let is_true = self.registers.bool(choices[at].condition, lane);
                        chosen = hint::select_unpredictable(is_true, at, chosen);
                    }
                    let choice = &choices[chosen];
                    if !out.short(&choice.constant, usize::from(choice.length)) {
                        return Fate::Overflowed;
                    }
                }
                Step::Int { from } => {
                    if !out.int(self.registers.int(from, lane)) {
                        return Fate::Overflowed;
                    }
                }
                Step::Equal {
                    to,
                    left,
                    right,
                    wanted,
                } => {
                    let left = self.registers.view(left, lane);
                    let right = self.registers.view(right, lane);
                    let equal = is_equal(texts, left, right);
                    self.registers.set(to, lane, equal == wanted);
                }
                Step::Is {
                    wanted,
                    to,
                    text,
                    length,
                    word,
                } => {
                    let view = self.registers.view(text, lane);
                    let equal = view.length == u32::from(length) && high_word(texts, view) == word;
                    self.registers.set(to, lane, equal == wanted);
                }
                Step::Compare {
                    comparison,
                    to,
                    left,
                    right,
                } => {
                    let left = self.registers.int(left, lane);
                    let right = self.registers.int(right, lane);
                    let holds = functions::holds(comparison, left.cmp(&right));
                    self.registers.set(to, lane, holds);
                }
                Step::Branch {
                    condition,
                    otherwise,
                } => {
                    if !self.registers.bool(condition, lane) {
                        next = otherwise as usize;
                    }
                }
                Step::Jump { to } => next = to as usize,
                Step::Begin {
                    count,
                    position,
                    index,
                    length,
                    none,
                } => {
                    let turns = self.registers.int(count, lane).max(0);
                    let left = &mut self.lanes.turns_left[own];
                    match usize::try_from(turns).map(|turns| left.checked_sub(turns)) {
                        Ok(Some(less)) => *left = less,
                        _ => return Fate::Failed(LaneError::TooManyTurns),
                    }
                    self.registers.set(length, lane, turns);
                    if turns == 0 {
                        next = none as usize;
                    } else {
                        self.registers.set(position, lane, 0i64);
                        self.registers.set(index, lane, 0i64);
                    }
                }
                Step::Next {
                    position,
                    index,
                    length,
                    body,
                } => {
                    // The body writes neither `index` nor `length`: the loop owns both.
                    let turn = self.registers.int(index, lane) + 1;
                    if turn < self.registers.int(length, lane) {
                        self.registers.set(position, lane, turn);
                        self.registers.set(index, lane, turn);
                        next = body as usize;
                    }
                }
                Step::Fragment { fragment, length } => {
                    let count = self.lanes.segments[own] as usize;
                    if count == self.regions.segment_stride {
                        return Fate::Overflowed;
                    }
                    self.regions.segments[own * self.regions.segment_stride + count] = Segment {
                        run_end: (self.regions.stride - out.room()) as u32,
                        fragment,
                    };
                    self.lanes.segments[own] += 1;
                    self.lanes.fragment_bytes[own] += length;
                }
                Step::Compute { op, to } => {
                    let cells = Cells {
                        registers: self.registers,
                        arena: self.arena,
                        program: self.program,
                        stage: self.stage,
                        lane,
                    };
                    match cells.compute(&self.steps.ops[op as usize]) {
                        Ok(cell) => self.registers.set(to, lane, cell),
                        Err(error) => return Fate::Failed(error),
                    }
                }
                Step::Print { put, kind } => {
                    let cell = self.registers.column(put.from)[own];
                    if !out.print(texts, put.escape, kind, cell) {
                        return Fate::Overflowed;
                    }
                }
                Step::Status(status) => self.lanes.answer[own].status = status,
                Step::File(path) => {
                    self.lanes.answer[own].file = Some(self.registers.view(path, lane));
                }
                Step::Session { user } => {
                    self.lanes.answer[own].session = match user {
                        Some(user) => SessionChange::Create(self.registers.int(user, lane)),
                        None => SessionChange::Destroy,
                    };
                }
                Step::Finish => return Fate::Finished,
            }
        }
        Fate::Running
    }
}

/// Where an item of a lane's list is, if the list has it.
#[inline(always)]
fn item(span: Span, position: u64) -> Option<usize> {
    // A negative position is a large one without its sign.
    (position < u64::from(span.length)).then(|| span.start as usize + position as usize)
}

/// Whether two texts of the arena are equal: most are not of one length, or short.
#[inline(always)]
fn is_equal(texts: &[u8], left: View, right: View) -> bool {
    if left.length != right.length {
        return false;
    }
    if (1..=8).contains(&left.length) {
        return high_word(texts, left) == high_word(texts, right);
    }
    let text = |view: View| &texts[view.offset as usize..][..view.length as usize];
    text(left) == text(right)
}

/// A text of 1 to 8 bytes as [`Step::Is`] has it.
#[inline(always)]
fn high_word(texts: &[u8], view: View) -> u64 {
    let text = &texts[view.offset as usize..];
    match text.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes) << (64 - 8 * view.length),
        None => word(&text[..view.length as usize]),
    }
}
