//! The reference executor: one request at a time, in plain code.
//!
//! It runs a stage's whole program for the first lane, then for the second, and so on, as a server
//! that does not know cohorts would. It is the baseline that the others are measured against and
//! the reference whose bytes they must equal, so it is written to be evidently right: no batching,
//! no SIMD, checked indexing.

use super::functions::{self, LaneLimits, Made};
use super::{Executor, ROWS_MAX, Refusal, Work};
use crate::cohort::{Arena, BackendRequest, Cohort, Column, LaneError, LaneState, Span, View};
use crate::cohort::{LaneOutput, Output, Segment, SessionChange};
use crate::program::{
    Block, CallResult, Constant, Conversion, Escape, LoopFilter, Op, PageProgram, Register,
    TextTest, Type,
};

/// Fragments of at most this many bytes are folded into the run: copying them costs less than a
/// segment.
pub const FOLD_BYTES_MAX: usize = 128;

/// The scalar executor. A submitted stage is complete at the next poll.
#[derive(Debug, Default)]
pub struct Scalar {
    limits: LaneLimits,
    done: Vec<Work>,
}

impl Scalar {
    /// An executor with these limits.
    pub fn new(limits: LaneLimits) -> Self {
        Scalar {
            limits,
            done: Vec::new(),
        }
    }
}

