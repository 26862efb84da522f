//! One connection in TLS without I/O: records in, bytes out, and back.

use super::error::TlsError;
use super::own::Identity;
use super::party::Party;
use rustls::pki_types::{DnsName, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::sync::Arc;

/// Bytes of a record at most, as it is sent (RFC 8446, section 5.2).
pub(super) const RECORD_MAX: usize = (1 << 14) + 256 + 5;

/// What a connection has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The greeting goes on.
    Greeting,
    /// Both have greeted; who the other end is, if it showed a certificate.
    Greeted(Option<Party>),
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) connection: Connection,
}

fn failed(error: rustls::Error) -> TlsError {
    error.into()
}

impl Session {
    /// Of who has connected to here.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn accept(config: &Arc<ServerConfig>) -> Result<Session, TlsError> {
        let connection = ServerConnection::new(Arc::clone(config)).map_err(failed)?;
        Ok(Session::of(Connection::Server(connection)))
    }

    /// To a party.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn connect(identity: &Identity, to: Party) -> Result<Session, TlsError> {
        Session::connect_by(identity.client(to)?)
    }

    pub(super) fn connect_by(config: Arc<ClientConfig>) -> Result<Session, TlsError> {
        // It is not sent, and not looked at: who answers is compared as a party.
        let name = DnsName::try_from("venice.invalid");
        let name = name.map_err(|error| TlsError::Other(error.to_string()))?;
        let connection = ClientConnection::new(config, ServerName::DnsName(name));
        Ok(Session::of(Connection::Client(connection.map_err(failed)?)))
    }

    fn of(mut connection: Connection) -> Session {
        // What is handed over is bounded where it is made, and given to the socket at once.
        connection.set_buffer_limit(None);
        Session { connection }
    }

    /// How far it is.
    pub(crate) fn came(&self) -> Came {
        if self.connection.is_handshaking() {
            return Came::Greeting;
        }
        let shown = self.connection.peer_certificates();
        let first = shown.and_then(|chain| chain.first());
        Came::Greeted(first.and_then(|first| Party::of(first)))
    }

    /// Takes in what came: appends what was in its records.
    ///
    /// # Errors
    /// [`TlsError`]; what there is to be sent then says why to the other end.
    pub(crate) fn open(&mut self, mut input: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        while !input.is_empty() {
            let taken = self.connection.read_tls(&mut input);
            let state = self.connection.process_new_packets().map_err(failed)?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            let read = self.connection.reader().read_exact(&mut plain[before..]);
            match (taken, read) {
                (Ok(1..), Ok(())) => {}
                // Behind its farewell nothing counts.
                (Ok(_), Ok(())) => return Ok(()),
                (Err(error), _) | (_, Err(error)) => {
                    return Err(TlsError::Other(error.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Takes bytes to be sent, when the greeting is over.
    pub(crate) fn seal(&mut self, bytes: &[u8]) {
        // One that is over takes nothing, and says so where it is read.
        let _ = self.connection.writer().write_all(bytes);
    }

    /// Has a farewell sent behind what was.
    pub(crate) fn farewell(&mut self) {
        self.connection.send_close_notify();
    }

    /// Appends what is to be sent.
    pub(crate) fn give(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to memory does not fail.
            if !matches!(self.connection.write_tls(out), Ok(1..)) {
                return;
            }
        }
    }
}
