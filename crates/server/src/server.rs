//! The server: workers around one site, their shared session array, and the admin listener.

use crate::backend::Backend;
use crate::host::admin::{self, Admin, Status};
use crate::observe::access_log::LogWriter;
use crate::observe::metrics::{Metrics, SessionGauge};
use crate::options::ServerOptions;
use crate::pipeline::{Pipeline, PipelineParts};
use crate::site::Site;
use crate::worker::{self, COMMANDS, Command, DEVICE, Inbox};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rhythm_engine::device::Executor;
use rhythm_engine::session::SessionArray;
use rhythm_net::{
    Driver, DriverOptions, ListenOptions, Listener, Token, Waker, affinity, clock, resource,
};
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Makes a worker's executor, on its thread. The waker is for devices that finish while the worker
/// waits.
pub type ExecutorFactory =
    Arc<dyn Fn(usize, Waker) -> Result<Box<dyn Executor>, String> + Send + Sync>;

/// Makes a backend of a site, by its index, for a worker.
pub type SharedBackendFactory = Arc<dyn Fn(&Site, usize) -> Box<dyn Backend> + Send + Sync>;

/// Gives the site anew: what it was made from may have changed.
pub type Loader = Box<dyn FnMut() -> Result<Arc<Site>, String> + Send>;

/// What the server needs beside its options.
pub struct ServerParts {
    /// What is served at first.
    pub site: Arc<Site>,
    /// Gives it anew, for [`Control::reload`].
    pub loader: Loader,
    /// Makes executors.
    pub executors: ExecutorFactory,
    /// Makes backends.
    pub backends: SharedBackendFactory,
    /// Where the access log goes, if anywhere.
    pub log: Option<Box<dyn Write + Send>>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] rhythm_net::ListenError),
    /// The system has no resources for it.
    #[error("the system lacks resources: {0}")]
    System(#[from] std::io::Error),
    /// A device cannot be used.
    #[error("{0}")]
    Device(String),
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
}

/// What a server shares with those who control it.
struct Shared {
    inboxes: Vec<Arc<Inbox>>,
    loader: Mutex<Loader>,
    site: Mutex<Arc<Site>>,
    draining: Arc<AtomicBool>,
    drain: Duration,
}

/// Controls a server from any thread.
#[derive(Clone)]
pub struct Control {
    shared: Arc<Shared>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Loads the site anew, on the calling thread, and has the workers serve it. What is under way
    /// ends on the old one.
    ///
    /// # Errors
    /// When it cannot be loaded; the old one is kept.
    pub fn reload(&self) -> Result<(), String> {
        let mut loader = self
            .shared
            .loader
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let site = loader().inspect_err(|error| {
            tracing::error!(error, "the service cannot be reloaded; the old one is kept");
        })?;
        *self
            .shared
            .site
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = site.clone();
        for inbox in &self.shared.inboxes {
            inbox.send(Command::Reload(site.clone()));
        }
        tracing::info!(
            pages = site.service().pages.len(),
            "the service is reloaded"
        );
        Ok(())
    }

    /// Begins to shut down: no more clients are taken, and what is under way is finished.
    pub fn shutdown(&self) {
        self.shared.draining.store(true, Ordering::Release);
        for inbox in &self.shared.inboxes {
            inbox.send(Command::Drain(self.shared.drain));
        }
    }
}

