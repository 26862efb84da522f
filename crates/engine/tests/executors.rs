//! Every executor against the reference, over programs made at random.

use rhythm_engine::cohort::LaneState;
use rhythm_engine::device::conformance::{self, LANES, make_service, make_service_with_rows};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_protocol::scan::Level;

/// Runs `seeds` programs on an executor, each with a few cohort sizes.
fn run(executor: &mut dyn Executor, seeds: std::ops::Range<u64>, limits: LaneLimits) {
    for seed in seeds {
        for service in [make_service(seed), make_service_with_rows(seed)] {
            for lanes in [1, 2, 7, 300] {
                conformance::check(executor, &service, 0, lanes, seed, limits).unwrap();
            }
        }
    }
}

#[test]
fn host_equals_the_reference_at_every_level() {
    for level in Level::all() {
        run(
            &mut HostExecutor::new(LaneLimits::default(), level),
            0..300,
            LaneLimits::default(),
        );
    }
}

#[test]
fn host_equals_the_reference_at_every_limit() {
    let limits = LaneLimits {
        body_bytes_max: 700,
        text_bytes_max: 200,
        turns_max: 9,
    };
    run(
        &mut HostExecutor::new(limits, Level::detect()),
        300..900,
        limits,
    );
}

#[test]
fn host_equals_the_reference_for_large_cohorts() {
    let mut host = HostExecutor::new(LaneLimits::default(), Level::detect());
    for seed in 900..910 {
        let service = make_service(seed);
        conformance::check(
            &mut host,
            &service,
            0,
            LANES[3],
            seed,
            LaneLimits::default(),
        )
        .unwrap();
    }
}

/// The suite itself: an executor that is wrong in one way is found out.
#[test]
fn a_wrong_executor_is_found() {
    // Runs as the reference does, with a limit that is a little lower.
    let mut wrong = ScalarExecutor::new(LaneLimits {
        turns_max: 8,
        ..LaneLimits::default()
    });
    let found = (0..200).any(|seed| {
        conformance::check(
            &mut wrong,
            &make_service(seed),
            0,
            64,
            seed,
            LaneLimits::default(),
        )
        .is_err()
    });
    assert!(found);
}

/// The programs made here are worth running: most lanes see their end, and some fail.
#[test]
fn programs_end_well_mostly() {
    let (mut finished, mut failed) = (0, 0);
    for seed in 0..100 {
        let service = make_service(seed);
        let states =
            conformance::final_states(&mut ScalarExecutor::default(), &service, 0, 50, seed);
        finished += states.iter().filter(|s| **s == LaneState::Finished).count();
        failed += states.len() - states.iter().filter(|s| **s == LaneState::Finished).count();
    }
    assert!(
        finished > 2 * failed,
        "{finished} finished, {failed} failed"
    );
    assert!(failed > 100, "{failed} failed");
}
