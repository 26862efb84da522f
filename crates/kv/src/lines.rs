//! A node's TCP connections to and from the others: to each other node there is one on which frames
//! go, and from each comes one. Where one breaks, its frames are lost.
//!
//! A line on which nothing gets through for [`UNACKNOWLEDGED_MAX`] is given up by the system, and
//! begun anew: one that TCP has backed off on would stay silent long after the network is well
//! again. Who connects beyond as many as there should be takes the place of who was silent longest.

use rhythm_net::sparse::Sparse;
use rhythm_net::{
    Accepted, Client, ConnectionId, ConnectionTable, Ended, Flushed, Outgoing, Peer, Port, Sent,
    Time,
};
use std::fmt::Display;
use std::time::Duration;

/// For how long a line may be without acknowledgment of what was sent: for the options of the
/// driver that these connections are on.
pub(crate) const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(2);
/// How long after a connection failed the next is begun.
const AGAIN: Duration = Duration::from_millis(100);
/// Connections that may come, for each node: each has one, and a new one before its last is seen to
/// be gone.
const COMING_MAX: usize = 3;

/// A connection on which frames go.
#[derive(Debug, Default)]
struct Line {
    id: Option<ConnectionId>,
    is_open: bool,
    out: Outgoing,
    again_at: Time,
    /// What came on it, and is no whole frame yet.
    answer: Vec<u8>,
}

/// A connection on which frames come.
#[derive(Debug)]
struct Coming {
    /// What is no whole frame yet.
    bytes: Vec<u8>,
    heard_at: Time,
    from: Client,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Lines {
    me: usize,
    /// Where each place's node is, if there is one.
    peers: Vec<Option<Peer>>,
    lines: Vec<Line>,
    coming: ConnectionTable<Coming>,
    untaken_max: usize,
    /// Lines of the log about what is no good.
    refusals: Sparse,
}

impl Lines {
    /// Those of the node in place `me`. Frames for who has more than `untaken_max` bytes untaken
    /// are lost.
    pub(crate) fn new(me: usize, peers: Vec<Option<Peer>>, untaken_max: usize) -> Lines {
        Lines {
            me,
            lines: peers.iter().map(|_| Line::default()).collect(),
            peers,
            coming: ConnectionTable::new(),
            untaken_max,
            refusals: Sparse::default(),
        }
    }

    /// These nodes are in these places now.
    pub(crate) fn enlist(&mut self, port: &mut dyn Port, peers: Vec<Option<Peer>>) {
        debug_assert_eq!(peers.len(), self.peers.len(), "places stay");
        for ((line, known), peer) in self.lines.iter_mut().zip(&mut self.peers).zip(peers) {
            // Whoever is there now is another.
            if peer != *known {
                std::mem::take(line).id.inspect(|id| port.abort(*id));
                *known = peer;
            }
        }
    }

    /// Whether it is a connection of nodes.
    #[cfg(feature = "consensus")]
    pub(crate) fn has(&self, id: ConnectionId) -> bool {
        self.coming.get(id).is_some() || self.lines.iter().any(|line| line.id == Some(id))
    }

    /// Whether all that was to be sent is on its way.
    pub(crate) fn are_empty(&self) -> bool {
        self.lines.iter().all(|line| line.out.is_empty())
    }

    /// Sends frames, if there are some, to the node in this place, or begins a connection to it.
    pub(crate) fn send(&mut self, port: &mut dyn Port, node: usize, frames: &[u8], now: Time) {
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

    /// Says something to who opened a connection, where it takes that at once: it cannot be reached
    /// otherwise, maybe. It reads it as an [answer](Self::take_answer).
    pub(crate) fn answer(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8]) {
        if self.coming.get(id).is_none() {
            return;
        }
        match port.send(id, bytes) {
            Sent::Taken(count) if count == bytes.len() => {}
            // What would come next would not be read.
            Sent::Taken(_) => self.abort(port, id),
            Sent::Gone => drop(self.coming.remove(id)),
        }
    }

