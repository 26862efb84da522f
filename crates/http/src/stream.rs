//! Answers in pieces: begun with a head, appended to, finished (RFC 9112, sections 6 and 7).
//!
//! ```text
//!   begin ---> append ... append ---> finish          the next answer's turn
//!     |          | Wait: more is unsent than the client's budget; go on when it has room
//!     |          | Gone: nobody is there to read it
//!     +----------+---> abandon: the connection ends in this answer's place
//! ```
//!
//! Before its turn an answer's pieces are kept in its connection, within the same budget.

use crate::answer::{AnswerShape, AnswerSlot};
use crate::clients::Clients;
use crate::connection::{Pending, Progress};
use rhythm_net::{Port, Time};
use rhythm_protocol::http::response::has_no_content;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length, of which so many bytes are left.
    Length(u64),
    /// In chunks.
    Chunked,
    /// By the connection's end: to a client of HTTP/1.0, which knows no chunks.
    Close,
    /// There is none, whatever is appended: an answer to `HEAD`, or of a status without content.
    None,
}

impl Framing {
    /// How a body of this length, if that is known, is framed.
    pub(crate) fn of(status: u16, length: Option<u64>, shape: AnswerShape) -> Framing {
        match length {
            _ if shape.head_only || has_no_content(status) => Framing::None,
            Some(length) => Framing::Length(length),
            None if shape.http10 => Framing::Close,
            None => Framing::Chunked,
        }
    }

    /// Appends a piece of the body.
    fn write(self, piece: &[u8], out: &mut Vec<u8>) {
        match self {
            Framing::None => {}
            Framing::Length(_) | Framing::Close => out.extend_from_slice(piece),
            // An empty chunk would be the last.
            Framing::Chunked if piece.is_empty() => {}
            Framing::Chunked => {
                write_hex(piece.len(), out);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// What ends the body.
    fn end(self) -> &'static [u8] {
        match self {
            Framing::Chunked => b"0\r\n\r\n",
            Framing::Length(_) | Framing::Close | Framing::None => b"",
        }
    }
}

fn write_hex(number: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    let digit = |at: u32| b"0123456789abcdef"[number >> (4 * at) & 15];
    out.extend((0..digits).rev().map(digit));
}

/// Whether whoever produces bytes is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// There is room for more.
    More,
    /// Not until told that there is room again.
    Wait,
    /// Nobody waits for them any more.
    Gone,
}

impl Clients {
    /// Takes note that a request that was taken is answered later, by a host: that is told when the
    /// client goes away ([`Clients::next_gone`]). Nothing happens if it is answered, or begun.
    pub fn await_host(&mut self, slot: AnswerSlot) {
        if let Some(connection) = self.connections.get_mut(slot.connection)
            && connection.owes(slot.ordinal)
        {
            let pending = Pending::new(slot.ordinal, Progress::Awaited, Vec::new(), false);
            connection.pending.push(pending);
        }
    }

    /// Begins an answer whose body comes in pieces. `head` appends all of the head.
    pub(crate) fn begin(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        framing: Framing,
        close: bool,
        now: Time,
        head: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return;
        };
        let index = connection.position(slot.ordinal).unwrap_or_else(|| {
            let pending = Pending::new(slot.ordinal, Progress::Awaited, Vec::new(), false);
            connection.pending.push(pending);
            connection.pending.len() - 1
        });
        let is_turn = connection.next_answer == slot.ordinal;
        let pending = &mut connection.pending[index];
        assert_eq!(
            pending.progress,
            Progress::Awaited,
            "an answer is begun once"
        );
        pending.progress = Progress::Begun(framing);
        pending.close = close || framing == Framing::Close;
        if is_turn {
            self.write(port, slot.connection, now, head);
        } else {
            head(&mut pending.bytes);
        }
    }

