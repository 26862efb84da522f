//! The end of a server that something may keep from ending.

use crate::logs;
use std::process;
use std::thread;
use std::time::Duration;

/// The time that workers, and the access log, take to end once nothing is waited for.
pub(crate) const ENDING_MAX: Duration = Duration::from_secs(5);

/// Ends the process after this time, if it does not before: something hangs.
pub(crate) fn exit_after(limit: Duration) {
    thread::spawn(move || {
        thread::sleep(limit);
        tracing::error!("something does not end: leaving without it");
        logs::finish();
        process::exit(1);
    });
}
