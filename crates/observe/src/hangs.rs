//! Whether a worker hangs: no turn of a loop takes long, whatever is asked of it. What waits for a
//! disk, a database or another server is on threads of its own.

use crate::admin;
use rhythm_net::clock;
use rhythm_net::workers::{Hanging, Inbox, Watch};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Workers are to be looked at so often ([`admin::Observed::LOOKS_EVERY`]).
pub const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// A worker hangs that was at one turn for so many of these: turns take milliseconds, and where a
/// machine swaps, or others have the processor, they end long before.
const INTERVALS: u32 = 10;

/// Looks at workers, and tells the log of one that hangs.
#[derive(Debug, Default)]
pub struct Hangs(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    watch: Watch,
    told: Option<Hanging>,
}

impl Hangs {
    /// To be called [so often](LOOKS_EVERY).
    pub fn look<C>(&self, workers: &[Inbox<C>]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.watch.look(workers);
        let hanging = seen.watch.hanging(workers, INTERVALS);
        if hanging != seen.told {
            match hanging {
                Some(Hanging { worker, since }) => tracing::error!(
                    worker,
                    seconds = clock::monotonic().since(since).as_secs(),
                    "a worker hangs: its connections are not answered; where that goes on, start \
                     the server anew"
                ),
                None => tracing::warn!("no worker hangs any more"),
            }
            seen.told = hanging;
        }
    }

    /// What a new start of these workers' process would mend: beside what shows at once
    /// ([`admin::ailment`]), that one hangs. None, where they are well.
    pub fn ailment<C>(&self, workers: &[Inbox<C>]) -> Option<Cow<'static, str>> {
        let hanging = || {
            let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            seen.watch.hanging(workers, INTERVALS).map(in_words)
        };
        let at_once = admin::ailment(workers).map(Cow::Borrowed);
        at_once.or_else(|| hanging().map(Cow::Owned))
    }
}

/// That a worker hangs, for who looks.
#[must_use]
pub fn in_words(hanging: Hanging) -> String {
    let Hanging { worker, since } = hanging;
    let seconds = clock::monotonic().since(since).as_secs();
    format!("worker {worker} hangs: it is at one turn of its loop for {seconds} s")
}
