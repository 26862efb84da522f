//! Redis, and servers that speak its protocol: commands, answered by values of a few types.
//!
//! ```text
//!   worker: ConnectionPool --- wire.rs, request.rs: words, by their lengths ---> the server
//!           rows.rs <--- replies (reply.rs), whole ---------------------------------
//! ```
//!
//! The protocol is RESP3 alone: its replies say what they are, so that one rule makes rows of them.
//! Its reader is our own, as cells are taken straight out of the bytes of a reply whose end has
//! come, and nothing is allocated by what a server says that is to come. `client.rs` waits, for who
//! loads a site.

mod access;
mod check;
mod client;
mod commands;
mod greeting;
mod merge;
mod reply;
mod request;
mod rows;
#[cfg(test)]
mod tests;
mod wire;

use crate::backend::kind::{Kind, Opened};
use crate::backend::secured;
use crate::backend::{ConnectionPool, PoolOptions};
use access::{Access, Address};
use reply::ANSWER_MAX;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind, Command, KeepsSessions, SessionWord};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;
use std::time::Duration;
use wire::RedisWire;

/// Most queries at a time on a connection: the server carries them out one after the other, all
/// that one read of its gave it.
const DEPTH_MAX: usize = 128;

/// How long a connection is kept without queries.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How it keeps sessions.
const KEEPS_SESSIONS: KeepsSessions = {
    use SessionWord::{Is, Key, Record, Seconds};
    KeepsSessions {
        look_up: &[Is("GETEX"), Key, Is("EX"), Seconds],
        begin: &[Is("SET"), Key, Record, Is("EX"), Seconds],
        change: &[Is("SET"), Key, Record, Is("EX"), Seconds, Is("XX")],
        end: &[Is("DEL"), Key],
        // About what its clock goes to; a thousand years are for ever.
        seconds_max: 1000 * 365 * 24 * 60 * 60,
    }
};

/// The kind. Its table in service.toml has `url`, `password_file` and those of TLS, its calls are
/// commands.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: "redis",
        keys: &[
            BackendKey {
                name: "url",
                about: "`redis://USER@HOST:PORT/DB`, without `USER@` and `/DB` where they are \
                        `default` and 0, `rediss://...` over TLS; at a Unix socket, `HOST` is its \
                        path, `%2F` for each `/`",
                default: Setting::Text("redis://localhost:6379/0"),
                check: |url| url.text().parse::<Address>().is_ok(),
                wrong: "this is no address of a Redis server",
                hint: "such as \"redis://127.0.0.1:6379/0\", or \
                       \"redis://%2Frun%2Fredis%2Fredis.sock\" at a Unix socket; a password \
                       is in a file, `password_file`, or in a variable, `${NAME}`",
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
            secured::TRUSTED,
            secured::CERTIFICATE,
            secured::KEY,
        ],
        asks: Asks::Command(Command {
            key: "command",
            reads: commands::READS,
            merges: merge::MERGES,
        }),
        check: check::check,
        check_backend: |_| None,
        keeps_sessions: Some(KEEPS_SESSIONS),
    },
    locate: Access::locate,
    reach,
    query_bytes_max,
    open,
};

fn reach(config: &BackendConfig) -> Result<(), String> {
    let told = client::ask(&Access::of(config)?, b"PING");
    told.map(drop)
        .map_err(|refusal| format!("{}; {}", refusal.cause, refusal.cure))
}

fn query_bytes_max(config: &BackendConfig) -> usize {
    let options = options(config);
    // The beginning of an answer on each, in memory that grows by doubling.
    let answers = options
        .connections_max
        .saturating_mul(3 * ANSWER_MAX + secured::CONNECTION_BYTES);
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
        RedisWire::new(access),
        &config.name,
        peers.to_vec(),
        options(config),
    )))
}
