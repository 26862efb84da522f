//! What of a service's settings is its site's: a reload takes changes of these.

use rhythm_engine::program::Service;
use rhythm_engine::settings::{
    BackendConfig, GzipSettings, PoolSettings, ProxyConfig, ServiceConfig,
};
use rhythm_http::RequestLimits;
use rhythm_net::{Peer, PeerAddress};
use rhythm_protocol::http::request::HeadLimits;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};
use std::net::SocketAddr;
use std::time::Duration;

const CACHE_CONTROL: HeaderName<'static> = HeaderName::new("Cache-Control").expect("a token");

/// How a site is served, beside what its pages say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// What lines of the log and figures call the site, where a server has several.
    pub label: Option<String>,
    /// The names of hosts by which clients ask for it, in lower case, `*.` and a name for all below
    /// that; none: all that no other site has.
    pub names: Vec<String>,
    /// Name of the session cookie.
    pub cookie: String,
    /// Whether the cookie is for encrypted connections only (`Secure`).
    pub cookie_secure: bool,
    /// The port of https that clients are sent on to which do not speak TLS, if they are.
    pub https_port: Option<u16>,
    /// Whether requests of other sites' pages are refused that could do something in a session.
    pub origin_check: bool,
    /// Origins that are this service's besides that of the Host header.
    pub origins: Vec<String>,
    /// Headers of all pages and files, but where a page has its own.
    pub headers: Vec<(HeaderName<'static>, String)>,
    /// Cache-Control of files; empty: none.
    pub cache_control: String,
    /// How pages are compressed.
    pub gzip: GzipSettings,
    /// Paths answered 303 with another path, such as `/` to the first page.
    pub redirects: Vec<(String, String)>,
    /// The status of paths that nothing answers: 404, but where something keeps all pages away.
    pub nothing: u16,
    /// How long a piece of a streamed file is waited for.
    pub read_timeout: Duration,
    /// What hosts answer.
    pub hosts: Vec<HostRoute>,
    /// What other servers answer.
    pub proxies: Vec<ProxyRoute>,
    /// The backends, by their index in the service's calls.
    pub backends: Vec<BackendSettings>,
    /// Limits of requests.
    pub requests: RequestLimits,
}

impl Default for SiteSettings {
    fn default() -> SiteSettings {
        SiteSettings::of(&Service::default())
    }
}

impl SiteSettings {
    /// What a service's settings say; where its backends are is not looked up.
    pub fn of(service: &Service) -> SiteSettings {
        let ServiceConfig {
            service: called,
            session,
            limits,
            statics,
            headers,
            gzip,
            tls,
            ..
        } = &service.config;
        let backend = |backend: &BackendConfig| BackendSettings {
            config: Some(backend.clone()),
            straggler_delay: backend.pool.straggler_delay,
            ..BackendSettings::new(&backend.name, backend.pool.timeout)
        };
        SiteSettings {
            label: None,
            names: (called.host.split_ascii_whitespace())
                .map(str::to_owned)
                .collect(),
            cookie: session.cookie.clone(),
            cookie_secure: session.cookie_secure,
            https_port: tls
                .redirect_port
                .and_then(|port| u16::try_from(port.get()).ok()),
            origin_check: session.origin_check,
            origins: (session.origins.split_ascii_whitespace())
                .map(str::to_owned)
                .collect(),
            headers: (headers.lines())
                .map(|(name, value)| (name, value.to_owned()))
                .collect(),
            cache_control: statics.cache_control.clone(),
            gzip: gzip.clone(),
            redirects: statics.index.clone().into_iter().collect(),
            nothing: 404,
            read_timeout: statics.read_timeout,
            hosts: Vec::new(),
            proxies: (service.proxies.iter())
                .map(|config| ProxyRoute {
                    config: config.clone(),
                    peers: vec![Vec::new(); config.to.len()],
                })
                .collect(),
            backends: service.backends.iter().map(backend).collect(),
            requests: RequestLimits {
                head: HeadLimits {
                    head_max: limits.head_bytes_max as usize,
                    target_max: limits.target_bytes_max as usize,
                    headers_max: limits.headers_max as usize,
                },
                body_max: limits.body_bytes_max as usize,
            },
        }
    }
}

impl SiteSettings {
    /// Writes the headers of all pages and files.
    pub(crate) fn write_headers(&self, head: &mut ResponseWriter<'_>) {
        for (name, value) in &self.headers {
            head.header(*name, value.as_bytes());
        }
    }

    /// Writes the headers of all files.
    pub(crate) fn write_file_headers(&self, head: &mut ResponseWriter<'_>) {
        self.write_headers(head);
        if !self.cache_control.is_empty() {
            head.header(CACHE_CONTROL, self.cache_control.as_bytes());
        }
    }
}

/// What a host answers: with any method, this path and all below it that is no page, file or
/// redirect. Of two such routes the longer path goes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// A path as it is sent, such as `/api` or `/`.
    pub path: String,
    /// The host's name among those that the server was given.
    pub host: String,
}

/// A route that other servers answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRoute {
    /// What service.toml says of it.
    pub config: ProxyConfig,
    /// For each of its servers, where it is: what whoever loads the site found, so that workers
    /// look nothing up.
    pub peers: Vec<Vec<Peer>>,
}

