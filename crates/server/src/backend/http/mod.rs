//! Servers that are asked over HTTP/1.1 and answer documents of JSON.
//!
//! ```text
//!   worker: ConnectionPool --- wire.rs, request.rs: GET POST PUT PATCH DELETE ---> the server
//!           rows.rs <--- a document (http_client/ takes it out of the bytes) ---------
//! ```

mod access;
mod check;
mod request;
mod rows;
#[cfg(test)]
mod tests;
mod wire;

use crate::backend::http_client::{BackendUrl, ResponseLimits};
use crate::backend::kind::{Kind, Opened};
use crate::backend::{ConnectionPool, PoolOptions};
use crate::backend::{secured, waited};
use access::Access;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;
use wire::HttpWire;

/// Most queries at a time on a connection: few servers answer the next request before they have
/// sent all of an answer, and some that take several answer none.
const DEPTH_MAX: usize = 1;

/// The kind. Its table in service.toml has `url`, `token_file` and those of TLS, its calls are
/// requests.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: "http",
        keys: &[
            BackendKey {
                name: "url",
                about: "`http://HOST:PORT/PATH` or `https://...`, or at a Unix socket \
                        `http://unix:/SOCKET:/PATH`; paths of calls are put behind it",
                default: Setting::Text("http://localhost:8080"),
                check: |url| url.text().parse::<BackendUrl>().is_ok(),
                wrong: "this is no address of a server",
                hint: "such as \"http://127.0.0.1:8080/v1\" or \"https://api.example.com\"",
            },
            BackendKey {
                name: "token_file",
                about: "a file whose first line is sent with each request, as \
                        `Authorization: Bearer`",
                default: Setting::Text(""),
                check: |_| true,
                wrong: "",
                hint: "",
            },
            secured::TRUSTED,
            secured::CERTIFICATE,
            secured::KEY,
        ],
        asks: Asks::Http,
        check: check::check,
        check_backend: |_| None,
        keeps_sessions: None,
    },
    locate: Access::locate,
    reach: |config| {
        let access = Access::of(config)?;
        waited::reach(&access.url.place, access.tls.as_ref())
    },
    query_bytes_max,
    open,
};

fn query_bytes_max(config: &BackendConfig) -> usize {
    let options = options(config);
    // Of what is sent as JSON a byte may be six, which is twice of what others encode it as.
    let requests = options.depth_max.saturating_mul(4 * options.query_max);
    // The beginning of an answer on each, in memory that grows by doubling.
    let answers = 3 * ResponseLimits::default().body_max;
    let one = requests + answers + secured::CONNECTION_BYTES;
    let connections = options.connections_max.saturating_mul(one);
    options.query_bytes_max().saturating_add(connections)
}

fn options(config: &BackendConfig) -> PoolOptions {
    PoolOptions::of(config, DEPTH_MAX)
}

fn open(config: &BackendConfig, peers: &[Peer]) -> Opened {
    let access = Access::located(config)?;
    Ok(Box::new(ConnectionPool::new(
        HttpWire::new(access),
        &config.name,
        peers.to_vec(),
        options(config),
    )))
}
