//! A cohort whose memory is short runs a stage in several passes, and so does one whose passes may
//! do little at a time. Nothing in its answers tells.

use rhythm_engine::cohort::{Cohort, LaneState};
use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance::{
    BESIM, check_passes, make_service, make_service_with_rows,
};
use rhythm_engine::device::host::{HostExecutor, PASS_WORK_MAX};
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Work};
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_protocol::scan::Level;
use std::sync::Arc;

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

/// A page that counts so far.
fn counts_to(turns: usize) -> Arc<Service> {
    let template = format!("{{% for i in range({turns}) %}}<td>{{{{ i }}}}{{% endfor %}}");
    let page = format!("+++\nroute = \"GET /\"\n+++\n{template}");
    let mut sources = Sources::default();
    for (name, text) in [("service.toml", String::new()), ("pages/a.html", page)] {
        sources.files.insert(name.to_owned(), text);
    }
    Arc::new(compile(&sources, BESIM).expect("it compiles"))
}

/// So many lanes of it, run once.
fn run(executor: &mut HostExecutor, service: &Arc<Service>, lanes: usize, hurries: bool) -> Cohort {
    let mut cohort = Box::new(Cohort::new(64 << 20));
    cohort.reset(&service.pages[0]);
    for _ in 0..lanes {
        cohort.push_lane();
    }
    cohort.hurries = hurries;
    let work = Work {
        service: service.clone(),
        page: 0,
        cohort,
        token: 0,
    };
    assert!(executor.submit(work).is_ok());
    let mut done = Vec::new();
    executor.poll(&mut done);
    *done.remove(0).cohort
}

#[test]
fn the_room_that_long_answers_needed_is_what_the_next_have() {
    let service = counts_to(40_000);
    let mut executor = HostExecutor::new(LaneLimits::default(), Level::active());
    let rooms = [(); 2].map(|()| {
        let cohort = run(&mut executor, &service, 1, false);
        let length = cohort.output.lanes[0].body_length as usize;
        assert!((300_000..400_000).contains(&length), "{length}");
        cohort.output.runs_used as f64 / length as f64
    });
    // The first is run with more and more room, until it has enough.
    assert!(rooms[0] > 2.0 && rooms[1] < 1.2, "{rooms:?}");
}

#[test]
fn a_cohort_that_hurries_has_short_passes() {
    let service = counts_to(5_000);
    let limits = LaneLimits::default();
    let mut executor = HostExecutor::new(limits, Level::active()).in_passes_of(PASS_WORK_MAX);
    // What a lane does is known from the first.
    run(&mut executor, &service, 1, false);
    for (hurries, finished) in [(false, 2), (true, 1)] {
        let cohort = run(&mut executor, &service, 2, hurries);
        let is_finished = |state: &&LaneState| **state == LaneState::Finished;
        assert_eq!(cohort.lanes.iter().filter(is_finished).count(), finished);
        assert_eq!(cohort.yields, hurries);
    }
}
