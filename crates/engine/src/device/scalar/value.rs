//! A register's value, and the operations that work on numbers and truth values alone.

use crate::cohort::{Arena, Argument, LaneError, View};
use crate::device::functions;
use crate::program::{Arithmetic, Constant, Type};

/// A register's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Text(View),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Value {
    pub(super) fn empty(kind: Type) -> Value {
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

impl Value {
    pub(super) fn arithmetic(self, operator: Arithmetic, right: Value) -> Result<Value, LaneError> {
        Ok(match (self, right) {
            (Value::Float(a), Value::Float(b)) => Value::Float(functions::float(operator, a, b)?),
            (a, b) => Value::Int(functions::int(operator, a.int(), b.int())?),
        })
    }

    pub(super) fn negate(self) -> Result<Value, LaneError> {
        Ok(match self {
            Value::Float(a) => Value::Float(-a),
            a => Value::Int(a.int().checked_neg().ok_or(LaneError::Overflow)?),
        })
    }

    pub(super) fn absolute(self) -> Result<Value, LaneError> {
        Ok(match self {
            Value::Float(a) => Value::Float(a.abs()),
            a => Value::Int(a.int().checked_abs().ok_or(LaneError::Overflow)?),
        })
    }

    /// The value as others are given it.
    pub(super) fn argument(self, arena: &Arena) -> Argument<'_> {
        match self {
            Value::Text(view) => Argument::Text(arena.get(view)),
            Value::Int(value) => Argument::Int(value),
            Value::Float(value) => Argument::Float(value),
            Value::Bool(value) => Argument::Bool(value),
        }
    }

    /// Whether it is true, as `if` sees it.
    pub(super) fn is_true(self) -> bool {
        match self {
            Value::Text(view) => view.length > 0,
            Value::Int(value) => value != 0,
            Value::Float(value) => value != 0.0,
            Value::Bool(value) => value,
        }
    }

    /// Appends a number or truth value as output prints it.
    pub(super) fn print(self, to: &mut Vec<u8>) {
        match self {
            Value::Int(value) => functions::print_int(value, to),
            Value::Float(value) => functions::print_float(value, to),
            Value::Bool(value) => to.extend_from_slice(functions::print_bool(value)),
            Value::Text(_) => unreachable!("texts are put, not printed"),
        }
    }

    pub(super) fn view(self) -> View {
        match self {
            Value::Text(view) => view,
            other => unreachable!("the compiler types registers: {other:?} is no text"),
        }
    }

    pub(super) fn int(self) -> i64 {
        match self {
            Value::Int(value) => value,
            other => unreachable!("the compiler types registers: {other:?} is no integer"),
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Value::Float(value) => value,
            other => unreachable!("the compiler types registers: {other:?} is no float"),
        }
    }

    pub(super) fn bool(self) -> bool {
        match self {
            Value::Bool(value) => value,
            other => unreachable!("the compiler types registers: {other:?} is no truth value"),
        }
    }
}
