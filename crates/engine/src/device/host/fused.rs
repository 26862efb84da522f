//! Operations that run as one, lane by lane: the kernel that most pages spend their time in.
//!
//! What makes no texts and asks nothing (loads, computations, output, and branches and loops of
//! these) needs no other lane. A sequence of such operations is turned to [`Step`]s, once a strip,
//! with columns looked up and jumps in place of blocks; then each lane takes all of its steps
//! before the next lane begins. So its cursor stays in a register, its region and its cells in the
//! first-level cache, and a loop takes as many turns as the lane has.
//!
//! [`Step::Compute`] is what is seldom wanted: `compute` does it.

use super::compute::{self, Cells};
use super::run::Run;
use super::strip::{Cell, Fate, Lanes, Registers, Selection, unpack};
use super::write::{Appended, MOVE, Out, Regions};
use crate::cohort::{Arena, Column, LaneError, Segment, SessionChange, Span, View};
use crate::device::functions;
use crate::device::limits::FOLD_BYTES_MAX;
use crate::program::{
    Comparison, Escape, For, FragmentId, Op, PageProgram, Put, Register, StageProgram, Type,
};
use crate::session::prefetch::prefetch;
use rhythm_protocol::scan::{Simd, Task};

/// How many lanes ahead a region's first lines are fetched.
const AHEAD: usize = 3;

/// A column's values, or those of a list's column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values<'a> {
    Text(&'a [View]),
    Int(&'a [i64]),
}

impl Row<'_> {
    fn is(&self, other: &Row<'_>) -> bool {
        match (self, other) {
            (Row::Registers, Row::Registers) | (Row::Fields, Row::Fields) => true,
            (
                Row::Item { position, spans },
                Row::Item {
                    position: p,
                    spans: s,
                },
            ) => position == p && std::ptr::eq(*spans, *s),
            _ => false,
        }
    }
}

impl<'a> Values<'a> {
    fn of(column: &'a Column) -> Values<'a> {
        match column {
            Column::Text(views) => Values::Text(views),
            Column::Int(values) => Values::Int(values),
            Column::List(_) => unreachable!("lists are read item by item"),
        }
    }

    #[inline(always)]
    fn cell(self, at: usize) -> u64 {
        match self {
            Values::Text(views) => views[at].pack(),
            Values::Int(values) => values[at].pack(),
        }
    }
}

/// What a lane does next. Steps are counted from 0, and a jump says which one follows.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Step<'a> {
    /// Appends the first `length` bytes of the constants, from a move on.
    Constant {
        first_move: u32,
        length: u32,
    },
    /// Notes a fragment of so many bytes.
    Fragment {
        fragment: FragmentId,
        length: usize,
    },
    /// Appends a text, perhaps escaped for HTML.
    Text {
        from: Register,
        escaped: bool,
    },
    /// Appends `count` of the cells, from `first` on.
    Cells {
        row: Row<'a>,
        first: u32,
        count: u32,
    },
    /// Appends an integer.
    Int {
        from: Register,
    },
    /// Appends what is seldom appended.
    Print {
        put: &'a Put,
        kind: Type,
    },
    /// Loads a scalar field.
    Field {
        to: Register,
        values: Values<'a>,
    },
    /// Loads how many items the lane's list has.
    Length {
        to: Register,
        spans: &'a [Span],
    },
    /// Loads an item of the lane's list.
    Item {
        to: Register,
        position: Register,
        spans: &'a [Span],
        values: Values<'a>,
    },
    /// Compares integers or truth values.
    Compare {
        comparison: Comparison,
        to: Register,
        left: Register,
        right: Register,
    },
    /// Sets whether two texts are equal, or whether they are not.
    Equal {
        to: Register,
        left: Register,
        right: Register,
        wanted: bool,
    },
    /// Computes a cell from others.
    Compute {
        op: &'a Op,
        to: Register,
    },
    /// Goes on where a condition is true, and jumps where it is not.
    Branch {
        condition: Register,
        otherwise: u32,
    },
    Jump {
        to: u32,
    },
    /// Begins a loop's first turn, or jumps where there is none.
    Begin {
        op: &'a For,
        none: u32,
    },
    /// Begins a loop's next turn at `body`, or goes on where there is none.
    Next {
        op: &'a For,
        body: u32,
    },
    /// Sets the answer's status.
    Status(u16),
    /// Sets the answer's file.
    File(Register),
    /// Sets what happens to the session: one is created for a user, or the lane's is destroyed.
    Session {
        user: Option<Register>,
    },
    /// Ends the lane with its answer.
    Finish,
}

