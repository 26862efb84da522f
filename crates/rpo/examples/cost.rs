//! What a record costs the controller and the classifier, on a replayed trace:
//!
//!     cargo run --release -p rhythm-rpo --example cost

use rhythm_rpo::classifier::Classifier;
use rhythm_rpo::policy::{Learned, LearnedSettings, Load};
use rhythm_rpo::{Controller, Setting};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const RECORDS: u64 = 4_000_000;
const RATE: u64 = 20_000;

fn main() {
    let paths = [
        "/",
        "/new",
        "/best",
        "/item/17",
        "/item/4711",
        "/search",
        "/results?q=a",
    ];
    let mut classifier = Classifier::tpcw();
    let policy = Box::new(Learned::new(LearnedSettings::default()));
    let mut controller = Controller::new(policy, Setting::AllThreads);
    let mut in_flight = VecDeque::new();
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut loads, mut in_loads) = (0_u32, Duration::ZERO);
    let begin = Instant::now();
    // Arrivals and completions alternate, forty in flight.
    for record in 0..RECORDS / 2 {
        let now = Duration::from_nanos(record * 1_000_000_000 / RATE);
        let class = classifier.classify("GET", paths[rng.usize(..paths.len())]);
        in_flight.push_back(class);
        let mut made = controller.arrived(class, now);
        if in_flight.len() > 40
            && let Some(class) = in_flight.pop_front()
        {
            made = made.or(controller.completed(class, Duration::from_millis(2), true, now));
        }
        if record % (RATE / 100) == 0 {
            let before = Instant::now();
            let load = Load {
                running: 5.0,
                cores: 8.0,
                utilization: 0.4,
            };
            made = made.or(controller.load(load, now));
            in_loads += before.elapsed();
            loads += 1;
        }
        if let Some(decision) = made {
            controller.switched(decision.setting, Duration::from_micros(300), now);
        }
    }
    let all = begin.elapsed();
    let records = all.saturating_sub(in_loads).as_nanos() as f64 / RECORDS as f64;
    println!("{records:.1} ns a record (classified: one of two)");
    println!(
        "{:.2} us a look at the load",
        in_loads.as_secs_f64() * 1e6 / f64::from(loads)
    );
    let share = all.as_secs_f64() / (RECORDS as f64 / 2.0 / RATE as f64) * 100.0;
    println!(
        "{share:.2} % of a core at {RATE} requests/s; {:?}",
        controller.counts()
    );
}
