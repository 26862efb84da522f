//! Why servers cannot be loaded.

use super::target::ServersError;
use rhythm_net::ListenError;
use std::io;

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum MemcachedError {
    /// The options contradict each other or make no sense.
    #[error("{0}")]
    Options(&'static str),
    /// The servers' URL.
    #[error(transparent)]
    Servers(#[from] ServersError),
    /// Nothing answers there.
    #[error("no answer from {server}")]
    Connect {
        /// Where.
        server: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing answers a datagram there.
    #[error(
        "no answer to a datagram from {server}: memcached and `rhythm kv` take them only where \
         they were started with -U PORT; without --udp it is asked by TCP"
    )]
    Datagram {
        /// Where.
        server: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else than memcached answers there.
    #[error("{server} is no memcached: asked for its version it says \"{answer}\"")]
    NoMemcached {
        /// Where.
        server: String,
        /// The beginning of what it said.
        answer: String,
    },
    /// A server's process.
    #[error("cannot read the CPU time of process {pid}")]
    Process {
        /// Which.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// Sockets for datagrams.
    #[error(transparent)]
    Socket(#[from] ListenError),
    /// A worker could not run.
    #[error("cannot run: {0}")]
    Run(#[from] io::Error),
}
