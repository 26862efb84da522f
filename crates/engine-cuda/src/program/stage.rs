//! A stage's program as one flat sequence of instructions.
//!
//! The engine's operations nest; a warp wants a program counter. Branches and loops become jumps,
//! laid out so that among lanes at different places the one with the lowest counter is never past a
//! place where the others will join it: the kernel always runs the lowest one, and lanes that
//! parted meet again where their branches end. A loop keeps its state in registers of its own:
//! count, position, turn, and with a filter where the bits of the positions kept are.
//!
//! ```text
//!   if c {then} else {otherwise}
//!       JumpUnless c -> E; then; Jump -> X; E: otherwise; X:
//!   for ... {body} else {otherwise}
//!       LoopBegin -> E; T: Turn -> X; body; TurnEnd -> T; E: otherwise; X:
//! ```
//! With a filter all positions are tried before the first turn, as the reference does, and a bit
//! each remembers which were kept.

use super::registers;
use crate::abi::stage::{Code, Constant as StageConstant, Fragment, Instruction, text_function};
use rhythm_engine::program::{
    Arithmetic, Binary, Block, Call, Choice, Concat, Constant, ConstantItem, Conversion, Escape,
    For, If, Item, KeyUse, Load, Op, PageProgram, Put, Query, Register, StageProgram, TextFunction,
    Type, Unary,
};

/// How a stage says what a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A run, and segments: where fragments go in it. Those of at most so many bytes are folded
    /// into the run.
    Segments {
        /// Bytes; at least 8.
        folded_max: usize,
    },
    /// Stretches of the run, of the fragments, and of texts where these lie: for answers that stay
    /// on the device, whose texts stay there, too.
    Stretches,
}

impl Form {
    /// Fragments of at most so many bytes are folded into the run.
    const fn folded_max(self) -> usize {
        match self {
            Form::Segments { folded_max } => folded_max,
            Form::Stretches => 8,
        }
    }
}

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
    /// Queries that one pass of the program asks, loops taken as one turn: a first guess at the
    /// room for them.
    pub(crate) queries: u32,
    /// Headers, likewise.
    pub(crate) headers: u32,
    /// Segments or stretches, likewise.
    pub(crate) segments: u32,
    /// Whether it makes texts, which need room.
    pub(crate) makes_texts: bool,
    /// Whether it appends to texts, for which the host charges less.
    pub(crate) appends: bool,
    /// Whether some of it only the host does.
    pub(crate) needs_host: bool,
}

impl Stage {
    /// Encodes a stage of a page, whose fields have their columns from these `slots` on, and whose
    /// tables begin there; `fragments` are where the service's are.
    pub(super) fn encode(
        program: &PageProgram,
        stage: &StageProgram,
        slots: &[u32],
        table_starts: &[u32],
        fragments: &[Fragment],
        form: Form,
    ) -> Stage {
        let mut encoder = Encoder {
            program,
            call: stage.call.and_then(|call| program.calls.get(call)),
            types: &stage.registers,
            slots,
            table_starts,
            fragments,
            form,
            landed: 0,
            codes: Vec::new(),
            stage: Stage {
                registers: stage.registers.len() as u32,
                constants: constants(stage),
                ..Stage::default()
            },
        };
        encoder.block(&stage.body);
        encoder.emit(Code::End, 0, 0, 0, 0, 0);
        let Encoder {
            codes, mut stage, ..
        } = encoder;
        let program = registers::Program {
            code: &mut stage.code,
            codes: &codes,
            parts: &mut stage.parts,
            constants: &mut stage.constants,
        };
        stage.registers = program.give_out();
        stage
    }
}

