//! From what a launch delivered into the cohort.

use super::job::Job;
use super::slot::Delivered;
use crate::abi::layout::PAD;
use crate::abi::{LaneResult, NO_TEXT, Outcome, SESSION_CREATE, SESSION_DESTROY};
use crate::besim::answer_queries;
use crate::cohort::room::step;
use crate::layout::Layout;
use rhythm_besim::Bank;
use rhythm_engine::cohort::{Arena, Cohort, LaneState, View};
use rhythm_engine::cohort::{LaneOutput, Output, SessionChange};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{Executor, Work};
use rhythm_engine::program::Form;

/// Takes the lanes that are done into the cohort; those that need more room, or the host, stay with
/// the job.
pub(crate) fn unpack(job: &mut Job, delivered: &Delivered<'_>, layout: Layout) {
    if !enough_room(job, delivered, layout) {
        // Nothing has been taken yet: all of it is launched again.
        return;
    }
    let service = job.work.service.clone();
    let program = &service.pages[job.work.page];
    let call = program.stages[job.last].call;
    let form = call.map(|call| &program.calls[call].form);
    let later = job.pending.split_off(job.launched);
    let launched = std::mem::replace(&mut job.pending, later);
    let output = &mut job.work.cohort.output;
    output
        .lanes
        .resize(job.work.cohort.lanes.len(), LaneOutput::default());
    output.runs.truncate(output.runs_used);
    output.segments.truncate(output.segments_used);
    let sums = delivered.offsets(delivered.lanes());
    let (run_bytes, segments) = (sums.body as usize, sums.segments as usize);
    if job.work.cohort.has_room_for_answer(run_bytes, segments) {
        let output = &mut job.work.cohort.output;
        output.runs.reserve_exact(run_bytes);
        output.segments.reserve_exact(segments);
    }
    let mut again = Vec::new();
    let launched_with = job.room;
    let doubted = job.doubted();
    for (index, &lane) in launched.iter().enumerate() {
        let result = delivered.result(index);
        let cohort = &mut *job.work.cohort;
        match Outcome::of(result.outcome) {
            Outcome::Room => {
                job.room.grow(&result);
                // One that no growing helps would come back for ever.
                let to = if job.room == launched_with {
                    &mut job.host
                } else {
                    &mut again
                };
                to.push(lane);
            }
            Outcome::Host => job.host.push(lane),
            Outcome::Failed(error) if doubted.contains(&Some(error)) => job.host.push(lane),
            Outcome::Failed(error) => cohort.fail(lane as usize, error),
            // A stage that is not the last of its launch leaves no lane active.
            Outcome::Active => {
                let texts = Texts::of(&result, delivered, index);
                if texts.take(cohort, lane, delivered, form).is_none() {
                    cohort.leave_without_room(lane as usize);
                }
            }
            Outcome::Finished => {
                let (run_bytes, segments) = room_of(&result, layout);
                if !cohort.has_room_for_answer(run_bytes, segments) {
                    // It goes through the stages again when those before it are answered.
                    cohort.lanes[lane as usize] = LaneState::Later;
                    continue;
                }
                let texts = Texts::of(&result, delivered, index);
                match texts.take(cohort, lane, delivered, form) {
                    None => cohort.leave_without_room(lane as usize),
                    Some(file) => {
                        cohort.lanes[lane as usize] = LaneState::Finished;
                        let answer =
                            take_body(&mut cohort.output, delivered, index, &result, layout);
                        cohort.output.lanes[lane as usize] = LaneOutput { file, ..answer };
                    }
                }
            }
        }
    }
    again.append(&mut job.pending);
    job.pending = again;
}

/// Whether what concerns the launch as a whole had room; if not, the job's room has grown.
fn enough_room(job: &mut Job, delivered: &Delivered<'_>, layout: Layout) -> bool {
    let [item_rows, tile_rows] = delivered.rows_needed();
    let launched_with = job.room;
    let mut enough = true;
    let mut fit = |room: &mut u32, needed: u32| {
        if needed > *room {
            *room = step(needed);
            enough = false;
        }
    };
    fit(&mut job.room.items, item_rows);
    fit(&mut job.room.rows, tile_rows);
    if let Err([bodies, texts]) = delivered.fits(layout) {
        job.room.body = job.room.body.max(bodies);
        job.room.texts = job.room.texts.max(texts);
        enough = false;
    }
    if !enough && job.room == launched_with {
        // They want more than can be asked for.
        job.host.extend(job.pending.drain(..job.launched));
    }
    enough
}

/// The texts that a lane needs on the host.
struct Texts {
    queries: std::ops::Range<usize>,
    headers: std::ops::Range<usize>,
    file: View,
}

impl Texts {
    fn of(result: &LaneResult, delivered: &Delivered<'_>, index: usize) -> Texts {
        let offsets = delivered.offsets(index);
        let range = |start: u32, count: u32| start as usize..(start + count) as usize;
        Texts {
            queries: range(offsets.queries, result.query_count),
            headers: range(offsets.headers, result.header_count),
            file: result.file,
        }
    }

