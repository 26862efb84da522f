//! Where a remote backend, or what is proxied to, is: `http://host:port/path` or `https://...`
//! (RFC 3986, section 3; RFC 9110, section 4.2), or `http://unix:/socket:/path` for a socket of the
//! file system.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Why a text is no backend's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It begins with neither `http://` nor `https://`.
    #[error("it begins with neither http:// nor https://")]
    Scheme,
    /// The host is missing or holds what no host can.
    #[error("no valid host")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("no valid port")]
    Port,
    /// The path holds what no path can, or there is a query or fragment: the query is the
    /// request's.
    #[error("no valid path: letters, digits and punctuation, without ? and #")]
    Path,
    /// The path of a Unix socket is relative or longer than the system takes.
    #[error("no path of a Unix socket: it begins with / and has 107 bytes at most")]
    Socket,
}

/// Where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlPlace {
    /// At a TCP port.
    Port {
        /// A name or an address; an IPv6 address without its brackets.
        host: String,
        /// The port: that of the scheme unless given.
        port: u16,
    },
    /// At a Unix socket of this path.
    Socket(PathBuf),
}

impl fmt::Display for UrlPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlPlace::Port { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            UrlPlace::Port { host, port } => write!(f, "{host}:{port}"),
            UrlPlace::Socket(path) => path.display().fmt(f),
        }
    }
}

/// Most bytes of a Unix socket's path (`sun_path`, unix(7), without the end's zero).
const SOCKET_BYTES_MAX: usize = 107;

/// A remote backend's URL. The host is not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendUrl {
    /// Where it listens.
    pub place: UrlPlace,
    /// Whether what goes there is encrypted: `https://`.
    pub speaks_tls: bool,
    /// Host and port as written, for the Host header; `localhost` for a socket.
    pub authority: String,
    /// The path, beginning with `/`.
    pub path: String,
}

impl FromStr for BackendUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<BackendUrl, UrlError> {
        let behind = |wanted: &str| {
            let (scheme, rest) = url.split_at_checked(wanted.len())?;
            scheme.eq_ignore_ascii_case(wanted).then_some(rest)
        };
        let (rest, speaks_tls) = match (behind("http://"), behind("https://")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Err(UrlError::Scheme),
        };
        if let Some(rest) = rest.strip_prefix("unix:").filter(|_| !speaks_tls) {
            return of_socket(rest);
        }
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if !is_path(path) {
            return Err(UrlError::Path);
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(UrlError::Host)?;
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(UrlError::Host);
                }
                (host, port)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let is_host_byte = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
        if host.is_empty() || !host.bytes().all(is_host_byte) {
            return Err(UrlError::Host);
        }
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port != 0)
            }
            None if port.is_empty() => Some(if speaks_tls { 443 } else { 80 }),
            _ => None,
        };
        Ok(BackendUrl {
            place: UrlPlace::Port {
                host: host.to_owned(),
                port: port.ok_or(UrlError::Port)?,
            },
            speaks_tls,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }
}

fn is_path(path: &str) -> bool {
    let is_path_byte = |b: u8| b.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&b);
    path.starts_with('/') && path.bytes().all(is_path_byte)
}

/// What follows `unix:`, a socket's path and after a colon that of what is asked, `/` if there is
/// none.
fn of_socket(rest: &str) -> Result<BackendUrl, UrlError> {
    let (socket, path) = rest.split_once(':').unwrap_or((rest, "/"));
    if !socket.starts_with('/') || socket.len() > SOCKET_BYTES_MAX || socket.contains('\0') {
        return Err(UrlError::Socket);
    }
    if !is_path(path) {
        return Err(UrlError::Path);
    }
    Ok(BackendUrl {
        place: UrlPlace::Socket(socket.into()),
        speaks_tls: false,
        authority: "localhost".to_owned(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, port, authority, path) in [
            ("http://localhost", "localhost", 80, "localhost", "/"),
            ("http://10.0.0.1:81/", "10.0.0.1", 81, "10.0.0.1:81", "/"),
            (
                "HTTP://be-sim.x:8081/b/c.d",
                "be-sim.x",
                8081,
                "be-sim.x:8081",
                "/b/c.d",
            ),
            ("http://[::1]:9/besim", "::1", 9, "[::1]:9", "/besim"),
            ("http://[fe80::1]/", "fe80::1", 80, "[fe80::1]", "/"),
            ("https://a.test/v1", "a.test", 443, "a.test", "/v1"),
            ("HTTPS://a.test:81", "a.test", 81, "a.test:81", "/"),
        ] {
            let expected = BackendUrl {
                place: UrlPlace::Port {
                    host: host.into(),
                    port,
                },
                speaks_tls: url.to_lowercase().starts_with("https:"),
                authority: authority.into(),
                path: path.into(),
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn sockets_have_a_path_of_their_own() {
        let longest = format!("/{}", "s".repeat(106));
        for (url, socket, path) in [
            (
                "http://unix:/run/sim.sock:/besim",
                "/run/sim.sock",
                "/besim",
            ),
            ("http://unix:/run/sim.sock", "/run/sim.sock", "/"),
            (&format!("http://unix:{longest}:/x:y"), &longest, "/x:y"),
        ] {
            let expected = BackendUrl {
                place: UrlPlace::Socket(socket.into()),
                speaks_tls: false,
                authority: "localhost".into(),
                path: path.into(),
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
        for (url, error) in [
            ("http://unix:", UrlError::Socket),
            ("http://unix:run/sim.sock", UrlError::Socket),
            (&format!("http://unix:{longest}s"), UrlError::Socket),
            ("http://unix:/run/sim.sock:besim", UrlError::Path),
            ("http://unix:/run/sim.sock:/besim?x", UrlError::Path),
        ] {
            assert_eq!(url.parse::<BackendUrl>(), Err(error), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for (url, error) in [
            ("", UrlError::Scheme),
            ("localhost:80", UrlError::Scheme),
            ("ftp://localhost/", UrlError::Scheme),
            ("https:/localhost", UrlError::Scheme),
            ("https://unix:/run/sim.sock", UrlError::Port),
            ("http:/é", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http:///besim", UrlError::Host),
            ("http://user@host/", UrlError::Host),
            ("http://a b/", UrlError::Host),
            ("http://[::1/", UrlError::Host),
            ("http://[x]/", UrlError::Host),
            ("http://h:/", UrlError::Port),
            ("http://h:0/", UrlError::Port),
            ("http://h:65536/", UrlError::Port),
            ("http://h:+1/", UrlError::Port),
            ("http://[::1]80/", UrlError::Port),
            ("http://h?1", UrlError::Path),
            ("http://h/p?1&3", UrlError::Path),
            ("http://h/p#f", UrlError::Path),
            ("http://h/p q", UrlError::Path),
            ("http://h/p\r\nX: y", UrlError::Path),
        ] {
            assert_eq!(url.parse::<BackendUrl>(), Err(error), "{url}");
        }
    }
}
