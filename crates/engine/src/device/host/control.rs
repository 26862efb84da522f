//! Operations that choose which lanes run what: branches and loops.

use super::run::Run;
use super::strip::{STRIP, Selection};
use crate::cohort::LaneError;
use crate::program::{For, If};

/// The positions that a loop's filter kept, lane by lane. Its memory is kept from loop to loop.
#[derive(Default)]
pub(super) struct Kept {
    /// Lanes and positions as they were found: by position.
    found: Vec<(u8, i64)>,
    /// The positions, by lane.
    positions: Vec<i64>,
    /// Where each lane's positions start.
    starts: Vec<u32>,
}

impl Kept {
    /// Memory kept between loops, in positions. What a loop needed beyond it is given back.
    const CAPACITY_KEPT: usize = 1 << 16;

    fn clear(&mut self) {
        self.found.clear();
        self.found.shrink_to(Kept::CAPACITY_KEPT);
        self.positions.clear();
        self.positions.shrink_to(Kept::CAPACITY_KEPT);
    }

    /// Keeps a position of a lane. Positions of one lane come in rising order.
    fn keep(&mut self, lane: u8, position: i64) {
        self.found.push((lane, position));
    }

    /// Puts what was found in order of lanes.
    fn sort(&mut self) {
        self.starts.clear();
        self.starts.resize(STRIP + 1, 0);
        for (lane, _) in &self.found {
            self.starts[usize::from(*lane) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        // Each lane's start is moved behind what is placed, and so ends as the next one's.
        self.positions.resize(self.found.len(), 0);
        for (lane, position) in &self.found {
            let at = &mut self.starts[usize::from(*lane)];
            self.positions[*at as usize] = *position;
            *at += 1;
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    /// How many positions of a lane were kept.
    fn count(&self, lane: u8) -> i64 {
        let lane = usize::from(lane);
        i64::from(self.starts[lane + 1] - self.starts[lane])
    }

    /// A lane's position at this turn.
    fn position(&self, lane: u8, turn: i64) -> i64 {
        self.positions[self.starts[usize::from(lane)] as usize + turn as usize]
    }
}

impl Run<'_> {
    /// Runs each branch once, for the lanes that take it.
    pub(super) fn branch(&mut self, op: &If, selection: &Selection) {
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

    pub(super) fn repeat(&mut self, op: &For, selection: &Selection) {
        let kept = self.kept_turns(op, selection);
        self.turns(op, selection, kept.as_ref());
        self.kept.extend(kept.map(|mut kept| {
            kept.clear();
            kept
        }));
    }

    /// Sets `length` to how many turns each lane's loop takes, and gives which where it has a
    /// filter; without one they are 0, 1, 2, ... for every lane.
    fn kept_turns(&mut self, op: &For, selection: &Selection) -> Option<Kept> {
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
        let mut kept = self.kept.pop().unwrap_or_default();
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
            self.block(&filter.block, &mut turning);
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
    fn turns(&mut self, op: &For, selection: &Selection, kept: Option<&Kept>) {
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
