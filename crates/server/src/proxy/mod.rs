//! Proxy routes: requests that another server answers, the application that was there before.
//!
//! ```text
//!   client        http         proxy                                 server
//!     |  request   |  request   |                                       |
//!     |----------->|----------->| choose a server, a connection --------|
//!     |  content   |  content   | (route.rs, upstream.rs)               |
//!     |----------->|----------->| owed (exchange.rs) ------------------>|
//!     |            |<-- Wait ---| while the server takes no more        |
//!     |            |            |                            answer     |
//!     |   answer   |   append   |<--------------- (reader.rs) ----------|
//!     |<-----------|<-----------|                                       |
//!     |            |--- Wait -->| the server is not read meanwhile      |
//! ```
//!
//! It is a host (`rhythm_http::Host`): what a client may send and take, and when it is given up, is
//! decided there. Both heads are made anew (`request.rs`, `fields.rs`), and how the end of a
//! content is told is decided here and never taken over: a request is one to the server, or is
//! refused. What a client holds is bounded by its pieces: a request's are taken one at a time, and
//! an answer's until the client has enough.
//!
//! `relay.rs` takes a request through its steps, `pool.rs` finds connections for it, of which
//! nobody has all (`shares.rs`), `events.rs` is what each event sets going, `check.rs` asks servers
//! whether they are in order, `told.rs` is what the log learns. A reload makes routes anew; those
//! that are as they were stay, with their connections, and of others what is under way ends as it
//! began.

mod check;
mod events;
mod exchange;
mod fields;
mod pool;
mod question;
mod relay;
mod request;
mod route;
mod shares;
mod timers;
mod told;
mod upstream;

use crate::answer_reader::HEAD_BYTES_MAX;
use crate::backend::SECURED_BYTES;
use crate::flight::asker::ClientsBy;
use crate::observe::metrics::SiteMetrics;
use crate::site::{ProxyRoute, Site};
use crate::trace::Origin;
use exchange::Exchange;
use foldhash::fast::RandomState;
use question::Question;
use rhythm_engine::settings::ServiceConfig;
use rhythm_http::AnswerSlot;
use rhythm_net::{ConnectionId, DriverOptions, Time};
use route::Route;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use timers::{Due, Timer, Timers};
use told::Failures;

pub(crate) use told::Shortfall;

/// The proxy of a worker, which its pipeline and its hosts have in common.
#[derive(Clone)]
pub(crate) struct SharedProxies(Rc<RefCell<Proxies>>);

/// A table whose keys nobody outside chooses: its hash need withstand nobody.
type Table<K, V> = HashMap<K, V, RandomState>;

/// Requests that no server has answered, or not to the end.
pub(crate) type Shortfalls = Table<AnswerSlot, Shortfall>;

/// See the module's text.
struct Proxies {
    /// What tells apart clients that no trusted proxy is.
    clients_by: ClientsBy,
    /// What is served now. Exchanges have no site of their own: a tunnel from before a reload
    /// would keep all that was in one.
    sites: Vec<Arc<Site>>,
    /// By numbers that are never used again.
    routes: Table<u32, Route>,
    last_route: u32,
    exchanges: Table<AnswerSlot, Exchange>,
    /// Connections to servers.
    links: Table<ConnectionId, Link>,
    timers: Timers,
    /// What the request is for that is handed over next.
    aim: Option<Aim>,
    /// Connections to be dropped as soon as there is a port.
    to_abort: Vec<ConnectionId>,
    /// Routes of which a connection, or a place, is free.
    freed: Vec<u32>,
    /// Memory of what comes in chunks.
    decoded: Vec<u8>,
    failures: Failures,
    /// Requests that no server has answered, or not to the end, until it is asked for them.
    short: Shortfalls,
}

