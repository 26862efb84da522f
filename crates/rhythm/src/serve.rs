//! `rhythm serve`: serves the folders of services.

use crate::allocator;
use crate::backends::BackendArgs;
use crate::device::{CudaArgs, take_all_queues};
use crate::ending::{ENDING_MAX, exit_after};
use crate::flags::Overrides;
use crate::folder::{self, Folder, told_once};
use crate::logs::{self, simd_mistake};
use crate::manager::{Manager, Told};
use crate::passed;
use crate::remote::{ChoiceParser, DeviceChoice, Nodes, RemoteArgs};
use crate::rpo::own::{self, OwnArgs};
use crate::services::{self, Compiled};
use crate::watch::{self, Kept, Watched};
use anyhow::{Context, Result, bail};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;
use rhythm_engine::settings::{BackendConfig, LogFormat, Origin, ServiceConfig, UrlPlace};
use rhythm_net::Waker;
use rhythm_net::signal::{self, Signal};
use rhythm_protocol::scan::Level;
use rhythm_server::backend::{self, Backend};
use rhythm_server::{
    Control, DeviceFigures, Loader, LogOpener, Server, ServerOptions, ServerParts, Site, Sites,
    system_resolver,
};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{self, Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Serve the pages of a service, or of several, each for its hosts.
///
/// Of several each has `host = "NAMES"` in `[service]` of its service.toml; one may be without, and
/// has all other requests. Flags override service.toml, of all services. SIGHUP reads the folders
/// again without dropping a request; SIGTERM and Ctrl-C answer what still comes for a while, finish
/// what is under way, then leave; a second one waits for what is under way alone, a third for
/// nothing. Sockets passed by systemd are used in place of the addresses: one named "admin" for the
/// admin listener, those named "tls" for clients that speak TLS, others for clients. A service
/// manager that names a socket (NOTIFY_SOCKET) is told when it serves, reloads and stops, and, for
/// WatchdogSec=, that all workers turn.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A service's folder: service.toml, pages/, templates/, static/
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,

    /// Where pages are rendered
    #[arg(long, value_name = "DEVICE", default_value = "host", value_parser = ChoiceParser)]
    device: DeviceChoice,

    /// Reload as files change, and show mistakes in the browser: for writing pages
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    backends: BackendArgs,

    #[command(flatten)]
    overrides: Overrides,

    #[command(flatten)]
    cuda: CudaArgs,

    #[command(flatten)]
    remote: RemoteArgs,

    #[command(flatten)]
    rpo: OwnArgs,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.cuda.check(&[args.device.here()])?;
    take_all_queues(args.device.here());
    let nodes = args.remote.open(&args.device)?;
    // It takes what is said of them out of the environment: before there is another thread.
    let inherited = passed::inherited()?;
    let signals = Arc::<Mutex<Signals>>::default();
    let told = signals.clone();
    let watch = signal::watch(move |signal| lock(&told).tell(signal));
    let watch = watch.context("cannot watch for signals")?;
    // Before anything is loaded, which may have something to tell.
    logs::start(log_format(&args)).context("cannot log")?;
    // What changes while it is loaded is loaded again.
    let watched: Vec<Watched> = match args.watch {
        true => args.folders.iter().map(|at| Watched::new(at)).collect(),
        false => Vec::new(),
    };
    let (all, mistakes) = first(&args, nodes.as_ref())?;
    let sites = Sites::new(all.clone()).map_err(anyhow::Error::msg)?;
    let services: Vec<&Service> = all.iter().map(|site| &**site.service()).collect();
    // What is the whole server's is the same in all.
    let config = &services[0].config;
    for mistake in mistakes {
        tracing::error!("{mistake}");
    }
    (all.iter().zip(&args.folders)).for_each(|(site, folder)| warn(site, folder));
    let has_tls = config.server.tls_listen.is_some() || !inherited.tls.is_empty();
    all.iter().for_each(|site| warn_of_tls(site, has_tls));
    if let Some(mistake) = simd_mistake() {
        tracing::warn!("{mistake}");
    }
    let limits = LaneLimits::of(&config.limits);
    let device = args.device.here().open(&args.cuda, &services)?;
    let options = ServerOptions {
        device_buffer_bytes_max: device.host_bytes_max(limits, &services)
            + nodes.as_ref().map_or(0, Nodes::bytes_max),
        // What is shown in place of pages with a mistake asks nobody, and what is mended may.
        may_ask_tls: args.watch,
        ..ServerOptions::of_all(&services)
    };
    let (makes, ways) = (device.clone(), nodes.clone());
    let parts = ServerParts {
        sites,
        loader: loader(args.clone(), nodes.clone()),
        resolver: system_resolver(),
        devices: Arc::new(move |_, waker: Waker| {
            let executor = makes.executor(limits, Arc::new(move || waker.wake()))?;
            Ok(match &ways {
                Some(nodes) => Box::new(nodes.link(executor)),
                None => Box::new(executor),
            })
        }),
        device_figures: nodes.map(|nodes| nodes.figures().clone() as Arc<dyn DeviceFigures>),
        backends: Arc::new(open),
        hosts: None,
        log: config.server.access_log.clone().map(log_opener),
        inherited,
    };
    let workers = options.workers;
    let asks_for_certificates = options.admin_tls.client_ca.is_some();
    let access_log = config.server.access_log.as_deref().and_then(place_of_log);
    allocator::give_back().context("cannot start a thread")?;
    let server = Server::start(options, parts)?;
    let manager = Manager::from_env().unwrap_or_else(|mistake| {
        tracing::error!("{mistake}");
        None
    });
    let told = manager.map(|manager| manager.tell_of(&server.control()));
    let told = told.transpose().context("cannot start a thread")?;
    // Before anybody is told that it serves, and may tell it to stop.
    lock(&signals).started(obey(server.control(), told.clone()));
    let rpo = own::start(&args.rpo, server.control(), server.metrics().clone())?;
    for folder in watched {
        let control = server.control();
        let begun = folder.begin(move || control.ask_reload());
        begun.context("cannot watch the folder")?;
    }
    let names = services.iter().map(|service| &*service.config.service.name);
    let names: Vec<&str> = names.collect();
    let [address, tls_address] = server.places();
    if let Some(file) = access_log {
        tracing::info!(file, "requests are written to the access log");
    }
    tracing::info!(
        service = names.join(", "),
        address,
        tls_address,
        admin = server.admin_place(),
        workers,
        device = match &args.device {
            DeviceChoice::Here(_) => device.to_string(),
            remote => remote.to_string(),
        },
        gpu = device.gpu().map(|gpu| gpu.name.as_str()),
        simd = Level::active().name(),
        "serving"
    );
    // A Unix socket's is unspecified, and of no port.
    let is_reached = |at: &SocketAddr| at.port() != 0 && !at.ip().to_canonical().is_loopback();
    if server.admin_addr().is_some_and(|at| is_reached(&at)) && !asks_for_certificates {
        tracing::info!(
            "whoever reaches the admin listener reads all that it shows: see that no others do, or \
             have it ask for certificates (`admin_client_ca`)"
        );
    }
    if let Some(told) = told {
        let places: Vec<String> = [address, tls_address].into_iter().flatten().collect();
        let (names, places) = (names.join(", "), places.join(" "));
        told.ready(&format!("serving {names} at {places}"));
    }
    // Reloads replace them.
    drop(all);
    let ended = server.join();
    backend::close_databases();
    if let Some(rpo) = rpo {
        rpo.end();
    }
    drop(watch);
    ended.context("a worker could not go on")?;
    tracing::info!("done");
    Ok(ExitCode::SUCCESS)
}

