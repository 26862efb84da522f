//! The server: workers around the sites, their shared session arrays, and the admin listener.

mod control;
mod factory;
mod listeners;
mod start_error;
pub(crate) mod worker;

pub use self::control::Control;
pub use self::factory::{DeviceFactory, HostFactory, SharedBackendFactory};
pub use self::start_error::StartError;

use self::control::Shared;
use self::factory::{HostNames, WorkerFactory, system_random};
use self::listeners::{Entrances, Places};
use crate::answer::sessions::Visitors;
use crate::backend;
use crate::host::admin::{self, PageServer};
use crate::host::challenges::Webroot;
use crate::host::disk::Readers;
use crate::intake::https;
use crate::limits::open_files;
use crate::limits::options::ServerOptions;
use crate::observe::access_log::{LogOpener, LogWriter};
use crate::observe::metrics::{DeviceFigures, Metrics, SessionGauge};
use crate::seal::key_of;
use crate::server::worker::Command;
use crate::site::current::Current;
use crate::site::expiry::Expiries;
use crate::site::loader::{Loaded, Loader, Reloaded, Reloads};
use crate::site::names::{BackendNames, Relocated, Resolver};
use crate::site::{Site, Sites};
use crate::trace::Exporter;
use rhythm_engine::program::Service;
use rhythm_engine::session::{SessionArray, SignIns, StoredFields};
use rhythm_engine::settings::AccessLogFormat;
use rhythm_http2::Multiplexed;
use rhythm_net::tls::{Acceptor, Certificate, Tls};
use rhythm_net::workers::{
    self, Entrance, Inbox, WorkerError, WorkerOptions, WorkerThread, Workers,
};
use rhythm_net::{Addresses, DriverOptions, Layer, Listener, clock, resource};
use rhythm_observe::NoTls;
use rhythm_observe::admin::{Admin, Names};
use rhythm_observe::hangs::Hangs;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the server needs beside its options.
pub struct ServerParts {
    /// What is served at first.
    pub sites: Sites,
    /// Gives them anew, for [`Control::reload`].
    pub loader: Loader,
    /// Looks up names of backends that have led elsewhere before.
    pub resolver: Resolver,
    /// Makes devices: executors, or the ways to them.
    pub devices: DeviceFactory,
    /// What is counted of them, where they are on other machines.
    pub device_figures: Option<Arc<dyn DeviceFigures>>,
    /// Makes backends.
    pub backends: SharedBackendFactory,
    /// Makes hosts, if there are any. Sites whose routes name others are refused.
    pub hosts: Option<HostFactory>,
    /// Where the access log goes, if anywhere.
    pub log: Option<LogOpener>,
    /// Sockets of the process before, or of one that keeps them for all.
    pub inherited: Inherited,
}

/// Sockets that listen already, in place of those that the options ask for.
#[derive(Debug, Default)]
pub struct Inherited {
    /// Where clients connect; empty: where the options say, unless there are some for TLS.
    pub clients: Vec<Listener>,
    /// Where those do that speak TLS; empty: where the options say.
    pub tls: Vec<Listener>,
    /// Where the admin listener is; none: where the options say.
    pub admin: Option<Listener>,
}

impl Inherited {
    /// The settings of `[server]` in whose place these are, and where they listen.
    fn places(&self, options: &ServerOptions) -> Vec<(&'static str, String)> {
        let clients = [
            (listeners::LISTEN, &self.clients, &options.listen),
            ("tls_listen", &self.tls, &options.tls_listen),
        ];
        let any_is_passed = !self.clients.is_empty() || !self.tls.is_empty();
        let replaced = clients.into_iter().filter(|(setting, passed, places)| {
            let are_its_own = listeners::are_its_own(setting, passed, any_is_passed);
            !passed.is_empty() || !places.is_empty() && !are_its_own
        });
        let clients =
            replaced.map(|(setting, passed, _)| (setting, Places::of(passed).to_string()));
        let admin = self
            .admin
            .as_ref()
            .map(|admin| ("admin", admin.to_string()));
        clients.chain(admin).collect()
    }
}

struct Sessions(Arc<SessionArray>);

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions", self.0.live())
    }
}

impl SessionGauge for Sessions {
    fn sessions(&self) -> (usize, usize) {
        (self.0.live(), self.0.capacity())
    }

