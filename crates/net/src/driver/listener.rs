//! Sockets that clients connect to.
//!
//! One address is served by several workers through one listener each (SO_REUSEPORT): the kernel
//! spreads the clients over them, and workers share no queue and no lock. A socket that another
//! process gave us is one for all workers, and so is a Unix socket: who is free takes the next
//! client.

use crate::driver::listen_error::ListenError;
use crate::driver::unix::{self, SocketFile};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::net::{bind, getsockname, listen, socket_with};
use socket2::SockRef;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

/// What a connection's peer has no room for is taken by the kernel up to so many bytes: it takes
/// megabytes of each otherwise, and where many read slowly the memory of all sockets of the machine
/// is used up, by what no bound of ours counts. Who keeps up is not held up by it.
const UNSENT_MAX: u32 = 256 << 10;

/// How to listen.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// How many clients may wait to be accepted on one listener; the kernel caps it at
    /// `net.core.somaxconn`.
    pub backlog: u32,
    /// Send small answers at once instead of waiting for more to go with them (TCP_NODELAY);
    /// accepted connections inherit it.
    pub nodelay: bool,
    /// A connection on which nothing was said for so long (at least a second) is asked whether
    /// there is still somebody, and ends where nobody is (SO_KEEPALIVE); accepted connections
    /// inherit it. None: what is idle stays, whoever is there.
    pub keepalive: Option<Duration>,
    /// Whether an IPv6 address takes IPv6 clients only. Otherwise `[::]` takes IPv4 clients as
    /// well.
    pub v6_only: bool,
    /// Whether it listens from the first moment. Otherwise it has the address, and clients are
    /// refused until it is told to [`listen`](Listener::listen).
    pub at_once: bool,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions {
            backlog: 4096,
            nodelay: true,
            keepalive: None,
            v6_only: false,
            at_once: true,
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    /// Removed when none of the same socket is left, before that is closed.
    file: Option<Arc<SocketFile>>,
    socket: OwnedFd,
    at: At,
    /// See [`ListenOptions`].
    backlog: u32,
}

/// Where a listener is.
#[derive(Clone, Debug)]
enum At {
    Tcp(SocketAddr),
    /// The path, or what else names the socket.
    Unix(Arc<str>),
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

    /// Listens on a Unix socket at `path`, with these permissions (`0o700`: the owner alone). The
    /// socket of a process that has died is replaced. The file is removed when the last listener of
    /// this socket is dropped.
    ///
    /// # Errors
    ///
    /// [`ListenError`], worded for the person who chose the path.
    pub fn bind_unix(
        path: &Path,
        permissions: u32,
        options: &ListenOptions,
    ) -> Result<Listener, ListenError> {
        let failed = |error: io::Error| ListenError::unix(path, error);
        let of_system = |errno: Errno| failed(errno.into());
        let address = SocketAddrUnix::new(path).map_err(of_system)?;
        let alone = unix::make_way(path, &address)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.map_err(of_system)?;
        bind(&socket, &address).map_err(of_system)?;
        let file = Some(Arc::new(SocketFile::new(path).map_err(failed)?));
        // Before anybody can connect.
        let permissions = fs::Permissions::from_mode(permissions & 0o777);
        let listener = Listener {
            file,
            socket,
            at: At::Unix(path.to_string_lossy().into()),
            backlog: options.backlog,
        };
        let listened = fs::set_permissions(path, permissions)
            .map_err(failed)
            .and_then(|()| listener.listen_as(options));
        // Where it does not listen, the file waits for the folder to be removed.
        drop(alone);
        listened?;
        Ok(listener)
    }

    fn listening(
        socket: OwnedFd,
        address: SocketAddr,
        options: &ListenOptions,
    ) -> Result<Listener, ListenError> {
        let listener = Listener {
            file: None,
            at: At::Tcp(local_address(&socket, address)?),
            socket,
            backlog: options.backlog,
        };
        listener.listen_as(options)?;
        Ok(listener)
    }

