//! How far a connection is: whose it is, or what it still has to show.

use crate::name::NodeName;
use crate::secret::Nonce;
use rhythm_net::Time;
use std::time::Duration;

/// How long a greeting may take.
const WITHIN: Duration = Duration::from_secs(5);

/// How far a connection is.
#[derive(Clone, Debug)]
pub(super) enum Connection {
    /// Nothing came yet.
    New { until: Time },
    /// It was asked for a proof over these.
    Asked {
        until: Time,
        theirs: Nonce,
        ours: Nonce,
    },
    /// It has shown a certificate of this node.
    Certified { until: Time, name: NodeName },
    /// It has the secret, but has not said who it is; or it can be only this node.
    Proven { until: Time, name: Option<NodeName> },
    /// It is this node's.
    Node(NodeName),
}

impl Connection {
    pub(super) fn begin(now: Time) -> Connection {
        let until = now + WITHIN;
        Connection::New { until }
    }

    /// When it is closed unless more comes.
    pub(super) fn until(&self) -> Option<Time> {
        match self {
            Connection::New { until }
            | Connection::Asked { until, .. }
            | Connection::Certified { until, .. }
            | Connection::Proven { until, .. } => Some(*until),
            Connection::Node(_) => None,
        }
    }
}
