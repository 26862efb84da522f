//! Datagrams (UDP, frames of a link): many are received in one system call and handed over
//! together, and many are sent in one.
//!
//! ```text
//!   recvmmsg ---> &[Datagram] ---> Handler::datagrams       what was ready is a cohort
//!   sendmmsg <--- &[Datagram] <--- Port::send_datagrams     runs of equal length to one peer leave
//!                                                           as one (generic segmentation offload)
//! ```
//!
//! Nothing is kept: what the socket does not take at once is dropped and reported as such, as the
//! network itself may drop it, and the peer's protocol must ask again either way. A receiver so
//! never waits for a sender, and memory is one buffer for each driver.

mod link;
mod messages;

use crate::driver::listen_error::ListenError;
use crate::driver::listener::{ListenOptions, bound, bound_group, local_address};
use crate::port::Datagram;
use messages::{Form, Messages};
use rustix::io::Errno;
use rustix::net::SocketType;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use link::{Link, LinkError};
pub(crate) use messages::BATCH_MAX;

/// A socket that sends and receives datagrams.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: OwnedFd,
    address: SocketAddr,
    /// How datagrams are sent: as segments, as long as the system can cut messages.
    form: Form,
    /// The handler wants none of its datagrams now.
    pub(crate) is_paused: bool,
    /// Epoll knows so.
    pub(crate) is_known_paused: bool,
}

impl DatagramSocket {
    /// A socket at `address`, alone; with port 0 at a free port.
    ///
    /// # Errors
    ///
    /// [`ListenError`], worded for the person who chose the address.
    pub fn bind(address: SocketAddr) -> Result<DatagramSocket, ListenError> {
        let socket = bound(address, SocketType::DGRAM, &ListenOptions::default(), false)
            .map_err(|errno| ListenError::new(address, errno))?;
        DatagramSocket::new(socket, address)
    }

    /// `count` sockets at `address`, over which the kernel spreads the peers. With port 0 all get
    /// the same free port.
    ///
    /// # Errors
    ///
    /// As [`DatagramSocket::bind`]; in particular when another process has the port.
    pub fn bind_group(
        address: SocketAddr,
        count: usize,
    ) -> Result<Vec<DatagramSocket>, ListenError> {
        let sockets = bound_group(address, SocketType::DGRAM, &ListenOptions::default(), count)?;
        let socket = |socket| DatagramSocket::new(socket, address);
        sockets.into_iter().map(socket).collect()
    }

    fn new(socket: OwnedFd, address: SocketAddr) -> Result<DatagramSocket, ListenError> {
        Ok(DatagramSocket {
            address: local_address(&socket, address)?,
            socket,
            form: Form::Segments,
            is_paused: false,
            is_known_paused: false,
        })
    }

    /// Where it is; the port is the one given by the system if 0 was asked for. Of a link: all
    /// stations on it.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Receives what is there, up to [`BATCH_MAX`] datagrams, each into a share of `buffer`; they
    /// are listed in `room`.
    pub(crate) fn receive<'a, 'b>(
        &self,
        buffer: &'b mut [u8],
        room: &'a mut [Datagram<'b>; BATCH_MAX],
    ) -> &'a [Datagram<'b>] {
        let share = buffer.len() / BATCH_MAX;
        let mut messages = Messages::new();
        let received = messages.receive(self.as_fd(), buffer.chunks_exact_mut(share));
        // A failure belongs to what was sent before (its peer is not there); the next call
        // receives.
        let count = received.unwrap_or(0);
        let buffer: &'b [u8] = buffer;
        let shares = buffer.chunks_exact(share);
        for ((datagram, share), message) in
            room.iter_mut().zip(shares).zip(messages.received(count))
        {
            *datagram = Datagram {
                peer: message.peer,
                bytes: &share[..message.length],
                is_truncated: message.is_truncated,
            };
        }
        &room[..count]
    }

    /// Sends what the socket takes now, and says how many of the datagrams that were.
    pub(crate) fn send(&mut self, datagrams: &[Datagram<'_>]) -> usize {
        let mut rest = datagrams;
        let mut sent = 0;
        let mut form = self.form;
        while !rest.is_empty() {
            match Messages::new().send(self.socket.as_fd(), rest, form) {
                Ok(count) => {
                    debug_assert!(
                        0 < count && count <= rest.len(),
                        "one at least, or an error"
                    );
                    sent += count;
                    rest = &rest[count..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                // The first message failed. Where it was to be cut, it may be that the system
                // cannot, for this one or ever (EIO: the device does not compute checksums).
                Err(errno) if form == Form::Segments => {
                    form = Form::Each;
                    if errno == Errno::IO {
                        self.form = form;
                    }
                }
                // Too long, or no way to this peer: the others may be well.
                Err(_) => rest = &rest[1..],
            }
        }
        sent
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
