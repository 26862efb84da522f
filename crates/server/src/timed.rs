//! Connections that a thread waits for, until a time and no longer; but how long the system looks
//! up a name is its own.

use rhythm_engine::settings::UrlPlace;
use rhythm_net::Codec;
use rhythm_net::tls::{Connector, TlsCodec};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
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

/// Opens a connection to a place, over TLS where there is whom its server must be.
///
/// # Errors
/// Nobody takes it by then, or the server is not whom it must be.
pub(crate) fn connect(
    place: &UrlPlace,
    tls: Option<&Arc<Connector>>,
    deadline: Instant,
) -> io::Result<Box<dyn Timed>> {
    let stream = connect_plain(place, deadline)?;
    match tls {
        None => Ok(stream),
        Some(connector) => Ok(Box::new(Sealed::greet(stream, connector, deadline)?)),
    }
}

/// Opens a connection to a place, whichever of its addresses takes it first. Each has its share of
/// the time that is left.
fn connect_plain(place: &UrlPlace, deadline: Instant) -> io::Result<Box<dyn Timed>> {
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

/// A connection over TLS.
struct Sealed {
    stream: Box<dyn Timed>,
    codec: TlsCodec,
    /// What has come and was not read.
    plain: Vec<u8>,
    /// Until when a call may wait, whatever it takes.
    until: Cell<Instant>,
}

impl Sealed {
    /// Has the server show who it is.
    fn greet(
        stream: Box<dyn Timed>,
        connector: &Arc<Connector>,
        deadline: Instant,
    ) -> io::Result<Sealed> {
        let mut sealed = Sealed {
            stream,
            codec: TlsCodec::connecting(connector),
            plain: Vec::new(),
            until: Cell::new(deadline),
        };
        sealed.take_in(&[])?;
        while !sealed.codec.is_ready() {
            if !sealed.fill()? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        // Nobody speaks who was not asked.
        match sealed.plain.is_empty() {
            true => Ok(sealed),
            false => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Takes in what comes next; nothing more does where it says no.
    fn fill(&mut self) -> io::Result<bool> {
        self.stream.set_timeout(left(self.until.get())?)?;
        let mut bytes = [0; 4096];
        let count = again(|| self.stream.read(&mut bytes))?;
        self.take_in(&bytes[..count])?;
        Ok(count > 0 && !self.codec.has_ended())
    }

    /// Opens what came, and answers what is to be answered of greetings.
    fn take_in(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut answer = Vec::new();
        let taken = self.codec.take_in(bytes, &mut self.plain, &mut answer);
        // Why it failed says more than that nobody hears of it.
        let told = self.send(&answer);
        taken.map_err(|why| io::Error::other(format!("TLS with it failed: {why}")))?;
        told
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_timeout(left(self.until.get())?)?;
            match again(|| self.stream.write(bytes))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => bytes = &bytes[sent..],
            }
        }
        Ok(())
    }
}

impl Read for Sealed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            if self.codec.has_ended() || !self.fill()? && self.plain.is_empty() {
                return Ok(0);
            }
        }
        let count = self.plain.as_slice().read(bytes)?;
        self.plain.drain(..count);
        Ok(count)
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sealed = Vec::new();
        let taken = self.codec.seal(&[IoSlice::new(bytes)], &mut sealed);
        self.send(&sealed)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Timed for Sealed {
    fn set_timeout(&self, left: Duration) -> io::Result<()> {
        self.until.set(Instant::now() + left);
        Ok(())
    }
}
