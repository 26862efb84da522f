//! The host executor: part by part of a program, over all lanes of a strip.
//!
//! It walks a stage's program once for each strip of 256 lanes. What needs no other lane (loads,
//! computations, output, branches and loops of these) runs as one: each lane takes all of its
//! steps, which are looked up once a strip, before the next lane begins, so that its cells and its
//! region stay in the first-level cache. What makes texts, asks a backend or has a kernel for many
//! lanes runs one operation at a time for all lanes, and so does a block with such an operation in
//! it: a branch once, over the lanes that took it, a loop as often as the lane with the most turns
//! needs, each time for the lanes that still turn (as the lanes of a GPU's warp do; paper, section
//! 2.1).
//!
//! - `strip`: the registers and lanes of a strip;
//! - `run`: what is run for which lanes;
//! - `fuse`: what can run as one, as `step`s; `walk`: lanes taking them, with `compute` (cells
//!   from cells) and `write` (output);
//! - `texts`, `control`, `output`: what runs one operation at a time;
//! - `md5`: many digests at once.
//!
//! Which instructions the kernels use is chosen at start by [`Level`], so one machine can test
//! every path.

mod compute;
mod control;
mod fuse;
mod kept;
mod md5;
mod output;
mod run;
mod step;
mod strip;
mod texts;
mod walk;
mod write;

use super::executor::{Executor, Refusal, Work};
use super::limits::{FOLD_BYTES_MAX, LaneLimits};
use crate::cohort::{Cohort, LaneError, LaneOutput, LaneState};
use crate::program::PageProgram;
use rhythm_protocol::scan::Level;
use run::Run;
use std::collections::HashMap;
use step::Steps;
use strip::{Fate, Lanes, Registers, STRIP, Selection};
use write::{Regions, SLACK};

/// A strip's output regions take no more than this; where lanes need large ones, fewer run
/// together.
const STRIP_BYTES_MAX: usize = 64 << 20;

/// Room for output that a lane is run with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    run_bytes: usize,
    segments: usize,
}

impl Room {
    /// What a lane of a page not run before gets.
    const FIRST: Room = Room {
        run_bytes: 1024,
        segments: 32,
    };
    /// No lane gets more on the strength of what others needed.
    const EXPECTED_MAX: Room = Room {
        run_bytes: 64 << 10,
        segments: 1024,
    };

    /// What a lane can need at most: its body is limited, and a segment stands for more than
    /// [`FOLD_BYTES_MAX`] bytes.
    fn most(limits: LaneLimits) -> Room {
        Room {
            run_bytes: limits.body_bytes_max,
            segments: limits.body_bytes_max / FOLD_BYTES_MAX + 1,
        }
    }

    fn at_most(self, other: Room) -> Room {
        Room {
            run_bytes: self.run_bytes.min(other.run_bytes),
            segments: self.segments.min(other.segments),
        }
    }

    fn times_four(self) -> Room {
        Room {
            run_bytes: self.run_bytes * 4,
            segments: self.segments * 4,
        }
    }

    /// Bytes of run region a lane.
    fn stride(self) -> usize {
        (self.run_bytes + SLACK).next_multiple_of(64)
    }
}

/// The host executor. A submitted stage is complete at the next poll.
pub struct Host {
    limits: LaneLimits,
    level: Level,
    done: Vec<Work>,
    /// The room that lanes of a page's stage were seen to need, by page and stage. Only a hint, so
    /// pages of a reloaded service may find their predecessors'.
    expected: HashMap<(usize, usize), Room>,
    scratch: Scratch,
}

/// Memory kept from strip to strip.
#[derive(Default)]
struct Scratch {
    registers: Registers,
    lanes: Box<Lanes>,
    steps: Steps<'static>,
    selections: Vec<Selection>,
    kept: Vec<kept::Kept>,
}

impl Host {
    /// An executor with these limits that uses the instructions of `level`.
    pub fn new(limits: LaneLimits, level: Level) -> Self {
        Host {
            limits,
            level,
            done: Vec::new(),
            expected: HashMap::new(),
            scratch: Scratch::default(),
        }
    }

