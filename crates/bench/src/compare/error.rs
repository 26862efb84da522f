//! Why servers are not compared.

use crate::load::LoadError;
use crate::reproduce::ReproduceError;
use std::io;
use std::path::{Path, PathBuf};

/// Why servers are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// Neither a case that there is nor a file.
    #[error("there is no case {name}: there are {known}, or name a file that ends in .toml")]
    NoCase {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A file is no case.
    #[error("{case}: {why}")]
    Case {
        /// Which.
        case: String,
        /// What is the matter with it.
        why: String,
    },
    /// Two cases would write over each other's chart.
    #[error("two cases are called {0}: measure them one by one, or rename a file")]
    Twice(String),
    /// Where the services should be that are served.
    #[error("there is no {}: run this in the repository, or name it by --root", .0.display())]
    Root(PathBuf),
    /// What all others are compared with cannot be started here.
    #[error("{server}, which the others are compared with, is not here: {why}")]
    NoFirst {
        /// Which.
        server: String,
        /// Why, and what helps.
        why: String,
    },
    /// A server does not start, or does not go on.
    #[error("{server} does not serve{}", behind(.said))]
    Server {
        /// Which.
        server: String,
        /// The end of what it said.
        said: String,
    },
    /// A page cannot be had.
    #[error("{server}: {target}: {why}")]
    Fetch {
        /// Whose.
        server: String,
        /// Which.
        target: String,
        /// Why.
        why: String,
    },
    /// A server has another page: nothing is measured.
    #[error("{target} of {server} is another page than that of {first}: {how}")]
    Differs {
        /// Which.
        target: String,
        /// Whose.
        server: String,
        /// What it is compared with.
        first: String,
        /// Where they differ.
        how: String,
    },
    /// The database of a case.
    #[error("PostgreSQL: {0}")]
    Database(String),
    /// The certificate of a case over TLS.
    #[error("no certificate could be made: {0}")]
    Certificate(String),
    /// The load.
    #[error("{server}")]
    Load {
        /// Of which server.
        server: String,
        /// Why.
        source: LoadError,
    },
    /// A temporary folder.
    #[error(transparent)]
    Folder(#[from] ReproduceError),
    /// A file.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A chart could not be drawn.
    #[error("a chart: {0}")]
    Chart(String),
    /// The report as JSON.
    #[error("the report as JSON")]
    Json(#[from] serde_json::Error),
}

fn behind(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

impl CompareError {
    /// Of this file.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> CompareError {
        let path = path.to_owned();
        |source| CompareError::File { path, source }
    }
}
