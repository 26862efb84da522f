//! Connections to threads of this process: what blocks (a database in a file, say) stands on a
//! thread of its own, and a handler reaches it as it reaches any peer, through its port.
//!
//! The socket is an abstract one (unix(7)), so that nothing of it lies in a file system or stays
//! behind, of a name that nobody guesses; and who is not this process is turned away.

use crate::port::{Peer, PeerAddress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;
use std::sync::Arc;
use std::time::Duration;

/// A listener that this process alone reaches.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    name: Arc<[u8]>,
}

impl LocalListener {
    /// Listens.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn bind() -> io::Result<LocalListener> {
        let mut random = [0_u8; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!(
            "rhythm-{}-{:032x}",
            process::id(),
            u128::from_ne_bytes(random)
        );
        let address = SocketAddr::from_abstract_name(&name)?;
        Ok(LocalListener {
            listener: UnixListener::bind_addr(&address)?,
            name: name.into_bytes().into(),
        })
    }

    /// Where it is, as a peer that logs call so.
    pub fn peer(&self, name: &str) -> Peer {
        Peer {
            address: PeerAddress::Local(self.name.clone()),
            name: name.into(),
            seal: None,
        }
    }

    /// Whether somebody has a peer of it, and so may connect.
    pub fn is_known(&self) -> bool {
        Arc::strong_count(&self.name) > 1
    }

    /// Takes no more connections: who waits for one, or will, is told an error.
    pub fn stop(&self) {
        // Nothing is listened at that could not be shut down.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }

    /// Waits for a connection for so long. Whether there may be one, or it was stopped.
    pub fn waits(&self, time: Duration) -> bool {
        let mut looked = [PollFd::new(&self.listener, PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        // Where it cannot be said, accepting says it.
        poll(&mut looked, time.as_ref()).unwrap_or(1) > 0
    }

    /// Waits for the next connection of this process; it blocks, for a thread to read.
    ///
    /// # Errors
    ///
    /// What the system said, or that it was stopped.
    pub fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = match self.listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                accepted => accepted?,
            };
            let from = socket_peercred(&stream)?;
            if from.pid.as_raw_nonzero().get().unsigned_abs() == process::id() {
                return Ok(stream);
            }
        }
    }
}

/// Whether the other side of such a connection has closed it: nobody waits for an answer any more.
/// Bytes that it sent before, and that nobody has read, do not hide that.
pub fn is_gone(stream: &UnixStream) -> bool {
    let mut looked = [PollFd::new(stream, PollFlags::RDHUP)];
    // Where it cannot be said, it is not.
    let ready = poll(&mut looked, Some(&Timespec::default())).unwrap_or(0);
    ready > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn who_is_another_process_is_turned_away() {
        let listener = LocalListener::bind().unwrap();
        let name = String::from_utf8(listener.name.to_vec()).unwrap();
        let stranger = "import socket,sys\n\
            s=socket.socket(socket.AF_UNIX)\n\
            s.connect('\\0'+sys.argv[1])\n\
            print(repr(s.recv(1)))";
        let stranger = Command::new("python3")
            .args(["-c", stranger, &name])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let connected = std::thread::spawn(move || {
            // The stranger waits to be turned away, and so is there first.
            let told = stranger.wait_with_output().unwrap();
            assert_eq!(told.stdout, b"b''\n");
        });
        let ours = std::thread::spawn({
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            move || {
                connected.join().unwrap();
                let mut stream = UnixStream::connect_addr(&address).unwrap();
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                byte
            }
        });
        let mut stream = listener.accept().unwrap();
        assert!(!is_gone(&stream));
        stream.write_all(b"!").unwrap();
        assert_eq!(ours.join().unwrap(), *b"!");
        assert!(is_gone(&stream));
    }

    #[test]
    fn who_has_closed_behind_bytes_that_nobody_has_read_is_gone() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"?").unwrap();
        assert!(!is_gone(&ours));
        drop(theirs);
        assert!(is_gone(&ours));
    }

    #[test]
    fn who_listens_knows_whether_anybody_may_come_and_stops() {
        let listener = LocalListener::bind().unwrap();
        assert!(!listener.is_known());
        let peer = listener.peer("test");
        let again = peer.clone();
        drop(peer);
        assert!(listener.is_known());
        drop(again);
        assert!(!listener.is_known());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| listener.accept().is_err());
            listener.stop();
            assert!(waits.join().unwrap());
        });
        assert!(listener.accept().is_err());
    }
}
