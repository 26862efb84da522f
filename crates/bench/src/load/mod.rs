//! `rhythm load`: users who walk through a service, and check every page.
//!
//! An independent witness: it speaks HTTP over real sockets, knows what each user's pages must
//! show, and shares no code with what renders them. Who the users are, where they go and what they
//! must see is a `Workload` (walk.rs), one folder each. Each thread runs a `worker`; what all found
//! out becomes a [`Report`].
//!
//! ```text
//!   workload --> request ----> worker ----> server
//!      |                         |
//!      +--> what must come --> judge --> counts --> Report
//! ```
//!
//! In *closed loop*, a number of users are always there: one who leaves is followed by another at
//! once. In *open loop* (a rate of arrivals) users come whether or not the server keeps up, and
//! latency is measured from when a request was due, so that a server that stalls is charged for all
//! it kept waiting (no coordinated omission): answers that come after the measurement count, too,
//! and users who found no session free until its end as having waited until then. In both loops a
//! page that never comes (a time-out, a connection that is gone) counts as long as it was waited
//! for, and is not good, however short that was.

mod again;
mod banking;
mod bookstore;
mod client;
mod options;
mod reader;
mod report;
mod rng;
mod target;
mod tls;
mod walk;
mod worker;

pub(crate) use again::{Again, Asked, Right};
pub use banking::{Banking, Page};
pub(crate) use banking::{Expected, Visit};
pub use bookstore::{Bookstore, Mix};
pub use options::{LoadOptions, RATES};
pub(crate) use reader::{AnswerReader, BODY_MAX, inflate};
pub use report::{Failure, FileReport, Latency, PageReport, Quality, Report};
pub(crate) use report::{Micros, entry, latency_histogram, nanos};
pub(crate) use rng::Rng;
pub use target::{Target, TargetError};
pub use tls::TlsError;

use bookstore::Shop;
use report::Counts;
use rhythm_net::resource::raise_open_files;
use rhythm_net::tls::Tls;
use rhythm_net::workers::{self, WorkerOptions, WorkerThread};
use rhythm_net::{Layer, Role, clock};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use walk::Workload;
use worker::{Live, Setup, Worker};

