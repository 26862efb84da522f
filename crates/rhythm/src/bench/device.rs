//! `rhythm bench device`: what a GPU does that has the whole server, requests in its memory to
//! answers in its memory (paper, section 5.3.2).
//!
//! In one run, one after the other: what the device's memory can do; what the host executor does on
//! all cores of the machine; then for each layout, after its answers have been compared with the
//! server's: which cohort size and how many in flight go best (one page), each page type in
//! isolation with these, power and energy while that runs, latency of a cohort alone. Before the
//! layouts parsing alone over a mixed trace, with and without the transpose, and cohorts in flight
//! together by how many queues there are to the device.
//!
//! The report is written after each layout: what was measured stays, whatever becomes of the rest.

mod measure;
mod part;
mod queues;
mod report;

use crate::device::{Device, queues_asked_for, take_all_queues};
use crate::exits::wrong;
use crate::folder::Folder;
use crate::load::{parse_page, write_json};
use crate::reproduce::watch_signals;
use crate::{machine, output, progress};
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use measure::Bench;
use part::Part;
use queues::Asked;
use report::*;
use rhythm_bench::load::Page;
use rhythm_besim::Bank;
use rhythm_engine::settings::BackendConfig;
use rhythm_engine_cuda::gpu::SharedGpu;
use rhythm_engine_cuda::gpu::driver::{DeviceDescription, Driver};
use rhythm_engine_cuda::gpu::power::PowerMeter;
use rhythm_engine_cuda::layout::Layout;
use rhythm_server::SiteSettings;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure the whole server on a GPU: requests from its memory, answers to its memory.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The service; it must be Banking or one like it
    #[arg(long, value_name = "DIR", default_value = "services/banking")]
    service: PathBuf,

    /// The device
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    device: Device,

    /// Which GPU, as CUDA counts them [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,

    /// Layouts to measure
    #[arg(long = "layout", value_name = "LAYOUT", default_value = "all")]
    layouts: Vec<LayoutChoice>,

    /// Requests of a cohort; what goes best without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    cohort_size: Option<u32>,

    /// Cohorts in flight; what goes best without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cohorts_in_flight: Option<u32>,

    /// Instances of the parser
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=32))]
    parsers: u32,

    /// Transpose requests before they are parsed, as the paper does
    #[arg(long)]
    transpose: bool,

    /// Measure this alone, again for several; everything without it
    #[arg(long = "measure", value_name = "WHAT")]
    parts: Vec<Part>,

    /// Seconds for each page, from 0.001 to 60
    #[arg(long, value_name = "S", default_value_t = 0.9, value_parser = seconds)]
    seconds: f64,

    /// Pages to measure; all without it
    #[arg(long = "page", value_name = "PAGE", value_parser = parse_page)]
    pages: Vec<Page>,

    /// Write the report to this file as JSON; "-" is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Seconds that a page can be measured.
fn seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.001..=60.0).contains(seconds));
    seconds.ok_or("a number from 0.001 to 60")
}

/// A layout, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutChoice {
    /// One after the other
    All,
    /// The paper's Titan A: columns, transposed back; the backend on the host
    A,
    /// Titan B: the backend on the device, too
    B,
    /// Titan C: columns that stay
    C,
    /// Row-major: a warp for each request
    Row,
    /// Only the dynamic bytes are written
    Runs,
}

impl LayoutChoice {
    fn layouts(self) -> &'static [Layout] {
        match self {
            LayoutChoice::All => Layout::ALL,
            LayoutChoice::A => &[Layout::A],
            LayoutChoice::B => &[Layout::B],
            LayoutChoice::C => &[Layout::C],
            LayoutChoice::Row => &[Layout::Row],
            LayoutChoice::Runs => &[Layout::Runs],
        }
    }
}

