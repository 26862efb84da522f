//! What to compare, and how thoroughly.

use std::path::PathBuf;
use std::time::Duration;

/// What a run is told.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// This program.
    pub program: PathBuf,
    /// The repository, where services are.
    pub root: PathBuf,
    /// Where programs of crates/bench/peers are, built.
    pub peers: PathBuf,
    /// Alternating runs of each server.
    pub rounds: usize,
    /// How long each is measured.
    pub duration: Duration,
    /// How long each is loaded before.
    pub warmup: Duration,
    /// In place of a case's connections, if there are any.
    pub connections: Vec<usize>,
    /// The names of servers to compare; all of a case without any. The first is always one.
    pub only: Vec<String>,
    /// What the machine is, for the report.
    pub machine: String,
    /// Which commit the program is of.
    pub commit: String,
    /// The command line.
    pub command: String,
}
