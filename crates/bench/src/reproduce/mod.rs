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
mod error;
mod figures;
mod measure;
mod options;
mod plan;
mod processors;
mod report;
mod servers;
mod table;

pub use error::ReproduceError;
pub use options::ReproduceOptions;
pub use report::{Copies, Energy, KvReport, Measured, Point, Response};
pub use servers::memcached_at;

use measure::Measurer;
use servers::Servers;
use std::path::Path;

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
    let of = points.len() + setups.len() + 2;
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
    tell("the loopback device");
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
    tell("what copies cost");
    report.copies = measurer.copies()?;
    tell("joules");
    report.energy = measurer.energy()?;
    write(&report, &options.out)?;
    Ok(report)
}

/// Writes the charts, the tables and the data.
fn write(report: &KvReport, out: &Path) -> Result<(), ReproduceError> {
    let mut files = charts::draw(report)?;
    files.push(("kv.md", table::markdown(report)));
    files.push(("kv.json", serde_json::to_string_pretty(report)? + "\n"));
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(ReproduceError::file(&path))?;
    }
    Ok(())
}
