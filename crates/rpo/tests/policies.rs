//! Policies against the model of the paper's server: few seeds; examples/evaluate.rs has many.

use rhythm_rpo::Setting;
use rhythm_rpo::model::{Chooser, Length, Oracle, Outcome, Params, Run, Workload, run};
use rhythm_rpo::policy::{Fixed, Learned, LearnedSettings, Policy};

fn params() -> Params {
    Params::paper().expect("params/paper.toml")
}

fn outcome(policy: &mut dyn Policy, workload: Workload, ghz: f64, seed: u64) -> Outcome {
    let length = Length::Seconds {
        all: 900.0,
        warm_up: 300.0,
    };
    let case = Run {
        ghz,
        workload,
        seed,
        length,
        each_second: false,
    };
    run(&params(), &case, Chooser::Policy(policy)).expect("a mix of the paper")
}

fn fixed(setting: Setting, workload: Workload, ghz: f64, seed: u64) -> Outcome {
    outcome(&mut Fixed::new(setting), workload, ghz, seed)
}

fn learned(workload: Workload, ghz: f64, seed: u64) -> Outcome {
    outcome(
        &mut Learned::new(LearnedSettings::default()),
        workload,
        ghz,
        seed,
    )
}

#[test]
fn browsing_wants_all_threads_and_that_is_learned() {
    let workload = || Workload::mix("browsing", 356.0);
    let all = fixed(Setting::AllThreads, workload(), 1.6, 1).response_ms();
    let one = fixed(Setting::OnePerCore, workload(), 1.6, 1).response_ms();
    assert!(all < 0.8 * one, "{all} {one}");
    let learned = learned(workload(), 1.6, 1);
    assert!(
        learned.response_ms() < 1.05 * all,
        "{} {all}",
        learned.response_ms()
    );
}

#[test]
fn ordering_wants_one_a_core_and_that_is_learned() {
    let workload = || Workload::mix("ordering", 48.0);
    let one = fixed(Setting::OnePerCore, workload(), 1.6, 1);
    let all = fixed(Setting::AllThreads, workload(), 1.6, 1);
    assert!(all.unstable && !one.unstable);
    let learned = learned(workload(), 1.6, 1);
    assert!(!learned.unstable);
    assert!(
        learned.in_setting[Setting::OnePerCore.index()] > 0.9,
        "{:?}",
        learned.in_setting
    );
    assert!(
        learned.response_ms() < 1.1 * one.response_ms(),
        "{}",
        learned.response_ms()
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let figures = |seed| {
        let seen = learned(Workload::mix("ordering", 48.0), 2.133, seed);
        (seen.completed, seen.response_sum.to_bits(), seen.switches)
    };
    assert_eq!(figures(5), figures(5));
    assert_ne!(figures(5), figures(6));
}

#[test]
fn an_oracle_is_no_worse_than_either_setting() {
    let workload = Workload::mix("ordering", 48.0);
    let length = Length::Seconds {
        all: 600.0,
        warm_up: 60.0,
    };
    let case = Run {
        ghz: 2.133,
        workload,
        seed: 3,
        length,
        each_second: false,
    };
    let one = run(
        &params(),
        &case,
        Chooser::Policy(&mut Fixed::new(Setting::OnePerCore)),
    );
    let oracle = run(&params(), &case, Chooser::Oracle(Oracle::new(4.0)));
    let [one, oracle] = [one, oracle].map(|ran| ran.expect("a mix of the paper").response_ms());
    assert!(oracle < 1.03 * one, "{oracle} {one}");
}
