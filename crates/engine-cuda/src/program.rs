//! A page's stage programs as the kernels read them: one flat sequence of instructions a stage.
//!
//! The engine's operations nest; a warp wants a program counter. Branches and loops become jumps,
//! laid out so that among lanes at different places the one with the lowest counter is never past a
//! place where the others will join it: the kernel always runs the lowest one, and lanes that
//! parted meet again where their branches end. A loop keeps its state in four registers of its own
//! (count, position, turn, and where the bits of the positions kept are).
//!
//! ```text
//!   if c {then} else {otherwise}     JumpUnless c -> E; then; Jump -> X; E: otherwise; X:
//!   for ... {body} else {otherwise}  LoopBegin -> E; T: Turn -> X; body; TurnEnd -> T; E: otherwise; X:
//! ```
//! With a filter all positions are tried before the first turn, as the reference does, and a bit
//! each remembers which were kept.

use crate::abi::column_slots;
use crate::abi::stage::{
    Code, Constant as StageConstant, DecodedColumn, Fragment, Instruction, text_function,
};
use rhythm_engine::device::FOLD_BYTES_MAX;
use rhythm_engine::program::{
    Binary, Block, CallResult, Constant, Conversion, Escape, FieldType, For, If, Load, Op,
    PageProgram, Put, Register, StageProgram, TextFunction, Type, Unary,
};

/// A stage's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The instructions; the last one ends the program.
    pub(crate) code: Vec<Instruction>,
    /// Registers, those of loops included.
    pub(crate) registers: u32,
    /// Registers that hold constants.
    pub(crate) constants: Vec<StageConstant>,
    /// Operands of concatenations.
    pub(crate) parts: Vec<u16>,
    /// Requests that one pass of the program asks, loops taken as one turn: a first guess at the
    /// room for them.
    pub(crate) requests: u32,
    /// Headers, likewise.
    pub(crate) headers: u32,
    /// Fragments that become segments, likewise.
    pub(crate) segments: u32,
    /// Whether it makes texts, which need room.
    pub(crate) makes_texts: bool,
}

/// What a call's answers are decoded to: slots of columns, and their types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoding {
    /// The slot of the status.
    pub(crate) status: u32,
    /// The slot of the spans; `None` where there is one row, whose columns go to scalar fields.
    pub(crate) spans: Option<u32>,
    /// Each column.
    pub(crate) columns: Vec<DecodedColumn>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its stages.
    pub(crate) stages: Vec<Stage>,
    /// What follows each of its calls.
    pub(crate) decodings: Vec<Decoding>,
    /// The first slot of each field.
    pub(crate) slots: Vec<u32>,
    /// How many slots there are.
    pub(crate) slot_count: u32,
    /// The bits of all its tables of constants.
    pub(crate) tables: Vec<u64>,
}

/// A value's bits in a register: a text's offset and length, an integer, a float's bits, or 0 and
/// 1.
fn bits(constant: &Constant) -> u64 {
    match *constant {
        Constant::Text { offset, length } => u64::from(length) << 32 | u64::from(offset),
        Constant::Int(value) => value as u64,
        Constant::Float(value) => value.to_bits(),
        Constant::Bool(value) => u64::from(value),
    }
}

impl Page {
    /// Encodes a page's programs. `fragments` are where the service's are.
    #[must_use]
    pub(crate) fn encode(program: &PageProgram, fragments: &[Fragment]) -> Page {
        let (slots, slot_count) = column_slots(program);
        let mut tables = Vec::new();
        let table_starts: Vec<u32> = program
            .tables
            .iter()
            .map(|table| {
                let start = tables.len() as u32;
                tables.extend(table.iter().map(bits));
                start
            })
            .collect();
        let stages = program.stages.iter().map(|stage| {
            let mut encoder = Encoder {
                program,
                types: &stage.registers,
                slots: &slots,
                table_starts: &table_starts,
                fragments,
                stage: Stage {
                    registers: stage.registers.len() as u32,
                    constants: constants(stage),
                    ..Stage::default()
                },
            };
            encoder.block(&stage.body);
            encoder.emit(Code::End, 0, 0, 0, 0, 0);
            encoder.stage
        });
        let decodings = program.calls.iter().map(|call| {
            let (spans, columns) = match &call.result {
                CallResult::Rows(list) => {
                    let first = slots[usize::from(*list)];
                    let kinds = match &program.fields[usize::from(*list)].kind {
                        FieldType::List(columns) => columns.as_slice(),
                        FieldType::Scalar(_) => &[],
                    };
                    let columns = (first + 1..).zip(kinds);
                    let columns = columns.map(|(slot, (_, kind))| decoded(slot, *kind));
                    (Some(first), columns.collect())
                }
                CallResult::Row(fields) => {
                    let columns = fields.iter().map(|field| {
                        let field = usize::from(*field);
                        match &program.fields[field].kind {
                            FieldType::Scalar(kind) => decoded(slots[field], *kind),
                            FieldType::List(_) => unreachable!("a row's columns are scalars"),
                        }
                    });
                    (None, columns.collect())
                }
            };
            Decoding {
                status: slots[usize::from(call.status)],
                spans,
                columns,
            }
        });
        Page {
            stages: stages.collect(),
            decodings: decodings.collect(),
            slots: slots.clone(),
            slot_count,
            tables,
        }
    }
}