    fn listen_as(&self, options: &ListenOptions) -> Result<(), ListenError> {
        match options.at_once {
            true => self.listen(),
            false => Ok(()),
        }
    }

    /// Listens, where it does not yet ([`ListenOptions::at_once`]).
    ///
    /// # Errors
    ///
    /// As [`Listener::bind`]: another process may have come to listen there since.
    pub fn listen(&self) -> Result<(), ListenError> {
        let backlog = i32::try_from(self.backlog).unwrap_or(i32::MAX);
        // Two sockets that may reuse an address can both be bound to it; who listens second learns
        // of it only here.
        listen(&self.socket, backlog).map_err(|errno| match &self.at {
            At::Tcp(address) => ListenError::new(*address, errno),
            At::Unix(path) => ListenError::unix(Path::new(&**path), errno.into()),
        })
    }

    /// Takes over a socket that listens already, such as one of the process before. It goes on
    /// listening for as long as any process has it, and the file of a Unix socket stays.
    ///
    /// # Errors
    ///
    /// When it does not listen, or is neither a TCP nor a Unix socket.
    pub fn inherited(socket: OwnedFd, nodelay: bool) -> io::Result<Listener> {
        let wrong = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if !sockopt::socket_acceptconn(&socket)? {
            return wrong("the socket does not listen: whoever passes it calls `listen` before");
        }
        let address = getsockname(&socket)?;
        let at = if let Ok(address) = SocketAddr::try_from(address.clone()) {
            sockopt::set_tcp_nodelay(&socket, nodelay)?;
            bound_unsent(&socket);
            At::Tcp(address)
        } else if let Ok(address) = SocketAddrUnix::try_from(address) {
            At::Unix(name_of(&address).into())
        } else {
            return wrong("it is neither a TCP nor a Unix socket");
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Listener {
            file: None,
            socket,
            at,
            backlog: ListenOptions::default().backlog,
        })
    }

    /// The same socket once more, for another worker.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener {
            file: self.file.clone(),
            socket: self.socket.try_clone()?,
            at: self.at.clone(),
            backlog: self.backlog,
        })
    }

    /// Where it listens; the port is the one given by the system if 0 was asked for. A Unix socket
    /// has the unspecified address.
    pub fn local_address(&self) -> SocketAddr {
        match self.at {
            At::Tcp(address) => address,
            At::Unix(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        }
    }
}

/// As settings name where it listens.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Tcp(address) => address.fmt(f),
            At::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// What a Unix socket is called: its path, or its name behind `@`, which is in no file system.
