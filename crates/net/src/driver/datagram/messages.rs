//! recvmmsg and sendmmsg, and what link sockets need to be bound: the system calls of this crate
//! that no safe wrapper offers as we need them (rustix has no recvmmsg, no control message for
//! segmentation, and no address of the link layer).
//!
//! The kernel is given arrays of headers that point into other arrays. All of them lie in one
//! [`Messages`] on the stack, are filled and used within one method, and no pointer outlives it.
#![allow(unsafe_code)]

use crate::port::Datagram;
use libc::{cmsghdr, iovec, mmsghdr, sockaddr_in6};
use rustix::io::Errno;
use std::mem::zeroed;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams in one system call.
pub(crate) const BATCH_MAX: usize = 64;
/// Segments that the kernel cuts one message into (UDP_MAX_SEGMENTS of the older kernels).
const SEGMENTS_MAX: usize = 64;
/// What one message may hold beside the headers of IP and UDP.
const MESSAGE_BYTES_MAX: usize = 65_000;

/// Says into segments of which size the kernel cuts a message. The layout is that of a control
/// message with two bytes of data: cmsg(3), where data follow the header at once.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct SegmentSize {
    header: cmsghdr,
    bytes: u16,
}

/// How datagrams become messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Each by itself, to a port of a host.
    Each,
    /// Those of equal length to one peer that follow each other as one.
    Segments,
    /// Each by itself, to a station of a link.
    Frames,
}

/// What is told of a datagram that was received.
pub(super) struct Received {
    pub(super) peer: SocketAddr,
    pub(super) length: usize,
    pub(super) is_truncated: bool,
}

/// Room for the messages of one call.
pub(super) struct Messages {
    headers: [mmsghdr; BATCH_MAX],
    /// Large enough for IPv4, too.
    addresses: [sockaddr_in6; BATCH_MAX],
    slices: [iovec; BATCH_MAX],
    segment_sizes: [SegmentSize; BATCH_MAX],
}

impl Messages {
    pub(super) fn new() -> Messages {
        // SAFETY: these are plain C structures of integers and raw pointers, for which all zeros
        // (null) is a value.
        unsafe { zeroed() }
    }

