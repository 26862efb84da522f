//! What remote memory and the channels cost, beside the least that they could: `rhythm venice
//! bench`.
//!
//! Another process of the same machine is the donor. What is compared takes turns, in one order and
//! then in the other; a first turn does not count. A figure is the median of the turns, and a ratio
//! the median of the ratios of each turn, so that a machine that is busy with something else meanwhile changes it little.

mod channels;
mod faults;
mod peer;
mod peers;
mod report;
mod talk;
mod touch;

use crate::channel::broken::Lost;
pub use peer::serve;
pub use report::{Report, Row};
use std::io;
use std::path::PathBuf;
use thiserror::Error;
pub use touch::touch;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Page faults and scans, with their floors.
    Faults,
    /// Accesses by size over each channel (the paper's Figure 17).
    Channels,
    /// Credits by messages and by CRMA (the paper's Figure 18).
    Credits,
}

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that has `venice bench --peer`, `venice bench --touch` and `venice run`.
    pub program: PathBuf,
    /// Turns of each.
    pub rounds: usize,
    /// Pages of a program whose faults are measured.
    pub pages: usize,
    /// Which parts; all where none is named.
    pub parts: Vec<Part>,
}

/// Why nothing was measured.
#[derive(Debug, Error)]
pub enum Error {
    /// The system refuses something.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A channel broke.
    #[error("the other process of the benchmark: {0}")]
    Lost(#[from] Lost),
    /// The other process does not do what it should.
    #[error("the other process of the benchmark does not begin: {0}")]
    Peer(String),
    /// The program whose faults are measured.
    #[error("the program whose faults are measured: {0}")]
    Program(String),
}

/// Measures; `told` gets each row when it is there.
///
/// # Errors
/// [`Error`], where the other process cannot be started or the channels fail. Faults that cannot be
/// measured here are told in the report.
pub fn run(options: &Options, told: &mut dyn FnMut(&Row)) -> Result<Report, Error> {
    let peer = peers::Peer::start(options)?;
    let mut report = Report::default();
    let wants = |part| options.parts.is_empty() || options.parts.contains(&part);
    if wants(Part::Faults) {
        touch::floors(options, &peer, &mut report, told)?;
        if let Err(error) = touch::faults(options, &peer, &mut report, told) {
            report.not_measured.push(format!(
                "page faults: {error}. They need root (userfaultfd)"
            ));
        }
    }
    if wants(Part::Channels) {
        channels::accesses(options, &peer, &mut report, told)?;
        channels::one_way(options, &peer, &mut report, told)?;
    }
    if wants(Part::Credits) {
        channels::credits(options, &peer, &mut report, told)?;
    }
    Ok(report)
}
