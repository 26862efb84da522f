//! SQLite: a database in a file, on threads of this process.
//!
//! A statement may take as long as it likes, so it never runs on an event loop: each connection of
//! the [`ConnectionPool`] leads to a thread that has the file open. So deadlines, shares of users
//! and everything else hold for it as they do for any server.
//!
//! ```text
//!   worker: ConnectionPool --- frames.rs ---> thread.rs, one a connection --- query ---> the file
//!           wire.rs        <-- answers ----       |
//!                                                 +--- exec ---> writer.rs: those of all threads
//!                                                                that came meanwhile, one commit
//! ```

mod binding;
mod carry_out;
mod database;
mod file;
mod frames;
mod opened;
mod passwords;
mod query;
mod slow;
mod statement;
#[cfg(test)]
mod tests;
mod thread;
mod transaction;
mod wire;
mod writer;
mod wrong;

use crate::backend::kind::{Kind, Opened};
use crate::backend::{ConnectionPool, PoolOptions};
use database::{CONNECTION_BYTES_MAX, DATA, SCHEMA};
use opened::THREADS_A_CONNECTION;
pub use opened::close;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;
use wire::SqliteWire;
use wrong::FILE;

/// Most queries at a time on a connection: those that come together are one transaction.
const DEPTH_MAX: usize = 64;

/// The kind. Its table in service.toml has `file`, `schema` and `data`, its calls are in SQL.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: "sqlite",
        keys: &[
            BackendKey {
                name: FILE,
                about: "the database, beside service.toml unless the path says otherwise",
                default: Setting::Text("data.db"),
                check: |file| !matches!(file.text(), "" | ":memory:"),
                wrong: "`file` must be a path",
                hint: "such as \"data.db\", in the folder of the service",
            },
            BackendKey {
                name: SCHEMA,
                about: "a file of SQL by which the database is made where there is none, or \
                        several, separated by blanks",
                default: Setting::Text(""),
                check: |_| true,
                wrong: "",
                hint: "",
            },
            BackendKey {
                name: DATA,
                about: "files of SQL by which a database that is made of `schema` is filled, \
                        separated by blanks",
                default: Setting::Text(""),
                check: |_| true,
                wrong: "",
                hint: "",
            },
        ],
        asks: Asks::Sql,
        check: statement::check,
        check_backend: database::check,
        keeps_sessions: None,
    },
    locate,
    reach: |config| Ok(database::reach(config)?),
    query_bytes_max,
    open,
};

/// Opens the database, or makes it, and has a thread listen for connections to it.
fn locate(config: &BackendConfig) -> Result<Vec<Peer>, String> {
    Ok(vec![opened::peer(config)?])
}

fn query_bytes_max(config: &BackendConfig) -> usize {
    let options = PoolOptions::of(config, DEPTH_MAX);
    let threads = options.connections_max.saturating_mul(THREADS_A_CONNECTION);
    let threads = threads.saturating_mul(CONNECTION_BYTES_MAX);
    options.query_bytes_max().saturating_add(threads)
}

fn open(config: &BackendConfig, peers: &[Peer]) -> Opened {
    let options = PoolOptions::of(config, DEPTH_MAX);
    Ok(Box::new(ConnectionPool::new(
        SqliteWire::of(opened::enter(config)?),
        &config.name,
        peers.to_vec(),
        options,
    )))
}
