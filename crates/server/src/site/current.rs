//! What all threads of a server are to know of it now.

use crate::site::Site;
use rhythm_engine::settings::ServiceConfig;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What holds for every worker, and for one that starts anew.
#[derive(Debug)]
pub(crate) struct Current {
    site: Mutex<Arc<Site>>,
    /// The settings in effect: the site's, but those that a reload does not change.
    config: Mutex<ServiceConfig>,
    is_draining: AtomicBool,
}

impl Current {
    /// A server that serves this site.
    pub(crate) fn new(site: Arc<Site>) -> Current {
        Current {
            config: Mutex::new(site.service().config.clone()),
            site: Mutex::new(site),
            is_draining: AtomicBool::new(false),
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
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = site;
        kept
    }

    /// Whether a shutdown has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// A shutdown begins.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }
}
