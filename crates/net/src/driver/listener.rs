//! Sockets that clients connect to.
//!
//! One address is served by several workers through one listener each (SO_REUSEPORT): the kernel
//! spreads the clients over them, and workers share no queue and no lock. A socket that another
//! process gave us is one for all workers: who is free takes the next client.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::net::{bind, getsockname, listen, socket_with};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::{fs, io};

/// How to listen.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// How many clients may wait to be accepted on one listener; the kernel caps it at
    /// `net.core.somaxconn`.
    pub backlog: u32,
    /// Send small answers at once instead of waiting for more to go with them (TCP_NODELAY);
    /// accepted connections inherit it.
    pub nodelay: bool,
    /// Whether an IPv6 address takes IPv6 clients only. Otherwise `[::]` takes IPv4 clients as
    /// well.
    pub v6_only: bool,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions {
            backlog: 4096,
            nodelay: true,
            v6_only: false,
        }
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another socket listens there.
    #[error("{0} is in use: another process listens there; stop it or choose another port")]
    InUse(SocketAddr),
    /// The port is one of those kept for privileged processes.
    #[error(
        "no permission to listen on {0}: ports below 1024 are usually reserved; choose a higher \
         one or grant CAP_NET_BIND_SERVICE"
    )]
    Permission(SocketAddr),
    /// The address belongs to no interface.
    #[error("{0} is not an address of this machine")]
    NotOurs(SocketAddr),
    /// The system lacks IPv4 or IPv6.
    #[error("this system has no support for addresses like {0}")]
    Unsupported(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {address}: {error}")]
    Other {
        /// Where.
        address: SocketAddr,
        /// What the system said; it stands in the message.
        error: io::Error,
    },
}

