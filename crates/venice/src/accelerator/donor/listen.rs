//! Who listens: a thread for TCP, and one for the Unix socket.

use super::serve;
use super::shared::Shared;
use super::socket::Socket;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tracing::{info, warn};

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
