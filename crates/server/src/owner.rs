//! What backends and links to devices have in common: connections and a clock of their own.

use rhythm_net::{ConnectionId, Ended, Port, Time};

/// A part of the pipeline with connections of its own, to other machines. It opens them by
/// [`Port::connect`] in any call that gives it a port. The pipeline offers it the events of all
/// connections that are not clients'; each call says whether it was one of its own, and does
/// nothing if not.
///
/// Everything has a default: a part without connections says nothing.
pub trait ConnectionOwner {
    /// A connection it asked for is open.
    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) -> bool {
        let _ = (port, connection, now);
        false
    }

    /// Bytes came in; all of them are taken.
    fn received(
        &mut self,
        port: &mut dyn Port,
        connection: ConnectionId,
        bytes: &[u8],
        now: Time,
    ) -> bool {
        let _ = (port, connection, bytes, now);
        false
    }

    /// The input of a connection ended, or it could not be opened.
    fn ended(
        &mut self,
        port: &mut dyn Port,
        connection: ConnectionId,
        how: Ended,
        now: Time,
    ) -> bool {
        let _ = (port, connection, how, now);
        false
    }

    /// The socket takes bytes again.
    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) -> bool {
        let _ = (port, connection, now);
        false
    }

    /// When it wants [`ConnectionOwner::tick`] at the latest; `None`: never.
    fn wake_at(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let _ = (port, now);
    }
}
