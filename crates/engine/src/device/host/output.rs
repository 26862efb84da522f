//! Operations that ask a backend, and headers.

use super::blocks::Strip;
use super::strip::Selection;
use crate::cohort::LaneError;
use crate::program::{Header, Query};

impl Strip<'_> {
    pub(super) fn query(&mut self, op: &Query, selection: &Selection) {
        let call = self.stage.call.expect("a stage that asks ends with a call");
        let charged = self.program.calls[call].form.charge();
        for &lane in selection {
            let (registers, arena) = (&*self.registers, &*self.arena);
            let kinds = &self.stage.registers;
            let arguments = (op.arguments.iter())
                .map(|&from| registers.argument(from, lane, kinds[usize::from(from)], arena));
            let index = self.lanes.index[usize::from(lane)];
            let charge = charged.of(arguments.clone());
            if self.lanes.charge(lane, charge) && !self.queries.push(index, arguments) {
                self.lanes.fail(lane, LaneError::ArenaFull);
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
