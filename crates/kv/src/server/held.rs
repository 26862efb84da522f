//! Answers of one connection that may not be sent yet: the ring has to confirm what they confirm,
//! or another node gives them. What comes behind such an answer waits for it.

use crate::ring::{Road, Unanswered};
use crate::store::Large;
use rhythm_net::{ConnectionId, Flushed, Outgoing, Part, Port, Shared};
use std::collections::VecDeque;
use std::sync::Arc;

/// Answers that wait at a time before a connection's commands do.
const PIECES_MAX: usize = 4096;
/// Answers of other nodes that a connection waits for at a time: each may be as long as an item,
/// and nobody knows before it is there.
const ASKED_MAX: usize = 32;
/// What behind the values of a `get` that was forwarded is not its answer's.
const END: &[u8] = b"END\r\n";

/// What is said where another node gives no answer.
const NOT_DONE: &[u8] = b"SERVER_ERROR no node serves this key now, nothing was done\r\n";
const UNKNOWN: &[u8] = b"SERVER_ERROR the node of this key is gone, it may be done yet\r\n";
const NOT_BY_ALL: &[u8] = b"SERVER_ERROR a node is gone that may not have done it\r\n";

/// What an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The answers before it alone.
    Before,
    /// This ticket is released.
    Released(u64),
    /// The answer under this number comes, to a command that took this road.
    Answered(u64, Road),
    /// It is never sent, nor is anything behind it.
    Never,
}

/// The command whose answer another node gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A key of a `get`: the end of the answer comes with the last.
    Key,
    /// A line.
    Line,
    /// One, to what is about all nodes.
    All,
    /// One that may have no answer, or a packet: it cannot be told that nobody knows.
    Quiet,
    /// One that the client does not know of: what is answered is not for it.
    Unseen,
}

#[derive(Debug)]
struct Piece {
    until: Until,
    asked: Asked,
    bytes: Vec<u8>,
    /// Bytes of the command that has no answer yet.
    command: usize,
    /// A long value, behind the bytes.
    long: Option<Arc<Large>>,
}

