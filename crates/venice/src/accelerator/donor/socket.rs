//! A borrower's connection before it is a channel's.

use crate::channel::frame;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A borrower's connection, at its beginning.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl Socket {
    /// Another descriptor of it.
    pub(super) fn copy(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => stream.as_fd().try_clone_to_owned(),
            Self::Local(stream) => stream.as_fd().try_clone_to_owned(),
        }
    }

    /// Reads so many bytes, each of which may take so long.
    pub(super) fn read(&mut self, into: &mut [u8], within: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(within))?;
                stream.read_exact(into)
            }
            Self::Local(stream) => {
                stream.set_read_timeout(Some(within))?;
                stream.read_exact(into)
            }
        }
    }

    /// Tells why nothing follows, in a frame that both ways to a mailbox understand. What does not
    /// go at once, does not go.
    pub(super) fn refuse(&mut self, reason: &str) {
        let mut frame = Vec::new();
        frame::put_refusal(&mut frame, reason);
        // Those of a Unix socket go by memory that is not there yet.
        if let Self::Tcp(stream) = self
            && stream.set_nonblocking(true).is_ok()
        {
            // What is left unread would have the kernel reset the connection.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&frame);
        }
    }

    pub(super) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => stream
                .peer_addr()
                .map_or_else(|_| "a borrower".to_owned(), |peer| peer.to_string()),
            Self::Local(_) => "a borrower of this machine".to_owned(),
        }
    }
}