/// A column that answers are decoded to.
fn decoded(slot: u32, kind: Type) -> DecodedColumn {
    DecodedColumn {
        slot,
        is_text: u32::from(kind == Type::Text),
    }
}

fn constants(stage: &StageProgram) -> Vec<StageConstant> {
    let constants = stage.constants.iter();
    let constants = constants.map(|(register, constant)| StageConstant {
        reg: u32::from(*register),
        unused: 0,
        bits: bits(constant),
    });
    constants.collect()
}

/// A stage under construction.
struct Encoder<'a> {
    program: &'a PageProgram,
    types: &'a [Type],
    slots: &'a [u32],
    table_starts: &'a [u32],
    fragments: &'a [Fragment],
    stage: Stage,
}

impl Encoder<'_> {
    /// Appends an instruction and gives its place.
    fn emit(&mut self, code: Code, a: u16, b: u16, c: u16, d: u32, e: u32) -> usize {
        self.stage.code.push(Instruction {
            code: code as u16,
            a,
            b,
            c,
            d,
            e,
        });
        self.stage.code.len() - 1
    }

    fn here(&self) -> u32 {
        self.stage.code.len() as u32
    }

    /// Makes the jump at `at` lead to what comes next.
    fn land(&mut self, at: usize) {
        self.stage.code[at].d = self.here();
    }

    fn kind(&self, register: Register) -> Type {
        self.types[usize::from(register)]
    }

    fn block(&mut self, block: &Block) {
        for op in block {
            self.op(op);
        }
    }

    /// By the type of a register: for numbers and texts.
    fn by_type(&self, register: Register, text: Code, int: Code, float: Code) -> Code {
        match self.kind(register) {
            Type::Text => text,
            Type::Int | Type::Bool => int,
            Type::Float => float,
        }
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Copy(op) => self.unary(Code::Copy, op, 0),
            Op::Field(Load { to, field }) => {
                self.plain(Code::Field, *to, 0, 0, self.slots[usize::from(*field)]);
            }
            Op::Length(Load { to, field }) => {
                self.plain(Code::Length, *to, 0, 0, self.slots[usize::from(*field)]);
            }
            Op::Item(op) => {
                let spans = self.slots[usize::from(op.list)];
                let values = spans + 1 + u32::from(op.column);
                self.emit(Code::Item, op.to, op.position, 0, spans, values);
            }
            Op::ConstantItem(op) => {
                let start = self.table_starts[usize::from(op.table)];
                let length = self.program.tables[usize::from(op.table)].len() as u32;
                self.emit(Code::ConstantItem, op.to, op.position, 0, start, length);
            }
            Op::Arithmetic(operator, op) => {
                let int = Code::IntArithmetic;
                let code = self.by_type(op.to, int, int, Code::FloatArithmetic);
                self.binary(code, op, *operator as u32);
            }
            Op::Negate(op) => {
                let int = Code::NegateInt;
                self.unary(self.by_type(op.to, int, int, Code::NegateFloat), op, 0);
            }
            Op::Absolute(op) => {
                let int = Code::AbsoluteInt;
                self.unary(self.by_type(op.to, int, int, Code::AbsoluteFloat), op, 0);
            }
            Op::Compare(comparison, op) => {
                // Truth values are 0 and 1: they compare as integers do.
                let (text, int) = (Code::CompareText, Code::CompareInt);
                let code = self.by_type(op.left, text, int, Code::CompareFloat);
                self.binary(code, op, *comparison as u32);
            }
            Op::Not(op) => self.unary(Code::Not, op, 0),
            Op::Truth(op) => {
                let (text, int) = (Code::TruthText, Code::TruthInt);
                self.unary(self.by_type(op.from, text, int, Code::TruthFloat), op, 0);
            }
            Op::Convert(conversion, op) => self.convert(*conversion, op),
            Op::Concat(op) => {
                let start = self.stage.parts.len() as u32;
                self.stage.parts.extend(&op.parts);
                self.stage.makes_texts = true;
                self.emit(Code::Concat, op.to, 0, 0, start, op.parts.len() as u32);
            }
            Op::Text(function, op) => {
                self.stage.makes_texts = true;
                self.unary(Code::Text, op, text_function(*function));
            }
            Op::Replace(op) => {
                self.stage.makes_texts = true;
                self.plain(Code::Replace, op.to, op.from, op.old, u32::from(op.new));
            }
            Op::TextTest(test, op) => self.binary(Code::TextTest, op, *test as u32),
            Op::TextLength(op) => self.unary(Code::TextLength, op, 0),
            Op::If(op) => self.branch(op),
            Op::For(op) => self.repeat(op),
            Op::Fragment(fragment) => {
                let Fragment { offset, length } = self.fragments[*fragment as usize];
                if length as usize <= FOLD_BYTES_MAX {
                    self.emit(Code::Fold, 0, 0, 0, offset, length);
                } else {
                    self.stage.segments += 1;
                    self.emit(Code::Segment, 0, 0, 0, *fragment, length);
                }
            }
            Op::Put(Put { from, escape }) => {
                let code = match (self.kind(*from), escape) {
                    (Type::Text, Escape::None) => Code::PutText,
                    (Type::Text, Escape::Html) => Code::PutHtml,
                    (Type::Text, _) => Code::PutEscaped,
                    (Type::Int, _) => Code::PutInt,
                    (Type::Float, _) => Code::PutFloat,
                    (Type::Bool, _) => Code::PutBool,
                };
                let function = text_function(TextFunction::Escape(*escape));
                self.plain(code, 0, *from, 0, function);
            }
            Op::Request(op) => {
                self.stage.requests += 1;
                self.plain(Code::Request, op.text, 0, 0, 0);
            }
            Op::Status(status) => self.plain(Code::Status, 0, 0, 0, u32::from(*status)),
            Op::Header(op) => {
                self.stage.headers += 1;
                self.plain(Code::Header, op.value, 0, 0, u32::from(op.name));
            }
            Op::File(path) => self.plain(Code::File, *path, 0, 0, 0),
            Op::SessionCreate(user) => self.plain(Code::SessionCreate, *user, 0, 0, 0),
            Op::SessionDestroy => self.plain(Code::SessionDestroy, 0, 0, 0, 0),
            Op::Finish => self.plain(Code::Finish, 0, 0, 0, 0),
        }
    }

    fn unary(&mut self, code: Code, op: &Unary, function: u32) {
        self.plain(code, op.to, op.from, 0, function);
    }

    fn binary(&mut self, code: Code, op: &Binary, function: u32) {
        self.plain(code, op.to, op.left, op.right, function);
    }

    /// An instruction that needs no place and no fifth operand.
    fn plain(&mut self, code: Code, a: u16, b: u16, c: u16, d: u32) {
        self.emit(code, a, b, c, d, 0);
    }

    fn convert(&mut self, conversion: Conversion, op: &Unary) {
        let code = match conversion {
            Conversion::IntToFloat => Code::IntToFloat,
            Conversion::FloatToInt => Code::FloatToInt,
            Conversion::BoolToInt => Code::Copy,
            Conversion::TextToInt => Code::TextToInt,
            Conversion::TextToFloat => Code::TextToFloat,
            Conversion::ToText => match self.kind(op.from) {
                Type::Text => Code::Copy,
                Type::Int => Code::IntToText,
                Type::Float => Code::FloatToText,
                Type::Bool => Code::BoolToText,
            },
        };
        self.stage.makes_texts |=
            matches!(code, Code::IntToText | Code::FloatToText | Code::BoolToText);
        self.unary(code, op, 0);
    }

    fn branch(&mut self, op: &If) {
        let skip = self.emit(Code::JumpUnless, op.condition, 0, 0, 0, 0);
        self.block(&op.then);
        if op.otherwise.is_empty() {
            self.land(skip);
            return;
        }
        let out = self.emit(Code::Jump, 0, 0, 0, 0, 0);
        self.land(skip);
        self.block(&op.otherwise);
        self.land(out);
    }

    fn repeat(&mut self, op: &For) {
        let state = self.stage.registers as u16;
        self.stage.registers += 4;
        let begin = match &op.filter {
            None => self.emit(Code::LoopBegin, op.count, state, op.length, 0, 0),
            Some(filter) => {
                self.stage.makes_texts = true;
                self.plain(Code::FilterBegin, op.count, state, 0, 0);
                let next = self.emit(Code::FilterNext, op.position, state, 0, 0, 0);
                self.block(&filter.block);
                self.plain(Code::FilterKeep, filter.keep, state, 0, next as u32);
                self.land(next);
                self.emit(Code::FilterEnd, 0, state, op.length, 0, 0)
            }
        };
        let code = match op.filter {
            None => Code::Turn,
            Some(_) => Code::TurnKept,
        };
        let turn = self.emit(code, op.position, state, op.index, 0, 0);
        self.block(&op.body);
        self.plain(Code::TurnEnd, 0, state, 0, turn as u32);
        self.land(begin);
        self.block(&op.otherwise);
        self.land(turn);
    }
}
