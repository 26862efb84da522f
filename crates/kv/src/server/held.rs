//! Answers of one connection that may not be sent yet: the ring has to confirm what they confirm,
//! or another node gives them. What comes behind such an answer waits for it.

use crate::ring::{Road, Unanswered};
use crate::store::Large;
use rhythm_net::{ConnectionId, Flushed, Outgoing, Part, Port, Shared};
use std::collections::VecDeque;
use std::sync::Arc;

/// Answers that wait at a time before a connection's commands do.
const PIECES_MAX: usize = 4096;
/// Places for answers that a connection keeps for the next ones when none waits.
const KEPT_MAX: usize = 16;
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
    /// The number of the last command that another node was asked before this ends: they grow.
    number: u64,
    asked: Asked,
    bytes: Vec<u8>,
    /// Bytes of the command that has no answer yet.
    command: usize,
    /// A long value, behind the bytes.
    long: Option<Arc<Large>>,
}

impl Piece {
    /// What it takes: of many that are short that is more than what is said.
    fn takes(&self) -> usize {
        let long = self.long.as_ref().map_or(0, |long| long.len());
        size_of::<Piece>() + self.command + self.bytes.len() + long
    }

    /// Whether nothing is said: it keeps those behind it, for a write that has no answer.
    fn is_silent(&self) -> bool {
        self.bytes.is_empty() && self.long.is_none()
    }
}

