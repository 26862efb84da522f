//! `rhythm check`: compiles a service and tells what is wrong with it.

use crate::backends::BackendArgs;
use crate::conform;
use crate::device::{CudaArgs, Device};
use crate::folder::{Folder, so_many, summary};
use crate::output::{complain, print, print_line};
use crate::progress;
use crate::remote::{ChoiceParser, DeviceChoice, RemoteArgs};
use crate::services::{self, Compiled};
use anyhow::Result;
use clap::ValueEnum;
use rhythm_engine::compile::{Size, compile_within};
use rhythm_engine::program::Service;
use rhythm_engine::settings::BackendConfig;
use rhythm_server::backend::{self, kinds};
use rhythm_server::{Memory, ServerOptions, Site, Sites};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Compile a service, or several, and report every mistake with file, line, column and a hint. Of
/// several, also whether one server can serve them together.
///
/// With --device, also run every page on that device, with made-up requests and answers of
/// backends, and compare every byte with the reference.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A service's folder: service.toml, pages/, templates/, static/
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,

    /// Print what the pages were compiled to, or the settings
    #[arg(long, value_name = "WHAT")]
    print: Option<Print>,

    /// Run every page on this device and compare with the reference
    #[arg(long, value_name = "DEVICE", conflicts_with = "print", value_parser = ChoiceParser)]
    device: Option<DeviceChoice>,

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

    #[command(flatten)]
    remote: RemoteArgs,
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
    let choice = args.device.as_ref();
    args.cuda.check(choice.map(DeviceChoice::here).as_slice())?;
    let nodes = args
        .remote
        .open(choice.unwrap_or(&DeviceChoice::Here(Device::Host)))?;
    let read = args.folders.iter().map(|folder| Folder::read(folder));
    let mut folders = read.collect::<Result<Vec<_>>>()?;
    let count = folders.len();
    let mut sources: Vec<_> = folders.iter_mut().map(|it| &mut it.sources).collect();
    args.backends.apply(&mut sources, count)?;
    let mut all = Vec::new();
    for (folder, at) in folders.into_iter().zip(&args.folders) {
        let files = so_many(folder.sources.files.len(), "file");
        let shown = progress::steps(0);
        shown.set_message(format!("compiles {files} of {}", at.display()));
        let compiled = compile_within(&folder.sources, &kinds(), Size::ANY, &mut |done, of| {
            shown.set_position(done as u64);
            // This is drawn at once, a position alone when the time is.
            shown.set_length(of as u64);
        });
        shown.finish_and_clear();
        let warnings = match &compiled {
            Ok(service) => &service.warnings,
            Err(mistakes) => mistakes,
        };
        if !warnings.is_empty() {
            if count > 1 {
                complain(format_args!("{}:\n", at.display()));
            }
            let end = if compiled.is_ok() || count > 1 {
                "\n"
            } else {
                ""
            };
            complain(format_args!("{}{end}", summary(warnings, at)));
        }
        all.extend(compiled.map(|service| Compiled::new(folder, service, at, count)));
    }
    if all.len() < count {
        return Ok(ExitCode::FAILURE);
    }
    let mut configs: Vec<_> = all.iter_mut().map(|it| &mut it.service.config).collect();
    services::agree(&mut configs)?;
    let nowhere = |_: &BackendConfig| Ok(Vec::new());
    let shown = progress::steps(count);
    let sites = all.into_iter().map(|compiled| {
        let name = &compiled.service.config.service.name;
        let files = so_many(compiled.folder.sources.static_files.len(), "static file");
        shown.set_message(format!("reads {files} of {name}"));
        let sources = nodes.as_ref().map(|_| compiled.folder.sources.clone());
        let site = compiled.into_site(nowhere, |_| Ok(Vec::new()), None)?;
        if let (Some(nodes), Some(sources)) = (&nodes, sources) {
            nodes.add(site.service(), &sources);
        }
        shown.inc(1);
        Ok(site)
    });
    let sites = sites.collect::<Result<_>>();
    shown.finish_and_clear();
    let sites = Sites::new(sites?).map_err(anyhow::Error::msg)?;
    for site in sites.all() {
        for warning in site.statics().warnings() {
            complain(format_args!("warning: {warning}"));
        }
        if let Some(warning) = site.certificate_warning() {
            complain(format_args!("warning: {warning}"));
        }
    }
    if let Some(device) = args.device {
        let mut ended = ExitCode::SUCCESS;
        for site in sites.all() {
            let service = Arc::clone(site.service());
            let nodes = nodes.as_ref();
            let of_one = conform::run(&device, &args.cuda, args.cohort_size, service, nodes)?;
            if of_one != ExitCode::SUCCESS {
                ended = of_one;
            }
        }
        return Ok(ended);
    }
    if args.reach {
        let mut all = true;
        for site in sites.all() {
            all &= reach(site.service())?;
        }
        if !all {
            return Ok(ExitCode::FAILURE);
        }
    }
    for (index, site) in sites.all().iter().enumerate() {
        let service = site.service();
        match args.print {
            Some(Print::Programs) => {
                for page in &service.pages {
                    print_line(service.listing(page))?;
                }
            }
            Some(Print::Settings) => {
                if count > 1 {
                    let end = if index == 0 { "" } else { "\n" };
                    let folder = args.folders[index].display();
                    print_line(format_args!("{end}# {folder}/service.toml\n"))?;
                }
                tell_settings(service)?;
            }
            None => tell(site)?,
        }
    }
    if let Some(Print::Settings) = args.print {
        tell_memory(&sites)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells a service's settings.
fn tell_settings(service: &Service) -> Result<()> {
    print(service.config.to_toml())?;
    for backend in &service.backends {
        print(format_args!("\n{}", backend.to_toml()))?;
    }
    for proxy in &service.proxies {
        print(format_args!("\n{}", proxy.to_toml()))?;
    }
    Ok(())
}

/// Tells the most memory that the settings of all services allow together.
fn tell_memory(sites: &Sites) -> Result<()> {
    let all = sites.all().iter();
    let services: Vec<&Service> = all.clone().map(|site| &**site.service()).collect();
    let with_files: Vec<_> = all
        .map(|site| (&**site.service(), site.statics()))
        .collect();
    let memory = Memory::of_all(&with_files, &ServerOptions::of_all(&services));
    let what = match sites.all() {
        [_] => "these settings",
        _ => "the settings of all",
    };
    print(format_args!(
        "\n# The most memory that {what} allow, in bytes (docs/settings.md),\n\
         # with {}:\n",
        so_many(memory.workers, "worker")
    ))?;
    for (name, bytes) in memory.parts {
        print_line(format_args!("# {name} = {bytes}"))?;
    }
    print_line(format_args!("# sum = {}", memory.sum()))
}

/// Tells what a service has.
fn tell(site: &Site) -> Result<()> {
    let service = site.service();
    let calls: usize = service.pages.iter().map(|page| page.calls.len()).sum();
    let fragment_bytes: usize = service.fragments.iter().map(|f| f.len()).sum();
    print_line(format_args!(
        "{}: {} with {}, {} of {}, {}",
        service.config.service.name,
        so_many(service.pages.len(), "page"),
        so_many(calls, "call"),
        so_many(service.fragments.len(), "fragment"),
        so_many(fragment_bytes, "byte"),
        so_many(site.statics().len(), "static file"),
    ))?;
    if !service.config.service.host.is_empty() {
        print_line(format_args!("  for {}", service.config.service.host))?;
    }
    for page in &service.pages {
        let routes: Vec<String> = page.routes.iter().map(ToString::to_string).collect();
        print_line(format_args!("  {:24} {}", page.name, routes.join(", ")))?;
    }
    for proxy in &service.proxies {
        let matches: Vec<&str> = proxy.matches.iter().map(|it| it.as_str()).collect();
        let to: Vec<&str> = proxy.to.iter().map(|(url, _)| url.as_str()).collect();
        print_line(format_args!(
            "  {:24} {}",
            matches.join(", "),
            to.join(", ")
        ))?;
    }
    Ok(())
}

/// Connects to every backend, and tells of each. Whether all can be asked.
fn reach(service: &Service) -> Result<bool> {
    let mut all = true;
    let shown = progress::steps(service.backends.len());
    for config in &service.backends {
        let (name, kind) = (&config.name, config.kind);
        shown.set_message(format!("asks the backend {name}"));
        let reached = backend::reach(config);
        shown.inc(1);
        shown.suspend(|| match reached {
            Ok(()) => print_line(format_args!("backend {name} ({kind}) can be asked")),
            Err(why) => {
                all = false;
                // Perhaps by `--backend`, and not as service.toml has it.
                let url = config.shown().find(|(key, _)| key.starts_with("url"));
                let at = url.map(|(_, url)| format!(" (it is asked at {})", url.text()));
                complain(format_args!("error: {why}{}", at.unwrap_or_default()));
                Ok(())
            }
        })?;
    }
    shown.finish_and_clear();
    Ok(all)
}
