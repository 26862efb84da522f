//! Cohorts that run a stage in several passes, since their memory is short or a pass may do no
//! more: nothing in their answers tells.

use super::{Dice, answer, asked, make_cohort};
use crate::cohort::{Arena, Budget, Cohort, LaneState, Pass, Share};
use crate::device::scalar::ScalarExecutor;
use crate::device::{Executor, LaneLimits, Work};
use crate::program::Service;
use std::sync::Arc;

/// What a lane answered: its state, its status, its body and the values of its headers.
type Answer = (LaneState, u16, Vec<u8>, Vec<Vec<u8>>);

/// Takes the answers of lanes that have one since this was last done.
fn take(service: &Service, cohort: &Cohort, answers: &mut [Option<Answer>]) {
    assert!(cohort.output.headers.is_sorted_by_key(|header| header.0));
    for (lane, taken) in answers.iter_mut().enumerate() {
        let state = cohort.lanes[lane];
        if taken.is_some() || !matches!(state, LaneState::Finished | LaneState::Failed(_)) {
            continue;
        }
        let (mut status, mut body, mut headers) = (0, Vec::new(), Vec::new());
        if state == LaneState::Finished && lane < cohort.output.lanes.len() {
            status = cohort.output.lanes[lane].status;
            cohort.output.stitch(lane, &service.fragments, &mut body);
            let own = cohort
                .output
                .headers
                .iter()
                .filter(|header| header.0 as usize == lane);
            headers = own
                .map(|header| cohort.arena.get(header.2).to_vec())
                .collect();
        }
        *taken = Some((state, status, body, headers));
    }
}

/// Runs a page with the reference on plenty of memory, and with an executor of these limits on
/// little, and compares. How often a pass was followed by another, and how often there was no
/// memory at all.
///
/// # Panics
/// Where anything differs.
pub fn check_passes(
    executor: &mut dyn Executor,
    limits: LaneLimits,
    service: &Arc<Service>,
    seed: u64,
) -> [usize; 2] {
    const LANES: usize = 40;
    const COMMON: usize = 1 << 30;
    let program = &service.pages[0];
    let mut reference = ScalarExecutor::new(limits);
    let run = |executor: &mut dyn Executor, cohort| {
        let work = Work {
            service: service.clone(),
            page: 0,
            cohort,
            token: 0,
        };
        let submitted = executor.submit(work);
        submitted.expect("an idle executor takes work");
        let mut done = Vec::new();
        executor.poll(&mut done);
        done.remove(0).cohort
    };
    let mut dice = [Dice::new(seed), Dice::new(seed)];
    let [mut plenty, mut from] = dice
        .each_mut()
        .map(|dice| make_cohort(program, LANES, dice));
    let all: Vec<usize> = (0..LANES).collect();
    let filled = program.texts.len() + from.moved_bytes(program, &all);
    let first_part = filled + Dice::new(seed).below(5_000);
    let budget = Budget::new(first_part, COMMON);
    let share = Share::new(&budget);
    let mut others = Cohort::of_share(&Share::new(&budget), Arena::BYTES_MAX);
    let mut little = Box::new(Cohort::of_share(&share, Arena::BYTES_MAX));
    little.reset(program);
    from.move_lanes(program, &all, &mut little);
    let mut answers = [vec![None; LANES], vec![None; LANES]];
    let mut passes = [0; 2];
    for stage in 0..program.stages.len() {
        plenty = run(&mut reference, plenty);
        take(service, &plenty, &mut answers[0]);
        assert_eq!(plenty.next_pass(), Pass::Over);
        // Others have all that can be lent.
        assert!(others.arena.expects(first_part + COMMON - budget.lent()));
        loop {
            little = run(executor, little);
            take(service, &little, &mut answers[1]);
            match little.next_pass() {
                Pass::Over => break,
                Pass::Again | Pass::Yield => passes[0] += 1,
                Pass::Short => {
                    passes[1] += 1;
                    // They give it back: nothing is short.
                    others.forget();
                }
            }
        }
        assert_eq!(plenty.stage, little.stage);
        let [theirs, ours] = [&plenty, &little].map(|cohort| asked(program, cohort));
        let differs = theirs
            .iter()
            .zip(&ours)
            .find(|(theirs, ours)| theirs != ours);
        assert_eq!(differs, None, "seed {seed}, stage {stage}");
        assert_eq!(theirs.len(), ours.len(), "seed {seed}, stage {stage}");
        if stage < program.calls.len() {
            // There is memory for answers.
            others.forget();
            for (cohort, dice) in [&mut plenty, &mut little].into_iter().zip(&mut dice) {
                answer(program, cohort, dice);
            }
        }
    }
    take(service, &plenty, &mut answers[0]);
    take(service, &little, &mut answers[1]);
    assert!(answers[0].iter().all(Option::is_some));
    assert_eq!(answers[0], answers[1], "seed {seed}");
    others.forget();
    little.rest();
    assert_eq!(budget.lent(), share.bytes().saturating_sub(first_part));
    little.forget();
    assert_eq!((share.bytes(), budget.lent()), (0, 0));
    passes
}