impl Executor for Scalar {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn submit(&mut self, mut work: Work) -> Result<(), Refusal> {
        let program = &work.service.pages[work.page];
        run_stage(
            program,
            &work.service.fragments,
            &mut work.cohort,
            self.limits,
        );
        self.done.push(work);
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// Runs the cohort's next stage.
fn run_stage(
    program: &PageProgram,
    fragments: &[Box<[u8]>],
    cohort: &mut Cohort,
    limits: LaneLimits,
) {
    if cohort.stage > 0 {
        decode_answers(program, cohort);
    }
    let stage = &program.stages[cohort.stage];
    cohort
        .output
        .lanes
        .resize(cohort.lanes.len(), LaneOutput::default());
    cohort.output.runs.truncate(cohort.output.runs_used);
    cohort.output.segments.truncate(cohort.output.segments_used);
    for index in 0..cohort.lanes.len() {
        if cohort.lanes[index] != LaneState::Active {
            continue;
        }
        let mut registers: Vec<Value> = stage
            .registers
            .iter()
            .map(|kind| Value::empty(*kind))
            .collect();
        for (register, constant) in &stage.constants {
            registers[usize::from(*register)] = Value::from(constant);
        }
        let output = &mut cohort.output;
        let mut lane = Lane {
            program,
            fragments,
            limits,
            fields: &cohort.fields,
            index,
            arena: &mut cohort.arena,
            requests: &mut cohort.requests,
            registers,
            answer: LaneOutput {
                run_start: output.runs.len(),
                segment_start: output.segments.len() as u32,
                ..LaneOutput::default()
            },
            output,
            text_left: limits.text_bytes,
            turns_left: limits.turns,
        };
        let result = lane.run(&stage.body);
        let answer = lane.answer;
        let finished = match result {
            Ok(()) => stage.call.is_none(),
            Err(Stop::Finished) => true,
            Err(Stop::Failed(error)) => {
                cohort.lanes[index] = LaneState::Failed(error);
                cohort.output.runs.truncate(answer.run_start);
                cohort
                    .output
                    .segments
                    .truncate(answer.segment_start as usize);
                drop_last_while(&mut cohort.output.headers, |(lane, ..)| {
                    *lane as usize == index
                });
                drop_last_while(&mut cohort.requests, |r| r.lane as usize == index);
                continue;
            }
        };
        if finished {
            cohort.lanes[index] = LaneState::Finished;
            cohort.output.lanes[index] = LaneOutput {
                run_length: (cohort.output.runs.len() - answer.run_start) as u32,
                segment_count: cohort.output.segments.len() as u32 - answer.segment_start,
                ..answer
            };
        }
    }
    cohort.output.runs_used = cohort.output.runs.len();
    cohort.output.segments_used = cohort.output.segments.len();
    cohort.stage += 1;
}

/// Puts the answers of the previous stage's call into their fields and clears the requests.
fn decode_answers(program: &PageProgram, cohort: &mut Cohort) {
    let call = &program.calls[cohort.stage - 1];
    let kinds: Vec<Type> = match &call.result {
        CallResult::Rows(list) => {
            let list = cohort.fields[usize::from(*list)].list();
            let kind = |c: &Column| {
                if matches!(c, Column::Text(_)) {
                    Type::Text
                } else {
                    Type::Int
                }
            };
            list.columns.iter().map(kind).collect()
        }
        CallResult::Row(fields) => fields
            .iter()
            .map(|f| match cohort.fields[usize::from(*f)] {
                Column::Text(_) => Type::Text,
                _ => Type::Int,
            })
            .collect(),
    };
    let requests = std::mem::take(&mut cohort.requests);
    let mut of_lanes = requests.chunk_by(|a, b| a.lane == b.lane).peekable();
    for lane in 0..cohort.lanes.len() {
        let own = of_lanes
            .next_if(|own| own[0].lane as usize == lane)
            .unwrap_or_default();
        if cohort.lanes[lane] != LaneState::Active {
            continue;
        }
        let mut status = 0;
        let mut rows = Vec::new();
        let mut readable = true;
        for request in own {
            match request
                .answer
                .and_then(|answer| decode_answer(&cohort.arena, answer, &kinds))
            {
                Some((0, more)) => rows.extend(more),
                Some((bad, _)) => status = if status == 0 { bad } else { status },
                None => readable = false,
            }
        }
        let one_row_missing =
            matches!(call.result, CallResult::Row(_)) && status == 0 && rows.len() != 1;
        if !readable || one_row_missing {
            cohort.fail(lane, LaneError::BadAnswer);
            continue;
        }
        cohort.fields[usize::from(call.status)].set_int(lane, status);
        match &call.result {
            CallResult::Rows(list) => {
                let list = cohort.fields[usize::from(*list)].list_mut();
                list.spans[lane] = Span {
                    start: list.columns.first().map_or(0, Column::len) as u32,
                    length: rows.len() as u32,
                };
                for row in rows {
                    for (column, value) in list.columns.iter_mut().zip(row) {
                        match (column, value) {
                            (Column::Int(values), Value::Int(value)) => values.push(value),
                            (Column::Text(views), Value::Text(view)) => views.push(view),
                            _ => unreachable!("cells are decoded by their column's type"),
                        }
                    }
                }
            }
            CallResult::Row(fields) => {
                for (field, value) in fields.iter().zip(rows.into_iter().flatten()) {
                    match value {
                        Value::Int(value) => {
                            cohort.fields[usize::from(*field)].set_int(lane, value)
                        }
                        Value::Text(view) => {
                            cohort.fields[usize::from(*field)].set_text(lane, view)
                        }
                        _ => unreachable!("fields are texts and integers"),
                    }
                }
            }
        }
    }
    cohort.requests = requests;
    cohort.requests.clear();
}

/// Reads an answer's body by the rules of BeSim (see `rhythm_protocol::besim`), but line by line:
/// status and, if that is 0, the rows. `None` where it breaks a rule.
fn decode_answer(arena: &Arena, answer: View, kinds: &[Type]) -> Option<(i64, Vec<Vec<Value>>)> {
    let body = arena.get(answer);
    let view = |part: &[u8]| View {
        offset: answer.offset + (part.as_ptr() as usize - body.as_ptr() as usize) as u32,
        length: part.len() as u32,
    };
    let mut lines = body.split(|b| *b == b'\n');
    lines.find(|line| *line == b"<pre>")?;
    let [digit @ b'0'..=b'9'] = lines.next()? else {
        return None;
    };
    let mut rows = Vec::new();
    if *digit != b'0' {
        return Some((i64::from(digit - b'0'), rows));
    }
    loop {
        let line = lines.next()?;
        if line == b"</pre>" {
            return Some((0, rows));
        }
        let cells: Vec<&[u8]> = line.split(|b| *b == b'&').collect();
        let is_sound = !line.iter().any(u8::is_ascii_control) && cells.len() == kinds.len();
        if !is_sound || rows.len() == ROWS_MAX as usize {
            return None;
        }
        let cell = |(cell, kind): (&&[u8], &Type)| {
            let text = std::str::from_utf8(cell).ok()?;
            match kind {
                Type::Int => text.parse().ok().map(Value::Int),
                _ => Some(Value::Text(view(cell))),
            }
        };
        rows.push(cells.iter().zip(kinds).map(cell).collect::<Option<_>>()?);
    }
}

/// A register's value.
#[derive(Clone, Copy, Debug)]
enum Value {
    Text(View),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Value {
    fn empty(kind: Type) -> Value {
        match kind {
            Type::Text => Value::Text(View::default()),
            Type::Int => Value::Int(0),
            Type::Float => Value::Float(0.0),
            Type::Bool => Value::Bool(false),
        }
    }
}

impl From<&Constant> for Value {
    fn from(constant: &Constant) -> Value {
        match *constant {
            Constant::Text { offset, length } => Value::Text(View { offset, length }),
            Constant::Int(value) => Value::Int(value),
            Constant::Float(value) => Value::Float(value),
            Constant::Bool(value) => Value::Bool(value),
        }
    }
}

/// Takes elements off the end as long as they are some lane's.
fn drop_last_while<T>(elements: &mut Vec<T>, is_lanes: impl Fn(&T) -> bool) {
    while elements.last().is_some_and(&is_lanes) {
        elements.pop();
    }
}

/// Why a lane's program ends before its end.
enum Stop {
    Finished,
    Failed(LaneError),
}

impl From<LaneError> for Stop {
    fn from(error: LaneError) -> Stop {
        Stop::Failed(error)
    }
}

type Outcome = Result<(), Stop>;

/// One lane under way.
struct Lane<'a> {
    program: &'a PageProgram,
    fragments: &'a [Box<[u8]>],
    limits: LaneLimits,
    fields: &'a [Column],
    index: usize,
    arena: &'a mut Arena,
    requests: &'a mut Vec<BackendRequest>,
    registers: Vec<Value>,
    answer: LaneOutput,
    output: &'a mut Output,
    text_left: usize,
    turns_left: usize,
}

impl Lane<'_> {
    fn run(&mut self, block: &Block) -> Outcome {
        block.iter().try_for_each(|op| self.step(op))
    }

