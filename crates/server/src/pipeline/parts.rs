//! What a pipeline is made of.

use crate::answer::sessions::{Random, Visitors};
use crate::flight::backends::BackendFactory;
use crate::flight::link::DeviceLink;
use crate::host::disk::Disk;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::WorkerMetrics;
use crate::site::Sites;
use crate::trace::SpanSink;
use rhythm_http::Host;
use rhythm_net::Time;
use std::sync::Arc;

/// All that a pipeline depends on.
pub struct PipelineParts {
    /// What is served.
    pub sites: Arc<Sites>,
    /// Who visits each of them; shared with the other pipelines.
    pub visitors: Vec<Visitors>,
    /// What runs the pages' stages: an executor, or the way to one.
    pub device: Box<dyn DeviceLink>,
    /// Where the pages' data comes from.
    pub backends: BackendFactory,
    /// What answers without cohorts, by the names that the site's routes have for it.
    pub hosts: Vec<(String, Box<dyn Host>)>,
    /// What reads files that are not kept in memory.
    pub disk: Box<dyn Disk>,
    /// 128 bits that nobody can predict, for session ids.
    pub random: Random,
    /// Where it counts.
    pub metrics: Arc<WorkerMetrics>,
    /// The access log, if there is one.
    pub log: Option<LogSink>,
    /// Where spans of traces go, if anywhere.
    pub spans: Option<SpanSink>,
    /// The time at which it begins.
    pub now: Time,
}
