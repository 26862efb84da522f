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
/// Memory that the values of a load take at most.
const VALUES_BYTES: usize = 256 << 20;
/// How many times what is stored a server's memory is, so that nothing is evicted.
const ROOM: u64 = 4;
/// A server's memory in MiB at least.
const MEMORY_MIN_MIB: u64 = 8;
/// What servers have of an item beside key and value, about.
const OVERHEAD_BYTES: u64 = 56;
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
        warm(MemcachedOptions {
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
        })
    }
}

/// What servers need to store all, about, in bytes.
fn stored_bytes(options: &MemcachedOptions) -> u64 {
    let item = (options.key_bytes + options.value_bytes.largest()) as u64 + OVERHEAD_BYTES;
    u64::from(options.keys) * item
}

/// The memory that servers have for this, in MiB.
pub(super) fn memory_mib(options: &MemcachedOptions) -> u64 {
    ((ROOM * stored_bytes(options)) >> 20).max(MEMORY_MIN_MIB)
}

/// The same load, for servers that have used all of their memory when it is measured: the system
/// gives a page only when it is touched, and what that takes is not to be in the times of writes.
pub(super) fn warm(options: MemcachedOptions) -> MemcachedOptions {
    let fills = (memory_mib(&options) << 20).div_ceil(stored_bytes(&options));
    MemcachedOptions {
        fills: match options.writes > 0.0 {
            true => u32::try_from(fills).unwrap_or(u32::MAX),
            false => 1,
        },
        ..options
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
    let options = warm(MemcachedOptions {
        connections: CLIENTS,
        rate: Some(OFFERED),
        of_first: true,
        keys,
        duration,
        slices,
        warmup: warmup(duration),
        ..MemcachedOptions::default()
    });
    MemcachedOptions {
        // Twice: of two nodes without a ring, each gets half of what is written.
        fills: options.fills.saturating_mul(2),
        ..options
    }
}

/// Percent of writes in the paper's mix.
pub(super) const WRITES: f64 = 10.0;
/// Requests of a client that are under way, where it is to be seen what servers do at most.
pub(super) const DEPTH: usize = 16;

/// The paper's keys and values, for clusters.
pub(super) fn schemes(
    keys: u32,
    duration: Duration,
    slices: usize,
    writes: f64,
) -> MemcachedOptions {
    warm(MemcachedOptions {
        connections: CLIENTS,
        keys,
        writes,
        duration,
        slices,
        warmup: warmup(duration),
        // Eighteen nodes share a processor: one that is kept from it for long is told of by its
        // times, and not as one that does not answer.
        timeout: Some(Duration::from_secs(30)),
        ..MemcachedOptions::default()
    })
}

/// The paper's mix by one client, one at a time: each turn of the server is one request.
pub(super) fn response(keys: u32, duration: Duration, slices: usize) -> MemcachedOptions {
    warm(MemcachedOptions {
        connections: 1,
        keys,
        duration,
        slices,
        warmup: warmup(duration),
        ..MemcachedOptions::default()
    })
}

/// The paper's mix by several clients, all that a server does.
pub(super) fn energy(keys: u32, duration: Duration) -> MemcachedOptions {
    warm(MemcachedOptions {
        words: Words::Meta,
        connections: CLIENTS,
        depth: DEPTH,
        keys,
        duration,
        // One: what was answered is counted from the start of a slice.
        slices: 1,
        ..MemcachedOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_before_goes_through_all_memory() {
        for point in points() {
            let options = point.options(100_000, Duration::from_secs(3), 3);
            let (stored, memory) = (stored_bytes(&options), memory_mib(&options) << 20);
            assert!(memory >= 3 * stored, "{}", point.name());
            let written = stored * u64::from(options.fills);
            assert_eq!(written >= memory, options.writes > 0.0, "{}", point.name());
        }
        // Where copies are, a node without a ring gets half.
        let copies = copies(100_000, Duration::from_secs(3), 3);
        let written = stored_bytes(&copies) * u64::from(copies.fills);
        assert!(written / 2 >= memory_mib(&copies) << 20);
    }
}
