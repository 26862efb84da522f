//! What all threads of a server are to know of it now.

use crate::drain::{Drain, DrainOptions};
use crate::site::Site;
use crate::site::names::Relocated;
use rhythm_engine::settings::ServiceConfig;
use rhythm_net::Time;
use std::sync::{Arc, Mutex, PoisonError};

/// What holds for every worker, and for one that starts anew.
#[derive(Debug)]
pub(crate) struct Current {
    site: Mutex<Arc<Site>>,
    /// The settings in effect: the site's, but those that a reload does not change.
    config: Mutex<ServiceConfig>,
    /// Backends of the site that are elsewhere since.
    relocated: Mutex<Vec<Relocated>>,
    /// How the server ends, once it is to.
    drain: Mutex<Option<Drain>>,
}

impl Current {
    /// A server that serves this site.
    pub(crate) fn new(site: Arc<Site>) -> Current {
        Current {
            config: Mutex::new(site.service().config.clone()),
            site: Mutex::new(site),
            relocated: Mutex::default(),
            drain: Mutex::new(None),
        }
    }

    /// What is served.
    pub(crate) fn site(&self) -> Arc<Site> {
        let site = self.site.lock();
        site.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings in effect.
    pub(crate) fn config(&self) -> ServiceConfig {
        let config = self.config.lock();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This site is served from now on. Gives the settings that keep their values until a restart
    /// though it has others.
    pub(crate) fn reload(&self, site: Arc<Site>) -> Vec<String> {
        let mut config = (self.config.lock()).unwrap_or_else(PoisonError::into_inner);
        let (reloaded, kept) = config.reloaded(&site.service().config);
        *config = reloaded;
        let mut before = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        if !site.keep_stored(&before) {
            tracing::warn!("`session.fields` has changed: what sessions had in them is lost");
        }
        *before = site;
        // Its names were looked up as it was loaded.
        let relocated = self.relocated.lock();
        relocated.unwrap_or_else(PoisonError::into_inner).clear();
        kept
    }

    /// Backends that are elsewhere than the site says.
    pub(crate) fn relocated(&self) -> Vec<Relocated> {
        let relocated = self.relocated.lock();
        relocated.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These backends are elsewhere from now on.
    pub(crate) fn relocate(&self, relocated: &[Relocated]) {
        let all = self.relocated.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| relocated.iter().all(|new| new.config != known.config));
        all.extend_from_slice(relocated);
    }

    /// How the server ends, once it is to.
    pub(crate) fn drain(&self) -> Option<Drain> {
        *self.drain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server is to end, or to do so sooner.
    pub(crate) fn shut_down(&self, options: DrainOptions, now: Time) -> Drain {
        let mut drain = self.drain.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(drain) = &mut *drain {
            drain.hasten(now);
        }
        *drain.get_or_insert_with(|| Drain::begin(options, now))
    }
}