/// Where cells are from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Row<'a> {
    /// Registers.
    Registers,
    /// Fields, which are loaded into registers, too.
    Fields,
    /// An item of the lane's list, likewise.
    Item {
        position: Register,
        spans: &'a [Span],
    },
}

/// Steps, and what they work on.
#[derive(Default)]
pub(super) struct Steps<'a> {
    list: Vec<Step<'a>>,
    cells: Vec<Appended<'a>>,
    /// Constants, padded to whole moves.
    moves: Vec<[u8; MOVE]>,
}

impl Steps<'_> {
    /// None, in the memory of these.
    pub(super) fn reuse<'b>(mut self) -> Steps<'b> {
        self.list.clear();
        self.cells.clear();
        self.moves.clear();
        // No element is left to be turned into another; what remains is the memory.
        let (list, cells) = (self.list.into_iter(), self.cells.into_iter());
        Steps {
            list: list.map(|_| unreachable!("it is empty")).collect(),
            cells: cells.map(|_| unreachable!("it is empty")).collect(),
            moves: self.moves,
        }
    }
}

/// Turns operations to steps.
struct Fuse<'a> {
    steps: Steps<'a>,
    program: &'a PageProgram,
    stage: &'a StageProgram,
    fragments: &'a [Box<[u8]>],
    fields: &'a [Column],
    /// What stands before this step may not be put together with what comes: it is jumped to.
    target: usize,
}

impl<'a> Fuse<'a> {
    fn push(&mut self, step: Step<'a>) -> bool {
        self.steps.list.push(step);
        true
    }

    /// Where the next step will be, which is jumped to.
    fn at(&mut self) -> u32 {
        self.target = self.steps.list.len();
        self.target as u32
    }

    /// Puts a text together with its load before it, and the constant between them, and that with
    /// others of the row before them.
    fn text(&mut self, from: Register, escaped: bool) -> bool {
        let list = &mut self.steps.list;
        let (before, constant) = match list[self.target..] {
            [.., Step::Constant { first_move, length }] if length as usize <= MOVE => {
                let constant = self.steps.moves[first_move as usize];
                (list.len() - 1, Some((constant, length)))
            }
            _ => (list.len(), None),
        };
        let (row, views) = match list[self.target..before] {
            [
                ..,
                Step::Field {
                    to,
                    values: Values::Text(views),
                },
            ] if to == from => (Row::Fields, views),
            [
                ..,
                Step::Item {
                    to,
                    position,
                    spans,
                    values: Values::Text(views),
                },
            ] if to == from && to != position => (Row::Item { position, spans }, views),
            _ if constant.is_some() => (Row::Registers, &[][..]),
            _ => return self.push(Step::Text { from, escaped }),
        };
        let loaded = usize::from(!matches!(row, Row::Registers));
        list.truncate(before - loaded);
        let (constant, length) = constant.unwrap_or(([0; MOVE], 0));
        let cells = &mut self.steps.cells;
        cells.push(Appended {
            constant,
            length,
            register: from,
            escaped,
            views,
        });
        if let [
            ..,
            Step::Cells {
                row: last, count, ..
            },
        ] = &mut list[self.target..]
            && last.is(&row)
        {
            *count += 1;
            return true;
        }
        let first = (cells.len() - 1) as u32;
        self.push(Step::Cells {
            row,
            first,
            count: 1,
        })
    }