    fn replaced(&self) -> u64 {
        self.0.replaced()
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Handle {
    local: SocketAddr,
    places: [Places; 2],
    control: Control,
    metrics: Arc<Metrics>,
    workers: Workers<Command>,
    admin: Option<Admin>,
    log: Option<LogWriter>,
    exporter: Option<Exporter>,
    finish: Duration,
}

impl Handle {
    /// Where clients connect: the first address, which is unspecified if it is a Unix socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Where clients connect, as settings name it: without TLS, and with it.
    pub fn places(&self) -> [Option<String>; 2] {
        self.places.each_ref().map(Places::line)
    }

    /// Where the admin listener is; unspecified if it is a Unix socket.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// Where the admin listener is, as settings name it.
    pub fn admin_place(&self) -> Option<&str> {
        self.admin.as_ref().map(Admin::place)
    }

    /// What controls it, for other threads.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// [`Control::reload`].
    ///
    /// # Errors
    /// As there.
    pub fn reload(&self) -> Result<(), String> {
        self.control.reload()
    }

    /// [`Control::shutdown`].
    pub fn shutdown(&self) {
        self.control.shutdown();
    }

    /// The server's figures.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Waits until it has shut down.
    ///
    /// # Errors
    /// Why the first of the workers ended that could not go on.
    pub fn join(self) -> Result<(), WorkerError> {
        let ended = self.workers.join();
        if let Some(admin) = self.admin {
            admin.stop();
        }
        let until = Instant::now() + self.finish;
        // Each ends while the other is waited for.
        let exported = self.exporter.map(Exporter::finish);
        let written = self.log.map(LogWriter::finish);
        if let Some(exported) = exported {
            exported(until);
        }
        if let Some(written) = written {
            written(until);
        }
        ended
    }
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts the workers and the admin listener. Clients can connect when it returns.
    ///
    /// # Errors
    /// When an address cannot be listened on, a device cannot be used, or a route of a site is to a
    /// host that there is not.
    ///
    /// # Panics
    /// Where the options are those of another number of sites.
    pub fn start(mut options: ServerOptions, parts: ServerParts) -> Result<Handle, StartError> {
        options.workers = options.workers.max(1);
        let sites = Arc::new(parts.sites);
        let open_files = raise_open_files(&mut options, &sites);
        let log = open_log(parts.log, &sites, options.log_format)?;
        let finish = options.finish;
        let exporter = start_exporter(&sites, finish)?;
        let visitors = visitors_of(&sites, &options);
        let metrics = metrics_of(
            options.workers,
            &sites,
            &visitors,
            log.as_ref(),
            exporter.as_ref(),
            parts.device_figures,
        );
        let inherited = parts.inherited.places(&options);
        let Inherited {
            clients,
            tls: tls_clients,
            admin,
        } = parts.inherited;
        let speaks_tls = !tls_clients.is_empty() || !options.tls_listen.is_empty();
        check_redirects(&sites, speaks_tls).map_err(|error| StartError::Tls { error })?;
        let acceptor = speaks_tls.then(|| acceptor_of(&sites, options.http2.is_on));
        let acceptor = acceptor.transpose()?;
        let Entrances {
            local,
            places,
            entrances,
        } = listeners::entrances([clients, tls_clients], &options)?;
        let sessions_max = visitors.iter().map(|it| it.sessions.capacity());
        let sessions_max: Vec<usize> = sessions_max.collect();
        for (site, sessions_max) in sites.all().iter().zip(&sessions_max) {
            // Memory for it is taken here, not while it is served.
            site.stored(*sessions_max);
        }
        let webroot = options.acme_webroot.as_deref().map(Webroot::start);
        let webroot = webroot.transpose().map_err(|error| StartError::Folder {
            setting: "acme_webroot",
            error,
        })?;
        let current = Arc::new(Current::new(sites));
        let host_names = HostNames::default();
        let factory = WorkerFactory {
            current: current.clone(),
            devices: parts.devices,
            backends: parts.backends,
            hosts: parts.hosts,
            host_names: host_names.clone(),
            readers: Readers::default(),
            webroot,
            visitors,
            metrics: metrics.clone(),
            sinks: log.as_ref().map(|log| Box::new(log.sinks()) as _),
            span_sinks: (exporter.as_ref()).map(|exporter| Box::new(exporter.sinks()) as _),
            options: options.pipeline.clone(),
        };
        let started = admin::Started::default();
        let names = Names {
            names: options.admin_hosts.clone(),
            setting: "server.admin_hosts",
        };
        let observed = PageServer {
            current: current.clone(),
            workers: started.clone(),
            hangs: Hangs::default(),
            metrics: metrics.clone(),
            options: options.clone(),
            places: places
                .iter()
                .filter_map(Places::line)
                .collect::<Vec<_>>()
                .join(" "),
            inherited,
        };
        let in_admin = |error| StartError::AdminTls { error };
        let (admin_acceptor, admin_certificate) =
            options.admin_tls.acceptor().map_err(in_admin)?.unzip();
        let admin = listeners::admin(admin, &options)?
            .map(|listener| match admin_acceptor.clone() {
                Some(acceptor) => Admin::start_sealed(listener, names, acceptor, observed),
                None => Admin::start(listener, names, observed),
            })
            .transpose()?;
        let has_layer = acceptor.is_some()
            || options.may_ask_tls
            || current.sites().all().iter().any(|site| asks_tls(site));
        let started_workers = start_workers(
            &options,
            entrances,
            factory,
            (has_layer, acceptor.clone()),
            metrics.clone(),
        );
        let workers = match started_workers {
            Ok(workers) => workers,
            Err(error) => {
                // That the workers did not start is what matters.
                if let Some(admin) = admin {
                    admin.stop();
                }
                return Err(error);
            }
        };
        // Nobody else sets it.
        let _ = started.set(workers.inboxes().to_vec());
        let loader = checked_loader(
            parts.loader,
            current.clone(),
            host_names,
            sessions_max,
            has_layer,
        );
        let shared = Shared {
            inboxes: workers.inboxes().to_vec(),
            drain: options.drain,
            reloads: start_reloads(
                Loads {
                    loader,
                    names: BackendNames::new(parts.resolver),
                    metrics: metrics.clone(),
                    acceptor,
                    admin_acceptor,
                    admin_certificate,
                },
                options,
                open_files,
                &current,
                &workers,
            )?,
            reopen_log: log.as_ref().map(|log| Box::new(log.reopening()) as _),
            current,
        };
        Ok(Handle {
            local,
            places,
            control: Control {
                shared: Arc::new(shared),
            },
            metrics,
            workers,
            admin,
            log,
            exporter,
            finish,
        })
    }
}

/// Starts the workers: with TLS where they have a layer of it, and for clients, too, where there is
/// an acceptor.
fn start_workers(
    options: &ServerOptions,
    entrances: Vec<Entrance>,
    factory: WorkerFactory,
    (has_layer, acceptor): (bool, Option<Arc<Acceptor>>),
    metrics: Arc<Metrics>,
) -> Result<Workers<Command>, StartError> {
    let worker_options = worker_options(options);
    let http2 = options.http2;
    // Who is slow with the end of an answer is waited for as with what is before it.
    let linger = options.pipeline.clients.send_timeout;
    let make = move |thread: WorkerThread<'_, Command>| -> Result<_, String> {
        let now = clock::monotonic();
        let figures = metrics.worker(thread.index);
        let pipeline = factory.make(thread)?;
        let multiplexed = Multiplexed::new(pipeline, http2, figures.http2.clone(), now);
        Ok((multiplexed, figures, now))
    };
    let workers = match has_layer {
        true => {
            let strangers = Arc::new(NoTls::default());
            workers::start(&worker_options, entrances, move |thread| {
                let (inner, figures, now) = make(thread)?;
                let tls = Tls::new(https::TLS, acceptor.clone(), figures.tls.clone());
                let tls = tls.answering(strangers.clone());
                Ok::<_, String>(Layer::new(inner, tls, linger, now))
            })
        }
        false => workers::start(&worker_options, entrances, move |thread| {
            make(thread).map(|(inner, ..)| inner)
        }),
    };
    Ok(workers?)
}

/// The sites anew, each as far as it may follow the one before it without a restart.
fn checked_loader(
    mut loader: Loader,
    current: Arc<Current>,
    host_names: HostNames,
    sessions_max: Vec<usize>,
    has_layer: bool,
) -> Box<dyn FnMut() -> Loaded + Send> {
    Box::new(move || {
        let names = host_names.get().expect("the workers have been made");
        let before = current.sites();
        let all = loader(&before).into_iter().zip(before.all());
        let all = all.zip(&sessions_max);
        all.map(|((site, before), sessions_max)| {
            let site = site?;
            may_follow(before, &site, *sessions_max)?;
            if asks_tls(&site) && !has_layer {
                return Err(
                    "a backend, or a server that is proxied to, is asked over TLS now, and none \
                     was as the server started: restart it"
                        .to_owned(),
                );
            }
            site.check_hosts(names).map(|()| site)
        })
        .collect()
    })
}

/// The certificates of all sites.
///
/// # Errors
/// There is none, in words.
fn certificates_of(sites: &Sites) -> Result<Vec<Certificate>, String> {
    let all: Vec<Certificate> = (sites.all().iter())
        .filter_map(|site| site.certificate.clone())
        .collect();
    match all.is_empty() {
        false => Ok(all),
        true => Err(
            "TLS needs a certificate: say `certificate` and `key` in [tls] of service.toml \
             (--tls-certificate, --tls-key); `rhythm cert self-signed tls` makes one to try it, \
             tls/cert.pem and tls/key.pem"
                .to_owned(),
        ),
    }
}

/// Whether a site asks a backend, or what it proxies to, over TLS.
fn asks_tls(site: &Site) -> bool {
    let settings = &site.settings;
    let of_backends = settings.backends.iter().flat_map(|it| &it.peers);
    let of_proxies = settings
        .proxies
        .iter()
        .flat_map(|it| it.peers.iter().flatten());
    let mut peers = of_backends.chain(of_proxies);
    peers.any(|peer| peer.seal.is_some())
}

/// Whether clients are sent on to https only where somebody speaks it.
fn check_redirects(sites: &Sites, speaks_tls: bool) -> Result<(), String> {
    let mut sites = sites.all().iter();
    match speaks_tls || sites.all(|site| site.settings.https_port.is_none()) {
        true => Ok(()),
        false => Err(
            "tls.redirect_port sends clients to where nobody speaks TLS: name a place for it here, \
             such as 127.0.0.1:8443"
                .to_owned(),
        ),
    }
}

/// What connections that speak TLS begin with.
fn acceptor_of(sites: &Sites, http2: bool) -> Result<Arc<Acceptor>, StartError> {
    let protocols: &[&[u8]] = match http2 {
        true => &[b"h2", b"http/1.1"],
        false => &[b"http/1.1"],
    };
    let acceptor = certificates_of(sites).and_then(|all| Acceptor::new(&all, protocols));
    let acceptor = acceptor.map_err(|error| StartError::Tls { error })?;
    Ok(Arc::new(acceptor))
}

/// Has the process open as many files as it may, and lets in no more clients than there are files
/// for. How many it may open, if that is known.
fn raise_open_files(options: &mut ServerOptions, sites: &Sites) -> Option<u64> {
    match resource::raise_open_files() {
        Ok(limit) => {
            options.connections_max = open_files::connections_max(options, sites, limit);
            let used = open_files::used(options, sites).min(limit);
            if let Err(error) = resource::make_room_for_files(used) {
                tracing::warn!(%error, "clients may wait where many files are opened at once");
            }
            Some(limit)
        }
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            None
        }
    }
}

