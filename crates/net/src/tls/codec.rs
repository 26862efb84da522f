//! One connection's records.
//!
//! rustls keeps a record that has not come whole, and nothing else for long: what it opens is taken
//! at once, what it seals is given away at once.

use super::acceptor::Acceptor;
use crate::layer::{Codec, Codecs};
use crate::port::{Accepted, Peer, Role};
use rustls::ServerConnection;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

/// Bytes of a record at most (RFC 8446, section 5.1).
const RECORD_MAX: usize = 1 << 14;

/// A worker's: the clients of one listener speak TLS, all others do not.
#[derive(Debug)]
pub struct Tls {
    role: Role,
    acceptor: Arc<Acceptor>,
}

impl Tls {
    /// For clients of the listener that has this role.
    pub fn new(role: Role, acceptor: Arc<Acceptor>) -> Tls {
        Tls { role, acceptor }
    }
}

impl Codecs for Tls {
    type Codec = TlsCodec;

    fn accepted(&mut self, accepted: &Accepted) -> Option<TlsCodec> {
        (accepted.role == self.role).then(|| TlsCodec {
            // Where there is none, what comes is an error: never is anything passed on as it is.
            connection: ServerConnection::new(self.acceptor.config()).ok(),
            has_ended: false,
        })
    }

    fn connecting(&mut self, _: &Peer) -> Option<TlsCodec> {
        None
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct TlsCodec {
    connection: Option<ServerConnection>,
    has_ended: bool,
}

/// Appends what is to be sent.
fn give(connection: &mut ServerConnection, out: &mut Vec<u8>) {
    while connection.wants_write() {
        // Writing to memory cannot fail.
        if !matches!(connection.write_tls(out), Ok(sent) if sent > 0) {
            return;
        }
    }
}

impl Codec for TlsCodec {
    fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let Some(connection) = self.connection.as_mut().filter(|it| !it.is_handshaking()) else {
            return 0;
        };
        let record = &bytes[..bytes.len().min(RECORD_MAX)];
        let taken = connection.writer().write(record).unwrap_or(0);
        give(connection, out);
        taken
    }

    fn open(
        &mut self,
        mut input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorKind> {
        let connection = self.connection.as_mut().ok_or(ErrorKind::Other)?;
        while !input.is_empty() && !self.has_ended {
            // As much as it has room for.
            let taken = connection.read_tls(&mut input);
            let state = connection.process_new_packets();
            let Ok(state) = state else {
                // It says what is wrong.
                give(connection, out);
                return Err(ErrorKind::InvalidData);
            };
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            let read = connection.reader().read_exact(&mut plain[before..]);
            read.map_err(|_| ErrorKind::InvalidData)?;
            self.has_ended = state.peer_has_closed();
            if !matches!(taken, Ok(taken) if taken > 0) {
                return Err(ErrorKind::InvalidData);
            }
        }
        give(connection, out);
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| !connection.is_handshaking())
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(connection) = &mut self.connection {
            connection.send_close_notify();
            give(connection, out);
        }
    }
}