/// How long the pipeline waits for a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSettings {
    /// Its name.
    pub name: String,
    /// What service.toml says of it, if that is where it is from: where this and the peers are the
    /// same after a reload, so are the connections.
    pub config: Option<BackendConfig>,
    /// Where it is: what whoever loads the site found, so that workers look nothing up.
    pub peers: Vec<Peer>,
    /// After this a request to it has failed, and its page is answered 504.
    pub timeout: Duration,
    /// After this the lanes of a cohort that have their answers go on without the others.
    pub straggler_delay: Duration,
}

impl BackendSettings {
    /// A backend with this timeout; lanes wait for stragglers as long as by default.
    pub fn new(name: impl Into<String>, timeout: Duration) -> BackendSettings {
        BackendSettings {
            name: name.into(),
            config: None,
            peers: Vec::new(),
            timeout,
            straggler_delay: PoolSettings::default().straggler_delay,
        }
    }

    /// Where it is, in words: there, where that is known, or in one of its places.
    pub(crate) fn place(&self, known: Option<SocketAddr>) -> String {
        let is_known = |peer: &&Peer| match (known, &peer.address) {
            (Some(known), PeerAddress::Tcp(address)) => known == *address,
            (Some(_), PeerAddress::Unix(_) | PeerAddress::Local(_)) => false,
            (None, _) => true,
        };
        let places = self.peers.iter().filter(is_known).map(Peer::to_string);
        let places: Vec<String> = places.collect();
        match (&places[..], known) {
            ([], None) => "in this process".to_owned(),
            ([], Some(known)) => known.to_string(),
            _ => places.join(", "),
        }
    }

    /// Whether this is the backend that the other is, at other addresses.
    pub(crate) fn is_elsewhere(&self, other: &BackendSettings) -> bool {
        let by_port = |peer: &Peer| matches!(peer.address, PeerAddress::Tcp(_));
        let all = || self.peers.iter().chain(&other.peers);
        self.config.is_some()
            && (&self.name, &self.config) == (&other.name, &other.config)
            && all().all(by_port)
            && !self.peers.is_empty()
            && !other.peers.is_empty()
    }

    /// Whether this is the backend that the other is: then its connections serve on. Addresses in
    /// another order, as resolvers give them, are the same place.
    pub(crate) fn is_same(&self, other: &BackendSettings) -> bool {
        let within = |of: &[Peer], all: &[Peer]| of.iter().all(|peer| all.contains(peer));
        (&self.name, &self.config) == (&other.name, &other.config)
            && within(&self.peers, &other.peers)
            && within(&other.peers, &self.peers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_backend_elsewhere_is_another_one() {
        let at = |ports: &[u16]| BackendSettings {
            peers: (ports.iter())
                .map(|port| Peer::tcp("bank", ([127, 0, 0, 1], *port).into()))
                .collect(),
            ..BackendSettings::new("bank", Duration::from_secs(1))
        };
        assert!(at(&[1, 2]).is_same(&at(&[2, 1])), "resolvers rotate");
        for (one, other) in [(&[1, 2][..], &[1, 3][..]), (&[1], &[1, 2]), (&[], &[1])] {
            assert!(!at(one).is_same(&at(other)), "{one:?} and {other:?}");
            assert!(!at(other).is_same(&at(one)), "{other:?} and {one:?}");
        }
        let named = BackendSettings::new("bonk", Duration::from_secs(1));
        assert!(!at(&[]).is_same(&named));
    }

    #[test]
    fn a_place_is_the_known_one_or_all_there_are() {
        let mut bank = BackendSettings::new("bank", Duration::from_secs(1));
        assert_eq!(bank.place(None), "in this process");
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        bank.peers = [1, 2].map(|port| Peer::tcp("bank", address(port))).into();
        assert_eq!(bank.place(Some(address(2))), "bank (127.0.0.1:2)");
        assert_eq!(bank.place(None), "bank (127.0.0.1:1), bank (127.0.0.1:2)");
        // Of before a reload.
        assert_eq!(bank.place(Some(address(3))), "127.0.0.1:3");
        bank.peers = vec![Peer::unix("/run/bank".as_ref())];
        assert_eq!(bank.place(None), "/run/bank");
    }

    #[test]
    fn stragglers_are_waited_for_as_long_as_settings_say() {
        let [second, millisecond] = [Duration::from_secs(1), Duration::from_millis(1)];
        for delay in [7 * millisecond, second] {
            let backend = BackendConfig {
                name: "bank".to_owned(),
                kind: "besim",
                folder: "".into(),
                pool: PoolSettings {
                    timeout: second,
                    straggler_delay: delay,
                    ..PoolSettings::default()
                },
                own: BTreeMap::new(),
                written: BTreeMap::new(),
                flags: Default::default(),
            };
            let service = Service {
                backends: vec![backend],
                ..Service::default()
            };
            let settings = SiteSettings::of(&service);
            assert_eq!(settings.backends[0].timeout, second);
            assert_eq!(settings.backends[0].straggler_delay, delay);
        }
    }
}
