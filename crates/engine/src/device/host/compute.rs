//! Operations on numbers and truth values, comparisons and conversions.

use super::run::Run;
use super::strip::{Selection, unpack};
use super::texts::print;
use crate::cohort::LaneError;
use crate::device::functions;
use crate::program::{Arithmetic, Binary, Comparison, Conversion, Type, Unary};

impl Run<'_> {
    pub(super) fn arithmetic(&mut self, operator: Arithmetic, op: &Binary, selection: &Selection) {
        match self.kind(op.to) {
            Type::Float => self.each(selection, op.to, |run, lane| {
                let left = run.registers.float(op.left, lane);
                functions::float(operator, left, run.registers.float(op.right, lane))
            }),
            _ => self.each(selection, op.to, |run, lane| {
                let left = run.registers.int(op.left, lane);
                functions::int(operator, left, run.registers.int(op.right, lane))
            }),
        }
    }

    pub(super) fn negate(&mut self, op: &Unary, selection: &Selection) {
        match self.kind(op.to) {
            Type::Float => self.each(selection, op.to, |run, lane| {
                Ok(-run.registers.float(op.from, lane))
            }),
            _ => self.each(selection, op.to, |run, lane| {
                let negated = run.registers.int(op.from, lane).checked_neg();
                negated.ok_or(LaneError::Overflow)
            }),
        }
    }

    pub(super) fn absolute(&mut self, op: &Unary, selection: &Selection) {
        match self.kind(op.to) {
            Type::Float => self.each(selection, op.to, |run, lane| {
                Ok(run.registers.float(op.from, lane).abs())
            }),
            _ => self.each(selection, op.to, |run, lane| {
                let absolute = run.registers.int(op.from, lane).checked_abs();
                absolute.ok_or(LaneError::Overflow)
            }),
        }
    }

    pub(super) fn compare(&mut self, comparison: Comparison, op: &Binary, selection: &Selection) {
        let Binary { to, left, right } = *op;
        match self.kind(left) {
            Type::Text => self.each(selection, to, |run, lane| {
                let left = run.arena.get(run.registers.view(left, lane));
                let right = run.arena.get(run.registers.view(right, lane));
                Ok(match comparison {
                    // Equality needs no order: lengths differ, mostly.
                    Comparison::Equal => left == right,
                    Comparison::NotEqual => left != right,
                    _ => functions::holds(comparison, left.cmp(right)),
                })
            }),
            Type::Float => self.each(selection, to, |run, lane| {
                Ok(functions::floats_hold(
                    comparison,
                    run.registers.float(left, lane),
                    run.registers.float(right, lane),
                ))
            }),
            Type::Int | Type::Bool => self.each(selection, to, |run, lane| {
                let (left, right) = (
                    run.registers.int(left, lane),
                    run.registers.int(right, lane),
                );
                Ok(functions::holds(comparison, left.cmp(&right)))
            }),
        }
    }

    pub(super) fn not(&mut self, op: &Unary, selection: &Selection) {
        self.each(selection, op.to, |run, lane| {
            Ok(!run.registers.bool(op.from, lane))
        });
    }

    pub(super) fn truth(&mut self, op: &Unary, selection: &Selection) {
        match self.kind(op.from) {
            Type::Text => self.each(selection, op.to, |run, lane| {
                Ok(run.registers.view(op.from, lane).length > 0)
            }),
            Type::Float => self.each(selection, op.to, |run, lane| {
                Ok(run.registers.float(op.from, lane) != 0.0)
            }),
            Type::Int | Type::Bool => self.each(selection, op.to, |run, lane| {
                Ok(run.registers.int(op.from, lane) != 0)
            }),
        }
    }

    pub(super) fn convert(&mut self, conversion: Conversion, op: &Unary, selection: &Selection) {
        let Unary { to, from } = *op;
        match conversion {
            Conversion::IntToFloat => self.each(selection, to, |run, lane| {
                Ok(run.registers.int(from, lane) as f64)
            }),
            Conversion::FloatToInt => {
                self.each(selection, to, |run, lane| {
                    functions::float_to_int(run.registers.float(from, lane))
                });
            }
            Conversion::BoolToInt => {
                self.each(selection, to, |run, lane| Ok(run.registers.int(from, lane)))
            }
            Conversion::TextToInt => self.each(selection, to, |run, lane| {
                functions::text_to_int(run.text(from, lane))
            }),
            Conversion::TextToFloat => self.each(selection, to, |run, lane| {
                functions::text_to_float(run.text(from, lane))
            }),
            Conversion::ToText => {
                let kind = self.kind(from);
                self.each_made(selection, to, |run, lane, made| {
                    let cell = run.registers.column(from)[usize::from(lane)];
                    if kind == Type::Text {
                        return Ok(Some(unpack(cell)));
                    }
                    print(kind, cell, made);
                    Ok(None)
                });
            }
        }
    }
}
