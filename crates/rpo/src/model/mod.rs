//! A model of the paper's server and its clients, to compare policies on (DESIGN: simulated).
//!
//! A discrete-event simulation: sessions arrive, their requests share cores with or without SMT
//! and a lock, a policy hears of them and switches, each switch stops everything for a moment. The
//! policy is the one that runs against real servers.

mod oracle;
mod outcome;
mod params;
mod random;
mod server;
mod simulate;
mod workload;

pub use oracle::Oracle;
pub use outcome::{Outcome, Second};
pub use params::{Custom, Kind, Kinds, Mix, Pages, Params, PowerParams, ServerParams};
pub use random::random;

pub use simulate::{Chooser, Length, Run, run};
pub use workload::Workload;

/// What can be wrong with parameters.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The text is no such file.
    #[error("the parameters cannot be read: {0}")]
    Text(#[from] toml::de::Error),
    /// A value makes no sense.
    #[error("{0} cannot be {1}")]
    Value(String, f64),
    /// A mix is not there.
    #[error("the parameters have no mix {0:?}")]
    NoMix(String),
    /// A mix asks for a page that is not there.
    #[error("mixes.{0} asks for {1:?}, which [pages] does not name")]
    NoPage(String, String),
}
