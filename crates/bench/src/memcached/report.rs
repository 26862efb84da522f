//! What a run found out: of each slice of each server, of each server, and beside each other.

mod text;

use super::options::MemcachedOptions;
use crate::load::{Latency, entry, latency_histogram, nanos};
use crate::median::median;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first bucket of a histogram that is told, in nanoseconds, and how they grow.
const BUCKET_FIRST: u64 = 1024;
const BUCKET_GROWS: f64 = 1.1;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct MemcachedReport {
    /// How the servers were loaded.
    pub options: MemcachedOptions,
    /// Each server, in the order of the URL.
    pub servers: Vec<ServerReport>,
    /// Of each server but the first: what it does in proportion to the first.
    pub ratios: Vec<Ratios>,
}

/// A server in a report. What is measured is the median over its slices, but for what is said to
/// be a sum.
#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    /// Where it is.
    pub server: String,
    /// What it says it is.
    pub version: String,
    /// Operations a second: keys asked for, and writes.
    pub operations_per_s: f64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Of all requests.
    pub latency: Latency,
    /// Of those that ask for keys.
    pub read_latency: Latency,
    /// Of those that write.
    pub write_latency: Latency,
    /// The server's CPU time for an operation, in microseconds, if its process is known.
    pub cpu_us: Option<f64>,
    /// Sum: keys asked for that were there.
    pub hits: u64,
    /// Sum: keys asked for that were not there.
    pub misses: u64,
    /// Sum: writes.
    pub writes: u64,
    /// Sum: connections opened, the filling's included.
    pub connections: u64,
    /// Sum: requests by datagram that got no answer, or not a whole one.
    pub lost: u64,
    /// Sum: parts of answers by datagram that came when nobody awaited them any more.
    pub late: u64,
    /// Sum: requests of an open loop that were due and found no client free until the end. They
    /// are among those whose latency is told: what they had waited until then.
    pub never_sent: u64,
    /// Sum: values that are not what must come, by what is wrong.
    pub wrong: BTreeMap<String, Wrong>,
    /// Sum: requests that got no answer, or one that refuses them, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Sum: how long requests took that ask for keys.
    pub read_histogram: Vec<Bucket>,
    /// Sum: how long requests took that write.
    pub write_histogram: Vec<Bucket>,
    /// Its slices, in time.
    pub slices: Vec<Slice>,
}

/// Requests that took about as long: a bucket of a histogram, of those with any.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// They took no longer than so many microseconds, and longer than an eleventh less.
    pub until: f64,
    /// How many.
    pub count: u64,
}

impl Bucket {
    fn all(of: &Histogram<u64>) -> Vec<Bucket> {
        let buckets = of.iter_log(BUCKET_FIRST, BUCKET_GROWS).map(|step| Bucket {
            until: step.value_iterated_to() as f64 / 1e3,
            count: step.count_since_last_iteration(),
        });
        buckets.filter(|bucket| bucket.count > 0).collect()
    }
}

/// Values that are wrong in the same way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wrong {
    /// How many.
    pub count: u64,
    /// The key of the first.
    pub key: String,
}

/// One slice of a server's time.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// Operations a second.
    pub operations_per_s: f64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Of all requests.
    pub latency: Latency,
    /// Of those that ask for keys.
    pub read_latency: Latency,
    /// Of those that write.
    pub write_latency: Latency,
    /// The server's CPU time for an operation, in microseconds.
    pub cpu_us: Option<f64>,
}

/// A server in proportion to the first: the median over the slices that follow each other.
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    /// Where it is.
    pub server: String,
    /// More is better.
    pub operations_per_s: Option<f64>,
    /// Less is better, as of all that follows.
    pub p50: Option<f64>,
    /// See [`Latency`].
    pub p99: Option<f64>,
    /// See [`Latency`].
    pub p999: Option<f64>,
    /// CPU time for an operation.
    pub cpu_us: Option<f64>,
}

impl ServerReport {
    /// Whether every value was right and every request answered (but for lost datagrams), and there
    /// were any.
    #[must_use]
    pub fn passed(&self) -> bool {
        let answered = self.hits + self.misses + self.writes;
        answered > 0 && self.wrong.is_empty() && self.errors.is_empty()
    }
}

impl MemcachedReport {
    /// Whether every server did what it must.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.servers.iter().all(ServerReport::passed)
    }

    pub(super) fn new(options: MemcachedOptions, servers: Vec<ServerReport>) -> MemcachedReport {
        let beside = |first: &ServerReport, other: &ServerReport| {
            let ratio = |of: &dyn Fn(&Slice) -> Option<f64>| {
                let pairs = first.slices.iter().zip(&other.slices);
                median(pairs.filter_map(|(first, other)| {
                    let (first, other) = (of(first)?, of(other)?);
                    (first > 0.0).then_some(other / first)
                }))
            };
            Ratios {
                server: other.server.clone(),
                operations_per_s: ratio(&|slice| Some(slice.operations_per_s)),
                p50: ratio(&|slice| Some(slice.latency.p50)),
                p99: ratio(&|slice| Some(slice.latency.p99)),
                p999: ratio(&|slice| Some(slice.latency.p999)),
                cpu_us: ratio(&|slice| slice.cpu_us),
            }
        };
        let ratios = match servers.split_first() {
            Some((first, others)) => others.iter().map(|other| beside(first, other)).collect(),
            None => Vec::new(),
        };
        MemcachedReport {
            options,
            servers,
            ratios,
        }
    }
}

