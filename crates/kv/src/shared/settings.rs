//! How a server is started: memcached's settings, with its defaults.

use crate::membership::{Candidate, Membership};
use crate::wire::{ITEM_HEADER, Protocol, Rules, Users};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The largest part of an item that memcached has in one chunk, in bytes.
pub(crate) const CHUNK_MAX: u32 = 512 << 10;
/// Slab classes of memcached.
const CLASSES_MAX: u32 = 63;

/// How many times as much memory as at the start there may be later: addresses are reserved for it.
pub const MEMORY_GROWTH: u64 = 16;

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The host or address; none: all addresses.
    pub host: Option<String>,
    /// The port, if it is not the usual one.
    pub port: Option<u16>,
}

/// How a server is started. See memcached(1) for what each means.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `-p`: the TCP port; none: no TCP. 0 has the system choose one.
    pub port: Option<u16>,
    /// `-U`: the UDP port; none: no UDP.
    pub udp_port: Option<u16>,
    /// `-s`: the Unix socket, in the place of all ports.
    pub unix_socket: Option<PathBuf>,
    /// `-a`: its permissions.
    pub unix_mask: u32,
    /// `-l`: where to listen; empty: everywhere.
    pub listen: Vec<Listen>,
    /// `-m`: bytes for items.
    pub memory: u64,
    /// What `cache_memlimit` may make of that; less than `memory`: nothing more.
    pub memory_max: u64,
    /// `-e`: the file in which items are, if they are found again after a restart. Then there is no
    /// more memory later than at the start.
    pub memory_file: Option<PathBuf>,
    /// Not `-M`: old items make room for new ones.
    pub evict: bool,
    /// `-c`: connections at one time.
    pub connections_max: u32,
    /// Files that this process may open: clients get what is left beside those of the server.
    pub open_files: u64,
    /// `-t`: threads.
    pub threads: usize,
    /// Keep each thread on a core of its own.
    pub pin: bool,
    /// `-R`: commands of one connection in one go.
    pub requests_per_event: u32,
    /// Not `-C`: items have CAS ids.
    pub cas: bool,
    /// `-b`: clients that may wait to be let in.
    pub backlog: u32,
    /// `-B`: the protocol.
    pub protocol: Protocol,
    /// `-I`: the largest item in bytes, counted as memcached does.
    pub item_max: u64,
    /// Not `-F`: `flush_all` is obeyed.
    pub flush: bool,
    /// `-A`: `shutdown` is obeyed.
    pub shutdown: bool,
    /// `-v`
    pub verbosity: u32,
    /// `-D`
    pub prefix_delimiter: u8,
    /// Counts by prefix from the start.
    pub detail: bool,
    /// `-Y`: the file with users, as it was given.
    pub auth_file: Option<PathBuf>,
    /// The users in it; empty: everybody may come in.
    pub users: Arc<Users>,
    /// `--admin`: where health and figures are told, if anywhere.
    pub admin: Option<SocketAddr>,
    /// `--admin-hosts`: more names by which that may be asked.
    pub admin_hosts: Vec<String>,
    /// `--ring`: the ring that the server is a node of, if it is.
    pub ring: Option<Membership>,
    /// As a node that etcd is to know, which has no place in the ring yet: it takes one when all
    /// else is ready, and then that is its `ring`.
    pub candidate: Option<Candidate>,
    /// `-o idle_timeout`: connections that are silent for so long are closed.
    pub idle_timeout: Option<Duration>,
    /// `-o busy_poll`: for how long after something came a thread looks for more before it sleeps.
    pub busy_poll: Duration,
    /// `-o maxconns_fast`: clients beyond `-c` are told so, and do not wait.
    pub turn_away: bool,
    /// `-o read_buf_mem_limit`: what all connections may hold together, in bytes, of values that
    /// are not whole and of answers that are not taken.
    pub buffers_max: usize,
    /// `-L`: all of `memory` is made resident before anything is served, so that no write waits for
    /// the system at a first touch.
    pub resident: bool,
    /// `-f`: only told.
    pub growth_factor: f64,
    /// `-n`: only told.
    pub chunk_size: u32,
    /// `-o hashpower`: only told.
    pub hash_power: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            port: Some(11211),
            udp_port: None,
            unix_socket: None,
            unix_mask: 0o700,
            listen: Vec::new(),
            memory: 64 << 20,
            memory_max: MEMORY_GROWTH * (64 << 20),
            memory_file: None,
            evict: true,
            connections_max: 1024,
            open_files: u64::MAX,
            threads: 4,
            pin: false,
            requests_per_event: 20,
            cas: true,
            backlog: 1024,
            protocol: Protocol::Negotiating,
            item_max: 1 << 20,
            flush: true,
            shutdown: false,
            verbosity: 0,
            prefix_delimiter: b':',
            detail: false,
            auth_file: None,
            users: Arc::default(),
            admin: None,
            admin_hosts: Vec::new(),
            ring: None,
            candidate: None,
            idle_timeout: None,
            busy_poll: Duration::ZERO,
            turn_away: true,
            buffers_max: 1 << 30,
            resident: false,
            growth_factor: 1.25,
            chunk_size: 48,
            hash_power: 0,
        }
    }
}

impl Settings {
    /// What parsing needs of them.
    pub fn rules(&self) -> Rules {
        Rules {
            item_max: self.item_max,
            with_cas: self.cas,
            may_flush: self.flush,
            may_shut_down: self.shutdown,
            users: Arc::clone(&self.users),
        }
    }

    /// The slab class that memcached would put an item of this size in (`me` tells it).
    pub(crate) fn slab_class(&self, size: u64) -> u32 {
        let mut class = 1;
        let mut chunk = f64::from(ITEM_HEADER) + f64::from(self.chunk_size);
        while class < CLASSES_MAX && chunk < f64::from(CHUNK_MAX) / self.growth_factor {
            chunk = (chunk / 8.0).ceil() * 8.0;
            if size as f64 <= chunk {
                break;
            }
            chunk = (chunk * self.growth_factor).floor();
            class += 1;
        }
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slab_classes_are_memcacheds() {
        let settings = Settings::default();
        // Sizes and classes that memcached 1.6.18 told with `me`.
        for (size, class) in [(63, 1), (96, 1), (97, 2), (120, 2), (121, 3), (3060, 17)] {
            assert_eq!(settings.slab_class(size), class, "{size}");
        }
        // Whatever somebody asks for.
        let settings = Settings {
            chunk_size: u32::MAX,
            ..settings
        };
        assert_eq!(settings.slab_class(63), 1);
    }
}
