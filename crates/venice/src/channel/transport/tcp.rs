//! TCP, and Unix sockets in the same way.

use super::{Transport, Wait};
use crate::channel::broken::Lost;
use crate::identity::{Sealing, Wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How long an end may take to be connected to.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long what was sent may go without being received, before the connection counts as broken.
const SILENT_TIME: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug)]
pub(crate) struct Tcp {
    wire: Wire,
}

impl Tcp {
    /// Connects.
    ///
    /// # Errors
    /// [`Lost::Io`].
    pub(crate) fn connect(to: SocketAddr) -> Result<Self, Lost> {
        Self::over(Wire::connect(to, None, CONNECT_TIME)?)
    }

    /// Connects in TLS.
    ///
    /// # Errors
    /// [`Lost::Io`].
    pub(crate) fn connect_sealed(to: SocketAddr, sealing: &Sealing) -> Result<Self, Lost> {
        Self::over(Wire::connect(to, Some(sealing), CONNECT_TIME)?)
    }

    /// One that there is.
    ///
    /// # Errors
    /// [`Lost::Io`].
    pub(crate) fn of(stream: TcpStream) -> Result<Self, Lost> {
        Self::over(Wire::Plain(stream))
    }

    /// One that there is, in TLS or not.
    ///
    /// # Errors
    /// [`Lost::Io`].
    pub(crate) fn over(mut wire: Wire) -> Result<Self, Lost> {
        // How long it waits is said by `wait_beside`.
        wire.wait_until(None)?;
        let stream = wire.socket();
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let silent = SILENT_TIME.as_millis() as u32;
        sockopt::set_tcp_user_timeout(stream, silent).map_err(io::Error::from)?;
        // A machine that is switched off says nothing.
        sockopt::set_socket_keepalive(stream, true).map_err(io::Error::from)?;
        sockopt::set_tcp_keepidle(stream, SILENT_TIME / 2).map_err(io::Error::from)?;
        sockopt::set_tcp_keepintvl(stream, SILENT_TIME / 6).map_err(io::Error::from)?;
        sockopt::set_tcp_keepcnt(stream, 3).map_err(io::Error::from)?;
        Ok(Self { wire })
    }
}

/// What a call that did not block says.
fn told(result: io::Result<usize>) -> Result<Option<usize>, Lost> {
    match result {
        Ok(0) => Err(Lost::Closed),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        // In TLS it says so before; the connection is over all the same.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Lost::Closed),
        Err(error) => Err(error.into()),
    }
}

impl Transport for Tcp {
    fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, Lost> {
        if into.is_empty() {
            return Ok(None);
        }
        told(self.wire.read(into))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Lost> {
        told(self.wire.write(bytes))
    }

    fn wait_beside(
        &mut self,
        wait: Wait,
        others: &[BorrowedFd<'_>],
        at_most: Duration,
    ) -> Result<(), Lost> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, wait.bytes);
        // What was sealed and has not gone goes when the socket takes more.
        flags.set(PollFlags::OUT, wait.room || self.wire.owes());
        wait_for(PollFd::new(&self.wire, flags), others, at_most)
    }
}

/// Polls one, and whether the others can be read.
pub(super) fn wait_for(
    own: PollFd<'_>,
    others: &[BorrowedFd<'_>],
    at_most: Duration,
) -> Result<(), Lost> {
    let time = Timespec::try_from(at_most).ok();
    let others = others
        .iter()
        .map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN));
    let mut fds: Vec<_> = std::iter::once(own).chain(others).collect();
    match poll(&mut fds, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}
