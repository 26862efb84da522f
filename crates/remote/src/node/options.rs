//! How a node is run, and what makes its executors.

use crate::bundle::StageMax;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_net::Waker;
use rhythm_venice::secret::Secret;
use std::net::SocketAddr;
use std::sync::Arc;

/// Makes an executor, on the thread that it is for, whose lanes may ask for so much. It wakes the
/// thread when it has finished something. One that runs stages on this thread is to end a pass of
/// them when it has done enough: between passes the node hears others, and they have their turns.
///
/// An error says in words why there is none.
pub type ExecutorFactory =
    Arc<dyn Fn(LaneLimits, Waker) -> Result<Box<dyn Executor>, String> + Send + Sync>;

/// Who may use a node.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whoever reaches it.
    Anybody,
    /// Who has this, too.
    Key(Secret),
    /// Who has a loan that an agent grants: the node is its
    /// [`Lender`](rhythm_venice::agent::Lender).
    Loans,
}

/// How a node is run.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Where front ends connect.
    pub listen: SocketAddr,
    /// Threads, each with executors of its own.
    pub threads: usize,
    /// Who may use it.
    pub access: Access,
    /// Cohorts that a connection may have under way.
    pub in_flight: usize,
    /// Connections of each thread at most.
    pub connections_max: usize,
    /// Bytes that each thread keeps of cohorts that wait, and of answers that are not taken yet.
    pub held_max: usize,
    /// What services may ask for, for a request in a stage. One that may ask for more is not taken.
    pub stage_max: StageMax,
}

/// What of it a thread holds to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) in_flight: usize,
    pub(super) held_max: usize,
}