/// Opens the access log, if there is to be one.
fn open_log(
    open: Option<LogOpener>,
    sites: &Sites,
    format: AccessLogFormat,
) -> Result<Option<LogWriter>, StartError> {
    let setting = "access_log";
    let names: Vec<&str> = sites.all().iter().filter_map(|site| site.label()).collect();
    (open
        .map(|open| LogWriter::start(format, &names, open))
        .transpose())
    .map_err(|error| StartError::Log { setting, error })
}

/// Starts what exports spans of traces, if they are to be.
fn start_exporter(sites: &Sites, finish: Duration) -> Result<Option<Exporter>, StartError> {
    let config = sites.all().first().map(|site| &site.service().config);
    let Some((config, url)) = config.and_then(|it| Some((it, it.trace.collector()?))) else {
        return Ok(None);
    };
    let setting = "trace.otlp";
    let failed = |error| StartError::Log { setting, error };
    let tls_ca = config.trace.tls_ca.as_deref().unwrap_or(Path::new(""));
    let tls = tls_ca
        .to_str()
        .ok_or_else(|| "`tls_ca` is no text".to_owned());
    // A path is from where the server was started.
    let tls =
        tls.and_then(|file| backend::connector_of(&url, Path::new(""), [file, "", ""], "otlp"));
    let tls = tls.map_err(|why| failed(io::Error::other(why)))?;
    let exporter = Exporter::start(url, tls, &config.service.name, finish);
    exporter.map(Some).map_err(failed)
}

