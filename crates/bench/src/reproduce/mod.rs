//! `rhythm reproduce`: the charts and tables of papers. What follows is `kv`, the charts of the
//! microservers' poster, made on this machine; `rpo` has the tables of RPO, from its model and with
//! a real server; `rhythm` has the evaluation of the paper that this server is of.
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
//!
//! The paper's future work, other ways to replicate, is compared by itself (`schemes`).

mod charts;
mod children;
mod claims;
mod energy;
mod error;
mod figures;
mod files;
mod measure;
mod options;
mod plan;
pub(crate) mod postgres;
mod processors;
mod progress;
mod report;
mod rhythm;
mod rpo;
mod schemes;
mod section;
mod servers;
mod table;
mod venice;
mod verdicts;

pub(crate) use charts::{DrawError, FONT, color};
pub(crate) use children::{Folder, Process, free_port, tail};
pub use children::{leave, output};
pub use error::ReproduceError;
pub use options::ReproduceOptions;
pub use progress::ReproduceProgress;
pub use report::{Copies, Energy, KvReport, Measured, Point, Response};
pub use rhythm::{BEGIN, END, Effort, RhythmOptions, RhythmReport, run_rhythm};
pub use rpo::{MeasuredEffort, MeasuredOptions, MeasuredReport, RpoOptions, run_measured, run_rpo};
pub use schemes::{Death, SchemeReport, SchemesReport, run_schemes};
pub use section::Section;
pub use servers::program_at;
pub use venice::{Figure, VeniceEffort, VeniceOptions, VeniceReport, run_venice};
pub use verdicts::{Claim, Verdicts};

pub(crate) use processors::Processors;

use files::write;
use measure::Measurer;
use servers::Servers;
use std::path::Path;

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
    let of = points.len() + setups.len() + 3;
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
    report.claims = claims::of(&report);
    report.verdicts = Verdicts::of([], &report.claims);
    let mut files = charts::draw(&report)?;
    files.push(("kv.md", table::markdown(&report)));
    files.push(("kv.json", serde_json::to_string_pretty(&report)? + "\n"));
    write(files, &options.out)?;
    Ok(report)
}