    /// The bytes that came on a line from who it goes to, and that are no whole frame yet, to be
    /// [kept](Self::keep_answer) again.
    pub(crate) fn take_answer(&mut self, id: ConnectionId) -> Option<Vec<u8>> {
        let line = self.line(id)?;
        Some(std::mem::take(&mut line.answer))
    }

    pub(crate) fn keep_answer(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        if let Some(line) = self.line(id) {
            line.answer = bytes;
        }
    }

    fn line(&mut self, id: ConnectionId) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.id == Some(id))
    }

    /// Another node, or who says so, opened a connection.
    pub(crate) fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        if self.coming.len() >= COMING_MAX * self.lines.len() {
            let silent = self.coming.iter().min_by_key(|(_, coming)| coming.heard_at);
            if let Some(silent) = silent.map(|(id, _)| id) {
                self.abort(port, silent);
            }
        }
        let coming = Coming {
            bytes: Vec::new(),
            heard_at: now,
            from: accepted.peer,
        };
        self.coming.insert(accepted.connection, coming);
    }

    /// The bytes of a connection on which some came now, and that are no whole frame yet, to be
    /// [kept](Self::keep_coming) again.
    pub(crate) fn take_coming(&mut self, id: ConnectionId, now: Time) -> Option<Vec<u8>> {
        let coming = self.coming.get_mut(id)?;
        coming.heard_at = now;
        Some(std::mem::take(&mut coming.bytes))
    }

    pub(crate) fn keep_coming(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        if let Some(coming) = self.coming.get_mut(id) {
            coming.bytes = bytes;
        }
    }

    /// What comes on a connection is no good: it is closed, and that is said.
    pub(crate) fn refuse(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        error: &dyn Display,
        now: Time,
    ) {
        self.complain(id, error, now);
        self.abort(port, id);
    }

    /// What comes on a connection is no good, as is known: it is closed behind a last word.
    #[cfg(feature = "consensus")]
    pub(crate) fn dismiss(&mut self, port: &mut dyn Port, id: ConnectionId, word: &[u8]) {
        self.answer(port, id, word);
        if self.coming.remove(id).is_some() {
            port.close(id);
        }
    }

    /// Says in the log that what comes on a connection is no good.
    pub(crate) fn complain(&mut self, id: ConnectionId, error: &dyn Display, now: Time) {
        if let Some(coming) = self.coming.get(id)
            && let Some(left_out) = self.refusals.line(now)
        {
            let from = coming.from;
            tracing::warn!(%error, %from, left_out, "a connection of the backbone is dropped");
        }
    }

    fn abort(&mut self, port: &mut dyn Port, id: ConnectionId) {
        port.abort(id);
        self.coming.remove(id);
    }

    pub(crate) fn connected(&mut self, id: ConnectionId) {
        if let Some(line) = self.line(id) {
            line.is_open = true;
        }
    }

    pub(crate) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(line) = self.line(id)
            && line.out.writable(port, id) == Flushed::Gone
        {
            *line = Line::default();
        }
    }

    pub(crate) fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
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

/// Takes the whole frames off the front of what came, whose `length` is to be seen or not, and
/// keeps no more than `kept` bytes of room when nothing is left.
///
/// # Errors
/// What begins there is no frame, or `take` cannot take it.
pub(crate) fn take_frames<E>(
    coming: &mut Vec<u8>,
    kept: usize,
    length: impl Fn(&[u8]) -> Result<Option<usize>, E>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = &coming[..];
    let taken = loop {
        match length(rest) {
            Ok(Some(length)) if length <= rest.len() => {
                let (frame, behind) = rest.split_at(length);
                if let Err(error) = take(frame) {
                    break Err(error);
                }
                rest = behind;
            }
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let done = coming.len() - rest.len();
    coming.drain(..done);
    if coming.is_empty() {
        coming.shrink_to(kept);
    }
    taken
}
