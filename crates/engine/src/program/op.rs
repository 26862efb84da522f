//! The operations of a stage's program, and what each works on.
//!
//! An operation that computes writes the register `to` and reads all others. Many share a shape,
//! [`Unary`], [`Binary`] or [`Load`], so that whoever reads programs (the executors, the printer)
//! treats a shape once.

use super::function::{
    Arithmetic, Comparison, Conversion, Escape, Formatting, TextFunction, TextTest,
};
use super::value::{FieldId, FragmentId, Register};

/// A sequence of operations.
pub type Block = Vec<Op>;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `to = from`, same type.
    Copy(Unary),
    /// `to` = the lane's value of a scalar field, of the field's type.
    Field(Load),
    /// `to` = the number of items in the lane's list, Int.
    Length(Load),
    /// `to` = an item of the lane's list. Out of range fails the lane.
    Item(Item),
    /// `to` = an item of a table of constants. Out of range fails the lane.
    ConstantItem(ConstantItem),
    /// `to = left operator right`, both of `to`'s type, Int or Float.
    Arithmetic(Arithmetic, Binary),
    /// `to = -from`, Int or Float.
    Negate(Unary),
    /// `to` = the absolute value of `from`, Int or Float.
    Absolute(Unary),
    /// `to = left comparison right`; operands of one type, `to` Bool.
    Compare(Comparison, Binary),
    /// `to = not from`, both Bool.
    Not(Unary),
    /// `to` = is `from` (of any type) true, as `if` sees it: a text not empty, a number not zero.
    Truth(Unary),
    /// `to` = `from` converted; the conversion fixes the types.
    Convert(Conversion, Unary),
    /// `to` = `left` converted to `to`'s type or, where that would fail the lane, `right`.
    /// Conversions of texts and floats to numbers.
    ConvertOr(Conversion, Binary),
    /// `to` = the texts of `parts`, one after the other.
    Concat(Concat),
    /// `to` = `to` with the texts of `parts` behind it, in time that is linear in these: what a
    /// loop puts together is as much work as it has bytes. `to` was set by a [`Op::Copy`] of an
    /// empty text or by this, and no other register that had its value is appended to.
    Append(Concat),
    /// `to = function(from)`, both Text.
    Text(TextFunction, Unary),
    /// `to` = `from` with every occurrence of `old` replaced by `new`, all Text.
    Replace(Replace),
    /// `to` = a text made of several values. Seldom wanted: devices leave it to the host.
    Format(Format),
    /// `to = test(left, right)`; operands Text, `to` Bool.
    TextTest(TextTest, Binary),
    /// `to` = the number of characters of `from`, a Text.
    TextLength(Unary),
    /// Runs one block for the lanes where a condition is true, then another for the others.
    If(If),
    /// Runs a block for each position of a lane's loop.
    For(For),
    /// Output: a fragment, the same bytes for every lane.
    Fragment(FragmentId),
    /// Output: a register's value as text, escaped.
    Put(Put),
    /// Asks the stage's backend, once more for this lane (paper, section 3.2, *backend request
    /// strings*).
    Query(Query),
    /// Sets the answer's status, 100 to 599.
    Status(u16),
    /// Adds a header to the answer, or gives something else beside its body.
    Header(Header),
    /// The answer's body is this file of the service's static files: its path, Text, relative to
    /// `static/`.
    File(Register),
    /// A session is created for this user id, Int, when the lane's answer is sent.
    SessionCreate(Register),
    /// The lane's session, if it has one, is destroyed when its answer is sent.
    SessionDestroy,
    /// The lanes have their answer: they take no part in what follows.
    Finish,
}

/// From one register to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unary {
    /// Destination.
    pub to: Register,
    /// Operand.
    pub from: Register,
}

/// From two registers to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Destination.
    pub to: Register,
    /// Left operand.
    pub left: Register,
    /// Right operand.
    pub right: Register,
}

/// From a field of the lane to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Destination.
    pub to: Register,
    /// The field: a scalar one for [`Op::Field`], a list for [`Op::Length`].
    pub field: FieldId,
}

