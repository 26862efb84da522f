//! A connection between machines with its socket: in TLS, or as it is.
//!
//! Both are read and written alike, whether the socket waits or not. In TLS a record is opened when
//! it is there whole, and as much is sealed at a time as is written, up to four records; what the
//! socket does not take then is kept, and [`Wire::owes`] says so.

use super::error::TlsError;
use super::own::Identity;
use super::party::Party;
use super::session::{Came, RECORD_MAX, Session};
use crate::name::NodeName;
use rustls::ServerConfig;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are read of the socket at a time.
const INPUT_BYTES: usize = 4 * RECORD_MAX;
/// Bytes that are sealed at a time.
const OUTPUT_BYTES: usize = 4 << 14;

/// How long the end of one is waited for that is refused.
const LINGER: Duration = Duration::from_millis(500);

/// The first byte of a greeting (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// What is told, in its own words, to who does not speak TLS to one that speaks nothing else.
pub(crate) const ONLY_TLS: &str = "this donor speaks TLS: give the borrower an identity, too \
                                   (rhythm venice join, --identity)";

/// By whom, and to whom, a connection to a donor is in TLS.
#[derive(Clone, Debug)]
pub struct Sealing {
    /// Who this end is.
    pub identity: Arc<Identity>,
    /// Who the donor must be.
    pub donor: NodeName,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Sealed(Box<Sealed>),
}

/// A connection in TLS.
#[derive(Debug)]
pub(crate) struct Sealed {
    socket: TcpStream,
    session: Session,
    /// What came and is not opened yet.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// What was opened and peeked at, and is not read yet.
    ahead: Vec<u8>,
    /// Until when reading waits, however often the socket is read for it.
    until: Option<Instant>,
}

/// Has a socket be read no longer than to a time: what is left of it.
fn wait_until(socket: &TcpStream, until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => socket.set_read_timeout(Some(left)).map(|()| left),
    }
}

/// Reads and drops what else comes of one that was told why it is refused, to its end or a time:
/// where something is unread when the socket is closed, the kernel takes back what was said.
pub(crate) fn hear_out(mut socket: &TcpStream, until: Instant) {
    let mut dropped = [0; 4096];
    while wait_until(socket, until).is_ok() && matches!(socket.read(&mut dropped), Ok(1..)) {}
}

impl Wire {
    /// Connects, and greets: both by a time.
    ///
    /// # Errors
    /// It is not reached, or is another.
    pub(crate) fn connect(
        to: SocketAddr,
        sealing: Option<&Sealing>,
        within: Duration,
    ) -> io::Result<Wire> {
        let until = Instant::now() + within;
        let socket = TcpStream::connect_timeout(&to, within)?;
        let Some(sealing) = sealing else {
            return Ok(Wire::Plain(socket));
        };
        let donor = Party::Node(sealing.donor.clone());
        let session = Session::connect(&sealing.identity, donor)?;
        Wire::greet(socket, session, until)
    }

    /// Greets who has connected, by a time.
    ///
    /// # Errors
    /// It has no certificate of a node, or does not speak TLS.
    pub(crate) fn accept(
        socket: TcpStream,
        config: &Arc<ServerConfig>,
        until: Instant,
    ) -> io::Result<Wire> {
        Wire::greet(socket, Session::accept(config)?, until)
    }

    /// Whether who has connected begins as TLS does; also where nothing came by a time. What came
    /// is still to be read.
    pub(crate) fn begins_in_tls(socket: &TcpStream, until: Instant) -> bool {
        // Where it cannot be set, the greeting tells.
        let _ = wait_until(socket, until);
        let mut first = [0];
        !matches!(socket.peek(&mut first), Ok(1..)) || first[0] == HANDSHAKE
    }

    /// Has what is read next come by a time, all of it that one call reads; then that fails.
    /// Without one, it is waited for as the socket is set to.
    ///
    /// # Errors
    /// The time is over, or the socket is.
    pub(crate) fn wait_until(&mut self, until: Option<Instant>) -> io::Result<()> {
        match until {
            None => self.socket().set_read_timeout(None)?,
            Some(until) => wait_until(self.socket(), until).map(drop)?,
        }
        if let Wire::Sealed(sealed) = self {
            sealed.until = until;
        }
        Ok(())
    }

