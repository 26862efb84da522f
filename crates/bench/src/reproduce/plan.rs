//! What is measured: the points of the charts.

use crate::memcached::{MemcachedOptions, Sizes, Words};
use std::time::Duration;

/// Which chart a point is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chart {
    /// Rate by protocol.
    Protocols,
    /// Rate by size and mix.
    Sizes,
}

/// Something that servers are loaded with, side by side.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) chart: Chart,
    pub(super) words: Words,
    pub(super) udp: bool,
    pub(super) depth: usize,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Percent.
    pub(super) writes: f64,
}

/// Clients of a load.
const CLIENTS: usize = 8;
/// Memory that the values of a load take at most, so that nothing is evicted.
const VALUES_BYTES: usize = 256 << 20;
/// How long a datagram's answer may take before it is lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The lengths of values, of which there are curves.
const VALUES: [usize; 6] = [16, 128, 512, 4096, 16_384, 65_536];
/// Percent of writes, each a curve.
const MIXES: [f64; 3] = [0.0, 10.0, 50.0];
/// Lengths of keys beside 16, with the paper's values and mix.
const KEYS: [usize; 2] = [64, 250];

impl Load {
    pub(super) fn protocol(&self) -> &'static str {
        match (self.udp, self.words) {
            (true, _) => "UDP",
            (_, Words::Ascii) => "ASCII",
            (_, Words::Meta) => "meta",
            (_, Words::Binary) => "binary",
        }
    }

    pub(super) fn name(&self) -> String {
        format!(
            "{}, {} in flight, keys of {} and values of {} bytes, {} % writes",
            self.protocol(),
            self.depth,
            self.key_bytes,
            self.value_bytes,
            self.writes
        )
    }

    /// It for the load generator.
    pub(super) fn options(&self, keys: u32, duration: Duration, slices: usize) -> MemcachedOptions {
        let most = VALUES_BYTES / (self.key_bytes + self.value_bytes);
        MemcachedOptions {
            udp: self.udp,
            words: self.words,
            connections: CLIENTS,
            depth: self.depth,
            keys: keys.min(u32::try_from(most).unwrap_or(u32::MAX)),
            key_bytes: self.key_bytes,
            value_bytes: Sizes::fixed(self.value_bytes),
            writes: self.writes,
            duration,
            slices,
            warmup: warmup(duration),
            timeout: self.udp.then_some(PATIENCE),
            ..MemcachedOptions::default()
        }
    }
}

/// How long a slice loads before it measures.
fn warmup(duration: Duration) -> Duration {
    (duration / 4).min(MemcachedOptions::default().warmup)
}

/// The points of the charts of rates.
pub(super) fn points() -> Vec<Load> {
    let mut points = Vec::new();
    for depth in [1, 16] {
        for (words, udp) in [
            (Words::Ascii, false),
            (Words::Meta, false),
            (Words::Binary, false),
            (Words::Ascii, true),
        ] {
            points.push(Load {
                chart: Chart::Protocols,
                words,
                udp,
                depth,
                key_bytes: 16,
                value_bytes: 16,
                writes: 0.0,
            });
        }
    }
    let mut size = |key_bytes, value_bytes, writes| {
        points.push(Load {
            chart: Chart::Sizes,
            words: Words::Meta,
            udp: false,
            depth: 16,
            key_bytes,
            value_bytes,
            writes,
        });
    };
    for writes in MIXES {
        VALUES
            .iter()
            .for_each(|value_bytes| size(16, *value_bytes, writes));
    }
    KEYS.iter()
        .for_each(|key_bytes| size(*key_bytes, 512, 10.0));
    points
}

/// Whose response time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// memcached, by datagram or by TCP.
    Memcached { udp: bool },
    /// One kv.
    Alone { udp: bool },
    /// Two nodes of a ring, by TCP, as `--replicate` says.
    Ring { acked: bool },
}

impl Setup {
    pub(super) fn name(self) -> String {
        let by = |udp| if udp { "UDP" } else { "TCP" };
        match self {
            Setup::Memcached { udp } => format!("memcached, {}", by(udp)),
            Setup::Alone { udp } => format!("kv, {}", by(udp)),
            Setup::Ring { acked: false } => "kv, ring of 2, TCP, async".to_owned(),
            Setup::Ring { acked: true } => "kv, ring of 2, TCP, acked".to_owned(),
        }
    }

    pub(super) fn is_udp(self) -> bool {
        matches!(
            self,
            Setup::Memcached { udp: true } | Setup::Alone { udp: true }
        )
    }
}

/// The bars of the chart of response times.
pub(super) fn setups(has_memcached: bool) -> Vec<Setup> {
    let mut setups = Vec::new();
    if has_memcached {
        setups.extend([true, false].map(|udp| Setup::Memcached { udp }));
    }
    setups.extend([true, false].map(|udp| Setup::Alone { udp }));
    setups.extend([false, true].map(|acked| Setup::Ring { acked }));
    setups
}

/// Requests a second at which it is measured what copies cost.
pub(super) const OFFERED: f64 = 20_000.0;

/// The paper's mix at one rate, of keys that one node owns: what the copies cost it is to be seen.
pub(super) fn copies(keys: u32, duration: Duration, slices: usize) -> MemcachedOptions {
    MemcachedOptions {
        connections: CLIENTS,
        rate: Some(OFFERED),
        of_first: true,
        keys,
        duration,
        slices,
        warmup: warmup(duration),
        ..MemcachedOptions::default()
    }
}

/// The paper's mix by one client, one at a time: each turn of the server is one request.
pub(super) fn response(keys: u32, duration: Duration, slices: usize) -> MemcachedOptions {
    MemcachedOptions {
        connections: 1,
        keys,
        duration,
        slices,
        warmup: warmup(duration),
        ..MemcachedOptions::default()
    }
}
