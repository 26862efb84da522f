//! What can be measured by itself.

use clap::ValueEnum;

/// A part of what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// The host executor on all cores, to compare with
    Host,
    /// Parsing alone
    Parsing,
    /// Cohorts in flight together, by how many queues there are between host and device
    Queues,
    /// Requests a second of each page, and power meanwhile
    Rates,
    /// Of a cohort alone
    Latency,
    /// What each kernel takes of a cohort alone; where profilers look
    Kernels,
}