    /// Appends the steps of an operation, if it is one of those that run as one.
    fn op(&mut self, op: &'a Op) -> bool {
        let column = |field: u16| &self.fields[usize::from(field)];
        let step = match op {
            Op::Field(op) => Step::Field {
                to: op.to,
                values: Values::of(column(op.field)),
            },
            Op::Length(op) => Step::Length {
                to: op.to,
                spans: &column(op.field).list().spans,
            },
            Op::Item(op) => {
                let list = column(op.list).list();
                Step::Item {
                    to: op.to,
                    position: op.position,
                    spans: &list.spans,
                    values: Values::of(&list.columns[usize::from(op.column)]),
                }
            }
            Op::Compare(comparison, operands) => {
                let (to, left, right) = (operands.to, operands.left, operands.right);
                let wanted = *comparison == Comparison::Equal;
                match self.stage.registers[usize::from(left)] {
                    Type::Int | Type::Bool => Step::Compare {
                        comparison: *comparison,
                        to,
                        left,
                        right,
                    },
                    Type::Text if wanted || *comparison == Comparison::NotEqual => Step::Equal {
                        to,
                        left,
                        right,
                        wanted,
                    },
                    _ => Step::Compute { op, to },
                }
            }
            Op::Fragment(fragment) => return self.fragment(*fragment),
            Op::Put(put) => {
                let Put { from, escape } = *put;
                match (self.stage.registers[usize::from(from)], escape) {
                    (Type::Text, Escape::None | Escape::Html) => {
                        return self.text(from, escape == Escape::Html);
                    }
                    (Type::Int, _) => Step::Int { from },
                    (kind, _) => Step::Print { put, kind },
                }
            }
            Op::If(op) => {
                let branch = self.at();
                self.push(Step::Jump { to: 0 });
                if !op.then.iter().all(|op| self.op(op)) {
                    return false;
                }
                let mut otherwise = self.at();
                if !op.otherwise.is_empty() {
                    self.push(Step::Jump { to: 0 });
                    if !op.otherwise.iter().all(|op| self.op(op)) {
                        return false;
                    }
                    self.steps.list[otherwise as usize] = Step::Jump { to: self.at() };
                    otherwise += 1;
                }
                self.steps.list[branch as usize] = Step::Branch {
                    condition: op.condition,
                    otherwise,
                };
                return true;
            }
            Op::For(op) if op.filter.is_none() => {
                let begin = self.at();
                self.push(Step::Jump { to: 0 });
                if !op.body.iter().all(|op| self.op(op)) {
                    return false;
                }
                self.push(Step::Next {
                    op,
                    body: begin + 1,
                });
                let mut none = self.at();
                if !op.otherwise.is_empty() {
                    self.push(Step::Jump { to: 0 });
                    if !op.otherwise.iter().all(|op| self.op(op)) {
                        return false;
                    }
                    self.steps.list[none as usize] = Step::Jump { to: self.at() };
                    none += 1;
                }
                self.steps.list[begin as usize] = Step::Begin { op, none };
                return true;
            }
            Op::Status(status) => Step::Status(*status),
            Op::File(path) => Step::File(*path),
            Op::SessionCreate(user) => Step::Session { user: Some(*user) },
            Op::SessionDestroy => Step::Session { user: None },
            Op::Finish => Step::Finish,
            _ => match compute::destination(op) {
                Some(to) => Step::Compute { op, to },
                None => return false,
            },
        };
        self.push(step)
    }

    fn fragment(&mut self, fragment: FragmentId) -> bool {
        let text = &self.fragments[fragment as usize];
        let length = text.len();
        if length > FOLD_BYTES_MAX {
            return self.push(Step::Fragment { fragment, length });
        }
        let moves = &mut self.steps.moves;
        let first_move = moves.len() as u32;
        for part in text.chunks(MOVE) {
            let mut padded = [0; MOVE];
            padded[..part.len()].copy_from_slice(part);
            moves.push(padded);
        }
        self.push(Step::Constant {
            first_move,
            length: length as u32,
        })
    }
}

