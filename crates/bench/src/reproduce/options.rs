//! How the charts are made.

use std::path::PathBuf;
use std::time::Duration;

/// How to make the charts.
#[derive(Clone, Debug)]
pub struct ReproduceOptions {
    /// The `rhythm` program, whose servers are measured.
    pub program: PathBuf,
    /// The memcached to compare with ([`program_at`](crate::reproduce::program_at)); without it kv
    /// is measured alone.
    pub memcached: Option<PathBuf>,
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
    /// The commit of the program and its version, which the report tells.
    pub commit: String,
    /// The command line, which the report tells.
    pub command: String,
}
