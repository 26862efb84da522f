//! What came of it: points, response times and joules, as data.

use super::figures::Turns;
use super::options::ReproduceOptions;
use super::plan::Load;
use super::verdicts::{Claim, Verdicts};
use crate::load::Latency;
use crate::memcached::{Ratios, ServerReport};
use serde::Serialize;

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct KvReport {
    /// The machine.
    pub machine: String,
    /// Which processors did what.
    pub processors: String,
    /// The commit and version that were measured.
    pub commit: String,
    /// Whether there was a memcached to compare with.
    pub has_memcached: bool,
    /// The command line that did it.
    pub command: String,
    /// Seconds for which each server was measured at each point.
    pub seconds: f64,
    /// What one TCP connection of the loopback device carries, in Gbit/s.
    pub loopback_gbit_s: f64,
    /// Rates by protocol, and by size and mix.
    pub points: Vec<Point>,
    /// Response times.
    pub responses: Vec<Response>,
    /// What copies cost the node that owns the keys, first without any.
    pub copies: Vec<Copies>,
    /// Operations a joule, where joules can be read.
    pub energy: Vec<Energy>,
    /// What the paper says, as far as all that decides it.
    pub claims: Vec<Claim>,
    /// Whether that is so.
    pub verdicts: Verdicts,
}

/// A load, and what servers made of it side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Which chart it is in: `protocols` or `sizes`.
    pub chart: String,
    /// ASCII, meta or binary over TCP, or UDP (ASCII).
    pub protocol: String,
    /// Requests of each of 8 clients under way at a time.
    pub depth: usize,
    /// The length of keys.
    pub key_bytes: usize,
    /// The length of values.
    pub value_bytes: usize,
    /// The share of writes, in percent.
    pub writes: f64,
    /// memcached, where it is installed, and kv.
    pub servers: Vec<Measured>,
}

/// A server at a point.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What it says it is.
    pub server: String,
    /// Operations a second.
    pub operations_per_s: f64,
    /// Keys and values that were carried, in Gbit/s.
    pub gbit_s: f64,
    /// Of requests.
    pub latency: Latency,
    /// Operations for each second of CPU time that the server took.
    pub operations_per_cpu_s: Option<f64>,
    /// Whether every value was right and every request answered, but for datagrams that were lost.
    pub passed: bool,
}

impl Measured {
    pub(super) fn new(report: &ServerReport, load: &Load) -> Measured {
        let bits = 8.0 * (load.key_bytes + load.value_bytes) as f64;
        Measured {
            server: name(&report.version),
            operations_per_s: report.operations_per_s,
            gbit_s: report.operations_per_s * bits / 1e9,
            latency: report.latency,
            operations_per_cpu_s: report.cpu_us.filter(|us| *us > 0.0).map(|us| 1e6 / us),
            passed: report.passed(),
        }
    }
}

/// A server by the version that it tells.
fn name(version: &str) -> String {
    match version.contains("rhythm") {
        true => "kv".to_owned(),
        false => format!("memcached {version}"),
    }
}

/// How long an answer takes one client that asks one thing at a time, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Response {
    /// Who answers, and how.
    pub setup: String,
    /// From sending to the answer.
    pub latency: Latency,
    /// Of that, on average, the server's turns (of a ring those that take copies, too): from
    /// waking to the answer's being sent.
    pub internal_us: Option<f64>,
    /// What half of the turns did not exceed: the bound of a bucket.
    pub internal_p50_us: Option<f64>,
    /// What 99 % of the turns did not exceed.
    pub internal_p99_us: Option<f64>,
    /// As of a point.
    pub passed: bool,
}

impl Response {
    pub(super) fn new(setup: String, report: &ServerReport, turns: Option<&Turns>) -> Response {
        Response {
            setup,
            latency: report.latency,
            internal_us: turns.and_then(Turns::mean_us),
            internal_p50_us: turns.and_then(|turns| turns.at_most_us(0.5)),
            internal_p99_us: turns.and_then(|turns| turns.at_most_us(0.99)),
            passed: report.passed(),
        }
    }

    /// What is the client's and the network's, on average.
    pub(super) fn outside_us(&self) -> Option<f64> {
        let internal = self.internal_us?;
        Some((self.latency.mean - internal).max(0.0))
    }
}

/// One node under the paper's mix, at a rate that is the same for all of these, asked for the keys
/// that it owns.
#[derive(Clone, Debug, Serialize)]
pub struct Copies {
    /// Whether there are copies, and whether writes wait for them.
    pub setup: String,
    /// Operations a second.
    pub operations_per_s: f64,
    /// Of requests, from when they fell due.
    pub latency: Latency,
    /// Of writes.
    pub write_latency: Latency,
    /// Microseconds of the node's CPU time for an operation.
    pub cpu_us: Option<f64>,
    /// That beside the node's without copies: the median of the slices' ratios.
    pub cpu_ratio: Option<f64>,
    /// The 99th percentile, likewise.
    pub p99_ratio: Option<f64>,
    /// As of a point.
    pub passed: bool,
}

impl Copies {
    pub(super) fn new(setup: &str, report: &ServerReport, ratios: Option<&Ratios>) -> Copies {
        Copies {
            setup: setup.to_owned(),
            operations_per_s: report.operations_per_s,
            latency: report.latency,
            write_latency: report.write_latency,
            cpu_us: report.cpu_us,
            cpu_ratio: ratios.and_then(|ratios| ratios.cpu_us),
            p99_ratio: ratios.and_then(|ratios| ratios.p99),
            passed: report.passed(),
        }
    }
}

/// What the machine's processors took while a server was loaded.
#[derive(Clone, Debug, Serialize)]
pub struct Energy {
    /// Which server.
    pub server: String,
    /// Joules of all processors, the load's included.
    pub joules: f64,
    /// Operations in that time.
    pub operations: u64,
}

impl KvReport {
    pub(super) fn new(options: &ReproduceOptions) -> KvReport {
        KvReport {
            machine: options.machine.clone(),
            processors: String::new(),
            commit: options.commit.clone(),
            has_memcached: options.memcached.is_some(),
            command: options.command.clone(),
            seconds: options.duration.as_secs_f64(),
            loopback_gbit_s: 0.0,
            points: Vec::new(),
            responses: Vec::new(),
            copies: Vec::new(),
            energy: Vec::new(),
            claims: Vec::new(),
            verdicts: Verdicts::default(),
        }
    }

    /// Whether every value was right and every request answered.
    #[must_use]
    pub fn passed(&self) -> bool {
        let servers = self.points.iter().flat_map(|point| &point.servers);
        let points = servers.map(|server| server.passed);
        points
            .chain(self.responses.iter().map(|response| response.passed))
            .chain(self.copies.iter().map(|copies| copies.passed))
            .all(|is| is)
    }

    /// The points of a chart.
    pub(super) fn of_chart<'a>(&'a self, chart: &'a str) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(move |point| point.chart == chart)
    }
}
