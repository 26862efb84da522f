//! Connections to threads of this process: what blocks (a database in a file, say) stands on a
//! thread of its own, and a handler reaches it as it reaches any peer, through its port.
//!
//! The socket is an abstract one (unix(7)), so that nothing of it lies in a file system or stays
//! behind, of a name that nobody guesses; and who is not this process is turned away.

use crate::port::{Peer, PeerAddress};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;
use std::sync::Arc;

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

    /// Waits for the next connection of this process; it blocks, for a thread to read.
    ///
    /// # Errors
    ///
    /// What the system said.
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
pub fn is_gone(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(stream, &mut [0], flags) {
        Ok((read, _)) => read == 0,
        Err(errno) => !matches!(errno, Errno::AGAIN | Errno::INTR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
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
        use std::io::Write;
        let mut stream = listener.accept().unwrap();
        assert!(!is_gone(&stream));
        stream.write_all(b"!").unwrap();
        assert_eq!(ours.join().unwrap(), *b"!");
        assert!(is_gone(&stream));
    }
}
