//! Names of backends, looked up again while they are asked: a database moves, and its name leads to
//! other addresses.
//!
//! A name is looked up as often as its backend's settings say, and sooner while the backend fails
//! as a whole, on the loader's thread, which may wait for it. Workers are told of addresses that
//! have changed alone: they go on with the backend, its circuit and what they know of its calls,
//! and drain the connections to addresses that are gone. What cannot be looked up stays where it
//! was.

use crate::site::Site;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::{Peer, PeerAddress};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Finds the addresses of a name, with a port. It may wait.
pub type Resolver = Box<dyn FnMut(&str, u16) -> io::Result<Vec<SocketAddr>> + Send>;

/// The system's resolver.
pub fn system_resolver() -> Resolver {
    Box::new(|name, port| Ok((name, port).to_socket_addrs()?.collect()))
}

/// How soon names of a backend that fails as a whole are looked up again.
const FAILING_EVERY: Duration = Duration::from_secs(1);

/// A backend that is elsewhere than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocated {
    /// Whose it is of the sites that are served beside each other, by its index: others may say the
    /// same of theirs.
    pub site: usize,
    /// What service.toml says of it.
    pub config: BackendConfig,
    /// Where it is.
    pub peers: Vec<Peer>,
}

/// See the module's text.
pub(crate) struct BackendNames {
    resolver: Resolver,
    /// The sites that were looked at last, each with its backends that are asked by a name.
    sites: Vec<(Arc<Site>, Vec<Named>)>,
}

/// A backend that is asked by a name.
struct Named {
    config: BackendConfig,
    peers: Vec<Peer>,
    looked_up: Instant,
    /// The last time there was no answer, which the log has told.
    is_lost: bool,
}

impl BackendNames {
    pub(crate) fn new(resolver: Resolver) -> BackendNames {
        BackendNames {
            resolver,
            sites: Vec::new(),
        }
    }

    /// Whether the sites that were looked at last have any.
    pub(crate) fn has_any(&self) -> bool {
        self.sites.iter().any(|(_, backends)| !backends.is_empty())
    }

    /// Looks up what is due, of the sites that are served; the backends that are elsewhere now.
    /// Which fail is told of by their sites' indexes and their names.
    pub(crate) fn look_up(
        &mut self,
        sites: &[Arc<Site>],
        is_failing: impl Fn(usize, &str) -> bool,
        now: Instant,
    ) -> Vec<Relocated> {
        for (index, site) in sites.iter().enumerate() {
            // Its names were looked up as it was loaded.
            let anew = || (site.clone(), named(site, now));
            match self.sites.get_mut(index) {
                Some((known, _)) if Arc::ptr_eq(known, site) => {}
                Some(known) => *known = anew(),
                None => self.sites.push(anew()),
            }
        }
        let mut relocated = Vec::new();
        let all = (self.sites.iter_mut().enumerate())
            .flat_map(|(index, (_, backends))| backends.iter_mut().map(move |it| (index, it)));
        for (index, backend) in all {
            let every = match backend.config.pool.look_up_every {
                every if is_failing(index, &backend.config.name) => match every {
                    Duration::ZERO => FAILING_EVERY,
                    every => every.min(FAILING_EVERY),
                },
                Duration::ZERO => continue,
                every => every,
            };
            if now.saturating_duration_since(backend.looked_up) >= every {
                backend.looked_up = now;
                relocated.extend(backend.look_up(index, &mut self.resolver));
            }
        }
        relocated
    }
}

/// The backends of a site that are asked by names.
fn named(site: &Site, now: Instant) -> Vec<Named> {
    let backends = site.settings().backends.iter();
    let named = backends.filter_map(|backend| {
        let config = backend.config.clone()?;
        backend.peers.iter().find_map(name_of)?;
        Some(Named {
            config,
            peers: backend.peers.clone(),
            looked_up: now,
            is_lost: false,
        })
    });
    named.collect()
}

/// The name by which a peer was found, and its port.
fn name_of(peer: &Peer) -> Option<(&str, u16)> {
    match peer.address {
        PeerAddress::Tcp(address) if peer.name.parse::<IpAddr>().is_err() => {
            Some((&peer.name, address.port()))
        }
        _ => None,
    }
}