impl ListenError {
    pub(crate) fn new(address: SocketAddr, errno: Errno) -> ListenError {
        match errno {
            Errno::ADDRINUSE => ListenError::InUse(address),
            Errno::ACCESS | Errno::PERM => ListenError::Permission(address),
            Errno::ADDRNOTAVAIL => ListenError::NotOurs(address),
            Errno::AFNOSUPPORT => ListenError::Unsupported(address),
            other => ListenError::Other {
                address,
                error: other.into(),
            },
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`, alone.
    ///
    /// # Errors
    ///
    /// [`ListenError`], worded for the person who chose the address.
    pub fn bind(address: SocketAddr, options: &ListenOptions) -> Result<Listener, ListenError> {
        let socket = bound(address, SocketType::STREAM, options, false)
            .map_err(|errno| ListenError::new(address, errno))?;
        Listener::listening(socket, address, options)
    }

    /// Listens on `address` with `count` listeners, between which the kernel shares out the
    /// clients. With port 0 all get the same free port.
    ///
    /// # Errors
    ///
    /// As [`Listener::bind`]; in particular a port taken by another process is an error, which
    /// SO_REUSEPORT alone would hide when both run as the same user.
    pub fn bind_group(
        address: SocketAddr,
        count: usize,
        options: &ListenOptions,
    ) -> Result<Vec<Listener>, ListenError> {
        // All are bound before one listens, so that no client is given to a group that fails to
        // form.
        let sockets = bound_group(address, SocketType::STREAM, options, count)?;
        sockets
            .into_iter()
            .map(|socket| Listener::listening(socket, address, options))
            .collect()
    }

    /// Listens on a Unix socket at `path`, with these permissions (`0o700`: the owner alone). A
    /// socket that is there is taken for one that somebody left behind.
    ///
    /// [`Listener::local_address`] says nothing of it, nor does [`Accepted`](crate::Accepted) of
    /// its clients: both have the unspecified address.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn bind_unix(
        path: &Path,
        permissions: u32,
        options: &ListenOptions,
    ) -> io::Result<Listener> {
        let is_socket = |found: fs::Metadata| found.file_type().is_socket();
        if fs::symlink_metadata(path).is_ok_and(is_socket) {
            fs::remove_file(path)?;
        }
        let address = SocketAddrUnix::new(path)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &address)?;
        // Before anybody can connect.
        fs::set_permissions(path, fs::Permissions::from_mode(permissions & 0o777))?;
        listen(&socket, i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Ok(Listener { socket, address })
    }

    fn listening(
        socket: OwnedFd,
        address: SocketAddr,
        options: &ListenOptions,
    ) -> Result<Listener, ListenError> {
        let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
        // Two sockets that may reuse an address can both be bound to it; who listens second learns
        // of it only here.
        listen(&socket, backlog).map_err(|errno| ListenError::new(address, errno))?;
        let address = local_address(&socket, address)?;
        Ok(Listener { socket, address })
    }

    /// Takes over a socket that listens already, such as one of the process before. It goes on
    /// listening for as long as any process has it.
    ///
    /// # Errors
    ///
    /// When it does not listen, or is no TCP socket.
    pub fn inherited(socket: TcpListener, nodelay: bool) -> io::Result<Listener> {
        if !sockopt::socket_acceptconn(&socket)? {
            let why = "the socket does not listen: whoever passes it calls `listen` before";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let address = socket.local_addr()?;
        socket.set_nonblocking(true)?;
        sockopt::set_tcp_nodelay(&socket, nodelay)?;
        let socket = socket.into();
        Ok(Listener { socket, address })
    }

    /// The same socket once more, for another worker.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener {
            socket: self.socket.try_clone()?,
            address: self.address,
        })
    }

    /// Where it listens; the port is the one given by the system if 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sockets bound to `address` beside each other; with port 0 all to the same free port.
pub(crate) fn bound_group(
    address: SocketAddr,
    kind: SocketType,
    options: &ListenOptions,
    count: usize,
) -> Result<Vec<OwnedFd>, ListenError> {
    // An exclusive bind fails if anybody listens there. It is given up before the shared ones:
    // sockets of both kinds exclude each other.
    let probe =
        bound(address, kind, options, false).map_err(|errno| ListenError::new(address, errno))?;
    let address = local_address(&probe, address)?;
    drop(probe);
    let sockets = (0..count).map(|_| bound(address, kind, options, true));
    let sockets: Result<Vec<_>, _> = sockets.collect();
    sockets.map_err(|errno| ListenError::new(address, errno))
}

/// A socket bound to `address`, alone or (`shared`) beside others of this user.
pub(crate) fn bound(
    address: SocketAddr,
    kind: SocketType,
    options: &ListenOptions,
    shared: bool,
) -> Result<OwnedFd, Errno> {
    let socket = socket(&address, kind)?;
    if kind == SocketType::STREAM {
        // A restarted server may take its port back while old connections still time out. (For
        // datagrams this would let others in beside us.)
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_tcp_nodelay(&socket, options.nodelay)?;
    }
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, options.v6_only)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

/// A new socket of the kind that `address` needs; it never blocks.
pub(crate) fn socket(address: &SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // The only protocol of each kind: TCP and UDP.
    socket_with(family, kind, flags, None)
}

pub(crate) fn local_address(
    socket: &OwnedFd,
    asked: SocketAddr,
) -> Result<SocketAddr, ListenError> {
    let address = getsockname(socket).and_then(SocketAddr::try_from);
    address.map_err(|errno| ListenError::new(asked, errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpStream};

    const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn a_port_somebody_listens_on_is_in_use_for_one_and_for_a_group() {
        let taken = TcpListener::bind(ANY_PORT).expect("a free port");
        let address = taken.local_addr().expect("a bound socket");
        let options = ListenOptions::default();
        assert!(
            matches!(Listener::bind(address, &options), Err(ListenError::InUse(a)) if a == address)
        );
        let second = Listener::bind_group(address, 2, &options);
        assert!(matches!(second, Err(ListenError::InUse(a)) if a == address));
    }

    #[test]
    fn a_second_server_does_not_slip_in_beside_a_group() {
        let options = ListenOptions::default();
        let group = Listener::bind_group(ANY_PORT, 2, &options).expect("a free port");
        let address = group[0].local_address();
        assert!(matches!(
            Listener::bind_group(address, 2, &options),
            Err(ListenError::InUse(_))
        ));
        assert!(matches!(
            Listener::bind(address, &options),
            Err(ListenError::InUse(_))
        ));
    }

    #[test]
    fn a_group_shares_one_port() {
        let group =
            Listener::bind_group(ANY_PORT, 3, &ListenOptions::default()).expect("a free port");
        assert_eq!(group.len(), 3);
        assert_ne!(group[0].local_address().port(), 0);
        assert!(
            group
                .iter()
                .all(|listener| listener.local_address() == group[0].local_address())
        );
    }

    #[test]
    fn an_address_of_another_machine_is_said_to_be_so() {
        // 192.0.2.0/24 is kept for documentation (RFC 5737).
        let address = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 0));
        let error =
            Listener::bind(address, &ListenOptions::default()).expect_err("no interface has it");
        assert!(matches!(error, ListenError::NotOurs(_)), "{error}");
        assert!(error.to_string().contains("192.0.2.1"));
    }

    #[test]
    fn v6_takes_v4_clients_unless_told_otherwise() {
        for (v6_only, v4_works) in [(false, true), (true, false)] {
            let options = ListenOptions {
                v6_only,
                ..ListenOptions::default()
            };
            let listener = match Listener::bind((Ipv6Addr::UNSPECIFIED, 0).into(), &options) {
                // A machine without IPv6 has nothing to test here but the error.
                Err(ListenError::Unsupported(_)) => return,
                other => other.expect("a free port"),
            };
            let port = listener.local_address().port();
            assert_eq!(
                TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(),
                v4_works
            );
        }
    }

    #[test]
    fn accepted_connections_inherit_nodelay() {
        for nodelay in [true, false] {
            let options = ListenOptions {
                nodelay,
                ..ListenOptions::default()
            };
            let listener = Listener::bind(ANY_PORT, &options).expect("a free port");
            let _client = TcpStream::connect(listener.local_address()).expect("it listens");
            let accepted = rustix::net::accept(&listener).expect("a client waits");
            assert_eq!(sockopt::tcp_nodelay(&accepted), Ok(nodelay));
        }
    }
}