fn name_of(address: &SocketAddrUnix) -> String {
    let path = address.path().map(|path| path.to_string_lossy().into());
    let name = || Some(format!("@{}", address.abstract_name()?.escape_ascii()));
    path.or_else(name).unwrap_or_default()
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
        bound_unsent(&socket);
        if let Some(idle) = options.keepalive {
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_keepidle(&socket, idle)?;
        }
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

/// Bounds what the kernel keeps of each accepted connection, which inherits it. Where it has no
/// such bound (for MPTCP, before Linux 6.9) all works as well.
fn bound_unsent(socket: &OwnedFd) {
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_MAX);
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
    use std::net::{Ipv6Addr, TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    #[test]
    fn of_who_takes_nothing_the_kernel_keeps_little() {
        let bound = Listener::bind(ANY_PORT, &ListenOptions::default()).expect("a free port");
        let given = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let given = Listener::inherited(given.into(), true).expect("it listens");
        for listener in [bound, given] {
            let client = TcpStream::connect(listener.local_address()).expect("it listens");
            // As little as there is, so that what is taken is not on its way.
            sockopt::set_socket_recv_buffer_size(&client, 1).expect("a socket");
            let accepted = rustix::net::accept(&listener).expect("a client waits");
            rustix::io::ioctl_fionbio(&accepted, true).expect("a socket");
            let (piece, mut taken) = ([0; 64 << 10], 0);
            while let Ok(sent) = rustix::io::write(&accepted, &piece) {
                taken += sent;
            }
            assert!(taken < 2 << 20, "{taken} bytes were taken");
            drop(client);
        }
    }

    #[test]
    fn accepted_connections_inherit_keepalive() {
        for keepalive in [None, Some(Duration::from_secs(77))] {
            let options = ListenOptions {
                keepalive,
                ..ListenOptions::default()
            };
            let listener = Listener::bind(ANY_PORT, &options).expect("a free port");
            let _client = TcpStream::connect(listener.local_address()).expect("it listens");
            let accepted = rustix::net::accept(&listener).expect("a client waits");
            let is_kept = sockopt::socket_keepalive(&accepted).expect("a socket");
            let idle = sockopt::tcp_keepidle(&accepted).expect("a socket");
            assert_eq!(is_kept.then_some(idle), keepalive);
        }
    }

    /// A folder that is gone at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("rhythm-net-{}-{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).expect("no other has its name");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_unix_socket_is_taken_from_the_dead_alone_and_removed_at_the_end() {
        let folder = Folder::new();
        let path = folder.0.join("a.sock");
        let bind = || Listener::bind_unix(&path, 0o640, &ListenOptions::default());
        // What a process that died has left.
        drop(UnixListener::bind(&path).expect("a free path"));
        assert!(path.exists());
        let listener = bind().expect("nobody listens there");
        assert_eq!(listener.to_string(), format!("unix:{}", path.display()));
        let mode = fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o640);
        let taken = bind().expect_err("somebody listens");
        assert!(matches!(&taken, ListenError::UnixInUse(at) if *at == path));
        let other = listener.try_clone().expect("a file is free");
        drop(listener);
        UnixStream::connect(&path).expect("the other listens");
        drop(other);
        assert!(!path.exists());
        // Who was replaced leaves the new one alone.
        let first = bind().expect("a free path");
        fs::remove_file(&path).expect("it is there");
        let second = bind().expect("a free path");
        drop(first);
        UnixStream::connect(&path).expect("the second listens");
        drop(second);
    }

    #[test]
    fn what_keeps_a_unix_socket_from_being_made_is_told_with_a_cure() {
        let folder = Folder::new();
        fs::write(folder.0.join("file"), "mine").expect("it can be written");
        let long = "x".repeat(120);
        for (name, told) in [
            ("file", "is no socket; choose another path or remove it"),
            ("file/a.sock", "choose another path"),
            ("none/a.sock", "make its folder before"),
            (&long, "choose a path of at most 107 bytes"),
        ] {
            let path = folder.0.join(name);
            let error = Listener::bind_unix(&path, 0o600, &ListenOptions::default());
            let error = error.expect_err(name).to_string();
            assert!(error.contains(told) && error.contains(name), "{error}");
        }
        let kept = fs::read(folder.0.join("file")).expect("it is there");
        assert_eq!(kept, b"mine");
    }

    #[test]
    fn sockets_that_were_passed_are_of_both_kinds_and_stay() {
        let folder = Folder::new();
        let path = folder.0.join("a.sock");
        let unix = UnixListener::bind(&path).expect("a free path");
        let unix = Listener::inherited(unix.into(), true).expect("it listens");
        assert_eq!(unix.to_string(), format!("unix:{}", path.display()));
        drop(unix);
        assert!(path.exists(), "who made it removes it");
        let tcp = TcpListener::bind(ANY_PORT).expect("a free port");
        let address = tcp.local_addr().expect("it is bound");
        let tcp = Listener::inherited(tcp.into(), true).expect("it listens");
        assert_eq!(tcp.local_address(), address);
        let client = TcpStream::connect(address).expect("it listens");
        assert!(Listener::inherited(client.into(), true).is_err());
    }
}
