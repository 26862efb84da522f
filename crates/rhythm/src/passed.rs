//! Sockets that whoever started this process passed to it.

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;
use rhythm_net::{ListenOptions, Listener};
use rhythm_server::Inherited;
use std::io;
use std::os::fd::OwnedFd;

/// Those passed as sd_listen_fds(3) tells.
pub(crate) fn inherited() -> Result<Inherited> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut passed = ListenFd::from_env();
    let mut inherited = Inherited::default();
    for index in 0..passed.len() {
        let name = names.next().unwrap_or_default();
        let listener = take_listener(&mut passed, index).with_context(|| {
            format!("socket {index} of those passed (LISTEN_FDS) cannot be listened on")
        })?;
        match name {
            "admin" if inherited.admin.is_some() => {
                bail!("two of the sockets passed (LISTEN_FDNAMES) are named admin: name one so")
            }
            "admin" => inherited.admin = listener,
            "tls" => inherited.tls.extend(listener),
            _ => inherited.clients.extend(listener),
        }
    }
    Ok(inherited)
}

/// A socket that was passed, TCP or Unix, unless it was taken before.
fn take_listener(passed: &mut ListenFd, index: usize) -> io::Result<Option<Listener>> {
    let tcp = passed.take_tcp_listener(index);
    let socket: Option<OwnedFd> = match tcp {
        Ok(socket) => socket.map(OwnedFd::from),
        Err(no_tcp) => match passed.take_unix_listener(index) {
            Ok(socket) => socket.map(OwnedFd::from),
            Err(_) => return Err(no_tcp),
        },
    };
    let nodelay = ListenOptions::default().nodelay;
    socket
        .map(|socket| Listener::inherited(socket, nodelay))
        .transpose()
}
