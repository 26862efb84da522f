//! `rhythm bench replay`.

mod parts;

use crate::device::{CudaArgs, Device};
use crate::exits::wrong;
use crate::folder::Folder;
use anyhow::{Context, Result, bail};
use parts::Part;
use rhythm_bench::emulate::{self, ReplayOptions};
use rhythm_bench::load::Page;
use rhythm_bench::reproduce::{BEGIN, END};
use rhythm_engine::device::LaneLimits;
use rhythm_server::SiteSettings;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Execute requests of pages, or parts of servers, without network or clock, for a profiler:
/// valgrind, perf.
///
/// Users log in and have the page once; then so many requests are executed. What two runs with
/// different --requests and the same --users differ by is what those requests take:
///
/// valgrind --tool=callgrind rhythm bench replay --page login --requests 0
///
/// valgrind --tool=callgrind rhythm bench replay --page login --requests 100
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The service; it must be Banking or one like it
    #[arg(long, value_name = "DIR", default_value = "services/banking")]
    service: PathBuf,

    /// In place of pages: one part of a server, by itself
    #[arg(long, value_name = "PART", conflicts_with_all = ["service", "device", "pages"])]
    #[arg(conflicts_with_all = ["gzip", "mark"])]
    part: Option<Part>,

    /// Have the pages compressed, stitched as they are for clients that take gzip
    #[arg(long)]
    gzip: bool,

    /// The executor
    #[arg(long, value_name = "DEVICE", default_value = "scalar")]
    device: Device,

    /// Pages, one after the other; all without it
    #[arg(long = "page", value_name = "PAGE", value_parser = crate::load::parse_page)]
    pages: Vec<Page>,

    /// Users of whom each asks once, and as many who ask before
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    users: u32,

    /// Requests of each page that are executed
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=4096))]
    requests: u32,

    /// Requests that are there at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::from_one())]
    cohort_size: usize,

    /// Write a line to standard error before and behind each cohort
    #[arg(long)]
    mark: bool,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if args.requests > args.users {
        bail!(wrong(format_args!(
            "--requests {} is more than --users {}: each user asks once",
            args.requests, args.users
        )));
    }
    if let Some(part) = args.part {
        parts::run(part, args.users, args.requests, args.cohort_size)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::read(&args.service)?;
    let mut service = folder.compile()?;
    // What takes as long as there is time is no two times the same.
    service.config.statics.compress_time = Duration::ZERO;
    let opened = args.device.open(&CudaArgs::default(), &[&service])?;
    if opened.has_kernels() {
        bail!(wrong(
            "a profiler of the processor sees nothing of a GPU: take --device scalar or host"
        ));
    }
    let mut settings = SiteSettings::of(&service);
    // Making it ready is most of a start.
    settings.gzip.pages = args.gzip;
    let site = folder.into_site(service, settings)?;
    let options = ReplayOptions {
        executor: args.device.to_string(),
        make: Box::new(move || opened.executor(LaneLimits::default(), Arc::new(|| ()))),
        pages: match args.pages.is_empty() {
            true => Page::ALL.to_vec(),
            false => args.pages,
        },
        users: args.users as usize,
        requests: args.requests as usize,
        cohort_size: args.cohort_size,
        gzip: args.gzip,
    };
    let mut written = Ok(());
    emulate::replay(&site, &options, &mut |_, begins| {
        if args.mark && written.is_ok() {
            let line: &[u8] = if begins { BEGIN } else { END };
            written = std::io::stderr().write_all(line);
        }
    })?;
    written.context("cannot write to standard error")?;
    Ok(ExitCode::SUCCESS)
}
