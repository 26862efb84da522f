//! What a pipeline is made of and what bounds it.

use crate::answer::response::Random;
use crate::flight::backends::BackendFactory;
use crate::flight::link::DeviceLink;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::WorkerMetrics;
use crate::site::Site;
use rhythm_cohort::Formation;
use rhythm_engine::session::SessionArray;
use rhythm_http::{ClientLimits, Host};
use rhythm_net::Time;
use std::sync::Arc;

/// The numbers that bound a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOptions {
    /// Cohort contexts, at least 1.
    pub contexts: usize,
    /// When cohorts are launched, and how large they get.
    pub formation: Formation,
    /// Most bytes of a cohort's texts.
    pub arena_bytes_max: usize,
    /// Limits of clients' connections.
    pub clients: ClientLimits,
}

/// All that a pipeline depends on.
pub struct PipelineParts {
    /// What is served.
    pub site: Arc<Site>,
    /// What runs the pages' stages: an executor, or the way to one.
    pub device: Box<dyn DeviceLink>,
    /// Where the pages' data comes from.
    pub backends: BackendFactory,
    /// What answers without cohorts, by the names that the site's routes have for it.
    pub hosts: Vec<(String, Box<dyn Host>)>,
    /// Who is logged in; shared with the other pipelines.
    pub sessions: Arc<SessionArray>,
    /// 128 bits that nobody can predict, for session ids.
    pub random: Random,
    /// Where it counts.
    pub metrics: Arc<WorkerMetrics>,
    /// The access log, if there is one.
    pub log: Option<LogSink>,
    /// The time at which it begins.
    pub now: Time,
}
