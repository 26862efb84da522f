//! How the admin listener's thread asks another one.

use rhythm_observe::admin::Told;
use rhythm_observe::dashboard::{self, Dashboard};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// How long an answer may take: a disk that is slow keeps a monitor for a while.
const WITHIN: Duration = Duration::from_secs(3);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Health,
    Ready,
    Status,
    Metrics,
    Dashboard,
}

impl Asked {
    /// What is asked at a path.
    pub(crate) fn of(path: &[u8]) -> Option<Asked> {
        match path {
            b"/healthz" => Some(Asked::Health),
            b"/readyz" => Some(Asked::Ready),
            b"/status" => Some(Asked::Status),
            b"/metrics" => Some(Asked::Metrics),
            b"/dashboard.json" => Some(Asked::Dashboard),
            _ => None,
        }
    }
}

/// What is told at a path of the dashboard's, if it is one: who does not answer is shown so.
pub(crate) fn page(
    path: &[u8],
    server: &'static str,
    board: Result<Dashboard, &str>,
) -> Option<Told> {
    dashboard::tell(path, || {
        board.unwrap_or_else(|ailment| {
            let mut board = Dashboard::new(server, env!("CARGO_PKG_VERSION"), "ailing");
            board.alarm(format!("{ailment}: see the log"));
            board
        })
    })
}

/// Has `send` take the question to a thread, and waits for its answer.
pub(crate) fn ask<T>(send: impl FnOnce(SyncSender<T>)) -> Option<T> {
    let (to, from) = sync_channel(1);
    send(to);
    from.recv_timeout(WITHIN).ok()
}
