//! Borrowers of the same machine: each connects to a Unix socket, and is handed memory with two
//! rings in it, by which all else goes.

use super::loans::Shared;
use super::places::{HELLO_TIME, Place};
use super::windows;
use crate::channel::transport::shared;
use rhythm_net::{SocketFile, listen_at};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tracing::warn;

/// A socket that is listened at until dropped.
#[derive(Debug)]
pub(super) struct Local {
    path: PathBuf,
    _file: SocketFile,
}

impl Local {
    /// Listens.
    ///
    /// # Errors
    /// What the system says of the path.
    pub(super) fn start(path: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        let (listener, file) = listen_at(path).map_err(io::Error::other)?;
        let local = Self {
            path: path.to_owned(),
            _file: file,
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
            // No threads, most likely, as above.
            warn!("cannot serve a connection: {error}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn serve(stream: UnixStream, place: &Place) {
    let until = Instant::now() + HELLO_TIME;
    let peer = "a borrower of this machine";
    let offered = stream
        .try_clone()
        .and_then(|copy| Ok((copy, shared::Shared::offer(stream)?)));
    match offered {
        Ok((socket, transport)) => windows::serve(transport, socket.as_fd(), place, peer, until),
        Err(error) => {
            place.refused(
                peer,
                &format_args!("memory cannot be shared with it: {error}"),
            );
        }
    }
}
