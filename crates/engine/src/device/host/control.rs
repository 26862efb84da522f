//! Operations that choose which lanes run what: branches and loops.

use super::blocks::Strip;
use super::plan::{Branch, Loop};
use super::positions::Positions;
use super::strip::Selection;
use crate::cohort::LaneError;

impl Strip<'_> {
    /// Runs each branch once, for the lanes that take it.
    pub(super) fn branch(&mut self, op: &Branch, selection: &Selection) {
        let mut taken = self.selection();
        let mut other = self.selection();
        for &lane in selection {
            if self.registers.bool(op.condition, lane) {
                taken.push(lane);
            } else {
                other.push(lane);
            }
        }
        self.block(&op.then, &mut taken);
        self.block(&op.otherwise, &mut other);
        self.selections.extend([taken, other]);
    }

    pub(super) fn repeat(&mut self, op: &Loop, selection: &Selection) {
        let kept = self.kept_turns(op, selection);
        self.turns(op, selection, kept.as_ref());
        self.positions.extend(kept.map(|mut kept| {
            kept.clear();
            kept
        }));
    }

    /// Sets `length` to how many turns each lane's loop takes, and gives which where it has a
    /// filter; without one they are 0, 1, 2, ... for every lane.
    fn kept_turns(&mut self, op: &Loop, selection: &Selection) -> Option<Positions> {
        for &lane in selection {
            let count = self.registers.int(op.count, lane).max(0);
            let left = &mut self.lanes.turns_left[usize::from(lane)];
            match usize::try_from(count)
                .ok()
                .and_then(|count| left.checked_sub(count))
            {
                Some(less) => *left = less,
                None => self.lanes.fail(lane, LaneError::TooManyTurns),
            }
            self.registers.set(op.length, lane, count);
        }
        let filter = op.filter.as_ref()?;
        let mut kept = self.positions.pop().unwrap_or_default();
        // The filter's block may not change `count`, but `length` may be the same register as
        // nothing else, so it serves to remember the counts.
        let mut turning = self.selection();
        turning.extend(selection.iter().filter(|lane| self.lanes.runs(**lane)));
        for at in 0.. {
            turning.retain(|lane| at < self.registers.int(op.length, *lane));
            if turning.is_empty() {
                break;
            }
            for &lane in &turning {
                self.registers.set(op.position, lane, at);
            }
            self.block(&filter.parts, &mut turning);
            for &lane in &turning {
                if self.registers.bool(filter.keep, lane) {
                    kept.keep(lane, at);
                }
            }
        }
        self.selections.push(turning);
        kept.sort();
        for &lane in selection {
            self.registers.set(op.length, lane, kept.count(lane));
        }
        Some(kept)
    }

    /// Runs a loop's body turn by turn, each time for the lanes that still have one, and its else
    /// for those that had none.
    fn turns(&mut self, op: &Loop, selection: &Selection, kept: Option<&Positions>) {
        let mut turning = self.selection();
        let mut idle = self.selection();
        for &lane in selection.iter().filter(|lane| self.lanes.runs(**lane)) {
            if self.registers.int(op.length, lane) > 0 {
                turning.push(lane);
            } else {
                idle.push(lane);
            }
        }
        for turn in 0.. {
            // The body never writes `length`: the loop owns the register.
            turning.retain(|lane| turn < self.registers.int(op.length, *lane));
            if turning.is_empty() {
                break;
            }
            for &lane in &turning {
                let at = kept.map_or(turn, |kept| kept.position(lane, turn));
                self.registers.set(op.position, lane, at);
                self.registers.set(op.index, lane, turn);
            }
            self.block(&op.body, &mut turning);
        }
        self.block(&op.otherwise, &mut idle);
        self.selections.extend([turning, idle]);
    }
}