/// The answers that wait, in their order.
#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Answers that other nodes are to give.
    asked: usize,
    /// Nobody knows what became of a command, and its protocol has no way to say so.
    is_broken: bool,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether as many wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX || self.asked >= ASKED_MAX
    }

    /// Bytes of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a command has no answer yet.
    pub(super) fn asks(&self) -> bool {
        self.asked > 0
    }

    /// Whether a command that took this road has no answer yet.
    pub(super) fn asks_by(&self, road: Road) -> bool {
        let mut pieces = self.pieces.iter();
        self.asked > 0
            && pieces.any(|piece| matches!(piece.until, Until::Answered(_, of) if of == road))
    }

    /// Whether an answer waits for a ticket.
    pub(super) fn awaits_release(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece.until, Until::Released(_)))
    }

    /// Whether the connection cannot go on.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Nobody knows what becomes of what waits for this ticket, whatever is released since.
    pub(super) fn give_up(&mut self, ticket: u64) {
        self.is_broken = true;
        for piece in &mut self.pieces {
            if piece.until == Until::Released(ticket) {
                piece.until = Until::Never;
            }
        }
    }

    /// Appends answers.
    pub(super) fn push(&mut self, until: Until, bytes: &[u8], long: Option<Arc<Large>>) {
        self.bytes += bytes.len() + long.as_ref().map_or(0, |long| long.len());
        self.pieces.push_back(Piece {
            until,
            asked: Asked::Line,
            bytes: bytes.to_vec(),
            command: 0,
            long,
        });
    }

    /// Appends the place of an answer that another node gives, to a command of so many bytes.
    pub(super) fn expect(&mut self, number: u64, road: Road, asked: Asked, command: usize) {
        self.bytes += command;
        self.asked += 1;
        self.pieces.push_back(Piece {
            until: Until::Answered(number, road),
            asked,
            bytes: Vec::new(),
            command,
            long: None,
        });
    }

    /// All tickets up to this one are released.
    pub(super) fn release(&mut self, ticket: u64) {
        for piece in &mut self.pieces {
            if matches!(piece.until, Until::Released(until) if until <= ticket) {
                piece.until = Until::Before;
            }
        }
    }

    /// Another node gave an answer, or there is none.
    pub(super) fn answer(&mut self, number: u64, answer: Result<Vec<u8>, Unanswered>) {
        let mut pieces = self.pieces.iter_mut();
        let is = |piece: &&mut Piece| matches!(piece.until, Until::Answered(of, _) if of == number);
        let Some(piece) = pieces.find(is) else {
            return;
        };
        self.asked -= 1;
        if answer.is_err() && !matches!(piece.asked, Asked::Line | Asked::All) {
            // Nothing from here on is sent.
            self.is_broken = true;
            return;
        }
        piece.until = Until::Before;
        piece.bytes = match (answer, piece.asked) {
            (Ok(mut answer), Asked::Key) => {
                if answer.ends_with(END) {
                    answer.truncate(answer.len() - END.len());
                }
                answer
            }
            (Ok(_), Asked::Unseen) => Vec::new(),
            (Ok(answer), _) => answer,
            (Err(_), Asked::All) => NOT_BY_ALL.to_vec(),
            (Err(Unanswered::NotDone), _) => NOT_DONE.to_vec(),
            (Err(Unanswered::Unknown), _) => UNKNOWN.to_vec(),
        };
        self.bytes = self.bytes - piece.command + piece.bytes.len();
    }

    /// Sends what waits no longer.
    pub(super) fn flush(
        &mut self,
        out: &mut Outgoing,
        port: &mut dyn Port,
        id: ConnectionId,
    ) -> Flushed {
        let mut together = Vec::new();
        while let Some(piece) = self.pieces.front()
            && piece.until == Until::Before
            && let Some(piece) = self.pieces.pop_front()
        {
            self.bytes -= piece.bytes.len();
            together.extend_from_slice(&piece.bytes);
            if let Some(long) = piece.long {
                self.bytes -= long.len();
                let long: Arc<dyn Shared> = long;
                let parts = [Part::Lent(&together), Part::Kept(&long, 0)];
                if out.gather(port, id, &parts) == Flushed::Gone {
                    return Flushed::Gone;
                }
                together.clear();
            }
        }
        match together.is_empty() {
            true if out.is_empty() => Flushed::All,
            true => Flushed::Some,
            false => out.send(port, id, &together),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_net::testing::TestPort;

    /// What is said behind an answer of this node's to a command that another node got.
    fn said(asked: Asked, answer: Result<Vec<u8>, Unanswered>) -> (String, bool) {
        let id = ConnectionId::new(0, 0);
        let mut port = TestPort::with(id, usize::MAX);
        let (mut held, mut out) = (Held::default(), Outgoing::new());
        held.push(Until::Before, b"OK\r\n", None);
        held.expect(1, Road::to_server(0), asked, 5);
        held.answer(1, answer);
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        let sent = std::mem::take(&mut port.at(id).sent);
        (
            String::from_utf8_lossy(&sent).into_owned(),
            held.is_broken(),
        )
    }

    #[test]
    fn what_was_given_up_is_not_said_though_what_is_behind_it_is_released() {
        let id = ConnectionId::new(0, 0);
        let mut port = TestPort::with(id, usize::MAX);
        let (mut held, mut out) = (Held::default(), Outgoing::new());
        for ticket in [5, 7, 10] {
            let said = format!("{ticket}\r\n");
            held.push(Until::Released(ticket), said.as_bytes(), None);
        }
        held.give_up(7);
        held.release(10);
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent, b"5\r\n");
        assert!(held.is_broken());
    }

    #[test]
    fn what_has_no_answer_says_whether_it_may_be_done() {
        let answer = Ok(b"STORED\r\n".to_vec());
        let told = said(Asked::Line, answer);
        assert_eq!(told, ("OK\r\nSTORED\r\n".to_owned(), false));
        let told = said(Asked::Line, Err(Unanswered::NotDone));
        let text = "OK\r\nSERVER_ERROR no node serves this key now, nothing was done\r\n";
        assert_eq!(told, (text.to_owned(), false));
        let told = said(Asked::Line, Err(Unanswered::Unknown));
        let text = "OK\r\nSERVER_ERROR the node of this key is gone, it may be done yet\r\n";
        assert_eq!(told, (text.to_owned(), false));
        let told = said(Asked::Unseen, Ok(b"Not found".to_vec()));
        assert_eq!(told, ("OK\r\n".to_owned(), false));
        let told = said(Asked::All, Err(Unanswered::Unknown));
        let text = "OK\r\nSERVER_ERROR a node is gone that may not have done it\r\n";
        assert_eq!(told, (text.to_owned(), false));
        // Where nothing can be said, nothing is, and the connection ends.
        for asked in [Asked::Key, Asked::Quiet, Asked::Unseen] {
            let told = said(asked, Err(Unanswered::NotDone));
            assert_eq!(told, ("OK\r\n".to_owned(), true));
        }
    }
}
