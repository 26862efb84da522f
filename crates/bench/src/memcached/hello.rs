//! Before a run: is anybody there, and is it a memcached?

use super::error::MemcachedError;
use super::target::{Node, Target};
use rhythm_net::PeerAddress;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long it may take to say who it is; for a datagram, each of three times.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest first line that is read.
const LINE_MAX: u64 = 256;
const ASK: &[u8] = b"version\r\n";

/// The version that a server says it has; of a ring those of its nodes, each once.
pub(super) fn version(target: &Target, udp: bool) -> Result<String, MemcachedError> {
    let mut versions: Vec<String> = Vec::new();
    for node in &target.nodes {
        let version = of_node(node, udp)?;
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(versions.join(", "))
}

fn of_node(node: &Node, udp: bool) -> Result<String, MemcachedError> {
    let server = || node.name.clone();
    let failed = |source| MemcachedError::Connect {
        server: server(),
        source,
    };
    let line = match (&node.peer.address, udp) {
        (PeerAddress::Tcp(address), true) => {
            let unheard = |source| MemcachedError::Datagram {
                server: server(),
                source,
            };
            by_datagram(*address).map_err(unheard)?
        }
        (PeerAddress::Tcp(address), false) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE).map_err(failed)?;
            let timeout = stream.set_read_timeout(Some(PATIENCE));
            timeout.and_then(|()| by_stream(stream)).map_err(failed)?
        }
        (PeerAddress::Unix(path), _) => {
            let stream = UnixStream::connect(path).map_err(failed)?;
            let timeout = stream.set_read_timeout(Some(PATIENCE));
            timeout.and_then(|()| by_stream(stream)).map_err(failed)?
        }
        (PeerAddress::Local(_), _) => unreachable!("no URL names a thread of this process"),
    };
    let text = String::from_utf8_lossy(&line);
    match text.trim_end().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(MemcachedError::NoMemcached {
            server: server(),
            answer: line[..line.len().min(60)].escape_ascii().to_string(),
        }),
    }
}

fn by_stream(mut stream: impl Read + Write) -> io::Result<Vec<u8>> {
    stream.write_all(ASK)?;
    let mut line = Vec::new();
    BufReader::new(stream)
        .take(LINE_MAX)
        .read_until(b'\n', &mut line)?;
    Ok(line)
}

fn by_datagram(address: SocketAddr) -> io::Result<Vec<u8>> {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut answer = [0; 2048];
    let mut last = io::ErrorKind::TimedOut.into();
    for _ in 0..3 {
        socket.send(&[&[0, 0, 0, 0, 0, 1, 0, 0], ASK].concat())?;
        match socket.recv(&mut answer) {
            Ok(length) => return Ok(answer[8.min(length)..length].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}