/// What flags say of the log's form, or the first service.toml that does: all that do agree, or
/// nothing is served.
fn log_format(args: &Args) -> LogFormat {
    let says = |config: &ServiceConfig| config.origin("server", "log_format") != Origin::Default;
    let mut configs = args.folders.iter().map(|at| folder::settings(at));
    let mut config = configs.find(says).unwrap_or_default();
    args.overrides.apply(&mut config);
    config.server.log_format
}

fn lock(signals: &Mutex<Signals>) -> MutexGuard<'_, Signals> {
    signals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals, from before there is a server that could obey them.
#[derive(Default)]
struct Signals {
    /// What came meanwhile, each once.
    early: Vec<Signal>,
    obey: Option<Box<dyn FnMut(Signal) + Send>>,
}

impl Signals {
    /// Has it obeyed: now, or once the server has started. One that is to stop before is not waited
    /// for: nothing is under way.
    fn tell(&mut self, signal: Signal) {
        match (&mut self.obey, signal) {
            (Some(obey), _) => obey(signal),
            (None, Signal::Terminate | Signal::Interrupt) => {
                tracing::info!("told to stop before it has started");
                logs::finish();
                process::exit(0);
            }
            (None, Signal::Reload | Signal::User1) => {
                if !self.early.contains(&signal) {
                    self.early.push(signal);
                }
            }
        }
    }

    /// There is a server, which this has obey.
    fn started(&mut self, mut obey: impl FnMut(Signal) + Send + 'static) {
        self.early.drain(..).for_each(&mut obey);
        self.obey = Some(Box::new(obey));
    }
}