impl Status for Control {
    fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Acquire)
    }

    fn site(&self) -> Arc<Site> {
        self.shared
            .site
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Handle {
    local: SocketAddr,
    admin: Option<SocketAddr>,
    control: Control,
    metrics: Arc<Metrics>,
    workers: Vec<JoinHandle<()>>,
    admin_thread: Option<(Waker, JoinHandle<()>)>,
    log: Option<LogWriter>,
}

impl Handle {
    /// Where clients connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Where the admin listener is.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
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
    pub fn join(self) {
        for worker in self.workers {
            // A worker that could not go on has said why.
            let _ = worker.join();
        }
        if let Some((waker, thread)) = self.admin_thread {
            self.control.shared.draining.store(true, Ordering::Release);
            waker.wake();
            let _ = thread.join();
        }
        if let Some(log) = self.log {
            log.finish();
        }
    }
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts the workers and the admin listener. Clients can connect when it returns.
    ///
    /// # Errors
    /// When an address cannot be listened on, or a device cannot be used.
    pub fn start(options: ServerOptions, parts: ServerParts) -> Result<Handle, StartError> {
        if let Err(error) = resource::raise_open_files() {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
        let workers = options.workers.max(1);
        let idle_ms = u64::try_from(options.session_idle.as_millis()).unwrap_or(u64::MAX);
        let sessions = Arc::new(SessionArray::new(options.sessions_max, idle_ms));
        let log = match parts.log {
            Some(to) => Some(LogWriter::start(options.log_format, to)?),
            None => None,
        };
        let dropped = log.as_ref().map(LogWriter::dropped).unwrap_or_default();
        let gauge = Box::new(Sessions(sessions.clone()));
        let metrics = Arc::new(Metrics::new(workers, dropped, gauge));
        let listeners = Listener::bind_group(options.listen, workers, &ListenOptions::default())?;
        let local = listeners
            .first()
            .map_or(options.listen, Listener::local_address);
        let cores = if options.pin {
            affinity::allowed_cores()?
        } else {
            Vec::new()
        };
        let driver_options = DriverOptions {
            connections_max: options.connections_max.div_ceil(workers).max(1),
            ..DriverOptions::default()
        };

        let mut threads = Vec::new();
        let mut inboxes = Vec::new();
        let (ready, started) = sync_channel(workers);
        for (index, listener) in listeners.into_iter().enumerate() {
            let mut driver = Driver::new(&driver_options)?;
            driver.add_listener(listener)?;
            let inbox = Arc::new(Inbox::new(driver.waker(COMMANDS)?));
            let device_waker = driver.waker(DEVICE)?;
            inboxes.push(inbox.clone());
            let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
            let worker_metrics = metrics.worker(index);
            let (site, sessions) = (parts.site.clone(), sessions.clone());
            let (executors, backends) = (parts.executors.clone(), parts.backends.clone());
            let sinks = log.as_ref().map(LogWriter::sinks);
            let pipeline_options = options.pipeline;
            let ready = ready.clone();
            let body = move || {
                if let Some(Err(error)) = core.map(affinity::pin_current_thread) {
                    tracing::warn!(worker = index, %error, "a worker cannot be kept on a core");
                }
                let metrics = worker_metrics.clone();
                let mut make = move |site: Arc<Site>| {
                    let backends = backends.clone();
                    let parts = PipelineParts {
                        site,
                        executor: executors(index, device_waker.clone())?,
                        backends: Box::new(move |site, index| backends(site, index)),
                        sessions: sessions.clone(),
                        random: system_random(),
                        metrics: worker_metrics.clone(),
                        log: sinks.as_ref().map(|make| make()),
                        now: clock::monotonic(),
                    };
                    Ok::<Pipeline, String>(Pipeline::new(parts, pipeline_options))
                };
                let pipeline = match make(site.clone()) {
                    Ok(pipeline) => pipeline,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return;
                    }
                };
                let _ = ready.send(Ok(()));
                drop(ready);
                worker::run(
                    index,
                    &mut driver,
                    &inbox,
                    &metrics,
                    site,
                    pipeline,
                    &mut make,
                );
            };
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(body)?);
        }
        drop(ready);
        let draining = Arc::new(AtomicBool::new(false));
        let control = Control {
            shared: Arc::new(Shared {
                inboxes,
                loader: Mutex::new(parts.loader),
                site: Mutex::new(parts.site),
                draining,
                drain: options.drain,
            }),
        };
        let mut handle = Handle {
            local,
            admin: None,
            control,
            metrics,
            workers: threads,
            admin_thread: None,
            log,
        };
        let failed = started.iter().find_map(Result::err);
        if let Some(error) = failed {
            handle.shutdown();
            handle.join();
            return Err(StartError::Device(error));
        }
        if let Some(address) = options.admin {
            match start_admin(address, &handle, &options) {
                Ok((address, waker, thread)) => {
                    handle.admin = Some(address);
                    handle.admin_thread = Some((waker, thread));
                }
                Err(error) => {
                    handle.shutdown();
                    handle.join();
                    return Err(error);
                }
            }
        }
        Ok(handle)
    }
}

/// Starts the admin listener's thread.
fn start_admin(
    address: SocketAddr,
    handle: &Handle,
    options: &ServerOptions,
) -> Result<(SocketAddr, Waker, JoinHandle<()>), StartError> {
    let listener = Listener::bind(address, &ListenOptions::default())?;
    let local = listener.local_address();
    let mut driver = Driver::new(&DriverOptions {
        connections_max: admin::CONNECTIONS_MAX,
        ..DriverOptions::default()
    })?;
    driver.add_listener(listener)?;
    let waker = driver.waker(Token(0))?;
    let (control, metrics) = (handle.control(), handle.metrics.clone());
    let mut server = Admin::server(control, metrics, options.clone(), clock::monotonic());
    let thread = std::thread::Builder::new()
        .name("admin".into())
        .spawn(move || {
            if let Err(error) = driver.run(&mut server) {
                tracing::error!(%error, "the admin listener cannot go on");
            }
        })?;
    Ok((local, waker, thread))
}

/// Random bits from a generator that the system's entropy seeds.
fn system_random() -> crate::answer::response::Random {
    let mut generator = ChaCha20Rng::from_os_rng();
    Box::new(move || u128::from(generator.next_u64()) << 64 | u128::from(generator.next_u64()))
}
