//! The host executor: part by part of a program, over all lanes of a strip.
//!
//! It walks a stage's program once for each strip of 256 lanes. What needs no other lane (loads,
//! computations, output, branches and loops of these) runs as one: each lane takes all of its
//! steps, which are made once for each page, before the next lane begins, so that its cells and its
//! region stay in the first-level cache. What makes texts, asks a backend or has a kernel for many
//! lanes runs one operation at a time for all lanes, and so does a block with such an operation in
//! it: a branch once, over the lanes that took it, a loop as often as the lane with the most turns
//! needs, each time for the lanes that still turn (as the lanes of a GPU's warp do; paper, section
//! 2.1).
//!
//! - `strip`: the registers and lanes of a strip;
//! - `stages`: what is kept of each page: its stages' plans;
//! - `plan`: the parts of a stage; `fuse`: what can run as one, as `step`s (`keys`: short texts to
//!   compare with; `row_plan`: which loops are `rows`);
//! - `blocks`: which parts are run for which lanes;
//! - `walk`: lanes taking their steps, with `compute` (cells from cells), `rows` (loops that append
//!   a row for each item) and `write` (output);
//! - `texts`, `control`, `output`: what runs one operation at a time;
//! - `md5`: many digests at once;
//! - `twins`: lanes of which one is run for all;
//! - `work`: how much is done in one pass of a stage.
//!
//! Which instructions the kernels use is chosen at start by [`Level`], so one machine can test
//! every path.

mod blocks;
mod compute;
mod control;
mod fuse;
mod keys;
mod md5;
mod output;
mod plan;
mod positions;
mod row_plan;
mod rows;
mod stages;
mod step;
mod strip;
mod texts;
mod twins;
mod walk;
mod work;
mod write;

use super::executor::{Executor, Refusal, Work};
use super::limits::LaneLimits;
use crate::cohort::{Cohort, LaneError, LaneOutput, LaneState};
use crate::program::PageProgram;
use blocks::Strip;
use plan::Plan;
use positions::Positions;
use rhythm_protocol::scan::Level;
use stages::{Room, Stage, Stages};
use step::Columns;
use strip::{Fate, Lanes, Registers, STRIP, Selection};
use twins::Twins;
pub use work::PASS_WORK_MAX;
use work::{PassWork, SHORT_PASS_WORK_MAX, TURN_WORK};
use write::Regions;

/// A strip's output regions take no more than this; where lanes need large ones, fewer run
/// together.
const STRIP_BYTES_MAX: usize = 64 << 20;

/// Bytes kept for texts while they are made. What one needed beyond them is given back.
const MADE_KEPT_MAX: usize = 64 << 10;

/// The host executor. A submitted stage is complete at the next poll.
pub struct HostExecutor {
    done: Vec<Work>,
    stages: Stages,
    strips: Strips,
}

/// What runs strips, and its memory, which is kept from strip to strip.
struct Strips {
    limits: LaneLimits,
    /// How much is done in one pass of a stage.
    pass_work_max: usize,
    level: Level,
    /// The lanes to be run.
    active: Vec<u32>,
    /// Those that others are run for.
    twins: Twins,
    /// Those that needed more room.
    overflowed: Vec<u32>,
    registers: Registers,
    lanes: Box<Lanes>,
    columns: Columns<'static>,
    selections: Vec<Selection>,
    positions: Vec<Positions>,
    /// A lane's text while it is made.
    made: Vec<u8>,
}

/// The most that a lane of a strip used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    room: Room,
    work: usize,
}

/// Where what a strip makes begins among what the cohort had before.
#[derive(Clone, Copy)]
struct Before {
    run: usize,
    segment: usize,
    query: usize,
    header: usize,
}

impl HostExecutor {
    /// An executor with these limits that uses the instructions of `level`.
    pub fn new(limits: LaneLimits, level: Level) -> Self {
        HostExecutor {
            done: Vec::new(),
            stages: Stages::default(),
            strips: Strips {
                limits,
                pass_work_max: usize::MAX,
                level,
                active: Vec::new(),
                twins: Twins::default(),
                overflowed: Vec::new(),
                registers: Registers::default(),
                lanes: Box::default(),
                columns: Columns::default(),
                selections: Vec::new(),
                positions: Vec::new(),
                made: Vec::new(),
            },
        }
    }

    /// The same, which ends a pass of a stage when it has done so much work, in bytes of texts made
    /// and appended: lanes that were not begun by then are left for another
    /// ([`LaneState::Later`]), so that others may have their turn between.
    pub fn in_passes_of(mut self, work_max: usize) -> Self {
        self.strips.pass_work_max = work_max;
        self
    }
}

