//! The thread: events to clients and peers, and at a turn's end all that came to the node.

use super::clients::{Asks, Clients};
use super::peers::{OF_NODES, Peers};
use crate::consensus::folder::Folder;
use crate::consensus::node::{Effects, Node, Request, Ticket};
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Peer, Port, Time};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// See the head of this file.
pub(super) struct Worker {
    own: Own,
    clients: Clients,
    peers: Peers,
    effects: Effects,
    /// Who was last said to lead.
    leader: u64,
    has_failed: bool,
    failure: Arc<Mutex<Option<io::Error>>>,
}

/// The node, as clients see it.
struct Own {
    node: Node<Folder>,
    names: Vec<Arc<str>>,
    me: usize,
    now: Time,
}

impl Asks for Own {
    fn has_room(&self) -> bool {
        self.node.has_room()
    }

    fn ask(&mut self, ticket: Ticket, request: Request) {
        self.node.ask(ticket, request, self.now);
    }

    fn stats(&mut self) -> String {
        let status = self.node.status();
        let keyspace = self.node.keyspace();
        let leader = match status.leader {
            0 => "",
            leader => &self.names[leader as usize - 1],
        };
        [
            ("node", self.names[self.me].to_string()),
            ("leader", leader.to_owned()),
            ("term", status.term.to_string()),
            ("committed", status.committed.to_string()),
            ("applied", status.applied.to_string()),
            ("revision", keyspace.revision().to_string()),
            ("disk_full", u8::from(status.is_full).to_string()),
            ("curr_items", keyspace.len().to_string()),
            ("bytes", keyspace.bytes().to_string()),
            ("sessions", keyspace.sessions().len().to_string()),
        ]
        .map(|(name, value)| format!("STAT {name} {value}\r\n"))
        .concat()
            + "END\r\n"
    }
}

impl Worker {
    pub(super) fn new(
        node: Node<Folder>,
        places: Vec<Peer>,
        me: usize,
        failure: Arc<Mutex<Option<io::Error>>>,
    ) -> Worker {
        let names = places.iter().map(|peer| Arc::clone(&peer.name)).collect();
        Worker {
            own: Own {
                node,
                names,
                me,
                now: Time::ZERO,
            },
            clients: Clients::new(),
            peers: Peers::new(places, me),
            effects: Effects::default(),
            leader: 0,
            has_failed: false,
            failure,
        }
    }

    /// Has the node do what there is to do, until clients have no more.
    fn flush(&mut self, port: &mut dyn Port, now: Time) -> io::Result<()> {
        loop {
            self.own.node.flush(now, &mut self.effects)?;
            for (to, frame) in self.effects.frames.drain(..) {
                self.peers.send(port, to, &frame);
            }
            if std::mem::take(&mut self.effects.skipped) {
                self.clients.skipped(port);
            }
            let goes_on = !self.effects.answers.is_empty();
            // Answers first: a watch that begins with one hears of what comes behind it.
            for (ticket, answer) in self.effects.answers.drain(..) {
                self.clients.answered(port, ticket, answer, &mut self.own);
            }
            if !self.effects.changes.is_empty() {
                self.clients.changed(port, &self.effects.changes);
                self.effects.changes.clear();
            }
            self.clients.resume(port, &mut self.own);
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn tell_leader(&mut self) {
        let status = self.own.node.status();
        if status.leader != self.leader {
            self.leader = status.leader;
            match self.leader {
                0 => tracing::warn!(term = status.term, "no node leads the keyspace"),
                leader => {
                    let name = &*self.own.names[leader as usize - 1];
                    tracing::info!(term = status.term, leader = name, "the keyspace is led");
                }
            }
        }
    }
}

impl Handler for Worker {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        match accepted.role {
            OF_NODES => self.peers.opened(accepted.connection),
            _ => self.clients.opened(accepted.connection),
        }
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.own.now = now;
        match self.peers.has(id) {
            true => self.peers.received(port, id, bytes, &mut self.own.node),
            false => self.clients.received(port, id, bytes, &mut self.own),
        }
    }

    fn connected(&mut self, _: &mut dyn Port, id: ConnectionId, _: Time) {
        self.peers.connected(id);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.own.now = now;
        self.peers.writable(port, id);
        self.clients.writable(port, id, &mut self.own);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.own.now = now;
        match how {
            Ended::PeerFinished if self.peers.has(id) => port.abort(id),
            Ended::PeerFinished => return self.clients.finished(port, id, &mut self.own),
            Ended::Failed(_) => {}
        }
        self.peers.ended(id, now);
        self.clients.gone(id);
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        self.own.node.tick(now);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.own.now = now;
        self.peers.connect(port, now);
        if let Err(error) = self.flush(port, now) {
            tracing::error!(%error, "the journal cannot be written: the node ends");
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = Some(error);
            self.has_failed = true;
        }
        self.tell_leader();
    }

    fn wake_at(&self) -> Option<Time> {
        Some(self.own.node.wake_at())
    }

    fn finished(&self) -> bool {
        self.has_failed
    }
}

impl rhythm_net::Worker for Worker {
    type Command = Infallible;
}
