//! `rhythm check`: compiles a service and tells what is wrong with it.

use crate::device::{CudaArgs, Device};
use crate::folder::{Folder, summary};
use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance;
use rhythm_engine::page::{Service, compile};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Cohorts of so many lanes are compared: one, two, odd ones, a warp and one more, and whole ones.
const LANES: [usize; 6] = [1, 2, 7, 33, 256, 4096];
/// Most lanes of a cohort for an emulated device, which is slow.
const LANES_EMULATED: usize = 256;

/// Compile a service and report every mistake with file, line, column and a hint.
///
/// With --device, also run every page on that device, with made-up requests and answers of backends, and compare every byte
/// with the reference.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The service's folder: service.toml, pages/, templates/, static/
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print what the pages were compiled to
    #[arg(long, value_name = "WHAT")]
    print: Option<Print>,

    /// Run every page on this device and compare with the reference
    #[arg(long, value_name = "DEVICE", conflicts_with = "print")]
    device: Option<Device>,

    #[command(flatten)]
    cuda: CudaArgs,
}

/// What can be printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Print {
    /// The stage programs of all pages.
    Programs,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.cuda.check(args.device.as_slice())?;
    let folder = Folder::read(&args.folder)?;
    let service = match compile(&folder.sources) {
        Ok(service) => service,
        Err(mistakes) => {
            eprintln!("{}", summary(&mistakes));
            return Ok(ExitCode::FAILURE);
        }
    };
    if !service.warnings.is_empty() {
        eprintln!("{}\n", summary(&service.warnings));
    }
    if let Some(device) = args.device {
        return conform(device, &args.cuda, Arc::new(service));
    }
    match args.print {
        Some(Print::Programs) => {
            for page in &service.pages {
                println!("{}", service.listing(page));
            }
        }
        None => {
            let calls: usize = service.pages.iter().map(|page| page.calls.len()).sum();
            println!(
                "{}: {} pages with {calls} calls, {} fragments of {} bytes, {} static files",
                service.config.name,
                service.pages.len(),
                service.fragments.len(),
                service.fragments.iter().map(|f| f.len()).sum::<usize>(),
                folder.static_files.len(),
            );
            for page in &service.pages {
                let routes: Vec<String> = page.routes.iter().map(ToString::to_string).collect();
                println!("  {:24} {}", page.name, routes.join(", "));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares every page on a device with the reference.
fn conform(device: Device, cuda: &CudaArgs, service: Arc<Service>) -> Result<ExitCode> {
    let limits = LaneLimits {
        body_bytes: service.config.limits.response_bytes as usize,
        ..LaneLimits::default()
    };
    let opened = device.open(cuda, &service)?;
    let most = match opened.is_emulated() {
        true => LANES_EMULATED,
        false => usize::MAX,
    };
    let sizes: Vec<usize> = LANES.into_iter().filter(|lanes| *lanes <= most).collect();
    let bar = ProgressBar::new((service.pages.len() * sizes.len()) as u64);
    bar.set_style(ProgressStyle::with_template(
        "{pos} of {len} [{bar:30}] {msg}",
    )?);
    let mut wrong = 0;
    for (page, program) in service.pages.iter().enumerate() {
        let mut executor = opened
            .executor(limits, Arc::new(|| ()))
            .map_err(anyhow::Error::msg)?;
        for &lanes in &sizes {
            bar.set_message(format!("{}, {lanes} lanes", program.name));
            let seed = lanes as u64;
            let checked = conformance::check(&mut *executor, &service, page, lanes, seed, limits);
            if let Err(difference) = checked {
                wrong += 1;
                bar.suspend(|| eprintln!("{opened}: {difference}"));
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let runs = service.pages.len() * sizes.len();
    if wrong > 0 {
        eprintln!("{opened}: {wrong} of {runs} runs differ from the reference");
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "{opened}: {} pages with cohorts of {sizes:?} lanes: every byte is the reference's",
        service.pages.len()
    );
    Ok(ExitCode::SUCCESS)
}
