//! What a pager has counted and how its donors are, told over HTTP.

use super::panels::{self, Seen};
use rhythm_net::{ListenError, ListenOptions, Listener, StartError};
use rhythm_observe::admin::{Admin, Names, Observed, Told};
use rhythm_observe::dashboard;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Why nothing can be told.
#[derive(Debug, Error)]
pub enum NotTold {
    /// The address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system.
    #[error("the admin listener cannot start: {0}")]
    Start(#[from] StartError<Infallible>),
}

/// What a pager left last, for who asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<Mutex<Seen>>);

impl Shown {
    pub(super) fn show(&self, seen: Seen) {
        *self.lock() = seen;
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells them at an address, also if asked by these names.
    ///
    /// # Errors
    /// [`NotTold`].
    pub(super) fn tell_at(&self, at: SocketAddr, names: Vec<String>) -> Result<Admin, NotTold> {
        let listener = Listener::bind(at, &ListenOptions::default())?;
        let setting = "--admin-hosts";
        let names = Names { names, setting };
        Ok(Admin::start(listener, names, self.clone())?)
    }
}

impl Observed for Shown {
    const PATHS: &str = "/, /healthz or /metrics";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        match path {
            b"/healthz" => Some(Told::health(None)),
            b"/metrics" => {
                let figures = self.lock().figures.clone();
                let encode = move |to: &mut rhythm_observe::Writer<'_>| figures.encode(to);
                let told = rhythm_observe::encode("rhythm_venice_run", encode);
                Some(Told::figures(told))
            }
            _ => dashboard::tell(path, || panels::of(&self.lock())),
        }
    }
}
