//! Why a place cannot be listened at, worded for the person who chose it.

use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
    /// Another process listens at the Unix socket.
    #[error(
        "unix:{path} is in use: another process listens there; stop it or choose another path",
        path = .0.display()
    )]
    UnixInUse(PathBuf),
    /// At the path is something else than a socket, and it stays.
    #[error(
        "unix:{path}: there is something that is no socket; choose another path or remove it",
        path = .0.display()
    )]
    NoSocket(PathBuf),
    /// A Unix socket cannot be made.
    #[error("cannot listen on unix:{path}: {error}; {cure}", path = .path.display())]
    Unix {
        /// Where.
        path: PathBuf,
        /// What the system said; it stands in the message.
        error: io::Error,
        /// What helps.
        cure: &'static str,
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

    pub(crate) fn unix(path: &Path, error: io::Error) -> ListenError {
        let cure = match error.kind() {
            io::ErrorKind::NotFound => "make its folder before",
            io::ErrorKind::PermissionDenied => {
                "choose a folder, and a name in it, that this user may write to"
            }
            io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => {
                "choose a path of at most 107 bytes"
            }
            _ => "choose another path",
        };
        let path = path.into();
        ListenError::Unix { path, error, cure }
    }
}
