//! What this machine's executors do: Table 3's rows of a processor, latency at rates of arrivals,
//! and section 6.4's cohort sizes and parser.

use super::gpu::DeviceReport;
use super::options::RhythmOptions;
use super::paper;
use crate::emulate::{self, EmulationOptions, MakeExecutor, Output, PageResult, Report, Users};
use crate::load::Page;
use crate::reproduce::energy::Meter;
use crate::reproduce::error::ReproduceError;
use crate::reproduce::section::{Section, cell, column, ours};
use rhythm_besim::Bank;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head};
use rhythm_protocol::scan::Level;
use rhythm_rpo::report::Column;
use rhythm_rpo::report::Kind::{Computed, Counted, Emulated, Measured};
use rhythm_server::Site;
use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// For how long an idle machine's joules are counted.
const IDLE: Duration = Duration::from_secs(2);
/// Shares of the highest rate at which latency is told.
const LOADS: [f64; 4] = [0.1, 0.5, 0.8, 0.95];
/// Cohort sizes that are tried.
const SIZES: [usize; 6] = [1, 4, 16, 64, 256, 1024];
/// Requests of a round that the parser is given.
const PARSED: usize = 4096;
/// Rounds of them, of which the fastest counts.
const ROUNDS: usize = 20;
/// Bytes of memory that answers are written to, round and round.
const RING_BYTES: usize = 84 << 20;
/// The executors, with the lanes of a cohort and the cohorts in flight.
const EXECUTORS: [(&str, (usize, usize)); 2] = [("scalar", (256, 8)), ("host", (256, 8))];
/// The number of the executors' rates.
pub(super) const TABLE_3: &str = "Table 3, CPU";
pub(super) const COMMAND: &str = "rhythm bench --device scalar --device host";

/// What an executor reaches on one core.
pub(super) struct Reached {
    pub(super) executor: &'static str,
    /// Of the paper's mix.
    pub(super) requests_per_s: f64,
    /// Bytes of its answers, on average.
    pub(super) answer_bytes: f64,
    /// Bytes of each page's, in the order of the paper's table.
    answers: Vec<Option<f64>>,
    pub(super) wall_watts: Option<f64>,
    pub(super) dynamic_watts: f64,
}

/// What watts come from.
#[derive(Clone, Copy, PartialEq)]
enum Watts {
    Given,
    Counted,
    Stated,
}

fn watts_of(options: &RhythmOptions) -> Watts {
    match (options.watts, Meter::open()) {
        (Some(_), _) => Watts::Given,
        (None, Some(_)) => Watts::Counted,
        (None, None) => Watts::Stated,
    }
}

fn executor(name: &str) -> (String, MakeExecutor) {
    let make: MakeExecutor = match name {
        "scalar" => Box::new(|| Ok(Box::new(ScalarExecutor::default()))),
        _ => Box::new(|| {
            let host = HostExecutor::new(LaneLimits::default(), Level::active());
            Ok(Box::new(host))
        }),
    };
    (name.to_owned(), make)
}

/// The paper's pages on an executor.
fn mix(
    site: &Arc<Site>,
    options: &RhythmOptions,
    name: &str,
    (cohort_size, in_flight): (usize, usize),
    output: Output,
) -> Result<Report, ReproduceError> {
    let options = EmulationOptions {
        executors: vec![executor(name)],
        cohort_size,
        in_flight,
        requests: options.effort.requests,
        repeats: options.effort.repeats,
        ring_bytes: RING_BYTES,
        output,
        pages: paper::PAGES.iter().map(|paper| paper.page).collect(),
    };
    Ok(emulate::run(site, &options, &mut |_| {})?)
}

/// Its rate over the paper's mix.
fn rate_of(report: &Report) -> Option<f64> {
    let mean = report.means.iter().find(|mean| mean.mix == "mix14");
    mean.map(|mean| mean.executed.requests_per_s)
}

