//! The passes of a stage: lanes that found no memory beside the others run it after them, and so do
//! those that were not begun when enough was done at a time.
//!
//! An executor runs as many lanes as there is room and time for and leaves the others as
//! [`LaneState::Later`]. Once those that are finished are answered, the room of their output is
//! free, and the stage is run again for those that were left out, until all have run it.

use super::Cohort;
use super::error::{LaneError, LaneState};
use super::pass::Pass;

impl Cohort {
    /// To be asked after each run of a stage, when the lanes that it has finished are answered.
    /// Unless it is over, the cohort is ready for another pass.
    pub fn next_pass(&mut self) -> Pass {
        let pass = self.next_pass_beside();
        if pass != Pass::Over {
            self.output.begin_pass();
        }
        pass
    }

    /// The same, for who looks at what a stage has made when all lanes have run it: what the next
    /// pass makes stands beside what those before it have made.
    pub(crate) fn next_pass_beside(&mut self) -> Pass {
        let (later, yields) = (self.later(), std::mem::take(&mut self.yields));
        let before = match later {
            0 => self.passes.left_out.take(),
            _ => self.passes.left_out.replace(later),
        };
        if later == 0 {
            if before.is_some() {
                for state in &mut self.lanes {
                    if *state == LaneState::Ahead {
                        *state = LaneState::Active;
                    }
                }
                self.queries.sort_from(0);
            }
            return Pass::Over;
        }
        self.stage -= 1;
        for state in &mut self.lanes {
            match state {
                LaneState::Active => *state = LaneState::Ahead,
                LaneState::Later => *state = LaneState::Active,
                _ => {}
            }
        }
        match before {
            Some(before) if before == later => Pass::Short,
            _ if yields => Pass::Yield,
            _ => Pass::Again,
        }
    }

    /// Fails the lanes that another pass is for: there will be no memory for them. The stage is as
    /// if it had been run.
    pub fn give_up_pass(&mut self) {
        for state in &mut self.lanes {
            if *state == LaneState::Active {
                *state = LaneState::Failed(LaneError::MemoryShort);
            }
        }
        self.stage += 1;
    }

    /// How many lanes the stage was run for last, those included that took no part.
    pub fn run_last(&self) -> usize {
        self.passes.left_out.unwrap_or(self.len()) - self.later()
    }

    /// How many lanes the last pass left out.
    fn later(&self) -> usize {
        let is_later = |state: &&LaneState| **state == LaneState::Later;
        self.lanes.iter().filter(is_later).count()
    }

    /// Whether lanes are yet to run the stage that others have run.
    pub fn is_between_passes(&self) -> bool {
        self.passes.left_out.is_some()
    }

    /// Forgets that memory was short.
    pub(crate) fn begin_run(&mut self) {
        self.take_short();
    }

    /// Whether memory was short since this was last asked: what failed for want of it may find it
    /// later.
    pub(crate) fn take_short(&mut self) -> bool {
        // Both are asked.
        self.arena.take_short() | self.queries.take_short()
    }
}
