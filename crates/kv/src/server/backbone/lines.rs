//! The backbone over TCP: to each other node there is a connection on which frames go, and from
//! each comes one. Where one breaks, its frames are lost.

use crate::membership::Membership;
use crate::ring::Member;
use rhythm_net::{ConnectionId, ConnectionTable, Ended, Flushed, Outgoing, Peer, Port, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after a connection failed the next is begun.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection on which frames go.
#[derive(Debug, Default)]
struct Line {
    id: Option<ConnectionId>,
    is_open: bool,
    out: Outgoing,
    again_at: Time,
}

/// The connections to and from the others.
pub(super) struct Lines {
    me: usize,
    /// Where each place's node is, if there is one.
    peers: Vec<Option<Peer>>,
    lines: Vec<Line>,
    /// Bytes of frames that are not whole, by the connection on which they come.
    coming: ConnectionTable<Vec<u8>>,
    untaken_max: usize,
}

impl Lines {
    pub(super) fn new(ring: &Membership, untaken_max: usize) -> Lines {
        let places = ring.roster().places();
        Lines {
            me: ring.me,
            peers: (0..places).map(|node| peer(&ring.members, node)).collect(),
            lines: (0..places).map(|_| Line::default()).collect(),
            coming: ConnectionTable::new(),
            untaken_max,
        }
    }

    /// These nodes are there now.
    pub(super) fn enlist(&mut self, port: &mut dyn Port, members: &BTreeMap<usize, Member>) {
        for (node, (line, known)) in self.lines.iter_mut().zip(&mut self.peers).enumerate() {
            let peer = peer(members, node);
            // Whoever is there now is another.
            if peer != *known {
                std::mem::take(line).id.inspect(|id| port.abort(*id));
                *known = peer;
            }
        }
    }

    /// Whether all that was to be sent is on its way.
    pub(super) fn are_empty(&self) -> bool {
        self.lines.iter().all(|line| line.out.is_empty())
    }

    /// Sends frames to a node, or begins a connection to it.
    pub(super) fn send(&mut self, port: &mut dyn Port, node: usize, frames: &[u8], now: Time) {
        if node == self.me {
            return;
        }
        let line = &mut self.lines[node];
        match line.id {
            None if line.again_at <= now => {
                line.again_at = now + AGAIN;
                // Where it fails, the next try comes.
                let peer = self.peers[node].as_ref();
                line.id = peer.and_then(|peer| port.connect(peer).ok());
            }
            // What finds no room is lost, as any frame may be.
            Some(id)
                if line.is_open
                    && !frames.is_empty()
                    && line.out.unsent() < self.untaken_max
                    && line.out.send(port, id, frames) == Flushed::Gone =>
            {
                *line = Line::default();
            }
            _ => {}
        }
    }

    fn line(&mut self, id: ConnectionId) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.id == Some(id))
    }

    /// Another node opened a connection.
    pub(super) fn opened(&mut self, id: ConnectionId) {
        self.coming.insert(id, Vec::new());
    }

    /// The bytes of a connection that are no whole frame yet, to be
    /// [kept](Self::keep_coming) again.
    pub(super) fn take_coming(&mut self, id: ConnectionId) -> Option<Vec<u8>> {
        self.coming.get_mut(id).map(std::mem::take)
    }

    pub(super) fn keep_coming(&mut self, id: ConnectionId, coming: Vec<u8>) {
        if let Some(kept) = self.coming.get_mut(id) {
            *kept = coming;
        }
    }

    /// What comes on a connection is no good.
    pub(super) fn abort(&mut self, port: &mut dyn Port, id: ConnectionId) {
        port.abort(id);
        self.coming.remove(id);
    }

    pub(super) fn connected(&mut self, id: ConnectionId) {
        if let Some(line) = self.line(id) {
            line.is_open = true;
        }
    }

    pub(super) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(line) = self.line(id)
            && line.out.writable(port, id) == Flushed::Gone
        {
            *line = Line::default();
        }
    }

    pub(super) fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        if how == Ended::PeerFinished {
            port.abort(id);
        }
        self.coming.remove(id);
        if let Some(line) = self.line(id) {
            *line = Line {
                again_at: now + AGAIN,
                ..Line::default()
            };
        }
    }
}

/// Where the node of a place is, if there is one.
fn peer(members: &BTreeMap<usize, Member>, node: usize) -> Option<Peer> {
    let member = members.get(&node)?;
    Some(Peer::tcp(member.name.as_str(), member.backbone))
}
