//! Connections that a thread waits for, until a time and no longer; but how long the system looks
//! up a name is its own.

use rhythm_engine::settings::UrlPlace;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection of which no call waits for longer than it is said.
pub(crate) trait Timed: Read + Write {
    /// Calls wait for so long at most from now on.
    fn set_timeout(&self, left: Duration) -> io::Result<()>;
}

impl Timed for TcpStream {
    fn set_timeout(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Timed for UnixStream {
    fn set_timeout(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

/// What is left until then.
///
/// # Errors
/// Nothing is.
pub(crate) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// Does a call again that a signal has interrupted.
///
/// # Errors
/// Of the call.
pub(crate) fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Opens a connection to a place, whichever of its addresses takes it first. Each has its share of
/// the time that is left.
///
/// # Errors
/// None does, by then.
pub(crate) fn connect(place: &UrlPlace, deadline: Instant) -> io::Result<Box<dyn Timed>> {
    match place {
        UrlPlace::Socket(path) => Ok(Box::new(connect_locally(path, deadline)?)),
        UrlPlace::Port { host, port } => {
            let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
            let addresses: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
            for (address, others) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
                match TcpStream::connect_timeout(address, left(deadline)? / others) {
                    Ok(stream) => return Ok(Box::new(stream)),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// Connects to a Unix socket, which waits for as long as its queue is full: until then at most
/// (socket(7), SO_SNDTIMEO).
fn connect_locally(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    retry_on_intr(|| {
        let left = left(deadline).map_err(|_| Errno::TIMEDOUT)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(left))?;
        net::connect(&socket, &address)
    })?;
    Ok(socket.into())
}
