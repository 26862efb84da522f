//! Who listens: a thread for TCP, and one for the Unix socket.

use super::serve;
use super::shared::Shared;
use crate::channel::frame;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tracing::{info, warn};

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
        let _ = match self {
            Self::Tcp(stream) => stream
                .set_nonblocking(true)
                .and_then(|()| stream.write_all(&frame)),
            // Its frames go by memory that is not there yet.
            Self::Local(_) => Ok(()),
        };
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

/// Binds a Unix socket. What a donor left that was killed is in the way; one that lives is not
/// disturbed.
pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Starts a thread that has each connection served on one of its own.
pub(super) fn start(
    shared: Arc<Shared>,
    name: &str,
    mut accept: impl FnMut() -> io::Result<Socket> + Send + 'static,
) -> io::Result<()> {
    let listens = move || {
        loop {
            let accepted = accept();
            if shared.is_closing() {
                return;
            }
            if let Err(error) = accepted.and_then(|socket| serve_apart(socket, &shared)) {
                // No descriptors or threads, most likely: those there are will be fewer.
                warn!("cannot serve a borrower of accelerators: {error}");
                thread::sleep(Duration::from_millis(100));
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(listens)?;
    Ok(())
}

fn serve_apart(mut socket: Socket, shared: &Arc<Shared>) -> io::Result<()> {
    let Some(opened) = shared.open(&socket)? else {
        info!("{} is refused: there are too many borrowers", socket.peer());
        socket.refuse("this donor has as many connections as it may: try later");
        return Ok(());
    };
    let shared = Arc::clone(shared);
    let serve = move || {
        serve::serve(socket, &shared);
        drop(opened);
    };
    thread::Builder::new().name("mailbox".into()).spawn(serve)?;
    Ok(())
}
