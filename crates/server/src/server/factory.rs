//! The factory of workers: each gets a device, backends, hosts and a disk of its own, made on its
//! thread, and shares the rest.

use crate::answer::sessions::Visitors;
use crate::backend::Backend;
use crate::flight::link::DeviceLink;
use crate::host::challenges::{Challenges, Webroot};
use crate::host::disk::Readers;
use crate::limits::options::PipelineOptions;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::Metrics;
use crate::pipeline::{Pipeline, PipelineParts};
use crate::server::worker::{Command, DEVICE, HOSTS};
use crate::site::Site;
use crate::site::current::Current;
use crate::trace::SpanSink;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rhythm_http::Host;
use rhythm_net::workers::WorkerThread;
use rhythm_net::{Waker, clock};
use std::sync::{Arc, OnceLock};

/// Makes a worker's device, on its thread. The waker is for devices that finish while the worker
/// waits.
pub type DeviceFactory =
    Arc<dyn Fn(usize, Waker) -> Result<Box<dyn DeviceLink>, String> + Send + Sync>;

/// Makes a worker's hosts, each with its name, on its thread. The waker is for what they have other
/// threads do for them.
pub type HostFactory = Arc<dyn Fn(usize, Waker) -> Vec<(String, Box<dyn Host>)> + Send + Sync>;

/// The names of a worker's hosts, once one has been made: sites whose routes name others are
/// refused.
pub(super) type HostNames = Arc<OnceLock<Vec<String>>>;

/// Makes a backend of a site, by its index, for a worker, on its event loop: it waits for nothing.
pub type SharedBackendFactory = Arc<dyn Fn(&Site, usize) -> Box<dyn Backend> + Send + Sync>;

/// Makes workers, each on its own thread.
pub(super) struct WorkerFactory {
    pub(super) current: Arc<Current>,
    pub(super) devices: DeviceFactory,
    pub(super) backends: SharedBackendFactory,
    pub(super) hosts: Option<HostFactory>,
    pub(super) host_names: HostNames,
    pub(super) readers: Readers,
    /// Where answers to an authority's challenges lie.
    pub(super) webroot: Option<Webroot>,
    /// Of each site.
    pub(super) visitors: Vec<Visitors>,
    pub(super) metrics: Arc<Metrics>,
    /// Makes a worker's end of the access log.
    pub(super) sinks: Option<Box<dyn Fn() -> LogSink + Send + Sync>>,
    /// Makes a worker's end of what exports spans.
    pub(super) span_sinks: Option<Box<dyn Fn() -> SpanSink + Send + Sync>>,
    pub(super) options: PipelineOptions,
}

impl WorkerFactory {
    pub(super) fn make(&self, thread: WorkerThread<'_, Command>) -> Result<Pipeline, String> {
        let WorkerThread { index, driver, .. } = thread;
        let metrics = self.metrics.worker(index);
        if thread.restarts > 0 {
            metrics.restarts.add(1);
        }
        let device_waker = driver.waker(DEVICE).map_err(|error| error.to_string())?;
        let backends = self.backends.clone();
        let waker = driver.waker(HOSTS).map_err(|error| error.to_string())?;
        let disk = self.readers.disk(waker.clone());
        let challenges = self.webroot.as_ref().map(|webroot| {
            let host: Box<dyn Host> = Box::new(webroot.host(waker.clone()));
            (Challenges::NAME.to_owned(), host)
        });
        let mut hosts = match &self.hosts {
            Some(make) => make(index, waker),
            None => Vec::new(),
        };
        let sites = self.current.sites();
        let names = || hosts.iter().map(|(name, _)| name.clone()).collect();
        let names = self.host_names.get_or_init(names);
        (sites.all().iter()).try_for_each(|site| site.check_hosts(names))?;
        hosts.extend(challenges);
        let now = clock::monotonic();
        let parts = PipelineParts {
            sites,
            visitors: self.visitors.clone(),
            device: (self.devices)(index, device_waker)?,
            backends: Box::new(move |site, index| backends(site, index)),
            hosts,
            disk,
            random: system_random(),
            metrics,
            log: self.sinks.as_ref().map(|make| make()),
            spans: self.span_sinks.as_ref().map(|make| make()),
            now,
        };
        let mut pipeline = Pipeline::new(parts, self.options.clone());
        pipeline.relocate(&self.current.relocated());
        if let Some(drain) = self.current.drain() {
            pipeline.drain(driver.port(), now, drain);
        }
        Ok(pipeline)
    }
}

/// Random bits from a generator that the system's entropy seeds.
pub(super) fn system_random() -> crate::answer::sessions::Random {
    let mut generator = ChaCha20Rng::from_os_rng();
    Box::new(move || u128::from(generator.next_u64()) << 64 | u128::from(generator.next_u64()))
}
