//! Bytes of connections that are no whole message yet, and bytes that are owed; in TLS or plain.

use crate::identity::{Came, Party, Session, TlsError};
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
    session: Option<Box<Session>>,
    /// It was told how its greeting ended.
    is_greeted: bool,
    /// Its other end has no certificate, and can only join.
    pub(crate) joins: bool,
}

impl Stream {
    /// A connection in TLS.
    pub(crate) fn sealed(session: Session) -> Stream {
        Stream {
            session: Some(Box::new(session)),
            ..Stream::default()
        }
    }

    /// A connection of ours is there: it greets. False: it is gone.
    pub(crate) fn begin(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        self.give(port, id)
    }

    /// Sends what the session has to be sent. False: the connection is gone.
    fn give(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        let mut bytes = Vec::new();
        if let Some(session) = &mut self.session {
            session.give(&mut bytes);
        }
        bytes.is_empty() || self.out.send(port, id, &bytes) != Flushed::Gone
    }

    /// Bytes came.
    ///
    /// # Errors
    /// What came is no good in TLS; the connection is over.
    pub(crate) fn push(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        bytes: &[u8],
    ) -> Result<(), TlsError> {
        let Some(session) = &mut self.session else {
            self.bytes.extend_from_slice(bytes);
            return Ok(());
        };
        let opened = session.open(bytes, &mut self.bytes);
        // Who does not speak TLS is told nothing in it.
        if opened != Err(TlsError::NotTls) && !self.give(port, id) {
            return Err(TlsError::Closed);
        }
        opened
    }

    /// Both ends have greeted in TLS: who the other is, if it showed a certificate. That is told
    /// once.
    pub(crate) fn has_greeted(&mut self) -> Option<Option<Party>> {
        let session = self.session.as_ref().filter(|_| !self.is_greeted)?;
        match session.came() {
            Came::Greeted(party) => {
                self.is_greeted = true;
                Some(party)
            }
            Came::Greeting => None,
        }
    }

    /// It greets in TLS.
    pub(crate) fn is_greeting(&self) -> bool {
        let session = self.session.as_ref().filter(|_| !self.is_greeted);
        session.is_some_and(|session| session.came() == Came::Greeting)
    }

    /// Says in TLS, behind what was sent, that nothing more comes.
    pub(crate) fn farewell(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(session) = &mut self.session {
            session.farewell();
            // It is about to be closed anyway.
            self.give(port, id);
        }
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
        if let Some(session) = &mut self.session {
            session.seal(&bytes);
            return self.give(port, id) && self.out.unsent() <= UNSENT_MAX;
        }
        self.out.send(port, id, &bytes) != Flushed::Gone && self.out.unsent() <= UNSENT_MAX
    }

    /// Sends a message as it is, to who does not speak TLS. False: the connection is gone.
    pub(crate) fn send_plain<M: Framed>(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        message: &M,
    ) -> bool {
        self.session = None;
        self.send(port, id, message)
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
                stream.bytes.extend_from_slice(piece);
                while let Some(message) = stream.take::<Local>(SMALL_MAX).expect("messages") {
                    taken.push(message);
                }
            }
            assert_eq!(taken, messages);
            assert!(stream.bytes.is_empty() && stream.taken == 0);
        }
        let mut stream = Stream::default();
        stream.bytes.extend_from_slice(&[255; 4]);
        assert!(stream.take::<Local>(SMALL_MAX).is_err());
    }
}