impl Strips {
    /// Runs the cohort's next stage.
    fn run_stage(&mut self, program: &PageProgram, stage: &mut Stage, cohort: &mut Cohort) {
        (cohort.output.lanes).resize(cohort.lanes.len(), LaneOutput::default());
        let most = Room::most(self.limits);
        let mut room = stage.expected.at_most(most);
        let mut pass = PassWork {
            max: match cohort.hurries {
                true => self.pass_work_max.min(SHORT_PASS_WORK_MAX),
                false => self.pass_work_max,
            },
            done: 0,
            lanes: 0,
        };
        let mut active = std::mem::take(&mut self.active);
        active.extend(
            (0u32..)
                .zip(&cohort.lanes)
                .filter(|(_, state)| **state == LaneState::Active)
                .map(|(lane, _)| lane),
        );
        let header = cohort.output.headers.len();
        if program.stages[cohort.stage].call.is_none() {
            self.twins.take(&stage.plan.needed, cohort, &mut active);
        }
        while !active.is_empty() {
            let strip_lanes = (STRIP_BYTES_MAX / room.stride()).clamp(1, STRIP);
            let mut rest = &active[..];
            while !rest.is_empty() {
                let strip_lanes = strip_lanes
                    .min(rest.len())
                    .min(pass.lanes_of(stage.expected_work));
                let region = match pass.is_enough() {
                    true => None,
                    false => cohort.reserve_output(strip_lanes, room.stride(), room.segments),
                };
                let Some((fit, at)) = region else {
                    for lane in rest {
                        cohort.lanes[*lane as usize] = LaneState::Later;
                    }
                    break;
                };
                let lanes;
                (lanes, rest) = rest.split_at(fit);
                let used =
                    self.run_strip(program, &stage.plan, cohort, (lanes, at), room, &mut pass);
                // Whatever came of them, they have begun.
                pass.done = pass.done.saturating_add(fit * stage.plan.once);
                stage.expect_work(used.work + stage.plan.once);
                stage.expect(used.room, room);
            }
            if room == most {
                for lane in self.overflowed.drain(..) {
                    cohort.fail(lane as usize, LaneError::TooLarge);
                }
            }
            std::mem::swap(&mut active, &mut self.overflowed);
            self.overflowed.clear();
            room = room.times_four().at_least(stage.long).at_most(most);
        }
        self.active = active;
        self.twins.settle(cohort, header, &mut pass);
        cohort.yields = pass.is_enough();
        // Twins, and lanes that were run again, came late.
        if !cohort.output.headers.is_sorted_by_key(|(lane, ..)| *lane) {
            cohort.output.headers.sort_by_key(|(lane, ..)| *lane);
        }
        cohort.stage += 1;
    }

    /// Runs the stage for the lanes `indexes`, each with so much room from there on, and gives the
    /// most that one used. Lanes that needed more room go to `overflowed`, as if they had not been
    /// run.
    fn run_strip(
        &mut self,
        program: &PageProgram,
        plan: &Plan,
        cohort: &mut Cohort,
        (indexes, (run, segment)): (&[u32], (usize, usize)),
        room: Room,
        pass: &mut PassWork,
    ) -> Used {
        let stage = &program.stages[cohort.stage];
        let stride = room.stride();
        cohort.begin_run();
        let output = &mut cohort.output;
        let before = Before {
            run,
            segment,
            query: cohort.queries.len(),
            header: output.headers.len(),
        };
        // One more for what nobody reads.
        self.registers.prepare(stage.registers.len() + 1);
        let lanes = &mut *self.lanes;
        lanes.begin(
            indexes,
            stride as u32,
            self.limits.text_bytes_max,
            self.limits.turns_max,
        );
        lanes.work_left = pass.max.saturating_sub(pass.done).max(1);
        // If none has come through, one has to, whatever it takes.
        lanes.spared = usize::from(pass.lanes == 0);
        let mut columns = std::mem::take(&mut self.columns).reuse();
        columns.find(&plan.needed, &cohort.fields);

        Strip {
            program,
            stage,
            plan,
            columns: &columns,
            arena: &mut cohort.arena,
            queries: &mut cohort.queries,
            headers: &mut output.headers,
            registers: &mut self.registers,
            lanes,
            regions: Regions {
                runs: &mut output.runs[run..],
                stride,
                segments: &mut output.segments[segment..],
                segment_stride: room.segments,
            },
            selections: &mut self.selections,
            positions: &mut self.positions,
            made: &mut self.made,
            level: self.level,
        }
        .run(indexes.len());
        self.columns = columns.reuse();
        self.made.clear();
        self.made.shrink_to(MADE_KEPT_MAX);
        self.take_answers(cohort, indexes, room, before, stage.call.is_some(), pass)
    }

