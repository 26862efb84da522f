//! The admin listener: what an operator asks a server, on a port of its own.
//!
//! A thread of its own drives it, so that it answers whatever the workers do. Its clients are few;
//! those who are silent or slow lose their places to others after a moment.
//!
//! A browser on this machine may be led here by the page of anybody whose name is made to mean this
//! machine (DNS rebinding). Such a request has that name in `Host`, so names that are not known are
//! refused.

use crate::costly::{Costly, Lasting};
#[cfg(feature = "tls")]
use crate::no_tls::NoTls;
use crate::process;
use rhythm_http::{Answers, Body, ClientLimits, Host, HostServer, Request, RequestLimits};
use rhythm_net::workers::{
    self, Entrance, Inbox, StartError, WorkerOptions, WorkerThread, Workers,
};
use rhythm_net::{DriverOptions, Listener, Role, Time, clock};
#[cfg(feature = "tls")]
use rhythm_net::{
    Layer,
    tls::{Acceptor, Tls},
};
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Clients at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// A client has this long for its request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// And this long for taking an answer, beside what its bytes take at such a rate: whoever asks and
/// does not read keeps a place from those who look whether all is well.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
const RATE_MIN: u64 = 256 << 10;
/// Requests after which a connection ends, so that who asks again and again without a pause keeps
/// nobody out: with the pause after which others get its place, it had that for less than a second.
const REQUESTS_MAX: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// Most bytes of a request's content, which is of no interest.
const BODY_MAX: usize = 4096;

/// A server that tells of itself.
pub trait Observed: Send + Sync + 'static {
    /// The paths at which it tells something, for who asked for another.
    const PATHS: &str;

    /// What is told at a path, if anything is.
    fn tell(&self, path: &[u8]) -> Option<Told>;

    /// How often it [looks](Observed::look), if it does.
    const LOOKS_EVERY: Option<Duration> = None;

    /// Looks after what it tells of, on the admin listener's thread. Looks that are late are not
    /// made up for.
    fn look(&self) {}
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    status: u16,
    content_type: &'static str,
    body: Content,
}

/// What is told, so that no connection has a copy of its own: figures of thousands of pages are
/// tens of megabytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Of the program.
    Fixed(&'static str),
    /// Of the moment, for all whom it is told.
    Made(Arc<[u8]>),
}

impl From<&'static str> for Content {
    fn from(text: &'static str) -> Content {
        Content::Fixed(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Made(text.into_bytes().into())
    }
}

impl<'a> From<&'a Content> for Body<'a> {
    fn from(content: &'a Content) -> Body<'a> {
        match content {
            Content::Fixed(text) => text.as_bytes().into(),
            Content::Made(bytes) => Body::File(bytes, 0..bytes.len()),
        }
    }
}

/// What a page of the admin listener may do in a browser: use what comes from the listener, and
/// that alone; none may show it in a frame (Content Security Policy Level 3).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Beside each answer: it is what its type says (Fetch, section 3.6), it is told to no other site,
/// and it is of this moment.
const HEADERS: [(HeaderName<'static>, &[u8]); 4] = [
    (name("X-Content-Type-Options"), b"nosniff"),
    (name("Content-Security-Policy"), POLICY.as_bytes()),
    (name("Cross-Origin-Resource-Policy"), b"same-origin"),
    (name("Referrer-Policy"), b"no-referrer"),
];

/// A header's name, of a text that is one.
const fn name(name: &'static str) -> HeaderName<'static> {
    HeaderName::new(name).expect("it is a token")
}

impl Lasting for Told {
    fn length(&self) -> usize {
        Body::from(&self.body).length()
    }

    fn is_shared(&self) -> bool {
        match &self.body {
            Content::Fixed(_) => false,
            Content::Made(bytes) => Arc::strong_count(bytes) > 1,
        }
    }
}

impl Told {
    fn text(status: u16, body: impl Into<Content>) -> Told {
        Told {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// That all is well (200), or what is not (503).
    pub fn health(ailment: Option<&str>) -> Told {
        match ailment {
            Some(why) => Told::text(503, format!("{why}\n")),
            None => Told::text(200, "ok\n"),
        }
    }

    /// Figures, as [`encode`](crate::encode) gives them.
    pub fn figures(text: Result<String, fmt::Error>) -> Told {
        match text {
            Ok(body) => Told {
                status: 200,
                content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                body: body.into(),
            },
            Err(fmt::Error) => Told::text(500, ""),
        }
    }

    /// Data as JSON.
    pub fn json(body: String) -> Told {
        Told {
            status: 200,
            content_type: "application/json",
            body: body.into(),
        }
    }

    /// A page for browsers, which is the same each time.
    pub(crate) fn page(html: &'static str) -> Told {
        Told::asset("text/html; charset=utf-8", html)
    }

    /// What a page needs, of this type, which is the same each time.
    pub(crate) fn asset(content_type: &'static str, body: &'static str) -> Told {
        Told {
            status: 200,
            content_type,
            body: body.into(),
        }
    }
}

/// What a new start of these workers' process would mend: none, where they are well.
pub fn ailment<C>(workers: &[Inbox<C>]) -> Option<&'static str> {
    let now = clock::monotonic();
    if workers.iter().any(Inbox::has_ended) {
        Some("a worker has ended")
    } else if workers.iter().any(|worker| worker.is_ailing(now)) {
        Some("a worker panics again and again")
    } else {
        None
    }
}

/// The names by which the listener may be asked, beside addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The names.
    pub names: Vec<String>,
    /// How the setting is called that has them.
    pub setting: &'static str,
}

/// The admin listener and its thread. Dropped without [`Admin::stop`], it goes on.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    place: String,
    thread: Workers<Infallible>,
}

impl Admin {
    /// Starts the thread: it tells of `observed` to who asks.
    ///
    /// # Errors
    /// When the system has no resources for it.
    pub fn start<O: Observed>(
        listener: Listener,
        names: Names,
        observed: O,
    ) -> Result<Admin, StartError<Infallible>> {
        let make = maker(names, observed);
        Admin::started(listener, Role::default(), |options, entrances| {
            workers::start(options, entrances, make)
        })
    }

    /// As [`Admin::start`], for clients that speak TLS.
    ///
    /// # Errors
    /// As of [`Admin::start`].
    #[cfg(feature = "tls")]
    pub fn start_sealed<O: Observed>(
        listener: Listener,
        names: Names,
        acceptor: Arc<Acceptor>,
        observed: O,
    ) -> Result<Admin, StartError<Infallible>> {
        const TLS: Role = Role(1);
        let make = maker(names, observed);
        let strangers = Arc::new(NoTls::default());
        let make = move |thread: WorkerThread<'_, Infallible>| {
            let now = clock::monotonic();
            let tls = Tls::new(TLS, Some(acceptor.clone()), Arc::default());
            let tls = tls.answering(strangers.clone());
            make(thread).map(|server| Layer::new(server, tls, SEND_TIMEOUT, now))
        };
        Admin::started(listener, TLS, |options, entrances| {
            workers::start(options, entrances, make)
        })
    }

    fn started(
        listener: Listener,
        role: Role,
        start: impl FnOnce(
            &WorkerOptions,
            Vec<Entrance>,
        ) -> Result<Workers<Infallible>, StartError<Infallible>>,
    ) -> Result<Admin, StartError<Infallible>> {
        process::began();
        let options = WorkerOptions {
            name: "admin",
            driver: DriverOptions {
                connections_max: CONNECTIONS_MAX,
                crowded_cure: "they are the admin listener's, which are always so many; see who \
                               keeps them open",
                ..DriverOptions::default()
            },
            ..WorkerOptions::default()
        };
        let (address, place) = (listener.local_address(), listener.to_string());
        let entrances = vec![Entrance::listeners(role, vec![listener])];
        let thread = start(&options, entrances)?;
        Ok(Admin {
            address,
            place,
            thread,
        })
    }

    /// Where it listens; unspecified if that is a Unix socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as settings name it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Ends it.
    pub fn stop(self) {
        self.thread.stop();
        // Whether it was well is of no interest any more.
        let _ = self.thread.join();
    }
}

