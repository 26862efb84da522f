//! Where borrowers come from: over TCP, or from this machine by a Unix socket.

use super::lender::Lender;
use crate::channel::frame;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::channel::transport::{Transport, last_words};
use crate::guests::Guest;
use crate::identity::{ONLY_TLS, Wire};
use crate::nic::error::NicError;
use crate::nic::frames::HELLO_TIME;
use rhythm_net::{SocketFile, listen_at};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::ServerConfig;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a borrower that is refused has to take the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Both listeners, before anybody is accepted.
#[derive(Debug)]
pub(super) struct Bound {
    address: SocketAddr,
    tcp: TcpListener,
    local: Option<(UnixListener, SocketFile)>,
}

fn cannot(at: impl Display, error: io::Error) -> NicError {
    let what = format!("cannot listen on {at}");
    NicError::System { what, error }
}

impl Bound {
    pub(super) fn new(address: SocketAddr, socket: Option<&Path>) -> Result<Self, NicError> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, tcp) = bound.map_err(|error| cannot(address, error))?;
        let local = socket.map(|path| {
            let bound = listen_at(path).map_err(io::Error::other);
            let bound = bound.and_then(|(listener, file)| {
                listener.set_nonblocking(true)?;
                Ok((listener, file))
            });
            bound.map_err(|error| cannot(path.display(), error))
        });
        let local = local.transpose()?;
        Ok(Self {
            address,
            tcp,
            local,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts borrowers, on a thread.
    pub(super) fn serve(
        self,
        lender: Arc<Lender>,
        sealing: Option<Arc<ServerConfig>>,
    ) -> Result<Listeners, NicError> {
        let Self {
            address,
            tcp,
            local,
        } = self;
        let (local, file) = local.unzip();
        let of_thread = Arc::clone(&lender);
        let accept = move || accept(&tcp, sealing.as_ref(), local.as_ref(), &of_thread);
        let thread = thread::Builder::new()
            .name("nic-donor".into())
            .spawn(accept)
            .map_err(|error| cannot(address, error))?;
        Ok(Listeners {
            address,
            lender,
            thread: Some(thread),
            _file: file,
        })
    }
}

/// The thread that has both listeners.
#[derive(Debug)]
pub(super) struct Listeners {
    address: SocketAddr,
    lender: Arc<Lender>,
    thread: Option<JoinHandle<()>>,
    _file: Option<SocketFile>,
}

impl Listeners {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.lender.stop.end();
        if let Some(thread) = self.thread.take() {
            // A panic has said so.
            let _ = thread.join();
        }
    }
}

/// Accepts until the donor ends, and waits for the threads of borrowers then.
fn accept(
    tcp: &TcpListener,
    sealing: Option<&Arc<ServerConfig>>,
    local: Option<&UnixListener>,
    lender: &Arc<Lender>,
) {
    let mut threads = Vec::<JoinHandle<()>>::new();
    while !lender.stop.is_due() {
        let local_fd = local.map(AsFd::as_fd);
        let all: [Option<BorrowedFd<'_>>; 3] =
            [Some(lender.stop.event()), Some(tcp.as_fd()), local_fd];
        let fds = all.into_iter().flatten();
        let mut fds: Vec<_> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // Where it is disturbed, there is nobody yet.
        let _ = poll(&mut fds, None);
        threads.retain(|thread| !thread.is_finished());
        let by_socket = local.map(|local| by_socket(local, lender));
        for begun in [Some(by_tcp(tcp, sealing, lender)), by_socket]
            .into_iter()
            .flatten()
        {
            match begun {
                Ok(thread) => threads.extend(thread),
                Err(error) => {
                    // No descriptors or threads, most likely: those there are will be fewer.
                    warn!("cannot serve a borrower: {error}");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// What was accepted; none where there is nobody.
fn accepted<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
    match accepted {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        accepted => accepted.map(Some),
    }
}

fn by_tcp(
    tcp: &TcpListener,
    sealing: Option<&Arc<ServerConfig>>,
    lender: &Arc<Lender>,
) -> io::Result<Option<JoinHandle<()>>> {
    let Some((stream, peer)) = accepted(tcp.accept())? else {
        return Ok(None);
    };
    let guest = lender.guests.come(stream.as_fd())?;
    let sealing = sealing.cloned();
    let open = move || Ok(Box::new(open(stream, sealing.as_ref())?) as _);
    begin(peer.to_string(), guest, open, lender).map(Some)
}

/// In TLS where there is something to be shown; who does not speak it is told so.
fn open(stream: TcpStream, sealing: Option<&Arc<ServerConfig>>) -> io::Result<Tcp> {
    let until = Instant::now() + HELLO_TIME;
    let wire = match sealing {
        None => Wire::Plain(stream),
        Some(_) if !Wire::begins_in_tls(&stream, until) => {
            let mut transport = Tcp::of(stream).map_err(io::Error::other)?;
            let mut frame = Vec::new();
            frame::put_refusal(&mut frame, ONLY_TLS);
            last_words(&mut transport, &mut frame, &mut 0, REFUSAL_TIME);
            return Err(io::Error::other(ONLY_TLS));
        }
        Some(config) => Wire::accept(stream, config, until)?,
    };
    Tcp::over(wire).map_err(io::Error::other)
}

fn by_socket(local: &UnixListener, lender: &Arc<Lender>) -> io::Result<Option<JoinHandle<()>>> {
    let Some((stream, _)) = accepted(local.accept())? else {
        return Ok(None);
    };
    let guest = lender.guests.come(stream.as_fd())?;
    let open = move || Ok(Box::new(Shared::offer(stream)?) as _);
    let peer = "a borrower of this machine";
    begin(peer.to_owned(), guest, open, lender).map(Some)
}

/// Serves a connection on a thread, which makes a transport of it first.
fn begin(
    peer: String,
    guest: Guest,
    open: impl FnOnce() -> io::Result<Box<dyn Transport>> + Send + 'static,
    lender: &Arc<Lender>,
) -> io::Result<JoinHandle<()>> {
    let lender = Arc::clone(lender);
    let serve = move || match open() {
        Ok(transport) => lender.serve(transport, &peer, &guest),
        Err(error) => lender.not_served(&peer, &error),
    };
    thread::Builder::new().name("nic-loan".into()).spawn(serve)
}
