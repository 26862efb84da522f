//! `rhythm bench`: the paper's emulation, the limit server, other servers beside ours, and attacks.

mod attack;
mod compare;
mod device;
mod packets;
mod program;
mod replay;

use crate::device::{CudaArgs, Device, Opened};
use crate::exits::wrong;
use crate::folder::Folder;
use crate::load::write_json;
use crate::{machine, output, progress};
use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;
use rhythm_bench::emulate::{self, EmulationOptions, MakeExecutor};
use rhythm_bench::limit::{self, LimitOptions};
use rhythm_bench::load::Page;
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_engine_cuda::executor::CudaExecutor;
use rhythm_engine_cuda::gpu::driver::DeviceDescription;
use rhythm_server::SiteSettings;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// Measure the server without a network, as the paper does: requests from memory, answers to
/// memory.
///
/// Each page type in isolation, then the weighted harmonic mean, on one core; beside them the limit
/// that copying memory sets, and the paper's table.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    emulation: Emulation,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Attack(attack::Args),
    Compare(compare::Args),
    Device(device::Args),
    Limit(Limit),
    #[command(hide = true)]
    Packets(packets::Args),
    #[command(hide = true)]
    Program(program::Args),
    Replay(replay::Args),
}

/// Serve a constant page from the barest server there can be, to compare a real one with.
#[derive(Debug, clap::Args)]
struct Limit {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8082")]
    listen: SocketAddr,

    /// Bytes of the page
    #[arg(long, value_name = "N", default_value_t = 16_213)]
    bytes: usize,
}

#[derive(Debug, clap::Args)]
struct Emulation {
    /// The service; it must be Banking or one like it
    #[arg(long, value_name = "DIR", default_value = "services/banking")]
    service: PathBuf,

    /// Executors to measure, alternating
    #[arg(long = "device", value_name = "DEVICE", default_values = ["scalar", "host"])]
    devices: Vec<Device>,

    /// Requests of a cohort
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    cohort_size: u32,

    /// Cohorts fed at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,

    /// Requests of each page type, in each repeat
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = from_one())]
    requests: usize,

    /// Repeats; the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = from_one())]
    repeats: usize,

    /// MiB of memory that answers are written to, round and round
    #[arg(long, value_name = "N", default_value_t = 84)]
    #[arg(value_parser = from_one())]
    ring: usize,

    /// What of an answer is written to memory
    #[arg(long, value_enum, default_value_t = Output::Pages)]
    output: Output,

    /// How long the memory is that a whole answer is written to
    #[arg(long, value_enum, default_value_t = Buffers::Exact)]
    buffers: Buffers,

    /// Pages to measure; all without it, which the mixes need
    #[arg(long = "page", value_name = "PAGE", value_parser = crate::load::parse_page)]
    pages: Vec<Page>,

    /// Write the report to this file as JSON; "-" is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    cuda: CudaArgs,
}

/// Reads a number of at least 1.
fn from_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// What of an answer is written to memory.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// Heads and whole pages
    Pages,
    /// Heads and the bytes that differ from page to page: what is left where the socket gathers
    /// the rest
    Runs,
}

/// How long the memory is that a whole answer is written to.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Buffers {
    /// As long as the answer
    Exact,
    /// The next power of two, all of which is written, as the paper's Titan A does
    Pow2,
}

/// A report, with what it was made on and by.
#[derive(Serialize)]
struct Recorded {
    machine: String,
    gpu: Option<DeviceDescription>,
    version: &'static str,
    command: String,
    report: emulate::Report,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Some(Command::Attack(args)) => attack::run(args),
        Some(Command::Compare(args)) => compare::run(args),
        Some(Command::Device(args)) => device::run(&args),
        Some(Command::Limit(limit)) => run_limit(&limit),
        Some(Command::Packets(args)) => packets::run(&args),
        Some(Command::Program(args)) => program::run(&args),
        Some(Command::Replay(args)) => replay::run(args),
        None => run_emulation(args.emulation),
    }
}

fn run_limit(args: &Limit) -> Result<ExitCode> {
    let mut options = LimitOptions::new(args.listen);
    options.page_bytes = args.bytes;
    limit::run(
        &options,
        |address| {
            output::complain(format_args!(
                "rhythm: a constant page of {} bytes on {address}",
                args.bytes
            ))
        },
        || false,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn run_emulation(args: Emulation) -> Result<ExitCode> {
    args.cuda.check(&args.devices)?;
    let output = match (args.output, args.buffers) {
        (Output::Pages, Buffers::Exact) => emulate::Output::Pages,
        (Output::Pages, Buffers::Pow2) => emulate::Output::Buffers,
        (Output::Runs, Buffers::Exact) => emulate::Output::Runs,
        (Output::Runs, Buffers::Pow2) => {
            bail!(wrong("--buffers pow2 is of whole answers, not of runs"))
        }
    };
    let folder = Folder::read(&args.service)?;
    let service = folder.compile()?;
    let open = |device: &Device| device.open(&args.cuda, &[&service]);
    let devices: Vec<Opened> = args.devices.iter().map(open).collect::<Result<_>>()?;
    let settings = SiteSettings::of(&service);
    let site = folder.into_site(service, settings)?;
    let lost = Arc::new(OnceLock::new());
    let gpu = devices.iter().find_map(Opened::gpu).cloned();
    let executors = devices.into_iter().map(|device| {
        let name = device.to_string();
        // The emulation looks for what is done; nobody sleeps.
        let lost = lost.clone();
        let make: MakeExecutor = Box::new(move || {
            let limits = LaneLimits::default();
            if !device.has_kernels() {
                return device.executor(limits, Arc::new(|| ()));
            }
            Ok(Box::new(Watched {
                executor: device.cuda(limits, device.besim_users(), Arc::new(|| ()))?,
                lost: lost.clone(),
            }))
        });
        (name, make)
    });
    let options = EmulationOptions {
        executors: executors.collect(),
        cohort_size: args.cohort_size as usize,
        in_flight: args.in_flight as usize,
        requests: args.requests,
        repeats: args.repeats,
        ring_bytes: args.ring << 20,
        output,
        pages: args.pages,
    };
    let bar = progress::spinner();
    let report = emulate::run(&site, &options, &mut |page| {
        bar.set_message(format!("measuring {page}"))
    })?;
    bar.finish_and_clear();
    if let Some(why) = lost.get() {
        bail!("figures would be the host's, which took over: {why}");
    }
    if args.json.as_deref() != Some(std::path::Path::new("-")) {
        output::print_line(&report)?;
    }
    let recorded = Recorded {
        machine: machine::describe(),
        gpu,
        version: env!("CARGO_PKG_VERSION"),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        report,
    };
    write_json(args.json.as_deref(), &recorded)?;
    Ok(ExitCode::SUCCESS)
}

/// An executor on a GPU whose failure is not to be overlooked: a server goes on without the GPU,
/// but a figure of that means nothing.
struct Watched {
    executor: CudaExecutor,
    /// Why the GPU was lost, once it is.
    lost: Arc<OnceLock<String>>,
}

impl Executor for Watched {
    fn name(&self) -> &'static str {
        self.executor.name()
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        self.executor.submit(work)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        self.executor.poll(done);
        if let Some(why) = self.executor.lost() {
            self.lost.get_or_init(|| why.to_string());
        }
    }

    fn in_flight(&self) -> usize {
        self.executor.in_flight()
    }
}
