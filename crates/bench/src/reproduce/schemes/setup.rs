//! The schemes that are compared.

use crate::reproduce::servers::{Cluster, Running};

/// Nodes of each cluster.
const NODES: usize = 3;

/// What is compared: a scheme, and whether writes wait for copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) scheme: &'static str,
    pub(super) replicate: &'static str,
    pub(super) cluster: Cluster,
    /// Which node is killed, as people are told.
    pub(super) victim: &'static str,
}

pub(super) fn setups() -> Vec<Setup> {
    let ring = |scheme, replicate, victim| Setup {
        scheme,
        replicate,
        cluster: Cluster::Ring {
            nodes: NODES,
            scheme,
            replicate,
        },
        victim,
    };
    vec![
        ring("ring", "async", "any"),
        ring("ring", "acked", "any"),
        ring("primary", "async", "the primary"),
        ring("primary", "acked", "the primary"),
        ring("chain", "acked", "any"),
        Setup {
            scheme: "keyspace",
            replicate: "on most disks",
            cluster: Cluster::Keyspace,
            victim: "the leader",
        },
    ]
}

impl Setup {
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.scheme, self.replicate)
    }

    /// The node that is to die.
    pub(super) fn victim(&self, running: &Running) -> usize {
        match self.cluster {
            Cluster::Ring { .. } => 0,
            Cluster::Keyspace => running.leader().unwrap_or(0),
        }
    }
}
