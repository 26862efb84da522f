//! `rhythm load memcached://...`: clients of memcached servers, every value checked.
//!
//! An independent witness: it shares no code with the server in `rhythm_kv`. A server is filled
//! with all keys, then loaded. Where there are several they take turns, slice by slice, so that
//! what else the machine does meets them all, and are compared slice by slice.
//!
//! ```text
//!   items -----> request ----> worker ----> server
//!     |                          |
//!     | versions --------------> judge --> counts --> tally --> report
//!     +--(what may be there)-----^         a slice    a server
//! ```
//!
//! A ring is one of the servers: each client has a connection to each node, and asks the owner of a
//! key, as ketama clients do (`circle`); the next node there is while it cannot reach that.
//!
//! A value says its key and its version and has a checksum of the rest (`items`); `versions` knows
//! for each key what was acknowledged when a request was sent, and what was written when its answer
//! came, so that a wrong, torn or old value, and one that nobody wrote, is seen. In closed loop a
//! number of requests is always under way. In open loop (a rate) they fall due whether or not the
//! server keeps up, and latency is measured from then (no coordinated omission).

mod answers;
mod binary;
mod circle;
mod client;
pub(crate) mod cpu;
mod error;
mod hello;
mod items;
mod options;
mod piece;
mod report;
mod sizes;
mod target;
mod versions;
mod worker;

pub use error::MemcachedError;
pub use options::{MemcachedOptions, Words};
pub use report::{MemcachedReport, Ratios, ServerReport, Slice, Wrong};
pub use sizes::Sizes;
pub use target::{SCHEME, ServersError};
pub(crate) use versions::OLDER;

use items::Items;
use report::{Counts, Tally};
use rhythm_besim::mix::mix64;
use rhythm_net::clock::monotonic;
use rhythm_net::resource::raise_open_files;
use rhythm_net::workers::{self, Entrance, WorkerOptions, WorkerThread};
use rhythm_net::{DatagramSocket, ListenError, Role, Time};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use target::Target;
use versions::Versions;
use worker::{Setup, Task, Worker};

/// How often a run says how it is getting on.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// How a run is getting on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemcachedProgress<'a> {
    /// A server is being filled.
    Filling {
        /// Which.
        server: &'a str,
        /// Keys stored.
        done: u64,
        /// Of so many.
        of: u64,
    },
    /// A server is being loaded.
    Loading {
        /// Which.
        server: &'a str,
        /// Which of its slices, from 1 on.
        slice: usize,
        /// Requests answered in it.
        requests: u64,
    },
}

/// A server of a run.
struct Subject {
    target: Target,
    version: String,
    pids: Vec<u32>,
    versions: Arc<Versions>,
}

