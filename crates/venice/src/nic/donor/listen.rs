//! Where borrowers come from: over TCP, or from this machine by a Unix socket.

use super::lender::Lender;
use crate::channel::transport::Transport;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::nic::error::NicError;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{info, warn};

/// Borrowers at a time.
const BORROWERS_MAX: usize = 64;

/// Both listeners, and the thread that has them.
#[derive(Debug)]
pub(super) struct Listeners {
    address: SocketAddr,
    socket: Option<PathBuf>,
    lender: Arc<Lender>,
    thread: Option<JoinHandle<()>>,
}

impl Listeners {
    pub(super) fn start(
        address: SocketAddr,
        socket: Option<&Path>,
        lender: Arc<Lender>,
    ) -> Result<Self, NicError> {
        let cannot = |at: String| {
            move |error: io::Error| NicError::System {
                what: format!("cannot listen on {at}"),
                error,
            }
        };
        let not_there = cannot(address.to_string());
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) = bound.map_err(not_there)?;
        let local = socket.map(|path| listen_at(path).map_err(cannot(path.display().to_string())));
        let local = local.transpose()?;
        let mut listeners = Self {
            address,
            socket: socket.map(Path::to_owned),
            lender: Arc::clone(&lender),
            thread: None,
        };
        let accept = move || accept(&listener, local.as_ref(), &lender);
        let thread = thread::Builder::new()
            .name("nic-donor".into())
            .spawn(accept);
        listeners.thread = Some(thread.map_err(cannot(address.to_string()))?);
        Ok(listeners)
    }

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
        if let Some(socket) = &self.socket {
            let _ = fs::remove_file(socket);
        }
    }
}

/// Listens at a path, where no one else does.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    // What a donor left that was killed is in the way; one that lives is not disturbed.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts until the donor ends, and waits for the threads of borrowers then.
fn accept(tcp: &TcpListener, local: Option<&UnixListener>, lender: &Arc<Lender>) {
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
        let over_tcp = tcp.accept().map(|(stream, peer)| {
            let peer = peer.to_string();
            let open = move || {
                let tcp = Tcp::of(stream).map_err(io::Error::other)?;
                Ok(Box::new(tcp) as Box<dyn Transport>)
            };
            (peer, Box::new(open) as Open)
        });
        let by_socket = local.map(UnixListener::accept).map(|accepted| {
            accepted.map(|(stream, _)| {
                let open = move || {
                    let memory = Shared::offer(stream)?;
                    Ok(Box::new(memory) as Box<dyn Transport>)
                };
                (
                    "a borrower of this machine".to_owned(),
                    Box::new(open) as Open,
                )
            })
        });
        for accepted in [Some(over_tcp), by_socket].into_iter().flatten() {
            match accepted {
                Ok((peer, _)) if threads.len() >= BORROWERS_MAX => {
                    info!("{peer} is refused: there are {BORROWERS_MAX} borrowers");
                }
                Ok((peer, open)) => threads.extend(begin(peer, open, lender)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    // No descriptors, most likely: those there are will be fewer.
                    warn!("cannot accept a connection: {error}");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Makes a transport of what was accepted.
type Open = Box<dyn FnOnce() -> io::Result<Box<dyn Transport>> + Send>;

fn begin(peer: String, open: Open, lender: &Arc<Lender>) -> Option<JoinHandle<()>> {
    let lender = Arc::clone(lender);
    let serve = move || match open() {
        Ok(transport) => lender.serve(transport, &peer),
        Err(error) => warn!("{peer} cannot be served: {error}"),
    };
    let thread = thread::Builder::new().name("nic-loan".into()).spawn(serve);
    let failed = |error: &io::Error| warn!("cannot serve a connection: {error}");
    thread.inspect_err(failed).ok()
}
