//! How memcached servers are loaded.

use super::sizes::Sizes;
use crate::load::RATES;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// In which words a server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Words {
    /// `get` and `set`.
    #[default]
    Ascii,
    /// `mg` and `ms`.
    Meta,
    /// The binary protocol.
    Binary,
}

/// How to load servers. What is there by default is the paper's mix: 16-byte keys, 512-byte
/// values, 10 % writes.
#[derive(Clone, Debug, Serialize)]
pub struct MemcachedOptions {
    /// The servers: `memcached://HOST[:PORT]` or `memcached:///PATH` of a Unix socket, further ones
    /// behind commas. `A+B+C` instead of one is a ring, whose nodes are asked each for its own
    /// keys, and for those of the nodes before it that are not there.
    pub url: String,
    /// Ask by datagrams.
    pub udp: bool,
    /// ASCII or meta commands, or the binary protocol.
    pub words: Words,
    /// Clients at a time, each with a connection (or datagram socket) of its own.
    pub connections: usize,
    /// Requests of a client that are under way at a time.
    pub depth: usize,
    /// Keys that one request asks for; a write has one.
    pub batch: usize,
    /// How many keys there are. All are stored before anything is measured.
    pub keys: u32,
    /// How often: more than once has a server write over what it stored, and go through the memory
    /// that it has for that.
    pub fills: u32,
    /// The length of a key, in bytes.
    pub key_bytes: usize,
    /// The lengths of values.
    #[serde(serialize_with = "as_text")]
    pub value_bytes: Sizes,
    /// Of a ring, only keys of its first node are asked for and written, once all are stored: its
    /// CPU time is what it costs to own them.
    pub of_first: bool,
    /// Of all requests, the share that write, in percent.
    pub writes: f64,
    /// The exponent of Zipf's law, by which some keys are asked for more than others; without it
    /// all are asked for alike.
    pub zipf: Option<f64>,
    /// Open loop: requests a second, whether or not the server keeps up. `None` is closed loop.
    pub rate: Option<f64>,
    /// Whether values are checked.
    pub validate: bool,
    /// The servers have room for everything: a key whose value was acknowledged and that is not
    /// there is wrong, and not only missing.
    pub keeps: bool,
    /// For how long each server is measured, all slices together.
    pub duration: Duration,
    /// The slices of this time, in which the servers take turns.
    pub slices: usize,
    /// For how long each slice loads before it measures.
    pub warmup: Duration,
    /// Threads, between which the clients are divided.
    pub threads: usize,
    /// What decides which keys are asked for and when.
    pub seed: u64,
    /// How long an answer may take: `None` is 5 s, and 100 ms for a datagram.
    pub timeout: Option<Duration>,
    /// The processes of the servers, in their order, where they are on this machine; of a ring all
    /// of its nodes'. Tells the CPU time that a server takes.
    pub server_pids: Vec<Vec<u32>>,
}

impl Default for MemcachedOptions {
    fn default() -> MemcachedOptions {
        MemcachedOptions {
            url: "memcached://127.0.0.1:11211".to_owned(),
            udp: false,
            words: Words::Ascii,
            connections: 16,
            depth: 1,
            batch: 1,
            keys: 100_000,
            fills: 1,
            key_bytes: 16,
            value_bytes: Sizes::fixed(512),
            of_first: false,
            writes: 10.0,
            zipf: None,
            rate: None,
            validate: true,
            keeps: false,
            duration: Duration::from_secs(10),
            slices: 5,
            warmup: Duration::from_millis(200),
            threads: 1,
            seed: 1,
            timeout: None,
            server_pids: Vec::new(),
        }
    }
}

fn as_text<S: Serializer>(sizes: &Sizes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(sizes)
}

impl MemcachedOptions {
    /// How long an answer may take.
    pub(super) fn patience(&self) -> Duration {
        let usual = Duration::from_millis(if self.udp { 100 } else { 5000 });
        self.timeout.unwrap_or(usual)
    }

    /// What is wrong with them, if anything.
    pub(super) fn fault(&self, servers: usize) -> Option<&'static str> {
        let digits = self.keys.max(1).ilog10() as usize + 1;
        Some(match self {
            MemcachedOptions { connections: 0, .. } => "there must be at least one connection",
            MemcachedOptions { threads: 0, .. } => "there must be at least one thread",
            MemcachedOptions { depth: 0, .. } => "at least one request must be under way at a time",
            MemcachedOptions { batch: 0, .. } => "a request must ask for at least one key",
            MemcachedOptions { batch: 1025.., .. } => "a request asks for at most 1024 keys",
            MemcachedOptions { keys: 0, .. } => "there must be at least one key",
            MemcachedOptions { fills: 0, .. } => "every key must be stored at least once",
            MemcachedOptions { slices: 0, .. } => "there must be at least one slice",
            MemcachedOptions { depth: 4097.., .. } => "at most 4096 requests are under way at once",
            MemcachedOptions { connections, .. } if *connections > 50_000 => {
                "there are at most 50000 connections"
            }
            MemcachedOptions { duration, .. } if duration.is_zero() => {
                "the duration must be positive"
            }
            MemcachedOptions { timeout, .. } if timeout.is_some_and(|time| time.is_zero()) => {
                "the time that an answer may take must be positive"
            }
            MemcachedOptions { key_bytes, .. } if *key_bytes > 250 => {
                "memcached's keys have at most 250 bytes"
            }
            MemcachedOptions { key_bytes, .. } if *key_bytes < digits + 1 => {
                "keys of this length are too few for so many: they are a letter and a number"
            }
            MemcachedOptions { writes, .. } if !(0.0..=100.0).contains(writes) => {
                "the share of writes is 0 to 100 percent"
            }
            MemcachedOptions { zipf: Some(by), .. } if !(*by > 0.0 && *by <= 10.0) => {
                "the exponent of Zipf's law must be above 0 and at most 10"
            }
            MemcachedOptions { rate: Some(by), .. } if !RATES.contains(by) => {
                "the rate of requests is 0.001 to 10000000 a second"
            }
            MemcachedOptions {
                batch,
                words: Words::Ascii,
                key_bytes,
                udp,
                ..
            } if batch * (key_bytes + 1) > if *udp { 60_000 } else { 1 << 20 } => {
                "so many keys of this length are too long for one request"
            }
            MemcachedOptions {
                udp: true,
                batch,
                words: Words::Meta | Words::Binary,
                key_bytes,
                ..
            } if batch * (key_bytes + 24) > 60_000 => {
                "so many keys of this length are too long for one datagram"
            }
            MemcachedOptions {
                udp: true,
                value_bytes,
                ..
            } if value_bytes.largest() > 60_000 => {
                "a value that is written by UDP has to fit one datagram: at most 60000 bytes"
            }
            MemcachedOptions {
                server_pids: pids, ..
            } if !pids.is_empty() && pids.len() != servers => {
                "there must be a process for each server, or none"
            }
            _ => return None,
        })
    }
}
