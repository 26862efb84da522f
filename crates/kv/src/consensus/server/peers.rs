//! The connections between nodes: to each other one there is one on which frames go, and from each
//! comes one. What breaks, or finds no room, is lost: `raft` sees to that.

use crate::consensus::folder::Folder;
use crate::consensus::node::Node;
use rhythm_net::{ConnectionId, ConnectionTable, Flushed, Outgoing, Peer, Port, Role, Time};
use std::time::Duration;

/// What the listener is for at which other nodes arrive.
pub(super) const OF_NODES: Role = Role(1);
/// How long after a connection failed the next is begun.
const AGAIN: Duration = Duration::from_millis(100);
/// Bytes that a connection may have untaken before frames for it are dropped, beside one frame.
const UNTAKEN_MAX: usize = 16 << 20;
/// Room that a connection keeps between frames.
const KEPT: usize = 64 << 10;

/// A connection on which frames go.
#[derive(Debug, Default)]
struct Line {
    id: Option<ConnectionId>,
    is_open: bool,
    out: Outgoing,
    again_at: Time,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Peers {
    me: usize,
    places: Vec<Peer>,
    lines: Vec<Line>,
    /// Bytes of frames that are not whole, by the connection on which they come.
    coming: ConnectionTable<Vec<u8>>,
}

impl Peers {
    pub(super) fn new(places: Vec<Peer>, me: usize) -> Peers {
        Peers {
            me,
            lines: places.iter().map(|_| Line::default()).collect(),
            places,
            coming: ConnectionTable::new(),
        }
    }

    /// Another node, or who says so, has connected.
    pub(super) fn opened(&mut self, id: ConnectionId) {
        self.coming.insert(id, Vec::new());
    }

    /// Whether it is a connection of nodes.
    pub(super) fn has(&self, id: ConnectionId) -> bool {
        self.coming.get(id).is_some() || self.lines.iter().any(|line| line.id == Some(id))
    }

    /// Hands whole frames to the node.
    pub(super) fn received(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        bytes: &[u8],
        node: &mut Node<Folder>,
    ) {
        // What comes on the others is of no interest: nothing is said there.
        let Some(coming) = self.coming.get_mut(id) else {
            return;
        };
        coming.extend_from_slice(bytes);
        let mut done = 0;
        let taken = loop {
            let rest = &coming[done..];
            match Node::<Folder>::frame_length(rest) {
                Ok(Some(length)) if length <= rest.len() => {
                    if let Err(error) = node.frame(&rest[..length]) {
                        break Err(error);
                    }
                    done += length;
                }
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        match taken {
            Ok(()) => {
                coming.drain(..done);
                if coming.is_empty() {
                    coming.shrink_to(KEPT);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of the backbone is dropped");
                self.coming.remove(id);
                port.abort(id);
            }
        }
    }

    fn line(&mut self, id: ConnectionId) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.id == Some(id))
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

    pub(super) fn ended(&mut self, id: ConnectionId, now: Time) {
        self.coming.remove(id);
        if let Some(line) = self.line(id) {
            *line = Line {
                again_at: now + AGAIN,
                ..Line::default()
            };
        }
    }

    /// Sends a frame to the node of this number, from 1.
    pub(super) fn send(&mut self, port: &mut dyn Port, to: u64, frame: &[u8]) {
        let Some(line) = self.lines.get_mut(to as usize - 1) else {
            return;
        };
        if let Some(id) = line.id
            && line.is_open
            && line.out.unsent() < UNTAKEN_MAX
            && line.out.send(port, id, frame) == Flushed::Gone
        {
            *line = Line::default();
        }
    }

    /// Begins the connections that there are not.
    pub(super) fn connect(&mut self, port: &mut dyn Port, now: Time) {
        for (node, line) in self.lines.iter_mut().enumerate() {
            if node != self.me && line.id.is_none() && line.again_at <= now {
                line.again_at = now + AGAIN;
                // Where it fails, the next try comes.
                line.id = port.connect(&self.places[node]).ok();
            }
        }
    }
}
