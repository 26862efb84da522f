//! How good the policies are in the model, over many seeds:
//!
//!     cargo run --release -p rhythm-rpo --example evaluate -- [SEEDS [PARAMS.toml | random:N]]
//!
//! For each workload: the mean response time of either setting, the paper's rule, what is learned
//! without a table, and the oracle (the best of several and of both settings); then what is learned
//! against the oracle, and against the better setting in the worst five minutes, both after a first
//! cycle that is not scored.

use rhythm_rpo::Setting;
use rhythm_rpo::model::{
    Chooser, Length, ModelError, Oracle, Outcome, Params, Run, Workload, random, run,
};
use rhythm_rpo::policy::Policy as _;
use rhythm_rpo::policy::{Fixed, Learned, LearnedSettings, Majority};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = arguments.first().map_or(Ok(30), |text| text.parse())?;
    let params = match arguments.get(1) {
        None => Params::paper()?,
        Some(text) => match text.strip_prefix("random:") {
            Some(number) => random(&Params::paper()?, number.parse()?),
            None => Params::parse(&std::fs::read_to_string(text)?)?,
        },
    };
    let only = arguments.get(2).map_or("", String::as_str);
    println!("| | HT | NOHT | RPO | learned | oracle | learned/oracle | worst 5 min |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, workload, ghz, length) in workloads() {
        if name.starts_with(only) {
            one(&params, &name, &workload, ghz, length, seeds)?;
        }
    }
    Ok(())
}

fn workloads() -> Vec<(String, Workload, f64, Length)> {
    let mut all = Vec::new();
    for (mix, rate, lasts) in [("browsing", 356.0, 900.0), ("ordering", 48.0, 1500.0)] {
        for ghz in [1.6, 2.133] {
            let length = Length::Seconds {
                all: 3.0 * lasts,
                warm_up: lasts,
            };
            all.push((
                format!("{mix} {ghz}"),
                Workload::mix(mix, rate),
                ghz,
                length,
            ));
        }
    }
    for percent in [0.0, 5.0, 15.0, 50.0] {
        let length = Length::Cycles { all: 3, warm_up: 1 };
        all.push((
            format!("S({percent})"),
            Workload::custom(percent),
            1.6,
            length,
        ));
    }
    all
}

fn one(
    params: &Params,
    name: &str,
    workload: &Workload,
    ghz: f64,
    length: Length,
    seeds: u64,
) -> Result<(), ModelError> {
    let table = params.classes();
    let mut means = vec![0.0; 4 + Oracle::all().len()];
    let mut worst: f64 = 0.0;
    for seed in 1000..1000 + seeds {
        let case = Run {
            ghz,
            workload: workload.clone(),
            seed,
            length,
            each_second: false,
        };
        let mut outcomes = Vec::new();
        for setting in Setting::ALL {
            outcomes.push(run(
                params,
                &case,
                Chooser::Policy(&mut Fixed::new(setting)),
            )?);
        }
        outcomes.push(run(
            params,
            &case,
            Chooser::Policy(&mut Majority::new(&table)),
        )?);
        let mut learned = Learned::new(LearnedSettings::default());
        outcomes.push(run(params, &case, Chooser::Policy(&mut learned))?);
        for oracle in Oracle::all() {
            outcomes.push(run(params, &case, Chooser::Oracle(oracle))?);
        }
        for (mean, outcome) in means.iter_mut().zip(&outcomes) {
            *mean += outcome.response_ms() / seeds as f64;
        }
        let better = if outcomes[0].response_ms() < outcomes[1].response_ms() {
            0
        } else {
            1
        };
        worst = worst.max(worst_window(&outcomes[3], &outcomes[better]));
        if std::env::var_os("SHOW").is_some() {
            println!("{seed}: {} {:?}", learned.explain(), learned.learning());
        }
    }
    let oracle = means
        .iter()
        .enumerate()
        .filter(|(which, _)| ![2, 3].contains(which));
    let oracle = oracle.map(|(_, mean)| *mean).fold(f64::INFINITY, f64::min);
    let [all, one, rule, learned] = [0, 1, 2, 3].map(|which| means[which]);
    let ratio = learned / oracle;
    println!(
        "| {name} | {all:.1} | {one:.1} | {rule:.1} | {learned:.1} | {oracle:.1} | {ratio:.3} | \
         {worst:.3} |"
    );
    Ok(())
}

/// The most that the mean of five minutes is above that of the other.
fn worst_window(ours: &Outcome, other: &Outcome) -> f64 {
    let both = ours.windows.iter().zip(&other.windows);
    // The last may be short.
    both.filter(|(ours, _)| ours.0 > 2000)
        .map(|(ours, other)| ours.1 / ours.0 as f64 / (other.1 / other.0.max(1) as f64))
        .fold(0.0, f64::max)
}
