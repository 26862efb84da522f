//! A cohort whose memory is short runs a stage in several passes, and so does one whose passes may
//! do little at a time. Nothing in its answers tells.

use rhythm_engine::device::conformance::{check_passes, make_service, make_service_with_rows};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_protocol::scan::Level;

/// How often passes were followed by another, and how often there was no memory at all.
fn check(executor: &mut dyn Executor, seeds: u64) -> [usize; 2] {
    let mut passes = [0; 2];
    for seed in 0..seeds {
        for service in [make_service(seed), make_service_with_rows(seed)] {
            let more = check_passes(executor, LaneLimits::default(), &service, seed);
            passes = [passes[0] + more[0], passes[1] + more[1]];
        }
    }
    passes
}

#[test]
fn answers_are_those_of_a_cohort_with_plenty_of_memory() {
    let limits = LaneLimits::default();
    let executors: [Box<dyn Executor>; 2] = [
        Box::new(ScalarExecutor::new(limits)),
        Box::new(HostExecutor::new(limits, Level::active())),
    ];
    for mut executor in executors {
        let [again, short] = check(&mut *executor, 200);
        let name = executor.name();
        assert!(again > 50 && short > 20, "{name}: {again}, {short}");
    }
}

#[test]
fn answers_are_those_of_passes_without_end() {
    for work_max in [1, 500, 5000] {
        let executor = HostExecutor::new(LaneLimits::default(), Level::active());
        let [again, _] = check(&mut executor.in_passes_of(work_max), 100);
        assert!(again > 1000, "{work_max}: {again}");
    }
}
