//! `rhythm model`: what cohorts come of a rate of requests, simulated.

use crate::exits::wrong;
use crate::load::write_json;
use crate::output;
use anyhow::{Result, bail};
use rhythm_bench::load::Page;
use rhythm_engine::settings::duration;
use rhythm_model::settings::{Formation, Policy};
use rhythm_model::{Backend, Costs, Figures, Settings};
use serde::Serialize;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Simulate how requests form cohorts: their sizes, how long requests wait, how busy workers are.
///
/// Requests arrive at random, at each rate in turn, and are read, formed into cohorts and executed
/// as the server does, by the policy that it runs itself. What a request costs are figures of one
/// machine (docs/scale.md says which, and how to take one's own); without --policy both policies
/// are compared. The same flags give the same figures.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Requests a second of the whole server; several are simulated one after the other
    #[arg(
        long,
        value_name = "PER_SECOND",
        value_delimiter = ',',
        required = true
    )]
    rate: Vec<f64>,

    /// Workers, a core each
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    workers: NonZeroUsize,

    /// The pages: "banking", of the bank's mix; a number of pages, asked for equally often; or the
    /// weight of each, such as 60,30,10
    #[arg(long, value_name = "PAGES", default_value = "banking", value_parser = parse_mix)]
    mix: Mix,

    /// When cohorts are launched (`cohort.policy`); both without it
    #[arg(long, value_enum)]
    policy: Option<PolicyName>,

    /// Most requests of a cohort (`cohort.size`)
    #[arg(long, value_name = "N", default_value = "1024")]
    size: NonZeroUsize,

    /// Longest time a request waits for others (`cohort.delay`)
    #[arg(long, value_name = "DURATION", default_value = "2ms", value_parser = duration::parse)]
    delay: Duration,

    /// Cohorts of a worker that form, run or wait for their backend at a time; a server has more of
    /// these last than `cohort.contexts_max` says [default: two a page, and at least 16]
    #[arg(long, value_name = "N")]
    contexts: Option<NonZeroUsize>,

    /// How long a backend takes for a call; without it nothing is waited for
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    backend: Option<Duration>,

    /// Calls that each page makes, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, requires = "backend")]
    calls: usize,

    /// Requests of each simulation
    #[arg(long, value_name = "N", default_value = "200000")]
    requests: NonZeroUsize,

    /// What decides when requests arrive
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write the figures to this file as JSON; "-" is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    costs: CostArgs,
}

/// Processor time of a worker's core.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What work costs")]
struct CostArgs {
    /// To be woken, where there was nothing to do
    #[arg(long, value_name = "DURATION", default_value_t = Time(Costs::MEASURED.wake))]
    wake: Time,

    /// A turn of the loop
    #[arg(long, value_name = "DURATION", default_value_t = Time(Costs::MEASURED.turn))]
    turn: Time,

    /// A launch of a cohort
    #[arg(long, value_name = "DURATION", default_value_t = Time(Costs::MEASURED.launch))]
    launch: Time,

    /// A request that is read
    #[arg(long, value_name = "DURATION", default_value_t = Time(Costs::MEASURED.read))]
    read: Time,

    /// An answer that is rendered and sent
    #[arg(long, value_name = "DURATION", default_value_t = Time(Costs::MEASURED.answer))]
    answer: Time,
}

/// A duration as it is typed.
#[derive(Clone, Copy, Debug)]
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::format(self.0))
    }
}

impl std::str::FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        duration::parse(text)
            .map(Time)
            .map_err(|error| error.to_string())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PolicyName {
    WorkConserving,
    Fixed,
}

impl PolicyName {
    const ALL: [PolicyName; 2] = [PolicyName::WorkConserving, PolicyName::Fixed];

    fn policy(self) -> Policy {
        match self {
            PolicyName::WorkConserving => Policy::WorkConserving,
            PolicyName::Fixed => Policy::Fixed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            PolicyName::WorkConserving => "work-conserving",
            PolicyName::Fixed => "fixed",
        }
    }
}

/// How often each page is asked for.
#[derive(Clone, Debug)]
struct Mix(Vec<f64>);

/// Most pages of a mix: more than sites have.
const PAGES_MAX: usize = 10_000;

fn parse_mix(text: &str) -> Result<Mix, String> {
    if text == "banking" {
        return Ok(Mix(Page::ALL.map(Page::mix).to_vec()));
    }
    if let Ok(pages) = text.parse::<usize>() {
        return match pages {
            1..=PAGES_MAX => Ok(Mix(vec![1.0; pages])),
            _ => Err(format!("1 to {PAGES_MAX} pages")),
        };
    }
    let weights: Result<Vec<f64>, _> = text.split(',').map(str::parse).collect();
    let good = |weights: &Vec<f64>| weights.iter().all(|it| it.is_finite() && *it > 0.0);
    let weights = weights.ok().filter(good);
    (weights.map(Mix)).ok_or_else(|| "\"banking\", a number of pages, or their weights".to_owned())
}

