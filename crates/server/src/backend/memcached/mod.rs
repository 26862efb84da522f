//! memcached, and servers that speak its meta protocol, as `rhythm kv`: values by keys.
//!
//! ```text
//!   worker: ConnectionPool --- wire.rs, request.rs: mg ms md ma ---> the server
//!           answer.rs <--- a value, or what has become of one -------
//! ```

mod answer;
mod check;
mod request;
#[cfg(test)]
mod tests;
mod wire;

use crate::backend::address::place;
use crate::backend::http_client::UrlPlace;
use crate::backend::kind::{Kind, Opened, peers};
use crate::backend::secured;
use crate::backend::waited;
use crate::backend::{ConnectionPool, PoolOptions};
use answer::ANSWER_MAX;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind, KeepsSessions, SessionWord, Verb};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;
use rhythm_net::tls::{Begins, Connector};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use wire::MemcachedWire;

/// The port of memcached.
const PORT: u16 = 11211;

/// Most queries at a time on a connection.
const DEPTH_MAX: usize = 128;

/// How long a connection is kept without queries.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A value, and the seconds for which it is kept: for ever.
const STORES: &[(&str, Option<&str>)] = &[("value", None), ("ttl", Some("0"))];

/// By how much, what there is where there was nothing, and for how long.
const COUNTS: &[(&str, Option<&str>)] =
    &[("by", Some("1")), ("initial", Some("")), ("ttl", Some("0"))];

const fn changes(
    key: &'static str,
    beside: &'static [(&'static str, Option<&'static str>)],
) -> Verb {
    Verb {
        key,
        beside,
        reads: false,
    }
}

/// How it keeps sessions. A look-up's request is none that pages have: `get` with a time.
const KEEPS_SESSIONS: KeepsSessions = {
    use SessionWord::{Is, Key, Record, Seconds};
    KeepsSessions {
        look_up: &[Is("get"), Key, Seconds],
        begin: &[Is("set"), Key, Record, Seconds],
        change: &[Is("replace"), Key, Record, Seconds],
        end: &[Is("delete"), Key],
        // A greater number is a point in time to it.
        seconds_max: 30 * 24 * 60 * 60,
    }
};

/// The kind. Its table in service.toml has `url`, its calls are verbs, each with a key of the
/// cache.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: "memcached",
        keys: &[
            BackendKey {
                name: "url",
                about: "`memcached://HOST:PORT`, `memcacheds://...` over TLS; at a Unix socket, \
                        `HOST` is its path, `%2F` for each `/`",
                default: Setting::Text("memcached://localhost:11211"),
                check: |url| url.text().parse::<Address>().is_ok(),
                wrong: "this is no address of a memcached server",
                hint: "such as \"memcached://127.0.0.1:11211\", or \
                       \"memcached://%2Frun%2Fmemcached.sock\" at a Unix socket; \
                       \"memcacheds://...\" is one over TLS",
            },
            secured::TRUSTED,
            secured::CERTIFICATE,
            secured::KEY,
        ],
        asks: Asks::Verbs(&[
            Verb {
                key: "get",
                beside: &[],
                reads: true,
            },
            changes("set", STORES),
            changes("add", STORES),
            changes("replace", STORES),
            changes("append", &[("value", None)]),
            changes("prepend", &[("value", None)]),
            changes("delete", &[]),
            changes("touch", &[("ttl", None)]),
            changes("incr", COUNTS),
            changes("decr", COUNTS),
        ]),
        check: check::check,
        check_backend: |_| None,
        keeps_sessions: Some(KEEPS_SESSIONS),
    },
    locate,
    reach: |config| {
        let (place, tls) = place_of(config)?;
        waited::reach(&place, tls.as_ref())
    },
    query_bytes_max,
    open: |config, peers| {
        let (wire, peers) = (MemcachedWire::new(&config.name), peers.to_vec());
        let options = options(config);
        let pool: Opened = Ok(Box::new(ConnectionPool::new(
            wire,
            &config.name,
            peers,
            options,
        )));
        pool
    },
};

/// What `url` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    place: UrlPlace,
    speaks_tls: bool,
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Address, &'static str> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let speaks_tls = match scheme {
            "memcached" => false,
            "memcacheds" => true,
            _ => return Err("it must be such as \"memcached://HOST:11211\""),
        };
        let place = place(rest.strip_suffix('/').unwrap_or(rest), PORT);
        Ok(Address {
            place: place.ok_or("it must name a host, and perhaps a port")?,
            speaks_tls,
        })
    }
}

fn locate(config: &BackendConfig) -> Result<Vec<Peer>, String> {
    let (place, tls) = place_of(config)?;
    peers(&place, tls.as_ref())
}

/// Where it is, and what connections begin with, where they speak TLS. It reads files.
fn place_of(config: &BackendConfig) -> Result<(UrlPlace, Option<Arc<Connector>>), String> {
    let address = config.text("url").parse::<Address>();
    let Address { place, speaks_tls } =
        address.map_err(|why| format!("`url` is not understood: {why}"))?;
    let tls = secured::connector(config, speaks_tls, &place, &[], Begins::AtOnce)?;
    Ok((place, tls))
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
