//! Ways to keep copies, beside each other: what they take, what they send between nodes, and what
//! is lost when a node dies.
//!
//! Three nodes each, and all of them have all: three copies, one of which may be lost with a node.
//! The clusters are loaded in turn, then a node of each is killed under load, several times, each
//! time one of a new cluster.

mod chart;
mod client;
mod death;
mod report;
mod setup;
mod table;

pub use report::{Death, SchemeReport, SchemesReport};

use super::error::ReproduceError;
use super::files::write;
use super::measure::Measurer;
use super::options::ReproduceOptions;
use super::plan;
use super::progress::ReproduceProgress;
use super::servers::{Running, Servers};
use crate::memcached::{MemcachedOptions, MemcachedReport};
use setup::setups;

/// Keys at most: a keyspace is small.
const KEYS_MAX: u32 = 10_000;
/// Memory of a node one of which is killed, in MiB: it has room for all that is written until then.
const MEMORY_MIB: u64 = 64;

/// Compares the schemes, and writes a chart each of times and rates, a table and data into the
/// folder; `progress` is called at each step.
///
/// # Errors
/// A server does not start, or the folder cannot be written.
pub fn run_schemes(
    options: &ReproduceOptions,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<SchemesReport, ReproduceError> {
    std::fs::create_dir_all(&options.out).map_err(ReproduceError::file(&options.out))?;
    let servers = Servers::new(options)?;
    let measurer = Measurer {
        options,
        servers: &servers,
    };
    let setups = setups();
    // Each is measured once for each slice, and dies as often.
    let of = 2 + setups.len() * (1 + options.slices);
    let mut done = 0;
    let mut tell = |what: &str| {
        progress(ReproduceProgress { done, of, what });
        done += 1;
    };
    let slow = load(options, 1);
    let memory = plan::memory_mib(&slow);
    let running = setups.iter().map(|of| servers.cluster(of.cluster, memory));
    let running: Vec<Running> = running.collect::<Result<_, _>>()?;
    let all: Vec<&Running> = running.iter().collect();
    tell("response times");
    let times = measurer.load(slow, &all, &mut |_| ())?;
    tell("rates");
    let rates = measurer.load(load(options, plan::DEPTH), &all, &mut |_| ())?;
    let mut schemes = Vec::new();
    for (index, (setup, running)) in setups.iter().zip(&running).enumerate() {
        tell(&format!("{}: bytes between nodes", setup.name()));
        let of = |report: &MemcachedReport| report.servers[index].clone();
        let mut scheme = SchemeReport::new(setup, &of(&times), &of(&rates));
        scheme.bytes_per_write = traffic(&measurer, running, 100.0)?;
        scheme.bytes_per_read = traffic(&measurer, running, 0.0)?;
        schemes.push(scheme);
    }
    drop(running);
    for (setup, scheme) in setups.iter().zip(&mut schemes) {
        for _ in 0..options.slices {
            tell(&format!("{}: {} dies", setup.name(), setup.victim));
            let mut running = servers.cluster(setup.cluster, MEMORY_MIB)?;
            let victim = setup.victim(&running);
            let places = running.places();
            let death = death::watch(&places, victim, || running.kill(victim))?;
            scheme.deaths.push(death);
        }
    }
    let report = SchemesReport::new(options, servers.processors.tell(), schemes);
    let mut files = chart::draw(&report)?;
    files.push(("schemes.md", table::markdown(&report)));
    files.push((
        "schemes.json",
        serde_json::to_string_pretty(&report)? + "\n",
    ));
    write(files, &options.out)?;
    Ok(report)
}

/// The paper's mix, with so many requests of a client under way.
fn load(options: &ReproduceOptions, depth: usize) -> MemcachedOptions {
    MemcachedOptions {
        depth,
        ..plan::schemes(
            options.keys.min(KEYS_MAX),
            options.duration,
            options.slices,
            plan::WRITES,
        )
    }
}

/// Bytes that nodes send each other for a request, of which so many in a hundred write.
fn traffic(
    measurer: &Measurer<'_>,
    running: &Running,
    writes: f64,
) -> Result<Option<f64>, ReproduceError> {
    let options = measurer.options;
    let keys = options.keys.min(KEYS_MAX);
    // One slice: what was answered is counted from its start.
    let options = plan::schemes(keys, options.duration, 1, writes);
    let mut ends = None;
    let told = &mut |requests: u64| {
        if let Some(bytes) = running.sent_bytes() {
            let now = (bytes, requests as f64);
            ends = Some((ends.map_or(now, |(first, _)| first), now));
        }
    };
    measurer.load(options, &[running], told)?;
    let each = |(from, to): ((f64, f64), (f64, f64))| {
        let requests = to.1 - from.1;
        (requests > 0.0).then(|| (to.0 - from.0) / requests)
    };
    Ok(ends.and_then(each))
}