    pub(super) fn greet(socket: TcpStream, session: Session, until: Instant) -> io::Result<Wire> {
        socket.set_nodelay(true)?;
        let mut sealed = Sealed {
            socket,
            session,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            ahead: Vec::new(),
            until: None,
        };
        match sealed.greet(until) {
            Ok(()) => Ok(Wire::Sealed(Box::new(sealed))),
            Err(error) => {
                sealed.linger(until);
                Err(error)
            }
        }
    }

    /// The socket, for its settings.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Sealed(sealed) => &sealed.socket,
        }
    }

    /// What was written is not wholly with the socket: where that does not wait, it is to be
    /// flushed when it takes more.
    pub(crate) fn owes(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Sealed(sealed) => sealed.session.connection.wants_write(),
        }
    }

    /// Copies of what comes next; it is still to be read. In TLS as much is waited for as is asked
    /// for; else less than all of it is there where more has not come.
    pub(crate) fn peek(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.peek(into),
            Wire::Sealed(sealed) => sealed.peek(into),
        }
    }
}

impl Sealed {
    /// Greets by a time.
    fn greet(&mut self, until: Instant) -> io::Result<()> {
        while self.session.came() == Came::Greeting {
            let left = wait_until(&self.socket, until)?;
            self.socket.set_write_timeout(Some(left))?;
            self.send_owed()?;
            if self.session.came() != Came::Greeting {
                break;
            }
            match self.take_in() {
                Ok(0) => return Err(TlsError::Closed.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Whoever said nothing else but closed is one, too.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(TlsError::Closed.into());
                }
                Err(error) => return Err(error),
            }
        }
        self.send_owed()?;
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(None)?;
        Ok(())
    }

    /// Hears one out that is told why not, for a moment.
    fn linger(&self, until: Instant) {
        if self.socket.shutdown(Shutdown::Write).is_ok() {
            hear_out(&self.socket, until.min(Instant::now() + LINGER));
        }
    }

    /// Sends what is to be sent, as far as the socket takes it.
    fn send_owed(&mut self) -> io::Result<()> {
        while self.session.connection.wants_write() {
            match self.session.connection.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// As [`send_owed`](Self::send_owed); true where the socket takes no more now.
    fn is_full(&mut self) -> io::Result<bool> {
        match self.send_owed() {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Opens more of what came, after it was read where nothing is there: how many bytes the
    /// session took. None: the other end has closed the connection.
    fn take_in(&mut self) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if let Some(until) = self.until {
                wait_until(&self.socket, until)?;
            }
            self.end = self.socket.read(&mut self.input)?;
        }
        let mut input = &self.input[self.start..self.end];
        let taken = self.session.connection.read_tls(&mut input)?;
        self.start += taken;
        if let Err(error) = self.session.connection.process_new_packets() {
            // It is told why; where it is not, the connection's end tells.
            let _ = self.send_owed();
            return Err(TlsError::from(error).into());
        }
        Ok(taken)
    }

    /// Fills `ahead` to so many bytes; there are fewer where the other end has closed.
    fn peek(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.ahead.len() < into.len() {
            let had = self.ahead.len();
            self.ahead.resize(into.len(), 0);
            let read = self
                .session
                .connection
                .reader()
                .read(&mut self.ahead[had..]);
            self.ahead.truncate(had + read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.take_in()?;
                }
                Err(error) => return Err(error),
            }
        }
        let count = self.ahead.len().min(into.len());
        into[..count].copy_from_slice(&self.ahead[..count]);
        Ok(count)
    }
}

impl Read for Sealed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let count = self.ahead.len().min(into.len());
            into[..count].copy_from_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
            return Ok(count);
        }
        // A change of keys is answered.
        self.is_full()?;
        loop {
            match self.session.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.take_in()?;
        }
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = &bytes[..bytes.len().min(OUTPUT_BYTES)];
        let wrote = self.session.connection.writer().write(bytes)?;
        self.is_full()?;
        Ok(wrote)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_owed()
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.read(into),
            Wire::Sealed(sealed) => sealed.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.write(bytes),
            Wire::Sealed(sealed) => sealed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(_) => Ok(()),
            Wire::Sealed(sealed) => sealed.flush(),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}