/// [`Op::Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Destination, of the column's type.
    pub to: Register,
    /// A list field.
    pub list: FieldId,
    /// Index of the column.
    pub column: u16,
    /// The item's position from 0, Int.
    pub position: Register,
}

/// [`Op::ConstantItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantItem {
    /// Destination, of the table's type.
    pub to: Register,
    /// Index into [`PageProgram::tables`](super::PageProgram::tables).
    pub table: u16,
    /// The item's position from 0, Int.
    pub position: Register,
}

/// [`Op::Concat`] and [`Op::Append`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concat {
    /// Destination, Text; none of the parts.
    pub to: Register,
    /// Operands, all Text.
    pub parts: Vec<Register>,
}

/// [`Op::Replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replace {
    /// Destination.
    pub to: Register,
    /// Where to replace.
    pub from: Register,
    /// What to replace.
    pub old: Register,
    /// By what.
    pub new: Register,
}

/// [`Op::Format`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Destination, Text; none of the operands.
    pub to: Register,
    /// What is made.
    pub how: Formatting,
    /// Of what, five at most.
    pub from: Vec<Register>,
}

impl Format {
    /// Most operands of any.
    pub(crate) const OPERANDS_MAX: usize = 5;
}

/// [`Op::If`].
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    /// Bool.
    pub condition: Register,
    /// For the lanes where it is true.
    pub then: Block,
    /// For the others, afterwards.
    pub otherwise: Block,
}

/// [`Op::For`]: runs `body` for `position` = 0, 1, ... `count` - 1 of each lane, or for those of
/// them that its choices leave, in their order, or `otherwise` for lanes where no position is left.
/// Lanes leave the loop at their own count. `count` of less than 1 is an empty loop.
#[derive(Clone, Debug, PartialEq)]
pub struct For {
    /// Number of positions, Int.
    pub count: Register,
    /// What is done with the positions before the loop begins, one after the other.
    pub choices: Vec<Choice>,
    /// Set to the position in the source before each turn, Int.
    pub position: Register,
    /// Set to the number of turns done before each turn (`loop.index0`), Int.
    pub index: Register,
    /// Set to the number of turns in all (`loop.length`), Int, before the first; it stays when the
    /// loop is over.
    pub length: Register,
    /// The loop's body.
    pub body: Block,
    /// The loop's else.
    pub otherwise: Block,
}

/// What is done with the positions of a [`For`].
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Something by what each position has.
    By(KeyUse, Key),
    /// They are turned round.
    Reverse,
    /// Those from `start` on, before `stop`, both Int; negative ones count from the end.
    Slice {
        /// The first that is kept.
        start: Register,
        /// The first behind it that is not.
        stop: Register,
        /// From one that is kept to the next.
        step: u32,
    },
}

/// What each position of a [`For`] has.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Computes `register` from the loop's `position` register.
    pub block: Block,
    /// Of any type.
    pub register: Register,
}

/// What is done by keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// Positions stay for which it is true; it is Bool.
    Keep,
    /// They are put in its order; those with the same one stay as they are.
    Sort {
        /// From the greatest to the least.
        descending: bool,
        /// Whether texts that differ in the case of ASCII letters alone are the same.
        ignores_case: bool,
    },
    /// The first of each stays.
    Unique,
}

impl Choice {
    /// What each position has, where positions are chosen by that.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Choice::By(_, key) => Some(key),
            Choice::Reverse | Choice::Slice { .. } => None,
        }
    }
}

/// [`Op::Put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// What is printed, of any type.
    pub from: Register,
    /// How its text is escaped. Numbers and truth values need none.
    pub escape: Escape,
}

/// [`Op::Query`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The call's arguments, of the types that its [`Form`](super::Form) says.
    pub arguments: Vec<Register>,
}

/// [`Op::Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Index into [`PageProgram::asides`](super::PageProgram::asides).
    pub name: u16,
    /// The value, Text, escaped already.
    pub value: Register,
}

/// A register, as an operation uses it.
enum Operand {
    /// It is set.
    Computed(Register),
    /// It is looked at.
    Read(Register),
}

