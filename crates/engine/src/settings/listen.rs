//! Places to listen at, as settings write them: `127.0.0.1:8080`, or `unix:/run/site.sock`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// What the path of a Unix socket stands behind.
const UNIX: &str = "unix:";

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, in the file system.
    Unix(PathBuf),
}

/// A text is no place to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

impl FromStr for ListenAt {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<ListenAt, NoPlace> {
        match text.strip_prefix(UNIX) {
            // Places are separated by white space, and the system takes no such byte. By `@` others
            // mean a name that is no file, which nothing here listens at.
            Some(path)
                if path.is_empty()
                    || path.starts_with('@')
                    || path.contains([' ', '\t', '\n', '\r', '\0']) =>
            {
                Err(NoPlace)
            }
            Some(path) => Ok(ListenAt::Unix(path.into())),
            None => text.parse().map(ListenAt::Tcp).map_err(|_| NoPlace),
        }
    }
}

impl fmt::Display for ListenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAt::Tcp(address) => address.fmt(f),
            // What was not UTF-8 could not have been read.
            ListenAt::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_and_paths_of_sockets() {
        for text in [
            "127.0.0.1:8080",
            "[::1]:80",
            "unix:/run/site.sock",
            "unix:a",
        ] {
            let place: ListenAt = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
        }
        for text in [
            "",
            "here",
            ":80",
            "unix:",
            "unix:@a",
            "unix:/a b",
            "unix:/a\0",
            "/run/a.sock",
        ] {
            assert_eq!(text.parse::<ListenAt>(), Err(NoPlace), "{text:?}");
        }
    }
}
