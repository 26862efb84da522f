//! A node's TCP connections to and from the others: to each other node there is one on which frames
//! go, and from each comes one. Where one breaks, its frames are lost.
//!
//! A line on which nothing gets through for [`UNACKNOWLEDGED_MAX`] is given up by the system, and
//! begun anew: one that TCP has backed off on would stay silent long after the network is well
//! again. Who connects beyond as many as there should be takes the place of who was silent longest,
//! of those of whom it is not seen yet whose they are, if there are some.

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
/// How long after a connection failed the next is begun, unless the other is heard before.
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
    /// Whose it is has been seen.
    is_known: bool,
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

    /// The place to which a connection goes, if it is a line.
    #[cfg(feature = "consensus")]
    pub(crate) fn place(&self, id: ConnectionId) -> Option<usize> {
        self.lines.iter().position(|line| line.id == Some(id))
    }

    /// Whether the line to the node in this place stands.
    #[cfg(feature = "consensus")]
    pub(crate) fn is_open(&self, node: usize) -> bool {
        self.lines[node].is_open
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

    /// Whether it is one that comes, and has been [heard](Self::heard).
    #[cfg(feature = "consensus")]
    pub(crate) fn is_known(&self, id: ConnectionId) -> bool {
        self.coming.get(id).is_some_and(|coming| coming.is_known)
    }

    /// Another node, or who says so, opened a connection.
    pub(crate) fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        if self.coming.len() >= COMING_MAX * self.lines.len() {
            // Who has shown that it is a node may be silent for long: it is there.
            let all = self.coming.iter();
            let silent = all.min_by_key(|(_, coming)| (coming.is_known, coming.heard_at));
            if let Some(silent) = silent.map(|(id, _)| id) {
                self.abort(port, silent);
            }
        }
        let coming = Coming {
            bytes: Vec::new(),
            heard_at: now,
            from: accepted.peer,
            is_known: false,
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

    /// What comes on a connection is of the node in this place. With the first of it that node is
    /// seen to be there: the line to it is begun, or anew where it was begun before that and nobody
    /// has answered.
    pub(crate) fn heard(&mut self, port: &mut dyn Port, id: ConnectionId, node: usize, now: Time) {
        let Some(coming) = self.coming.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut coming.is_known, true) {
            return;
        }
        let Some(line) = self.lines.get_mut(node).filter(|line| !line.is_open) else {
            return;
        };
        match line.id {
            None => line.again_at = Time::ZERO,
            Some(id) if line.again_at <= now => {
                port.abort(id);
                *line = Line::default();
            }
            Some(_) => {}
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

    /// What comes on a connection is no good, as was said: it is closed.
    pub(crate) fn abort(&mut self, port: &mut dyn Port, id: ConnectionId) {
        port.abort(id);
        self.coming.remove(id);
    }

    /// A connection stands. The place to which it goes, if it is a line: what was sent there before
    /// is lost.
    pub(crate) fn connected(&mut self, id: ConnectionId) -> Option<usize> {
        let mut lines = self.lines.iter_mut();
        let node = lines.position(|line| line.id == Some(id))?;
        self.lines[node].is_open = true;
        Some(node)
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

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_net::testing::TestPort;
    use rhythm_net::{Client, Role};
    use std::io;

    const OTHER: usize = 1;

    fn at(milliseconds: u64) -> Time {
        Time::from_nanos(1_000_000 * milliseconds)
    }

    fn lines() -> Lines {
        let peer = |port| Some(Peer::tcp("node", ([127, 0, 0, 1], port).into()));
        Lines::new(0, vec![peer(1), peer(2)], 1 << 20)
    }

    /// The other opens a connection, and says something.
    fn hear(lines: &mut Lines, port: &mut TestPort, slot: u32, now: Time) {
        let connection = ConnectionId::new(slot, 7);
        port.accept(connection);
        let peer = Client::At(([127, 0, 0, 1], 99).into());
        let role = Role::default();
        let accepted = Accepted {
            connection,
            role,
            peer,
        };
        lines.opened(port, accepted, now);
        for _ in 0..2 {
            lines.heard(port, connection, OTHER, now);
        }
    }

    #[test]
    fn a_line_to_who_is_heard_is_begun_at_once_and_else_not_again_soon() {
        let (mut lines, mut port) = (lines(), TestPort::default());
        lines.send(&mut port, OTHER, b"", at(0));
        let refused = Ended::Failed(io::ErrorKind::ConnectionRefused);
        lines.ended(&mut port, ConnectionId::new(1, 0), refused, at(1));
        lines.send(&mut port, OTHER, b"", at(50));
        assert_eq!(port.connects, 1);
        hear(&mut lines, &mut port, 100, at(50));
        lines.send(&mut port, OTHER, b"lost", at(50));
        assert_eq!(port.connects, 2);
        // Where what was lost is to be sent again is said.
        let id = ConnectionId::new(2, 0);
        port.at(id).open = true;
        assert_eq!(lines.connected(id), Some(OTHER));
        assert_eq!(lines.connected(ConnectionId::new(9, 0)), None);
        lines.send(&mut port, OTHER, b"comes", at(51));
        assert_eq!(port.at(id).sent, b"comes");
        // A line that stands stays.
        hear(&mut lines, &mut port, 101, at(5000));
        lines.send(&mut port, OTHER, b", too", at(5000));
        assert_eq!(
            (port.connects, &port.at(id).sent[..]),
            (2, &b"comes, too"[..])
        );
    }

    /// Its machine was not there when it was begun.
    #[test]
    fn a_line_that_nobody_answers_is_begun_anew_when_the_other_is_heard() {
        let (mut lines, mut port) = (lines(), TestPort::default());
        lines.send(&mut port, OTHER, b"", at(0));
        // That may be answered yet.
        hear(&mut lines, &mut port, 100, at(10));
        lines.send(&mut port, OTHER, b"", at(10));
        assert_eq!(port.connects, 1);
        hear(&mut lines, &mut port, 101, at(1000));
        lines.send(&mut port, OTHER, b"", at(1000));
        assert_eq!((port.connects, port.aborted.len()), (2, 1));
    }
}
