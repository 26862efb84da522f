//! What the admin listener tells of a server: whether it is well, and its figures.

mod metrics;
mod ring;

use super::orders::Order;
use crate::shared::Shared;
use rhythm_net::workers::Workers;
use rhythm_net::{Inbox, Listener, StartError, clock};
use rhythm_observe::admin::{self, Admin, Names, Observed, Told};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server, as the admin listener sees it.
struct Cache {
    shared: Arc<Shared>,
    workers: Arc<[Inbox<Order>]>,
    is_ending: Arc<AtomicBool>,
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
    };
    Admin::start(listener, names, cache)
}

impl Observed for Cache {
    const PATHS: &str = "/healthz, /readyz or /metrics";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        match path {
            b"/healthz" => {
                let ailment = match self.is_ending.load(Ordering::Acquire) {
                    true => None,
                    false => admin::ailment(&self.workers),
                };
                Some(Told::health(ailment))
            }
            b"/readyz" => {
                let view = self.shared.ring.as_ref();
                let ailment = match self.is_ending.load(Ordering::Acquire) {
                    true => Some("ending".to_owned()),
                    false => view.and_then(|view| view.ailment(clock::monotonic())),
                };
                Some(Told::health(ailment.as_deref()))
            }
            b"/metrics" => Some(Told::figures(metrics::encode(&self.shared))),
            _ => None,
        }
    }
}
