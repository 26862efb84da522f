//! What comes back of a cohort: its lanes' states, what they ask, and what they answer. It is
//! written here, and read, and checked, in answer.rs.
//!
//! ```text
//!     states      one a lane: active, later, finished, or 0x80 and the number of an error
//!     heads       of each finished lane: lengths, status, session, file
//!     headers     lane, name, value
//!     queries     their lanes, then a column for each argument
//!     runs        of all finished lanes, one after the other
//!     segments    likewise
//! ```

use super::bytes::Put;
use rhythm_engine::cohort::{Argument, Cohort, LaneError, LaneState, SessionChange};
use rhythm_engine::program::PageProgram;

/// What stands for a lane's state.
pub(super) const ACTIVE: u8 = 0;
pub(super) const LATER: u8 = 1;
pub(super) const FINISHED: u8 = 2;
/// Beside an error's number.
pub(super) const FAILED: u8 = 0x80;

/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = 8;

/// Whether a lane's state is an answer: one without room at the node may have some elsewhere.
pub(super) fn is_answer(state: LaneState) -> bool {
    match state {
        LaneState::Active | LaneState::Later | LaneState::Finished => true,
        LaneState::Failed(error) => !matches!(
            error,
            LaneError::MemoryShort | LaneError::ArenaFull | LaneError::DeviceFailed
        ),
        LaneState::Ahead | LaneState::Vacant => false,
    }
}

/// Whether a cohort whose stage was run is an answer.
pub(crate) fn is_whole(cohort: &Cohort, stage: usize) -> bool {
    cohort.stage == stage + 1
        && cohort.lanes.iter().all(|state| is_answer(*state))
        && cohort.lanes.iter().any(|state| *state != LaneState::Later)
}

/// Appends what has become of a cohort.
pub(crate) fn put(program: &PageProgram, cohort: &Cohort, to: &mut impl Put) {
    for state in &cohort.lanes {
        to.put_u8(match state {
            LaneState::Active | LaneState::Ahead => ACTIVE,
            LaneState::Later | LaneState::Vacant => LATER,
            LaneState::Finished => FINISHED,
            LaneState::Failed(error) => FAILED | *error as u8,
        });
    }
    let finished = || {
        let lanes = cohort.lanes.iter().enumerate();
        lanes
            .filter(|(_, state)| **state == LaneState::Finished)
            .map(|(lane, _)| lane)
    };
    let output = &cohort.output;
    for lane in finished() {
        let own = &output.lanes[lane];
        to.put_u32(own.run_length);
        to.put_u32(own.segment_count);
        to.put_u32(own.body_length);
        to.put_u16(own.status);
        let (change, user) = match own.session {
            SessionChange::None => (0, 0),
            SessionChange::Create(user) => (1, user),
            SessionChange::Destroy => (2, 0),
        };
        to.put_u8(change);
        to.put_u64(user as u64);
        to.put_u8(own.file.is_some().into());
        if let Some(file) = own.file {
            to.put_text(cohort.arena.get(file));
        }
    }
    let goes = |lane: u32| cohort.lanes[lane as usize] != LaneState::Later;
    let headers = || output.headers.iter().filter(|(lane, ..)| goes(*lane));
    to.put_u32(headers().count() as u32);
    for (lane, aside, value) in headers() {
        to.put_u32(*lane);
        to.put_u16(*aside);
        to.put_text(cohort.arena.get(*value));
    }
    put_queries(program, cohort, to);
    finished().for_each(|lane| to.put(output.run(lane)));
    for lane in finished() {
        let own = &output.lanes[lane];
        let segments = &output.segments[own.segment_start as usize..];
        for segment in &segments[..own.segment_count as usize] {
            to.put_u32(segment.run_end);
            to.put_u32(segment.fragment);
        }
    }
}

fn put_queries(program: &PageProgram, cohort: &Cohort, to: &mut impl Put) {
    let queries = &cohort.queries;
    to.put_u32(queries.len() as u32);
    queries.lanes().iter().for_each(|lane| to.put_u32(*lane));
    let call = cohort
        .stage
        .checked_sub(1)
        .and_then(|stage| program.stages[stage].call);
    let Some(call) = call.filter(|_| !queries.is_empty()) else {
        return;
    };
    for argument in 0..program.calls[call].form.arguments.len() {
        let all = || (0..queries.len()).map(|query| queries.argument(query, argument));
        for value in all() {
            match value {
                Argument::Text(text) => to.put_u32(text.len() as u32),
                Argument::Int(value) => to.put_u64(value as u64),
                Argument::Float(value) => to.put_u64(value.to_bits()),
                Argument::Bool(value) => to.put_u8(value.into()),
            }
        }
        for value in all() {
            if let Argument::Text(text) = value {
                to.put(text);
            }
        }
    }
}
