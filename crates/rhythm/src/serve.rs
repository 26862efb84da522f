//! `rhythm serve`: serves a service's folder.

use crate::device::{CudaArgs, Device};
use crate::folder::Folder;
use crate::{duration, logs};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rhythm_engine::cohort::{LaneError, Requests, Rows};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Waker;
use rhythm_net::signal::{self, Signal};
use rhythm_protocol::scan::Level;
use rhythm_server::backend::{self, Backend, Embedded, InProcess, KINDS};
use rhythm_server::observe::access_log::LogFormat;
use rhythm_server::{Server, ServerOptions, ServerParts, Site, SiteSettings};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Serve the pages of a service.
///
/// Flags override service.toml. SIGHUP reads the folder again without dropping a request; SIGTERM
/// and Ctrl-C finish what is under way, then leave.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The service's folder: service.toml, pages/, templates/, static/
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Where clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Where health, metrics and the effective configuration are told (/healthz, /metrics, /config)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8079")]
    admin: SocketAddr,

    /// No admin listener
    #[arg(long, conflicts_with = "admin")]
    no_admin: bool,

    /// Threads, each with its own event loop; by default one a core
    #[arg(long, value_name = "N")]
    workers: Option<usize>,

    /// Keep each worker on a core of its own
    #[arg(long)]
    pin: bool,

    /// Where pages are rendered
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: Device,

    /// Most requests of a cohort
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    cohort_size: Option<u32>,

    /// Longest time a request waits for others, such as 2ms
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    cohort_delay: Option<Duration>,

    /// Where a backend is: http://HOST:PORT/PATH, or "embedded"
    #[arg(long = "backend", value_name = "NAME=URL", value_parser = parse_backend)]
    backends: Vec<(String, String)>,

    /// Write an access log to this file; "-" is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// The access log's format
    #[arg(long, value_name = "FORMAT", default_value = "common")]
    access_log_format: AccessLogFormat,

    /// Mark the session cookie Secure: behind a proxy that speaks TLS
    #[arg(long)]
    secure_cookie: bool,

    /// The longest that a shutdown waits for what is under way
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    drain_timeout: Duration,

    /// How log lines look; RHYTHM_LOG says which there are (error, warn, info, debug, trace)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: logs::Format,

    #[command(flatten)]
    cuda: CudaArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AccessLogFormat {
    /// The common log format.
    Common,
    /// A JSON object a line.
    Json,
}

fn parse_backend(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !url.is_empty() => {
            Ok((name.to_owned(), url.to_owned()))
        }
        _ => Err("give NAME=URL, such as besim=http://127.0.0.1:8081/besim".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.cuda.check(&[args.device])?;
    logs::start(args.log_format);
    if let Err(error) = Level::from_env() {
        tracing::warn!(%error, used = error.fallback().name(), "the SIMD level asked for cannot be used");
    }
    let site = load(&args)?;
    let mut options = ServerOptions::of(site.service(), args.listen);
    options.admin = (!args.no_admin).then_some(args.admin);
    options.workers = match args.workers {
        Some(0) => bail!("--workers must be at least 1"),
        Some(workers) => workers,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    options.pin = args.pin;
    options.drain = args.drain_timeout;
    options.log_format = match args.access_log_format {
        AccessLogFormat::Common => LogFormat::Common,
        AccessLogFormat::Json => LogFormat::Json,
    };
    let limits = LaneLimits {
        body_bytes: site.service().config.limits.response_bytes as usize,
        ..LaneLimits::default()
    };
    let device = args.device.open(&args.cuda, site.service())?;
    let makes = device.clone();
    let reload = args.clone();
    let parts = ServerParts {
        site: Arc::clone(&site),
        loader: Box::new(move || load(&reload).map_err(|error| format!("{error:#}"))),
        executors: Arc::new(move |_, waker: Waker| {
            makes.executor(limits, Arc::new(move || waker.wake()))
        }),
        backends: Arc::new(|site, index| open(&site.service().backends[index])),
        log: args.access_log.as_deref().map(open_log).transpose()?,
    };
    let workers = options.workers;
    let server = Server::start(options, parts)?;
    let control = server.control();
    let watch = signal::watch(move |signal| match signal {
        Signal::Terminate | Signal::Interrupt => {
            tracing::info!("shutting down: what is under way is finished");
            control.shutdown();
        }
        // What went wrong has been logged, and the old service is kept.
        Signal::Reload => drop(control.reload()),
        Signal::User1 => {}
    })
    .context("cannot watch for signals")?;
    tracing::info!(
        service = site.service().config.name,
        address = %server.local_addr(),
        admin = server.admin_addr().map(|address| address.to_string()),
        workers,
        device = device.to_string(),
        gpu = device.gpu().map(|gpu| gpu.name.as_str()),
        simd = Level::active().name(),
        "serving"
    );
    server.join();
    drop(watch);
    tracing::info!("done");
    Ok(ExitCode::SUCCESS)
}

/// Reads and compiles the folder, with the flags that override its service.toml.
fn load(args: &Args) -> Result<Arc<Site>> {
    let folder = Folder::read(&args.folder)?;
    let mut service = folder.compile()?;
    override_config(&mut service, args)?;
    for warning in &service.warnings {
        tracing::warn!("{warning}");
    }
    for config in &service.backends {
        // Wrong addresses are found now, not by the first request.
        backend::open(config).map_err(anyhow::Error::msg)?;
    }
    let mut settings = SiteSettings::of(&service);
    settings.cookie_secure = args.secure_cookie;
    folder.into_site(service, settings)
}

fn override_config(service: &mut Service, args: &Args) -> Result<()> {
    let cohort = &mut service.config.cohort;
    if let Some(size) = args.cohort_size {
        cohort.size = size;
    }
    if let Some(delay) = args.cohort_delay {
        cohort.delay_ns = u64::try_from(delay.as_nanos()).context("--cohort-delay is too long")?;
    }
    for (name, url) in &args.backends {
        let names = || {
            service
                .backends
                .iter()
                .map(|b| b.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let Some(index) = service
            .backends
            .iter()
            .position(|backend| backend.name == *name)
        else {
            bail!(
                "--backend {name}={url}: service.toml has no backend {name}; it has: {}",
                names()
            );
        };
        let key = KINDS.iter().flat_map(|kind| match kind.declaration.name {
            name if name == service.backends[index].kind => kind.declaration.keys,
            _ => &[],
        });
        let value = Setting::Text(url.clone());
        match { key }.find(|key| key.name == "url") {
            None => bail!("--backend {name}={url}: a backend of this kind has no url"),
            Some(key) if !(key.check)(&value) => {
                bail!("--backend {name}={url}: {}; {}", key.wrong, key.hint)
            }
            Some(key) => service.backends[index].own.insert(key.name, value),
        };
    }
    Ok(())
}

/// A worker's own instance of a backend.
fn open(config: &BackendConfig) -> Box<dyn Backend> {
    backend::open(config).unwrap_or_else(|why| {
        // It could be opened when the service was loaded.
        tracing::error!(why, "a backend cannot be opened: its requests fail");
        Box::new(InProcess(Unreachable))
    })
}

/// A backend that could not be opened.
struct Unreachable;

impl Embedded for Unreachable {
    fn answer(&mut self, requests: &Requests, rows: &mut Rows<'_>) {
        for request in 0..requests.len() {
            rows.fail(request, LaneError::BackendFailed);
        }
    }
}

fn open_log(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    Ok(Box::new(file.with_context(|| {
        format!("cannot write to {}", path.display())
    })?))
}
