//! A borrower's connection before it is a channel's.

use crate::channel::broken::Lost;
use crate::channel::frame;
use crate::channel::transport::shared::Shared as Rings;
use crate::channel::transport::tcp::Tcp;
use crate::channel::transport::{Transport, last_words};
use crate::identity::{ONLY_TLS, Wire};
use rustls::ServerConfig;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a borrower that is refused has to take the reason.
pub(super) const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// A borrower's connection, at its beginning.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(Wire),
    /// To be in TLS, which has not begun.
    Sealing(TcpStream, Arc<ServerConfig>),
    Local(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(wire) => wire.as_fd(),
            Self::Sealing(stream, _) => stream.as_fd(),
            Self::Local(stream) => stream.as_fd(),
        }
    }
}

impl Socket {
    /// Greets by a time, where it is to be in TLS. Who does not speak that is told so.
    pub(super) fn greet(self, until: Instant) -> io::Result<Self> {
        let Self::Sealing(stream, config) = self else {
            return Ok(self);
        };
        if !Wire::begins_in_tls(&stream, until) {
            Self::Tcp(Wire::Plain(stream)).refuse(ONLY_TLS);
            return Err(io::Error::other(ONLY_TLS));
        }
        Ok(Self::Tcp(Wire::accept(stream, &config, until)?))
    }

    /// Reads so many bytes, if they all come by a time.
    pub(super) fn read(&mut self, mut into: &mut [u8], until: Instant) -> io::Result<()> {
        while !into.is_empty() {
            let read = match self {
                Self::Tcp(wire) => {
                    wire.wait_until(Some(until))?;
                    wire.read(into)
                }
                Self::Sealing(..) => Err(ErrorKind::NotConnected.into()),
                Self::Local(stream) => {
                    // None at all is an error.
                    let left = until.saturating_duration_since(Instant::now());
                    stream.set_read_timeout(Some(left))?;
                    stream.read(into)
                }
            };
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => into = &mut into[read..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Has what follows go by a transport.
    pub(super) fn open(self) -> Result<Box<dyn Transport>, Lost> {
        Ok(match self {
            Self::Tcp(wire) => Box::new(Tcp::over(wire)?),
            Self::Sealing(..) => return Err(Lost::Closed),
            Self::Local(stream) => Box::new(Rings::offer(stream)?),
        })
    }

    /// Tells why nothing follows, in a frame that both ways to a mailbox understand.
    pub(super) fn refuse(self, reason: &str) {
        let mut frame = Vec::new();
        frame::put_refusal(&mut frame, reason);
        // Where there is no way to tell, the connection's end does.
        if let Ok(mut transport) = self.open() {
            last_words(&mut transport, &mut frame, &mut 0, REFUSAL_TIME);
        }
    }

    pub(super) fn peer(&self) -> String {
        let socket = match self {
            Self::Tcp(wire) => wire.socket(),
            Self::Sealing(stream, _) => stream,
            Self::Local(_) => return "a borrower of this machine".to_owned(),
        };
        socket
            .peer_addr()
            .map_or_else(|_| "a borrower".to_owned(), |peer| peer.to_string())
    }
}