impl Named {
    /// Where it is now, if that is elsewhere; it is that site's.
    fn look_up(&mut self, site: usize, resolver: &mut Resolver) -> Option<Relocated> {
        let (name, port) = self.peers.iter().find_map(name_of)?;
        let backend = &*self.config.name;
        let found = resolver(name, port).and_then(|found| match found.is_empty() {
            true => Err(io::ErrorKind::AddrNotAvailable.into()),
            false => Ok(found),
        });
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::warn!(
                        backend,
                        name,
                        %error,
                        "the name of a backend is not found any more; the addresses that it had \
                         are kept until it is: see to the name, or to who answers for names"
                    );
                }
                return None;
            }
        };
        if std::mem::take(&mut self.is_lost) {
            tracing::info!(backend, name, "the name of a backend is found again");
        }
        let name: Arc<str> = name.into();
        // How what goes there is sealed is not the addresses' matter.
        let seal = self.peers.iter().find_map(|peer| peer.seal.clone());
        let peer = |address: &SocketAddr| Peer::tcp(name.clone(), *address).sealed(seal.clone());
        let peers: Vec<Peer> = found.iter().map(peer).collect();
        let without = |of: &[Peer], others: &[Peer]| -> Vec<Peer> {
            let of = of.iter().filter(|peer| !others.contains(peer));
            of.cloned().collect()
        };
        let (gone, new) = (without(&self.peers, &peers), without(&peers, &self.peers));
        if gone.is_empty() && new.is_empty() {
            return None;
        }
        tracing::info!(
            backend,
            name = &*name,
            new = in_words(&new),
            gone = in_words(&gone),
            "the name of a backend has other addresses: connections to those that are gone are \
             closed when what they were asked is answered"
        );
        self.peers.clone_from(&peers);
        Some(Relocated {
            site,
            config: self.config.clone(),
            peers,
        })
    }
}