/// Makes what tells of `observed` on the listener's thread.
fn maker<O: Observed>(
    names: Names,
    observed: O,
) -> impl Fn(WorkerThread<'_, Infallible>) -> Result<HostServer, Infallible> + Send + Sync {
    let requests = RequestLimits {
        body_max: BODY_MAX,
        ..RequestLimits::default()
    };
    let teller = Teller {
        observed: Arc::new(observed),
        names: Arc::new(names),
        looks_at: Time::ZERO,
        costly: Costly::default(),
    };
    move |_| {
        let limits = ClientLimits {
            requests_max: Some(REQUESTS_MAX),
            pipelined_max: 1,
            send_timeout: SEND_TIMEOUT,
            rate_min: RATE_MIN,
            ..ClientLimits::within(TIMEOUT)
        };
        let now = clock::monotonic();
        Ok(HostServer::new(teller.clone(), limits, requests, now))
    }
}

/// Answers the admin listener's clients.
struct Teller<O> {
    observed: Arc<O>,
    names: Arc<Names>,
    looks_at: Time,
    costly: Costly<Told>,
}

impl<O> Clone for Teller<O> {
    fn clone(&self) -> Teller<O> {
        Teller {
            observed: Arc::clone(&self.observed),
            names: Arc::clone(&self.names),
            looks_at: self.looks_at,
            costly: Costly::default(),
        }
    }
}

impl<O: Observed> Teller<O> {
    fn respond(&mut self, host: &[u8], method: Method, path: &[u8]) -> Told {
        let Names { names, setting } = &*self.names;
        if !is_known(host, names) {
            let why = format!(
                "Host is no address, not localhost, and not in {setting}: ask by an address, or \
                 add the name there\n"
            );
            return Told::text(421, why);
        }
        if !matches!(method, Method::Get | Method::Head) {
            return Told::text(405, "GET or HEAD\n");
        }
        let told = self.costly.tell(path, || self.observed.tell(path));
        told.unwrap_or_else(|| Told::text(404, format!("{}\n", O::PATHS)))
    }
}

impl<O: Observed> Host for Teller<O> {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { head, bytes, .. } = request;
        let told = self.respond(head.host().of(bytes), head.method(), head.path(bytes));
        let fields = |head: &mut ResponseWriter<'_>| {
            if told.status == 405 {
                head.allow(["GET", "HEAD"]);
            }
            head.content_type(told.content_type).no_store();
            for (name, value) in HEADERS {
                head.header(name, value);
            }
        };
        let (slot, shape) = (request.slot, request.shape);
        answers.answer(slot, shape, told.status, &told.body, fields);
    }

    fn tick(&mut self, _: &mut Answers<'_>) {
        if let Some(every) = O::LOOKS_EVERY {
            self.observed.look();
            // Not from the time up to which all is told: that may lie long ago.
            self.looks_at = clock::monotonic() + every;
        }
    }

    fn wake_at(&self) -> Option<Time> {
        O::LOOKS_EVERY.map(|_| self.looks_at)
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
