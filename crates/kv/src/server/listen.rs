//! The sockets that the settings ask for.

use crate::membership::Transport;
use crate::ring::ether::ETHER_TYPE;
use crate::shared::{KEEPALIVE, Listen, Settings};
use rhythm_net::workers::Entrance;
use rhythm_net::{DatagramSocket, Link, LinkError, ListenError, ListenOptions, Listener, Role};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::{fs, io};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At a TCP port.
    Tcp(SocketAddr),
    /// At a UDP port.
    Udp(SocketAddr),
    /// At a socket in the file system.
    Unix(PathBuf),
}

/// Why it cannot listen. What the system said stands in the messages.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The admin listener's address.
    #[error("--admin: {0}")]
    Admin(ListenError),
    /// Where other nodes of the ring are to reach it.
    #[error("--backbone: {0}")]
    Backbone(ListenError),
    /// The interface on which frames come from them.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A name.
    #[error("cannot find the address of {host}: {error}")]
    Host {
        /// What was to be found.
        host: String,
        /// What the system said.
        error: io::Error,
    },
    /// A Unix socket.
    #[error("cannot listen on the Unix socket {path}: {error}")]
    Unix {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Neither TCP nor UDP nor a Unix socket.
    #[error("there is nothing to listen on: give a port (-p, -U) or a Unix socket (-s)")]
    Nothing,
}

/// Binds everything, for as many threads as there are. It does not listen yet.
pub(super) fn bind(settings: &Settings) -> Result<(Vec<Entrance>, Vec<Address>), BindError> {
    let threads = settings.threads;
    let options = ListenOptions {
        backlog: settings.backlog,
        v6_only: true,
        keepalive: Some(KEEPALIVE),
        at_once: false,
        ..ListenOptions::default()
    };
    let mut entrances = Vec::new();
    let mut addresses = Vec::new();
    let role = Role::default();
    if let Some(path) = &settings.unix_socket {
        let failed = |error| BindError::Unix {
            path: path.clone(),
            error,
        };
        // As memcached does, even where another server listens there.
        let is_socket = |found: fs::Metadata| found.file_type().is_socket();
        if fs::symlink_metadata(path).is_ok_and(is_socket) {
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = Listener::bind_unix(path, settings.unix_mask, &options)?;
        let entrance = Entrance::of_all(role, listener, threads).map_err(failed)?;
        entrances.push(entrance);
        addresses.push(Address::Unix(path.clone()));
        return Ok((entrances, addresses));
    }
    for address in endpoints(settings, settings.port)? {
        let listeners = match Listener::bind_group(address.at, threads, &options) {
            Err(ListenError::Unsupported(_) | ListenError::NotOurs(_)) if address.may_fail => {
                continue;
            }
            listeners => listeners?,
        };
        addresses.extend(
            listeners
                .first()
                .map(|one| Address::Tcp(one.local_address())),
        );
        entrances.push(Entrance::listeners(role, listeners));
    }
    for address in endpoints(settings, settings.udp_port)? {
        let sockets = match DatagramSocket::bind_group(address.at, threads) {
            Err(ListenError::Unsupported(_) | ListenError::NotOurs(_) | ListenError::InUse(_))
                if address.may_fail =>
            {
                continue;
            }
            sockets => sockets?,
        };
        addresses.extend(sockets.first().map(|one| Address::Udp(one.local_address())));
        entrances.push(Entrance::datagrams(role, sockets));
    }
    match addresses.is_empty() {
        true => Err(BindError::Nothing),
        false => Ok((entrances, addresses)),
    }
}

/// Where other nodes of a ring come in, and the link, if that is by Ethernet frames.
pub(super) type Way = (Entrance, Option<Link>);

/// Binds the way of other nodes to this one, if it is to be in a ring. It does not listen yet.
pub(super) fn backbone(settings: &Settings) -> Result<Option<Way>, BindError> {
    let transport = match (&settings.ring, &settings.candidate) {
        (Some(ring), _) => ring.transport.clone(),
        (None, Some(candidate)) => Transport::Tcp(candidate.me.backbone),
        (None, None) => return Ok(None),
    };
    let role = Role::default();
    Ok(Some(match transport {
        Transport::Tcp(at) => {
            let options = ListenOptions {
                at_once: false,
                ..ListenOptions::default()
            };
            let listener = Listener::bind(at, &options);
            let listener = listener.map_err(BindError::Backbone)?;
            (Entrance::listeners(role, vec![listener]), None)
        }
        Transport::Ether(interface) => {
            let (socket, link) = DatagramSocket::link(&interface, ETHER_TYPE)?;
            (Entrance::datagrams(role, vec![socket]), Some(link))
        }
    }))
}

/// Binds the admin listener, if there is to be one.
pub(super) fn admin(settings: &Settings) -> Result<Option<Listener>, BindError> {
    let Some(at) = settings.admin else {
        return Ok(None);
    };
    let listener = Listener::bind(at, &ListenOptions::default());
    listener.map(Some).map_err(BindError::Admin)
}

/// Lets clients in from now on, and other nodes.
pub(super) fn begin(entrances: &[Entrance], way: Option<&Entrance>) -> Result<(), BindError> {
    entrances.iter().try_for_each(Entrance::listen)?;
    way.map_or(Ok(()), Entrance::listen)
        .map_err(BindError::Backbone)
}

/// An address to listen on.
struct Endpoint {
    at: SocketAddr,
    /// IPv6 beside IPv4: not every system has it.
    may_fail: bool,
}

/// The addresses for one protocol, whose usual port this is.
fn endpoints(settings: &Settings, port: Option<u16>) -> Result<Vec<Endpoint>, BindError> {
    let Some(port) = port else {
        return Ok(Vec::new());
    };
    let everywhere = [Listen {
        host: None,
        port: None,
    }];
    let listen = match settings.listen.is_empty() {
        true => &everywhere[..],
        false => &settings.listen[..],
    };
    let mut endpoints = Vec::new();
    for Listen { host, port: own } in listen {
        let port = own.unwrap_or(port);
        match host {
            None => {
                let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
                let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
                endpoints.push(Endpoint {
                    at: v4,
                    may_fail: false,
                });
                endpoints.push(Endpoint {
                    at: v6,
                    may_fail: true,
                });
            }
            Some(host) => {
                let found = (host.as_str(), port).to_socket_addrs();
                let found = found.map_err(|error| BindError::Host {
                    host: host.clone(),
                    error,
                })?;
                endpoints.extend(found.map(|at| Endpoint {
                    at,
                    may_fail: false,
                }));
            }
        }
    }
    Ok(endpoints)
}