/// Obeys signals, and has the service manager told, if there is one. Nothing that waits is done on
/// their thread: a stop works whatever else hangs.
fn obey(control: Control, told: Option<Told>) -> impl FnMut(Signal) + Send + 'static {
    let mut stops = 0;
    move |signal| match signal {
        Signal::Terminate | Signal::Interrupt => {
            stops += 1;
            control.shutdown();
            let timeout = control.configs()[0].server.drain_timeout;
            match stops {
                1 => {
                    tracing::info!(
                        "shutting down: what still comes and is under way is finished (asked \
                         again: what is under way; a third time: at once)"
                    );
                    if let Some(told) = &told {
                        told.stopping();
                    }
                    exit_after(timeout + ENDING_MAX);
                }
                2 => tracing::info!("shutting down: what is under way is finished"),
                3 => {
                    tracing::info!("shutting down now");
                    exit_after(ENDING_MAX);
                }
                _ => {}
            }
        }
        Signal::Reload => match &told {
            Some(told) => told.reload(),
            None => control.ask_reload(),
        },
        Signal::User1 => control.reopen_log(),
    }
}

/// What a reload serves. Where files are watched, that may be what is wrong with them.
fn loader(args: Args, nodes: Option<Nodes>) -> Loader {
    Box::new(move |served: &Sites| {
        let before: Vec<Arc<Site>> = (served.all().iter())
            .map(|site| site.followed().clone())
            .collect();
        let all = load(&args, &before, nodes.as_ref());
        let all = all.into_iter().zip(before).zip(&args.folders);
        all.map(|((loaded, before), folder)| match loaded {
            Ok(site) => {
                warn(&site, folder);
                Ok(site)
            }
            Err(error) if args.watch => {
                let message = format!("{error:#}");
                tracing::error!("{message}");
                tracing::warn!("what is wrong is shown in place of the pages until it is mended");
                watch::site_of_mistakes(&message, folder, Kept::of(before))
                    .map_err(|why| format!("{why:#}"))
            }
            Err(error) => Err(format!("{error:#}")),
        })
        .collect()
    })
}

/// What is served first: all services, or none. Where files are watched, that may be what is wrong
/// with them, which is given, too.
fn first(args: &Args, nodes: Option<&Nodes>) -> Result<(Vec<Arc<Site>>, Vec<String>)> {
    let (mut sites, mut failed) = (Vec::new(), Vec::new());
    for (loaded, folder) in load(args, &[], nodes).into_iter().zip(&args.folders) {
        match loaded {
            Ok(site) => sites.push(site),
            Err(error) => {
                let error = format!("{error:#}");
                if args.watch {
                    sites.extend(first_of_mistakes(args, folder, &error));
                }
                // What is wrong with all together is said of each.
                if !failed.contains(&error) {
                    failed.push(error);
                }
            }
        }
    }
    match failed.is_empty() || sites.len() == args.folders.len() {
        true => Ok((sites, failed)),
        false => bail!("{}", failed.join("\n\n")),
    }
}

/// What is served of a service that could not be loaded at the start, until its files are mended:
/// with as many of its settings as can be read. `None` where there is no folder of a service.
fn first_of_mistakes(args: &Args, folder: &Path, message: &str) -> Option<Arc<Site>> {
    let read = Folder::read(folder).ok()?;
    let mut config = read.sources.config(&backend::kinds());
    args.overrides.apply(&mut config);
    let label = (args.folders.len() > 1).then(|| services::called(&config, folder));
    if let Some(label) = &label {
        config.service.name.clone_from(label);
    }
    let kept = Kept {
        secret: read.sources.secret(&backend::kinds()),
        config,
        label,
        site: None,
    };
    watch::site_of_mistakes(message, folder, kept).ok()
}

/// Reads and compiles the folders, with the flags that override their service.toml. Of services
/// that cannot be loaded now, `before` are those that are served on. `nodes` may run what is
/// loaded.
fn load(args: &Args, before: &[Arc<Site>], nodes: Option<&Nodes>) -> Vec<Result<Arc<Site>>> {
    let override_config = |service: &mut Service| override_config(service, args);
    let mut compiled = services::compile(&args.folders, &args.backends, override_config);
    let mut kept: Vec<ServiceConfig> = (compiled.iter().zip(before))
        .filter(|(compiled, _)| compiled.is_err())
        .map(|(_, before)| before.service().config.clone())
        .collect();
    let loaded = compiled.iter_mut().flatten();
    let mut configs: Vec<_> = loaded
        .map(|it| &mut it.service.config)
        .chain(&mut kept)
        .collect();
    let agreed = services::agree(&mut configs);
    // Workers cannot wait for a resolver, nor refuse a site.
    let locate = |config: &BackendConfig| {
        let peers = backend::locate(config).map_err(anyhow::Error::msg)?;
        backend::open(config, &peers).map_err(anyhow::Error::msg)?;
        Ok(peers)
    };
    let find = |place: &UrlPlace| backend::find(place).map_err(anyhow::Error::msg);
    let site = |(index, compiled): (usize, Result<Compiled>)| {
        let compiled = compiled?;
        let before = before.get(index).map(|before| &**before);
        match &agreed {
            Ok(()) => {
                let sources = nodes.map(|_| compiled.folder.sources.clone());
                let site = compiled.into_site(locate, find, before)?;
                if let (Some(nodes), Some(sources)) = (nodes, sources) {
                    nodes.add(site.service(), &sources);
                }
                Ok(site)
            }
            Err(why) => bail!("{why:#}"),
        }
    };
    compiled.into_iter().enumerate().map(site).collect()
}

