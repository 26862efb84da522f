//! How to serve: what a server's owner decides.

use crate::admin_tls::AdminTls;
use crate::drain::{DrainOptions, FINISH_MAX};
use crate::flight::asker::ClientsBy;
use crate::flight::cohorts::CohortBytes;
use crate::intake::https::HTTP2;
use crate::trace::WatchOptions;
use rhythm_cohort::{Formation, Policy};
use rhythm_engine::program::Service;
use rhythm_engine::session::{Millis, SessionRules, SignInRules};
use rhythm_engine::settings::{
    AccessLogFormat, CohortPolicy, Limits, ListenAt, RequestIds, ServerSettings, ServiceConfig,
    SessionSettings,
};
use rhythm_http::ClientLimits;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where clients connect; with port 0 a free one is chosen.
    pub listen: Vec<ListenAt>,
    /// Where those connect that speak TLS.
    pub tls_listen: Vec<ListenAt>,
    /// Permissions of Unix sockets.
    pub socket_mode: u32,
    /// Where health, metrics and configuration are told, if anywhere.
    pub admin: Option<ListenAt>,
    /// More names by which the admin listener may be asked, in lower case.
    pub admin_hosts: Vec<String>,
    /// How TLS is spoken there, if it is.
    pub admin_tls: AdminTls,
    /// The folder below which an ACME client puts its answers to an authority's challenges.
    pub acme_webroot: Option<PathBuf>,
    /// What clients may do that speak HTTP/2.
    pub http2: rhythm_http2::Options,
    /// Clients that may wait to be let in by each worker.
    pub backlog: u32,
    /// Threads, each with its own event loop; at least 1.
    pub workers: usize,
    /// Keep each worker on a core of its own.
    pub pin: bool,
    /// For how long after something came each worker looks for more before it sleeps.
    pub busy_poll: Duration,
    /// Bounds of each worker's pipeline.
    pub pipeline: PipelineOptions,
    /// Most memory of the host that each worker's device has for what goes to it and comes back,
    /// in bytes; none where it works in the cohorts themselves.
    pub device_buffer_bytes_max: usize,
    /// Connections of clients at a time, shared out evenly to the workers.
    pub connections_max: usize,
    /// Connections of one address at a time, if they are bounded.
    pub connections_per_address_max: Option<NonZeroU32>,
    /// For each service, how many sessions there are, and for how long.
    pub sessions: Vec<SessionRules>,
    /// For each service, how often users may sign in, and fail to.
    pub sign_ins: Vec<SignInRules>,
    /// A reload may bring sites that ask backends, or what is proxied to, over TLS, whether those
    /// before do or not.
    pub may_ask_tls: bool,
    /// How a shutdown goes.
    pub drain: DrainOptions,
    /// How long a server whose workers have ended waits for its log to be written and its spans to
    /// be exported: for both together.
    pub finish: Duration,
    /// The access log's format.
    pub log_format: AccessLogFormat,
}

/// The numbers that bound a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    /// Contexts of cohorts that form or run, at least 1.
    pub contexts: usize,
    /// Contexts beside these for cohorts that wait for a backend.
    pub waiting: usize,
    /// When cohorts are launched, and how large they get.
    pub formation: Formation,
    /// What cohorts may take.
    pub cohort_bytes: CohortBytes,
    /// Limits of clients' connections.
    pub clients: ClientLimits,
    /// What tells clients without a session apart.
    pub clients_by: ClientsBy,
    /// What is told of single requests.
    pub watch: WatchOptions,
}

impl ServerOptions {
    /// What a service's settings say.
    pub fn of(service: &Service) -> ServerOptions {
        ServerOptions::of_all(&[service])
    }

