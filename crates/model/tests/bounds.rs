//! The simulation beside what can be computed: each case is one that has a formula.

use rhythm_cohort::{Formation, Policy};
use rhythm_model::{Backend, Costs, Figures, Mistake, Settings};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn settings() -> Settings {
    Settings {
        rate: 10_000.0,
        pages: vec![1.0],
        workers: 1,
        formation: Formation {
            policy: Policy::Fixed,
            lanes_max: 65_536,
            delay: 2 * MS,
        },
        contexts: 64,
        costs: Costs::NONE,
        backend: None,
        duration: Duration::from_secs(60),
        seed: 1,
    }
}

fn run(settings: &Settings) -> Figures {
    rhythm_model::run(settings).expect("it makes sense")
}

fn near(value: f64, expected: f64, relative: f64) {
    let error = (value / expected - 1.0).abs();
    assert!(error < relative, "{value} beside {expected}");
}

/// The probability of `k` arrivals where so many are expected.
fn poisson(expected: f64, k: usize) -> f64 {
    let logarithm = (1..=k).map(|i| (expected / i as f64).ln()).sum::<f64>();
    (logarithm - expected).exp()
}

/// The first of a cohort waits for the delay, and meanwhile as many come as a Poisson process has
/// in it: 1 + rate x delay. Those wait for half of it on average.
#[test]
fn a_window_holds_the_arrivals_of_its_time() {
    for rate in [100.0, 1000.0, 20_000.0] {
        let mut settings = settings();
        settings.rate = rate;
        settings.duration = Duration::from_secs_f64(1e6 / rate);
        let figures = run(&settings);
        let others = rate * 0.002;
        near(figures.cohort.mean, 1.0 + others, 0.01);
        near(figures.timeout, 1.0, 1e-9);
        let waiting = (2000.0 + others * 1000.0) / (1.0 + others);
        near(figures.waiting_us.mean, waiting, 0.01);
        near(figures.answers_per_s, rate, 0.01);
    }
}

/// Pages share a stream by their weights, and each has windows of its own.
#[test]
fn pages_form_cohorts_of_their_own() {
    let mut settings = settings();
    settings.pages = vec![3.0, 1.0];
    let figures = run(&settings);
    // Windows per second of a page: its rate by its mean size.
    let windows = |rate: f64| rate / (1.0 + rate * 0.002);
    let expected = 10_000.0 / (windows(7500.0) + windows(2500.0));
    near(figures.cohort.mean, expected, 0.01);
}

/// A cohort is launched when it has `size` requests, so its size is that of a window, cut off.
#[test]
fn a_full_cohort_waits_no_longer() {
    let mut settings = settings();
    settings.formation.lanes_max = 20;
    let figures = run(&settings);
    let others = 10_000.0 * 0.002;
    let size = |k: usize| (k + 1).min(20) as f64 * poisson(others, k);
    near(figures.cohort.mean, (0..200).map(size).sum(), 0.01);
    let full: f64 = (19..200).map(|k| poisson(others, k)).sum();
    near(figures.full, full, 0.01);
}

/// A worker that executes requests one by one, in their order, each for the same time, is the
/// queue M/D/1: a request waits for rho S / (2 (1 - rho)) on average (Pollaczek and Khinchine).
#[test]
fn cohorts_of_one_wait_as_in_a_queue() {
    for load in [0.3, 0.6, 0.9] {
        let mut settings = settings();
        settings.formation.lanes_max = 1;
        settings.formation.policy = Policy::WorkConserving;
        settings.costs.answer = Duration::from_micros(100);
        settings.rate = load * 10_000.0;
        settings.duration = Duration::from_secs(200);
        let figures = run(&settings);
        let waiting = load * 100.0 / (2.0 * (1.0 - load));
        near(figures.waiting_us.mean, waiting, 0.05);
        near(figures.latency_us.mean, waiting + 100.0, 0.05);
        near(figures.utilization, load, 0.02);
    }
}

/// Nothing waits where the device is free and work costs nothing: every cohort is a request.
#[test]
fn an_idle_server_answers_at_once() {
    let mut settings = settings();
    settings.formation.policy = Policy::WorkConserving;
    let figures = run(&settings);
    assert_eq!((figures.cohort.p99, figures.waiting_us.p99), (1.0, 0.0));
    near(figures.idle, 1.0, 1e-9);
}

/// Where a turn costs T beside what each request does, and never sleeps, a turn takes in those
/// that came in the last: n = rate (T + n s), so n = rate T / (1 - rate s). Cohorts grow with the
/// load by themselves, and the server keeps up as long as rate s is below 1.
#[test]
fn cohorts_grow_with_the_load() {
    let mut last = 0.0;
    for rate in [20e3, 60e3, 90e3] {
        let mut settings = settings();
        settings.formation.policy = Policy::WorkConserving;
        settings.rate = rate;
        settings.duration = Duration::from_secs(20);
        settings.costs.launch = Duration::from_millis(2);
        settings.costs.answer = Duration::from_micros(10);
        let figures = run(&settings);
        let expected = rate * 0.002 / (1.0 - rate * 1e-5);
        near(figures.cohort.mean, expected, 0.02);
        near(figures.answers_per_s, rate, 0.02);
        assert!(figures.cohort.mean > last);
        last = figures.cohort.mean;
    }
}

