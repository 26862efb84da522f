//! What comes of other nodes, on connections and in Ethernet frames: whole frames go to the node,
//! and who is refused is told so where it speaks.

use super::{Backbone, Way, frame_max};
use crate::lines::take_frames;
use crate::ring::ether::Came;
use crate::ring::wire;
use rhythm_net::{ConnectionId, Datagram, Port, Time};

/// Bytes of a frame at most by which a node says that it refuses another: it tells of 64 nodes.
const REFUSAL_MAX: usize = 64 << 10;

impl Backbone {
    /// On a connection.
    pub(super) fn came_on_line(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        bytes: &[u8],
        now: Time,
    ) {
        let Way::Tcp(lines) = &mut self.way else {
            return;
        };
        let Some(mut coming) = lines.take_coming(id, now) else {
            return self.answered(id, bytes, now);
        };
        coming.extend_from_slice(bytes);
        let from = wire::sender(&coming, self.node.terms().digest());
        let taken = self.take_frames(&mut coming, now);
        let refusal = std::mem::take(&mut self.effects.refusal);
        if let Way::Tcp(lines) = &mut self.way {
            if let Some(from) = from {
                lines.heard(port, id, from, now);
            }
            match taken {
                Ok(()) => {
                    lines.keep_coming(id, coming);
                    if !refusal.is_empty() {
                        lines.answer(port, id, &refusal);
                    }
                }
                // That is said once.
                Err(wire::WireError::Version { from, version }) => {
                    self.node.speaks_otherwise(from.into(), version, now);
                    lines.abort(port, id);
                }
                Err(error) => lines.refuse(port, id, &error, now),
            }
        }
    }

    /// In an Ethernet frame.
    pub(super) fn came_over_ethernet(
        &mut self,
        port: &mut dyn Port,
        datagram: &Datagram<'_>,
        now: Time,
    ) {
        let Way::Ether(stations) = &mut self.way else {
            return;
        };
        let (from, mut coming) = match stations.take(datagram, now) {
            Came::Nothing => return,
            Came::Otherwise {
                from,
                digest,
                theirs,
            } => {
                // Over Ethernet it does not say whether it serves something: it may.
                if self.node.refuse(from, digest, theirs, true, now) {
                    stations.greet(port, datagram.peer, from);
                }
                return;
            }
            Came::Another { from, session } => {
                if self.node.hears_another(from, session, now) {
                    stations.refuse(port, datagram.peer, from);
                }
                return;
            }
            Came::Refused { by, session, at } => {
                let at = String::from_utf8_lossy(at);
                self.node.refused_by(by, session, &at, now);
                return;
            }
            Came::Met(from) => {
                self.node.connected(from, now);
                (from, stations.take_coming(from))
            }
            Came::From(from) => (from, stations.take_coming(from)),
        };
        self.node.heard(from, now);
        let taken = self.take_frames(&mut coming, now);
        match &taken {
            Ok(()) => {}
            Err(wire::WireError::Version { version, .. }) => {
                self.node.speaks_otherwise(from, *version, now);
            }
            Err(error) => {
                if let Some(left_out) = self.refusals.line(now) {
                    let node = from + 1;
                    tracing::warn!(%error, node, left_out, "what a node sends is dropped");
                }
            }
        }
        if let Way::Ether(stations) = &mut self.way {
            stations.keep_coming(from, coming, taken.is_ok());
        }
    }

    /// Takes the whole frames off the front of what came from another node.
    fn take_frames(&mut self, coming: &mut Vec<u8>, now: Time) -> Result<(), wire::WireError> {
        let most = frame_max(&self.shared);
        let length = |bytes: &[u8]| wire::length(bytes, most);
        let taken = take_frames(coming, most.min(1 << 20), length, |frame| {
            self.with(|node, local, now, out| node.frame(frame, local, now, out));
            Ok(())
        });
        // A long frame may take a while.
        if let Some(from) = wire::sender(coming, self.node.terms().digest()) {
            self.node.heard(from, now);
        }
        taken
    }

    /// Who a line goes to says something on it: that it refuses this node.
    fn answered(&mut self, id: ConnectionId, bytes: &[u8], now: Time) {
        let (Way::Tcp(lines), node) = (&mut self.way, &mut self.node) else {
            return;
        };
        let Some(mut answer) = lines.take_answer(id) else {
            return;
        };
        answer.extend_from_slice(bytes);
        let length = |bytes: &[u8]| wire::length(bytes, REFUSAL_MAX);
        let taken = take_frames(&mut answer, 0, length, |frame| {
            node.answered(frame, now);
            Ok(())
        });
        // What is none is not kept.
        if taken.is_ok() {
            lines.keep_answer(id, answer);
        }
    }
}
