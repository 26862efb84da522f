//! Addresses of servers in URLs: `HOST:PORT`, or the path of a Unix socket.

use super::http_client::UrlPlace;
use rhythm_protocol::http::uri;

/// The host and the port that a URL names, percent-decoded; the host may be a path.
pub(super) fn host_and_port(text: &str, port_usual: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0)
        }
        None if port.is_empty() => Some(port_usual),
        _ => None,
    };
    Some((decoded(host)?, port?))
}

/// The place that a URL names: a host and a port, or a socket by its path.
pub(super) fn place(text: &str, port_usual: u16) -> Option<UrlPlace> {
    let (host, port) = host_and_port(text, port_usual)?;
    Some(match host.starts_with('/') {
        true => UrlPlace::Socket(host.into()),
        false => UrlPlace::Port { host, port },
    })
}

/// What a percent-encoded part stands for; `None` where it is nothing that a name can be.
pub(super) fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    uri::decode(part.as_bytes(), &mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}
