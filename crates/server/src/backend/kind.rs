//! What a kind of backend is made of.

use super::Backend;
use super::http_client::UrlPlace;
use rhythm_engine::kind::BackendKind;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::Peer;
use rhythm_net::tls::Connector;
use std::net::ToSocketAddrs;
use std::sync::Arc;

/// A backend for one worker, or in words what is wrong with its configuration.
pub type Opened = Result<Box<dyn Backend>, String>;

/// A kind of backend.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What pages and service.toml say to it.
    pub declaration: BackendKind,
    /// Looks up where one is; nowhere where it is in this process. It may wait for the system's
    /// resolver as long as that takes: never on an event loop.
    ///
    /// The error says in words what is wrong with the configuration or the name.
    pub locate: fn(&BackendConfig) -> Result<Vec<Peer>, String>,
    /// Connects to one, as whom and with what its configuration says, and waits for that a few
    /// seconds at most; of one in this process it looks at the configuration alone.
    ///
    /// The error says in words why it cannot be asked.
    pub reach: fn(&BackendConfig) -> Result<(), String>,
    /// Most bytes that one takes for queries, in each worker.
    pub query_bytes_max: fn(&BackendConfig) -> usize,
    /// Opens one that is there, for one worker. It waits for nothing.
    pub open: fn(&BackendConfig, &[Peer]) -> Opened,
}

/// The peers that are at a place: a host's addresses, of its name, or a socket; what goes there is
/// sealed, if it is to be.
///
/// # Errors
/// There is no such name, or nobody tells, in words.
pub(super) fn peers(place: &UrlPlace, tls: Option<&Arc<Connector>>) -> Result<Vec<Peer>, String> {
    let seal = tls.map(Connector::seal);
    match place {
        UrlPlace::Port { host, port } => {
            let found = (&**host, *port).to_socket_addrs();
            let found =
                found.map_err(|error| format!("cannot find the address of {host}: {error}"))?;
            let peer = |address| Peer::tcp(&**host, address).sealed(seal.clone());
            Ok(found.map(peer).collect())
        }
        UrlPlace::Socket(path) => Ok(vec![Peer::unix(path).sealed(seal)]),
    }
}
