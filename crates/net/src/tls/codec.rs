//! One connection's records.
//!
//! rustls keeps a record that has not come whole, and nothing else for long: what it opens is taken
//! at once, what it seals is given away at once.

use super::acceptor::Acceptor;
use super::connector::{Begins, Connector, Failure};
use super::figures::Figures;
use crate::layer::{Codec, Codecs};
use crate::port::{Accepted, Client, Peer, Role};
use rustls::{Connection, HandshakeKind, ServerConnection};
use std::fmt;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

/// Bytes of a record at most (RFC 8446, section 5.1).
const RECORD_MAX: usize = 1 << 14;

/// Bytes that are sealed at once at most, so that a page leaves in one sending: what a socket has
/// yet to take of them is held.
const SEALED_MAX: usize = 2 * RECORD_MAX;

/// Bytes around a record, and more.
const AROUND: usize = 1 << 10;

/// Bytes that a greeting takes at most while it is put together (RFC 8446, section 4: its length
/// has 24 bits, of which rustls takes 16), in a buffer that doubles.
const GREETING_BYTES: usize = 2 << 16;

/// Bytes of what a connection is, keys and all, whatever it has under way.
const STATE_BYTES: usize = 16 << 10;

/// The most memory that one connection over TLS takes beside what it takes without: what there is
/// of it, a greeting that is not whole or a record, and records that the socket has yet to take.
pub const CONNECTION_BYTES: usize = STATE_BYTES + GREETING_BYTES + SEALED_MAX + 2 * AROUND;

/// A worker's: the clients of one listener speak TLS, and the servers whose peers are sealed with
/// a [`Connector`]; all others do not.
#[derive(Debug)]
pub struct Tls {
    role: Role,
    acceptor: Option<Arc<Acceptor>>,
    figures: Arc<Figures>,
    strangers: Option<Arc<dyn Strangers>>,
}

/// Answers clients that speak something else where TLS is spoken.
pub trait Strangers: fmt::Debug + Send + Sync {
    /// What a client is answered, as it is, that begins with these bytes: its connection is closed
    /// then. Nothing where they may be TLS, or where nothing is known that it would understand.
    fn answer(&self, client: Client, begin: &[u8]) -> &[u8];
}

impl Tls {
    /// For clients of the listener that has this role, if there are any; they are counted in
    /// `figures`.
    pub fn new(role: Role, acceptor: Option<Arc<Acceptor>>, figures: Arc<Figures>) -> Tls {
        Tls {
            role,
            acceptor,
            figures,
            strangers: None,
        }
    }

    /// With clients that speak something else answered by these.
    pub fn answering(self, strangers: Arc<dyn Strangers>) -> Tls {
        Tls {
            strangers: Some(strangers),
            ..self
        }
    }
}

impl Codecs for Tls {
    type Codec = TlsCodec;

    fn accepted(&mut self, accepted: &Accepted) -> Option<TlsCodec> {
        let acceptor = self.acceptor.as_ref()?;
        (accepted.role == self.role).then(|| TlsCodec {
            // Where there is none, what comes is an error: never is anything passed on as it is.
            connection: (ServerConnection::new(acceptor.config()).ok()).map(Connection::Server),
            has_ended: false,
            begins: Begins::AtOnce,
            with: With::Client {
                greeting: Some(Greeting {
                    figures: self.figures.clone(),
                    client: accepted.peer,
                    strangers: self.strangers.clone(),
                }),
            },
        })
    }

