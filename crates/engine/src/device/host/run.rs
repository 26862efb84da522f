//! The operations of the page language, each for all selected lanes of a strip.

use super::md5;
use super::strip::{Cell, Fate, Lanes, Registers, STRIP, Selection, unpack};
use super::write::Regions;
use crate::cohort::SessionChange;
use crate::cohort::{Arena, Argument, Column, LaneError, Requests, Span, View};
use crate::device::functions::{self, Made};
use crate::device::scalar::FOLD_BYTES_MAX;
use crate::program::{
    Comparison, Constant, Conversion, Escape, LoopFilter, Op, PageProgram, Register, StageProgram,
    TextFunction, TextTest, Type,
};
use rhythm_protocol::scan::Level;

/// A strip under way.
pub(super) struct Run<'a> {
    pub(super) program: &'a PageProgram,
    pub(super) stage: &'a StageProgram,
    pub(super) fragments: &'a [Box<[u8]>],
    pub(super) fields: &'a [Column],
    pub(super) arena: &'a mut Arena,
    pub(super) requests: &'a mut Requests,
    pub(super) headers: &'a mut Vec<(u32, u16, View)>,
    pub(super) registers: &'a mut Registers,
    pub(super) lanes: &'a mut Lanes,
    pub(super) regions: Regions<'a>,
    /// Selections not in use, for reuse.
    pub(super) selections: &'a mut Vec<Selection>,
    pub(super) level: Level,
}

/// Turns over which lanes a loop's position goes.
enum Positions {
    /// 0, 1, 2, ... for every lane.
    All,
    /// What the filter kept, by lane.
    Kept(Vec<Vec<i64>>),
}