/// What a request is for.
#[derive(Debug)]
pub(crate) struct Aim {
    /// The route's number.
    pub(crate) route: u32,
    /// The client speaks TLS.
    pub(crate) is_tls: bool,
    /// Where it comes from, as far as that is told on.
    pub(crate) origin: Origin,
    /// Its answer tells its id, and none that the server has for it.
    pub(crate) tells_id: bool,
}

/// A connection to a server.
#[derive(Debug)]
struct Link {
    route: u32,
    /// Which of its servers.
    upstream: usize,
    used: Use,
    /// Since when it is idle.
    idle_since: Time,
    /// For that.
    timer: Option<Timer>,
}

/// What a connection is used for.
#[derive(Debug)]
enum Use {
    Idle,
    Exchange(AnswerSlot),
    Check(Box<Question>),
}

impl SharedProxies {
    /// The name of this host among others. No settings can name it.
    pub(crate) const NAME: &str = "\0proxy";

    /// One without routes, to which this tells clients apart.
    pub(crate) fn new(clients_by: ClientsBy) -> SharedProxies {
        SharedProxies(Rc::new(RefCell::new(Proxies::new(clients_by))))
    }

    /// The routes of a site, by their numbers, in the order of its settings. Those that it had
    /// before and has no more are forgotten when nothing is under way on them.
    pub(crate) fn of_site(
        &self,
        index: usize,
        site: &Arc<Site>,
        metrics: &SiteMetrics,
    ) -> Vec<u32> {
        let proxies = &mut *self.0.borrow_mut();
        // They come in their order at first, then one or the other anew.
        match proxies.sites.get_mut(index) {
            Some(known) => *known = site.clone(),
            None => proxies.sites.push(site.clone()),
        }
        let numbers = proxies.of_site(index, &site.settings.proxies, metrics);
        for number in &numbers {
            if let Some(route) = proxies.routes.get_mut(number) {
                route.service = site.label().map(str::to_owned);
            }
        }
        numbers
    }

    /// What is not sent of a request that was handed over whole, with a content that was kept for
    /// it, counts as held by its client until it is: so many bytes.
    pub(crate) fn counts_content(&self, slot: AnswerSlot) -> usize {
        let proxies = &mut *self.0.borrow_mut();
        let exchange = proxies.exchanges.get_mut(&slot);
        exchange.map_or(0, Exchange::counts_unsent)
    }

    /// Says what the request is for that is handed over next.
    pub(crate) fn aim(&self, aim: Aim) {
        self.0.borrow_mut().aim = Some(aim);
    }

    /// The requests that no server has answered, or not to the end, since this was asked last.
    pub(crate) fn take_short(&self) -> Shortfalls {
        std::mem::take(&mut self.0.borrow_mut().short)
    }

    /// Brings the figures up to date.
    pub(crate) fn set_gauges(&self) {
        self.0.borrow().set_gauges();
    }

    /// How many requests are under way.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().exchanges.len()
    }
}

impl Proxies {
    fn new(clients_by: ClientsBy) -> Proxies {
        Proxies {
            clients_by,
            sites: Vec::new(),
            routes: Table::default(),
            last_route: 0,
            exchanges: Table::default(),
            links: Table::default(),
            timers: Timers::default(),
            aim: None,
            to_abort: Vec::new(),
            freed: Vec::new(),
            decoded: Vec::new(),
            failures: Failures::default(),
            short: Shortfalls::default(),
        }
    }

    /// Routes that a reload has made anew count with those before them, of whose servers they have
    /// the figures, until nothing is under way on these.
    fn set_gauges(&self) {
        let mut sums = HashMap::new();
        for upstream in self.routes.values().flat_map(|route| &route.upstreams) {
            let its = sums.entry(Arc::as_ptr(&upstream.metrics));
            let (_, under_way, connections) = its.or_insert((&upstream.metrics, 0, 0));
            *under_way += upstream.under_way as u64;
            *connections += upstream.connections as u64;
        }
        for (metrics, under_way, connections) in sums.into_values() {
            metrics.under_way.set(under_way);
            metrics.connections.set(connections);
        }
    }

