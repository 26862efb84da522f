//! What was found of backends as services were loaded, for workers, which open no file.

use rhythm_engine::settings::BackendConfig;
use rhythm_net::Peer;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What was found of the backends of a kind, for as long as a site or a worker has it.
pub(super) struct Located<T>(Mutex<Vec<Found<T>>>);

struct Found<T> {
    config: BackendConfig,
    it: Arc<T>,
    /// The names of the peers that sites have for it, by which it is seen whether any has.
    peers: Vec<Weak<str>>,
}

impl<T> Found<T> {
    fn is_had(&mut self) -> bool {
        self.peers.retain(|name| name.strong_count() > 0);
        !self.peers.is_empty() || Arc::strong_count(&self.it) > 1
    }
}

impl<T> Located<T> {
    pub(super) const fn new() -> Located<T> {
        Located(Mutex::new(Vec::new()))
    }

    /// Keeps what was found now, as long as somebody has these peers; what was found before, by
    /// those who have it, is renewed by it.
    pub(super) fn put(
        &self,
        (config, peers): (&BackendConfig, &[Peer]),
        found: T,
        renew: impl FnOnce(&T, T),
    ) {
        let mut located = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        located.retain_mut(Found::is_had);
        let peers = peers.first().map(|peer| Arc::downgrade(&peer.name));
        match located.iter_mut().find(|known| known.config == *config) {
            Some(known) => {
                renew(&known.it, found);
                known.peers.extend(peers);
            }
            None => located.push(Found {
                config: config.clone(),
                it: Arc::new(found),
                peers: peers.into_iter().collect(),
            }),
        }
    }

    /// What was found as the service was loaded.
    ///
    /// # Errors
    /// Nothing was.
    pub(super) fn get(&self, config: &BackendConfig) -> Result<Arc<T>, String> {
        let located = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = located.iter().find(|known| known.config == *config);
        let found = found.map(|known| known.it.clone());
        found.ok_or_else(|| "it was not looked up".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::settings::PoolSettings;

    #[test]
    fn what_was_found_stays_as_long_as_a_site_or_a_worker_has_it() {
        let located: Located<Mutex<u32>> = Located::new();
        let config = |name: &str| BackendConfig {
            name: name.to_owned(),
            kind: "http",
            folder: "/shop".into(),
            pool: PoolSettings::default(),
            own: Default::default(),
            written: Default::default(),
            flags: Default::default(),
        };
        let peers = || vec![Peer::tcp("shop", ([127, 0, 0, 1], 80).into())];
        let put = |name, peers: &[Peer], found: u32| {
            located.put((&config(name), peers), found.into(), |known, now| {
                *known.lock().unwrap() = now.into_inner().unwrap();
            });
        };
        let get = |name| -> Result<Arc<Mutex<u32>>, String> { located.get(&config(name)) };
        let (first, again, other) = (peers(), peers(), peers());
        put("a", &first, 1);
        put("a", &again, 2);
        drop(first);
        put("b", &other, 3);
        let had = get("a").unwrap();
        assert_eq!(*had.lock().unwrap(), 2);
        // A worker has it yet, then nobody.
        drop(again);
        put("b", &other, 3);
        assert!(get("a").is_ok());
        drop(had);
        put("b", &other, 4);
        assert!(get("a").is_err());
        assert_eq!(*get("b").unwrap().lock().unwrap(), 4);
    }
}
