//! One lane under way: the operations in plain code.

use super::value::Value;
use crate::cohort::{Arena, Argument, Cohort, Column, LaneError, Queries, View};
use crate::cohort::{LaneOutput, Output, Segment, SessionChange};
use crate::device::functions::{self, Made};
use crate::device::limits::{FOLD_BYTES_MAX, LaneLimits};
use crate::device::{choices, cost, formatting};
use crate::program::{
    Binary, Block, Call, Choice, Comparison, Concat, ConstantItem, Conversion, For, Format,
    FragmentId, Item, Op, PageProgram, Put, Register, Replace, StageProgram, TextFunction,
    TextTest,
};

/// Why a lane's program ends before its end.
pub(super) enum Stop {
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
pub(super) struct Lane<'a> {
    pub(super) program: &'a PageProgram,
    pub(super) stage: &'a StageProgram,
    /// The call that ends the stage.
    pub(super) call: Option<&'a Call>,
    pub(super) fragments: &'a [Box<[u8]>],
    pub(super) limits: LaneLimits,
    pub(super) fields: &'a [Column],
    pub(super) index: usize,
    pub(super) arena: &'a mut Arena,
    pub(super) queries: &'a mut Queries,
    pub(super) registers: Vec<Value>,
    pub(super) answer: LaneOutput,
    pub(super) output: &'a mut Output,
    text_left: usize,
    turns_left: usize,
    /// The register by which to tell where it failed: see [`Op::spot`].
    pub(super) failed_at: Option<Register>,
}