/// How long a connection over TLS may take to close.
const LINGER: Duration = Duration::from_secs(1);

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The options contradict each other or make no sense.
    #[error("{0}")]
    Options(&'static str),
    /// The server's URL.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Nothing answers there.
    #[error("cannot connect to {address}, where what is loaded has to serve already")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// TLS cannot be spoken there, or not with what the options name.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What the bookstore's pages are compared with could not be made.
    #[error("cannot populate a bookstore to compare pages with: {0}")]
    Reference(#[from] rusqlite::Error),
    /// A worker could not run.
    #[error("cannot run: {0}")]
    Run(#[from] io::Error),
}

/// How a run is getting on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Pages answered so far.
    pub pages: u64,
    /// Pages a second since the progress before.
    pub pages_per_s: f64,
    /// Wrong pages so far.
    pub invalid: u64,
    /// Failed requests so far.
    pub errors: u64,
}

/// Who walks through a server's pages.
#[derive(Clone, Debug, PartialEq)]
pub enum Visitors {
    /// Users of services/banking.
    Banking(Banking),
    /// Users of services/bookstore.
    Bookstore(Bookstore),
}

impl From<Bookstore> for Visitors {
    fn from(bookstore: Bookstore) -> Visitors {
        Visitors::Bookstore(bookstore)
    }
}

impl From<Banking> for Visitors {
    fn from(banking: Banking) -> Visitors {
        Visitors::Banking(banking)
    }
}

/// Loads a server with these visitors as `options` say; `progress` is called about once a second.
///
/// # Errors
/// When it cannot start. What goes wrong with the server later is in the report.
pub fn run(
    options: LoadOptions,
    visitors: impl Into<Visitors>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    match visitors.into() {
        Visitors::Banking(banking) => run_as(options, &banking, progress),
        Visitors::Bookstore(bookstore) => {
            let shop = Shop::open(bookstore, options.warmup + options.duration)?;
            run_as(options, &shop, progress)
        }
    }
}

/// As [`run`], as a workload that is told what to ask for.
///
/// # Errors
/// As of [`run`].
pub(crate) fn run_again(options: LoadOptions, again: &Again) -> Result<Report, LoadError> {
    run_as(options, again, &mut |_| ())
}

fn run_as<W: Workload>(
    options: LoadOptions,
    workload: &W,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    check(&options, workload)?;
    let target = Target::resolve(&options.url)?;
    let address = target.address;
    // A clear answer if nobody is there, before a thousand sessions find out.
    let socket = TcpStream::connect_timeout(&address, options.timeout)
        .map_err(|source| LoadError::Connect { address, source })?;
    let connector = tls::connector(&options, &target, socket)?;
    // Where it fails, so will the connections, each with its error.
    let _ = raise_open_files();
    let threads = options.threads.min(options.sessions);
    let pages = workload.pages();
    let setup = Setup {
        options: options.clone(),
        target,
        connector,
        workers: threads,
        pipeline: workload.pipeline(),
        pages: pages.len(),
    };
    let worker_options = WorkerOptions {
        name: "load",
        threads,
        // What a worker that panicked had counted is lost: the run is over.
        restarts_max: 0,
        driver: Worker::<W::Walk>::driver_options(&setup),
        ..WorkerOptions::default()
    };
    let lives: Arc<[Arc<Live>]> = (0..threads).map(|_| Arc::default()).collect();
    let (results, counted) = channel();
    let is_tls = setup.connector.is_some();
    let make = {
        let (lives, workload) = (Arc::clone(&lives), workload.clone());
        move |thread: WorkerThread<'_, Infallible>| {
            let live = Arc::clone(&lives[thread.index]);
            let walk = workload.walk(thread.index, threads, setup.options.validate);
            let worker = Worker::new(setup.clone(), walk, thread.index, live, results.clone());
            Ok::<_, Infallible>(worker)
        }
    };
    let started = match is_tls {
        false => workers::start(&worker_options, Vec::new(), make),
        true => workers::start(&worker_options, Vec::new(), move |thread| {
            let codecs = Tls::new(Role(0), None, Arc::default());
            make(thread).map(|worker| Layer::new(worker, codecs, LINGER, clock::monotonic()))
        }),
    };
    let workers = started.map_err(io::Error::other)?;
    let start = Instant::now();
    let mut before = (start, 0);
    while !workers.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
        let now = Instant::now();
        let interval = now - before.0;
        if interval >= Duration::from_secs(1) {
            let sum = |of: fn(&Live) -> &AtomicU64| {
                lives
                    .iter()
                    .map(|live| of(live).load(Ordering::Relaxed))
                    .sum()
            };
            let pages: u64 = sum(|live| &live.pages);
            progress(&Progress {
                elapsed: now - start,
                pages,
                pages_per_s: (pages - before.1) as f64 / interval.as_secs_f64(),
                invalid: sum(|live| &live.invalid),
                errors: sum(|live| &live.errors),
            });
            before = (now, pages);
        }
    }
    workers.join().map_err(io::Error::other)?;
    let mut counts = Counts::new(pages.len());
    for of_worker in counted {
        counts.add(of_worker);
    }
    let mut report = counts.report(options.duration, &pages, workload.is_walk());
    (report.url, report.service) = (options.url, W::SERVICE);
    report.sessions = options.sessions;
    report.arrivals_per_s = options.arrivals_per_s;
    Ok(report)
}

fn check<W: Workload>(options: &LoadOptions, workload: &W) -> Result<(), LoadError> {
    let fault = match options {
        LoadOptions { sessions: 0, .. } => "there must be at least one session",
        LoadOptions { threads: 0, .. } => "there must be at least one thread",
        LoadOptions {
            arrivals_per_s: Some(rate),
            ..
        } if !RATES.contains(rate) => "the rate of arrivals is 0.001 to 10000000 a second",
        LoadOptions {
            duration: Duration::ZERO,
            ..
        } => "the duration must be positive",
        _ => {
            let checked = workload.check(options.arrivals_per_s.is_some());
            return checked.map_err(LoadError::Options);
        }
    };
    Err(LoadError::Options(fault))
}