/// Tells what in the service of a folder is probably not meant.
fn warn(site: &Site, folder: &Path) {
    let (service, label) = (site.service(), site.settings().label.as_deref());
    for warning in told_once(&service.warnings, folder) {
        tracing::warn!(service = label, "{warning}");
    }
    for warning in site.statics().warnings() {
        tracing::warn!(service = label, "{warning}");
    }
    // Flags may have made it what it is.
    let of_file = |message: &str| service.warnings.iter().any(|it| it.message == message);
    if let Some(mistake) = service.config.server.drain_mistake()
        && !of_file(&mistake.message)
    {
        tracing::warn!(service = label, "{}; {}", mistake.message, mistake.hint);
    }
}

/// Tells what of a site looks as if its clients were to speak TLS, and they do not.
fn warn_of_tls(site: &Site, has_tls: bool) {
    let (config, label) = (&site.service().config, site.settings().label.as_deref());
    if config.tls.certificate.is_some() && !has_tls {
        tracing::warn!(
            service = label,
            "nobody listens with the certificate of [tls]: say where, `tls_listen` in [server] \
             (--tls-listen)"
        );
    }
    if config.tls.redirect_port.is_some() && !config.session.cookie_secure {
        tracing::warn!(
            service = label,
            "clients are sent on to https, but browsers send the session's cookie to http, too, \
             where others may read it: `cookie_secure = true` in [session] (--secure-cookie)"
        );
    }
}

fn override_config(service: &mut Service, args: &Args) -> Result<()> {
    let was_secure = service.config.session.cookie_secure;
    args.overrides.apply(&mut service.config);
    let sets_cookies = service.pages.iter().any(|page| page.sets_cookies());
    if sets_cookies && service.config.session.cookie_secure != was_secure {
        bail!(
            "--secure-cookie: pages of this service set cookies of their own; say cookie_secure = \
             true in [session] of service.toml, which is for those, too"
        );
    }
    Ok(())
}

/// A worker's own instance of a backend.
fn open(site: &Site, index: usize) -> Box<dyn Backend> {
    let (config, settings) = (
        &site.service().backends[index],
        &site.settings().backends[index],
    );
    match backend::open(config, &settings.peers) {
        Ok(backend) => backend,
        Err(why) => unreachable!("it could be opened when the site was loaded: {why}"),
    }
}

/// Where a log is, wherever its path begins; nowhere if it is standard output.
fn place_of_log(path: &Path) -> Option<String> {
    let place = path::absolute(path).unwrap_or_else(|_| path.to_owned());
    (path != Path::new("-")).then(|| place.display().to_string())
}

fn log_opener(path: PathBuf) -> LogOpener {
    Box::new(move || {
        if path == Path::new("-") {
            return Ok(Box::new(io::stdout()));
        }
        match open_log(&path) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => {
                let message = format!("cannot write to {}: {error}", path.display());
                Err(io::Error::new(error.kind(), message))
            }
        }
    })
}

/// Opens a log, or a pipe that somebody reads: one that nobody does is an error at once.
fn open_log(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o666);
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, mode)?;
    // A slow reader is waited for, by the log's own thread.
    let waits = rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&file, waits)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_is_told_before_the_start_is_obeyed_after_it() {
        let (obeyed, seen) = channel();
        let mut signals = Signals::default();
        for signal in [Signal::User1, Signal::Reload, Signal::User1] {
            signals.tell(signal);
        }
        signals.started(move |signal| obeyed.send(signal).expect("the test listens"));
        signals.tell(Signal::Terminate);
        signals.tell(Signal::Reload);
        let all: Vec<Signal> = seen.try_iter().collect();
        let early = [Signal::User1, Signal::Reload];
        assert_eq!(
            all,
            [&early[..], &[Signal::Terminate, Signal::Reload]].concat()
        );
    }
}
