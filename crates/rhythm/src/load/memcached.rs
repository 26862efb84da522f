//! `rhythm load memcached://...`: what only memcached servers are loaded with, and the run.

use crate::progress;
use anyhow::Result;
use rhythm_bench::memcached::{
    self, MemcachedOptions, MemcachedProgress, MemcachedReport, Sizes, Words,
};
use std::str::FromStr;

/// Flags that only memcached servers know.
#[derive(Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Only for memcached://")]
pub(super) struct MemcachedArgs {
    /// Ask by datagrams
    #[arg(long)]
    udp: bool,

    /// Ask with meta commands (mg, ms)
    #[arg(long)]
    meta: bool,

    /// Ask by the binary protocol
    #[arg(long, conflicts_with = "meta")]
    binary: bool,

    /// Clients at a time, each with a connection of its own [default: 16]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,

    /// Requests of a client that are under way at a time [default: 1]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,

    /// Keys that one get asks for [default: 1]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,

    /// How many keys there are; all are stored before anything is measured [default: 100000]
    #[arg(long, value_name = "N")]
    keys: Option<u32>,

    /// The length of a key [default: 16]
    #[arg(long, value_name = "BYTES")]
    key_bytes: Option<usize>,

    /// The length of a value: BYTES, MIN-MAX (its logarithm spread evenly), or BYTES:WEIGHT,...
    /// [default: 512]
    #[arg(long, value_name = "BYTES")]
    value_bytes: Option<Sizes>,

    /// The share of requests that write [default: 10]
    #[arg(long, value_name = "PERCENT")]
    writes: Option<f64>,

    /// Ask for some keys more than for others, by Zipf's law with this exponent, such as 0.99
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,

    /// The servers have room for everything: a key that was stored and is not there is wrong, and
    /// not a miss
    #[arg(long)]
    no_misses: bool,

    /// Slices of the duration, in which several servers take turns [default: 5]
    #[arg(long, value_name = "N")]
    slices: Option<usize>,

    /// How long an answer may take [default: 5s, by datagram 100ms]
    #[arg(long, value_name = "DURATION", value_parser = rhythm_engine::settings::duration::parse)]
    timeout: Option<std::time::Duration>,

    /// The servers' processes on this machine, in their order (PID+PID of a ring's nodes): tells
    /// the CPU time of an operation
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    server_pid: Vec<Processes>,
}

/// The processes of a server.
#[derive(Clone, Debug, PartialEq)]
struct Processes(Vec<u32>);

impl FromStr for Processes {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Processes, Self::Err> {
        let numbers = text.split('+').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Processes(numbers))
    }
}

impl MemcachedArgs {
    /// These over what else is asked for.
    pub(super) fn over(self, usual: MemcachedOptions) -> MemcachedOptions {
        MemcachedOptions {
            udp: self.udp,
            words: match (self.meta, self.binary) {
                (true, _) => Words::Meta,
                (_, true) => Words::Binary,
                _ => Words::Ascii,
            },
            connections: self.connections.unwrap_or(usual.connections),
            depth: self.depth.unwrap_or(usual.depth),
            batch: self.batch.unwrap_or(usual.batch),
            keys: self.keys.unwrap_or(usual.keys),
            key_bytes: self.key_bytes.unwrap_or(usual.key_bytes),
            value_bytes: self.value_bytes.unwrap_or(usual.value_bytes),
            writes: self.writes.unwrap_or(usual.writes),
            zipf: self.zipf,
            keeps: self.no_misses,
            slices: self.slices.unwrap_or(usual.slices),
            timeout: self.timeout,
            server_pids: self.server_pid.into_iter().map(|of| of.0).collect(),
            ..usual
        }
    }
}

/// Loads memcached servers, and shows how it is getting on.
pub(super) fn run(options: MemcachedOptions) -> Result<MemcachedReport> {
    let bar = progress::parts(0);
    let slices = options.slices as u64;
    let report = memcached::run(options, &mut |now| match now {
        MemcachedProgress::Filling { server, done, of } => {
            bar.set_length(of);
            bar.set_position(done);
            bar.set_message(format!("{server}: {done} of {of} keys stored"));
        }
        MemcachedProgress::Loading {
            server,
            slice,
            requests,
        } => {
            bar.set_length(slices);
            bar.set_position(slice as u64 - 1);
            bar.set_message(format!("{server}: slice {slice}, {requests} requests"));
        }
    })?;
    bar.finish_and_clear();
    Ok(report)
}
