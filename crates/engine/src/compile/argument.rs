//! Arguments of what calls ask: values that a backend is given.

use super::compiler::{Compiler, Result};
use super::value::Operand;
use crate::diagnostic::{Place, Reported};

/// Literal pieces, and between them the arguments: of each the parts whose texts, one after the
/// other, it is.
pub(super) type Parts = (Vec<String>, Vec<Vec<Operand>>);

/// Pieces as a form has them.
pub(super) fn bytes_of(pieces: Vec<String>) -> Vec<Box<[u8]>> {
    let bytes = |piece: String| piece.into_bytes().into();
    pieces.into_iter().map(bytes).collect()
}

/// A value that can be an argument.
pub(super) fn scalar<'a>(
    compiler: &mut Compiler<'_, 'a>,
    operand: Operand,
    place: Place<'a>,
) -> Result<Operand> {
    match operand {
        Operand::Poison => Err(Reported),
        operand if operand.is_safe() => {
            let hint = "values are escaped for where they are put";
            Err(compiler.error(place, "`|safe` does not belong here", hint))
        }
        operand if operand.scalar().is_some() => Ok(operand),
        operand => Err(compiler.not_printable(&operand, place)),
    }
}
