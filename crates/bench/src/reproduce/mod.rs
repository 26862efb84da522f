//! `rhythm reproduce kv`: the charts of the microservers' poster, made on this machine.
//!
//! The poster shows what its server answers at most by protocol, size and mix, how long an answer
//! takes and where that time goes, with and without replication, and what it costs. Here servers
//! are started, loaded by the load generator of [`crate::memcached`], and stopped:
//!
//! ```text
//!   plan: points --> servers (kv, memcached, rings) --> memcached::run --> report
//!                         |                                 |                |
//!                         +-- turn times (/metrics) --------+                +--> charts (SVG)
//!                         +-- joules (RAPL), CPU time ------+                +--> Markdown, JSON
//! ```
//!
//! Servers have one thread each and processors of their own, and the load the last one, as far as
//! there are processors. All is on the loopback device, whose limit is measured beside.

mod charts;
mod energy;
mod figures;
mod measure;
mod plan;
mod processors;
mod report;
mod servers;
mod table;

pub use report::{Energy, KvReport, Measured, Point, Response};

use crate::memcached::MemcachedError;
use measure::Measurer;
use servers::Servers;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to make the charts.
#[derive(Clone, Debug)]
pub struct ReproduceOptions {
    /// The `rhythm` program, whose servers are measured.
    pub program: PathBuf,
    /// The memcached to compare with; where there is none of this name, kv is measured alone.
    pub memcached: PathBuf,
    /// Where the charts and tables go; made if it is not there.
    pub out: PathBuf,
    /// How long a server is measured at each point, all slices together.
    pub duration: Duration,
    /// The slices of this time, in which the servers take turns.
    pub slices: usize,
    /// Keys at most; of long values there are fewer.
    pub keys: u32,
    /// The machine, which the report tells.
    pub machine: String,
    /// The version of the program, which the report tells.
    pub commit: String,
    /// The command line, which the report tells.
    pub command: String,
}

/// How it is getting on: this is point `done` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReproduceProgress<'a> {
    /// Points that are measured.
    pub done: usize,
    /// Points in all.
    pub of: usize,
    /// What is measured now.
    pub what: &'a str,
}

/// Why there are no charts.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A server does not start, or does not go on.
    #[error("{server} does not serve{}", why(.said))]
    Server {
        /// Which.
        server: String,
        /// The end of what it said.
        said: String,
    },
    /// The load generator.
    #[error(transparent)]
    Load(#[from] MemcachedError),
    /// A chart could not be drawn.
    #[error("a chart: {0}")]
    Chart(String),
    /// A file, or what is temporary.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The report as JSON.
    #[error("the report as JSON")]
    Json(#[from] serde_json::Error),
}

fn why(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

impl ReproduceError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> ReproduceError {
        let path = path.to_owned();
        |source| ReproduceError::File { path, source }
    }
}

/// Measures all, and writes charts, tables and data into the folder; `progress` is called at each
/// point.
///
/// # Errors
/// A server does not start, or the folder cannot be written.
pub fn run(
    options: &ReproduceOptions,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<KvReport, ReproduceError> {
    std::fs::create_dir_all(&options.out).map_err(ReproduceError::file(&options.out))?;
    let servers = Servers::new(options)?;
    let (points, setups) = (plan::points(), plan::setups(servers.has_memcached()));
    let of = points.len() + setups.len() + 1;
    let measurer = Measurer {
        options,
        servers: &servers,
    };
    let mut done = 0;
    let mut tell = |what: &str| {
        progress(ReproduceProgress { done, of, what });
        done += 1;
    };
    let mut report = KvReport::new(options);
    report.processors = servers.processors.tell();
    let loopback = measure::loopback(&servers, options.duration);
    let device = Path::new("the loopback device");
    report.loopback_gbit_s = loopback.map_err(ReproduceError::file(device))?;
    for point in points {
        tell(&point.name());
        report.points.push(measurer.point(&point)?);
    }
    for setup in setups {
        tell(&setup.name());
        report.responses.push(measurer.response(&setup)?);
    }
    tell("joules");
    report.energy = measurer.energy()?;
    report.write(&options.out)?;
    Ok(report)
}
