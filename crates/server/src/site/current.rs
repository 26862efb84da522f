//! What all threads of a server are to know of it now.

use crate::site::Site;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What holds for every worker, and for one that starts anew.
#[derive(Debug)]
pub(crate) struct Current {
    site: Mutex<Arc<Site>>,
    is_draining: AtomicBool,
}

impl Current {
    /// A server that serves this site.
    pub(crate) fn new(site: Arc<Site>) -> Current {
        Current {
            site: Mutex::new(site),
            is_draining: AtomicBool::new(false),
        }
    }

    /// What is served.
    pub(crate) fn site(&self) -> Arc<Site> {
        let site = self.site.lock();
        site.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This site is served from now on.
    pub(crate) fn serve(&self, site: Arc<Site>) {
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = site;
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
