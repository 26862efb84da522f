//! What computes a lane's cell from its other cells: numbers and truth values, comparisons,
//! conversions, tests of texts. The most frequent comparisons are steps of their own (`fused`).

use super::strip::{Pack, Registers};
use crate::cohort::{Arena, LaneError};
use crate::device::functions;
use crate::program::{
    Comparison, ConstantItem, Conversion, Op, PageProgram, Register, StageProgram, TextTest, Type,
    Unary,
};

/// The register that [`Cells::compute`] has the value for; `None` where it has none.
pub(super) fn destination(op: &Op) -> Option<Register> {
    match op {
        Op::Convert(Conversion::ToText, _) => None,
        Op::ConstantItem(op) => Some(op.to),
        Op::Copy(Unary { to, .. })
        | Op::Negate(Unary { to, .. })
        | Op::Absolute(Unary { to, .. })
        | Op::Not(Unary { to, .. })
        | Op::Truth(Unary { to, .. })
        | Op::Convert(_, Unary { to, .. })
        | Op::TextLength(Unary { to, .. }) => Some(*to),
        Op::Arithmetic(_, op) | Op::Compare(_, op) | Op::ConvertOr(_, op) | Op::TextTest(_, op) => {
            Some(op.to)
        }
        _ => None,
    }
}

/// A lane's cells, and what says how to read them.
pub(super) struct Cells<'a> {
    pub(super) registers: &'a Registers,
    pub(super) arena: &'a Arena,
    pub(super) program: &'a PageProgram,
    pub(super) stage: &'a StageProgram,
    pub(super) lane: u8,
}

impl Cells<'_> {
    /// The value for the operation's [`destination`].
    #[inline(never)]
    pub(super) fn compute(&self, op: &Op) -> Result<u64, LaneError> {
        Ok(match op {
            Op::Copy(op) => self.cell(op.from),
            Op::ConstantItem(op) => self.constant_item(op)?,
            Op::Arithmetic(operator, op) => match self.kind(op.to) {
                Type::Float => {
                    functions::float(*operator, self.float(op.left), self.float(op.right))?.pack()
                }
                _ => functions::int(*operator, self.int(op.left), self.int(op.right))?.pack(),
            },
            Op::Negate(op) => match self.kind(op.to) {
                Type::Float => (-self.float(op.from)).pack(),
                _ => {
                    let negated = self.int(op.from).checked_neg();
                    negated.ok_or(LaneError::Overflow)?.pack()
                }
            },
            Op::Absolute(op) => match self.kind(op.to) {
                Type::Float => self.float(op.from).abs().pack(),
                _ => {
                    let absolute = self.int(op.from).checked_abs();
                    absolute.ok_or(LaneError::Overflow)?.pack()
                }
            },
            Op::Compare(comparison, op) => self.compare(*comparison, op.left, op.right).pack(),
            Op::Not(op) => (self.cell(op.from) == 0).pack(),
            Op::Truth(op) => match self.kind(op.from) {
                Type::Text => !self.text(op.from).is_empty(),
                Type::Float => self.float(op.from) != 0.0,
                Type::Int | Type::Bool => self.int(op.from) != 0,
            }
            .pack(),
            Op::Convert(conversion, op) => self.convert(*conversion, op.from)?,
            Op::ConvertOr(conversion, op) => {
                let converted = self.convert(*conversion, op.left);
                converted.unwrap_or_else(|_| self.cell(op.right))
            }
            Op::TextTest(test, op) => {
                let (left, right) = (self.bytes(op.left), self.bytes(op.right));
                match test {
                    TextTest::Contains => memchr::memmem::find(left, right).is_some(),
                    TextTest::StartsWith => left.starts_with(right),
                    TextTest::EndsWith => left.ends_with(right),
                }
                .pack()
            }
            Op::TextLength(op) => (self.text(op.from).chars().count() as i64).pack(),
            _ => unreachable!("only what has a destination is computed"),
        })
    }

    fn convert(&self, conversion: Conversion, from: Register) -> Result<u64, LaneError> {
        Ok(match conversion {
            Conversion::IntToFloat => (self.int(from) as f64).pack(),
            Conversion::FloatToInt => functions::float_to_int(self.float(from))?.pack(),
            Conversion::BoolToInt => self.cell(from),
            Conversion::TextToInt => functions::text_to_int(self.text(from))?.pack(),
            Conversion::TextToFloat => functions::text_to_float(self.text(from))?.pack(),
            Conversion::ToText => unreachable!("texts are not made here"),
        })
    }

    fn constant_item(&self, op: &ConstantItem) -> Result<u64, LaneError> {
        let table = &self.program.tables[usize::from(op.table)];
        let at = usize::try_from(self.int(op.position)).ok();
        let item = at.and_then(|at| table.get(at));
        Ok(item.ok_or(LaneError::OutOfRange)?.pack())
    }

    fn compare(&self, comparison: Comparison, left: Register, right: Register) -> bool {
        match self.kind(left) {
            Type::Text => comparison.holds(self.bytes(left).cmp(self.bytes(right))),
            Type::Float => functions::floats_hold(comparison, self.float(left), self.float(right)),
            Type::Int | Type::Bool => comparison.holds(self.int(left).cmp(&self.int(right))),
        }
    }

    fn kind(&self, register: Register) -> Type {
        self.stage.registers[usize::from(register)]
    }

    fn cell(&self, register: Register) -> u64 {
        self.registers.column(register)[usize::from(self.lane)]
    }

    fn int(&self, register: Register) -> i64 {
        self.registers.int(register, self.lane)
    }

    fn float(&self, register: Register) -> f64 {
        self.registers.float(register, self.lane)
    }

    fn bytes(&self, register: Register) -> &[u8] {
        self.arena.get(self.registers.view(register, self.lane))
    }

    /// A register's text; it was checked where it entered the cohort.
    fn text(&self, register: Register) -> &str {
        std::str::from_utf8(self.bytes(register))
            .expect("texts are checked where they enter a cohort")
    }
}
