//! What a controller is made of, and why one ends.

use super::hardware::Hardware;
use super::state::{State, StateError};
use super::telling::Status;
use crate::classifier::Classifier;
use crate::collector::{Counting, DatagramError, Form};
use crate::cpus::CpuSet;
use crate::policy::Policy;
use crate::switcher::{SwitchError, Switcher};
use rhythm_net::Listener;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// What a controller is made of.
pub struct Parts {
    /// Switches.
    pub switcher: Box<dyn Switcher>,
    /// The server's CPUs, one a core.
    pub fewer: CpuSet,
    /// Says which these are among those that it can have, when that has changed (CPUs went offline,
    /// or came back); none where they are named by hand.
    pub choose: Option<Choose>,
    /// Says which class a request is of.
    pub classifier: Classifier,
    /// Chooses.
    pub policy: Box<dyn Policy + Send>,
    /// Files with rings. One that is not there is looked for again.
    pub rings: Vec<PathBuf>,
    /// Sockets that are told of requests by, and their permissions.
    pub datagrams: Vec<(PathBuf, u32, Form)>,
    /// Servers in this process, which are watched by what they count.
    pub counting: Vec<Box<dyn Counting>>,
    /// Counters of the server's CPUs, where there are any.
    pub hardware: Option<Hardware>,
    /// Nothing is switched.
    pub only_watches: bool,
    /// Gets what there is to tell, for who runs it.
    pub told: Status,
    /// What has to be put back, and by which command the guardian is started; none where nothing is
    /// switched, or what is switched ends with this process.
    pub state: Option<(State, Command)>,
    /// Called when the server is another one, before that is switched: keeps other controllers from
    /// it.
    pub claim: Option<Claim>,
    /// Where it tells of itself, and by which names it may be asked.
    pub admin: Option<(Listener, Vec<String>)>,
}

/// One CPU a core of these; none where that is not known, or there is nothing to choose.
pub type Choose = Box<dyn Fn(&CpuSet) -> Option<CpuSet> + Send>;

/// Keeps other controllers from what is switched, as that is named now.
pub type Claim = Box<dyn FnMut() -> Result<(), Box<dyn Error + Send + Sync>> + Send>;

/// Why a controller ends, or the server has all its CPUs for now.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// What has to be put back is not known, or cannot be put back.
    #[error(transparent)]
    State(#[from] StateError),
    /// A socket cannot be bound.
    #[error(transparent)]
    Datagrams(#[from] DatagramError),
    /// What is switched cannot be made ready for that.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// Another controller has it, or that cannot be told.
    #[error("the server was started again, and is not this controller's alone")]
    Claim(#[source] Box<dyn Error + Send + Sync>),
    /// The system has no resources for it.
    #[error("cannot start {what}")]
    Start {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}