    /// Appends a piece to the body of an answer that was begun. What is appended is always taken;
    /// who goes on after [`Flow::Wait`] gives up the bound on memory.
    pub(crate) fn append(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        piece: &[u8],
        now: Time,
    ) -> Flow {
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return Flow::Gone;
        };
        let is_turn = connection.next_answer == slot.ordinal;
        let Some(index) = connection.position(slot.ordinal) else {
            panic!("an answer that is appended to was begun and is not finished");
        };
        let pending = &mut connection.pending[index];
        let Progress::Begun(framing) = &mut pending.progress else {
            panic!("an answer that is appended to was begun");
        };
        if let Framing::Length(left) = framing {
            let piece = piece.len() as u64;
            assert!(piece <= *left, "a body is as long as was said at most");
            *left -= piece;
        }
        let framing = *framing;
        if is_turn {
            self.write(port, slot.connection, now, |out| framing.write(piece, out));
        } else {
            framing.write(piece, &mut pending.bytes);
        }
        self.flow(slot)
    }

    /// Whether there is room for more of an answer in pieces; if not, [`Clients::next_roomy`] tells
    /// of it when there is.
    fn flow(&mut self, slot: AnswerSlot) -> Flow {
        let unsent_max = self.limits.unsent_max;
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return Flow::Gone;
        };
        let unsent = connection.outgoing.unsent();
        let Some(index) = connection.position(slot.ordinal) else {
            unreachable!("it was appended to");
        };
        let pending = &mut connection.pending[index];
        pending.waits = unsent + pending.bytes.len() >= unsent_max;
        if pending.waits {
            Flow::Wait
        } else {
            Flow::More
        }
    }

    /// Finishes an answer that was begun. One that is shorter than was said is abandoned: nothing
    /// else tells the client.
    pub(crate) fn finish(&mut self, port: &mut dyn Port, slot: AnswerSlot, now: Time) {
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return;
        };
        let is_turn = connection.next_answer == slot.ordinal;
        let close = connection.drop_content(slot.ordinal);
        let Some(index) = connection.position(slot.ordinal) else {
            panic!("an answer that is finished was begun");
        };
        let pending = &mut connection.pending[index];
        let Progress::Begun(framing) = pending.progress else {
            panic!("an answer that is finished was begun");
        };
        if matches!(framing, Framing::Length(1..)) {
            return self.abandon(port, slot, now);
        }
        pending.close |= close;
        if !is_turn {
            pending.bytes.extend_from_slice(framing.end());
            pending.progress = Progress::Finished;
            return;
        }
        let pending = connection.pending.swap_remove(index);
        connection.turn_over(pending.close);
        let end = framing.end();
        self.write(port, slot.connection, now, |out| out.extend_from_slice(end));
        self.catch_up(port, slot.connection, now);
    }

    /// Gives up an answer, begun or not: the connection is dropped when its turn comes.
    pub(crate) fn abandon(&mut self, port: &mut dyn Port, slot: AnswerSlot, now: Time) {
        let Some(connection) = self.connections.get_mut(slot.connection) else {
            return;
        };
        connection.last_taken = true;
        connection.receiving = None;
        match connection.position(slot.ordinal) {
            Some(index) => connection.pending[index].progress = Progress::Abandoned,
            None => {
                let pending = Pending::new(slot.ordinal, Progress::Abandoned, Vec::new(), true);
                connection.pending.push(pending);
            }
        }
        if connection.next_answer == slot.ordinal {
            self.catch_up(port, slot.connection, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_chunks_and_an_empty_one_does_not_end_the_body() {
        let mut out = Vec::new();
        for piece in [&b"hello"[..], b"", &[b'x'; 17]] {
            Framing::Chunked.write(piece, &mut out);
        }
        out.extend_from_slice(Framing::Chunked.end());
        let expected = b"5\r\nhello\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n";
        assert_eq!(out, expected);
        for (number, text) in [(1, "1"), (16, "10"), (0xabcde, "abcde")] {
            let mut out = Vec::new();
            write_hex(number, &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
