//! The reference executor: one request at a time, in plain code.
//!
//! It runs a stage's whole program for the first lane, then for the second, and so on, as a server
//! that does not know cohorts would. It is the baseline that the others are measured against and
//! the reference whose bytes they must equal, so it is written to be evidently right: no batching,
//! no SIMD, checked indexing.

use super::functions::{self, LaneLimits, Made};
use super::{Executor, Refusal, Work};
use crate::cohort::{Arena, Argument, Cohort, Column, LaneError, LaneState, Requests, View};
use crate::cohort::{LaneOutput, Output, Segment, SessionChange};
use crate::program::{
    Block, Constant, Conversion, Escape, LoopFilter, Op, PageProgram, Register, StageProgram,
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
        let requests_before = cohort.requests.len();
        let output = &mut cohort.output;
        let mut lane = Lane {
            program,
            stage,
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
                cohort.requests.truncate(requests_before);
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
    stage: &'a StageProgram,
    fragments: &'a [Box<[u8]>],
    limits: LaneLimits,
    fields: &'a [Column],
    index: usize,
    arena: &'a mut Arena,
    requests: &'a mut Requests,
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
            Op::Request { arguments } => self.request(arguments)?,
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

    fn request(&mut self, arguments: &[Register]) -> Outcome {
        let call = self.stage.call.expect("a stage that asks ends with a call");
        let (registers, arena) = (&self.registers, &*self.arena);
        let arguments = arguments
            .iter()
            .map(|register| match registers[usize::from(*register)] {
                Value::Text(view) => Argument::Text(arena.get(view)),
                Value::Int(value) => Argument::Int(value),
                Value::Float(value) => Argument::Float(value),
                Value::Bool(value) => Argument::Bool(value),
            });
        let cost = self.program.calls[call].form.charge(arguments.clone());
        self.text_left = (self.text_left.checked_sub(cost)).ok_or(LaneError::TooLarge)?;
        match self.requests.push(self.index as u32, arguments) {
            true => Ok(()),
            false => Err(LaneError::TooLarge.into()),
        }
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
