//! `rhythm check`: compiles a service and tells what is wrong with it.

use crate::backends::BackendArgs;
use crate::conform;
use crate::device::{CudaArgs, Device};
use crate::folder::{Folder, so_many, summary};
use crate::output::{complain, print, print_line};
use anyhow::Result;
use clap::ValueEnum;
use rhythm_engine::compile::compile;
use rhythm_engine::program::Service;
use rhythm_server::backend::{self, kinds};
use rhythm_server::{Memory, ServerOptions, Statics};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compile a service and report every mistake with file, line, column and a hint.
///
/// With --device, also run every page on that device, with made-up requests and answers of
/// backends, and compare every byte with the reference.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The service's folder: service.toml, pages/, templates/, static/
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print what the pages were compiled to, or the settings
    #[arg(long, value_name = "WHAT")]
    print: Option<Print>,

    /// Run every page on this device and compare with the reference
    #[arg(long, value_name = "DEVICE", conflicts_with = "print")]
    device: Option<Device>,

    /// Only cohorts of so many requests; by default several sizes up to 4096
    #[arg(long, value_name = "N", requires = "device")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    cohort_size: Option<u32>,

    /// Also connect to every backend: it is a mistake where one cannot be asked, and what pages ask
    /// it is then not left unchecked
    #[arg(long = "backends", conflicts_with_all = ["print", "device"])]
    reach: bool,

    #[command(flatten)]
    backends: BackendArgs,

    #[command(flatten)]
    cuda: CudaArgs,
}

/// What can be printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Print {
    /// The stage programs of all pages.
    Programs,
    /// The settings in effect and where each comes from, then the backends, as a service.toml that
    /// says all but how a missing session is answered; and the most memory that they allow.
    Settings,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.cuda.check(args.device.as_slice())?;
    let mut folder = Folder::read(&args.folder)?;
    args.backends.apply(&mut folder.sources)?;
    let service = match compile(&folder.sources, &kinds()) {
        Ok(service) => service,
        Err(mistakes) => {
            complain(summary(&mistakes));
            return Ok(ExitCode::FAILURE);
        }
    };
    if !service.warnings.is_empty() {
        complain(format_args!("{}\n", summary(&service.warnings)));
    }
    let config = &service.config.statics;
    let statics = Statics::new(&config.mount, folder.static_files(config)?);
    for warning in statics.warnings() {
        complain(format_args!("warning: {warning}"));
    }
    if let Some(device) = args.device {
        return conform::run(device, &args.cuda, args.cohort_size, service);
    }
    if args.reach && !reach(&service)? {
        return Ok(ExitCode::FAILURE);
    }
    match args.print {
        Some(Print::Programs) => {
            for page in &service.pages {
                print_line(service.listing(page))?;
            }
        }
        Some(Print::Settings) => {
            print(service.config.to_toml())?;
            for backend in &service.backends {
                print(format_args!("\n{}", backend.to_toml()))?;
            }
            let options = ServerOptions::of(&service);
            let memory = Memory::of(&service, &options, &statics);
            print(format_args!(
                "\n# The most memory that these settings allow, in bytes (docs/settings.md),\n\
                 # with {}:\n",
                so_many(memory.workers, "worker")
            ))?;
            for (name, bytes) in memory.parts {
                print_line(format_args!("# {name} = {bytes}"))?;
            }
            print_line(format_args!("# sum = {}", memory.sum()))?;
        }
        None => {
            let calls: usize = service.pages.iter().map(|page| page.calls.len()).sum();
            let fragment_bytes: usize = service.fragments.iter().map(|f| f.len()).sum();
            print_line(format_args!(
                "{}: {} with {}, {} of {}, {}",
                service.config.service.name,
                so_many(service.pages.len(), "page"),
                so_many(calls, "call"),
                so_many(service.fragments.len(), "fragment"),
                so_many(fragment_bytes, "byte"),
                so_many(folder.sources.static_files.len(), "static file"),
            ))?;
            for page in &service.pages {
                let routes: Vec<String> = page.routes.iter().map(ToString::to_string).collect();
                print_line(format_args!("  {:24} {}", page.name, routes.join(", ")))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects to every backend, and tells of each. Whether all can be asked.
fn reach(service: &Service) -> Result<bool> {
    let mut all = true;
    for config in &service.backends {
        let (name, kind) = (&config.name, config.kind);
        match backend::reach(config) {
            Ok(()) => print_line(format_args!("backend {name} ({kind}) can be asked"))?,
            Err(why) => {
                all = false;
                complain(format_args!("error: {why}"));
            }
        }
    }
    Ok(all)
}
