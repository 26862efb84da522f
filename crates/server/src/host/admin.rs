//! The admin listener: health, metrics and the effective configuration, on a port of its own.
//!
//! A thread of its own drives it, so that it answers whatever the workers do: before they begin,
//! and until they have ended. Healthy is a server that needs no new start; ready is one that is to
//! be sent requests.
//!
//! A browser on this machine may be led here by the page of anybody whose name is made to mean this
//! machine (DNS rebinding). Such a request has that name in `Host`, so names that are not known are
//! refused.

use crate::host::config;
use crate::limits::options::{ADMIN_CONNECTIONS_MAX, ServerOptions};
use crate::observe::metrics::Metrics;
use crate::site::current::Current;
use rhythm_http::{Answers, ClientLimits, Host, HostServer, Request, RequestLimits};
use rhythm_net::workers::{
    self, Entrance, Inbox, StartError, WorkerOptions, WorkerThread, Workers,
};
use rhythm_net::{DriverOptions, Listener, Role, clock};
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::ResponseWriter;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A client has this long for its request and for taking the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of a request's content, which is of no interest.
const BODY_MAX: usize = 4096;

/// The inboxes of the workers, once these serve: they tell which have ended.
pub(crate) type Started<C> = Arc<OnceLock<Vec<Inbox<C>>>>;

/// Answers the admin listener's clients.
#[derive(Debug)]
struct Admin<C> {
    current: Arc<Current>,
    workers: Started<C>,
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
    workers: Started<C>,
    metrics: Arc<Metrics>,
    options: ServerOptions,
) -> Result<Workers<Infallible>, StartError<Infallible>> {
    let worker_options = WorkerOptions {
        name: "admin",
        driver: DriverOptions {
            connections_max: ADMIN_CONNECTIONS_MAX,
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
            workers: workers.clone(),
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
    /// What a new start would mend. Of a server that drains, workers end when they have no more to
    /// do.
    fn ailment(&self) -> Option<&'static str> {
        if self.current.drain().is_some() {
            return None;
        }
        let workers = self.workers.get().map_or(&[][..], Vec::as_slice);
        let now = clock::monotonic();
        if workers.iter().any(Inbox::has_ended) {
            Some("a worker has ended\n")
        } else if workers.iter().any(|worker| worker.is_ailing(now)) {
            Some("a worker panics again and again\n")
        } else {
            None
        }
    }

    /// Why requests should go elsewhere.
    fn absence(&self) -> Option<&'static str> {
        match (self.workers.get(), self.current.drain()) {
            (_, Some(_)) => Some("draining\n"),
            (None, None) => Some("starting\n"),
            (Some(_), None) => None,
        }
    }

    /// Status, content type and content.
    fn respond(&self, host: &[u8], method: Method, path: &[u8]) -> (u16, &'static str, String) {
        const TEXT: &str = "text/plain; charset=utf-8";
        if !is_known(host, &self.options.admin_hosts) {
            let why = "Host is no address, not localhost, and not in server.admin_hosts: ask by an \
                address, or add the name there\n";
            return (421, TEXT, why.to_owned());
        }
        if !matches!(method, Method::Get | Method::Head) {
            return (405, TEXT, "GET or HEAD\n".to_owned());
        }
        match path {
            b"/healthz" => match self.ailment() {
                Some(why) => (503, TEXT, why.to_owned()),
                None => (200, TEXT, "ok\n".to_owned()),
            },
            b"/readyz" => match self.ailment().or_else(|| self.absence()) {
                Some(why) => (503, TEXT, why.to_owned()),
                None => (200, TEXT, "ok\n".to_owned()),
            },
            b"/metrics" => match self.metrics.encode() {
                Ok(text) => (
                    200,
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    text,
                ),
                Err(_) => (500, TEXT, String::new()),
            },
            b"/config" => {
                let config =
                    config::json(&self.current.config(), &self.current.site(), &self.options);
                (200, "application/json", config)
            }
            _ => (
                404,
                TEXT,
                "/healthz, /readyz, /metrics or /config\n".to_owned(),
            ),
        }
    }
}

impl<C> Host for Admin<C> {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { head, bytes, .. } = request;
        let (status, content_type, body) =
            self.respond(head.host().of(bytes), head.method(), head.path(bytes));
        let fields = |head: &mut ResponseWriter<'_>| {
            if status == 405 {
                head.allow(["GET", "HEAD"]);
            }
            head.content_type(content_type);
        };
        answers.answer(request.slot, request.shape, status, body.as_bytes(), fields);
    }
}

/// Whether this is the host of a request by somebody who means this machine: no name, or one that
/// nobody else can give it.
fn is_known(host: &[u8], names: &[String]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let in_brackets = (name.strip_prefix('[')).and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = in_brackets {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_name = |known: &str| known.eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name));
    name.is_empty()
        || matches!(name.parse(), Ok(IpAddr::V4(_)))
        || is_name("localhost")
        || names.iter().any(|known| is_name(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_neither_address_nor_known_name_is_refused() {
        let names = ["admin.bank.example".to_owned()];
        for (host, known) in [
            ("", true),
            ("127.0.0.1", true),
            ("127.0.0.1:8079", true),
            ("[::1]", true),
            ("[::1]:8079", true),
            ("localhost", true),
            ("LOCALHOST.:8079", true),
            ("Admin.bank.example:8079", true),
            ("bank.example", false),
            ("127.0.0.1.bank.example", false),
            ("localhost.bank.example:8079", false),
            ("[bank.example]", false),
            ("[::1].bank.example", false),
            ("bank.example:127.0.0.1", false),
            ("\u{e4}:80", false),
        ] {
            assert_eq!(is_known(host.as_bytes(), &names), known, "{host:?}");
        }
        assert!(!is_known(b"\xff", &names));
    }
}
