//! Operations that choose which lanes run what: branches and loops.

use super::blocks::Strip;
use super::plan::{Branch, Choice, Key, Loop, Part};
use super::positions::Positions;
use super::strip::{Registers, Selection, argument};
use super::walk::{KeyFound, Turns};
use crate::device::{choices, cost};
use crate::program::KeyUse;

impl Loop {
    /// Its turns, of these positions.
    fn turns<'w>(&self, kept: Option<&'w Positions>, key: Option<KeyFound<'w>>) -> Turns<'w> {
        Turns {
            position: self.position,
            index: self.index,
            length: self.length,
            kept,
            key,
        }
    }
}

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
        self.positions.extend(kept.map(Positions::cleared));
    }

    /// Sets `length` to how many turns each lane's loop takes, and gives which where it has
    /// choices; without any they are 0, 1, 2, ... for every lane.
    fn kept_turns(&mut self, op: &Loop, selection: &Selection) -> Option<Positions> {
        for &lane in selection {
            let count = self.registers.int(op.count, lane).max(0);
            self.lanes.take_turns(lane, count);
            self.registers.set(op.length, lane, count);
        }
        let mut kept = None;
        for choice in &op.choices {
            let mut next = self.positions.pop().unwrap_or_default();
            match choice {
                Choice::By(by, key) => {
                    self.by_key(op, *by, key, selection, kept.as_ref(), &mut next)
                }
                Choice::Reverse => {
                    self.rearrange(op, selection, kept.as_ref(), &mut next, |_, _, all| {
                        all.reverse();
                    });
                }
                Choice::Slice { start, stop, step } => {
                    self.rearrange(op, selection, kept.as_ref(), &mut next, |of, lane, all| {
                        let [start, stop] = [*start, *stop].map(|bound| of.int(bound, lane));
                        choices::slice(all, start, stop, *step);
                    });
                }
            }
            next.place();
            for &lane in selection {
                self.registers.set(op.length, lane, next.count(lane));
            }
            let before = kept.replace(next);
            self.positions.extend(before.map(Positions::cleared));
        }
        kept
    }

    /// Computes what each position has, and does with them what that is for.
    fn by_key(
        &mut self,
        op: &Loop,
        by: KeyUse,
        key: &Key,
        selection: &Selection,
        kept: Option<&Positions>,
        next: &mut Positions,
    ) {
        // The key's block may not change `count`, but `length` may be the same register as
        // nothing else, so it serves to remember the counts.
        let mut turning = self.selection();
        turning.extend(selection.iter().filter(|lane| self.lanes.runs(**lane)));
        let found = KeyFound {
            register: key.register,
            by,
            found: next,
        };
        self.take_turns(&key.parts, op.turns(kept, Some(found)), turning);
        if by == KeyUse::Keep {
            return;
        }
        next.place();
        let kind = self.kind(key.register);
        let found = std::mem::take(next);
        for &lane in selection {
            if !self.lanes.runs(lane) {
                continue;
            }
            let keyed = found.of(lane).iter();
            let keyed = keyed.map(|(at, cell)| (*at, argument(*cell, kind, self.arena)));
            let mut keyed: choices::Keyed<'_> = keyed.collect();
            let charge = cost::by_keys(by, keyed.iter().map(|(_, key)| *key));
            if !self.lanes.read(lane, charge) {
                continue;
            }
            choices::by_key(by, &mut keyed);
            keyed.iter().for_each(|(at, _)| next.keep(lane, *at, 0));
        }
        self.positions.push(found.cleared());
    }

    /// Rearranges each lane's positions.
    fn rearrange(
        &mut self,
        op: &Loop,
        selection: &Selection,
        kept: Option<&Positions>,
        next: &mut Positions,
        how: impl Fn(&Registers, u8, &mut Vec<i64>),
    ) {
        for &lane in selection.iter().filter(|lane| self.lanes.runs(**lane)) {
            let count = self.registers.int(op.length, lane);
            let at = |turn| kept.map_or(turn, |kept| kept.position(lane, turn));
            let mut all = (0..count).map(at).collect();
            how(self.registers, lane, &mut all);
            all.iter().for_each(|at| next.keep(lane, *at, 0));
        }
    }

    /// Runs a loop's body, and its else for lanes that have no turn.
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
        self.take_turns(&op.body, op.turns(kept, None), turning);
        self.block(&op.otherwise, &mut idle);
        self.selections.push(idle);
    }

    /// Runs a block for all turns of these lanes: lane by lane where it runs as one, else turn by
    /// turn, each time for the lanes that still have one. It never writes `length`: the loop owns
    /// the register.
    fn take_turns(&mut self, parts: &[Part], mut turns: Turns<'_>, mut turning: Selection) {
        if let [Part::Steps(steps)] = parts {
            self.walk(steps, &turning, Some(turns));
        } else {
            for turn in 0.. {
                turning.retain(|lane| turns.begin(*lane, turn, self.registers));
                if turning.is_empty() {
                    break;
                }
                self.block(parts, &mut turning);
                for &lane in &turning {
                    turns.end(lane, self.registers);
                }
            }
        }
        self.selections.push(turning);
    }
}
