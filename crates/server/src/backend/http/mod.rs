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
use crate::backend::kind::{Kind, Opened, peers};
use crate::backend::waited;
use crate::backend::{ConnectionPool, PoolOptions};
use access::Access;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;
use wire::HttpWire;

/// Most queries at a time on a connection: few servers answer the next request before they have
/// sent all of an answer, and some that take several answer none.
const DEPTH_MAX: usize = 1;

/// The kind. Its table in service.toml has `url` and `token_file`, its calls are requests.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: "http",
        keys: &[
            BackendKey {
                name: "url",
                about: "`http://HOST:PORT/PATH`, or at a Unix socket \
                        `http://unix:/SOCKET:/PATH`; paths of calls are put behind it",
                default: Setting::Text("http://localhost:8080"),
                check: |url| url.text().parse::<BackendUrl>().is_ok(),
                wrong: "this is no address of a server",
                hint: "such as \"http://127.0.0.1:8080/v1\"; TLS (https) is not spoken: put a \
                       proxy that speaks it between",
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
        ],
        asks: Asks::Http,
        check: check::check,
        keeps_sessions: None,
    },
    locate,
    reach: |config| waited::reach(&Access::of(config)?.url.place),
    query_bytes_max,
    open,
};

fn locate(config: &BackendConfig) -> Result<Vec<Peer>, String> {
    peers(&Access::locate(config)?.url.place)
}

fn query_bytes_max(config: &BackendConfig) -> usize {
    let options = options(config);
    // Of what is sent as JSON a byte may be six, which is twice of what others encode it as.
    let requests = options.depth_max.saturating_mul(4 * options.query_max);
    // The beginning of an answer on each, in memory that grows by doubling.
    let answers = 3 * ResponseLimits::default().body_max;
    let connections = options.connections_max.saturating_mul(requests + answers);
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