/// What came of one rate and policy.
#[derive(Serialize)]
struct Row {
    rate: f64,
    policy: &'static str,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let report = simulate(args)?;
    write_json(args.json.as_deref(), &report)?;
    if args.json.as_deref() != Some(std::path::Path::new("-")) {
        output::print(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn simulate(args: &Args) -> Result<Report> {
    let policies = match args.policy {
        Some(policy) => vec![policy],
        None => PolicyName::ALL.to_vec(),
    };
    let mut rows = Vec::new();
    for rate in &args.rate {
        if !(rate.is_finite() && *rate > 0.0) {
            bail!(wrong(format_args!(
                "--rate: requests arrive at a rate above 0, not {rate}"
            )));
        }
        for policy in &policies {
            let settings = args.settings(*rate, *policy)?;
            let figures = rhythm_model::run(&settings).map_err(wrong)?;
            rows.push(Row {
                rate: *rate,
                policy: policy.name(),
                figures,
            });
        }
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        rows,
    })
}

impl Args {
    fn settings(&self, rate: f64, policy: PolicyName) -> Result<Settings> {
        let seconds = self.requests.get() as f64 / rate;
        let Ok(duration) = Duration::try_from_secs_f64(seconds) else {
            bail!(wrong(format_args!(
                "--requests: at {rate:e} a second it takes too long until so many have come"
            )));
        };
        let contexts = self.contexts.map(NonZeroUsize::get);
        Ok(Settings {
            rate,
            pages: self.mix.0.clone(),
            workers: self.workers.get(),
            formation: Formation {
                policy: policy.policy(),
                lanes_max: self.size.get(),
                delay: self.delay,
            },
            contexts: contexts.unwrap_or_else(|| (2 * self.mix.0.len()).max(16)),
            costs: Costs {
                wake: self.costs.wake.0,
                turn: self.costs.turn.0,
                launch: self.costs.launch.0,
                read: self.costs.read.0,
                answer: self.costs.answer.0,
            },
            backend: self.backend.map(|latency| Backend {
                calls: self.calls,
                latency,
            }),
            duration,
            seed: self.seed,
        })
    }
}

/// Microseconds, as people read them.
fn time(us: f64) -> String {
    match us {
        ..1000.0 => format!("{us:.0} us"),
        ..1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>10} {:<16} {:>16} {:>14} {:>19} {:>19} {:>10} {:>5} {:>7}",
            "requests",
            "",
            "cohorts:",
            "% full, late,",
            "waiting:",
            "latency:",
            "",
            "busy",
            "CPU us"
        )?;
        writeln!(
            f,
            "{:>10} {:<16} {:>16} {:>14} {:>19} {:>19} {:>10} {:>5} {:>7}",
            "a second",
            "policy",
            "mean, p99",
            "idle",
            "p50, p99",
            "p50, p99",
            "answers/s",
            "%",
            "each"
        )?;
        for Row {
            rate,
            policy,
            figures: it,
            ..
        } in &self.rows
        {
            let launches =
                [it.full, it.timeout, it.idle].map(|share| format!("{:.0}", share * 100.0));
            let sizes = format!("{:.1} {:>5.0}", it.cohort.mean, it.cohort.p99);
            let pair = |p50, p99| format!("{} {:>8}", time(p50), time(p99));
            writeln!(
                f,
                "{rate:>10.0} {policy:<16} {sizes:>16} {:>14} {:>19} {:>19} {:>10.0} {:>5.0} \
                 {:>7.1}",
                launches.join(", "),
                pair(it.waiting_us.p50, it.waiting_us.p99),
                pair(it.latency_us.p50, it.latency_us.p99),
                it.answers_per_s,
                it.utilization * 100.0,
                it.cpu_us,
            )?;
        }
        if let Some(row) = self.rows.iter().find(|row| !row.figures.keeps_up) {
            let Row { rate, policy, .. } = row;
            writeln!(
                f,
                "\nAt {rate:.0} a second ({policy}) workers do not keep up, for want of time or of \
                 contexts: what waits grows for as long as that goes on."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_named_counted_or_weighed() {
        let sum: f64 = parse_mix("banking").expect("known").0.iter().sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}");
        assert_eq!(parse_mix("3").expect("a number").0, [1.0; 3]);
        assert_eq!(parse_mix("60,39.5").expect("weights").0, [60.0, 39.5]);
        for wrong in ["", "0", "10001", "1,", "1,-2", "1,nan", "bank"] {
            assert!(parse_mix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn workers_keep_up_where_few_requests_happen_to_come() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let said = |flags: &str| {
            let line = <Line as clap::Parser>::try_parse_from(flags.split(' ')).expect("flags");
            simulate(&line.args).expect("a simulation").to_string()
        };
        for seed in 0..20 {
            let keeps_up = said(&format!("- --rate 10 --requests 100 --seed {seed}"));
            assert!(!keeps_up.contains("do not keep up"), "{seed}");
            let is_late = said(&format!("- --rate 1e7 --requests 20000 --seed {seed}"));
            assert!(is_late.contains("do not keep up"), "{seed}");
        }
        let waits = said("- --rate 1000000 --workers 16 --backend 5ms --policy fixed");
        assert!(!waits.contains("do not keep up"), "{waits}");
    }
}
