//! What the admin listener tells of a server: whether it is well, its figures, and the dashboard.

mod metrics;
mod panels;
mod ring;

use super::orders::Order;
use crate::shared::{Settings, Shared};
use rhythm_net::workers::Workers;
use rhythm_net::{Inbox, Listener, StartError, clock};
use rhythm_observe::admin::{Admin, Names, Observed, Told};
use rhythm_observe::dashboard::{self, Dashboard};
use rhythm_observe::hangs::{self, Hangs};
use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A server, as the admin listener sees it.
struct Cache {
    shared: Arc<Shared>,
    workers: Arc<[Inbox<Order>]>,
    is_ending: Arc<AtomicBool>,
    hangs: Hangs,
}

/// What is told of: nothing but that it starts, until there is a server.
#[derive(Default)]
struct Door {
    cache: OnceLock<Cache>,
    /// What its start waits for.
    waits_for: Mutex<String>,
}

/// As the admin listener's thread has it.
struct Seen(Arc<Door>);

/// The admin listener, if there is to be one. Its thread begins before the server does, which may
/// wait for long, and ends with this.
pub(super) struct Listening {
    admin: Option<Admin>,
    door: Arc<Door>,
}

impl Listening {
    pub(super) fn start(
        listener: Option<Listener>,
        settings: &Settings,
    ) -> Result<Listening, StartError<Infallible>> {
        let names = Names {
            names: settings.admin_hosts.clone(),
            setting: "--admin-hosts",
        };
        let door = Arc::new(Door::default());
        let seen = Seen(Arc::clone(&door));
        let admin = listener.map(|listener| Admin::start(listener, names, seen));
        Ok(Listening {
            admin: admin.transpose()?,
            door,
        })
    }

    /// The start of the server waits for something.
    pub(super) fn waits_for(&self, what: &str) {
        let waits_for = self.door.waits_for.lock();
        what.clone_into(&mut waits_for.unwrap_or_else(PoisonError::into_inner));
    }

    /// There is a server. `is_ending`: its workers were told to end, so that it is no ailment if
    /// they do.
    pub(super) fn serves(
        &self,
        shared: &Arc<Shared>,
        workers: &Workers<Order>,
        is_ending: &Arc<AtomicBool>,
    ) {
        self.door.cache.get_or_init(|| Cache {
            shared: Arc::clone(shared),
            workers: workers.inboxes().into(),
            is_ending: Arc::clone(is_ending),
            hangs: Hangs::default(),
        });
    }

    /// Where it listens, if it does.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(admin) = self.admin.take() {
            admin.stop();
        }
    }
}

impl Door {
    /// Why requests should go elsewhere, before there is a server.
    fn absence(&self) -> String {
        let waits_for = self.waits_for.lock();
        match &**waits_for.unwrap_or_else(PoisonError::into_inner) {
            "" => "starting".to_owned(),
            what => format!("starting: it waits for {what}"),
        }
    }
}

impl Observed for Seen {
    const PATHS: &str = "/ (the dashboard), /healthz, /readyz or /metrics";
    const LOOKS_EVERY: Option<Duration> = Some(hangs::LOOKS_EVERY);

    fn look(&self) {
        if let Some(cache) = self.0.cache.get() {
            cache.hangs.look(&cache.workers);
        }
    }

    fn tell(&self, path: &[u8]) -> Option<Told> {
        if let Some(cache) = self.0.cache.get() {
            return cache.tell(path);
        }
        match path {
            b"/healthz" => Some(Told::health(None)),
            b"/readyz" => Some(Told::health(Some(&self.0.absence()))),
            // There are none yet.
            b"/metrics" => Some(Told::figures(rhythm_observe::encode("rhythm_kv", |_| {
                Ok(())
            }))),
            _ => dashboard::tell(path, || {
                let version = env!("CARGO_PKG_VERSION");
                let mut board = Dashboard::new("rhythm kv", version, "starting");
                board.alarm(self.0.absence());
                board
            }),
        }
    }
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
            let what = hangs::without_time(&ailment);
            board.alarm(format!("{what}: see the log"));
        }
        if let Some(absence) = absence {
            board.alarm(absence);
        }
        panels::show(&self.shared, &mut board);
        board
    }
}

impl Cache {
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