impl Op {
    /// The blocks inside it, in the order in which a lane can come to them.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let (choices, blocks) = match self {
            Op::If(op) => (&[][..], [Some(&op.then), Some(&op.otherwise)]),
            Op::For(op) => (&op.choices[..], [Some(&op.body), Some(&op.otherwise)]),
            _ => (&[][..], [None; 2]),
        };
        let keys = choices.iter().filter_map(Choice::key);
        let keys = keys.map(|key| &key.block);
        keys.chain(blocks.into_iter().flatten())
    }

    /// Calls `each` with every operand that is a register, what is computed first. Those of the
    /// blocks inside it are not among them.
    fn each_operand(&self, mut each: impl FnMut(Operand)) {
        use Operand::{Computed, Read};
        match self {
            Op::Copy(op)
            | Op::Negate(op)
            | Op::Absolute(op)
            | Op::Not(op)
            | Op::Truth(op)
            | Op::Convert(_, op)
            | Op::Text(_, op)
            | Op::TextLength(op) => [Computed(op.to), Read(op.from)].into_iter().for_each(each),
            Op::Field(op) | Op::Length(op) => each(Computed(op.to)),
            Op::Arithmetic(_, op)
            | Op::Compare(_, op)
            | Op::ConvertOr(_, op)
            | Op::TextTest(_, op) => {
                each(Computed(op.to));
                [op.left, op.right].map(Read).into_iter().for_each(each);
            }
            Op::Item(op) => [Computed(op.to), Read(op.position)]
                .into_iter()
                .for_each(each),
            Op::ConstantItem(op) => [Computed(op.to), Read(op.position)]
                .into_iter()
                .for_each(each),
            Op::Concat(op) => {
                each(Computed(op.to));
                op.parts.iter().copied().map(Read).for_each(each);
            }
            Op::Append(op) => {
                [Computed(op.to), Read(op.to)]
                    .into_iter()
                    .for_each(&mut each);
                op.parts.iter().copied().map(Read).for_each(each);
            }
            Op::Format(op) => {
                each(Computed(op.to));
                op.from.iter().copied().map(Read).for_each(each);
            }
            Op::Replace(op) => {
                each(Computed(op.to));
                [op.from, op.old, op.new]
                    .map(Read)
                    .into_iter()
                    .for_each(each);
            }
            Op::If(op) => each(Read(op.condition)),
            Op::For(op) => {
                [op.position, op.index, op.length]
                    .map(Computed)
                    .into_iter()
                    .for_each(&mut each);
                each(Read(op.count));
                for choice in &op.choices {
                    match choice {
                        Choice::By(_, key) => each(Read(key.register)),
                        Choice::Slice { start, stop, .. } => {
                            [*start, *stop].map(Read).into_iter().for_each(&mut each)
                        }
                        Choice::Reverse => {}
                    }
                }
            }
            Op::Put(op) => each(Read(op.from)),
            Op::Query(op) => op.arguments.iter().copied().map(Read).for_each(each),
            Op::Header(op) => each(Read(op.value)),
            Op::File(register) | Op::SessionCreate(register) => each(Read(*register)),
            Op::Fragment(_) | Op::Status(_) | Op::SessionDestroy | Op::Finish => {}
        }
    }

    /// Calls `each` with every register that it reads, once for each operand. What the blocks
    /// inside it read is not among them.
    pub(crate) fn each_read(&self, mut each: impl FnMut(Register)) {
        self.each_operand(|operand| {
            if let Operand::Read(register) = operand {
                each(register);
            }
        });
    }

    /// A register by which to tell where in the sources it stands: one that it computes, or else
    /// one that it reads.
    pub(crate) fn spot(&self) -> Option<Register> {
        let mut first = None;
        self.each_operand(|operand| {
            let (Operand::Computed(register) | Operand::Read(register)) = operand;
            first.get_or_insert(register);
        });
        first
    }

    /// Whether it, or any operation in a block inside it, is such a one.
    pub fn any(&self, is_such: &impl Fn(&Op) -> bool) -> bool {
        is_such(self) || (self.blocks().flatten()).any(|inner| inner.any(is_such))
    }
}
