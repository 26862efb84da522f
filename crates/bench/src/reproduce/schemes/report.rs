//! What came of it, as data.

use super::setup::Setup;
use crate::load::Latency;
use crate::median::median;
use crate::memcached::{OLDER, ServerReport};
use crate::reproduce::options::ReproduceOptions;
use serde::Serialize;
use std::collections::BTreeMap;

/// Writes wait for nothing.
pub(super) const ASYNC: &str = "async";

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct SchemesReport {
    /// The machine.
    pub machine: String,
    /// Which processors did what.
    pub processors: String,
    /// The commit and version that were measured.
    pub commit: String,
    /// The command line that did it.
    pub command: String,
    /// Seconds for which each cluster was measured under each load.
    pub seconds: f64,
    /// Each scheme.
    pub schemes: Vec<SchemeReport>,
}

/// A scheme.
#[derive(Clone, Debug, Serialize)]
pub struct SchemeReport {
    /// What it is called.
    pub scheme: String,
    /// What a write waits for: `async` nothing, `acked` the copies, or most disks.
    pub replicate: String,
    /// Of reads, one at a time a client.
    pub read_latency: Latency,
    /// Of writes, likewise.
    pub write_latency: Latency,
    /// Operations a second, likewise.
    pub operations_per_s: f64,
    /// The same with 16 requests of each client under way.
    pub deep_operations_per_s: f64,
    /// Bytes that nodes send each other for a write.
    pub bytes_per_write: Option<f64>,
    /// Bytes that nodes send each other for a read.
    pub bytes_per_read: Option<f64>,
    /// The node that is killed.
    pub victim: String,
    /// What became of it each time.
    pub deaths: Vec<Death>,
    /// Reads that found something older than what was confirmed before, while nobody died: copies
    /// that no write waits for may be behind.
    pub old_reads: u64,
    /// What else was not right while nobody died: values that are not what must come, and requests
    /// that got no answer, or one that refuses them, by kind.
    pub faults: BTreeMap<String, u64>,
}

/// A node died.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Death {
    /// Writes that were confirmed, before and after.
    pub confirmed: usize,
    /// Of these, those that are not there when it is over.
    pub lost: usize,
    /// The longest that a write waited until it was confirmed, in milliseconds.
    pub write_wait_ms: f64,
    /// The longest that a read waited for an answer, in milliseconds.
    pub read_wait_ms: f64,
}

impl SchemeReport {
    pub(super) fn new(setup: &Setup, times: &ServerReport, rates: &ServerReport) -> SchemeReport {
        let both = [times, rates];
        let old = |report: &&ServerReport| report.wrong.get(OLDER).map_or(0, |wrong| wrong.count);
        let mut faults = BTreeMap::new();
        for report in both {
            let wrong = report.wrong.iter().map(|(kind, wrong)| (kind, wrong.count));
            let wrong = wrong.filter(|(kind, _)| *kind != OLDER || setup.replicate != ASYNC);
            let errors = report.errors.iter().map(|(kind, count)| (kind, *count));
            for (kind, count) in wrong.chain(errors) {
                *faults.entry(kind.clone()).or_default() += count;
            }
        }
        SchemeReport {
            scheme: setup.scheme.to_owned(),
            replicate: setup.replicate.to_owned(),
            read_latency: times.read_latency,
            write_latency: times.write_latency,
            operations_per_s: times.operations_per_s,
            deep_operations_per_s: rates.operations_per_s,
            bytes_per_write: None,
            bytes_per_read: None,
            victim: setup.victim.to_owned(),
            deaths: Vec::new(),
            old_reads: both.iter().map(old).sum(),
            faults,
        }
    }

    /// What it is called, and what a write waits for.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.scheme, self.replicate)
    }

    /// Writes that were confirmed, and of these those that were lost, whenever a node died.
    pub(super) fn lost(&self) -> (usize, usize) {
        let sum = |of: fn(&Death) -> usize| self.deaths.iter().map(of).sum();
        (sum(|death| death.confirmed), sum(|death| death.lost))
    }

    /// The middle one of what each death says.
    pub(super) fn middle(&self, of: fn(&Death) -> f64) -> Option<f64> {
        median(self.deaths.iter().map(of))
    }
}

impl SchemesReport {
    pub(super) fn new(
        options: &ReproduceOptions,
        processors: String,
        schemes: Vec<SchemeReport>,
    ) -> SchemesReport {
        SchemesReport {
            machine: options.machine.clone(),
            processors,
            commit: options.commit.clone(),
            command: options.command.clone(),
            seconds: options.duration.as_secs_f64(),
            schemes,
        }
    }

    /// Whether every value was right and every request answered, and nothing was lost of what a
    /// scheme promises to keep.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.schemes.iter().all(|scheme| {
            let (confirmed, lost) = scheme.lost();
            scheme.faults.is_empty() && confirmed > 0 && (lost == 0 || scheme.replicate == ASYNC)
        })
    }
}