    fn step(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Copy { to, from } => self.set(*to, self.registers[usize::from(*from)]),
            Op::Field { to, field } => {
                let value = self.cell(&self.fields[usize::from(*field)], self.index);
                self.set(*to, value);
            }
            Op::Length { to, list } => {
                let span = self.fields[usize::from(*list)].list().spans[self.index];
                self.set(*to, Value::Int(i64::from(span.length)));
            }
            Op::Item {
                to,
                list,
                column,
                position,
            } => {
                let list = self.fields[usize::from(*list)].list();
                let span = list.spans[self.index];
                let position = u32::try_from(self.int(*position))
                    .ok()
                    .filter(|p| *p < span.length);
                let item = span.start + position.ok_or(LaneError::OutOfRange)?;
                let value = self.cell(&list.columns[usize::from(*column)], item as usize);
                self.set(*to, value);
            }
            Op::ConstantItem {
                to,
                table,
                position,
            } => {
                let table = &self.program.tables[usize::from(*table)];
                let item = usize::try_from(self.int(*position))
                    .ok()
                    .and_then(|p| table.get(p));
                self.set(*to, Value::from(item.ok_or(LaneError::OutOfRange)?));
            }
            Op::Arithmetic {
                operator,
                to,
                left,
                right,
            } => {
                let value = match (self.value(*left), self.value(*right)) {
                    (Value::Float(a), Value::Float(b)) => {
                        Value::Float(functions::float(*operator, a, b)?)
                    }
                    _ => Value::Int(functions::int(
                        *operator,
                        self.int(*left),
                        self.int(*right),
                    )?),
                };
                self.set(*to, value);
            }
            Op::Negate { to, from } => {
                let value = match self.value(*from) {
                    Value::Float(a) => Value::Float(-a),
                    _ => Value::Int(self.int(*from).checked_neg().ok_or(LaneError::Overflow)?),
                };
                self.set(*to, value);
            }
            Op::Absolute { to, from } => {
                let value = match self.value(*from) {
                    Value::Float(a) => Value::Float(a.abs()),
                    _ => Value::Int(self.int(*from).checked_abs().ok_or(LaneError::Overflow)?),
                };
                self.set(*to, value);
            }
            Op::Compare {
                comparison,
                to,
                left,
                right,
            } => {
                let value = match (self.value(*left), self.value(*right)) {
                    (Value::Text(a), Value::Text(b)) => {
                        functions::holds(*comparison, self.arena.get(a).cmp(self.arena.get(b)))
                    }
                    (Value::Int(a), Value::Int(b)) => functions::holds(*comparison, a.cmp(&b)),
                    (Value::Float(a), Value::Float(b)) => functions::floats_hold(*comparison, a, b),
                    (Value::Bool(a), Value::Bool(b)) => functions::holds(*comparison, a.cmp(&b)),
                    _ => unreachable!("the compiler compares values of one type"),
                };
                self.set(*to, Value::Bool(value));
            }
            Op::Not { to, from } => self.set(*to, Value::Bool(!self.bool(*from))),
            Op::Truth { to, from } => {
                let value = match self.value(*from) {
                    Value::Text(view) => view.length > 0,
                    Value::Int(value) => value != 0,
                    Value::Float(value) => value != 0.0,
                    Value::Bool(value) => value,
                };
                self.set(*to, Value::Bool(value));
            }
            Op::Convert {
                conversion,
                to,
                from,
            } => {
                let value = self.convert(*conversion, *from)?;
                self.set(*to, value);
            }
            Op::Concat { to, parts } => {
                let mut text = Vec::new();
                for part in parts {
                    text.extend_from_slice(self.arena.get(self.view(*part)));
                }
                let view = self.make(&text)?;
                self.set(*to, Value::Text(view));
            }
            Op::Text { function, to, from } => {
                let operand = self.view(*from);
                let mut made = Vec::new();
                let view = match functions::text(*function, self.text(*from), &mut made) {
                    Made::New => self.make(&made)?,
                    Made::Part(range) => View {
                        offset: operand.offset + range.start as u32,
                        length: range.len() as u32,
                    },
                };
                self.set(*to, Value::Text(view));
            }
            Op::Replace { to, from, old, new } => {
                let (text, old, new) = (self.text(*from), self.text(*old), self.text(*new));
                if functions::replaced_length(text, old, new) > self.text_left {
                    return Err(LaneError::TooLarge.into());
                }
                let made = text.replace(old, new);
                let view = self.make(made.as_bytes())?;
                self.set(*to, Value::Text(view));
            }
            Op::TextTest {
                test,
                to,
                left,
                right,
            } => {
                let (left, right) = (self.text(*left), self.text(*right));
                let value = match test {
                    TextTest::Contains => left.contains(right),
                    TextTest::StartsWith => left.starts_with(right),
                    TextTest::EndsWith => left.ends_with(right),
                };
                self.set(*to, Value::Bool(value));
            }
            Op::TextLength { to, from } => {
                let length = self.text(*from).chars().count();
                self.set(*to, Value::Int(length as i64));
            }
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                self.run(if self.bool(*condition) {
                    then
                } else {
                    otherwise
                })?;
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
                let kept = self.positions(*count, filter.as_ref(), *position)?;
                self.set(*length, Value::Int(kept.len() as i64));
                for (turn, at) in kept.iter().enumerate() {
                    self.set(*position, Value::Int(*at));
                    self.set(*index, Value::Int(turn as i64));
                    self.run(body)?;
                }
                if kept.is_empty() {
                    self.run(otherwise)?;
                }
            }
            Op::Fragment { fragment } => {
                let text = &self.fragments[*fragment as usize];
                self.grow_body(text.len())?;
                if text.len() <= FOLD_BYTES_MAX {
                    self.output.runs.extend_from_slice(text);
                } else {
                    self.output.segments.push(Segment {
                        run_end: (self.output.runs.len() - self.answer.run_start) as u32,
                        fragment: *fragment,
                    });
                }
            }
            Op::Put { from, escape } => self.put(*from, *escape)?,
            Op::Request { text } => {
                let text = self.view(*text);
                self.charge(text.length as usize)?;
                self.requests.push(BackendRequest {
                    lane: self.index as u32,
                    text,
                    answer: None,
                });
            }
            Op::Status { status } => self.answer.status = *status,
            Op::Header { name, value } => {
                let value = self.view(*value);
                self.output.headers.push((self.index as u32, *name, value));
            }
            Op::File { path } => self.answer.file = Some(self.view(*path)),
            Op::SessionCreate { user } => {
                self.answer.session = SessionChange::Create(self.int(*user))
            }
            Op::SessionDestroy => self.answer.session = SessionChange::Destroy,
            Op::Finish => return Err(Stop::Finished),
        }
        Ok(())
    }

    /// The positions a loop takes.
    fn positions(
        &mut self,
        count: Register,
        filter: Option<&LoopFilter>,
        position: Register,
    ) -> Result<Vec<i64>, Stop> {
        let count = self.int(count).max(0);
        let left = usize::try_from(count)
            .ok()
            .and_then(|turns| self.turns_left.checked_sub(turns));
        self.turns_left = left.ok_or(LaneError::TooManyTurns)?;
        let mut kept = Vec::new();
        for at in 0..count {
            if let Some(filter) = filter {
                self.set(position, Value::Int(at));
                self.run(&filter.block)?;
                if !self.bool(filter.keep) {
                    continue;
                }
            }
            kept.push(at);
        }
        Ok(kept)
    }

    fn convert(&mut self, conversion: Conversion, from: Register) -> Result<Value, Stop> {
        Ok(match conversion {
            Conversion::IntToFloat => Value::Float(self.int(from) as f64),
            Conversion::FloatToInt => Value::Int(functions::float_to_int(self.float(from))?),
            Conversion::BoolToInt => Value::Int(i64::from(self.bool(from))),
            Conversion::TextToInt => Value::Int(functions::text_to_int(self.text(from))?),
            Conversion::TextToFloat => Value::Float(functions::text_to_float(self.text(from))?),
            Conversion::ToText => match self.value(from) {
                text @ Value::Text(_) => text,
                value => {
                    let mut text = Vec::new();
                    print(value, &mut text);
                    Value::Text(self.make(&text)?)
                }
            },
        })
    }

    fn put(&mut self, from: Register, escape: Escape) -> Outcome {
        let start = self.output.runs.len();
        match self.value(from) {
            Value::Text(view) => {
                functions::escape(escape, self.arena.get(view), &mut self.output.runs)
            }
            value => print(value, &mut self.output.runs),
        }
        self.grow_body(self.output.runs.len() - start)
    }

    /// Accounts for bytes of the body.
    fn grow_body(&mut self, bytes: usize) -> Outcome {
        let length = self.answer.body_length as usize + bytes;
        if length > self.limits.body_bytes {
            return Err(LaneError::TooLarge.into());
        }
        self.answer.body_length = length as u32;
        Ok(())
    }

    /// Accounts for text made.
    fn charge(&mut self, bytes: usize) -> Outcome {
        self.text_left = self
            .text_left
            .checked_sub(bytes)
            .ok_or(LaneError::TooLarge)?;
        Ok(())
    }

    /// Stores a text made.
    fn make(&mut self, text: &[u8]) -> Result<View, Stop> {
        self.charge(text.len())?;
        if !self.arena.has_room(text.len()) {
            return Err(LaneError::TooLarge.into());
        }
        Ok(self.arena.push(text))
    }

    fn cell(&self, column: &Column, at: usize) -> Value {
        match column {
            Column::Text(views) => Value::Text(views[at]),
            Column::Int(values) => Value::Int(values[at]),
            Column::List(_) => unreachable!("lists are read item by item"),
        }
    }

    fn set(&mut self, to: Register, value: Value) {
        self.registers[usize::from(to)] = value;
    }

    fn value(&self, register: Register) -> Value {
        self.registers[usize::from(register)]
    }

    fn view(&self, register: Register) -> View {
        match self.value(register) {
            Value::Text(view) => view,
            other => unreachable!("the compiler types registers: {other:?} is no text"),
        }
    }

    fn text(&self, register: Register) -> &str {
        std::str::from_utf8(self.arena.get(self.view(register)))
            .expect("texts are checked where they enter a cohort")
    }

    fn int(&self, register: Register) -> i64 {
        match self.value(register) {
            Value::Int(value) => value,
            other => unreachable!("the compiler types registers: {other:?} is no integer"),
        }
    }

    fn float(&self, register: Register) -> f64 {
        match self.value(register) {
            Value::Float(value) => value,
            other => unreachable!("the compiler types registers: {other:?} is no float"),
        }
    }

    fn bool(&self, register: Register) -> bool {
        match self.value(register) {
            Value::Bool(value) => value,
            other => unreachable!("the compiler types registers: {other:?} is no truth value"),
        }
    }
}

/// Appends a number or truth value as output prints it.
fn print(value: Value, to: &mut Vec<u8>) {
    match value {
        Value::Int(value) => functions::print_int(value, to),
        Value::Float(value) => functions::print_float(value, to),
        Value::Bool(value) => to.extend_from_slice(functions::print_bool(value)),
        Value::Text(_) => unreachable!("texts are put, not printed"),
    }
}
