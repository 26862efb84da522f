//! Which server to load.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub address: SocketAddr,
    /// What `Host` says.
    pub host: String,
    /// Whether TLS is spoken there.
    pub is_tls: bool,
}

/// Why a URL names no server.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not `http://` or `https://`, nor what loads others.
    #[error("{0}: the URL must start with http://, https:// or memcached://")]
    Scheme(String),
    /// No host, or characters that no host has.
    #[error("{0}: the URL has no valid host")]
    Host(String),
    /// More than a server: where users walk is known.
    #[error(
        "{0}: the URL names a page; give the server alone, such as http://127.0.0.1:8080 \
         (--page chooses one page)"
    )]
    Path(String),
    /// The name has no address.
    #[error("{host}: {source}")]
    Resolve {
        /// The host and port.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
}

impl Target {
    /// The server that a URL names.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn resolve(url: &str) -> Result<Target, TargetError> {
        let (rest, is_tls) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Err(TargetError::Scheme(url.to_owned())),
        };
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if let Some(at) = host.find(['/', '?', '#']) {
            return Err(match at {
                0 => TargetError::Host(url.to_owned()),
                _ => TargetError::Path(url.to_owned()),
            });
        }
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_sound) {
            return Err(TargetError::Host(url.to_owned()));
        }
        let after_address = host.rfind(']').map_or(0, |end| end);
        let has_port = host[after_address..].contains(':');
        let with_port = if has_port {
            host.to_owned()
        } else {
            format!("{host}:{}", if is_tls { 443 } else { 80 })
        };
        let failed = |source| TargetError::Resolve {
            host: with_port.clone(),
            source,
        };
        let address = with_port.to_socket_addrs().map_err(failed)?.next();
        let address = address.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        Ok(Target {
            address,
            host: host.to_owned(),
            is_tls,
        })
    }

    /// Its name or address alone: what its certificate must be for.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, address, name) in [
            ("https://127.0.0.1:8443", "127.0.0.1:8443", "127.0.0.1"),
            ("https://127.0.0.1", "127.0.0.1:443", "127.0.0.1"),
            ("https://[::1]/", "[::1]:443", "::1"),
            ("https://[::1]:81", "[::1]:81", "::1"),
        ] {
            let target = Target::resolve(url).unwrap();
            assert!(target.is_tls, "{url}");
            assert_eq!(
                (target.address, target.name()),
                (address.parse().unwrap(), name)
            );
        }
        for (url, address, host) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1/", "127.0.0.1:80", "127.0.0.1"),
            ("http://[::1]:81/", "[::1]:81", "[::1]:81"),
            ("http://[::1]/", "[::1]:80", "[::1]"),
        ] {
            let expected = Target {
                address: address.parse().unwrap(),
                host: host.to_owned(),
                is_tls: false,
            };
            assert_eq!(Target::resolve(url).unwrap(), expected, "{url}");
        }
        assert!(matches!(
            Target::resolve("ftp://a"),
            Err(TargetError::Scheme(_))
        ));
        for url in ["http://127.0.0.1/bank/login.php", "http://127.0.0.1:1?x"] {
            let refused = Target::resolve(url);
            assert!(matches!(refused, Err(TargetError::Path(_))), "{url}");
        }
        assert!(matches!(
            Target::resolve("http:///x"),
            Err(TargetError::Host(_))
        ));
        assert!(matches!(
            Target::resolve("http://a\r\nb/"),
            Err(TargetError::Host(_))
        ));
    }
}
