//! A report for people to read.

use super::{MemcachedReport, Ratios, ServerReport};
use crate::load::{Latency, Micros};
use crate::memcached::options::{MemcachedOptions, Words};
use std::fmt;

impl fmt::Display for MemcachedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        load(&self.options, f)?;
        for server in &self.servers {
            writeln!(f)?;
            one(server, f)?;
        }
        if !self.ratios.is_empty() {
            writeln!(
                f,
                "\n{:<28}{:>12}{:>9}{:>9}{:>9}{:>9}",
                "beside the first", "operations/s", "p50", "p99", "p99.9", "CPU"
            )?;
            self.ratios.iter().try_for_each(|other| ratios(other, f))?;
        }
        write!(f, "{}", if self.passed() { "passed" } else { "FAILED" })
    }
}

fn load(options: &MemcachedOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let words = match options.words {
        Words::Ascii => "ASCII",
        Words::Meta => "meta",
        Words::Binary => "binary",
    };
    let transport = if options.udp { ", UDP" } else { "" };
    writeln!(
        f,
        "{words}{transport}: {} clients, {} under way each, {} keys a get, {} % writes",
        options.connections, options.depth, options.batch, options.writes
    )?;
    let choice = match options.zipf {
        Some(exponent) => format!("Zipf {exponent}"),
        None => "all alike".to_owned(),
    };
    writeln!(
        f,
        "{} keys ({choice}) of {} bytes, values of {} bytes",
        options.keys, options.key_bytes, options.value_bytes
    )?;
    let loop_ = match options.rate {
        Some(rate) => format!("open loop, {rate} requests a second"),
        None => "closed loop".to_owned(),
    };
    writeln!(
        f,
        "{loop_}, medians of {} slices, {:.1} s a server",
        options.slices,
        options.duration.as_secs_f64()
    )
}

fn one(server: &ServerReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let keys = server.hits + server.misses;
    writeln!(f, "{} ({})", server.server, server.version)?;
    write!(
        f,
        "  {:.0} operations/s, {:.0} requests/s",
        server.operations_per_s, server.requests_per_s
    )?;
    match server.cpu_us {
        Some(cpu) => writeln!(f, ", server CPU {cpu:.2} us an operation")?,
        None => writeln!(f)?,
    }
    writeln!(
        f,
        "  {:<10}{:>11}{:>11}{:>11}{:>11}{:>11}",
        "latency", "p50", "p90", "p99", "p99.9", "max"
    )?;
    for (name, latency) in [
        ("all", &server.latency),
        ("reads", &server.read_latency),
        ("writes", &server.write_latency),
    ] {
        columns(name, latency, f)?;
    }
    writeln!(
        f,
        "  {} hits, {} misses ({:.2} %), {} writes; {} connections opened, \
         for the filling and each slice anew",
        server.hits,
        server.misses,
        100.0 * server.misses as f64 / keys.max(1) as f64,
        server.writes,
        server.connections
    )?;
    for (count, what) in [
        (server.lost, "requests by datagram lost"),
        (server.late, "parts of answers that nobody awaited any more"),
        (server.never_sent, "requests that found no client free"),
    ] {
        if count > 0 {
            writeln!(f, "  {count} {what}")?;
        }
    }
    for (kind, wrong) in &server.wrong {
        writeln!(f, "  WRONG {} {kind}, such as {}", wrong.count, wrong.key)?;
    }
    for (kind, count) in &server.errors {
        writeln!(f, "  ERROR {count} {kind}")?;
    }
    Ok(())
}

fn columns(name: &str, latency: &Latency, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Latency {
        p50,
        p90,
        p99,
        p999,
        max,
        ..
    } = *latency;
    write!(f, "  {name:<10}")?;
    for value in [p50, p90, p99, p999, max] {
        write!(f, "{:>11}", Micros(value))?;
    }
    writeln!(f)
}

fn ratios(other: &Ratios, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:<28}", other.server)?;
    let shown = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    write!(f, "{:>12}", shown(other.operations_per_s))?;
    for ratio in [other.p50, other.p99, other.p999, other.cpu_us] {
        write!(f, "{:>9}", shown(ratio))?;
    }
    writeln!(f)
}
