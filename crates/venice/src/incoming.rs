//! Bytes of connections that are no whole message yet, and bytes that are owed.

use crate::wire::{self, Framed, Garbage};
use rhythm_net::{ConnectionId, Flushed, Outgoing, Port};

/// Most bytes that a peer may leave unread; then it is disconnected.
const UNSENT_MAX: usize = 4 << 20;
/// Room that is kept between messages.
const KEPT: usize = 4 << 10;

/// One connection's bytes, both ways.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    bytes: Vec<u8>,
    /// Up to where they are taken.
    taken: usize,
    out: Outgoing,
}

impl Stream {
    /// Bytes came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the first whole message, if there is one, of `most` bytes at most.
    ///
    /// # Errors
    /// What came is none.
    pub(crate) fn take<M: Framed>(&mut self, most: usize) -> Result<Option<M>, Garbage> {
        let Some((message, end)) = wire::first(&self.bytes[self.taken..], most)? else {
            // All at once, so that many short ones are not moved again and again.
            self.bytes.drain(..std::mem::take(&mut self.taken));
            if self.bytes.is_empty() {
                self.bytes.shrink_to(KEPT);
            }
            return Ok(None);
        };
        self.taken += end;
        Ok(Some(message))
    }

    /// Sends a message. False: the connection is gone, or its peer takes nothing.
    pub(crate) fn send<M: Framed>(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        message: &M,
    ) -> bool {
        let mut bytes = Vec::new();
        wire::put(message, &mut bytes);
        self.out.send(port, id, &bytes) != Flushed::Gone && self.out.unsent() <= UNSENT_MAX
    }

    /// The socket takes bytes again. False: the connection is gone.
    pub(crate) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        self.out.writable(port, id) != Flushed::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::LoanId;
    use crate::wire::{Local, SMALL_MAX};

    #[test]
    fn messages_are_taken_whole_however_they_come() {
        let messages = [1, 2, 3].map(|loan| Local::Renew { loan: LoanId(loan) });
        let mut bytes = Vec::new();
        messages
            .iter()
            .for_each(|message| wire::put(message, &mut bytes));
        for pieces in [1, 2, 5, 13, bytes.len()] {
            let (mut stream, mut taken) = (Stream::default(), Vec::new());
            for piece in bytes.chunks(pieces) {
                stream.push(piece);
                while let Some(message) = stream.take::<Local>(SMALL_MAX).expect("messages") {
                    taken.push(message);
                }
            }
            assert_eq!(taken, messages);
            assert!(stream.bytes.is_empty() && stream.taken == 0);
        }
        let mut stream = Stream::default();
        stream.push(&[255; 4]);
        assert!(stream.take::<Local>(SMALL_MAX).is_err());
    }
}
