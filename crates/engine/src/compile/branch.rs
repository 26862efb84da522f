//! Branches: what is set on two paths, and values chosen between two.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::scope::Snapshot;
use super::value::Operand;
use crate::diagnostic::Reported;
use crate::program::{Op, Register, Type, Unary};

impl<'a> Compiler<'_, 'a> {
    /// Compiles two branches, of which each lane takes one, and joins what they set.
    pub(super) fn branch(
        &mut self,
        condition: Operand,
        then: impl FnOnce(&mut Self) -> Result<()>,
        otherwise: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if let Operand::Literal(literal) = &condition {
            return if literal.truth() {
                then(self)
            } else {
                otherwise(self)
            };
        }
        let Some(register) = self.stage.register(&condition, self.page) else {
            return Err(Reported);
        };
        self.stage.fork(self.page);
        let before = self.scope.snapshot();
        let context = self.context.clone();
        let (mut then_block, then_result) = self.in_branch(then);
        let context = std::mem::replace(&mut self.context, context);
        let then_left = std::mem::take(&mut self.left);
        let after_then = self.scope.restore(before);
        let (mut else_block, else_result) = self.in_branch(otherwise);
        self.context = context;
        self.left = then_left.or(self.left);
        let after_else = self.scope.snapshot();
        let (then, otherwise) = (&mut then_block, &mut else_block);
        self.merge("if", (&after_then, then), (&after_else, otherwise));
        self.stage
            .push_if(register, then_block, else_block, self.fragments);
        then_result.and(else_result)
    }

    pub(super) fn in_branch<T>(&mut self, inside: impl FnOnce(&mut Self) -> T) -> (OpenBlock, T) {
        self.stage.open();
        let result = inside(self);
        self.stage.join(self.page);
        (self.stage.close(self.fragments), result)
    }

    /// Gives names that two branches of a statement set differently a register that both write.
    pub(super) fn merge(
        &mut self,
        statement: &'static str,
        (a, a_block): (&Snapshot, &mut OpenBlock),
        (b, b_block): (&Snapshot, &mut OpenBlock),
    ) {
        let differences = self.scope.differences(a, b);
        self.scope.adopt(a, b);
        for (name, in_a, in_b) in differences {
            let operand = match (in_a, in_b) {
                (Some(Operand::Poison), _) | (_, Some(Operand::Poison)) => Operand::Poison,
                (Some(Operand::Conflict(reason)), _) | (_, Some(Operand::Conflict(reason))) => {
                    Operand::Conflict(reason)
                }
                (Some(Operand::Maybe(at)), _) | (_, Some(Operand::Maybe(at))) => Operand::Maybe(at),
                (None, _) | (_, None) => Operand::Maybe(statement),
                (Some(in_a), Some(in_b)) => match unify(&in_a, &in_b) {
                    Err(reason) => Operand::Conflict(reason.into()),
                    Ok((kind, safe)) => {
                        let register = self.stage.new_register(kind);
                        for (block, operand) in [(&mut *a_block, &in_a), (&mut *b_block, &in_b)] {
                            self.copy_in(block, register, operand);
                        }
                        self.note_either(register, [&in_a, &in_b]);
                        Operand::Register {
                            register,
                            kind,
                            safe,
                        }
                    }
                },
            };
            self.scope.set(&name, operand);
        }
    }

    /// Appends `to = operand` to a block that was closed.
    pub(super) fn copy_in(&mut self, block: &mut OpenBlock, to: Register, operand: &Operand) {
        self.stage.reopen(std::mem::take(block));
        if let Some(from) = self.stage.register(operand, self.page) {
            self.stage.push(Op::Copy(Unary { to, from }));
        }
        *block = self.stage.close(self.fragments);
    }

    /// Copies one of two values of one type into a register.
    pub(super) fn select(
        &mut self,
        condition: Register,
        then: (OpenBlock, Operand),
        otherwise: (OpenBlock, Operand),
    ) -> std::result::Result<Operand, String> {
        let (kind, safe) = unify(&then.1, &otherwise.1)?;
        let register = self.stage.new_register(kind);
        let (mut then_block, mut else_block) = (then.0, otherwise.0);
        self.copy_in(&mut then_block, register, &then.1);
        self.copy_in(&mut else_block, register, &otherwise.1);
        self.stage
            .push_if(condition, then_block, else_block, self.fragments);
        self.note_either(register, [&then.1, &otherwise.1]);
        Ok(Operand::Register {
            register,
            kind,
            safe,
        })
    }
}

/// The type and safety that two values share, or why they do not.
pub(super) fn unify(a: &Operand, b: &Operand) -> std::result::Result<(Type, bool), String> {
    let (Some((a_kind, a_safe)), Some((b_kind, b_safe))) = (a.scalar(), b.scalar()) else {
        return Err(format!(
            "it is {} on one path and {} on another",
            a.describe(),
            b.describe()
        ));
    };
    if a_kind != b_kind {
        return Err(format!(
            "it is {} on one path and {} on another",
            a.describe(),
            b.describe()
        ));
    }
    if a_safe != b_safe {
        return Err(
            "it is safe to print on one path only; apply `|safe` or `|escape` on both".to_owned(),
        );
    }
    Ok((a_kind, a_safe))
}