/// What something comes to, and the watts meanwhile, where they are counted.
fn with_watts<T>(
    meter: Option<&Meter>,
    work: impl FnOnce() -> Result<T, ReproduceError>,
) -> Result<(T, Option<f64>), ReproduceError> {
    let (from, start) = (meter.and_then(Meter::read), Instant::now());
    let came = work()?;
    let readings = from.zip(meter.and_then(Meter::read));
    let joules = meter
        .zip(readings)
        .map(|(meter, (from, to))| meter.joules(&from, &to));
    Ok((
        came,
        joules.map(|joules| joules / start.elapsed().as_secs_f64()),
    ))
}

/// Measures the executors, each by itself.
pub(super) fn reach(
    site: &Arc<Site>,
    options: &RhythmOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Reached>, ReproduceError> {
    let meter = (options.watts.is_none()).then(Meter::open).flatten();
    let idle = with_watts(meter.as_ref(), || {
        if meter.is_some() {
            thread::sleep(IDLE);
        }
        Ok(())
    })?;
    let mut all = Vec::new();
    for (executor, sizes) in EXECUTORS {
        tell(&format!("rate of the {executor} executor"));
        let (came, load) = with_watts(meter.as_ref(), || {
            mix(site, options, executor, sizes, Output::Pages)
        })?;
        let bytes = |page: &str| {
            let of = came.pages.iter().find(|of| of.page == page);
            of.map(|of| of.bytes)
        };
        let answers: Vec<Option<f64>> = (paper::PAGES.iter())
            .map(|paper| bytes(paper.page.name()))
            .collect();
        let mean = paper::mean(|paper| bytes(paper.page.name()));
        let (Some(requests_per_s), Some(answer_bytes)) = (rate_of(&came), mean) else {
            continue;
        };
        let both = options.watts.or(idle.1.zip(load));
        all.push(Reached {
            executor,
            requests_per_s,
            answer_bytes,
            answers,
            wall_watts: both.map(|(_, load)| load),
            dynamic_watts: both.map_or(options.watts_core, |(idle, load)| load - idle),
        });
    }
    Ok(all)
}

/// Table 2, the answers' sizes.
pub(super) fn table_2(reached: &[Reached]) -> Section {
    let mut section = Section::new(
        "Table 2, answers",
        "KB of an answer, and of a buffer of the next power of two",
        &[
            column("KB of an answer", Counted),
            column("KB of such a buffer", Computed),
        ],
    )
    .by(COMMAND);
    let buffer = |bytes: f64| (bytes as u64).next_power_of_two() as f64 / 1024.0;
    let answers = reached.first().map_or(&[][..], |of| &of.answers);
    let of = |at: usize| answers.get(at).copied().flatten();
    for (at, paper) in paper::PAGES.iter().enumerate() {
        let cells = vec![
            cell(paper.kb, of(at).map(|bytes| bytes / 1e3)),
            cell(paper.buffer_kb, of(at).map(buffer)),
        ];
        section.row(paper.page.name(), cells);
    }
    let by_page = |page: &paper::PaperPage| {
        let at = paper::PAGES.iter().position(|of| of.page == page.page)?;
        of(at)
    };
    let cells = vec![
        cell(
            paper::KB_MEAN,
            paper::mean(by_page).map(|bytes| bytes / 1e3),
        ),
        cell(
            paper::BUFFER_KB_MEAN,
            paper::mean(|page| by_page(page).map(buffer)),
        ),
    ];
    section.row("average of the mix", cells);
    section.note(
        "Heads included. Here no executor pads answers; buffers are what padding would cost, and \
         Figure 10, CPU, has what it does cost",
    );
    section
}

/// Figure 10's cause: what buffers of powers of two cost each page.
pub(super) fn buffers(
    site: &Arc<Site>,
    options: &RhythmOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    tell("buffers of powers of two");
    let (name, sizes) = EXECUTORS[1];
    let exact = mix(site, options, name, sizes, Output::Pages)?;
    let padded = mix(site, options, name, sizes, Output::Buffers)?;
    let mut section = Section::new(
        "Figure 10, CPU",
        "pages in buffers of powers of two, beside answers of exact length",
        &[
            column("1000 requests/s, exact", Emulated),
            column("1000 requests/s, in buffers", Emulated),
            column("% of exact", Emulated),
            column("KB of the answer", Emulated),
            column("KB of the buffer", Emulated),
        ],
    )
    .by("rhythm bench --device host --buffers pow2, and --buffers exact");
    let rate = |page: &PageResult| page.executed.first().map(|of| of.requests_per_s);
    for (exact, padded) in exact.pages.iter().zip(&padded.pages) {
        let rates = rate(exact).zip(rate(padded));
        let cells = vec![
            ours(rate(exact).map(|rate| rate / 1e3)),
            ours(rate(padded).map(|rate| rate / 1e3)),
            ours(rates.map(|(exact, padded)| padded / exact * 100.0)),
            ours(exact.bytes / 1024.0),
            ours(padded.bytes / 1024.0),
        ];
        section.row(exact.page, cells);
    }
    section.note(
        "Of the host executor of this CPU: whole answers are written to memory, and what is left \
         of their buffers with them, as Titan A has whole buffers cross the bus. Where little is \
         left the two differ by what repeats of one of them differ by",
    );
    Ok(section)
}

/// The columns of [`table_3`], where watts come from there.
fn columns(source: Watts) -> [Column; 5] {
    let watts = match source {
        Watts::Stated => Computed,
        Watts::Given | Watts::Counted => Measured,
    };
    // Rates are of the measured turns by processor time, watts of all of a run by the wall's.
    [
        column("1000 requests/s", Emulated),
        column("W at the wall", watts),
        column("dynamic W", watts),
        column("req/J, wall", Computed),
        column("req/J, dynamic", Computed),
    ]
}

/// Table 3, the rows of a processor.
pub(super) fn table_3(options: &RhythmOptions, reached: &[Reached]) -> Section {
    let source = watts_of(options);
    let title = "throughput and power of one core";
    let mut section = Section::new(TABLE_3, title, &columns(source)).by(COMMAND);
    for of in reached {
        let per = |watts: f64| of.requests_per_s / watts;
        let cells = vec![
            ours(of.requests_per_s / 1e3),
            ours(of.wall_watts),
            ours(of.dynamic_watts),
            ours(of.wall_watts.map(per)),
            ours((of.dynamic_watts > 0.0).then(|| per(of.dynamic_watts))),
        ];
        section.row(format!("this CPU, {}, 1 worker", of.executor), cells);
    }
    for of in &paper::PLATFORMS[..6] {
        let figures = [
            of.kreq_per_s,
            of.wall_watts,
            of.dynamic_watts,
            of.per_wall_joule,
            of.per_dynamic_joule,
        ];
        section.row(of.name, figures.map(|figure| cell(figure, None)).into());
    }
    section.note(
        "As in the paper's emulation (5.3.2): requests from memory, answers to memory, BeSim a \
         function call; each page by itself, and the weighted harmonic mean. Time is the thread's \
         processor time, so that other programs do not count as this one's",
    );
    section.note(match source {
        Watts::Given => "Watts are a meter's, as given by --watts-idle and --watts-load".to_owned(),
        Watts::Counted => {
            "Watts are the processor's own count (RAPL), without the rest of the machine, and on \
             average over all of an executor's run: users who sign in, answers that are looked at, \
             and what copying costs are in it"
                .to_owned()
        }
        Watts::Stated => format!(
            "Watts are no measurement: this machine does not let its joules be read, so a core \
             counts for {} W (--watts-core; the paper's figure for a core of an i5, section 6.2). \
             --watts-idle and --watts-load take a meter's figures",
            options.watts_core
        ),
    });
    section
}

/// Table 3's latency: at rates of arrivals.
pub(super) fn latency(
    site: &Arc<Site>,
    options: &RhythmOptions,
    reached: &[Reached],
    tell: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let mut section = Section::new(
        "Table 3, latency",
        "from arrival to answer, formation included",
        &[
            column("mean, us", Emulated),
            column("p99, us", Emulated),
            column("core busy, %", Emulated),
            column("requests a turn", Emulated),
        ],
    );
    for of in reached {
        for load in LOADS {
            let rate = of.requests_per_s * load;
            tell(&format!("latency of {} at {rate:.0}/s", of.executor));
            let requests = options.effort.arrivals;
            let at = emulate::at_rate(site, &executor(of.executor), requests, rate)?;
            let cells = vec![
                ours(at.latency.mean),
                ours(at.latency.p99),
                ours(at.busy * 100.0),
                ours(at.per_turn),
            ];
            section.row(
                format!("this CPU, {}, {rate:.0} requests/s", of.executor),
                cells,
            );
        }
    }
    for of in [
        &paper::PLATFORMS[0],
        &paper::PLATFORMS[2],
        &paper::PLATFORMS[4],
    ] {
        let none = || ours(None);
        let cells = vec![cell(of.latency_ms * 1e3, None), none(), none(), none()];
        section.row(format!("{}, one at a time", of.name), cells);
    }
    section.note(
        "Requests of the paper's mix arrive at random (Poisson), each of a user of their own, and \
         form cohorts by the service's policy (work-conserving). The clock is the thread's \
         processor time, and a turn's answers are there when it ends; there is no network",
    );
    section.note(
        "Rates are shares of what each executor reached in isolation: 10, 50, 80 and 95 %. Where \
         few requests come together, each costs more, and the core may not keep up",
    );
    Ok(section)
}

/// Section 6.4: cohort sizes, which the paper did on a GPU alone.
pub(super) fn cohort_sizes(
    site: &Arc<Site>,
    options: &RhythmOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let mut section = Section::new(
        "Section 6.4, CPU",
        "cohort sizes",
        &[
            column("1000 requests/s", Emulated),
            column("times one at a time", Emulated),
        ],
    )
    .by("rhythm bench --device host --cohort-size SIZE --in-flight 1");
    let mut alone = None;
    for size in SIZES {
        tell(&format!("cohorts of {size}"));
        let Some(rate) = rate_of(&mix(site, options, "host", (size, 1), Output::Pages)?) else {
            continue;
        };
        let alone = *alone.get_or_insert(rate);
        let cells = vec![ours(rate / 1e3), ours(rate / alone)];
        section.row(format!("host executor, cohorts of {size}"), cells);
    }
    section.note("The paper's CPUs have none; SIMD on them is its future work (6.4)");
    section.charts = vec!["cohort-sizes.svg"];
    Ok(section)
}

/// Section 6.4: the parser by itself.
pub(super) fn parser(gpus: &[DeviceReport], tell: &mut dyn FnMut(&str)) -> Section {
    tell("the parser");
    let mut section = Section::new(
        "Section 6.4, parser",
        "the parser alone",
        &[
            column("million requests/s", Measured),
            column("us for 4096", Measured),
        ],
    );
    let requests = Users::new(PARSED, Bank::new(Bank::USERS_DEFAULT)).mixed(&[]);
    let limits = HeadLimits::default();
    let mut head = RequestHead::new();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = emulate::cpu_ns();
        for request in &requests {
            head.clear();
            // What a request comes to is not looked at: users ask for what there is.
            let _ = black_box(parse_head(&mut head, black_box(request), &limits));
        }
        rounds.push((emulate::cpu_ns() - start).max(1));
    }
    let ns = rounds.into_iter().min().unwrap_or(1) as f64;
    let cells = vec![ours(PARSED as f64 / ns * 1e3), ours(ns / 1e3)];
    section.row("this CPU, one core, heads of a mixed trace", cells);
    let papers = vec![cell(paper::PARSER_M_S, None), cell(paper::PARSER_US, None)];
    section.row("Titan, a real trace with images", papers);
    for gpu in gpus {
        gpu.parsing(&mut section);
    }
    let pages = Page::ALL.len();
    section.note(format!(
        "Requests for all {pages} pages by their shares; heads alone on the CPU, without what \
         becomes of parameters; the best of {ROUNDS} rounds. On a GPU (`rhythm bench device`) \
         parameters of one page are read, and the transpose is in it, as in the paper's"
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_divided_by_watts_is_computed_and_watts_are_what_they_come_from() {
        for (source, watts) in [
            (Watts::Given, Measured),
            (Watts::Counted, Measured),
            (Watts::Stated, Computed),
        ] {
            let kinds = columns(source).map(|of| of.kind);
            assert_eq!(kinds, [Emulated, watts, watts, Computed, Computed]);
        }
    }
}