impl<'a> Lane<'a> {
    /// A lane of a cohort, before its next stage.
    pub(super) fn begin(
        program: &'a PageProgram,
        fragments: &'a [Box<[u8]>],
        cohort: &'a mut Cohort,
        index: usize,
        limits: LaneLimits,
    ) -> Lane<'a> {
        let stage = &program.stages[cohort.stage];
        let mut registers: Vec<Value> = stage
            .registers
            .iter()
            .map(|kind| Value::empty(*kind))
            .collect();
        for (register, constant) in &stage.constants {
            registers[usize::from(*register)] = Value::from(constant);
        }
        let output = &mut cohort.output;
        Lane {
            program,
            stage,
            call: stage.call.and_then(|call| program.calls.get(call)),
            fragments,
            limits,
            fields: &cohort.fields,
            index,
            arena: &mut cohort.arena,
            queries: &mut cohort.queries,
            registers,
            answer: LaneOutput {
                run_start: output.runs.len(),
                segment_start: output.segments.len() as u32,
                ..LaneOutput::default()
            },
            output,
            text_left: limits.text_bytes_max,
            turns_left: limits.turns_max,
            failed_at: None,
        }
    }

    pub(super) fn run(&mut self, block: &Block) -> Outcome {
        for op in block {
            if let Err(stop) = self.step(op) {
                // The innermost knows best, if it knows.
                self.failed_at = self.failed_at.or_else(|| op.spot());
                return Err(stop);
            }
        }
        Ok(())
    }

    fn step(&mut self, op: &Op) -> Outcome {
        let kinds = &self.stage.registers;
        if cost::may_read(op, |register| kinds[usize::from(register)]) {
            self.charge(cost::read(op, |text| self.view(text).length as usize))?;
        }
        match op {
            Op::Copy(op) => self.set(op.to, self.value(op.from)),
            Op::Field(op) => {
                let column = &self.fields[usize::from(op.field)];
                self.set(op.to, cell(column, self.index));
            }
            Op::Length(op) => {
                let span = self.fields[usize::from(op.field)].list().spans[self.index];
                self.set(op.to, Value::Int(i64::from(span.length)));
            }
            Op::Item(op) => self.set(op.to, self.item(op)?),
            Op::ConstantItem(op) => self.set(op.to, self.constant_item(op)?),
            Op::Arithmetic(operator, Binary { to, left, right }) => {
                let value = self
                    .value(*left)
                    .arithmetic(*operator, self.value(*right))?;
                self.set(*to, value);
            }
            Op::Negate(op) => self.set(op.to, self.value(op.from).negate()?),
            Op::Absolute(op) => self.set(op.to, self.value(op.from).absolute()?),
            Op::Compare(comparison, op) => {
                self.set(op.to, Value::Bool(self.compare(*comparison, op)));
            }
            Op::Not(op) => self.set(op.to, Value::Bool(!self.value(op.from).bool())),
            Op::Truth(op) => self.set(op.to, Value::Bool(self.value(op.from).is_true())),
            Op::Convert(conversion, op) => {
                let value = self.convert(*conversion, op.from)?;
                self.set(op.to, value);
            }
            Op::ConvertOr(conversion, op) => {
                let converted = self.convert(*conversion, op.left);
                let value = converted.unwrap_or_else(|_| self.value(op.right));
                self.set(op.to, value);
            }
            Op::Concat(op) => self.concat(op)?,
            Op::Append(op) => self.append(op)?,
            Op::Text(function, op) => {
                let view = self.text_function(*function, op.from)?;
                self.set(op.to, Value::Text(view));
            }
            Op::Replace(op) => self.replace(op)?,
            Op::Format(op) => self.format(op)?,
            Op::TextTest(test, op) => {
                let (left, right) = (self.text(op.left), self.text(op.right));
                let value = match test {
                    TextTest::Contains => left.contains(right),
                    TextTest::StartsWith => left.starts_with(right),
                    TextTest::EndsWith => left.ends_with(right),
                };
                self.set(op.to, Value::Bool(value));
            }
            Op::TextLength(op) => {
                let length = self.text(op.from).chars().count();
                self.set(op.to, Value::Int(length as i64));
            }
            Op::If(op) => {
                let holds = self.value(op.condition).bool();
                self.run(if holds { &op.then } else { &op.otherwise })?;
            }
            Op::For(op) => self.repeat(op)?,
            Op::Fragment(fragment) => self.fragment(*fragment)?,
            Op::Put(op) => self.put(op)?,
            Op::Query(op) => self.query(&op.arguments)?,
            Op::Status(status) => self.answer.status = *status,
            Op::Header(op) => {
                let header = (self.index as u32, op.name, self.view(op.value));
                self.output.headers.push(header);
            }
            Op::File(path) => self.answer.file = Some(self.view(*path)),
            Op::SessionCreate(user) => {
                self.answer.session = SessionChange::Create(self.value(*user).int());
            }
            Op::SessionDestroy => self.answer.session = SessionChange::Destroy,
            Op::Finish => return Err(Stop::Finished),
        }
        Ok(())
    }

    fn item(&self, op: &Item) -> Result<Value, LaneError> {
        let list = self.fields[usize::from(op.list)].list();
        let span = list.spans[self.index];
        let position = u32::try_from(self.value(op.position).int())
            .ok()
            .filter(|position| *position < span.length);
        let item = span.start + position.ok_or(LaneError::OutOfRange)?;
        Ok(cell(&list.columns[usize::from(op.column)], item as usize))
    }

    fn constant_item(&self, op: &ConstantItem) -> Result<Value, LaneError> {
        let table = &self.program.tables[usize::from(op.table)];
        let item = usize::try_from(self.value(op.position).int())
            .ok()
            .and_then(|position| table.get(position));
        Ok(Value::from(item.ok_or(LaneError::OutOfRange)?))
    }

    fn compare(&self, comparison: Comparison, op: &Binary) -> bool {
        match (self.value(op.left), self.value(op.right)) {
            (Value::Text(a), Value::Text(b)) => {
                comparison.holds(self.arena.get(a).cmp(self.arena.get(b)))
            }
            (Value::Int(a), Value::Int(b)) => comparison.holds(a.cmp(&b)),
            (Value::Float(a), Value::Float(b)) => functions::floats_hold(comparison, a, b),
            (Value::Bool(a), Value::Bool(b)) => comparison.holds(a.cmp(&b)),
            _ => unreachable!("the compiler compares values of one type"),
        }
    }

    fn convert(&mut self, conversion: Conversion, from: Register) -> Result<Value, Stop> {
        let value = self.value(from);
        Ok(match conversion {
            Conversion::IntToFloat => Value::Float(value.int() as f64),
            Conversion::FloatToInt => Value::Int(functions::float_to_int(value.float())?),
            Conversion::BoolToInt => Value::Int(i64::from(value.bool())),
            Conversion::TextToInt => Value::Int(functions::text_to_int(self.text(from))?),
            Conversion::TextToFloat => Value::Float(functions::text_to_float(self.text(from))?),
            Conversion::ToText => match value {
                Value::Text(_) => value,
                _ => {
                    let mut text = Vec::new();
                    value.print(&mut text);
                    Value::Text(self.make(&text)?)
                }
            },
        })
    }

    fn concat(&mut self, op: &Concat) -> Outcome {
        let mut text = Vec::new();
        for part in &op.parts {
            text.extend_from_slice(self.arena.get(self.view(*part)));
        }
        let view = self.make(&text)?;
        self.set(op.to, Value::Text(view));
        Ok(())
    }

    fn append(&mut self, op: &Concat) -> Outcome {
        let parts: Vec<View> = op.parts.iter().map(|part| self.view(*part)).collect();
        self.charge(parts.iter().map(|part| part.length as usize).sum())?;
        let text = self.view(op.to);
        let longer = self.arena.append(text, parts.into_iter());
        self.set(op.to, Value::Text(longer.ok_or(LaneError::ArenaFull)?));
        Ok(())
    }

    fn text_function(&mut self, function: TextFunction, from: Register) -> Result<View, Stop> {
        let operand = self.view(from);
        let mut made = Vec::new();
        Ok(
            match functions::text(function, self.text(from), &mut made) {
                Made::New => self.make(&made)?,
                Made::Part(range) => View {
                    offset: operand.offset + range.start as u32,
                    length: range.len() as u32,
                },
            },
        )
    }

    fn replace(&mut self, op: &Replace) -> Outcome {
        let (text, old, new) = (self.text(op.from), self.text(op.old), self.text(op.new));
        if functions::replaced_length(text, old, new) > self.text_left {
            return Err(LaneError::TooMuchText.into());
        }
        let mut made = Vec::new();
        functions::replace(text, old, new, &mut made);
        let view = self.make(&made)?;
        self.set(op.to, Value::Text(view));
        Ok(())
    }

    fn format(&mut self, op: &Format) -> Outcome {
        let from = op
            .from
            .iter()
            .map(|from| self.value(*from).argument(self.arena));
        let from: Vec<Argument<'_>> = from.collect();
        let mut made = Vec::new();
        formatting::format(op.how, &from, self.text_left, &mut made)?;
        let view = self.make(&made)?;
        self.set(op.to, Value::Text(view));
        Ok(())
    }

    fn repeat(&mut self, op: &For) -> Outcome {
        let kept = self.positions(op)?;
        self.set(op.length, Value::Int(kept.len() as i64));
        for (turn, at) in kept.iter().enumerate() {
            self.set(op.position, Value::Int(*at));
            self.set(op.index, Value::Int(turn as i64));
            self.run(&op.body)?;
        }
        if kept.is_empty() {
            self.run(&op.otherwise)?;
        }
        Ok(())
    }

    /// The positions a loop takes.
    fn positions(&mut self, op: &For) -> Result<Vec<i64>, Stop> {
        let count = self.value(op.count).int().max(0);
        let left = usize::try_from(count)
            .ok()
            .and_then(|turns| self.turns_left.checked_sub(turns));
        self.turns_left = left.ok_or(LaneError::TooManyTurns)?;
        let mut kept: Vec<i64> = (0..count).collect();
        for choice in &op.choices {
            match choice {
                Choice::By(by, key) => {
                    let mut keys = Vec::new();
                    for at in &kept {
                        self.set(op.position, Value::Int(*at));
                        self.run(&key.block)?;
                        keys.push(self.value(key.register));
                    }
                    let keys = keys.into_iter().map(|key| key.argument(self.arena));
                    let keys: Vec<Argument<'_>> = keys.collect();
                    let charge = cost::by_keys(*by, keys.iter().copied());
                    let left = self.text_left.checked_sub(charge);
                    self.text_left = left.ok_or(LaneError::TooMuchText)?;
                    let mut keyed = kept.into_iter().zip(keys).collect();
                    choices::by_key(*by, &mut keyed);
                    kept = keyed.into_iter().map(|(at, _)| at).collect();
                }
                Choice::Reverse => kept.reverse(),
                Choice::Slice { start, stop, step } => {
                    let [start, stop] = [*start, *stop].map(|bound| self.value(bound).int());
                    choices::slice(&mut kept, start, stop, *step as usize);
                }
            }
        }
        Ok(kept)
    }

    fn fragment(&mut self, fragment: FragmentId) -> Outcome {
        let text = &self.fragments[fragment as usize];
        self.grow_body(text.len())?;
        if text.len() <= FOLD_BYTES_MAX {
            self.output.runs.extend_from_slice(text);
        } else {
            self.output.segments.push(Segment {
                run_end: (self.output.runs.len() - self.answer.run_start) as u32,
                fragment,
            });
        }
        Ok(())
    }

    fn query(&mut self, arguments: &[Register]) -> Outcome {
        let call = self.call.expect("a stage that asks ends with a call");
        let (registers, arena) = (&self.registers, &*self.arena);
        let value = |register: &Register| registers[usize::from(*register)].argument(arena);
        let arguments = arguments.iter().map(value);
        let charge = call.form.charge().of(arguments.clone());
        self.text_left = (self.text_left.checked_sub(charge)).ok_or(LaneError::TooMuchText)?;
        match self.queries.push(self.index as u32, arguments) {
            true => Ok(()),
            false => Err(LaneError::ArenaFull.into()),
        }
    }

    fn put(&mut self, op: &Put) -> Outcome {
        let start = self.output.runs.len();
        match self.value(op.from) {
            Value::Text(view) => {
                functions::escape(op.escape, self.arena.get(view), &mut self.output.runs)
            }
            value => value.print(&mut self.output.runs),
        }
        self.grow_body(self.output.runs.len() - start)
    }

    /// Accounts for bytes of the body.
    fn grow_body(&mut self, bytes: usize) -> Outcome {
        let length = self.answer.body_length as usize + bytes;
        if length > self.limits.body_bytes_max {
            return Err(LaneError::TooLarge.into());
        }
        self.answer.body_length = length as u32;
        Ok(())
    }

    /// Accounts for text made, or looked through.
    fn charge(&mut self, bytes: usize) -> Outcome {
        self.text_left = self
            .text_left
            .checked_sub(bytes)
            .ok_or(LaneError::TooMuchText)?;
        Ok(())
    }

    /// Stores a text made.
    fn make(&mut self, text: &[u8]) -> Result<View, Stop> {
        self.charge(text.len())?;
        if !self.arena.reserve(text.len()) {
            return Err(LaneError::ArenaFull.into());
        }
        Ok(self.arena.push(text))
    }

    fn set(&mut self, to: Register, value: Value) {
        self.registers[usize::from(to)] = value;
    }

    fn value(&self, register: Register) -> Value {
        self.registers[usize::from(register)]
    }

    fn view(&self, register: Register) -> View {
        self.value(register).view()
    }

    fn text(&self, register: Register) -> &str {
        std::str::from_utf8(self.arena.get(self.view(register)))
            .expect("texts are checked where they enter a cohort")
    }
}

/// A scalar column's value of a lane, or a list's column's of an item.
fn cell(column: &Column, at: usize) -> Value {
    match column {
        Column::Text(views) => Value::Text(views[at]),
        Column::Int(values) => Value::Int(values[at]),
        Column::List(_) => unreachable!("lists are read item by item"),
    }
}
