//! What all threads of a server are to know of it now.

use crate::drain::{Drain, DrainOptions};
use crate::site::names::Relocated;
use crate::site::{Site, Sites};
use rhythm_engine::settings::ServiceConfig;
use rhythm_net::Time;
use std::sync::{Arc, Mutex, PoisonError};

/// What holds for every worker, and for one that starts anew.
#[derive(Debug)]
pub(crate) struct Current {
    sites: Mutex<Arc<Sites>>,
    /// The settings in effect of each site: its own, but those that a reload does not change.
    configs: Mutex<Vec<ServiceConfig>>,
    /// Backends of the sites that are elsewhere since.
    relocated: Mutex<Vec<Relocated>>,
    /// How the server ends, once it is to.
    drain: Mutex<Option<Drain>>,
}

impl Current {
    /// A server that serves these sites.
    pub(crate) fn new(sites: Arc<Sites>) -> Current {
        let configs = sites.all().iter().map(|site| site.service().config.clone());
        Current {
            configs: Mutex::new(configs.collect()),
            sites: Mutex::new(sites),
            relocated: Mutex::default(),
            drain: Mutex::new(None),
        }
    }

    /// What is served.
    pub(crate) fn sites(&self) -> Arc<Sites> {
        let sites = self.sites.lock();
        sites.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings in effect of each site.
    pub(crate) fn configs(&self) -> Vec<ServiceConfig> {
        let configs = self.configs.lock();
        configs.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These sites are served from now on. Gives for each that is another than before the settings
    /// that keep their values until a restart though it has others.
    pub(crate) fn reload(&self, sites: Arc<Sites>) -> Vec<(Arc<Site>, Vec<String>)> {
        let mut configs = (self.configs.lock()).unwrap_or_else(PoisonError::into_inner);
        let mut before = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let relocated = self.relocated.lock();
        let mut relocated = relocated.unwrap_or_else(PoisonError::into_inner);
        let mut new = Vec::new();
        for ((site, before), config) in (sites.all().iter().zip(before.all())).zip(&mut *configs) {
            if Arc::ptr_eq(site, before) {
                continue;
            }
            let (reloaded, kept) = config.reloaded(&site.service().config);
            *config = reloaded;
            if !site.keep_stored(before) {
                tracing::warn!(
                    service = site.label(),
                    "`session.fields` has changed: what sessions had in them is lost"
                );
            }
            // Its names were looked up as it was loaded.
            relocated.retain(|known| !before.service().backends.contains(&known.config));
            new.push((site.clone(), kept));
        }
        *before = sites;
        new
    }

    /// Backends that are elsewhere than the sites say.
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