/// Addresses, for the log.
fn in_words(peers: &[Peer]) -> String {
    let words = peers.iter().map(|peer| match peer.address {
        PeerAddress::Tcp(address) => address.to_string(),
        _ => peer.to_string(),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kinds;
    use crate::site::SiteSettings;
    use crate::site::statics::Statics;
    use rhythm_engine::compile::compile;
    use rhythm_engine::source::Sources;
    use std::slice::from_ref;
    use std::sync::Mutex;

    const SERVICE: &str = "
        [backend.named]
        kind = \"besim\"
        url = \"http://db.test:81/besim\"
        [backend.seldom]
        kind = \"besim\"
        url = \"http://seldom.test:82/besim\"
        look_up_every = \"0s\"
        [backend.fixed]
        kind = \"besim\"
        url = \"http://192.0.2.9:83/besim\"
        [backend.here]
        kind = \"besim\"
    ";

    /// A site whose backends are where its loader found them.
    fn site(places: &[(&str, &str)]) -> Arc<Site> {
        let files = [("service.toml".to_owned(), SERVICE.to_owned())];
        let sources = Sources {
            files: files.into(),
            ..Sources::default()
        };
        let service = compile(&sources, &kinds()).expect("it is sound");
        let mut settings = SiteSettings::of(&service);
        for (name, address) in places {
            let mut backends = settings.backends.iter_mut();
            let backend = backends.find(|backend| {
                backend
                    .config
                    .as_ref()
                    .is_some_and(|config| config.text("url").contains(name))
            });
            let peer = Peer::tcp(*name, address.parse().expect("an address"));
            backend.expect("it is one of them").peers.push(peer);
        }
        let statics = Statics::new("/static/", Vec::new());
        Arc::new(Site::new(Arc::new(service), statics, settings).expect("it is sound"))
    }

    /// What a name is answered with, and what was asked.
    #[derive(Default)]
    struct Fake {
        answer: Option<Vec<SocketAddr>>,
        asked: Vec<(String, u16)>,
    }

    /// A name server in the test's hands.
    #[derive(Clone, Default)]
    struct NameServer(Arc<Mutex<Fake>>);

    impl NameServer {
        fn resolver(&self) -> Resolver {
            let fake = self.0.clone();
            Box::new(move |name, port| {
                let mut fake = fake.lock().expect("no panic");
                fake.asked.push((name.to_owned(), port));
                fake.answer.clone().ok_or(io::ErrorKind::TimedOut.into())
            })
        }

        fn answers(&self, addresses: &[&str]) {
            let parse = |address: &&str| address.parse().expect("an address");
            let answer = addresses.iter().map(parse).collect();
            self.0.lock().expect("no panic").answer = Some(answer);
        }

        fn fails(&self) {
            self.0.lock().expect("no panic").answer = None;
        }

        fn asked(&self) -> Vec<(String, u16)> {
            std::mem::take(&mut self.0.lock().expect("no panic").asked)
        }
    }

    /// The backends that are elsewhere, and where.
    fn told(relocated: &[Relocated]) -> Vec<(String, Vec<String>)> {
        let told = relocated.iter().map(|Relocated { config, peers, .. }| {
            let peers = peers.iter().map(Peer::to_string).collect();
            (config.name.clone(), peers)
        });
        told.collect()
    }

    const PLACES: [(&str, &str); 4] = [
        ("db.test", "192.0.2.1:81"),
        ("db.test", "192.0.2.2:81"),
        ("seldom.test", "192.0.2.3:82"),
        ("192.0.2.9", "192.0.2.9:83"),
    ];

    #[test]
    fn names_are_looked_up_again_after_their_time() {
        let (server, site, start) = (NameServer::default(), site(&PLACES), Instant::now());
        let mut names = BackendNames::new(server.resolver());
        let mut at = |seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            told(&names.look_up(from_ref(&site), |_, _| false, now))
        };
        server.answers(&["192.0.2.2:81", "192.0.2.1:81"]);
        assert_eq!((at(0), at(29)), (vec![], vec![]));
        assert_eq!(
            server.asked(),
            [],
            "they were looked up as the site was loaded"
        );
        assert_eq!(at(30), [], "resolvers rotate");
        assert_eq!(server.asked(), [("db.test".to_owned(), 81)]);
        server.answers(&["192.0.2.2:81", "192.0.2.7:81"]);
        assert_eq!(at(59), []);
        let both = ["db.test (192.0.2.2:81)", "db.test (192.0.2.7:81)"];
        let moved = [("named".to_owned(), both.map(str::to_owned).to_vec())];
        assert_eq!(at(60), moved);
        assert_eq!(at(90), [], "that is told");
        server.fails();
        assert_eq!(at(120), []);
        server.answers(&[]);
        assert_eq!(at(150), [], "who is nowhere is where it was");
        server.answers(&["192.0.2.7:81"]);
        let one = vec!["db.test (192.0.2.7:81)".to_owned()];
        assert_eq!(at(180), [("named".to_owned(), one)]);
    }

    #[test]
    fn a_backend_that_fails_is_looked_up_each_second() {
        let (server, site, start) = (NameServer::default(), site(&PLACES), Instant::now());
        let mut names = BackendNames::new(server.resolver());
        let mut at = |seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let is_failing = |site: usize, backend: &str| site == 0 && backend != "named";
            told(&names.look_up(from_ref(&site), is_failing, now))
        };
        server.fails();
        assert_eq!((at(0), at(1), at(2)), (vec![], vec![], vec![]));
        let seldom = ("seldom.test".to_owned(), 82);
        assert_eq!(server.asked(), [seldom.clone(), seldom.clone()]);
        server.answers(&["192.0.2.4:82"]);
        let there = vec!["seldom.test (192.0.2.4:82)".to_owned()];
        assert_eq!(at(3), [("seldom".to_owned(), there)]);
        assert_eq!(
            server.asked(),
            [seldom],
            "nothing else has a name that is due"
        );
    }

    #[test]
    fn a_site_without_names_needs_no_look_up() {
        let mut names = BackendNames::new(NameServer::default().resolver());
        let now = Instant::now();
        let fixed = site(&PLACES[3..]);
        assert_eq!(names.look_up(&[fixed], |_, _| true, now), []);
        assert!(!names.has_any());
        assert_eq!(names.look_up(&[site(&PLACES)], |_, _| false, now), []);
        assert!(names.has_any());
    }

    #[test]
    fn a_site_that_stays_keeps_what_was_found_when_another_is_replaced() {
        let (server, start) = (NameServer::default(), Instant::now());
        let [first, second, other] = [(); 3].map(|()| site(&PLACES));
        let mut names = BackendNames::new(server.resolver());
        let mut at = |sites: [&Arc<Site>; 2], seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            told(&names.look_up(&sites.map(Arc::clone), |_, _| false, now)).len()
        };
        assert_eq!(at([&first, &second], 0), 0);
        server.answers(&["192.0.2.7:81"]);
        assert_eq!(at([&first, &second], 30), 2);
        // That of the first is where it was found; the other's was looked up just now.
        assert_eq!(at([&first, &other], 61), 0);
        assert_eq!(at([&first, &other], 91), 1);
    }
}