/// Who visits each site.
fn visitors_of(sites: &Sites, options: &ServerOptions) -> Vec<Visitors> {
    let counts = [options.sessions.len(), options.sign_ins.len()];
    let sites_count = sites.all().len();
    assert_eq!(counts, [sites_count; 2], "the options are of all sites");
    let rules = options.sessions.iter().zip(&options.sign_ins);
    let all = sites.all().iter().zip(rules);
    all.map(|(site, (sessions, sign_ins))| {
        let secret = site.service().secret.as_ref();
        Visitors {
            sessions: Arc::new(SessionArray::with(*sessions)),
            sign_ins: Arc::new(SignIns::new(*sign_ins, system_random()())),
            seal_key: secret.map_or_else(|| system_random()(), key_of),
        }
    })
    .collect()
}

/// The figures of so many workers.
fn metrics_of(
    workers: usize,
    sites: &Sites,
    visitors: &[Visitors],
    log: Option<&LogWriter>,
    exporter: Option<&Exporter>,
    device: Option<Arc<dyn DeviceFigures>>,
) -> Arc<Metrics> {
    let log = log.map(LogWriter::state).unwrap_or_default();
    let all = sites.all().iter().zip(visitors);
    let all = all.map(|(site, visitors)| {
        let sessions: Box<dyn SessionGauge> = Box::new(Sessions(visitors.sessions.clone()));
        (site.label().map(str::to_owned), sessions)
    });
    let mut metrics = Metrics::of_sites(workers, log, all.collect());
    metrics.traces = exporter.map(Exporter::state);
    metrics.device = device;
    Arc::new(metrics)
}

