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
use super::keys::{high_word, matching};
use super::positions::Positions;
use super::rows::Rows;
use super::step::{Choice, Columns, Row, RowPart, Step, Steps};
use super::strip::{Fate, Lanes, Registers};
use super::write::{Appended, MOVE, Out, Regions, Texts};
use crate::cohort::{Arena, LaneError, Segment, SessionChange, Span, View};
use crate::device::cost;
use crate::program::{Comparison, FragmentId, KeyUse, Op, PageProgram, Register, StageProgram};
use rhythm_protocol::scan::{Simd, Task, prefetch};
use std::hint;

/// How many lanes ahead a region's first lines are fetched.
const AHEAD: usize = 3;

/// All selected lanes taking their steps, compiled for each instruction set.
pub(super) struct Walk<'w, 'r> {
    pub(super) steps: &'w Steps,
    /// Where the steps are taken more than once.
    pub(super) turns: Option<Turns<'w>>,
    pub(super) columns: &'w Columns<'w>,
    pub(super) selection: &'w [u8],
    pub(super) program: &'w PageProgram,
    pub(super) stage: &'w StageProgram,
    pub(super) arena: &'w Arena,
    pub(super) registers: &'w mut Registers,
    pub(super) lanes: &'w mut Lanes,
    pub(super) regions: &'w mut Regions<'r>,
    /// Where what is seldom appended is made.
    pub(super) made: &'w mut Vec<u8>,
}

/// The turns of a loop whose body the steps are, or the key of one of its choices: a lane takes all
/// of its turns before the next lane begins.
pub(super) struct Turns<'w> {
    /// Told the position of a turn, and which turn it is.
    pub(super) position: Register,
    pub(super) index: Register,
    /// How many a lane takes.
    pub(super) length: Register,
    /// Which positions these have; 0, 1, 2, ... without it.
    pub(super) kept: Option<&'w Positions>,
    /// What a key is for.
    pub(super) key: Option<KeyFound<'w>>,
}

/// Where positions go with what their key is.
pub(super) struct KeyFound<'w> {
    pub(super) register: Register,
    pub(super) by: KeyUse,
    pub(super) found: &'w mut Positions,
}

impl Turns<'_> {
    /// Begins a lane's turn, if it has so many.
    #[inline]
    pub(super) fn begin(&self, lane: u8, turn: i64, registers: &mut Registers) -> bool {
        let has_it = turn < registers.int(self.length, lane);
        if has_it {
            let at = self.kept.map_or(turn, |kept| kept.position(lane, turn));
            registers.set(self.position, lane, at);
            registers.set(self.index, lane, turn);
        }
        has_it
    }

    /// After a turn that was begun.
    #[inline]
    pub(super) fn end(&mut self, lane: u8, registers: &Registers) {
        if let Some(key) = &mut self.key {
            let cell = registers.column(key.register)[usize::from(lane)];
            if key.by != KeyUse::Keep || cell != 0 {
                let at = registers.int(self.position, lane);
                key.found.keep(lane, at, cell);
            }
        }
    }
}

