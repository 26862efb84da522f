//! What the admin listener tells of a page server: health, metrics, the effective configuration,
//! and the dashboard.
//!
//! It answers before the workers begin, and until they have ended. Healthy is a server that needs
//! no new start; ready is one that is to be sent requests.

use crate::host::config;
use crate::host::dashboard::{self, Shown};
use crate::limits::options::ServerOptions;
use crate::observe::metrics::Metrics;
use crate::site::current::Current;
use rhythm_net::workers::Inbox;
use rhythm_observe::admin::{Observed, Told};
use rhythm_observe::dashboard::{self as page, Dashboard};
use rhythm_observe::hangs::{self, Hangs};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The inboxes of the workers, once these serve: they tell which have ended, and which hang.
pub(crate) type Started<C> = Arc<OnceLock<Vec<Inbox<C>>>>;

/// A page server, as the admin listener sees it.
#[derive(Debug)]
pub(crate) struct PageServer<C> {
    pub(crate) current: Arc<Current>,
    pub(crate) workers: Started<C>,
    pub(crate) hangs: Hangs,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) options: ServerOptions,
    /// Where clients connect.
    pub(crate) places: String,
    /// As [`config::json`] has it.
    pub(crate) inherited: Vec<(&'static str, String)>,
}

impl<C> PageServer<C> {
    /// What a new start would mend. Of a server that drains, workers end when they have no more to
    /// do.
    fn ailment(&self) -> Option<Cow<'static, str>> {
        if self.current.drain().is_some() {
            return None;
        }
        self.hangs.ailment(self.workers())
    }

    fn workers(&self) -> &[Inbox<C>] {
        self.workers.get().map_or(&[], Vec::as_slice)
    }

    /// Why requests should go elsewhere.
    fn absence(&self) -> Option<&'static str> {
        match (self.workers.get(), self.current.drain()) {
            (_, Some(_)) => Some("draining"),
            (None, None) => Some("starting"),
            (Some(_), None) => None,
        }
    }

    fn dashboard(&self) -> Dashboard {
        dashboard::of(&Shown {
            ailment: self.ailment(),
            absence: self.absence(),
            sites: &self.current.sites(),
            options: &self.options,
            metrics: &self.metrics,
            places: &self.places,
        })
    }
}

impl<C: Send + 'static> Observed for PageServer<C> {
    const PATHS: &str = "/ (the dashboard), /healthz, /readyz, /metrics or /config";
    const LOOKS_EVERY: Option<Duration> = Some(hangs::LOOKS_EVERY);

    fn look(&self) {
        self.hangs.look(self.workers());
    }

    fn tell(&self, path: &[u8]) -> Option<Told> {
        match path {
            b"/healthz" => Some(Told::health(self.ailment().as_deref())),
            b"/readyz" => {
                let why = self.ailment().or_else(|| self.absence().map(Cow::Borrowed));
                Some(Told::health(why.as_deref()))
            }
            b"/metrics" => Some(Told::figures(self.metrics.encode())),
            b"/config" => {
                let (configs, sites) = (self.current.configs(), self.current.sites());
                let json = config::json(&configs, &sites, &self.options, &self.inherited);
                Some(Told::json(json))
            }
            _ => page::tell(path, || self.dashboard()),
        }
    }
}