    /// Puts them into the cohort and gives the file's view; `None` where the arena is full.
    fn take(
        self,
        cohort: &mut Cohort,
        lane: u32,
        delivered: &Delivered<'_>,
        form: Option<&Form>,
    ) -> Option<Option<View>> {
        let queries_before = cohort.queries.len();
        let headers_before = cohort.output.headers.len();
        let mut take = || {
            for index in self.queries.clone() {
                let text = delivered.query(index).1;
                (cohort.queries.push_text(lane, form?, text)).then_some(())?;
            }
            for index in self.headers.clone() {
                let (name, value) = delivered.header(index);
                let value = push(&mut cohort.arena, value)?;
                cohort.output.headers.push((lane, name, value));
            }
            match self.file.length {
                NO_TEXT => Some(None),
                _ => push(&mut cohort.arena, delivered.text(self.file)).map(Some),
            }
        };
        let file = take();
        if file.is_none() {
            cohort.queries.truncate(queries_before);
            cohort.output.headers.truncate(headers_before);
        }
        file
    }
}

fn push(arena: &mut Arena, text: &[u8]) -> Option<View> {
    arena.reserve(text.len()).then(|| arena.push(text))
}

/// Bytes of runs and segments that a lane's answer takes in the cohort's output.
fn room_of(result: &LaneResult, layout: Layout) -> (usize, usize) {
    match layout {
        Layout::Runs => (result.run_length as usize, result.segment_count as usize),
        _ => (result.body_length as usize, 0),
    }
}

/// Takes a lane's body, as runs and segments or in one piece; there is room for it.
fn take_body(
    output: &mut Output,
    delivered: &Delivered<'_>,
    index: usize,
    result: &LaneResult,
    layout: Layout,
) -> LaneOutput {
    let offsets = delivered.offsets(index);
    let run_start = output.runs.len();
    let segment_start = output.segments.len();
    let (run_bytes, segments) = room_of(result, layout);
    output.runs.reserve_exact(run_bytes);
    output.segments.reserve_exact(segments);
    match layout {
        Layout::Runs => {
            let run = delivered.body(offsets.body, result.run_length as usize);
            output.runs.extend_from_slice(run);
            let first = offsets.segments as usize;
            let segments = first..first + result.segment_count as usize;
            output
                .segments
                .extend(segments.map(|at| delivered.segment(at)));
        }
        Layout::A | Layout::B | Layout::Row => {
            let body = delivered.body(offsets.body, result.body_length as usize);
            output.runs.extend_from_slice(body);
        }
        // What a network card that gathers would do (paper, section 5.3.2, Titan C).
        Layout::C => {
            for unit in delivered.units(index) {
                let text = unit
                    .iter()
                    .position(|byte| *byte == PAD)
                    .unwrap_or(unit.len());
                output.runs.extend_from_slice(&unit[..text]);
            }
        }
    }
    output.runs_used = output.runs.len();
    output.segments_used = output.segments.len();
    LaneOutput {
        run_start,
        run_length: (output.runs.len() - run_start) as u32,
        segment_start: segment_start as u32,
        segment_count: (output.segments.len() - segment_start) as u32,
        body_length: result.body_length,
        status: match result.status {
            0 => LaneOutput::default().status,
            status => status,
        },
        session: match result.session {
            SESSION_CREATE => SessionChange::Create(result.user),
            SESSION_DESTROY => SessionChange::Destroy,
            _ => SessionChange::None,
        },
        file: None,
    }
}

/// Ends a job whose lanes are all done but those of the host, which are run now.
pub(crate) fn finish(mut job: Job, host: &mut HostExecutor, bank: Option<&Bank>) -> Work {
    let mut work = job.work;
    if job.host.is_empty() {
        work.cohort.stage = job.last + 1;
    } else {
        job.host.sort_unstable();
        work = run_on_host(work, &job.host, job.last, host, bank);
    }
    if work.cohort.lanes.contains(&LaneState::Later) {
        // For those it is the first stage that is run again. Where that is not the last, all others
        // have their answers.
        work.cohort.stage = job.first + 1;
    }
    // Of lanes launched later, or run by the host, they may have come out of order; and headers of
    // lanes that ended in an earlier stage lie before all of them.
    work.cohort.queries.sort_from(0);
    let headers = &mut work.cohort.output.headers;
    if !headers.is_sorted_by_key(|(lane, ..)| *lane) {
        headers.sort_by_key(|(lane, ..)| *lane);
    }
    work
}

/// Runs some lanes of a cohort on the host, up to stage `last`; the others are kept out of it.
/// Where that is more than a stage, no others have asked: all that is asked is these lanes'. Those
/// that the host leaves to another pass stay out of the stages after it.
fn run_on_host(
    mut work: Work,
    lanes: &[u32],
    last: usize,
    host: &mut HostExecutor,
    bank: Option<&Bank>,
) -> Work {
    let cohort = &mut *work.cohort;
    let mut states = cohort.lanes.clone();
    cohort.lanes.fill(LaneState::Finished);
    for &lane in lanes {
        cohort.lanes[lane as usize] = LaneState::Active;
    }
    let (first, mut yields) = (cohort.stage, false);
    while work.cohort.stage <= last {
        // Only with the backend on the device is there more than one stage.
        if work.cohort.stage > first
            && let Some(bank) = bank
        {
            let program = &work.service.pages[work.page];
            answer_queries(bank, program, &mut work.cohort);
        }
        host.submit(work)
            .expect("the host executor refuses nothing");
        let mut done = Vec::new();
        host.poll(&mut done);
        work = done.pop().expect("the host executor is done at once");
        yields |= work.cohort.yields;
    }
    work.cohort.yields = yields;
    for &lane in lanes {
        states[lane as usize] = work.cohort.lanes[lane as usize];
    }
    work.cohort.lanes = states;
    work
}