impl Task for Walk<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let stride = self.regions.stride;
        for (i, &lane) in self.selection.iter().enumerate() {
            if !self.lanes.may_begin(lane) {
                continue;
            }
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
            let mut turns = self.turns.take();
            let mut turn = 0;
            let fate = loop {
                if let Some(turns) = &turns
                    && !turns.begin(lane, turn, self.registers)
                {
                    break Fate::Running;
                }
                let fate = self.lane(s, lane, &mut out);
                match &mut turns {
                    Some(turns) if fate == Fate::Running => turns.end(lane, self.registers),
                    _ => break fate,
                }
                turn += 1;
            };
            self.turns = turns;
            self.lanes.cursor[own] = (end - out.room()) as u32;
            self.regions.runs = runs;
            let written = self.lanes.cursor[own] as usize - start;
            self.lanes.work_left = self.lanes.work_left.saturating_sub(written);
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
        let texts = Texts::of(self.arena);
        let mut next = 0;
        while let Some(step) = self.steps.list.get(next) {
            next += 1;
            let fits = match *step {
                Step::Constant { first_move, length } => {
                    let Some(parts) = self.steps.moves.get(first_move as usize..) else {
                        unreachable!("constants are beside their steps");
                    };
                    out.constant(parts, length as usize)
                }
                Step::Text { from, escaped } => {
                    out.text(s, texts, self.registers.view(from, lane), escaped)
                }
                Step::Cells {
                    row,
                    keeps,
                    count,
                    first,
                } => {
                    let cells = &self.steps.cells[first as usize..][..usize::from(count)];
                    match self.cells(s, lane, row, cells, keeps, out) {
                        Some(fits) => fits,
                        None => return Fate::Failed(LaneError::OutOfRange),
                    }
                }
                Step::Choose { first, count } => {
                    let choice = self.chosen(lane, first as usize, count as usize);
                    out.short(&choice.constant, usize::from(choice.length))
                }
                Step::Match {
                    text,
                    count,
                    first_key,
                    first,
                } => {
                    let view = self.registers.view(text, lane);
                    let keys = &self.steps.keys[first_key as usize..][..usize::from(count)];
                    let at = first as usize + matching(texts.bytes, view, keys);
                    let choice = &self.steps.choices[at];
                    out.short(&choice.constant, usize::from(choice.length))
                }
                Step::Int { from } => out.int(self.registers.int(from, lane)),
                Step::Fragment { fragment, length } => {
                    self.fragment(lane, fragment, length, out.room())
                }
                Step::Print { put, kind } => {
                    let cell = self.registers.column(put.from)[usize::from(lane)];
                    out.print(texts.bytes, put.escape, kind, cell, self.made)
                }
                Step::Branch {
                    condition,
                    otherwise,
                } => {
                    if !self.registers.bool(condition, lane) {
                        next = otherwise as usize;
                    }
                    true
                }
                Step::Jump { to } => {
                    next = to as usize;
                    true
                }
                Step::Begin {
                    count,
                    position,
                    index,
                    length,
                    none,
                } => {
                    let Some(turns) = self.turns(lane, count) else {
                        // It is ended already.
                        return self.lanes.fate[usize::from(lane)];
                    };
                    self.registers.set(length, lane, turns);
                    if turns == 0 {
                        next = none as usize;
                    } else {
                        self.registers.set(position, lane, 0i64);
                        self.registers.set(index, lane, 0i64);
                    }
                    true
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
                    true
                }
                Step::Rows {
                    count,
                    spans,
                    parts,
                    first,
                    none,
                } => {
                    let Some(turns) = self.turns(lane, count) else {
                        // It is ended already.
                        return self.lanes.fate[usize::from(lane)];
                    };
                    if turns == 0 {
                        next = none as usize;
                    }
                    let parts = &self.steps.parts[first as usize..][..usize::from(parts)];
                    match self
                        .rows(lane, spans, parts, texts)
                        .append(s, turns as u64, out)
                    {
                        Some(fits) => fits,
                        None => return Fate::Failed(LaneError::OutOfRange),
                    }
                }
                Step::Finish => return Fate::Finished,
                _ => match self.set(step, lane, texts) {
                    Ok(()) => true,
                    Err(fate) => return fate,
                },
            };
            if !fits {
                return Fate::Overflowed;
            }
        }
        Fate::Running
    }

    /// Appends cells of a row, and tells whether they fit; `None` where there is no such row.
    #[inline(always)]
    fn cells<S: Simd>(
        &mut self,
        s: S,
        lane: u8,
        row: Row,
        cells: &[Appended],
        keeps: bool,
        out: &mut Out<'_>,
    ) -> Option<bool> {
        let (texts, columns) = (Texts::of(self.arena), self.columns);
        let registers = &mut *self.registers;
        let index = self.lanes.index[usize::from(lane)] as usize;
        let at = match row {
            Row::Registers => {
                let view = |cell: &Appended| registers.view(cell.register, lane);
                return Some(out.cells(s, texts, cells, view));
            }
            Row::Fields => index,
            Row::Item { position, spans } => {
                let position = registers.column(position)[usize::from(lane)];
                item(columns.spans[usize::from(spans)][index], position)?
            }
        };
        let load = |cell: &Appended| texts.view(columns.texts[usize::from(cell.column)], at);
        Some(match keeps {
            false => out.cells(s, texts, cells, load),
            true => out.cells(s, texts, cells, |cell| {
                let view = load(cell);
                registers.set(cell.register, lane, view);
                view
            }),
        })
    }

    /// The first of the choices whose condition is true, or the one behind them.
    #[inline(always)]
    fn chosen(&self, lane: u8, first: usize, count: usize) -> &Choice {
        let choices = &self.steps.choices[first..][..=count];
        let mut chosen = count;
        for at in (0..count).rev() {
            let is_true = self.registers.bool(choices[at].condition, lane);
            chosen = hint::select_unpredictable(is_true, at, chosen);
        }
        &choices[chosen]
    }

    /// Notes a fragment where a lane's region has so much room left, if there is one for a segment.
    #[inline(always)]
    fn fragment(&mut self, lane: u8, fragment: FragmentId, length: usize, room: usize) -> bool {
        let own = usize::from(lane);
        let count = self.lanes.segments[own] as usize;
        if count == self.regions.segment_stride {
            return false;
        }
        self.regions.segments[own * self.regions.segment_stride + count] = Segment {
            run_end: (self.regions.stride - room) as u32,
            fragment,
        };
        self.lanes.segments[own] += 1;
        self.lanes.fragment_bytes[own] += length;
        true
    }

    /// The turns of a loop, which are accounted for, if a lane may take so many; else it is ended.
    #[inline(always)]
    fn turns(&mut self, lane: u8, count: Register) -> Option<i64> {
        let turns = self.registers.int(count, lane).max(0);
        self.lanes.take_turns(lane, turns).then_some(turns)
    }

    /// The rows that a loop appends for the items of a lane's list.
    #[inline(always)]
    fn rows<'s>(
        &'s self,
        lane: u8,
        spans: u16,
        parts: &'s [RowPart],
        texts: Texts<'s>,
    ) -> Rows<'s> {
        let index = self.lanes.index[usize::from(lane)] as usize;
        Rows {
            span: self.columns.spans[usize::from(spans)][index],
            columns: &self.columns.texts,
            parts,
            steps: self.steps,
            texts,
        }
    }

    /// Takes a step that appends nothing and leads nowhere: it sets a register, or what the lane's
    /// answer has beside its page; or else tells what befell the lane.
    #[inline(always)]
    fn set(&mut self, step: &Step, lane: u8, texts: Texts<'_>) -> Result<(), Fate> {
        let (registers, columns) = (&mut *self.registers, self.columns);
        let own = usize::from(lane);
        let index = self.lanes.index[own] as usize;
        match *step {
            Step::Item {
                to,
                position,
                spans,
                values,
            } => {
                let position = registers.column(position)[own];
                let at = item(columns.spans[usize::from(spans)][index], position);
                let at = at.ok_or(LaneError::OutOfRange)?;
                registers.set(to, lane, columns.cell(values, at));
            }
            Step::Field { to, values } => registers.set(to, lane, columns.cell(values, index)),
            Step::Length { to, spans } => {
                let span = columns.spans[usize::from(spans)][index];
                registers.set(to, lane, i64::from(span.length));
            }
            Step::Equal {
                to,
                left,
                right,
                wanted,
            } => {
                let (left, right) = (registers.view(left, lane), registers.view(right, lane));
                if left.length == right.length && left.length as usize >= cost::FREE_COMPARISON {
                    let length = left.length as usize;
                    let charge = cost::compared(Comparison::Equal, length, length);
                    if !self.lanes.read(lane, charge) {
                        return Err(self.lanes.fate[own]);
                    }
                }
                registers.set(to, lane, is_equal(texts.bytes, left, right) == wanted);
            }
            Step::Is {
                wanted,
                to,
                text,
                length,
                word,
            } => {
                let view = registers.view(text, lane);
                let equal =
                    view.length == u32::from(length) && high_word(texts.bytes, view) == word;
                registers.set(to, lane, equal == wanted);
            }
            Step::Compare {
                comparison,
                to,
                left,
                right,
            } => {
                let (left, right) = (registers.int(left, lane), registers.int(right, lane));
                let holds = comparison.holds(left.cmp(&right));
                registers.set(to, lane, holds);
            }
            Step::Compute { op, to } => self.compute(&self.steps.ops[op as usize], to, lane)?,
            Step::Read { op, to } => {
                let op = &self.steps.ops[op as usize];
                let charge = cost::read(op, |text| registers.view(text, lane).length as usize);
                if !self.lanes.read(lane, charge) {
                    return Err(self.lanes.fate[own]);
                }
                self.compute(op, to, lane)?;
            }
            Step::Status(status) => self.lanes.answer[own].status = status,
            Step::File(path) => self.lanes.answer[own].file = Some(registers.view(path, lane)),
            Step::Session { user } => {
                self.lanes.answer[own].session = match user {
                    Some(user) => SessionChange::Create(registers.int(user, lane)),
                    None => SessionChange::Destroy,
                };
            }
            _ => unreachable!("it appends, or leads somewhere"),
        }
        Ok(())
    }

    /// Sets a register to what an operation computes.
    fn compute(&mut self, op: &Op, to: Register, lane: u8) -> Result<(), Fate> {
        let cells = Cells {
            registers: self.registers,
            arena: self.arena,
            program: self.program,
            stage: self.stage,
            lane,
        };
        let cell = cells.compute(op)?;
        self.registers.set(to, lane, cell);
        Ok(())
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