/// What a worker counts in a slice, and what a server's workers and slices add up to.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    read: Histogram<u64>,
    write: Histogram<u64>,
    hits: u64,
    misses: u64,
    writes: u64,
    pub(super) connections: u64,
    lost: u64,
    late: u64,
    never_sent: u64,
    wrong: BTreeMap<String, Wrong>,
    errors: BTreeMap<String, u64>,
}

impl Counts {
    pub(super) fn new() -> Counts {
        Counts {
            read: latency_histogram(),
            write: latency_histogram(),
            hits: 0,
            misses: 0,
            writes: 0,
            connections: 0,
            lost: 0,
            late: 0,
            never_sent: 0,
            wrong: BTreeMap::new(),
            errors: BTreeMap::new(),
        }
    }

    /// So many keys were asked for in one request, and so many were there.
    pub(super) fn read(&mut self, keys: usize, hits: usize, took: Duration) {
        self.hits += hits as u64;
        self.misses += keys.saturating_sub(hits) as u64;
        self.read.saturating_record(nanos(took));
    }

    pub(super) fn written(&mut self, took: Duration) {
        self.writes += 1;
        self.write.saturating_record(nanos(took));
    }

    /// A request was due so long before the end, and no client was free.
    pub(super) fn never_sent(&mut self, is_write: bool, waited: Duration) {
        self.never_sent += 1;
        let of = if is_write {
            &mut self.write
        } else {
            &mut self.read
        };
        of.saturating_record(nanos(waited));
    }

    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    pub(super) fn late(&mut self) {
        self.late += 1;
    }

    pub(super) fn error(&mut self, kind: &str) {
        *entry(&mut self.errors, kind) += 1;
    }

    /// How many there were.
    pub(super) fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    pub(super) fn wrong(&mut self, kind: &str, key: &[u8]) {
        let wrong = entry(&mut self.wrong, kind);
        if wrong.count == 0 {
            wrong.key = String::from_utf8_lossy(key).into_owned();
        }
        wrong.count += 1;
    }

    /// Adds what counts for the whole run, but for latencies.
    fn add_sums(&mut self, other: &Counts) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.writes += other.writes;
        self.connections += other.connections;
        self.lost += other.lost;
        self.late += other.late;
        self.never_sent += other.never_sent;
        for (kind, wrong) in &other.wrong {
            let sum = entry(&mut self.wrong, kind);
            if sum.count == 0 {
                sum.key.clone_from(&wrong.key);
            }
            sum.count += wrong.count;
        }
        for (kind, count) in &other.errors {
            *entry(&mut self.errors, kind) += count;
        }
    }

    pub(super) fn add(&mut self, other: &Counts) {
        self.add_sums(other);
        for (sum, more) in [
            (&mut self.read, &other.read),
            (&mut self.write, &other.write),
        ] {
            sum.add(more).expect("all have the same bounds");
        }
    }

    /// Requests that were answered.
    fn answered(&self) -> u64 {
        self.read.len() + self.write.len() - self.never_sent
    }

    /// A slice of this length, in which the server took so much CPU time.
    fn slice(&self, measured: Duration, cpu: Option<Duration>) -> Slice {
        let operations = self.hits + self.misses + self.writes;
        let seconds = measured.as_secs_f64().max(f64::MIN_POSITIVE);
        let answered = self.answered();
        let mut all = self.read.clone();
        all.add(&self.write).expect("all have the same bounds");
        let cpu = cpu.filter(|_| operations > 0);
        Slice {
            operations_per_s: operations as f64 / seconds,
            requests_per_s: answered as f64 / seconds,
            latency: Latency::of(&all),
            read_latency: Latency::of(&self.read),
            write_latency: Latency::of(&self.write),
            cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / operations as f64),
        }
    }
}

/// A server's slices as they come.
#[derive(Debug)]
pub(super) struct Tally {
    sums: Counts,
    slices: Vec<Slice>,
}