/// No policy makes a server answer more than its core can: it is then busy all the time.
#[test]
fn what_is_too_much_is_answered_as_fast_as_it_goes() {
    let mut settings = settings();
    settings.rate = 200e3;
    settings.duration = Duration::from_secs(5);
    settings.formation.lanes_max = 100;
    settings.costs.answer = Duration::from_micros(10);
    settings.costs.launch = Duration::from_micros(100);
    let figures = run(&settings);
    // A full cohort takes 1.1 ms.
    near(figures.answers_per_s, 100.0 / 0.0011, 0.01);
    near(figures.full, 1.0, 0.01);
    near(figures.utilization, 1.0, 0.01);
    assert!(!figures.keeps_up);
}

/// A little less than a core can do is kept up with, and a little more is not, in as many requests
/// as `rhythm model` has by default.
#[test]
fn a_percent_too_much_is_told() {
    for seed in 0..20 {
        let keeps_up = |load: f64| {
            let mut settings = settings();
            settings.formation.lanes_max = 1;
            settings.formation.policy = Policy::WorkConserving;
            settings.costs.answer = Duration::from_micros(100);
            settings.rate = load * 10_000.0;
            settings.duration = Duration::from_secs_f64(200e3 / settings.rate);
            settings.seed = seed;
            run(&settings).keeps_up
        };
        assert!(keeps_up(0.99), "seed {seed}");
        assert!(!keeps_up(1.01), "seed {seed}");
    }
}

/// Answers that are still to come when the last request has arrived are no sign of too much.
#[test]
fn a_slow_backend_is_no_lack_of_workers() {
    for latency in [5 * MS, 50 * MS] {
        let mut settings = settings();
        settings.costs = Costs::MEASURED;
        settings.formation.policy = Policy::WorkConserving;
        settings.duration = Duration::from_millis(200);
        settings.backend = Some(Backend { calls: 1, latency });
        let figures = run(&settings);
        assert!(figures.answers_per_s < 0.98 * settings.rate);
        assert!(figures.keeps_up, "{latency:?}");
        settings.rate = 1e6;
        assert!(!run(&settings).keeps_up, "{latency:?}");
    }
}

/// A worker that is done early has nothing to do until all are.
#[test]
fn cores_are_busy_for_their_share_of_the_whole_time() {
    let mut settings = settings();
    settings.workers = 16;
    settings.rate = 100.0;
    settings.duration = MS * 100;
    settings.costs.answer = MS;
    let figures = run(&settings);
    let time = 16.0 * figures.requests as f64 / figures.answers_per_s;
    near(
        figures.utilization,
        figures.requests as f64 * 1e-3 / time,
        1e-6,
    );
}

/// Each call adds its time and nothing else, as long as there are contexts; where there is one, a
/// worker answers one cohort in that time.
#[test]
fn backends_are_waited_for() {
    let mut settings = settings();
    settings.formation.policy = Policy::WorkConserving;
    settings.rate = 100.0;
    settings.backend = Some(Backend {
        calls: 3,
        latency: 5 * MS,
    });
    near(run(&settings).latency_us.p50, 15_000.0, 1e-3);
    settings.formation.lanes_max = 1;
    settings.contexts = 1;
    settings.duration = Duration::from_secs(20);
    let figures = run(&settings);
    near(figures.answers_per_s, 1.0 / 0.015, 0.02);
    assert_eq!(figures.requests, requests_of(&settings));
}

/// How many arrive: each is answered.
fn requests_of(settings: &Settings) -> u64 {
    let mut free = settings.clone();
    free.backend = None;
    run(&free).requests
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let mut settings = settings();
    settings.workers = 3;
    settings.costs = Costs::MEASURED;
    let figures = run(&settings);
    assert_eq!(run(&settings), figures);
    settings.seed = 2;
    assert_ne!(run(&settings), figures);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        rhythm_model::run(&settings).expect_err("it makes no sense")
    };
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut settings = settings();
        settings.rate = rate;
        let mistake = rhythm_model::run(&settings).expect_err("it makes no sense");
        assert!(matches!(mistake, Mistake::Rate(_)), "{mistake}");
    }
    assert_eq!(refused(|it| it.pages.clear()), Mistake::Pages);
    assert_eq!(refused(|it| it.pages[0] = 0.0), Mistake::Pages);
    let numbers: [fn(&mut Settings); 5] = [
        |it| it.workers = 0,
        |it| it.workers = 1025,
        |it| it.contexts = 0,
        |it| it.contexts = usize::MAX,
        |it| it.formation.lanes_max = 65_537,
    ];
    for change in numbers {
        assert!(matches!(refused(change), Mistake::Number { .. }));
    }
    let calls = |calls: usize, latency: Duration| Some(Backend { calls, latency });
    let mut asks = settings();
    for backend in [calls(0, MS), calls(usize::MAX, MS)] {
        asks.backend = backend;
        let mistake = rhythm_model::run(&asks).expect_err("it makes no sense");
        assert!(matches!(mistake, Mistake::Number { .. }), "{mistake}");
    }
    asks.backend = calls(1, Duration::MAX);
    assert_eq!(rhythm_model::run(&asks), Err(Mistake::Time));
    assert_eq!(refused(|it| it.costs.wake = Duration::MAX), Mistake::Time);
    assert_eq!(
        refused(|it| it.formation.delay = Duration::MAX),
        Mistake::Time
    );
    assert_eq!(refused(|it| it.duration = Duration::MAX), Mistake::Duration);
    assert!(matches!(refused(|it| it.rate = 1e12), Mistake::Requests(_)));
    assert!(matches!(
        refused(|it| it.duration = Duration::ZERO),
        Mistake::Requests(_)
    ));
}
