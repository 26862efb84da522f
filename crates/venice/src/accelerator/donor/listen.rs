//! Who listens: a thread for TCP, and one for the Unix socket.

use super::serve;
use super::shared::Shared;
use super::socket::{REFUSAL_TIME, Socket};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

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

fn serve_apart(socket: Socket, shared: &Arc<Shared>) -> io::Result<()> {
    let guest = shared.guests.come(socket.as_fd())?;
    let shared = Arc::clone(shared);
    let serve = move || match guest.is_refused {
        true => {
            info!("{} is refused: there are too many borrowers", socket.peer());
            // Where it does not greet, there is nobody to be told.
            if let Ok(socket) = socket.greet(Instant::now() + REFUSAL_TIME) {
                socket.refuse("this donor has as many connections as it may: try later");
            }
        }
        false => serve::serve(socket, &shared, &guest),
    };
    thread::Builder::new().name("mailbox".into()).spawn(serve)?;
    Ok(())
}
