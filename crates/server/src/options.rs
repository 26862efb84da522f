//! How to serve: what a server's owner decides.

use crate::observe::access_log::LogFormat;
use crate::pipeline::PipelineOptions;
use rhythm_cohort::{Formation, Policy};
use rhythm_engine::program::Service;
use rhythm_engine::settings::{CohortPolicy, ServiceConfig};
use rhythm_http::ClientLimits;
use std::net::SocketAddr;
use std::time::Duration;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where clients connect; with port 0 a free one is chosen.
    pub listen: SocketAddr,
    /// Where health, metrics and configuration are told, if anywhere.
    pub admin: Option<SocketAddr>,
    /// Threads, each with its own event loop; at least 1.
    pub workers: usize,
    /// Keep each worker on a core of its own.
    pub pin: bool,
    /// Bounds of each worker's pipeline.
    pub pipeline: PipelineOptions,
    /// Connections of clients at a time, shared out evenly to the workers.
    pub connections_max: usize,
    /// Sessions at a time.
    pub sessions_max: u32,
    /// A session that is not used for so long has ended.
    pub session_idle: Duration,
    /// The longest that a shutdown waits for what is under way.
    pub drain: Duration,
    /// The access log's format.
    pub log_format: LogFormat,
}

impl ServerOptions {
    /// What a service's configuration says, listening at `listen` with one worker; no admin
    /// listener.
    pub fn of(service: &Service, listen: SocketAddr) -> ServerOptions {
        let ServiceConfig {
            session,
            cohort,
            limits,
            ..
        } = &service.config;
        let formation = Formation {
            policy: match cohort.policy {
                CohortPolicy::WorkConserving => Policy::WorkConserving,
                CohortPolicy::Fixed => Policy::Fixed,
            },
            lanes_max: cohort.size as usize,
            delay: Duration::from_nanos(cohort.delay_ns),
        };
        ServerOptions {
            listen,
            admin: None,
            workers: 1,
            pin: false,
            pipeline: PipelineOptions {
                // Each page can form a cohort while others are under way.
                contexts: (2 * service.pages.len()).max(CONTEXTS_MIN),
                formation,
                clients: ClientLimits {
                    header_timeout: Duration::from_nanos(limits.header_timeout_ns),
                    body_timeout: Duration::from_nanos(limits.body_timeout_ns),
                    idle_timeout: Duration::from_nanos(limits.idle_timeout_ns),
                    requests_max: limits.requests_per_connection,
                    ..ClientLimits::default()
                },
            },
            connections_max: limits.max_connections as usize,
            sessions_max: session.capacity,
            session_idle: Duration::from_nanos(session.idle_timeout_ns),
            drain: Duration::from_secs(10),
            log_format: LogFormat::Common,
        }
    }
}

/// Fewest contexts of a worker: enough to keep a device busy and wait for backends meanwhile.
const CONTEXTS_MIN: usize = 16;