impl Run<'_> {
    /// Runs the stage for the strip's first `count` lanes.
    pub(super) fn run(mut self, count: usize) {
        for (register, constant) in &self.stage.constants {
            let cell = constant_cell(constant);
            self.registers.column_mut(*register)[..count].fill(cell);
        }
        let mut selection = self.selections.pop().unwrap_or_default();
        selection.clear();
        selection.extend((0..count).map(|lane| lane as u8));
        let stage = self.stage;
        self.block(&stage.body, &mut selection);
        self.selections.push(selection);
    }

    /// Runs a block for the selection, and takes the lanes that ended out of it.
    fn block(&mut self, block: &[Op], selection: &mut Selection) {
        for op in block {
            if selection.is_empty() {
                return;
            }
            let ended = self.lanes.ended;
            self.step(op, selection);
            if self.lanes.ended != ended {
                selection.retain(|lane| self.lanes.runs(*lane));
            }
        }
    }

    fn step(&mut self, op: &Op, selection: &Selection) {
        match op {
            Op::Copy { to, from } => self.each(selection, *to, |run, lane| {
                Ok(run.registers.column(*from)[usize::from(lane)])
            }),
            Op::Field { to, field } => self.gather(selection, *to, *field),
            Op::Length { to, list } => {
                let spans = &self.fields[usize::from(*list)].list().spans;
                self.each(selection, *to, |run, lane| {
                    Ok(i64::from(spans[run.index(lane)].length))
                });
            }
            Op::Item {
                to,
                list,
                column,
                position,
            } => self.items(selection, *to, *list, *column, *position),
            Op::ConstantItem {
                to,
                table,
                position,
            } => {
                let table = &self.program.tables[usize::from(*table)];
                self.each(selection, *to, |run, lane| {
                    let at = usize::try_from(run.registers.int(*position, lane)).ok();
                    let item = at
                        .and_then(|at| table.get(at))
                        .ok_or(LaneError::OutOfRange)?;
                    Ok(constant_cell(item))
                });
            }
            Op::Arithmetic {
                operator,
                to,
                left,
                right,
            } => match self.kind(*to) {
                Type::Float => self.each(selection, *to, |run, lane| {
                    functions::float(
                        *operator,
                        run.registers.float(*left, lane),
                        run.registers.float(*right, lane),
                    )
                }),
                _ => self.each(selection, *to, |run, lane| {
                    functions::int(
                        *operator,
                        run.registers.int(*left, lane),
                        run.registers.int(*right, lane),
                    )
                }),
            },
            Op::Negate { to, from } => match self.kind(*to) {
                Type::Float => self.each(selection, *to, |run, lane| {
                    Ok(-run.registers.float(*from, lane))
                }),
                _ => self.each(selection, *to, |run, lane| {
                    run.registers
                        .int(*from, lane)
                        .checked_neg()
                        .ok_or(LaneError::Overflow)
                }),
            },
            Op::Absolute { to, from } => match self.kind(*to) {
                Type::Float => self.each(selection, *to, |run, lane| {
                    Ok(run.registers.float(*from, lane).abs())
                }),
                _ => self.each(selection, *to, |run, lane| {
                    run.registers
                        .int(*from, lane)
                        .checked_abs()
                        .ok_or(LaneError::Overflow)
                }),
            },
            Op::Compare {
                comparison,
                to,
                left,
                right,
            } => self.compare(selection, *comparison, *to, *left, *right),
            Op::Not { to, from } => self.each(selection, *to, |run, lane| {
                Ok(!run.registers.bool(*from, lane))
            }),
            Op::Truth { to, from } => match self.kind(*from) {
                Type::Text => self.each(selection, *to, |run, lane| {
                    Ok(run.registers.view(*from, lane).length > 0)
                }),
                Type::Float => self.each(selection, *to, |run, lane| {
                    Ok(run.registers.float(*from, lane) != 0.0)
                }),
                Type::Int | Type::Bool => self.each(selection, *to, |run, lane| {
                    Ok(run.registers.int(*from, lane) != 0)
                }),
            },
            Op::Convert {
                conversion,
                to,
                from,
            } => self.convert(selection, *conversion, *to, *from),
            Op::Concat { to, parts } => self.concat(selection, *to, parts),
            Op::Text {
                function: TextFunction::Md5,
                to,
                from,
            } => self.digests(selection, *to, *from),
            Op::Text { function, to, from } => self.each_made(selection, *to, |run, lane, made| {
                let from = run.registers.view(*from, lane);
                Ok(
                    match functions::text(*function, text(run.arena, from), made) {
                        Made::New => None,
                        Made::Part(part) => Some(View {
                            offset: from.offset + part.start as u32,
                            length: part.len() as u32,
                        }),
                    },
                )
            }),
            Op::Replace { to, from, old, new } => {
                self.each_made(selection, *to, |run, lane, made| {
                    let [from, old, new] =
                        [*from, *old, *new].map(|r| text(run.arena, run.registers.view(r, lane)));
                    if functions::replaced_length(from, old, new)
                        > run.lanes.text_left[usize::from(lane)]
                    {
                        return Err(LaneError::TooLarge);
                    }
                    made.extend_from_slice(from.replace(old, new).as_bytes());
                    Ok(None)
                })
            }
            Op::TextTest {
                test,
                to,
                left,
                right,
            } => self.each(selection, *to, |run, lane| {
                let left = run.arena.get(run.registers.view(*left, lane));
                let right = run.arena.get(run.registers.view(*right, lane));
                Ok(match test {
                    TextTest::Contains => memchr::memmem::find(left, right).is_some(),
                    TextTest::StartsWith => left.starts_with(right),
                    TextTest::EndsWith => left.ends_with(right),
                })
            }),
            Op::TextLength { to, from } => self.each(selection, *to, |run, lane| {
                Ok(text(run.arena, run.registers.view(*from, lane))
                    .chars()
                    .count() as i64)
            }),
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                let mut taken = self.selection();
                let mut other = self.selection();
                for &lane in selection {
                    if self.registers.bool(*condition, lane) {
                        taken.push(lane);
                    } else {
                        other.push(lane);
                    }
                }
                self.block(then, &mut taken);
                self.block(otherwise, &mut other);
                self.selections.extend([taken, other]);
            }
            Op::For {
                count,
                filter,
                position,
                index,
                length,
                body,
                otherwise,
            } => {
                let positions =
                    self.positions(selection, *count, filter.as_ref(), *position, *length);
                self.turns(
                    selection,
                    &positions,
                    [*position, *index, *length],
                    body,
                    otherwise,
                );
            }
            Op::Fragment { fragment } => {
                let text = &self.fragments[*fragment as usize];
                if text.len() <= FOLD_BYTES_MAX {
                    self.regions
                        .put_constant(self.lanes, selection, text, self.level);
                } else {
                    self.regions
                        .put_segment(self.lanes, selection, *fragment, text.len());
                }
            }
            Op::Put { from, escape } => self.put(selection, *from, *escape),
            Op::Request { arguments } => self.request(selection, arguments),
            Op::Status { status } => {
                for &lane in selection {
                    self.lanes.answer[usize::from(lane)].status = *status;
                }
            }
            Op::Header { name, value } => {
                for &lane in selection {
                    let value = self.registers.view(*value, lane);
                    self.headers
                        .push((self.lanes.index[usize::from(lane)], *name, value));
                }
            }
            Op::File { path } => {
                for &lane in selection {
                    self.lanes.answer[usize::from(lane)].file =
                        Some(self.registers.view(*path, lane));
                }
            }
            Op::SessionCreate { user } => {
                for &lane in selection {
                    let user = self.registers.int(*user, lane);
                    self.lanes.set_session(lane, SessionChange::Create(user));
                }
            }
            Op::SessionDestroy => {
                for &lane in selection {
                    self.lanes.set_session(lane, SessionChange::Destroy);
                }
            }
            Op::Finish => {
                for &lane in selection {
                    self.lanes.end(lane, Fate::Finished);
                }
            }
        }
    }

    /// Computes a value for each selected lane, or fails it.
    #[inline(always)]
    fn each<C: Cell>(
        &mut self,
        selection: &Selection,
        to: Register,
        value: impl Fn(&Self, u8) -> Result<C, LaneError>,
    ) {
        for &lane in selection {
            match value(self, lane) {
                Ok(cell) => self.registers.set(to, lane, cell),
                Err(error) => self.lanes.fail(lane, error),
            }
        }
    }

    /// Makes a text for each selected lane: `make` gives a view that exists already, or appends to
    /// its buffer.
    fn each_made(
        &mut self,
        selection: &Selection,
        to: Register,
        make: impl Fn(&Self, u8, &mut Vec<u8>) -> Result<Option<View>, LaneError>,
    ) {
        let mut made = Vec::new();
        for &lane in selection {
            made.clear();
            match make(self, lane, &mut made) {
                Ok(Some(view)) => self.registers.set(to, lane, view),
                Ok(None) => self.keep(lane, to, &made),
                Err(error) => self.lanes.fail(lane, error),
            }
        }
    }

    /// Stores a text made for a lane, if it may make that much.
    #[inline]
    fn keep(&mut self, lane: u8, to: Register, made: &[u8]) {
        if !self.lanes.charge(lane, made.len()) {
            return;
        }
        if self.arena.has_room(made.len()) {
            let view = self.arena.push(made);
            self.registers.set(to, lane, view);
        } else {
            self.lanes.fail(lane, LaneError::TooLarge);
        }
    }

    /// The lane's index in the cohort.
    #[inline]
    fn index(&self, lane: u8) -> usize {
        self.lanes.index[usize::from(lane)] as usize
    }

    fn kind(&self, register: Register) -> Type {
        self.stage.registers[usize::from(register)]
    }

    fn selection(&mut self) -> Selection {
        let mut selection = self.selections.pop().unwrap_or_default();
        selection.clear();
        selection
    }

    /// A scalar field's values.
    fn gather(&mut self, selection: &Selection, to: Register, field: u16) {
        fn copy<C: Cell>(
            values: &[C],
            index: &[u32; STRIP],
            selection: &[u8],
            to: &mut [u64; STRIP],
        ) {
            for &lane in selection {
                to[usize::from(lane)] = values[index[usize::from(lane)] as usize].pack();
            }
        }
        let to = self.registers.column_mut(to);
        match &self.fields[usize::from(field)] {
            Column::Text(views) => copy(views, &self.lanes.index, selection, to),
            Column::Int(values) => copy(values, &self.lanes.index, selection, to),
            Column::List(_) => unreachable!("lists are read item by item"),
        }
    }

    /// A column's values of one item of each lane's list.
    fn items(
        &mut self,
        selection: &Selection,
        to: Register,
        list: u16,
        column: u16,
        position: Register,
    ) {
        fn pick<C: Cell>(
            values: &[C],
            spans: &[Span],
            lanes: &mut Lanes,
            selection: &[u8],
            to: &mut [u64; STRIP],
            positions: &[u64; STRIP],
        ) {
            for &lane in selection {
                let own = usize::from(lane);
                let span = spans[lanes.index[own] as usize];
                // A negative position is a large one without its sign.
                if positions[own] < u64::from(span.length) {
                    to[own] = values[span.start as usize + positions[own] as usize].pack();
                } else {
                    lanes.fail(lane, LaneError::OutOfRange);
                }
            }
        }
        let list = self.fields[usize::from(list)].list();
        let lanes = &mut *self.lanes;
        self.registers.with(to, position, |to, positions| {
            match &list.columns[usize::from(column)] {
                Column::Text(views) => pick(views, &list.spans, lanes, selection, to, positions),
                Column::Int(values) => pick(values, &list.spans, lanes, selection, to, positions),
                Column::List(_) => unreachable!("records have no lists"),
            }
        });
    }

    fn compare(
        &mut self,
        selection: &Selection,
        comparison: Comparison,
        to: Register,
        left: Register,
        right: Register,
    ) {
        match self.kind(left) {
            Type::Text => self.each(selection, to, |run, lane| {
                let left = run.arena.get(run.registers.view(left, lane));
                let right = run.arena.get(run.registers.view(right, lane));
                Ok(match comparison {
                    // Equality needs no order: lengths differ, mostly.
                    Comparison::Equal => left == right,
                    Comparison::NotEqual => left != right,
                    _ => functions::holds(comparison, left.cmp(right)),
                })
            }),
            Type::Float => self.each(selection, to, |run, lane| {
                Ok(functions::floats_hold(
                    comparison,
                    run.registers.float(left, lane),
                    run.registers.float(right, lane),
                ))
            }),
            Type::Int | Type::Bool => self.each(selection, to, |run, lane| {
                let (left, right) = (
                    run.registers.int(left, lane),
                    run.registers.int(right, lane),
                );
                Ok(functions::holds(comparison, left.cmp(&right)))
            }),
        }
    }

    fn convert(
        &mut self,
        selection: &Selection,
        conversion: Conversion,
        to: Register,
        from: Register,
    ) {
        match conversion {
            Conversion::IntToFloat => self.each(selection, to, |run, lane| {
                Ok(run.registers.int(from, lane) as f64)
            }),
            Conversion::FloatToInt => {
                self.each(selection, to, |run, lane| {
                    functions::float_to_int(run.registers.float(from, lane))
                });
            }
            Conversion::BoolToInt => {
                self.each(selection, to, |run, lane| Ok(run.registers.int(from, lane)))
            }
            Conversion::TextToInt => self.each(selection, to, |run, lane| {
                functions::text_to_int(text(run.arena, run.registers.view(from, lane)))
            }),
            Conversion::TextToFloat => self.each(selection, to, |run, lane| {
                functions::text_to_float(text(run.arena, run.registers.view(from, lane)))
            }),
            Conversion::ToText => {
                let kind = self.kind(from);
                self.each_made(selection, to, |run, lane, made| {
                    let cell = run.registers.column(from)[usize::from(lane)];
                    if kind == Type::Text {
                        return Ok(Some(unpack(cell)));
                    }
                    print(kind, cell, made);
                    Ok(None)
                });
            }
        }
    }

    fn request(&mut self, selection: &Selection, arguments: &[Register]) {
        let call = self.stage.call.expect("a stage that asks ends with a call");
        let form = &self.program.calls[call].form;
        for &lane in selection {
            let (registers, arena, stage) = (&*self.registers, &*self.arena, self.stage);
            let arguments =
                arguments
                    .iter()
                    .map(|&register| match stage.registers[usize::from(register)] {
                        Type::Text => Argument::Text(arena.get(registers.view(register, lane))),
                        Type::Int => Argument::Int(registers.int(register, lane)),
                        Type::Float => Argument::Float(registers.float(register, lane)),
                        Type::Bool => Argument::Bool(registers.bool(register, lane)),
                    });
            let index = self.lanes.index[usize::from(lane)];
            let charge = form.charge(arguments.clone());
            if self.lanes.charge(lane, charge) && !self.requests.push(index, arguments) {
                self.lanes.fail(lane, LaneError::TooLarge);
            }
        }
    }

    fn concat(&mut self, selection: &Selection, to: Register, parts: &[Register]) {
        for &lane in selection {
            let length: usize = parts
                .iter()
                .map(|part| self.registers.view(*part, lane).length as usize)
                .sum();
            if !self.lanes.charge(lane, length) {
                continue;
            }
            if !self.arena.has_room(length) {
                self.lanes.fail(lane, LaneError::TooLarge);
                continue;
            }
            let view = self.arena.push_with(|arena| {
                for part in parts {
                    let View { offset, length } = self.registers.view(*part, lane);
                    arena.extend_from_within(offset as usize..(offset + length) as usize);
                }
            });
            self.registers.set(to, lane, view);
        }
    }

    /// MD5 for all lanes at once.
    fn digests(&mut self, selection: &Selection, to: Register, from: Register) {
        let mut digests = [[0; 32]; STRIP];
        {
            let texts = selection
                .iter()
                .map(|lane| self.arena.get(self.registers.view(from, *lane)));
            md5::hex_digests(texts, &mut digests, self.level);
        }
        for (&lane, digest) in selection.iter().zip(&digests) {
            self.keep(lane, to, digest);
        }
    }

    /// Finds the turns that each lane's loop takes, and sets `length` to how many.
    fn positions(
        &mut self,
        selection: &Selection,
        count: Register,
        filter: Option<&LoopFilter>,
        position: Register,
        length: Register,
    ) -> Positions {
        for &lane in selection {
            let count = self.registers.int(count, lane).max(0);
            let left = &mut self.lanes.turns_left[usize::from(lane)];
            match usize::try_from(count)
                .ok()
                .and_then(|count| left.checked_sub(count))
            {
                Some(less) => *left = less,
                None => self.lanes.fail(lane, LaneError::TooManyTurns),
            }
            self.registers.set(length, lane, count);
        }
        let Some(filter) = filter else {
            return Positions::All;
        };
        let mut kept = vec![Vec::new(); STRIP];
        // The filter's block may not change `count`, but `length` may be the same register as
        // nothing else, so it serves to remember the counts.
        let mut turning = self.selection();
        turning.extend(selection.iter().filter(|lane| self.lanes.runs(**lane)));
        for at in 0.. {
            turning.retain(|lane| at < self.registers.int(length, *lane));
            if turning.is_empty() {
                break;
            }
            for &lane in &turning {
                self.registers.set(position, lane, at);
            }
            self.block(&filter.block, &mut turning);
            for &lane in &turning {
                if self.registers.bool(filter.keep, lane) {
                    kept[usize::from(lane)].push(at);
                }
            }
        }
        self.selections.push(turning);
        for &lane in selection {
            self.registers
                .set(length, lane, kept[usize::from(lane)].len() as i64);
        }
        Positions::Kept(kept)
    }

    /// Runs a loop's body turn by turn, each time for the lanes that still have one, and its else
    /// for those that had none.
    fn turns(
        &mut self,
        selection: &Selection,
        positions: &Positions,
        [position, index, length]: [Register; 3],
        body: &[Op],
        otherwise: &[Op],
    ) {
        let mut turning = self.selection();
        let mut idle = self.selection();
        for &lane in selection.iter().filter(|lane| self.lanes.runs(**lane)) {
            if self.registers.int(length, lane) > 0 {
                turning.push(lane);
            } else {
                idle.push(lane);
            }
        }
        for turn in 0.. {
            // The body never writes `length`: the loop owns the register.
            turning.retain(|lane| turn < self.registers.int(length, *lane));
            if turning.is_empty() {
                break;
            }
            for &lane in &turning {
                let at = match positions {
                    Positions::All => turn,
                    Positions::Kept(kept) => kept[usize::from(lane)][turn as usize],
                };
                self.registers.set(position, lane, at);
                self.registers.set(index, lane, turn);
            }
            self.block(body, &mut turning);
        }
        self.block(otherwise, &mut idle);
        self.selections.extend([turning, idle]);
    }

    fn put(&mut self, selection: &Selection, from: Register, escape: Escape) {
        let cells = self.registers.column(from);
        let kind = self.stage.registers[usize::from(from)];
        if kind == Type::Text {
            self.regions
                .put_texts(self.lanes, selection, cells, self.arena, escape, self.level);
        } else {
            self.regions
                .put_printed(self.lanes, selection, cells, |cell, text| {
                    print(kind, cell, text)
                });
        }
    }
}

/// A text that was checked where it entered the cohort.
fn text(arena: &Arena, view: View) -> &str {
    std::str::from_utf8(arena.get(view)).expect("texts are checked where they enter a cohort")
}

/// Appends a number or truth value as output prints it.
fn print(kind: Type, cell: u64, to: &mut Vec<u8>) {
    match kind {
        Type::Int => functions::print_int(cell as i64, to),
        Type::Float => functions::print_float(f64::from_bits(cell), to),
        Type::Bool => to.extend_from_slice(functions::print_bool(cell != 0)),
        Type::Text => unreachable!("texts are put, not printed"),
    }
}

/// A constant's cell.
fn constant_cell(constant: &Constant) -> u64 {
    match *constant {
        Constant::Text { offset, length } => View { offset, length }.pack(),
        Constant::Int(value) => value.pack(),
        Constant::Float(value) => value.pack(),
        Constant::Bool(value) => value.pack(),
    }
}
