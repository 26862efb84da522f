//! How a server is loaded.

use super::chain::Page;
use rhythm_besim::Bank;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How to load a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadOptions {
    /// The server, such as `http://127.0.0.1:8080`; a path is ignored.
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
    /// Users of the bank: 1 to this number log in.
    pub users: u32,
    /// What decides who logs in and where they go.
    pub seed: u64,
    /// Mean time a user looks at a page before the next, exponentially distributed; the workload
    /// has 10 s.
    pub think: Duration,
    /// Open loop: users arriving a second. `None` is closed loop.
    pub arrivals_per_s: Option<f64>,
    /// Whether the static files of pages are asked for, as browsers do.
    pub files: bool,
    /// Whether pages are checked. Without it only statuses are.
    pub validate: bool,
    /// One page only, again and again after one login for each session.
    pub page: Option<Page>,
    /// Requests sent on a connection before the first is answered; only with `page`.
    pub pipeline: usize,
    /// Whether things that must be refused are tried now and then: old cookies, wrong passwords,
    /// unknown checks.
    pub refusals: bool,
    /// Whether the session of a user who leaves without logging out is ended behind the scenes,
    /// since servers keep them for long.
    pub sign_out: bool,
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
            users: Bank::USERS_DEFAULT,
            seed: 1,
            think: Duration::ZERO,
            arrivals_per_s: None,
            files: true,
            validate: true,
            page: None,
            pipeline: 1,
            refusals: true,
            sign_out: true,
            timeout: Duration::from_secs(10),
        }
    }
}