    /// What the settings of services say that are served together: what is the whole server's is
    /// the same in all ([`ServiceConfig::agree`]).
    ///
    /// # Panics
    /// Where there is none.
    pub fn of_all(services: &[&Service]) -> ServerOptions {
        let ServiceConfig {
            server,
            cohort,
            limits,
            trace,
            ..
        } = &services[0].config;
        let sessions = || services.iter().map(|service| &service.config.session);
        let pages: usize = services.iter().map(|service| service.pages.len()).sum();
        let formation = Formation {
            policy: match cohort.policy {
                CohortPolicy::WorkConserving => Policy::WorkConserving,
                CohortPolicy::Fixed => Policy::Fixed,
            },
            lanes_max: cohort.size as usize,
            delay: cohort.delay,
        };
        let contexts = match cohort.contexts_max {
            Some(contexts) => contexts.get() as usize,
            // Each page can form a cohort while others are under way.
            None => (2 * pages).max(CONTEXTS_MIN),
        };
        let waiting = waiting_contexts(services, contexts);
        let clients_by = clients_by(sessions(), limits);
        let workers = match server.workers {
            Some(workers) => workers.get() as usize,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        ServerOptions {
            listen: server.listen.clone(),
            tls_listen: server.tls_listen.clone().unwrap_or_default(),
            socket_mode: server.socket_mode(),
            admin: server.admin.clone(),
            admin_hosts: (server.admin_hosts.split_ascii_whitespace())
                .map(str::to_owned)
                .collect(),
            admin_tls: AdminTls {
                certificate: server.admin_certificate.clone(),
                key: server.admin_key.clone(),
                client_ca: server.admin_client_ca.clone(),
            },
            acme_webroot: server.acme_webroot.clone(),
            backlog: server.backlog,
            workers,
            http2: http2_options(server, limits, workers, clients_by),
            pin: server.pin,
            busy_poll: server.busy_poll,
            pipeline: PipelineOptions {
                contexts,
                waiting,
                formation,
                cohort_bytes: CohortBytes {
                    arena_max: cohort.arena_bytes_max as usize,
                    first_part: FIRST_PART * contexts / (contexts + waiting),
                    common_max: cohort.common_bytes_max as usize,
                },
                clients: client_limits(limits),
                clients_by,
                watch: WatchOptions {
                    slow_request: server.slow_request,
                    ids: server.request_ids != RequestIds::Off,
                    answers_ids: server.request_ids == RequestIds::Answered,
                    traces: trace.collector().is_some(),
                    share: trace.share(),
                    // It was read as such.
                    trusted: server.trusted_proxies.parse().unwrap_or_default(),
                },
            },
            device_buffer_bytes_max: 0,
            connections_max: limits.connections_max as usize,
            connections_per_address_max: limits.connections_per_address_max,
            sessions: sessions().map(session_rules).collect(),
            sign_ins: sessions().map(sign_in_rules).collect(),
            may_ask_tls: false,
            drain: DrainOptions {
                delay: server.drain_delay,
                grace: server.drain_grace,
                timeout: server.drain_timeout,
            },
            finish: FINISH_MAX,
            log_format: server.access_log_format,
        }
    }
}

/// What settings say of clients that speak HTTP/2.
fn http2_options(
    server: &ServerSettings,
    limits: &Limits,
    workers: usize,
    clients_by: ClientsBy,
) -> rhythm_http2::Options {
    let all = limits.connections_max as usize;
    rhythm_http2::Options {
        is_on: server.http2,
        role: HTTP2,
        head_bytes_max: limits.head_bytes_max,
        streams_max: limits.http2_streams_max,
        all_streams_max: all.div_ceil(workers.max(1)),
        client: match clients_by {
            ClientsBy::Address => |client, id| ClientsBy::Address.number(client, id),
            ClientsBy::Connection => |client, id| ClientsBy::Connection.number(client, id),
        },
        idle: limits.idle_timeout,
        farewell: FAREWELL,
        yield_after: YIELD_AFTER,
        stall: limits.send_timeout,
    }
}

/// How many contexts there are beside so many for cohorts that wait for a backend: with these, one
/// is there for each call of a page, one is free for them to come together in, and some are left.
fn waiting_contexts(services: &[&Service], contexts: usize) -> usize {
    let pages = services.iter().flat_map(|service| &service.pages);
    let stages = pages.flat_map(|page| &page.stages);
    let calls = stages.filter(|stage| stage.call.is_some()).count();
    let all = calls + 1 + contexts.min(CONTEXTS_LEFT);
    all.saturating_sub(contexts)
}

/// Contexts that are left when cohorts wait for all calls that there are.
const CONTEXTS_LEFT: usize = 4;

/// Bytes that are always there for a context: what most cohorts need. Contexts for those that wait
/// take their part of it.
const FIRST_PART: usize = 4 << 20;

/// Fewest contexts of a worker: enough to keep a device busy and wait for backends meanwhile.
const CONTEXTS_MIN: usize = 16;

/// What settings say of sessions.
pub(crate) fn session_rules(session: &SessionSettings) -> SessionRules {
    SessionRules {
        capacity: session.sessions_max,
        idle_timeout: millis(session.idle_timeout),
        unused_timeout: millis(session.unused_timeout),
        per_user_max: session.per_user_max,
        is_shared: !session.store.is_empty(),
        reserve: match session.reserve {
            Some(reserve) => reserve.get(),
            None => session.sessions_max / RESERVE_SHARE,
        },
    }
}

/// What settings say of signing in.
fn sign_in_rules(session: &SessionSettings) -> SignInRules {
    SignInRules {
        per_user_max: session.sign_ins_per_user_max,
        failed_per_address_max: session.failed_sign_ins_per_address_max,
        window: millis(session.sign_in_window),
    }
}

/// The part of all sessions that is for users who have none, where settings do not say.
const RESERVE_SHARE: u32 = 16;

fn millis(time: Duration) -> Millis {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What settings say of addresses: where none bounds what comes from one, it may be a proxy's.
fn clients_by<'a>(
    mut sessions: impl Iterator<Item = &'a SessionSettings>,
    limits: &Limits,
) -> ClientsBy {
    let of_sign_ins = sessions.any(|it| it.failed_sign_ins_per_address_max.is_some());
    match of_sign_ins || limits.connections_per_address_max.is_some() {
        false => ClientsBy::Connection,
        true => ClientsBy::Address,
    }
}

/// For how long a client of HTTP/2 that is told to begin nothing more may be silent.
const FAREWELL: Duration = Duration::from_millis(500);

/// For how long a client that asks for nothing has its place at least, where others wait for one.
const YIELD_AFTER: Duration = Duration::from_secs(1);

/// What a service's settings say of clients' connections.
fn client_limits(limits: &Limits) -> ClientLimits {
    ClientLimits {
        header_timeout: limits.header_timeout,
        body_timeout: limits.body_timeout,
        idle_timeout: limits.idle_timeout,
        yield_after: YIELD_AFTER,
        send_timeout: limits.send_timeout,
        requests_max: limits.requests_per_connection_max,
        pipelined_max: limits.pipelined_max,
        unsent_max: limits.unsent_bytes_max as usize,
        held_max: limits.worker_bytes_max as usize,
        rate_min: u64::from(limits.rate_bytes_min),
    }
}