    /// After the lanes `indexes` were run, each with so much room, in a stage that `asks` or is the
    /// last: takes note of what befell them and what they answer, and gives the most that one used.
    fn take_answers(
        &mut self,
        cohort: &mut Cohort,
        indexes: &[u32],
        room: Room,
        before: Before,
        asks: bool,
        pass: &mut PassWork,
    ) -> Used {
        let lanes = &mut *self.lanes;
        let stride = room.stride();
        let is_short = cohort.take_short();
        let mut used = Used::default();
        let mut some_ended_early = false;
        for (lane, &index) in indexes.iter().enumerate() {
            let run_length = lanes.cursor[lane] as usize - lane * stride;
            let segment_count = lanes.segments[lane] as usize;
            let body_length = run_length + lanes.fragment_bytes[lane];
            let work = (self.limits.turns_max - lanes.turns_left[lane]) * TURN_WORK
                + (self.limits.text_bytes_max - lanes.text_left[lane])
                + lanes.read_work[lane]
                + body_length;
            pass.done = pass.done.saturating_add(work);
            used.work = used.work.max(work);
            let mut fate = lanes.fate[lane];
            if body_length > self.limits.body_bytes_max {
                fate = Fate::Failed(LaneError::TooLarge);
            }
            pass.lanes += usize::from(!matches!(fate, Fate::Overflowed | Fate::PutOff));
            match fate {
                Fate::Overflowed => self.overflowed.push(index),
                Fate::PutOff => cohort.lanes[index as usize] = LaneState::Later,
                Fate::Failed(LaneError::ArenaFull) if is_short => {
                    cohort.lanes[index as usize] = LaneState::Later;
                }
                Fate::Failed(error) => cohort.lanes[index as usize] = LaneState::Failed(error),
                Fate::Running if asks => continue,
                Fate::Running | Fate::Finished => {
                    used.room.run_bytes = used.room.run_bytes.max(run_length);
                    used.room.segments = used.room.segments.max(segment_count);
                    cohort.lanes[index as usize] = LaneState::Finished;
                    cohort.output.lanes[index as usize] = LaneOutput {
                        run_start: before.run + lane * stride,
                        run_length: run_length as u32,
                        segment_start: (before.segment + lane * room.segments) as u32,
                        segment_count: segment_count as u32,
                        body_length: body_length as u32,
                        ..lanes.answer[lane]
                    };
                    continue;
                }
            }
            lanes.fate[lane] = fate;
            some_ended_early = true;
        }
        if self.overflowed.ends_with(indexes) {
            // Nothing of it is meant.
            cohort.output.take_back(before.run, before.segment);
        }
        // A loop asks turn by turn, but queries stand lane by lane.
        cohort.queries.sort_from(before.query);
        sort_from(&mut cohort.output.headers, before.header, |h| h.0);
        if some_ended_early {
            let ended_early = |index: u32| {
                let lane = indexes.binary_search(&index);
                lane.is_ok_and(|lane| {
                    matches!(
                        lanes.fate[lane],
                        Fate::Failed(_) | Fate::Overflowed | Fate::PutOff
                    )
                })
            };
            (cohort.queries).retain_from(before.query, |lane| !ended_early(lane));
            retain_from(&mut cohort.output.headers, before.header, |h| {
                !ended_early(h.0)
            });
        }
        used
    }
}

/// Sorts the elements from `start` on by a key, keeping the order of equal ones.
fn sort_from<T>(elements: &mut [T], start: usize, key: impl Fn(&T) -> u32) {
    let new = &mut elements[start..];
    if !new.is_sorted_by_key(&key) {
        new.sort_by_key(key);
    }
}

/// Keeps those of the elements from `start` on that `keep` says.
fn retain_from<T>(elements: &mut Vec<T>, start: usize, keep: impl Fn(&T) -> bool) {
    let mut at = 0;
    elements.retain(|element| {
        at += 1;
        at <= start || keep(element)
    });
}

impl std::fmt::Debug for HostExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostExecutor")
            .field("level", &self.strips.level)
            .finish_non_exhaustive()
    }
}

impl Executor for HostExecutor {
    fn name(&self) -> &'static str {
        "host"
    }

    fn submit(&mut self, mut work: Work) -> Result<(), Refusal> {
        let Work {
            service,
            page,
            cohort,
            ..
        } = &mut work;
        let stage = self.stages.get(service, *page, cohort.stage);
        self.strips.run_stage(&service.pages[*page], stage, cohort);
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
