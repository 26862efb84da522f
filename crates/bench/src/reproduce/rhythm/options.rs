//! How the paper's evaluation is made again: how much of it, with what, and where it goes.

use crate::load::Page;
use std::path::PathBuf;
use std::time::Duration;

/// How much is executed.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Requests of each page whose instructions are counted.
    pub instructions: usize,
    /// Whether the host executor's are counted, too.
    pub counts_host: bool,
    /// For how long a server under valgrind is loaded.
    pub under_valgrind: Duration,
    /// Requests of each page and repeat whose time is taken.
    pub requests: usize,
    /// Repeats, of which the median counts.
    pub repeats: usize,
    /// Requests that arrive at each rate.
    pub arrivals: usize,
}

impl Effort {
    /// What figures for others are made with: some ten minutes.
    pub const FULL: Effort = Effort {
        instructions: 100,
        counts_host: true,
        under_valgrind: Duration::from_secs(10),
        requests: 50_000,
        repeats: 3,
        arrivals: 100_000,
    };
    /// A first look.
    pub const QUICK: Effort = Effort {
        instructions: 20,
        counts_host: false,
        under_valgrind: Duration::from_secs(5),
        requests: 4000,
        repeats: 1,
        arrivals: 10_000,
    };
}

/// How the paper's evaluation is made again.
#[derive(Clone, Debug)]
pub struct RhythmOptions {
    /// Our program, which valgrind executes.
    pub program: PathBuf,
    /// The folder of Banking, for it.
    pub service: PathBuf,
    /// valgrind: a name or a path.
    pub valgrind: PathBuf,
    /// Pages that valgrind counts; others are not in Table 2 and Figure 2.
    pub pages: Vec<Page>,
    /// Reports of `rhythm bench device --json`.
    pub device_reports: Vec<PathBuf>,
    /// A meter's watts while the machine is idle and while one core is loaded.
    pub watts: Option<(f64, f64)>,
    /// Dynamic watts that a core counts for where nothing measures them.
    pub watts_core: f64,
    /// How much is executed.
    pub effort: Effort,
    /// Where tables and charts go; made if it is not there.
    pub out: PathBuf,
    /// What the report is made on, which it tells.
    pub machine: String,
    /// The commit of the program and its version, which the report tells.
    pub commit: String,
    /// The command line, which the report tells.
    pub command: String,
}
