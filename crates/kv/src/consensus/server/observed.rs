//! What the admin listener tells of a node: health, figures, the dashboard.

use super::figures::{Figures, encode};
use super::panels;
use crate::consensus::journal::SyncTimes;
use rhythm_net::{Inbox, clock};
use rhythm_observe::admin::{self, Observed, Told};
use rhythm_observe::{Writer, dashboard};
use std::sync::Arc;
use std::time::Duration;

/// A node, as the admin listener sees it.
pub(super) struct Observable<C> {
    pub(super) figures: Arc<Figures>,
    pub(super) syncs: Arc<SyncTimes>,
    pub(super) worker: Inbox<C>,
}

impl<C> Observable<C> {
    /// For how long its thread has been at the turn at hand.
    fn turn(&self) -> Duration {
        let began = self.worker.turn_began();
        began.map_or(Duration::ZERO, |began| clock::monotonic().since(began))
    }
}

impl<C: Send + 'static> Observed for Observable<C> {
    const PATHS: &str = "/ (the dashboard), /healthz, /readyz or /metrics";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        match path {
            b"/healthz" => {
                let worker = std::slice::from_ref(&self.worker);
                let is_ending = self.figures.leaves.get() > 0;
                let ailment = admin::ailment(worker).filter(|_| !is_ending);
                Some(Told::health(ailment))
            }
            b"/readyz" => Some(Told::health(self.figures.ailment(self.turn()).as_deref())),
            b"/metrics" => {
                let (figures, syncs) = (Arc::clone(&self.figures), Arc::clone(&self.syncs));
                let turn = self.turn();
                let tell = move |to: &mut Writer<'_>| encode(&figures, &syncs, turn, to);
                Some(Told::figures(rhythm_observe::encode(
                    "rhythm_keyspace",
                    tell,
                )))
            }
            _ => dashboard::tell(path, || {
                let ailment = self.figures.ailment(self.turn());
                panels::of(&self.figures, &self.syncs, ailment)
            }),
        }
    }
}
