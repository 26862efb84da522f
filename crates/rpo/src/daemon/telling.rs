//! What a controller tells of itself, to whom: its admin listener, and who started it.

use super::panels;
use super::status::Snapshot;
use rhythm_observe::admin::{Observed, Told};
use rhythm_observe::dashboard::{self, Dashboard, Shows};
use std::sync::{Arc, Mutex, PoisonError};

/// What a controller tells of itself, for other threads: its admin listener's, and whoever started
/// it. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Status(Arc<Mutex<Snapshot>>);

impl Shows for Status {
    /// One panel, for the dashboard of the server that the controller is of.
    fn show(&self, board: &mut Dashboard) {
        panels::within(&self.get(), board);
    }
}

impl Status {
    pub(super) fn set(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    pub(super) fn get(&self) -> Snapshot {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Observed for Status {
    const PATHS: &str = "/ (the dashboard), /healthz, /status or /metrics";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        let snapshot = self.get();
        match path {
            b"/healthz" => Some(Told::health(snapshot.trouble.as_deref())),
            b"/status" => Some(Told::json(snapshot.json())),
            b"/metrics" => Some(Told::figures(snapshot.figures())),
            _ => dashboard::tell(path, || panels::of(&snapshot)),
        }
    }
}
