//! A QPair between two programs over TCP, as a library: [`Messages`].

use super::broken::Lost;
pub use super::qpair::{Credits, QueueSettings};
use super::queue::Queue;
use super::transport::tcp::Tcp;
use std::net::TcpStream;
use std::time::Duration;

/// One end of a QPair: messages each way, in order, each once, and none lost also where a
/// connection is. It is for one thread; both ends are made with the same buffers.
///
/// Memory is bounded by the settings: `messages` times `message_bytes`, for each direction. Nothing
/// is encrypted on the way.
#[derive(Debug)]
pub struct Messages(Queue<Tcp>);

impl Messages {
    /// An end that has sent and received nothing, over a connection. A call that waits for the
    /// other end gives up after `patience`. Settings beyond their bounds are brought within.
    ///
    /// # Errors
    /// [`Lost::Io`]: what the system says of the connection.
    pub fn new(
        connection: TcpStream,
        settings: QueueSettings,
        patience: Duration,
    ) -> Result<Self, Lost> {
        Ok(Self(Queue::new(Tcp::of(connection)?, settings, patience)))
    }

    /// Goes on over another connection after [`Lost`], as the other end is to do with its end of
    /// it: each message that was sent comes there once, and in order.
    ///
    /// # Errors
    /// [`Lost::Io`].
    pub fn resume(&mut self, connection: TcpStream) -> Result<(), Lost> {
        self.0.resume(Tcp::of(connection)?);
        Ok(())
    }

    /// Sends a message, once the other end has a buffer for it. It leaves together with others, at
    /// the latest with the next call that waits.
    ///
    /// # Errors
    /// [`Lost`]: this message is not sent where the connection is lost while it waits for a buffer;
    /// those before are kept for [`resume`](Self::resume).
    pub fn send(&mut self, message: &[u8]) -> Result<(), Lost> {
        self.0.send(message)
    }

    /// The next message, once it is there, in place of what `into` has.
    ///
    /// # Errors
    /// [`Lost`]: no message was taken.
    pub fn receive(&mut self, into: &mut Vec<u8>) -> Result<(), Lost> {
        self.0.receive(into)
    }

    /// Tells the other end what was taken here, and waits until it says that its program took all
    /// that was sent, but for the last `left`. It says so with its next call that waits, for groups
    /// of `credit_every` messages: with fewer `left` this may wait until `patience` is over.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn flush(&mut self, left: u64) -> Result<(), Lost> {
        self.0.flush(left)
    }
}
