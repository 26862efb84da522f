//! Frames of a link (Ethernet) as datagrams: an AF_PACKET socket of one interface and EtherType.
//!
//! The system writes and reads the frames' headers: bytes are what a frame carries (padded with
//! zeros to 46 where it is less), and a peer is a [`station`], as its link-local IPv6 address with
//! the interface as scope and the EtherType as port. Frames may be lost, doubled and come out of
//! order; damaged ones are dropped by the hardware, where there is some.

use super::messages::{Form, bind_to_link, frame_bytes_max, station};
use super::{DatagramSocket, SocketType};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, netdevice, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Bytes that may wait to be received: a neighbor sends faster than this thread may come to run.
const RECEIVE_BYTES: usize = 4 << 20;

/// Why a link cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Raw frames are for privileged processes.
    #[error(
        "no permission for Ethernet frames on {0}: grant CAP_NET_RAW (AmbientCapabilities= in a \
         unit of systemd, or `setcap cap_net_raw+ep` on the program)"
    )]
    Permission(String),
    /// There is no such interface.
    #[error("there is no interface {0}: `ip link` tells their names")]
    Missing(String),
    /// Anything else.
    #[error("cannot use {interface} for Ethernet frames: {error}")]
    Other {
        /// Which interface.
        interface: String,
        /// What the system said; it stands in the message.
        error: io::Error,
    },
}

/// What is known of a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The most bytes that a frame carries (the interface's MTU).
    pub frame_bytes_max: usize,
    /// The peer that stands for all stations (broadcast).
    pub everybody: SocketAddr,
}

impl DatagramSocket {
    /// Frames of this EtherType on the interface of this name.
    ///
    /// # Errors
    ///
    /// [`LinkError`], worded for the person who chose the interface.
    pub fn link(interface: &str, ether_type: u16) -> Result<(DatagramSocket, Link), LinkError> {
        DatagramSocket::open_link(interface, ether_type).map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => LinkError::Permission(interface.to_owned()),
            Errno::NODEV | Errno::NXIO => LinkError::Missing(interface.to_owned()),
            errno => LinkError::Other {
                interface: interface.to_owned(),
                error: errno.into(),
            },
        })
    }

    fn open_link(interface: &str, ether_type: u16) -> Result<(DatagramSocket, Link), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Without a protocol it takes nothing, until it is bound to one and to the interface.
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        let index = netdevice::name_to_index(&socket, interface)?;
        let frame_bytes_max = frame_bytes_max(socket.as_fd(), interface)?;
        // Beyond what any process may have (CAP_NET_ADMIN), else as much as that is.
        sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES))?;
        let everybody = station([0xff; 6], index, ether_type);
        bind_to_link(socket.as_fd(), everybody)?;
        let socket = DatagramSocket {
            socket,
            address: everybody,
            form: Form::Frames,
            is_paused: false,
            is_known_paused: false,
        };
        let link = Link {
            frame_bytes_max,
            everybody,
        };
        Ok((socket, link))
    }
}