    /// Receives into one of `buffers` each, without waiting, and says how many it were.
    pub(super) fn receive<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> Result<usize, Errno> {
        let mut count = 0;
        for (index, buffer) in buffers.take(BATCH_MAX).enumerate() {
            self.slices[index] = iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = ptr::from_mut(&mut self.addresses[index]).cast();
            header.msg_namelen = size_of::<sockaddr_in6>() as u32;
            header.msg_iov = &mut self.slices[index];
            header.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` headers point to an address and a slice of `self`, and each
        // slice to a buffer that is borrowed mutably, with its length, for longer than this call
        // (`'a` outlives the function). The kernel writes there and to the headers, and keeps no
        // pointer. The rest of each header is zero: no control data.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| last_errno())
    }

    /// What is told of the first `count` messages received.
    pub(super) fn received(&self, count: usize) -> impl Iterator<Item = Received> {
        let messages = self.headers.iter().zip(&self.addresses).take(count);
        messages.map(|(header, address)| Received {
            peer: from_system(address),
            length: header.msg_len as usize,
            is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// Sends from the front of `datagrams`, without waiting, and says how many.
    ///
    /// # Errors
    ///
    /// When none was sent: why the first was not.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: &[Datagram<'_>],
        form: Form,
    ) -> Result<usize, Errno> {
        let datagrams = &datagrams[..datagrams.len().min(BATCH_MAX)];
        for (slice, datagram) in self.slices.iter_mut().zip(datagrams) {
            // The kernel only reads what is sent; the type has no constant form.
            slice.iov_base = datagram.bytes.as_ptr().cast_mut().cast();
            slice.iov_len = datagram.bytes.len();
        }
        let mut messages = 0;
        let mut first = 0;
        while first < datagrams.len() {
            let run = match form {
                Form::Segments => run_length(&datagrams[first..]),
                Form::Each | Form::Frames => 1,
            };
            let address = &mut self.addresses[messages];
            let header = &mut self.headers[messages].msg_hdr;
            header.msg_namelen = match form {
                Form::Frames => to_station(datagrams[first].peer, address),
                Form::Each | Form::Segments => to_system(datagrams[first].peer, address),
            };
            header.msg_name = ptr::from_mut(address).cast();
            header.msg_iov = &mut self.slices[first];
            header.msg_iovlen = run as _;
            if run > 1 {
                let size = &mut self.segment_sizes[messages];
                size.header.cmsg_level = libc::SOL_UDP;
                size.header.cmsg_type = libc::UDP_SEGMENT;
                size.header.cmsg_len = (size_of::<cmsghdr>() + size_of::<u16>()) as _;
                size.bytes = datagrams[first].bytes.len() as u16;
                header.msg_control = ptr::from_mut(size).cast();
                header.msg_controllen = size_of::<SegmentSize>() as _;
            }
            messages += 1;
            first += run;
        }
        // SAFETY: the first `messages` headers point to an address of `self` with its length, to
        // `run` slices of `self` (the runs follow each other and end with `datagrams`), and to a
        // whole control message or to none. The slices point to the datagrams' bytes, which are
        // borrowed for longer than this call. The kernel reads all of it, writes to the headers'
        // `msg_len` only, and keeps no pointer: what it sends it has copied or holds by itself.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                messages as u32,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        let sent = usize::try_from(sent).map_err(|_| last_errno())?;
        let slices = self.headers[..sent]
            .iter()
            .map(|header| header.msg_hdr.msg_iovlen);
        Ok(slices.sum())
    }
}

/// How many of the datagrams from the first on can leave as one message: to one peer, of the first
/// one's length but for the last, which may be shorter.
fn run_length(datagrams: &[Datagram<'_>]) -> usize {
    let [first, others @ ..] = datagrams else {
        return 0;
    };
    let length = first.bytes.len();
    let fitting = MESSAGE_BYTES_MAX.checked_div(length).unwrap_or(1);
    let bound = fitting.clamp(1, SEGMENTS_MAX);
    let mut run = 1;
    for datagram in others {
        let bytes = datagram.bytes.len();
        if run == bound || datagram.peer != first.peer || bytes > length || bytes == 0 {
            break;
        }
        run += 1;
        if bytes < length {
            break;
        }
    }
    run
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Writes an address as the system has it, and says how long it is.
fn to_system(address: SocketAddr, out: &mut sockaddr_in6) -> u32 {
    out.sin6_port = address.port().to_be();
    match address {
        SocketAddr::V4(address) => {
            out.sin6_family = libc::AF_INET as u16;
            // Of sockaddr_in, family and port lie at the same places, and the address in that of
            // the flow information.
            out.sin6_flowinfo = u32::from_ne_bytes(address.ip().octets());
            size_of::<libc::sockaddr_in>() as u32
        }
        SocketAddr::V6(address) => {
            out.sin6_family = libc::AF_INET6 as u16;
            out.sin6_flowinfo = address.flowinfo();
            out.sin6_addr.s6_addr = address.ip().octets();
            out.sin6_scope_id = address.scope_id();
            size_of::<sockaddr_in6>() as u32
        }
    }
}

/// The inverse of [`to_system`] and [`to_station`].
fn from_system(address: &sockaddr_in6) -> SocketAddr {
    let port = u16::from_be(address.sin6_port);
    match i32::from(address.sin6_family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(address.sin6_flowinfo.to_ne_bytes());
            return SocketAddr::from((ip, port));
        }
        libc::AF_PACKET => {
            let [_, _, _, _, a, b, c, d, e, f, ..] = address.sin6_addr.s6_addr;
            return station([a, b, c, d, e, f], address.sin6_flowinfo, port);
        }
        family => debug_assert_eq!(family, libc::AF_INET6),
    }
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into()
}

/// A station of a link as an address: the link-local one that IPv6 makes of its hardware address
/// (RFC 4291, appendix A), on the interface of this index. The EtherType stands for the port.
pub(super) fn station(hardware: [u8; 6], interface: u32, ether_type: u16) -> SocketAddr {
    let [a, b, c, d, e, f] = hardware;
    let ip = [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ];
    SocketAddrV6::new(ip.into(), ether_type, 0, interface).into()
}

/// Writes the address of a [`station`] as the system has it (sockaddr_ll), and says how long it is.
/// One that is none is of no interface, and not sent to.
fn to_station(address: SocketAddr, out: &mut sockaddr_in6) -> u32 {
    out.sin6_family = libc::AF_PACKET as u16;
    out.sin6_port = address.port().to_be();
    if let SocketAddr::V6(address) = address {
        let [.., a, b, c, _, _, d, e, f] = address.ip().octets();
        // Of sockaddr_ll, the EtherType lies at the port's place and the index of the interface at
        // that of the flow information; behind them the kind of hardware, which the system knows,
        // and the length of the address and itself.
        out.sin6_flowinfo = address.scope_id();
        out.sin6_addr.s6_addr[..10].copy_from_slice(&[0, 0, 0, 6, a ^ 2, b, c, d, e, f]);
    }
    size_of::<libc::sockaddr_ll>() as u32
}

/// Has a packet socket take the frames that come to the interface and bear the EtherType of this
/// [`station`]: any of the interface's.
pub(super) fn bind_to_link(socket: BorrowedFd<'_>, station: SocketAddr) -> Result<(), Errno> {
    let mut address = Messages::new().addresses[0];
    let length = to_station(station, &mut address);
    // SAFETY: the address lies here, has more than `length` bytes, all of them initialized, and is
    // only read, during this call. The descriptor is open as long as it is borrowed.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) };
    match bound {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// The most bytes that a frame carries on the interface of this name.
pub(super) fn frame_bytes_max(socket: BorrowedFd<'_>, interface: &str) -> Result<usize, Errno> {
    // SAFETY: a plain C structure of integers, and of a union of such, pointers among them: all
    // zeros is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays zero: it ends the name.
    let most = request.ifr_name.len() - 1;
    if interface.len() > most {
        return Err(Errno::NODEV);
    }
    let name = request.ifr_name.iter_mut().zip(interface.bytes());
    name.for_each(|(to, byte)| *to = byte as _);
    // SAFETY: this request reads the name and writes the number, both in the structure that lies
    // here during the call, and keeps no pointer. The descriptor is open as long as it is borrowed.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) };
    if done != 0 {
        return Err(last_errno());
    }
    // SAFETY: the system wrote this member of the union; and any bytes are an integer.
    let bytes = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(bytes).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_to_the_system_and_back() {
        for text in [
            "192.0.2.7:80",
            "[2001:db8::7%3]:65535",
            "0.0.0.0:0",
            "[::]:1",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            let mut system = Messages::new().addresses[0];
            let length = to_system(address, &mut system);
            assert_eq!(
                (from_system(&system), length),
                (address, if address.is_ipv4() { 16 } else { 28 })
            );
        }
    }

    #[test]
    fn stations_go_to_the_system_and_back() {
        let hardware = [0x52, 0x54, 0, 0xab, 0xcd, 0xef];
        let of_7 = station(hardware, 7, 0x88b5);
        assert_eq!(of_7.to_string(), "[fe80::5054:ff:feab:cdef%7]:34997");
        let mut system = Messages::new().addresses[0];
        assert_eq!(to_station(of_7, &mut system), 20);
        assert_eq!(from_system(&system), of_7);
        assert_eq!(system.sin6_port.to_ne_bytes(), [0x88, 0xb5]);
        assert_eq!(system.sin6_addr.s6_addr[4..10], hardware);
    }

    #[test]
    fn a_run_is_of_one_peer_and_one_length_but_for_its_last() {
        let bytes = [0; 2000];
        let peers: [SocketAddr; 2] =
            ["192.0.2.1:1", "192.0.2.2:1"].map(|peer| peer.parse().unwrap());
        let run = |lengths: &[(usize, usize)]| {
            let datagram =
                |&(peer, length): &(usize, usize)| Datagram::new(peers[peer], &bytes[..length]);
            run_length(&lengths.iter().map(datagram).collect::<Vec<_>>())
        };
        assert_eq!(run(&[]), 0);
        assert_eq!(run(&[(0, 5), (0, 5), (0, 5)]), 3);
        assert_eq!(run(&[(0, 5), (0, 5), (1, 5)]), 2);
        assert_eq!(run(&[(0, 5), (0, 4), (0, 4)]), 2);
        assert_eq!(run(&[(0, 5), (0, 6)]), 1);
        assert_eq!(run(&[(0, 5), (0, 0), (0, 5)]), 1);
        assert_eq!(run(&[(0, 0), (0, 0)]), 1);
        assert_eq!(run(&[(0, 1); 100]), SEGMENTS_MAX);
        assert_eq!(run(&[(0, 2000); 100]), 32, "what a message holds");
    }
}
