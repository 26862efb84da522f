//! What is measured and how, and why it was not.

use crate::accelerator::borrower;
use crate::channel::broken::Lost;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How long either process waits for the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Page faults and scans, with their floors.
    Faults,
    /// Accesses by size over each channel (the paper's Figure 17).
    Channels,
    /// Credits by messages and by CRMA (the paper's Figure 18).
    Credits,
    /// Jobs by accelerators of a donor (the paper's Figure 16a).
    Accelerators,
    /// PageRank and transactions whose data is remote, and a relay on the way (the paper's Figures
    /// 5 and 6).
    Programs,
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
    /// An accelerator.
    #[error("the other process of the benchmark: {0}")]
    Accelerator(#[from] borrower::Error),
    /// The other process does not do what it should.
    #[error("the other process of the benchmark does not begin: {0}")]
    Peer(String),
    /// The program whose faults are measured.
    #[error("the program whose faults are measured: {0}")]
    Program(String),
}