/// A value's bits in a register: a text's offset and length, an integer, a float's bits, or 0 and
/// 1.
pub(super) fn bits(constant: &Constant) -> u64 {
    match *constant {
        Constant::Text { offset, length } => u64::from(length) << 32 | u64::from(offset),
        Constant::Int(value) => value as u64,
        Constant::Float(value) => value.to_bits(),
        Constant::Bool(value) => u64::from(value),
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
    /// The call that ends the stage.
    call: Option<&'a Call>,
    types: &'a [Type],
    slots: &'a [u32],
    table_starts: &'a [u32],
    fragments: &'a [Fragment],
    form: Form,
    /// The last place that a jump leads to.
    landed: u32,
    /// Of the instructions so far.
    codes: Vec<Code>,
    stage: Stage,
}

impl Encoder<'_> {
    /// Appends an instruction and gives its place.
    fn emit(&mut self, code: Code, a: u16, b: u16, c: u16, d: u32, e: u32) -> usize {
        self.codes.push(code);
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
        self.landed = self.here();
        self.stage.code[at].d = self.landed;
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

    /// The same for numbers alone.
    fn number(&self, register: Register, int: Code, float: Code) -> Code {
        self.by_type(register, int, int, float)
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
            Op::Item(op) => self.item(op),
            Op::ConstantItem(op) => self.constant_item(op),
            Op::Arithmetic(operator, op) => {
                let code = self.number(op.to, Code::IntArithmetic, Code::FloatArithmetic);
                self.binary(code, op, *operator as u32);
            }
            Op::Negate(op) => {
                self.unary(
                    self.number(op.to, Code::NegateInt, Code::NegateFloat),
                    op,
                    0,
                );
            }
            Op::Absolute(op) => {
                self.unary(
                    self.number(op.to, Code::AbsoluteInt, Code::AbsoluteFloat),
                    op,
                    0,
                );
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
            Op::ConvertOr(conversion, op) => self.convert_or(*conversion, op),
            Op::Concat(op) => self.concat(op),
            Op::Append(op) => self.append(op),
            Op::Text(function, op) => {
                self.stage.makes_texts = true;
                self.unary(Code::Text, op, text_function(*function));
            }
            Op::Replace(op) => {
                self.stage.makes_texts = true;
                self.plain(Code::Replace, op.to, op.from, op.old, u32::from(op.new));
            }
            Op::Format(op) => self.leave(op.to),
            Op::TextTest(test, op) => self.binary(Code::TextTest, op, *test as u32),
            Op::TextLength(op) => self.unary(Code::TextLength, op, 0),
            Op::If(op) => self.branch(op),
            Op::For(op) => self.repeat(op),
            Op::Fragment(fragment) => self.fragment(*fragment),
            Op::Put(op) => self.put(op),
            Op::Query(op) => self.query(op),
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

    /// Leaves the lanes that come here to the host, as all powers of floats are left to it.
    fn leave(&mut self, register: Register) {
        self.stage.needs_host = true;
        let power = Arithmetic::Power as u32;
        self.plain(Code::FloatArithmetic, register, register, register, power);
    }

    /// A query, in its text form: pieces, and between them the arguments, percent-encoded.
    fn query(&mut self, op: &Query) {
        let call = self.call.expect("a stage that asks ends with a call");
        let mut parts = Vec::new();
        for (index, piece) in call.form.pieces.iter().enumerate() {
            if !piece.is_empty() {
                parts.push(self.piece(piece));
            }
            let Some(&from) = op.arguments.get(index) else {
                continue;
            };
            let to = self.own_register();
            let argument = Unary { to, from };
            match self.kind(from) {
                Type::Text => {
                    self.stage.makes_texts = true;
                    let function = TextFunction::Escape(Escape::Percent);
                    self.unary(Code::Text, &argument, text_function(function));
                }
                _ => self.convert(Conversion::ToText, &argument),
            }
            parts.push(to);
        }
        let text = match parts[..] {
            [one] => one,
            _ => {
                let to = self.own_register();
                let start = self.stage.parts.len() as u32;
                self.stage.makes_texts = true;
                self.emit(Code::Concat, to, 0, 0, start, parts.len() as u32);
                self.stage.parts.extend(parts);
                to
            }
        };
        self.stage.queries += 1;
        self.plain(Code::Query, text, 0, 0, 0);
    }

    /// A register beside those of the program.
    fn own_register(&mut self) -> Register {
        let register = self.stage.registers as Register;
        self.stage.registers += 1;
        register
    }

    /// A register that holds a piece of a call's form, which the page's texts have.
    fn piece(&mut self, piece: &[u8]) -> Register {
        let mut places = self.program.texts.windows(piece.len());
        let offset = places.position(|text| text == piece);
        let offset = offset.expect("the pieces of forms are among the page's texts");
        let register = self.own_register();
        self.stage.constants.push(StageConstant {
            reg: u32::from(register),
            unused: 0,
            bits: bits(&Constant::Text {
                offset: offset as u32,
                length: piece.len() as u32,
            }),
        });
        register
    }

    /// An item of a list's column.
    fn item(&mut self, op: &Item) {
        let spans = self.slots[usize::from(op.list)];
        let values = spans + 1 + u32::from(op.column);
        self.emit(Code::Item, op.to, op.position, 0, spans, values);
    }

    /// An item of a table of constants.
    fn constant_item(&mut self, op: &ConstantItem) {
        let start = self.table_starts[usize::from(op.table)];
        let length = self.program.tables[usize::from(op.table)].len() as u32;
        self.emit(Code::ConstantItem, op.to, op.position, 0, start, length);
    }

    /// Texts one after the other.
    fn concat(&mut self, op: &Concat) {
        let start = self.stage.parts.len() as u32;
        self.stage.parts.extend(&op.parts);
        self.stage.makes_texts = true;
        self.emit(Code::Concat, op.to, 0, 0, start, op.parts.len() as u32);
    }

    /// A text with others behind it: here it is made anew each time. What that needs is charged
    /// for, so a lane for which it is too much is left to the host, which does not make it anew.
    fn append(&mut self, op: &Concat) {
        self.stage.appends = true;
        let from = self.own_register();
        let parts = [op.to]
            .into_iter()
            .chain(op.parts.iter().copied())
            .collect();
        self.concat(&Concat { to: from, parts });
        let to = op.to;
        self.unary(Code::Copy, &Unary { to, from }, 0);
    }

    /// Static text: a short one goes into the run, a long one becomes a segment.
    fn fragment(&mut self, fragment: u32) {
        let Fragment { offset, length } = self.fragments[fragment as usize];
        if length as usize <= self.form.folded_max() {
            self.emit(Code::Fold, 0, 0, 0, offset, length);
        } else {
            self.stage.segments += 1;
            let which = match self.form {
                Form::Segments { .. } => fragment,
                Form::Stretches => offset,
            };
            self.emit(Code::Segment, 0, 0, 0, which, length);
        }
    }

    /// A value put into the run, with the segment before it, where nobody comes in between.
    fn put(&mut self, op: &Put) {
        let code = match (self.kind(op.from), op.escape) {
            (Type::Text, Escape::None) => Code::PutText,
            (Type::Text, Escape::Html) => Code::PutHtml,
            (Type::Text, _) => Code::PutEscaped,
            (Type::Int, _) => Code::PutInt,
            (Type::Float, _) => Code::PutFloat,
            (Type::Bool, _) => Code::PutBool,
        };
        if self.form == Form::Stretches && matches!(code, Code::PutText | Code::PutHtml) {
            // The text, and what of the run is before it.
            self.stage.segments += 2;
        }
        let function = text_function(TextFunction::Escape(op.escape)) as u16;
        let follows = self.landed < self.here() && self.codes.last() == Some(&Code::Segment);
        let segment = follows.then(|| (self.codes.pop(), self.stage.code.pop()));
        let segment = segment.and_then(|(_, segment)| segment);
        let (fragment, length) = segment.map_or((0, 0), |segment| (segment.d, segment.e));
        self.emit(code, function, op.from, 0, fragment, length);
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

    /// A conversion that has another value where it fails: that one's register beside it, and that
    /// there is one.
    fn convert_or(&mut self, conversion: Conversion, op: &Binary) {
        let code = match conversion {
            Conversion::FloatToInt => Code::FloatToInt,
            Conversion::TextToInt => Code::TextToInt,
            Conversion::TextToFloat => Code::TextToFloat,
            _ => unreachable!("others have no value in place of theirs"),
        };
        self.binary(code, op, 1);
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
        let (begin, code) = match &op.choices[..] {
            [] => {
                let begin = self.emit(Code::LoopBegin, op.count, state, op.length, 0, 0);
                (begin, Code::Turn)
            }
            [Choice::By(KeyUse::Keep, filter)] => {
                self.stage.makes_texts = true;
                self.plain(Code::FilterBegin, op.count, state, 0, 0);
                let next = self.emit(Code::FilterNext, op.position, state, 0, 0, 0);
                self.block(&filter.block);
                self.plain(Code::FilterKeep, filter.register, state, 0, next as u32);
                self.land(next);
                let begin = self.emit(Code::FilterEnd, 0, state, op.length, 0, 0);
                (begin, Code::TurnKept)
            }
            _ => return self.leave(op.count),
        };
        let turn = self.emit(code, op.position, state, op.index, 0, 0);
        self.block(&op.body);
        self.plain(Code::TurnEnd, 0, state, 0, turn as u32);
        self.land(begin);
        self.block(&op.otherwise);
        self.land(turn);
    }
}
