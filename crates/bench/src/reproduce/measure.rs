//! Servers started, loaded and stopped: a point, a response time, and joules.

use super::energy::Meter;
use super::error::ReproduceError;
use super::figures::Turns;
use super::options::ReproduceOptions;
use super::plan::{self, Load, Setup};
use super::report::{Copies, Energy, Measured, Point, Response};
use super::servers::{Cluster, Running, Servers};
use crate::memcached::{self, MemcachedOptions, MemcachedProgress, MemcachedReport};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// What measures.
pub(super) struct Measurer<'a> {
    pub(super) options: &'a ReproduceOptions,
    pub(super) servers: &'a Servers,
}

impl Measurer<'_> {
    /// Loads memcached, where it is installed, and kv side by side.
    pub(super) fn point(&self, load: &Load) -> Result<Point, ReproduceError> {
        let ReproduceOptions {
            keys,
            duration,
            slices,
            ..
        } = *self.options;
        let options = load.options(keys, duration, slices);
        let memory = plan::memory_mib(&options);
        let (theirs, ours) = (self.servers.memcached(memory)?, self.servers.kv(memory)?);
        let both: Vec<&Running> = theirs.iter().chain([&ours]).collect();
        let report = self.load(options, &both, &mut |_| ())?;
        let servers = report.servers.iter();
        let servers = servers.map(|server| Measured::new(server, load));
        Ok(Point {
            chart: format!("{:?}", load.chart).to_lowercase(),
            protocol: load.protocol().to_owned(),
            depth: load.depth,
            key_bytes: load.key_bytes,
            value_bytes: load.value_bytes,
            writes: load.writes,
            servers: servers.collect(),
        })
    }

    pub(super) fn load(
        &self,
        options: MemcachedOptions,
        servers: &[&Running],
        told: &mut dyn FnMut(u64),
    ) -> Result<MemcachedReport, ReproduceError> {
        let (url, server_pids) = Running::url(servers, options.of_first);
        let options = MemcachedOptions {
            url,
            server_pids,
            ..options
        };
        let report = memcached::run(options, &mut |progress| {
            if let MemcachedProgress::Loading { requests, .. } = progress {
                told(requests);
            }
        })?;
        Ok(report)
    }

    /// What copies cost their keys' node: without a ring, and in one, side by side.
    pub(super) fn copies(&self) -> Result<Vec<Copies>, ReproduceError> {
        let ReproduceOptions {
            keys,
            duration,
            slices,
            ..
        } = *self.options;
        let options = plan::copies(keys, duration, slices);
        let (servers, memory) = (&self.servers, plan::memory_mib(&options));
        let rings = [
            servers.pair(memory)?,
            servers.cluster(Cluster::pair("async"), memory)?,
            servers.cluster(Cluster::pair("acked"), memory)?,
        ];
        let report = self.load(options, &rings.each_ref(), &mut |_| ())?;
        let ratios = [None].into_iter().chain(report.ratios.iter().map(Some));
        let names = ["alone", "ring of 2, async", "ring of 2, acked"];
        let each = names.into_iter().zip(&report.servers).zip(ratios);
        let of = |((name, server), ratios)| Copies::new(name, server, ratios);
        Ok(each.map(of).collect())
    }

    /// How long an answer takes, and how much of that the server's own turns.
    pub(super) fn response(&self, setup: &Setup) -> Result<Response, ReproduceError> {
        let ReproduceOptions {
            keys,
            duration,
            slices,
            ..
        } = *self.options;
        let mut options = plan::response(keys, duration, slices);
        let memory = plan::memory_mib(&options);
        let running = match setup {
            Setup::Memcached { .. } => self.servers.memcached(memory)?,
            Setup::Alone { .. } => Some(self.servers.kv(memory)?),
            Setup::Ring { acked } => {
                let replicate = if *acked { "acked" } else { "async" };
                Some(self.servers.cluster(Cluster::pair(replicate), memory)?)
            }
        };
        let name = setup.name();
        let Some(running) = running else {
            let said = "it was there when this began".to_owned();
            return Err(ReproduceError::Server { server: name, said });
        };
        options.udp = setup.is_udp();
        options.timeout = setup.is_udp().then_some(plan::PATIENCE);
        let mut before: Option<Turns> = None;
        let told = &mut |_| {
            if before.is_none() {
                before = running.turns();
            }
        };
        let report = self.load(options, &[&running], told)?;
        let turns = before
            .zip(running.turns())
            .map(|(from, to)| to.since(&from));
        Ok(Response::new(name, &report.servers[0], turns.as_ref()))
    }

    /// Operations a joule of the whole machine's processors, each server alone under the paper's
    /// mix, 16 in flight; none where joules cannot be read.
    pub(super) fn energy(&self) -> Result<Vec<Energy>, ReproduceError> {
        let Some(meter) = Meter::open() else {
            return Ok(Vec::new());
        };
        let mut energies = Vec::new();
        let options = plan::energy(self.options.keys, self.options.duration);
        let memory = plan::memory_mib(&options);
        let theirs = self.servers.memcached(memory)?;
        let theirs = theirs.map(|server| ("memcached", server));
        for (name, server) in theirs.into_iter().chain([("kv", self.servers.kv(memory)?)]) {
            let mut ends = None;
            let told = &mut |requests| {
                if let Some(reading) = meter.read() {
                    let first = ends
                        .take()
                        .map_or((reading.clone(), requests), |(first, _)| first);
                    ends = Some((first, (reading, requests)));
                }
            };
            self.load(options.clone(), &[&server], told)?;
            if let Some(((from, first), (to, last))) = ends {
                let joules = meter.joules(&from, &to);
                energies.push(Energy {
                    server: name.to_owned(),
                    joules,
                    operations: last - first,
                });
            }
        }
        Ok(energies)
    }
}

/// Bits a second that a single TCP connection of the loopback device carries, in Gbit/s, from a
/// thread where servers run to one where the load does.
pub(super) fn loopback(servers: &Servers, time: Duration) -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = listener.local_addr()?;
    servers.processors.of_server(0);
    let sender = thread::spawn(move || -> io::Result<()> {
        let mut stream = TcpStream::connect(to)?;
        let block = vec![1; 256 << 10];
        // Until the other end has heard enough.
        while stream.write_all(&block).is_ok() {}
        Ok(())
    });
    servers.processors.of_load();
    let (mut stream, _) = listener.accept()?;
    let mut block = vec![0; 256 << 10];
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed() < time {
        bytes += stream.read(&mut block)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(stream);
    sender
        .join()
        .map_err(|_| io::Error::other("the sender panicked"))??;
    Ok(bytes as f64 * 8.0 / seconds / 1e9)
}