/// Whether a site may take the place of one before without a restart.
///
/// # Errors
/// Why it may not, in words.
fn may_follow(before: &Site, site: &Site, sessions_max: usize) -> Result<(), String> {
    let fields = site.service().config.session.stored();
    let bytes = StoredFields::bytes(&fields, sessions_max);
    let has_others = before.service().config.session.stored() != fields;
    if has_others && bytes > FIELDS_RELOADED_MAX {
        return Err(format!(
            "`session.fields` takes {} MiB for all of `session.sessions_max` now: that is taken as \
             the server starts, so restart it",
            bytes >> 20
        ));
    }
    if !shares_as_before(before.service(), site.service()) {
        return Err(
            "how sessions are shared, by which secret and for how long is said as the server \
             starts (`store`, `store_refresh`, `secret`, `idle_timeout` and `unused_timeout` of \
             [session]): restart it"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether sessions are sealed and shared in the same way by both.
fn shares_as_before(before: &Service, service: &Service) -> bool {
    let of = |service: &Service| {
        let session = &service.config.session;
        let times = [
            session.store_refresh,
            session.idle_timeout,
            session.unused_timeout,
        ];
        let is_shared = !session.store.is_empty();
        (session.store.clone(), is_shared.then_some(times))
    };
    before.secret == service.secret && of(before) == of(service)
}

/// More memory than this a reload does not take for what sessions keep: it is beside what they had.
const FIELDS_RELOADED_MAX: usize = 256 << 20;

/// What the thread of reloads works with.
struct Loads {
    loader: Box<dyn FnMut() -> Loaded + Send>,
    names: BackendNames,
    metrics: Arc<Metrics>,
    /// Who shows the sites' certificates, if clients speak TLS.
    acceptor: Option<Arc<Acceptor>>,
    /// And who shows the admin listener's.
    admin_acceptor: Option<Arc<Acceptor>>,
    /// Which that is.
    admin_certificate: Option<Certificate>,
}

/// Starts what loads sites anew, and finds backends that are elsewhere, for the workers.
fn start_reloads(
    loads: Loads,
    options: ServerOptions,
    open_files: Option<u64>,
    current: &Arc<Current>,
    workers: &Workers<Command>,
) -> Result<Reloads, StartError> {
    let Loads {
        loader,
        mut names,
        metrics,
        acceptor,
        admin_acceptor,
        admin_certificate,
    } = loads;
    let (current, inboxes) = (current.clone(), workers.inboxes().to_vec());
    let (served, told) = (current.clone(), inboxes.clone());
    let shown = Arc::new(Mutex::new(admin_certificate));
    let mut expiries = Expiries::new(shown.clone());
    expiries.tell(&current.sites(), &metrics);
    let meanwhile = move || {
        if served.drain().is_some() {
            return false;
        }
        let sites = served.sites();
        let has_certificates = expiries.tell(&sites, &metrics);
        let is_failing = |site: usize, backend: &str| metrics.is_failing(site, backend);
        let relocated = names.look_up(sites.all(), is_failing, Instant::now());
        let relocated: Arc<[Relocated]> = relocated.into();
        if !relocated.is_empty() {
            served.relocate(&relocated);
            for inbox in &told {
                inbox.send(Command::Relocate(relocated.clone()));
            }
        }
        names.has_any() || has_certificates
    };
    let serve = move |loaded: Loaded| {
        let reloaded = serve(loaded, &current, &inboxes, acceptor.as_deref());
        let renewed = match &admin_acceptor {
            Some(acceptor) => options.admin_tls.renew(acceptor),
            None => Ok(None),
        };
        let renewed = renewed.map(|certificate| {
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = certificate;
        });
        let renewed = renewed.inspect_err(|error| {
            tracing::error!("the admin listener keeps its certificates: {error}");
        });
        if let Some(limit) = open_files {
            open_files::check(&options, &current.sites(), limit);
        }
        reloaded.and(renewed)
    };
    Ok(Reloads::start(loader, serve, meanwhile)?)
}

/// Has the workers serve what was loaded. What could not be is served as it was.
fn serve(
    loaded: Loaded,
    current: &Current,
    inboxes: &[Inbox<Command>],
    acceptor: Option<&Acceptor>,
) -> Reloaded {
    let before = current.sites();
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    let mut loaded = loaded.into_iter();
    for before in before.all() {
        let loaded = loaded.next();
        let loaded = loaded.unwrap_or_else(|| Err("it was not loaded".to_owned()));
        all.push(loaded.unwrap_or_else(|error| {
            say_not_reloaded(before.label(), &error);
            failed.push(error);
            before.clone()
        }));
    }
    if current.drain().is_some() {
        return Err("the server is shutting down".to_owned());
    }
    if all.len() > failed.len() {
        let sites = Sites::new(all).map(Arc::new);
        let sites = sites.inspect_err(|error| say_not_reloaded(None, error))?;
        let checked = check_redirects(&sites, acceptor.is_some());
        checked.inspect_err(|error| say_not_reloaded(None, error))?;
        if let Some(acceptor) = acceptor {
            let shown = certificates_of(&sites).and_then(|all| acceptor.replace(&all));
            shown.inspect_err(|error| say_not_reloaded(None, error))?;
        }
        let reloaded = current.reload(sites.clone());
        for inbox in inboxes {
            inbox.send(Command::Reload(sites.clone()));
        }
        for (site, kept) in reloaded {
            let service = site.label();
            if !kept.is_empty() {
                let settings = kept.join(", ");
                tracing::warn!(
                    service,
                    settings,
                    "these settings keep their values until a restart"
                );
            }
            let pages = site.service().pages.len();
            tracing::info!(service, pages, "the service is reloaded");
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

/// Tells that a service, or all of them, are served as they were, and why.
fn say_not_reloaded(service: Option<&str>, error: &str) {
    // In the message, where lines stay lines for people; JSON has them in one string.
    let joint = if error.contains('\n') { "\n" } else { " " };
    tracing::error!(
        service,
        "the service cannot be reloaded; the old one is kept:{joint}{error}"
    );
}

/// What the workers' threads are like.
fn worker_options(options: &ServerOptions) -> WorkerOptions {
    let threads = options.workers.max(1);
    WorkerOptions {
        threads,
        pin: options.pin,
        driver: DriverOptions {
            connections_max: options.connections_max.div_ceil(threads).max(1),
            crowded_cure: "raise `limits.connections_max`, which the workers share",
            addresses: (options.connections_per_address_max)
                .map(|max| Arc::new(Addresses::new(max.get()))),
            // Each backend's pool bounds its own, in a site that a reload brings, too.
            outgoing_max: usize::MAX,
            busy_poll: options.busy_poll,
            ..DriverOptions::default()
        },
        ..WorkerOptions::default()
    }
}
