//! The reference executor: one request at a time, in plain code.
//!
//! It runs a stage's whole program for the first lane, then for the second, and so on, as a server
//! that does not know cohorts would. It is the baseline that the others are measured against and
//! the reference whose bytes they must equal, so it is written to be evidently right: no batching,
//! no SIMD, checked indexing.
//!
//! - `lane`: the operations, for one lane;
//! - `locate`: where in the sources a lane failed, of which any executor has told that it did;
//! - `value`: what a register holds, and operations on numbers.

mod lane;
mod locate;
mod value;

use super::executor::{Executor, Refusal, Work};
use super::limits::LaneLimits;
use crate::cohort::{Cohort, LaneError, LaneOutput, LaneState};
use crate::program::PageProgram;
use lane::{Lane, Stop};
pub use locate::locate;

/// The scalar executor. A submitted stage is complete at the next poll.
#[derive(Debug, Default)]
pub struct ScalarExecutor {
    limits: LaneLimits,
    done: Vec<Work>,
}

impl ScalarExecutor {
    /// An executor with these limits.
    pub fn new(limits: LaneLimits) -> Self {
        ScalarExecutor {
            limits,
            done: Vec::new(),
        }
    }
}

impl Executor for ScalarExecutor {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn submit(&mut self, mut work: Work) -> Result<(), Refusal> {
        let program = &work.service.pages[work.page];
        run_stage(
            program,
            &work.service.fragments,
            &mut work.cohort,
            self.limits,
        );
        self.done.push(work);
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// Runs the cohort's next stage.
fn run_stage(
    program: &PageProgram,
    fragments: &[Box<[u8]>],
    cohort: &mut Cohort,
    limits: LaneLimits,
) {
    let stage = &program.stages[cohort.stage];
    cohort
        .output
        .lanes
        .resize(cohort.lanes.len(), LaneOutput::default());
    cohort.output.runs.truncate(cohort.output.runs_used);
    cohort.output.segments.truncate(cohort.output.segments_used);
    for index in 0..cohort.lanes.len() {
        if cohort.lanes[index] != LaneState::Active {
            continue;
        }
        cohort.begin_run();
        let queries_before = cohort.queries.len();
        let mut lane = Lane::begin(program, fragments, cohort, index, limits);
        let result = lane.run(&stage.body);
        let answer = lane.answer;
        // What it has written is found room for when its length is known.
        let [run_bytes, segments] = [
            cohort.output.runs.len() - answer.run_start,
            cohort.output.segments.len() - answer.segment_start as usize,
        ];
        let has_room = cohort.has_room_for_answer(run_bytes, segments);
        let finished = match result {
            Ok(()) if has_room => stage.call.is_none(),
            Err(Stop::Finished) if has_room => true,
            ended => {
                cohort.lanes[index] = match ended {
                    Err(Stop::Failed(LaneError::ArenaFull)) if cohort.take_short() => {
                        LaneState::Later
                    }
                    Err(Stop::Failed(error)) => LaneState::Failed(error),
                    Ok(()) | Err(Stop::Finished) => LaneState::Later,
                };
                cohort.output.runs.truncate(answer.run_start);
                cohort
                    .output
                    .segments
                    .truncate(answer.segment_start as usize);
                drop_last_while(&mut cohort.output.headers, |(lane, ..)| {
                    *lane as usize == index
                });
                cohort.queries.truncate(queries_before);
                continue;
            }
        };
        cohort.output.runs_used = cohort.output.runs.len();
        cohort.output.segments_used = cohort.output.segments.len();
        if finished {
            cohort.lanes[index] = LaneState::Finished;
            cohort.output.lanes[index] = LaneOutput {
                run_length: (cohort.output.runs.len() - answer.run_start) as u32,
                segment_count: cohort.output.segments.len() as u32 - answer.segment_start,
                ..answer
            };
        }
    }
    // Lanes of another pass came late.
    if !cohort.output.headers.is_sorted_by_key(|(lane, ..)| *lane) {
        cohort.output.headers.sort_by_key(|(lane, ..)| *lane);
    }
    cohort.stage += 1;
}

/// Takes elements off the end as long as they are some lane's.
fn drop_last_while<T>(elements: &mut Vec<T>, is_lanes: impl Fn(&T) -> bool) {
    while elements.last().is_some_and(&is_lanes) {
        elements.pop();
    }
}
