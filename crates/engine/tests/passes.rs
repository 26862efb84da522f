//! A cohort whose memory is short runs a stage in several passes, and nothing in its answers tells.

use rhythm_engine::device::conformance::{check_passes, make_service, make_service_with_rows};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_protocol::scan::Level;

#[test]
fn answers_are_those_of_a_cohort_with_plenty_of_memory() {
    let limits = LaneLimits::default();
    let executors: [Box<dyn Executor>; 2] = [
        Box::new(ScalarExecutor::new(limits)),
        Box::new(HostExecutor::new(limits, Level::active())),
    ];
    for mut executor in executors {
        let mut passes = [0; 2];
        for seed in 0..200 {
            for service in [make_service(seed), make_service_with_rows(seed)] {
                let mut run = |work| {
                    executor.submit(work).expect("an idle executor takes work");
                    let mut done = Vec::new();
                    executor.poll(&mut done);
                    done.remove(0)
                };
                let more = check_passes(&mut run, &service, seed);
                passes = [passes[0] + more[0], passes[1] + more[1]];
            }
        }
        let [again, short] = passes;
        assert!(
            again > 50 && short > 20,
            "{} took {passes:?} passes",
            executor.name()
        );
    }
}