    /// Runs the cohort's next stage.
    fn run_stage(
        &mut self,
        page: usize,
        program: &PageProgram,
        fragments: &[Box<[u8]>],
        cohort: &mut Cohort,
    ) {
        cohort
            .output
            .lanes
            .resize(cohort.lanes.len(), LaneOutput::default());
        let stage = (page, cohort.stage);
        let most = Room::most(self.limits);
        let mut room = self
            .expected
            .get(&stage)
            .copied()
            .unwrap_or(Room::FIRST)
            .at_most(most);
        let mut active: Vec<u32> = (0u32..)
            .zip(&cohort.lanes)
            .filter_map(|(lane, state)| (*state == LaneState::Active).then_some(lane))
            .collect();
        while !active.is_empty() {
            let mut overflowed = Vec::new();
            let strip_lanes = (STRIP_BYTES_MAX / room.stride()).clamp(1, STRIP);
            for indexes in active.chunks(strip_lanes) {
                let used =
                    self.run_strip(program, fragments, cohort, indexes, room, &mut overflowed);
                let expected = self.expected.entry(stage).or_insert(Room::FIRST);
                expected.run_bytes = expected.run_bytes.max(used.run_bytes);
                expected.segments = expected.segments.max(used.segments);
                *expected = expected.at_most(Room::EXPECTED_MAX);
            }
            if room == most {
                for lane in overflowed.drain(..) {
                    cohort.fail(lane as usize, LaneError::TooLarge);
                }
            }
            active = overflowed;
            room = room.times_four().at_most(most);
        }
        // Lanes that were run again came late.
        if !cohort.output.headers.is_sorted_by_key(|(lane, ..)| *lane) {
            cohort.output.headers.sort_by_key(|(lane, ..)| *lane);
        }
        cohort.stage += 1;
    }

    /// Runs the stage for the lanes `indexes`, each with so much room, and gives the most room that
    /// one used. Lanes that needed more go to `overflowed`, as if they had not been run.
    fn run_strip(
        &mut self,
        program: &PageProgram,
        fragments: &[Box<[u8]>],
        cohort: &mut Cohort,
        indexes: &[u32],
        room: Room,
        overflowed: &mut Vec<u32>,
    ) -> Room {
        let stage = &program.stages[cohort.stage];
        let stride = room.stride();
        let output = &mut cohort.output;
        let (run_start, segment_start) =
            output.reserve(indexes.len() * stride, indexes.len() * room.segments);
        let scratch = &mut self.scratch;
        scratch.registers.prepare(stage.registers.len());
        let lanes = &mut *scratch.lanes;
        lanes.begin(
            indexes,
            stride as u32,
            self.limits.text_bytes_max,
            self.limits.turns_max,
        );
        let requests_before = cohort.requests.len();
        let headers_before = output.headers.len();

        Run {
            program,
            stage,
            fragments,
            fields: &cohort.fields,
            arena: &mut cohort.arena,
            requests: &mut cohort.requests,
            headers: &mut output.headers,
            registers: &mut scratch.registers,
            lanes,
            regions: Regions {
                runs: &mut output.runs[run_start..],
                stride,
                segments: &mut output.segments[segment_start..],
                segment_stride: room.segments,
            },
            steps: &mut scratch.steps,
            selections: &mut scratch.selections,
            kept: &mut scratch.kept,
            level: self.level,
        }
        .run(indexes.len());

        let mut used = Room {
            run_bytes: 0,
            segments: 0,
        };
        let mut some_ended_early = false;
        for (lane, &index) in indexes.iter().enumerate() {
            let run_length = lanes.cursor[lane] as usize - lane * stride;
            let segment_count = lanes.segments[lane] as usize;
            let body_length = run_length + lanes.fragment_bytes[lane];
            let mut fate = lanes.fate[lane];
            if body_length > self.limits.body_bytes_max {
                fate = Fate::Failed(LaneError::TooLarge);
            }
            match fate {
                Fate::Overflowed => overflowed.push(index),
                Fate::Failed(error) => cohort.lanes[index as usize] = LaneState::Failed(error),
                Fate::Running if stage.call.is_some() => continue,
                Fate::Running | Fate::Finished => {
                    used.run_bytes = used.run_bytes.max(run_length);
                    used.segments = used.segments.max(segment_count);
                    cohort.lanes[index as usize] = LaneState::Finished;
                    cohort.output.lanes[index as usize] = LaneOutput {
                        run_start: run_start + lane * stride,
                        run_length: run_length as u32,
                        segment_start: (segment_start + lane * room.segments) as u32,
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
        // A loop asks turn by turn, but requests stand lane by lane.
        cohort.requests.sort_from(requests_before);
        sort_from(&mut cohort.output.headers, headers_before, |h| h.0);
        if some_ended_early {
            let ended_early = |index: u32| {
                let lane = indexes.binary_search(&index);
                lane.is_ok_and(|lane| {
                    matches!(lanes.fate[lane], Fate::Failed(_) | Fate::Overflowed)
                })
            };
            (cohort.requests).retain_from(requests_before, |lane| !ended_early(lane));
            retain_from(&mut cohort.output.headers, headers_before, |h| {
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

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl Executor for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn submit(&mut self, mut work: Work) -> Result<(), Refusal> {
        let service = std::sync::Arc::clone(&work.service);
        self.run_stage(
            work.page,
            &service.pages[work.page],
            &service.fragments,
            &mut work.cohort,
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
