//! Where a monitor keeps what it may not forget, as settings name it.

use rhythm_etcd::{Etcd, EtcdError};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What a place in etcd begins with.
const ETCD: &str = "etcd://";

/// What looks like one.
const LIKE_ETCD: &str = "etcd:";

/// A place.
#[derive(Clone, Debug)]
pub enum StatePlace {
    /// A folder of this machine, for one monitor.
    Folder(PathBuf),
    /// etcd, for several, of which one leads.
    Etcd {
        /// Its servers, and the prefix of the keys.
        etcd: Etcd,
        /// How long leases last, in seconds: so long others wait for a leader that has died.
        seconds: u64,
    },
}

/// Why it is no place.
#[derive(Debug, thiserror::Error)]
pub enum StatePlaceError {
    /// What stands behind `etcd://`.
    #[error("{ETCD}{0}")]
    Etcd(#[from] EtcdError),
    /// Two monitors that took it for a folder each would both lend.
    #[error(
        "{0}: a place in etcd is {ETCD}HOST:PORT,.../PREFIX; a folder that is called so is ./{0}"
    )]
    Mistyped(String),
}

impl StatePlace {
    /// Of a text: `etcd://HOST:PORT,.../PREFIX`, with leases of so many seconds, or a folder.
    ///
    /// # Errors
    /// It is none.
    pub fn new(text: &str, seconds: u64) -> Result<StatePlace, StatePlaceError> {
        Ok(match text.strip_prefix(ETCD) {
            Some(place) => StatePlace::Etcd {
                etcd: Etcd::new(place)?,
                seconds,
            },
            None if text.starts_with(LIKE_ETCD) => {
                return Err(StatePlaceError::Mistyped(text.to_owned()));
            }
            None => StatePlace::Folder(text.into()),
        })
    }

    /// A server of it that is not on this machine, as far as its name says.
    pub fn elsewhere(&self) -> Option<&str> {
        let StatePlace::Etcd { etcd, .. } = self else {
            return None;
        };
        let is_here = |place: &&String| match place.parse::<SocketAddr>() {
            Ok(address) => address.ip().is_loopback(),
            Err(_) => {
                let host = place.rsplit_once(':').map_or("", |(host, _)| host);
                host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        };
        let mut places = etcd.places().iter();
        places.find(|place| !is_here(place)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_etcd_and_says_what_leaves_the_machine() {
        let elsewhere = |text: &str| {
            let place = StatePlace::new(text, 3).expect("a place");
            place.elsewhere().map(str::to_owned)
        };
        for here in [
            "/var/lib/x",
            "./etcd:x",
            "etcd://localhost:1,127.0.0.1:2,[::1]:3/x",
        ] {
            assert_eq!(elsewhere(here), None, "{here}");
        }
        let other = elsewhere("etcd://localhost:1,db:2/x");
        assert_eq!(other.as_deref(), Some("db:2"));
        let error = StatePlace::new("etcd://db/x", 3).expect_err("no port");
        assert!(error.to_string().contains("HOST:PORT"), "{error}");
        for mistyped in ["etcd:x", "etcd:/h:2379/x", "etcd:h:2379/x"] {
            let error = StatePlace::new(mistyped, 3).expect_err("no place");
            assert!(error.to_string().contains("./etcd:"), "{error}");
        }
    }
}
