//! The most memory that a server's settings let it take, part by part.
//!
//! This is the one place where the sum is made: `/config` and `rhythm check --print settings` show
//! it, and docs/settings.md, *Memory*, says what each part is and what is left out.

use super::options::{ServerOptions, session_rules};
use crate::backend::query_bytes_max;
use crate::flight::lane_requests::WATCH_BYTES;
use crate::observe::access_log;
use crate::proxy;
use crate::site::Sites;
use crate::site::lengths::Lengths;
use crate::site::statics::{READ_BYTES_MAX, Statics};
use crate::trace;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;
use rhythm_engine::session::{SignIns, StoredFields};
use rhythm_http::Clients;
use rhythm_http2::{CARRIER_BYTES, UPLOAD_BYTES};
use rhythm_net::DriverOptions;
use std::collections::HashSet;

/// A server's most memory, and what it is reckoned from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Threads with an event loop.
    pub workers: usize,
    /// Cohorts of all of them that form or run.
    pub contexts: usize,
    /// Requests in these.
    pub lanes: usize,
    /// Connections of clients.
    pub connections: usize,
    /// The most of each part, in bytes, by its name.
    pub parts: [(&'static str, usize); 14],
}

impl Memory {
    /// That of a service which is served as these options say, with these static files.
    pub fn of(service: &Service, options: &ServerOptions, statics: &Statics) -> Memory {
        Memory::of_all(&[(service, statics)], options)
    }

    /// That of all sites of a server.
    pub(crate) fn of_sites(sites: &Sites, options: &ServerOptions) -> Memory {
        let all = sites.all().iter();
        let all: Vec<_> = all.map(|site| (&*site.service, &site.statics)).collect();
        Memory::of_all(&all, options)
    }

    /// That of services which are served together as these options say, each with its static files.
    ///
    /// # Panics
    /// Where there is none.
    pub fn of_all(services: &[(&Service, &Statics)], options: &ServerOptions) -> Memory {
        let of_each = |bytes: fn(&Service, &Statics) -> usize| {
            let each = services
                .iter()
                .map(|(service, statics)| bytes(service, statics));
            each.fold(0, usize::saturating_add)
        };
        let volumes: HashSet<u64> = (services.iter())
            .flat_map(|(_, statics)| statics.volumes())
            .collect();
        // They are the whole server's.
        let limits = &services[0].0.config.limits;
        let workers = options.workers.max(1);
        let all_contexts = sum([options.pipeline.contexts, options.pipeline.waiting]);
        let contexts = product([workers, options.pipeline.contexts]);
        let lanes = product([contexts, options.pipeline.formation.lanes_max]);
        let connections = options.connections_max;
        let head = limits.head_bytes_max as usize;
        let response = limits.response_bytes_max as usize;
        let receive = DriverOptions::default().receive_bytes;
        // The request and the answers of the one connection that is at hand.
        let at_hand = [
            head,
            product([2, limits.body_bytes_max as usize]),
            receive,
            limits.unsent_bytes_max as usize,
            response,
        ];
        let parts = [
            (
                "sessions",
                of_each(|service, _| {
                    let session = &service.config.session;
                    sum([
                        session_rules(session).bytes(),
                        StoredFields::bytes(&session.stored(), session.sessions_max as usize),
                        SignIns::BYTES,
                    ])
                }),
            ),
            ("static_files", of_each(|_, statics| statics.bytes())),
            (
                "file_pieces",
                match volumes.len() {
                    0 => 0,
                    volumes => product([workers, 1 + volumes, READ_BYTES_MAX]),
                },
            ),
            (
                "connections",
                product([connections, Clients::CONNECTION_BYTES]),
            ),
            (
                "tls",
                // Sockets that are passed to the server may be for TLS, too.
                match options.tls_listen.is_empty()
                    && !(services.iter())
                        .any(|(service, _)| service.config.tls.certificate.is_some())
                {
                    true => 0,
                    false => product([connections, rhythm_net::tls::CONNECTION_BYTES]),
                },
            ),
            (
                "http2",
                match options.http2.is_on {
                    // Each stream is a connection to what is behind, or waits with its head, whose
                    // fields may be many and short.
                    true => sum([
                        product([
                            connections,
                            sum([CARRIER_BYTES, Clients::CONNECTION_BYTES, product([6, head])]),
                        ]),
                        product([workers, UPLOAD_BYTES]),
                    ]),
                    false => 0,
                },
            ),
            (
                "held_by_connections",
                product([
                    workers,
                    sum([limits.worker_bytes_max as usize, sum(at_hand)]),
                ]),
            ),
            (
                "worker_buffers",
                product([
                    workers,
                    sum([
                        receive,
                        Clients::OUTBOX_BYTES,
                        Lengths::BYTES,
                        product([2, response]),
                    ]),
                ]),
            ),
            (
                "cohorts",
                product([
                    workers,
                    (options.pipeline.cohort_bytes).most(all_contexts, LaneLimits::of(limits)),
                ]),
            ),
            (
                "device_buffers",
                product([workers, options.device_buffer_bytes_max]),
            ),
            (
                "backend_queries",
                product([
                    workers,
                    of_each(|service, _| {
                        let each = service.backends.iter().map(query_bytes_max);
                        each.fold(0, usize::saturating_add)
                    }),
                ]),
            ),
            (
                "proxy",
                product([
                    workers,
                    of_each(|service, _| proxy::bytes_max(&service.config, &service.proxies)),
                ]),
            ),
            ("single_requests", single_requests(options, all_contexts)),
            (
                "access_log",
                access_log::bytes_max(options.log_format, workers, head),
            ),
        ];
        Memory {
            workers,
            contexts,
            lanes,
            connections,
            parts,
        }
    }

    /// All parts together.
    pub fn sum(&self) -> usize {
        sum(self.parts.map(|(_, bytes)| bytes))
    }
}

/// Bytes for what is told of single requests.
fn single_requests(options: &ServerOptions, contexts: usize) -> usize {
    let (watch, workers) = (&options.pipeline.watch, options.workers.max(1));
    let lanes = product([workers, contexts, options.pipeline.formation.lanes_max]);
    let is_any = watch.traces || watch.ids || watch.slow_request.is_some();
    let of_lanes = if is_any {
        product([lanes, WATCH_BYTES])
    } else {
        0
    };
    let spans = if watch.traces {
        trace::bytes_max(workers)
    } else {
        0
    };
    sum([of_lanes, spans])
}

fn product<const N: usize>(factors: [usize; N]) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}

fn sum<const N: usize>(parts: [usize; N]) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}