/// The answers that wait, in their order.
#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Answers that other nodes are to give, and how many of them to what took each road.
    asked: usize,
    roads: Vec<(Road, usize)>,
    /// The number of the last command that another was asked.
    number: u64,
    /// How many wait for a ticket.
    awaited: usize,
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

    /// What they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a command has no answer yet.
    pub(super) fn asks(&self) -> bool {
        self.asked > 0
    }

    /// Whether a command that took this road has no answer yet.
    pub(super) fn asks_by(&self, road: Road) -> bool {
        self.roads.iter().any(|(of, _)| *of == road)
    }

    /// Whether an answer waits for a ticket.
    pub(super) fn awaits_release(&self) -> bool {
        self.awaited > 0
    }

    /// Whether the connection cannot go on.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Nobody knows what becomes of what waits for any of these tickets, which are in order,
    /// whatever is released since. Of what has no answer nobody ever did.
    pub(super) fn give_up(&mut self, tickets: &[u64]) {
        for piece in &mut self.pieces {
            if let Until::Released(of) = piece.until
                && tickets.binary_search(&of).is_ok()
            {
                self.awaited -= 1;
                self.is_broken |= !piece.is_silent();
                piece.until = match piece.is_silent() {
                    true => Until::Before,
                    false => Until::Never,
                };
            }
        }
    }

    /// Appends answers.
    pub(super) fn push(&mut self, until: Until, bytes: &[u8], long: Option<Arc<Large>>) {
        self.awaited += usize::from(matches!(until, Until::Released(_)));
        self.append(Piece {
            until,
            number: self.number,
            asked: Asked::Line,
            bytes: bytes.to_vec(),
            command: 0,
            long,
        });
    }

    /// Something was written that has no answer: what follows is not to be read where that may not
    /// have come yet, before this ticket is released.
    pub(super) fn keep(&mut self, ticket: u64) {
        let until = Until::Released(ticket);
        match self.pieces.back_mut() {
            Some(last) if last.until == until => {}
            // Tickets are released in their order.
            Some(last) if last.is_silent() && matches!(last.until, Until::Released(_)) => {
                last.until = until;
            }
            _ => self.push(until, &[], None),
        }
    }

    /// Appends the place of an answer that another node gives, to a command of so many bytes.
    pub(super) fn expect(&mut self, number: u64, road: Road, asked: Asked, command: usize) {
        self.asked += 1;
        self.number = number;
        match self.roads.iter_mut().find(|(of, _)| *of == road) {
            Some((_, count)) => *count += 1,
            None => self.roads.push((road, 1)),
        }
        self.append(Piece {
            until: Until::Answered(number, road),
            number,
            asked,
            bytes: Vec::new(),
            command,
            long: None,
        });
    }

    fn append(&mut self, piece: Piece) {
        self.bytes += piece.takes();
        self.pieces.push_back(piece);
    }

    /// All tickets up to this one are released.
    pub(super) fn release(&mut self, ticket: u64) {
        for piece in &mut self.pieces {
            match piece.until {
                Until::Released(until) if until > ticket => break,
                Until::Released(_) => {
                    self.awaited -= 1;
                    piece.until = Until::Before;
                }
                _ => {}
            }
        }
    }

    /// Another node gave an answer, or there is none.
    pub(super) fn answer(&mut self, number: u64, answer: Result<Vec<u8>, Unanswered>) {
        // Those behind it, up to the next that was asked, have its number, too.
        let at = self.pieces.partition_point(|piece| piece.number < number);
        let Some((piece, road)) = self.pieces.get_mut(at).and_then(|piece| match piece.until {
            Until::Answered(of, road) if of == number => Some((piece, road)),
            _ => None,
        }) else {
            return;
        };
        self.asked -= 1;
        if let Some(at) = self.roads.iter().position(|(of, _)| *of == road) {
            self.roads[at].1 -= 1;
            if self.roads[at].1 == 0 {
                self.roads.swap_remove(at);
            }
        }
        if answer.is_err() && !matches!(piece.asked, Asked::Line | Asked::All) {
            // Nothing from here on is sent.
            self.is_broken = true;
            return;
        }
        self.bytes -= piece.takes();
        (piece.until, piece.command) = (Until::Before, 0);
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
        self.bytes += piece.takes();
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
            self.bytes -= piece.takes();
            together.extend_from_slice(&piece.bytes);
            if let Some(long) = piece.long {
                let long: Arc<dyn Shared> = long;
                let parts = [Part::Lent(&together), Part::Kept(&long, 0)];
                if out.gather(port, id, &parts) == Flushed::Gone {
                    return Flushed::Gone;
                }
                together.clear();
            }
        }
        if self.pieces.is_empty() && self.pieces.capacity() > KEPT_MAX {
            self.pieces = VecDeque::new();
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
        held.give_up(&[6, 7, 8]);
        held.release(10);
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent, b"5\r\n");
        assert!(held.is_broken());
    }

    /// Nothing is confirmed for a while, and each of its commands has a short answer.
    #[test]
    fn short_answers_are_counted_with_what_keeping_them_takes() {
        let id = ConnectionId::new(0, 0);
        let mut port = TestPort::with(id, usize::MAX);
        let (mut held, mut out) = (Held::default(), Outgoing::new());
        for ticket in 0..PIECES_MAX as u64 {
            assert!(!held.is_full());
            held.push(Until::Released(ticket), b"EN\r\n", None);
        }
        assert!(held.is_full());
        let least = PIECES_MAX * (size_of::<Piece>() + 4);
        assert!(held.bytes() >= least, "{} of {least}", held.bytes());
        held.release(PIECES_MAX as u64);
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent.len(), 4 * PIECES_MAX);
        // And then there is nothing left of it.
        assert_eq!((held.bytes(), held.pieces.capacity()), (0, 0));
    }

    #[test]
    fn of_what_waits_for_tickets_no_more_is_released_than_these() {
        let mut held = Held::default();
        for ticket in [1, 2, 3] {
            held.push(Until::Released(ticket), b"1\r\n", None);
            held.push(Until::Before, b"2\r\n", None);
        }
        for (ticket, awaited) in [(0, 3), (2, 1), (2, 1), (9, 0)] {
            held.release(ticket);
            assert_eq!(held.awaited, awaited, "{ticket}");
        }
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

    #[test]
    fn answers_come_in_whichever_order_and_are_said_in_that_of_the_commands() {
        let id = ConnectionId::new(0, 0);
        let mut port = TestPort::with(id, usize::MAX);
        let (mut held, mut out) = (Held::default(), Outgoing::new());
        let roads = [0, 1].map(Road::to_server);
        for round in 0..3 {
            for (road, number) in [(0, 1), (1, 3), (0, 4)] {
                held.expect(10 * round + number, roads[road], Asked::Line, 5);
                held.push(Until::Before, b"-", None);
            }
        }
        for (number, open) in [(14, 2), (21, 2), (3, 2), (4, 2), (11, 2), (13, 2), (24, 2)] {
            held.answer(number, Ok(number.to_string().into_bytes()));
            // One that is answered is not answered again.
            held.answer(number, Ok(b"again".to_vec()));
            let asks = roads.iter().filter(|road| held.asks_by(**road));
            assert_eq!(asks.count(), open, "{number}");
        }
        held.answer(2, Ok(b"nobody asked".to_vec()));
        held.answer(1, Ok(b"1".to_vec()));
        assert_eq!(roads.map(|road| held.asks_by(road)), [false, true]);
        held.answer(23, Ok(b"23".to_vec()));
        assert!(!held.asks() && !held.asks_by(roads[1]));
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent, b"1-3-4-11-13-14-21-23-24-");
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn what_is_written_without_an_answer_keeps_what_follows_and_says_nothing() {
        let id = ConnectionId::new(0, 0);
        let mut port = TestPort::with(id, usize::MAX);
        let (mut held, mut out) = (Held::default(), Outgoing::new());
        for ticket in 0..10_000 {
            held.keep(ticket);
        }
        assert!(!held.is_full() && held.awaits_release());
        held.push(Until::Before, b"1\r\n", None);
        held.keep(10_000);
        held.push(Until::Released(10_001), b"2\r\n", None);
        held.keep(10_001);
        held.release(9_998);
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent, b"");
        held.release(9_999);
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent, b"1\r\n");
        // Nobody knows what became of that, and nobody was told that it is done.
        held.give_up(&[10_000]);
        assert!(!held.is_broken() && held.awaits_release());
        held.release(10_001);
        assert!(!held.awaits_release());
        assert_ne!(held.flush(&mut out, &mut port, id), Flushed::Gone);
        assert_eq!(port.at(id).sent, b"1\r\n2\r\n");
        assert!(held.is_empty());
    }
}