impl<'a> Run<'a> {
    /// Runs the operations at the start of `block` that can run as one, and gives how many they
    /// are.
    pub(super) fn fused(&mut self, block: &'a [Op], selection: &Selection) -> usize {
        let mut fuse = Fuse {
            steps: std::mem::take(self.steps).reuse(),
            program: self.program,
            stage: self.stage,
            fragments: self.fragments,
            fields: self.fields,
            target: 0,
        };
        let mut count = 0;
        for op in block {
            // What one operation has begun is not put together with others, should it be undone.
            let steps = fuse.steps.list.len();
            if matches!(op, Op::If(_) | Op::For(_)) {
                fuse.at();
            }
            if !fuse.op(op) {
                fuse.steps.list.truncate(steps);
                break;
            }
            count += 1;
        }
        if count > 0 {
            self.level.run(Walk {
                steps: &fuse.steps,
                selection,
                program: fuse.program,
                stage: fuse.stage,
                arena: self.arena,
                registers: self.registers,
                lanes: self.lanes,
                regions: &mut self.regions,
            });
        }
        *self.steps = fuse.steps.reuse();
        count
    }
}

/// All selected lanes taking their steps, compiled for each instruction set.
struct Walk<'w, 'r> {
    steps: &'w Steps<'w>,
    selection: &'w [u8],
    program: &'w PageProgram,
    stage: &'w StageProgram,
    arena: &'w Arena,
    registers: &'w mut Registers,
    lanes: &'w mut Lanes,
    regions: &'w mut Regions<'r>,
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
                            match item(spans[index], position) {
                                Some(at) => Some(at),
                                None => return Fate::Failed(LaneError::OutOfRange),
                            }
                        }
                    };
                    let registers = &mut *self.registers;
                    let appended = match at {
                        Some(at) => out.cells(s, texts, cells, |cell| {
                            let view = cell.views[at];
                            registers.set(cell.register, lane, view);
                            view
                        }),
                        None => {
                            let view = |cell: &Appended<'_>| registers.view(cell.register, lane);
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
                    let Some(at) = item(spans[index], position) else {
                        return Fate::Failed(LaneError::OutOfRange);
                    };
                    self.registers.set(to, lane, values.cell(at));
                }
                Step::Field { to, values } => self.registers.set(to, lane, values.cell(index)),
                Step::Length { to, spans } => {
                    (self.registers).set(to, lane, i64::from(spans[index].length));
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
                Step::Begin { op, none } => {
                    let count = self.registers.int(op.count, lane).max(0);
                    let left = &mut self.lanes.turns_left[own];
                    match usize::try_from(count).map(|count| left.checked_sub(count)) {
                        Ok(Some(less)) => *left = less,
                        _ => return Fate::Failed(LaneError::TooManyTurns),
                    }
                    self.registers.set(op.length, lane, count);
                    if count == 0 {
                        next = none as usize;
                    } else {
                        self.registers.set(op.position, lane, 0i64);
                        self.registers.set(op.index, lane, 0i64);
                    }
                }
                Step::Next { op, body } => {
                    // The body writes neither `index` nor `length`: the loop owns both.
                    let turn = self.registers.int(op.index, lane) + 1;
                    if turn < self.registers.int(op.length, lane) {
                        self.registers.set(op.position, lane, turn);
                        self.registers.set(op.index, lane, turn);
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
                    match cells.compute(op) {
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
    let word = |view: View| {
        let bytes = texts.get(view.offset as usize..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    if (1..=8).contains(&left.length)
        && let (Some(left_word), Some(right_word)) = (word(left), word(right))
    {
        return (left_word ^ right_word) << (64 - 8 * left.length) == 0;
    }
    let text = |view: View| &texts[view.offset as usize..][..view.length as usize];
    text(left) == text(right)
}
