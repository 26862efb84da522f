//! Table 3's latency of a GPU, from arrival to answer: how cohorts form is simulated
//! (`rhythm_model`), by what a device's report says that they take.

use super::gpu::{CohortTimes, DeviceReport};
use super::options::RhythmOptions;
use super::paper;
use crate::reproduce::error::ReproduceError;
use crate::reproduce::section::{Section, cell, column, ours};
use rhythm_model::settings::{Formation, Policy};
use rhythm_model::{Backend, Costs, Figures, Settings};
use rhythm_rpo::report::Kind::Simulated;
use rhythm_server::Site;
use std::time::Duration;

pub(super) const NUMBER: &str = "Table 3, GPU latency";
pub(super) const TITLE: &str = "from arrival to answer, formation included";
/// Columns, in milliseconds.
pub(super) const MEAN: usize = 0;
pub(super) const P99: usize = 1;
/// The column that says how much of the mean goes by until a cohort is launched.
pub(super) const FORMATION: usize = 4;
/// Shares of the highest rate at which latency is told.
const LOADS: [f64; 4] = [0.1, 0.5, 0.8, 0.95];
/// The rate for which the paper says that formation is negligible (section 6.4).
pub(super) const MILLION: f64 = 1e6;
/// Requests that are simulated for each that is emulated on a processor: cohorts are large.
const REQUESTS: usize = 10;
const SEED: u64 = 1;

/// What is simulated of a layout at a rate.
fn settings(of: &CohortTimes, rate: f64, delay: Duration, requests: usize) -> Settings {
    // A report may say anything.
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
    let full = of.each + of.lanes as f64 * of.per_request;
    let pages: Vec<f64> = paper::PAGES.iter().map(|page| page.percent).collect();
    Settings {
        rate,
        workers: 1,
        formation: Formation {
            policy: Policy::Fixed,
            lanes_max: of.lanes,
            delay,
        },
        // Each page has one that forms, besides.
        contexts: pages.len() + of.in_flight,
        pages,
        costs: Costs {
            // A launch, and the return from what is called once.
            launch: seconds(of.each / 2.0),
            answer: seconds(of.per_request),
            ..Costs::NONE
        },
        backend: Some(Backend {
            calls: 1,
            latency: seconds(of.alone - full),
        }),
        duration: seconds(requests as f64 / rate),
        seed: SEED,
    }
}

/// Latency of each layout at rates of arrivals.
pub(super) fn latency(
    report: &DeviceReport,
    site: &Site,
    options: &RhythmOptions,
) -> Result<Section, ReproduceError> {
    let mut section = Section::new(
        NUMBER,
        TITLE,
        &[
            column("mean, ms", Simulated),
            column("p99, ms", Simulated),
            column("requests a cohort", Simulated),
            column("device busy, %", Simulated),
            column("until its launch, % of the mean", Simulated),
        ],
    );
    let delay = site.service().config.cohort.delay;
    let requests = options.effort.arrivals * REQUESTS;
    let (layouts, unknown) = report.cohort_times();
    if !unknown.is_empty() {
        section.note(format!(
            "Absent: what the report lacks times of. A report that is made without --cohort-size, \
             --page and --measure has the rates of several sizes of cohorts, and the latency of \
             one. Layouts: {}",
            unknown.join(", ")
        ));
    }
    let Some(lanes) = layouts.first().map(|of| of.lanes) else {
        // Its layouts have no times.
        report.note(&mut section);
        return Ok(section);
    };
    let mut late = Vec::new();
    for of in &layouts {
        let mut rates = [MILLION; 1 + LOADS.len()];
        for (rate, load) in rates[1..].iter_mut().zip(LOADS) {
            *rate = of.requests_per_s * load;
        }
        // The last is the highest.
        rates.sort_by(f64::total_cmp);
        for rate in rates {
            if rate > of.requests_per_s {
                continue;
            }
            let Figures {
                latency_us,
                waiting_us,
                cohort,
                utilization,
                keeps_up,
                ..
            } = rhythm_model::run(&settings(of, rate, delay, requests)).map_err(|why| {
                ReproduceError::Cohorts {
                    path: report.path().to_owned(),
                    layout: of.layout.clone(),
                    why,
                }
            })?;
            let name = format!("layout {}, {:.0} requests/s", of.layout, rate);
            if !keeps_up {
                late.push(name.clone());
            }
            // One that grows says how long was simulated.
            let latency = |figure: f64| ours(keeps_up.then_some(figure));
            let cells = vec![
                latency(latency_us.mean / 1e3),
                latency(latency_us.p99 / 1e3),
                ours(cohort.mean),
                ours(utilization * 100.0),
                latency(waiting_us.mean / latency_us.mean * 100.0),
            ];
            section.row(name, cells);
        }
    }
    for titan in ["a", "b", "c"].into_iter().filter_map(paper::titan) {
        let mut cells = vec![cell(titan.latency_ms, None)];
        cells.resize_with(section.table.columns.len(), || ours(None));
        section.row(titan.name, cells);
    }
    let ms = delay.as_secs_f64() * 1e3;
    section.note(format!(
        "Simulated: requests of the paper's mix arrive at random (Poisson) and form cohorts of \
         {lanes} of a page each, launched when full or after {ms} ms (`fixed`, the paper's \
         policy). Rates are 10, 50, 80 and 95 % of what the card reached with cohorts of that \
         size, and the paper's million, if that is less. The paper has a mean alone, of cohorts \
         of 4096 of one page, at its highest rate"
    ));
    section.note(
        "It departs from a card where it takes cohorts one after the other, each for the time that \
         follows from the report's rates of its smallest cohorts and of these (account_summary), \
         and adds, as a delay that holds up nobody, what a cohort takes longer when it is alone. \
         Answers leave one by one, not a cohort's together. login and logout are taken to be as \
         the other pages, whose latencies the report has. There is no network",
    );
    if !late.is_empty() {
        let late = late.join("; ");
        section.note(format!(
            "Not kept up with, since cohorts are not full: what waits grows, and latency with it. \
             {late}"
        ));
    }
    report.note(&mut section);
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_as_fast_and_a_cohort_takes_as_long_as_the_report_says() {
        let of = CohortTimes {
            layout: "b".to_owned(),
            lanes: 1000,
            in_flight: 8,
            requests_per_s: 2e6,
            each: 300e-6,
            per_request: 0.2e-6,
            alone: 2e-3,
        };
        let run = |rate: f64, delay, requests| {
            let settings = settings(&of, rate, Duration::from_millis(delay), requests);
            rhythm_model::run(&settings).expect("a simulation")
        };
        // So long that cohorts are full: those that come together take 2 ms and their formation.
        let slow = run(50e3, 10_000, 200_000);
        assert!(slow.keeps_up && slow.full > 0.5, "{slow:?}");
        let taken = (slow.latency_us.mean - slow.waiting_us.mean) / 1e3;
        assert!((1.85..=2.05).contains(&taken), "{taken}");
        // Full ones follow each other at that rate, and no faster.
        let fast = run(1.8e6, 60, 2_000_000);
        assert!(fast.keeps_up && fast.utilization > 0.8, "{fast:?}");
        let late = run(4e6, 60, 2_000_000);
        assert!(!late.keeps_up && late.answers_per_s < 2.1e6, "{late:?}");
    }
}
