//! Borrowers of the same machine: each connects to a Unix socket, and is handed memory with two
//! rings in it, by which all else goes.

use super::loans::Shared;
use super::places::Place;
use super::windows;
use crate::channel::transport::shared;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tracing::warn;

/// A socket that is listened at until dropped.
#[derive(Debug)]
pub(super) struct Local {
    path: PathBuf,
}

impl Local {
    /// Listens.
    ///
    /// # Errors
    /// What the system says of the path.
    pub(super) fn start(path: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        // What a donor left that was killed is in the way; one that lives is not disturbed.
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && UnixStream::connect(path).is_err_and(refused) {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let local = Self {
            path: path.to_owned(),
        };
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name("donor-local".into())
            .spawn(move || accept(&listener, &shared))?;
        Ok(local)
    }
}

impl Drop for Local {
    /// Has the thread look whether the donor ends.
    fn drop(&mut self) {
        let _ = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors, most likely: those there are will be fewer.
                warn!("cannot accept a connection: {error}");
                thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let Some(place) = Place::take(shared, &stream) else {
            continue;
        };
        let started = thread::Builder::new()
            .name("loan".into())
            .spawn(move || serve(stream, &place));
        if let Err(error) = started {
            warn!("cannot serve a connection: {error}");
        }
    }
}

fn serve(stream: UnixStream, place: &Place) {
    let peer = "a borrower of this machine";
    let offered = stream
        .try_clone()
        .and_then(|copy| Ok((copy, shared::Shared::offer(stream)?)));
    match offered {
        Ok((socket, transport)) => windows::serve(transport, socket.as_fd(), place, peer),
        Err(error) => warn!("memory cannot be shared with {peer}: {error}"),
    }
}
