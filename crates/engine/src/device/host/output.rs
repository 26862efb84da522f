//! Operations that ask a backend, and headers.

use super::blocks::Strip;
use super::strip::Selection;
use crate::cohort::{Argument, LaneError};
use crate::program::{Header, Query, Type};

impl Strip<'_> {
    pub(super) fn query(&mut self, op: &Query, selection: &Selection) {
        let call = self.stage.call.expect("a stage that asks ends with a call");
        let charged = self.program.calls[call].form.charge();
        for &lane in selection {
            let (registers, arena) = (&*self.registers, &*self.arena);
            let kinds = &self.stage.registers;
            let arguments = (op.arguments.iter()).map(|&from| match kinds[usize::from(from)] {
                Type::Text => Argument::Text(arena.get(registers.view(from, lane))),
                Type::Int => Argument::Int(registers.int(from, lane)),
                Type::Float => Argument::Float(registers.float(from, lane)),
                Type::Bool => Argument::Bool(registers.bool(from, lane)),
            });
            let index = self.lanes.index[usize::from(lane)];
            let charge = charged.of(arguments.clone());
            if self.lanes.charge(lane, charge) && !self.queries.push(index, arguments) {
                self.lanes.fail(lane, LaneError::TooLarge);
            }
        }
    }

    pub(super) fn header(&mut self, op: &Header, selection: &Selection) {
        for &lane in selection {
            let value = self.registers.view(op.value, lane);
            self.headers
                .push((self.lanes.index[usize::from(lane)], op.name, value));
        }
    }
}