/// A report, with what it was made on and by.
#[derive(Serialize)]
struct Recorded<'a> {
    machine: String,
    version: &'static str,
    command: String,
    report: &'a Report,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // Check images are files: the host's (and left out by the paper, section 5.1).
    let all = Page::ALL
        .into_iter()
        .filter(|page| *page != Page::CheckDetailImage);
    let chosen = |page: &Page| args.pages.is_empty() || args.pages.contains(page);
    let pages: Vec<Page> = all.filter(chosen).collect();
    if pages.is_empty() {
        bail!(wrong(
            "there is nothing to measure: check images are files, which the host sends"
        ));
    }
    take_all_queues(args.device);
    let _watch = watch_signals()?;
    let (gpu, description) = open(args)?;
    let folder = Folder::read(&args.service)?;
    let service = folder.compile()?;
    let mut settings = SiteSettings::of(&service);
    // A device that answers by itself sends pages as they are.
    settings.gzip.pages = false;
    let site = folder.into_site(service, settings)?;
    let backend = site
        .service()
        .backends
        .first()
        .context("the service has no backend: it is not Banking")?;
    let bank = bank_of(backend)?;
    let bar = progress::spinner();
    let power = description
        .as_ref()
        .map(|gpu| PowerMeter::start(&gpu.pci_bus));
    let mut notes = Vec::new();
    let power = power.transpose().unwrap_or_else(|why| {
        notes.push(why);
        None
    });
    let bench = Bench {
        gpu,
        memory: description.as_ref().map(|gpu| gpu.memory_bytes),
        site,
        bank,
        pages,
        seconds: Duration::from_secs_f64(args.seconds),
        parsers: args.parsers as usize,
        transposes: args.transpose,
        parts: args.parts.clone(),
        power,
        bar,
    };
    let is_emulated = description.is_none();
    let idle_watts = bench.idle(is_emulated);
    let mut report = Report {
        gpu: description,
        queues: (!is_emulated).then(queues_asked_for).flatten(),
        idle_watts,
        bandwidth: bench.bandwidth(is_emulated)?,
        host: bench.host(is_emulated)?,
        layouts: Vec::new(),
        parsing: Vec::new(),
        concurrency: Vec::new(),
        notes,
        paper: Report::PAPER,
    };
    if bench.measures(Part::Parsing)
        && let Err(error) = bench.parsing(is_emulated, &mut report.parsing)
    {
        report.notes.push(format!("parsing: {error:#}"));
    }
    // The emulation has no queues: it shows that this can be measured, where that is asked for.
    if bench.measures(Part::Queues)
        && (!is_emulated || args.parts.contains(&Part::Queues))
        && let Err(error) = queues::measure(
            &Asked {
                service: &args.service,
                device: args.device,
                gpu: args.gpu,
                cohort: args.cohort_size,
                in_flight: args.cohorts_in_flight,
                seconds: args.seconds,
            },
            &|what| bench.bar.set_message(what),
            &mut report.concurrency,
        )
    {
        report.notes.push(format!("queues: {error:#}"));
    }
    let file = args.json.as_deref();
    let is_stdout = file == Some(std::path::Path::new("-"));
    let failed = measure_layouts(args, &bench, &mut report, |report| match is_stdout {
        true => Ok(()),
        false => write_json(file, &recorded(report)),
    })?;
    bench.bar.finish_and_clear();
    if is_stdout {
        write_json(file, &recorded(&report))?;
    } else {
        output::print(&report)?;
    }
    if failed > 0 {
        bail!("{failed} layouts could not be measured; the notes in the report say why");
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures the layouts that are asked for, each told of once it is done. How many could not be.
fn measure_layouts(
    args: &Args,
    bench: &Bench,
    report: &mut Report,
    tell: impl Fn(&Report) -> Result<()>,
) -> Result<usize> {
    let mut chosen: Vec<Layout> = args
        .layouts
        .iter()
        .flat_map(|choice| choice.layouts())
        .copied()
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    // Layout A last: it is the host's time that it takes, and if there is too little of it the
    // others are known.
    chosen.reverse();
    let given = (
        args.cohort_size.map(|n| n as usize),
        args.cohorts_in_flight.map(|n| n as usize),
    );
    let mut failed = 0;
    for layout in chosen {
        let compared = match bench.measures(Part::Rates) {
            true => bench.compare(layout),
            false => Ok(()),
        };
        let measured = compared.and_then(|()| {
            let found = bench.layout(layout, given, report);
            found.map_err(|error| anyhow!("layout {layout}: {error}"))
        });
        match measured {
            Ok(result) => {
                report.notes.extend(result.unknown_power(report.idle_watts));
                report.layouts.insert(0, result);
            }
            Err(error) => {
                failed += 1;
                bench
                    .bar
                    .suspend(|| output::complain(format_args!("rhythm: {error:#}")));
                report.notes.push(format!("{error:#}"));
            }
        }
        tell(report)?;
    }
    Ok(failed)
}

/// The bank that a backend of Banking is.
fn bank_of(backend: &BackendConfig) -> Result<Bank> {
    if backend.kind != rhythm_besim::KIND {
        bail!(
            "the backend {} is of kind {}, not {}: the service is not Banking",
            backend.name,
            backend.kind,
            rhythm_besim::KIND
        );
    }
    let users = u32::try_from(backend.int("users")).context("`users` is too large")?;
    Ok(Bank::new(users))
}

/// The report, with what it was made on and by.
fn recorded(report: &Report) -> Recorded<'_> {
    Recorded {
        machine: machine::describe(),
        version: env!("CARGO_PKG_VERSION"),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        report,
    }
}

/// The GPU, and what it is where it is one.
fn open(args: &Args) -> Result<(SharedGpu, Option<DeviceDescription>)> {
    match args.device {
        Device::Cuda => {
            let driver = Driver::open(args.gpu.unwrap_or(0))
                .map_err(|why| anyhow!("--device cuda: {why}"))?;
            let description = driver.describe().clone();
            Ok((driver, Some(description)))
        }
        #[cfg(feature = "cuda-emulation")]
        Device::CudaEmulated => {
            use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
            if args.gpu.is_some() {
                bail!(wrong(
                    "--gpu is for --device cuda; the emulation is no GPU of this machine"
                ));
            }
            Ok((Emulated::new(LaneOrder::default()), None))
        }
        other => {
            bail!(wrong(format_args!(
                "--device {other} is no GPU; measure it with: rhythm bench --device {other}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_no_page_can_be_measured_are_refused() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let said = |seconds: &str| {
            let flag = format!("--seconds={seconds}");
            let line = <Line as clap::Parser>::try_parse_from(["-", &flag[..]]);
            line.map(|line| line.args.seconds).ok()
        };
        for sound in [0.001, 0.9, 60.0] {
            assert_eq!(said(&sound.to_string()), Some(sound));
        }
        for wrong in ["nan", "inf", "0", "-1", "60.1", "300", "x"] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }
}
