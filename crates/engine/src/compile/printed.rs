//! What is known of a text when it is printed, beside whether it is safe: it is JSON, or it begins
//! as a path does. Where in HTML it may stand depends on that (`context.rs`).

use super::compiler::Compiler;
use super::value::{Items, Literal, Operand, Printed};
use crate::program::{Register, Type};

impl Compiler<'_, '_> {
    /// What is known of a value that is printed.
    pub(super) fn printed(&self, operand: &Operand) -> Printed {
        match operand {
            Operand::Perhaps { of, .. } => self.printed(of),
            Operand::Literal(_) => Printed::Known,
            Operand::Register {
                register,
                kind: Type::Text,
                safe,
            } => match (self.printed.get(register), safe) {
                (Some(Printed::Json), true) => Printed::Json,
                (Some(Printed::Path), false) => Printed::Path,
                (_, true) => Printed::Known,
                (_, false) => Printed::Open,
            },
            // Lists of constants are the page's own.
            Operand::Column { list, .. } if matches!(list.items, Items::Tables { .. }) => {
                Printed::Known
            }
            Operand::Field { field, .. } if self.page.paths.contains(field) => Printed::Path,
            Operand::Field { field, .. } if self.page.here == Some(*field) => Printed::Path,
            operand if operand.scalar() == Some((Type::Text, false)) => Printed::Open,
            _ => Printed::Known,
        }
    }

    /// Takes note of what is known of a text.
    pub(super) fn note(&mut self, text: Operand, printed: Printed) -> Operand {
        if let Operand::Register { register, .. } = &text {
            self.printed.insert(*register, printed);
        }
        text
    }

    /// Takes note of what is known of a register that is one of two values.
    pub(super) fn note_either(&mut self, register: Register, [a, b]: [&Operand; 2]) {
        let both = [self.printed(a), self.printed(b)];
        let printed = match both {
            [Printed::Json, _] | [_, Printed::Json] => Printed::Json,
            [Printed::Path, Printed::Path | Printed::Known] => Printed::Path,
            [Printed::Known, Printed::Path | Printed::Known] => Printed::Path,
            _ => return,
        };
        self.printed.insert(register, printed);
    }

    /// Texts one after the other.
    pub(super) fn concat(&mut self, parts: &[Operand]) -> Operand {
        let text = self.stage.concat(parts, false, self.page);
        let begins = |text: &str| text.contains(['/', '?', '#', ':']);
        match parts.first() {
            Some(Operand::Literal(Literal::Text { text: first, .. })) if begins(first) => {
                self.note(text, Printed::Path)
            }
            Some(first) if self.printed(first) == Printed::Path => self.note(text, Printed::Path),
            _ => text,
        }
    }
}
