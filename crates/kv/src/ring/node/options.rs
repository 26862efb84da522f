//! How a node behaves.

use super::super::scheme::{Elsewhere, Scheme};
use std::time::Duration;

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How copies are kept.
    pub scheme: Scheme,
    /// What becomes of reads of what another node serves; none: what the scheme says.
    pub elsewhere: Option<Elsewhere>,
    /// How many nodes have what one serves, beside it.
    pub replicas: usize,
    /// Writes are confirmed to clients when the targets have them.
    pub acked: bool,
    /// How often every other node is sent a frame.
    pub heartbeat: Duration,
    /// One that is silent for so long is dead.
    pub dead_after: Duration,
    /// A node that began, and has not heard of all others for so long, goes on without them.
    pub settled_after: Duration,
    /// One that acknowledges nothing for so long, where something is under way, is, too.
    pub stuck_after: Duration,
    /// Frames that are not acknowledged are sent again after so long.
    pub again_after: Duration,
    /// Bytes of messages that a neighbor may have under way to this node.
    pub window: u32,
    /// Bytes that one neighbor may not have taken before writes wait.
    pub queue_max: usize,
    /// Bytes a second of ranges that are sent to nodes that do not have them.
    pub sync_rate: usize,
    /// Nodes have leases of this length, and nobody takes what one that has its lease serves; none:
    /// one that is silent is dead.
    pub lease: Option<Duration>,
    /// How long a command waits until it is known who serves its key.
    pub patience: Duration,
}

impl Options {
    /// Whether all copies that are complete are read.
    pub(super) fn reads_copies(&self) -> bool {
        let elsewhere = self.elsewhere.unwrap_or(self.scheme.elsewhere());
        elsewhere == Elsewhere::Serve && !self.scheme.is_chain()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            scheme: Scheme::Ring,
            elsewhere: None,
            replicas: 1,
            acked: false,
            heartbeat: Duration::from_millis(50),
            dead_after: Duration::from_millis(500),
            settled_after: Duration::from_secs(2),
            stuck_after: Duration::from_secs(2),
            again_after: Duration::from_millis(200),
            window: 1 << 20,
            queue_max: 8 << 20,
            sync_rate: 64 << 20,
            lease: None,
            patience: Duration::from_secs(2),
        }
    }
}
