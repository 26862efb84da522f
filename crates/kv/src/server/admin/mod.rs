//! What the admin listener tells of a server: whether it is well, its figures, and the dashboard.

mod metrics;
mod panels;
mod ring;

use super::orders::Order;
use crate::shared::Shared;
use rhythm_net::workers::Workers;
use rhythm_net::{Inbox, Listener, StartError, clock};
use rhythm_observe::admin::{Admin, Names, Observed, Told};
use rhythm_observe::dashboard::{self, Dashboard};
use rhythm_observe::hangs::{self, Hangs};
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server, as the admin listener sees it.
struct Cache {
    shared: Arc<Shared>,
    workers: Arc<[Inbox<Order>]>,
    is_ending: Arc<AtomicBool>,
    hangs: Hangs,
}

/// Starts the admin listener's thread. `is_ending`: the workers were told to end, so that it is no
/// ailment if they do.
pub(super) fn start(
    listener: Listener,
    shared: Arc<Shared>,
    workers: &Workers<Order>,
    is_ending: &Arc<AtomicBool>,
) -> Result<Admin, StartError<Infallible>> {
    let names = Names {
        names: shared.settings.admin_hosts.clone(),
        setting: "--admin-hosts",
    };
    let cache = Cache {
        shared,
        workers: workers.inboxes().into(),
        is_ending: Arc::clone(is_ending),
        hangs: Hangs::default(),
    };
    Admin::start(listener, names, cache)
}

impl Cache {
    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// What a new start would mend.
    fn ailment(&self) -> Option<Cow<'static, str>> {
        match self.is_ending() {
            true => None,
            false => self.hangs.ailment(&self.workers),
        }
    }

    /// Why requests should go elsewhere, though a new start would mend nothing.
    fn absence(&self) -> Option<String> {
        let view = self.shared.ring.as_ref();
        match self.is_ending() {
            true => Some("ending".to_owned()),
            false => view.and_then(|view| view.ailment(clock::monotonic())),
        }
    }

    fn dashboard(&self) -> Dashboard {
        let (ailment, absence) = (self.ailment(), self.absence());
        let state = match (self.is_ending(), ailment.is_some() || absence.is_some()) {
            (true, _) => "ending",
            (false, true) => "ailing",
            (false, false) => "serving",
        };
        let mut board = Dashboard::new("rhythm kv", env!("CARGO_PKG_VERSION"), state);
        if let Some(ailment) = ailment {
            board.alarm(format!("{ailment}: see the log"));
        }
        if let Some(absence) = absence {
            board.alarm(absence);
        }
        panels::show(&self.shared, &mut board);
        board
    }
}

impl Observed for Cache {
    const PATHS: &str = "/ (the dashboard), /healthz, /readyz or /metrics";
    const LOOKS_EVERY: Option<Duration> = Some(hangs::LOOKS_EVERY);

    fn look(&self) {
        self.hangs.look(&self.workers);
    }

    fn tell(&self, path: &[u8]) -> Option<Told> {
        match path {
            b"/healthz" => Some(Told::health(self.ailment().as_deref())),
            b"/readyz" => {
                let absence = || self.absence().map(Cow::Owned);
                Some(Told::health(self.ailment().or_else(absence).as_deref()))
            }
            b"/metrics" => Some(Told::figures(metrics::encode(&self.shared))),
            _ => dashboard::tell(path, || self.dashboard()),
        }
    }
}