/// Loads servers as `options` say; `progress` is called about ten times a second.
///
/// # Errors
/// When it cannot start. What goes wrong with the servers later is in the report.
pub fn run(
    options: MemcachedOptions,
    progress: &mut dyn FnMut(MemcachedProgress<'_>),
) -> Result<MemcachedReport, MemcachedError> {
    let targets = target::resolve(&options.url, options.udp)?;
    if let Some(fault) = options.fault(targets.len()) {
        return Err(MemcachedError::Options(fault));
    }
    // Two runs with the same seed have different values, lest one takes the other's for its own.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let salt = mix64(options.seed ^ now.map_or(0, |now| now.as_nanos() as u64));
    let items = Items::new(&options, salt);
    let items = items.ok_or(MemcachedError::Options("Zipf's law has no such exponent"))?;
    if options.of_first && !targets.iter().all(|target| owns_some(target, &items)) {
        let fault = "the first node of a ring owns none of so few keys";
        return Err(MemcachedError::Options(fault));
    }
    // Where it fails, so will the connections, each with its error.
    let _ = raise_open_files();
    let mut subjects = Vec::new();
    for (index, target) in targets.into_iter().enumerate() {
        let pids = options.server_pids.get(index).cloned().unwrap_or_default();
        cpu_time(&pids)?;
        subjects.push(Subject {
            version: hello::version(&target, options.udp)?,
            target,
            pids,
            versions: Arc::new(Versions::new(options.keys)),
        });
    }
    let measured = options.duration / u32::try_from(options.slices).unwrap_or(u32::MAX);
    let mut tallies = Vec::new();
    for subject in &subjects {
        let server = &subject.target.name;
        let of = u64::from(options.keys) * u64::from(options.fills);
        let mut told = |done| progress(MemcachedProgress::Filling { server, done, of });
        let (counts, _) = slice(&options, &items, subject, Task::Fill, 0, &mut told)?;
        tallies.push(Tally::new(&counts));
    }
    for number in 1..=options.slices {
        for (subject, tally) in subjects.iter().zip(&mut tallies) {
            let from = monotonic() + options.warmup;
            let until = from + measured;
            let task = Task::Measure { from, until };
            let server = &subject.target.name;
            let mut told = |requests| {
                progress(MemcachedProgress::Loading {
                    server,
                    slice: number,
                    requests,
                });
            };
            let (counts, cpu) = slice(&options, &items, subject, task, number, &mut told)?;
            tally.add(&counts, measured, cpu);
        }
    }
    let reports = subjects
        .into_iter()
        .zip(tallies)
        .map(|(subject, tally)| tally.report(subject.target.name, subject.version))
        .collect();
    Ok(MemcachedReport::new(options, reports))
}

/// Whether there is a key that the first node owns.
fn owns_some(target: &Target, items: &Items) -> bool {
    let mut key = Vec::new();
    (0..items.count).any(|number| {
        key.clear();
        items.write_key(number, &mut key);
        target.node(&key) == 0
    })
}

/// What these processes have run, together; `None` where none is known.
fn cpu_time(pids: &[u32]) -> Result<Option<Duration>, MemcachedError> {
    let mut total = None;
    for &pid in pids {
        let failed = |source| MemcachedError::Process { pid, source };
        let time = cpu::time(pid).map_err(failed)?;
        total = Some(total.unwrap_or_default() + time);
    }
    Ok(total)
}

/// Runs workers until they have done their task; returns the CPU time that the server took while
/// they measured, too.
fn slice(
    options: &MemcachedOptions,
    items: &Items,
    subject: &Subject,
    task: Task,
    number: usize,
    told: &mut dyn FnMut(u64),
) -> Result<(Counts, Option<Duration>), MemcachedError> {
    let threads = options.threads.min(options.connections);
    let setup = Arc::new(Setup {
        options: options.clone(),
        target: subject.target.clone(),
        items: items.clone(),
        versions: Arc::clone(&subject.versions),
        task,
        workers: threads,
        seed: mix64(options.seed.wrapping_add(number as u64)),
    });
    let worker_options = WorkerOptions {
        name: "load",
        threads,
        // What a worker that panicked had counted is lost: the run is over.
        restarts_max: 0,
        driver: Worker::driver_options(&setup),
        ..WorkerOptions::default()
    };
    let entrances = match subject.target.address().filter(|_| options.udp) {
        Some(address) => sockets(address, options.connections, threads)?,
        None => Vec::new(),
    };
    let live = Arc::new(AtomicU64::new(0));
    let (results, counted) = channel();
    let make = {
        let live = Arc::clone(&live);
        move |thread: WorkerThread<'_, Infallible>| {
            let (setup, live) = (Arc::clone(&setup), Arc::clone(&live));
            Ok::<_, Infallible>(Worker::new(setup, thread.index, live, results.clone()))
        }
    };
    let workers = workers::start(&worker_options, entrances, make).map_err(io::Error::other)?;
    let mut marks = match task {
        Task::Fill => [Time::NEVER, Time::NEVER],
        Task::Measure { from, until } => [from, until],
    }
    .map(|at| (at, None));
    while !workers.is_finished() {
        let now = monotonic();
        for (_, cpu) in marks
            .iter_mut()
            .filter(|(at, cpu)| *at <= now && cpu.is_none())
        {
            // A server that is gone meanwhile has no time; its errors tell of it.
            *cpu = cpu_time(&subject.pids).unwrap_or_default();
        }
        told(live.load(Ordering::Relaxed));
        let next = marks.iter().map(|(at, _)| at.since(now));
        let wait = next.filter(|wait| !wait.is_zero()).min();
        std::thread::sleep(PROGRESS_EVERY.min(wait.unwrap_or(PROGRESS_EVERY)));
    }
    workers.join().map_err(io::Error::other)?;
    let mut counts = Counts::new();
    counted.iter().for_each(|of_worker| counts.add(&of_worker));
    // They may be done before the end was seen here.
    let marks = marks.map(|(_, cpu)| cpu.or_else(|| cpu_time(&subject.pids).unwrap_or_default()));
    let [before, after] = marks;
    let cpu = before.zip(after);
    let cpu = cpu.map(|(before, after): (Duration, Duration)| after.saturating_sub(before));
    Ok((counts, cpu))
}

/// Sockets for the clients of all threads, each with a role of its own.
fn sockets(
    server: SocketAddr,
    clients: usize,
    threads: usize,
) -> Result<Vec<Entrance>, ListenError> {
    let here = match server.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let mut entrances = Vec::new();
    let mut left = clients;
    while left > 0 {
        let sockets = (0..left.min(threads)).map(|_| DatagramSocket::bind((here, 0).into()));
        let sockets: Vec<DatagramSocket> = sockets.collect::<Result<_, _>>()?;
        left -= sockets.len();
        entrances.push(Entrance::datagrams(Role(entrances.len() as u32), sockets));
    }
    Ok(entrances)
}
