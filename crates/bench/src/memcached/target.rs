//! Which servers to load.

use super::circle::Circle;
use rhythm_net::{Peer, PeerAddress};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// What a URL of memcached servers begins with.
pub const SCHEME: &str = "memcached://";
/// memcached's port.
const PORT: u16 = 11211;

/// Why a URL names no servers.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// Not `memcached://`.
    #[error("{0}: the URL must start with {SCHEME}")]
    Scheme(String),
    /// Not a host with a port, or a path.
    #[error("{0:?} is no server: HOST, HOST:PORT or the /PATH of a Unix socket")]
    Server(String),
    /// Datagrams go to ports.
    #[error("{0}: a Unix socket takes no datagrams")]
    NoDatagrams(String),
    /// Whose keys are whose follows from hosts and ports, and nodes take no datagrams.
    #[error("{0}: the nodes of a ring have a HOST and a port each, and take no datagrams")]
    Ring(String),
    /// The name has no address.
    #[error("{server}: {source}")]
    Resolve {
        /// The host and port.
        server: String,
        /// What the resolver said.
        source: io::Error,
    },
}

/// A server, or a ring of them: what it is called, and where it is.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) name: String,
    /// One, or the nodes of the ring in their order.
    pub(super) nodes: Vec<Node>,
    /// Whose each key is.
    circle: Circle,
}

/// A server by itself.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) peer: Peer,
}

impl Target {
    /// The node that owns a key.
    pub(super) fn node(&self, key: &[u8]) -> usize {
        match self.nodes.len() {
            1 => 0,
            _ => self.circle.node(key),
        }
    }

    /// Where its port is, if it is one server; `None` for a Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let [node] = &self.nodes[..] else {
            return None;
        };
        match &node.peer.address {
            PeerAddress::Tcp(address) => Some(*address),
            PeerAddress::Unix(_) | PeerAddress::Local(_) => None,
        }
    }
}

/// The servers that a URL names.
pub(super) fn resolve(url: &str, udp: bool) -> Result<Vec<Target>, ServersError> {
    let rest = url.strip_prefix(SCHEME);
    let rest = rest.ok_or_else(|| ServersError::Scheme(url.to_owned()))?;
    rest.split(',').map(|server| target(server, udp)).collect()
}

fn target(servers: &str, udp: bool) -> Result<Target, ServersError> {
    // The path of a socket may have any character.
    let nodes: Vec<_> = match servers.starts_with('/') {
        true => vec![one(servers, udp)?],
        false => (servers.split('+').map(|server| one(server, udp))).collect::<Result<_, _>>()?,
    };
    let has_paths = nodes.iter().any(|node| node.name.starts_with('/'));
    if nodes.len() > 1 && (udp || has_paths) {
        return Err(ServersError::Ring(servers.to_owned()));
    }
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let usual = format!(":{PORT}");
    // As libmemcached names points: without memcached's own port.
    let points = names
        .iter()
        .map(|name| name.strip_suffix(&usual).unwrap_or(name));
    Ok(Target {
        name: names.join("+"),
        circle: Circle::new(points),
        nodes,
    })
}

fn one(server: &str, udp: bool) -> Result<Node, ServersError> {
    if server.starts_with('/') {
        if udp {
            return Err(ServersError::NoDatagrams(server.to_owned()));
        }
        let peer = Peer::unix(Path::new(server));
        let name = server.to_owned();
        return Ok(Node { name, peer });
    }
    let name = server.strip_suffix('/').unwrap_or(server);
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if name.is_empty() || name.starts_with(':') || !name.bytes().all(is_sound) {
        return Err(ServersError::Server(server.to_owned()));
    }
    let after_address = name.rfind(']').unwrap_or(0);
    let with_port = match name[after_address..].split_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => name.to_owned(),
        Some(_) => return Err(ServersError::Server(server.to_owned())),
        None => format!("{name}:{PORT}"),
    };
    let failed = |source| ServersError::Resolve {
        server: with_port.clone(),
        source,
    };
    let address = with_port.to_socket_addrs().map_err(failed)?.next();
    let address = address.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    Ok(Node {
        peer: Peer::tcp(name, address),
        name: with_port.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let servers = resolve("memcached://127.0.0.1:80,[::1]/,/run/kv.sock", false).unwrap();
        let addresses: Vec<_> = servers.iter().map(Target::address).collect();
        let expected = ["127.0.0.1:80", "[::1]:11211"].map(|at| at.parse().ok());
        assert_eq!(addresses, [expected[0], expected[1], None]);
        assert_eq!(servers[2].name, "/run/kv.sock");
        let ring = resolve("memcached://127.0.0.1+127.0.0.1:2,127.0.0.1:3", false).unwrap();
        assert_eq!(ring[0].name, "127.0.0.1:11211+127.0.0.1:2");
        let nodes: Vec<usize> = ring.iter().map(|target| target.nodes.len()).collect();
        assert_eq!((nodes, ring[0].address()), (vec![2, 1], None));
        for (url, udp) in [("a:1+b:2", true), ("127.0.0.1:1+/run/kv.sock", false)] {
            let refused = resolve(&format!("memcached://{url}"), udp);
            assert!(refused.is_err(), "{url}");
        }
        for url in ["http://127.0.0.1", "127.0.0.1:11211", "udp://127.0.0.1"] {
            let refused = resolve(url, false);
            assert!(matches!(refused, Err(ServersError::Scheme(_))), "{url}");
        }
        for url in [
            "memcached://",
            "memcached://a,,b",
            "memcached://:1",
            "memcached://a:0",
        ] {
            let refused = resolve(url, false);
            assert!(refused.is_err(), "{url}");
        }
        let refused = resolve("memcached:///run/kv.sock", true);
        assert!(matches!(refused, Err(ServersError::NoDatagrams(_))));
    }
}
