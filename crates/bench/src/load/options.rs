//! How a server is loaded, whoever its users are.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Rates of open loops, a second: what is rarer outlasts any run, and what is more frequent is more
/// than a machine sends; times between two must neither overflow nor be none.
pub const RATES: RangeInclusive<f64> = 1e-3..=1e7;

/// How to load a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadOptions {
    /// The server, such as `http://127.0.0.1:8080`, or `https://` for TLS.
    pub url: String,
    /// Users at a time, each with a connection of its own. In open loop: the most there may be; who
    /// arrives beyond waits.
    pub sessions: usize,
    /// For how long to load and measure.
    pub duration: Duration,
    /// For how long to load before measuring. Wrong pages and errors count then, too.
    pub warmup: Duration,
    /// Threads, between which the sessions are divided.
    pub threads: usize,
    /// What decides who logs in and where they go.
    pub seed: u64,
    /// Mean time a user looks at a page before the next, exponentially distributed; SPECweb's
    /// Banking has 10 s, TPC-W 7 s.
    pub think: Duration,
    /// Open loop: users arriving a second. `None` is closed loop.
    pub arrivals_per_s: Option<f64>,
    /// Whether pages are checked. Without it only statuses are.
    pub validate: bool,
    /// Whether answers are taken compressed.
    pub gzip: bool,
    /// Over TLS: the file (PEM) of the certificates that sign the server's, or its own; those that
    /// the system trusts, if there is none.
    pub ca: Option<PathBuf>,
    /// Over TLS: whether any certificate will do.
    pub insecure: bool,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            url: "http://127.0.0.1:8080".to_owned(),
            sessions: 100,
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            threads: 1,
            seed: 1,
            think: Duration::ZERO,
            arrivals_per_s: None,
            validate: true,
            gzip: false,
            ca: None,
            insecure: false,
            timeout: Duration::from_secs(10),
        }
    }
}
