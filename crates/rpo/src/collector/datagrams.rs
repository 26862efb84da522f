//! A Unix datagram socket that servers tell of requests by.

use super::record::{Counts, Record};
use super::{access_log, lines};
use rustix::net::sockopt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Longest datagram that is read whole; what is cut is garbage at its end.
const DATAGRAM_MAX: usize = 64 * 1024;
/// Datagrams a look, so that a flood does not keep the controller from all else.
const DATAGRAMS_MAX: usize = 1024;
/// Room for what comes between two looks. The number of datagrams is the kernel's to bound
/// (net.unix.max_dgram_qlen).
const ROOM: usize = 1024 * 1024;

/// What the datagrams have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The protocol of [`lines`].
    Lines,
    /// A line of an access log each.
    AccessLog,
}

/// A socket cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for datagrams at {path}")]
pub struct DatagramError {
    path: PathBuf,
    source: io::Error,
}

/// A socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Datagrams {
    socket: UnixDatagram,
    path: PathBuf,
    form: Form,
    buffer: Vec<u8>,
    counts: Counts,
}

impl Datagrams {
    /// Listens at `path`, a file that only users with these permissions can send to. A socket that
    /// nobody listens at any more is replaced.
    ///
    /// # Errors
    /// When there is something else at that path, or somebody listens there.
    pub fn bind(path: &Path, mode: u32, form: Form) -> Result<Datagrams, DatagramError> {
        let bind = || -> io::Result<UnixDatagram> {
            if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
                match UnixDatagram::unbound()?.connect(path) {
                    Ok(()) => return Err(ErrorKind::AddrInUse.into()),
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                        fs::remove_file(path)?;
                    }
                    Err(error) => return Err(error),
                }
            }
            let socket = UnixDatagram::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            socket.set_nonblocking(true)?;
            // As much of it as the system allows.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, ROOM);
            Ok(socket)
        };
        let socket = bind().map_err(|source| DatagramError {
            path: path.to_owned(),
            source,
        })?;
        Ok(Datagrams {
            socket,
            path: path.to_owned(),
            form,
            buffer: vec![0; DATAGRAM_MAX],
            counts: Counts::default(),
        })
    }

    /// What is waited for.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What it has counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Gives what has come, as much of it as one look takes.
    pub fn look(&mut self, mut each: impl FnMut(Record<'_>)) {
        for _ in 0..DATAGRAMS_MAX {
            // What fails but for being empty, fails for that datagram.
            let length = match self.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let datagram = &self.buffer[..length];
            let counts = &mut self.counts;
            let mut count = |record: Record<'_>| {
                counts.records += 1;
                each(record);
            };
            let garbage = match self.form {
                Form::Lines => lines::read(datagram, count),
                Form::AccessLog => match access_log::read(datagram) {
                    Some(record) => {
                        count(record);
                        0
                    }
                    None => 1,
                },
            };
            self.counts.garbage += garbage;
        }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        // It may be gone, or the folder with it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn what_is_sent_is_told_and_garbage_counted() {
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("rpo.sock");
        let mut socket = Datagrams::bind(&path, 0o600, Form::Lines).expect("a socket");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let sender = UnixDatagram::unbound().expect("a socket");
        for datagram in ["a GET /a 1\na GET /b 2", "", "junk", "c GET /a 200 5 1"] {
            sender.send_to(datagram.as_bytes(), &path).expect("room");
        }
        let mut paths = Vec::new();
        socket.look(|record| paths.push(record.path.to_owned()));
        assert_eq!(paths, ["/a", "/b", "/a"]);
        let (records, garbage) = (3, 1);
        assert_eq!(
            socket.counts(),
            Counts {
                records,
                garbage,
                lost: 0
            }
        );
        let error = Datagrams::bind(&path, 0o600, Form::Lines).expect_err("in use");
        assert!(error.to_string().contains("rpo.sock"));
        drop(socket);
        assert!(!path.exists());
        fs::write(&path, "a file of somebody's").expect("a file");
        assert!(Datagrams::bind(&path, 0o600, Form::Lines).is_err());
        assert!(path.exists());
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("log.sock");
        drop(UnixDatagram::bind(&path).expect("a socket"));
        let mut socket = Datagrams::bind(&path, 0o622, Form::AccessLog).expect("a socket");
        let line = "<190>x h nginx: h - - [t] \"GET /x HTTP/1.1\" 200 5 0.001";
        let sender = UnixDatagram::unbound().expect("a socket");
        sender.send_to(line.as_bytes(), &path).expect("room");
        let mut told = 0;
        socket.look(|_| told += 1);
        assert_eq!(told, 1);
    }
}