    fn connecting(&mut self, peer: &Peer) -> Option<TlsCodec> {
        let connector = peer.seal.as_ref()?.get::<Connector>()?;
        Some(TlsCodec::connecting(&connector))
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct TlsCodec {
    connection: Option<Connection>,
    has_ended: bool,
    /// What is still to be asked, or answered, before TLS begins.
    begins: Begins,
    with: With,
}

/// Who is at the other end.
#[derive(Debug)]
enum With {
    /// A client; as long as its greeting is not over, what belongs to that.
    Client {
        greeting: Option<Greeting>,
    },
    Server(Arc<Connector>),
}

/// A client's greeting.
#[derive(Debug)]
struct Greeting {
    /// Where it is counted.
    figures: Arc<Figures>,
    client: Client,
    /// Who answers where it is none: until something has come.
    strangers: Option<Arc<dyn Strangers>>,
}

impl Greeting {
    /// Answers a client that does not speak TLS, by what came first. Whether it was one.
    fn answers_stranger(&mut self, input: &[u8], out: &mut Vec<u8>) -> bool {
        if input.is_empty() {
            return false;
        }
        let Some(strangers) = self.strangers.take() else {
            return false;
        };
        let answer = strangers.answer(self.client, input);
        out.extend_from_slice(answer);
        !answer.is_empty()
    }
}

impl TlsCodec {
    /// A connection of ours.
    pub fn connecting(connector: &Arc<Connector>) -> TlsCodec {
        TlsCodec {
            connection: connector.begin().map(Connection::Client),
            has_ended: false,
            begins: connector.begins(),
            with: With::Server(connector.clone()),
        }
    }

    /// Has a server that is to be asked for TLS say whether it speaks it; gives what came behind
    /// its answer, nothing where that has not come.
    fn ask<'a>(&mut self, input: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], Failure> {
        match (self.begins, input) {
            (Begins::Asked { request, .. }, []) => out.extend_from_slice(request),
            (Begins::Asked { agrees, .. }, [answer, rest @ ..]) if *answer == agrees => {
                self.begins = Begins::AtOnce;
                return Ok(rest);
            }
            (Begins::Asked { .. }, _) => return Err(Failure::Refused),
            (Begins::AtOnce, _) => {}
        }
        Ok(input)
    }

    /// As [`Codec::open`], and says why not.
    ///
    /// # Errors
    /// Why not.
    pub fn take_in(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let mut input = self.ask(input, out)?;
        if self.begins != Begins::AtOnce {
            return Ok(());
        }
        let connection = self.connection.as_mut().ok_or(Failure::NoRandomNumbers)?;
        let nonsense = || Failure::Tls(rustls::Error::General("it makes no sense".to_owned()));
        while !input.is_empty() && !self.has_ended {
            // As much as it has room for.
            let taken = connection.read_tls(&mut input);
            let state = match connection.process_new_packets() {
                Ok(state) => state,
                Err(why) => {
                    // It says what is wrong.
                    give(connection, out);
                    return Err(Failure::Tls(why));
                }
            };
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            let read = connection.reader().read_exact(&mut plain[before..]);
            read.map_err(|_| nonsense())?;
            self.has_ended = state.peer_has_closed();
            if !matches!(taken, Ok(taken) if taken > 0) {
                return Err(nonsense());
            }
        }
        give(connection, out);
        Ok(())
    }
}

/// Appends what is to be sent.
fn give(connection: &mut Connection, out: &mut Vec<u8>) {
    while connection.wants_write() {
        // Writing to memory cannot fail.
        if !matches!(connection.write_tls(out), Ok(sent) if sent > 0) {
            return;
        }
    }
}

impl Codec for TlsCodec {
    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> usize {
        let Some(connection) = self.connection.as_mut().filter(|it| !it.is_handshaking()) else {
            return 0;
        };
        // It has nothing to send before, so that this is what it takes.
        connection.set_buffer_limit(Some(SEALED_MAX));
        let taken = connection.writer().write_vectored(slices).unwrap_or(0);
        give(connection, out);
        taken
    }

    fn open(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorKind> {
        let is_stranger = match &mut self.with {
            With::Client {
                greeting: Some(greeting),
            } => greeting.answers_stranger(input, out),
            _ => false,
        };
        let opened = match is_stranger {
            true => Err(Failure::Refused),
            false => self.take_in(input, plain, out),
        };
        if let With::Client { greeting } = &mut self.with
            && let Some(Greeting { figures, .. }) = greeting
        {
            let kind = self.connection.as_ref().and_then(|it| it.handshake_kind());
            let is_over = self
                .connection
                .as_ref()
                .is_some_and(|it| !it.is_handshaking());
            match &opened {
                Err(_) if !is_over => figures.has_failed(),
                _ if is_over => figures.has_greeted(kind == Some(HandshakeKind::Resumed)),
                _ => return Ok(()),
            }
            *greeting = None;
        }
        opened.map_err(|why| match &self.with {
            With::Server(connector) => connector.failed(&why),
            // They send what they like.
            With::Client { .. } => ErrorKind::InvalidData,
        })
    }

    fn is_ready(&self) -> bool {
        let connection = self.connection.as_ref();
        let has_begun = self.begins == Begins::AtOnce;
        has_begun && connection.is_some_and(|connection| !connection.is_handshaking())
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(connection) = &mut self.connection
            && self.begins == Begins::AtOnce
        {
            connection.send_close_notify();
            give(connection, out);
        }
    }
}
