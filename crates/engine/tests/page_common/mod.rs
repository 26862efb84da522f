//! Runs compiled pages over made-up lanes and compares every answer with MiniJinja's.

use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::device::conformance::{Dice, answer, make_cohort};
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_engine::reference::{self, lane_context};
use rhythm_engine::source::Sources;
use std::sync::Arc;

/// How the lanes of a comparison ended.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Their answer is MiniJinja's.
    pub(crate) equal: usize,
    /// They failed, for a reason that pages have and templates have not.
    pub(crate) failed: usize,
    /// Of those, an index was past the end, which MiniJinja may forgive.
    pub(crate) out_of_range: usize,
}

fn run(
    executor: &mut dyn Executor,
    service: &Arc<Service>,
    page: usize,
    cohort: Box<Cohort>,
) -> Box<Cohort> {
    let work = Work {
        service: service.clone(),
        page,
        cohort,
        token: 0,
    };
    match executor.submit(work) {
        Ok(()) => {}
        Err(Refusal::Busy(_) | Refusal::Lost(..)) => panic!("an idle executor takes work"),
    }
    let mut done = Vec::new();
    while done.is_empty() {
        executor.poll(&mut done);
    }
    done.remove(0).cohort
}

/// Runs a page and compares every lane.
///
/// # Errors
/// The first difference, in words.
pub(crate) fn compare(
    executor: &mut dyn Executor,
    sources: &Sources,
    service: &Arc<Service>,
    page: usize,
    lanes: usize,
    seed: u64,
) -> Result<Compared, String> {
    let program = &service.pages[page];
    let mut dice = Dice::new(seed);
    let mut cohort = make_cohort(program, lanes, &mut dice);
    let taken_out: Vec<bool> = cohort
        .lanes
        .iter()
        .map(|lane| *lane != LaneState::Active)
        .collect();
    for stage in 0..program.stages.len() {
        cohort = run(executor, service, page, cohort);
        if stage < program.calls.len() {
            answer(program, &mut cohort, &mut dice);
        }
    }
    let mut compared = Compared::default();
    for lane in (0..lanes).filter(|lane| !taken_out[*lane]) {
        let context = lane_context(program, &cohort, lane);
        let expected = reference::answer(sources, &format!("{}.html", program.name), &context);
        let at = |what: String| {
            format!(
                "page {}, {}, seed {seed}, lane {lane}: {what}\n{context:#?}",
                program.name,
                executor.name()
            )
        };
        match (cohort.lanes[lane], expected) {
            (LaneState::Active, _) => return Err(at("is still active".to_owned())),
            (LaneState::Later | LaneState::Ahead, _) => {
                return Err(at("was left out, and there is room for all".to_owned()));
            }
            (LaneState::Vacant, _) => return Err(at("has gone".to_owned())),
            (LaneState::Failed(LaneError::OutOfRange), _) => {
                compared.failed += 1;
                compared.out_of_range += 1;
            }
            // A backend's answer that cannot be read; integers are of 64 bits.
            (
                LaneState::Failed(
                    LaneError::BadAnswer
                    | LaneError::BackendFailed
                    | LaneError::Overflow
                    | LaneError::TooLarge
                    | LaneError::TooMuchText
                    | LaneError::ArenaFull
                    | LaneError::TooManyTurns,
                ),
                _,
            ) => compared.failed += 1,
            (LaneState::Failed(_), Err(_)) => compared.failed += 1,
            (LaneState::Failed(error), Ok(expected)) => {
                return Err(at(format!(
                    "failed with {error:?}, and should answer {expected:?}"
                )));
            }
            (LaneState::Finished, Err(error)) => {
                return Err(at(format!("answers, where MiniJinja says {error:#}")));
            }
            (LaneState::Finished, Ok(expected)) => {
                let output = &cohort.output.lanes[lane];
                let mut body = Vec::new();
                cohort.output.stitch(lane, &service.fragments, &mut body);
                let body = String::from_utf8(body).map_err(|_| at("is not UTF-8".to_owned()))?;
                let status = output.status;
                if status != expected.status {
                    return Err(at(format!("has status {status}, not {}", expected.status)));
                }
                if let Some(expected) = &expected.body
                    && *expected != body
                {
                    return Err(at(format!("answers\n{body}\nand should\n{expected}\n")));
                }
                compared.equal += 1;
            }
        }
    }
    Ok(compared)
}
