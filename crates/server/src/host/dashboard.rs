//! What the dashboard shows of a page server: its figures, their bounds, and whether it is well.

use crate::limits::memory::Memory;
use crate::limits::options::ServerOptions;
use crate::observe::metrics::{Bounds, Metrics};
use crate::site::Sites;
use rhythm_observe::dashboard::Dashboard;
use rhythm_observe::hangs;
use std::borrow::Cow;

/// A page server, as the dashboard sees it.
pub(super) struct Shown<'a> {
    /// What a new start would mend.
    pub(super) ailment: Option<Cow<'static, str>>,
    /// Why requests should go elsewhere.
    pub(super) absence: Option<&'static str>,
    pub(super) sites: &'a Sites,
    pub(super) options: &'a ServerOptions,
    pub(super) metrics: &'a Metrics,
    /// Where clients connect.
    pub(super) places: &'a str,
}

/// Makes it, of all that there is now.
pub(super) fn of(server: &Shown<'_>) -> Dashboard {
    let state = match (&server.ailment, server.absence) {
        (Some(_), _) => "ailing",
        (None, Some(why)) => why,
        (None, None) => "serving",
    };
    let mut board = Dashboard::new("rhythm serve", env!("CARGO_PKG_VERSION"), state);
    if let Some(ailment) = &server.ailment {
        let what = hangs::without_time(ailment);
        board.alarm(format!("{what}: see the log"));
    }
    let memory = Memory::of_sites(server.sites, server.options);
    // They are the whole server's.
    let limits = &server.sites.first().service.config.limits;
    let bounds = Bounds {
        lanes: memory.lanes,
        contexts: memory.contexts,
        connections: memory.connections,
        held: (memory.workers).saturating_mul(limits.worker_bytes_max as usize),
        memory: memory.sum(),
    };
    server.metrics.show(&mut board, &bounds);
    if !server.metrics.has_answered() {
        let places = server.places;
        board.hint(format!(
            "No request has come yet, so most of this is empty. Open a page of the site in a \
             browser (it listens at {places}), or have a load generator ask for one."
        ));
    }
    board
}