    fn of_site(&mut self, site: usize, made_of: &[ProxyRoute], metrics: &SiteMetrics) -> Vec<u32> {
        let mut left: Vec<u32> = (self.routes.iter())
            .filter(|(_, route)| route.site == site && !route.is_old)
            .map(|(number, _)| *number)
            .collect();
        let mut all = Vec::new();
        for made_of in made_of {
            let same = |number: &u32| self.routes[number].made_of == *made_of;
            let number = match left.iter().position(same) {
                Some(at) => left.swap_remove(at),
                None => {
                    self.last_route += 1;
                    let route = Route::new(site, made_of, metrics);
                    if !route.settings().health.is_empty() {
                        for upstream in 0..route.upstreams.len() {
                            self.timers
                                .set(Time::ZERO, Due::Check(self.last_route, upstream));
                        }
                    }
                    self.routes.insert(self.last_route, route);
                    self.last_route
                }
            };
            all.push(number);
        }
        for number in left {
            if let Some(route) = self.routes.get_mut(&number) {
                route.is_old = true;
                self.freed.push(number);
            }
        }
        all
    }
}

/// The most bytes of memory that a worker takes for the proxy routes of a service.
pub(crate) fn bytes_max(
    config: &ServiceConfig,
    routes: &[rhythm_engine::settings::ProxyConfig],
) -> usize {
    let receive = DriverOptions::default().receive_bytes;
    // A head with what is said in it of the client, twice where it may be sent again; a piece of
    // content before it is sent, with its framing; the head of an answer, as it grows; and what
    // there is of each in tables, which have twice the places that they need.
    let head = 2 * config.limits.head_bytes_max as usize + 1024;
    let timers = 2 * size_of::<(Timer, Due)>();
    let tables = 2 * (size_of::<Exchange>() + size_of::<Link>() + size_of::<Route>() + timers);
    let each = 2 * head + receive + 64 + 2 * HEAD_BYTES_MAX + 4096 + tables;
    let bytes = routes.iter().map(|route| {
        let settings = &route.settings;
        // One more to each server, for whether it is in order.
        let connections = (settings.connections_max as usize + 1).saturating_mul(route.to.len());
        let sealed = match route.to.iter().any(|(_, url)| url.speaks_tls) {
            true => connections.saturating_mul(SECURED_BYTES),
            false => 0,
        };
        let requests = connections + settings.waiting_max as usize;
        requests.saturating_mul(each).saturating_add(sealed)
    });
    let all = bytes.fold(0, usize::saturating_add);
    match routes.is_empty() {
        true => 0,
        false => all.saturating_add(2 * receive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_follow_each_other_count_together() {
        let (mut proxies, metrics) = (Proxies::new(ClientsBy::Address), SiteMetrics::default());
        let mut made_of = route::tests::made_of(1, "least");
        let name = made_of.config.to[0].0.clone();
        let counted = metrics.proxy(made_of.config.name(), &name);
        // As one has left who panicked.
        counted.under_way.set(7);
        let who = shares::Holder {
            asker: 1,
            is_tunnel: false,
        };
        let mut enter = |made_of: &ProxyRoute, entered: usize| {
            let number = proxies.of_site(0, std::slice::from_ref(made_of), &metrics)[0];
            let route = proxies.routes.get_mut(&number).expect("it was made");
            (0..entered).for_each(|_| route.upstreams[0].entered(who));
            route.upstreams[0].connections += entered;
            proxies.set_gauges();
            (counted.under_way.get(), counted.connections.get())
        };
        assert_eq!(enter(&made_of, 0), (0, 0));
        assert_eq!(enter(&made_of, 2), (2, 2));
        // A reload makes it anew, while requests are under way as it was.
        made_of.config.settings.waiting_max += 1;
        assert_eq!(enter(&made_of, 0), (2, 2));
        assert_eq!(enter(&made_of, 1), (3, 3));
    }
}
