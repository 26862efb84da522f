//! How a pool is used.

use super::circuit::CircuitOptions;
use super::pipe::UNSENT_MAX;
use super::share::ShareOptions;
use super::spare::Spare;
use rhythm_engine::settings::{BackendConfig, PoolSettings};
use std::time::Duration;

/// So many times as long as what it says is a query at most as a wire encodes it: each byte
/// escaped as three, and what goes with it.
const ENCODED_MAX: usize = 4;

/// How a pool is used. The limits are a worker's, not the process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Most connections at a time; 0 is taken as 1.
    pub connections_max: usize,
    /// Most queries under way on a connection, where answers come in order only while they are
    /// prompt; 0 is taken as 1, which is not to pipeline.
    pub depth_max: usize,
    /// Most queries taken over and not yet answered; beyond, they are refused.
    pub queries_max: usize,
    /// Most bytes that are kept of those, and of one who asks at most half of them; beyond, they
    /// are refused, too.
    pub held_max: usize,
    /// Most bytes of what a query says: the literal parts of its call, and its arguments before
    /// they are encoded.
    pub query_max: usize,
    /// How often a query is sent again after a lost connection, where that is safe.
    pub retries_max: u32,
    /// How long a query may take, its waiting and repetition included.
    pub timeout: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How long a connection is kept without queries. Less than the other side keeps it, so that
    /// no query meets a connection that is just being closed.
    pub idle_max: Duration,
    /// Most that one who asks may hold of all this.
    pub share: ShareOptions,
    /// When a failing backend is left alone.
    pub circuit: CircuitOptions,
}

impl Default for PoolOptions {
    /// What service.toml says where it says nothing.
    fn default() -> PoolOptions {
        PoolOptions::with(&PoolSettings::default())
    }
}

impl PoolOptions {
    /// The most that a pool takes for queries, in bytes: what is kept of them, and what is encoded
    /// and not sent.
    pub(in super::super) fn query_bytes_max(&self) -> usize {
        // A query comes behind as much as makes a pipe take no more.
        let unsent = UNSENT_MAX + ENCODED_MAX * self.query_max;
        let connections = self.connections_max.max(1);
        self.held_max + Spare::BYTES_MAX + connections.saturating_mul(unsent)
    }

    /// What a backend's table in service.toml says, and for the rest what is usual; where it says
    /// nothing of the depth, the one that its kind gains from.
    pub fn of(config: &BackendConfig, depth: usize) -> PoolOptions {
        let said = config.pool.depth_max.map(|depth| depth.get() as usize);
        PoolOptions {
            depth_max: said.unwrap_or(depth),
            ..PoolOptions::with(&config.pool)
        }
    }

    fn with(pool: &PoolSettings) -> PoolOptions {
        PoolOptions {
            connections_max: pool.connections_max as usize,
            depth_max: pool.depth_max.map_or(1, |depth| depth.get() as usize),
            queries_max: 1 << 16,
            held_max: 32 << 20,
            query_max: pool.request_bytes_max as usize,
            retries_max: pool.retries_max,
            timeout: pool.timeout,
            connect_timeout: Duration::from_secs(1),
            idle_max: Duration::from_secs(4),
            share: ShareOptions {
                connections_max: (pool.connections_per_user_max).map(|most| most.get() as usize),
                calls_max: pool.calls_per_user_max as usize,
            },
            circuit: CircuitOptions {
                failures_min: pool.circuit_failures,
                window: pool.circuit_window,
                ..CircuitOptions::default()
            },
        }
    }
}
