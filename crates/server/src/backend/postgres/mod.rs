//! PostgreSQL: a database server, asked over its own protocol.
//!
//! ```text
//!   worker: ConnectionPool --- wire.rs: statements by name, values beside them ---> the server
//!           answer.rs, cells.rs <--- rows as texts, types by column ----------------
//! ```
//!
//! A statement is prepared on a connection as it is first asked for there (`statements.rs`), in the
//! same write. Several queries of a cohort go as one where their page says so (`merge.rs`), and
//! several statements of one request are a transaction (`transaction.rs`).

mod access;
mod answer;
mod cells;
mod check;
mod client;
mod greeting;
mod judge;
mod merge;
mod messages;
mod scan;
mod statements;
#[cfg(test)]
mod tests;
mod transaction;
mod wire;

use crate::backend::kind::{Kind, Opened};
use crate::backend::secured;
use crate::backend::{ConnectionPool, PoolOptions};
use access::{Access, Address};
use client::Client;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;
use scan::ANSWER_MAX;
use std::time::Duration;
use wire::PostgresWire;

/// Most queries at a time on a connection. The server carries them out one after the other, but
/// sleeps and wakes less.
const DEPTH_MAX: usize = 16;

/// How long a connection is kept without queries: one more is a process of the server's and a
/// password shown.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The kind. Its table in service.toml has `url`, `password_file`, `application_name` and those of
/// TLS, its calls are in SQL.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: "postgres",
        keys: &[
            BackendKey {
                name: "url",
                about: "`postgres://USER@HOST:PORT/DATABASE`, and over TLS \
                        `?sslmode=verify-full` behind it; at a Unix socket, `HOST` is its \
                        folder, `%2F` for each `/`",
                default: Setting::Text("postgres://postgres@localhost:5432/postgres"),
                check: |url| url.text().parse::<Address>().is_ok(),
                wrong: "this is no address of a database",
                hint: "such as \"postgres://shop@127.0.0.1:5432/shop\", or \
                       \"postgres://shop@%2Frun%2Fpostgresql/shop\" at a Unix socket; a password \
                       is in a file, `password_file`, or in a variable, `${NAME}`; \
                       `?sslmode=verify-full` has it speak TLS",
            },
            BackendKey {
                name: "password_file",
                about: "a file whose first line is the user's password, where the server asks for \
                        one",
                default: Setting::Text(""),
                check: |_| true,
                wrong: "",
                hint: "",
            },
            BackendKey {
                name: "application_name",
                about: "what the server's own lists call its connections",
                default: Setting::Text("rhythm"),
                check: |name| !name.text().contains('\0'),
                wrong: "`application_name` must be a name",
                hint: "",
            },
            secured::TRUSTED,
            secured::CERTIFICATE,
            secured::KEY,
        ],
        asks: Asks::Sql,
        check: check::check,
        check_backend: |_| None,
        keeps_sessions: None,
    },
    locate: Access::locate,
    reach,
    query_bytes_max,
    open,
};

fn reach(config: &BackendConfig) -> Result<(), String> {
    let opened = Client::open(&Access::of(config)?);
    opened
        .map(drop)
        .map_err(|refusal| format!("{}; {}", refusal.cause, refusal.cure))
}

fn query_bytes_max(config: &BackendConfig) -> usize {
    let options = options(config);
    // The beginning of an answer on each, and what a transaction keeps of those before, in memory
    // that grows by doubling.
    let answers = options
        .connections_max
        .saturating_mul((3 + 2) * ANSWER_MAX + secured::CONNECTION_BYTES);
    options.query_bytes_max().saturating_add(answers)
}

fn options(config: &BackendConfig) -> PoolOptions {
    PoolOptions {
        idle_max: IDLE_MAX,
        ..PoolOptions::of(config, DEPTH_MAX)
    }
}

fn open(config: &BackendConfig, peers: &[Peer]) -> Opened {
    let access = Access::located(config)?;
    Ok(Box::new(ConnectionPool::new(
        PostgresWire::new(access),
        &config.name,
        peers.to_vec(),
        options(config),
    )))
}
