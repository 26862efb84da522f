//! Whether a worker hangs: no turn of a loop takes long, whatever is asked of it. For servers in
//! which what waits for a disk, a database or another server is on threads of its own: a node of a
//! keyspace waits for its disk in turns, and a new start would mend no disk.

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

/// Behind that a worker hangs, in front of for how long.
const FOR: &str = ": it is at one turn of its loop for ";

/// What ails a server, without what changes each second: a dashboard's alarm is read out whenever
/// it is another.
#[must_use]
pub fn without_time(ailment: &str) -> &str {
    ailment.split_once(FOR).map_or(ailment, |(what, _)| what)
}

/// That a worker hangs, for who looks.
#[must_use]
pub fn in_words(hanging: Hanging) -> String {
    let Hanging { worker, since } = hanging;
    let seconds = clock::monotonic().since(since).as_secs();
    format!("worker {worker} hangs{FOR}{seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_the_same_for_as_long_as_a_worker_hangs() {
        let since = clock::monotonic();
        let said = in_words(Hanging { worker: 3, since });
        assert_eq!(
            said,
            "worker 3 hangs: it is at one turn of its loop for 0 s"
        );
        assert_eq!(without_time(&said), "worker 3 hangs");
        assert_eq!(without_time("catching up: of 7"), "catching up: of 7");
    }
}