impl Tally {
    /// After the server was filled.
    pub(super) fn new(filling: &Counts) -> Tally {
        let mut sums = Counts::new();
        sums.add_sums(filling);
        Tally {
            sums,
            slices: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, counts: &Counts, measured: Duration, cpu: Option<Duration>) {
        self.sums.add(counts);
        if counts.lost > 0 && counts.answered() == 0 {
            // Some are lost on any network; a server that answers none does not serve.
            self.sums.error("a slice in which no datagram was answered");
        }
        self.slices.push(counts.slice(measured, cpu));
    }

    pub(super) fn report(self, server: String, version: String) -> ServerReport {
        let Tally { sums, slices } = self;
        let middle = |of: &dyn Fn(&Slice) -> f64| median(slices.iter().map(of)).unwrap_or(0.0);
        let latency = |of: &dyn Fn(&Slice) -> Latency| Latency {
            mean: middle(&|slice| of(slice).mean),
            p50: middle(&|slice| of(slice).p50),
            p90: middle(&|slice| of(slice).p90),
            p99: middle(&|slice| of(slice).p99),
            p999: middle(&|slice| of(slice).p999),
            max: middle(&|slice| of(slice).max),
        };
        ServerReport {
            server,
            version,
            operations_per_s: middle(&|slice| slice.operations_per_s),
            requests_per_s: middle(&|slice| slice.requests_per_s),
            latency: latency(&|slice| slice.latency),
            read_latency: latency(&|slice| slice.read_latency),
            write_latency: latency(&|slice| slice.write_latency),
            cpu_us: median(slices.iter().filter_map(|slice| slice.cpu_us)),
            hits: sums.hits,
            misses: sums.misses,
            writes: sums.writes,
            connections: sums.connections,
            lost: sums.lost,
            late: sums.late,
            never_sent: sums.never_sent,
            wrong: sums.wrong,
            errors: sums.errors,
            read_histogram: Bucket::all(&sums.read),
            write_histogram: Bucket::all(&sums.write),
            slices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(micros: u64, slices: u64) -> ServerReport {
        let mut tally = Tally::new(&Counts::new());
        for slice in 0..slices {
            let mut counts = Counts::new();
            for _ in 0..100 {
                counts.read(4, 3, Duration::from_micros(micros + slice));
            }
            counts.written(Duration::from_micros(2 * micros));
            tally.add(
                &counts,
                Duration::from_secs(2),
                Some(Duration::from_millis(micros)),
            );
        }
        tally.report("a".to_owned(), "1".to_owned())
    }

    #[test]
    fn a_servers_slices_have_a_median_and_a_sum() {
        let report = tally(100, 3);
        assert!(report.passed());
        assert_eq!((report.hits, report.misses, report.writes), (900, 300, 3));
        assert_eq!(
            (report.operations_per_s, report.requests_per_s),
            (200.5, 50.5)
        );
        assert!((report.read_latency.p50 - 101.0).abs() < 1.0);
        assert!((report.write_latency.p50 - 200.0).abs() < 1.0);
        assert!((report.cpu_us.unwrap() - 1e5 / 401.0).abs() < 1e-6);
        let [reads, writes] = [&report.read_histogram, &report.write_histogram];
        let count = |of: &[Bucket]| of.iter().map(|bucket| bucket.count).sum::<u64>();
        assert_eq!((count(reads), count(writes)), (300, 3));
        let [write] = writes[..] else {
            panic!("all took as long: {writes:?}");
        };
        assert!((200.0..220.0).contains(&write.until), "{write:?}");
        let servers = vec![report, tally(50, 3)];
        let report = MemcachedReport::new(MemcachedOptions::default(), servers);
        let ratios = &report.ratios[0];
        assert_eq!(ratios.operations_per_s, Some(1.0));
        assert!((ratios.p50.unwrap() - 0.5).abs() < 0.02);
        let text = report.to_string();
        assert!(
            text.contains("beside the first") && text.ends_with("passed"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_value_an_error_or_nothing_at_all_is_not_passed() {
        assert!(!tally(100, 0).passed());
        let mut counts = Counts::new();
        counts.read(1, 1, Duration::ZERO);
        let mut wrong = counts.clone();
        (0..3).for_each(|_| wrong.wrong("the value of another key", b"k1"));
        let mut tally = Tally::new(&wrong);
        tally.add(&wrong, Duration::from_secs(1), None);
        let report = tally.report(String::new(), String::new());
        assert!(!report.passed());
        assert_eq!(report.wrong["the value of another key"].count, 6);
        counts.error("ERROR");
        let report = Tally::new(&counts).report(String::new(), String::new());
        assert!(!report.passed() && report.errors["ERROR"] == 1);
    }

    #[test]
    fn what_was_never_sent_took_as_long_as_it_waited() {
        let mut counts = Counts::new();
        counts.read(1, 1, Duration::from_micros(10));
        counts.never_sent(true, Duration::from_secs(1));
        let slice = counts.slice(Duration::from_secs(1), None);
        assert!(slice.read_latency.max < 20.0 && slice.write_latency.p50 > 900_000.0);
        assert_eq!((slice.requests_per_s, slice.operations_per_s), (1.0, 1.0));
    }

    #[test]
    fn kinds_are_bounded() {
        let mut counts = Counts::new();
        (0..100).for_each(|kind| counts.error(&format!("kind {kind}")));
        assert_eq!(counts.errors(), 100);
        assert_eq!(counts.errors.len(), 21);
        assert_eq!(counts.errors["others"], 80);
    }
}
