//! The admin listener: health, metrics and the effective configuration, on a port of its own.
//!
//! A thread of its own drives it, so that it answers whatever the workers do.

use crate::host::config;
use crate::observe::metrics::Metrics;
use crate::options::ServerOptions;
use crate::site::current::Current;
use rhythm_http::{Answers, ClientLimits, Host, HostServer, Request, RequestLimits};
use rhythm_net::workers::{
    self, Entrance, Inbox, StartError, WorkerOptions, WorkerThread, Workers,
};
use rhythm_net::{DriverOptions, Listener, Role, clock};
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::ResponseWriter;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// A client has this long for its request and for taking the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Clients at a time.
const CONNECTIONS_MAX: usize = 64;
/// Most bytes of a request's content, which is of no interest.
const BODY_MAX: usize = 4096;

/// Answers the admin listener's clients.
#[derive(Debug)]
struct Admin<C> {
    current: Arc<Current>,
    /// Those of the workers: they tell which have ended.
    inboxes: Vec<Inbox<C>>,
    metrics: Arc<Metrics>,
    options: ServerOptions,
}

/// Starts the admin listener's thread.
///
/// # Errors
/// When the system has no resources for it.
pub(crate) fn start<C: Send + 'static>(
    listener: Listener,
    current: Arc<Current>,
    inboxes: Vec<Inbox<C>>,
    metrics: Arc<Metrics>,
    options: ServerOptions,
) -> Result<Workers<Infallible>, StartError<Infallible>> {
    let worker_options = WorkerOptions {
        name: "admin",
        driver: DriverOptions {
            connections_max: CONNECTIONS_MAX,
            ..DriverOptions::default()
        },
        ..WorkerOptions::default()
    };
    let requests = RequestLimits {
        body_max: BODY_MAX,
        ..RequestLimits::default()
    };
    let make = move |_: WorkerThread<'_, Infallible>| {
        let admin = Admin {
            current: current.clone(),
            inboxes: inboxes.clone(),
            metrics: metrics.clone(),
            options: options.clone(),
        };
        Ok(HostServer::new(
            admin,
            ClientLimits::within(TIMEOUT),
            requests,
            clock::monotonic(),
        ))
    };
    let entrances = vec![Entrance::listeners(Role::default(), vec![listener])];
    workers::start(&worker_options, entrances, make)
}

impl<C> Admin<C> {
    /// Status, content type and content.
    fn respond(&self, method: Method, path: &[u8]) -> (u16, &'static str, String) {
        const TEXT: &str = "text/plain; charset=utf-8";
        if !matches!(method, Method::Get | Method::Head) {
            return (405, TEXT, "GET or HEAD\n".to_owned());
        }
        match path {
            b"/healthz" if self.current.is_draining() => (503, TEXT, "draining\n".to_owned()),
            b"/healthz" if self.inboxes.iter().any(Inbox::has_ended) => {
                (503, TEXT, "a worker has ended\n".to_owned())
            }
            b"/healthz" => (200, TEXT, "ok\n".to_owned()),
            b"/metrics" => match self.metrics.encode() {
                Ok(text) => (
                    200,
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    text,
                ),
                Err(_) => (500, TEXT, String::new()),
            },
            b"/config" => {
                let config = config::json(
                    &self.current.config(),
                    &self.current.site(),
                    self.options.workers,
                    self.options.pipeline.contexts,
                );
                (200, "application/json", config)
            }
            _ => (404, TEXT, "/healthz, /metrics or /config\n".to_owned()),
        }
    }
}

impl<C> Host for Admin<C> {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { head, bytes, .. } = request;
        let (status, content_type, body) = self.respond(head.method(), head.path(bytes));
        let fields = |head: &mut ResponseWriter<'_>| {
            if status == 405 {
                head.allow(["GET", "HEAD"]);
            }
            head.content_type(content_type);
        };
        answers.answer(request.slot, request.shape, status, body.as_bytes(), fields);
    }
}
