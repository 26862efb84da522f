//! Why there are no charts.

use crate::emulate::EmulationError;
use crate::load::LoadError;
use crate::memcached::MemcachedError;
use rhythm_rpo::model::ModelError;
use rhythm_rpo::topology::TopologyError;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
    /// A server was started, and is not ready.
    #[error(
        "{server} was started {seconds} s ago, and answers nobody yet{}; where it makes memory \
         resident, the machine is slow to give it: try again with less load on it",
        why(.said)
    )]
    NotReady {
        /// Which.
        server: String,
        /// How long it was waited for.
        seconds: u64,
        /// The end of what it said.
        said: String,
    },
    /// No node of a cluster answers any more.
    #[error("none of {nodes} nodes answered for {seconds} s; {last}: {said}")]
    NoAnswer {
        /// How many there are.
        nodes: usize,
        /// For how long each was asked again and again.
        seconds: u64,
        /// The last that was asked.
        last: SocketAddr,
        /// What it said, or the system of it.
        said: String,
    },
    /// Packages are missing.
    #[error("programs are missing here; Debian: apt-get install {0}")]
    Lacking(String),
    /// There is no second CPU.
    #[error("two settings of CPUs need two CPUs, and this process may use one alone")]
    OneCpu,
    /// Which CPUs are threads of one core is not known.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// What is executed by valgrind did not go on.
    #[error("valgrind, or what it executes, does not go on{}", why(.0))]
    Profiler(String),
    /// The pages of the paper's emulation.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// The load of a web server.
    #[error(transparent)]
    Web(#[from] LoadError),
    /// A report of `rhythm bench device` cannot be understood.
    #[error("{} is no report of `rhythm bench device --json`: {why}", path.display())]
    DeviceReport {
        /// The file.
        path: PathBuf,
        /// What is the matter.
        why: serde_json::Error,
    },
    /// An earlier report cannot be compared with.
    #[error(
        "{} is no report of `rhythm reproduce` (JSON) with verdicts: {why}",
        path.display()
    )]
    EarlierReport {
        /// The file.
        path: PathBuf,
        /// What is the matter.
        why: serde_json::Error,
    },
    /// The load generator.
    #[error(transparent)]
    Load(#[from] MemcachedError),
    /// What a report of `rhythm bench device` says of cohorts is none of any.
    #[error("{}: cohorts of layout {layout} cannot be simulated: {why}", path.display())]
    Cohorts {
        /// The file.
        path: PathBuf,
        /// Whose they are.
        layout: String,
        /// What is the matter.
        why: rhythm_model::Mistake,
    },
    /// The parameters of a model.
    #[error(transparent)]
    Model(#[from] ModelError),
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
    /// Of this file.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> ReproduceError {
        let path = path.to_owned();
        |source| ReproduceError::File { path, source }
    }
}
