//! What all threads of a server share, and what the commands need of it: the store, the settings,
//! the counters, the time.

mod clock;
mod connected;
mod counters;
mod figures;
mod prefixes;
mod settings;
mod standing;

pub use clock::{Clock, Start};
pub use connected::{Connected, Place};
pub use counters::{Counter, Counters};
pub(crate) use figures::Figures;
pub use prefixes::Prefixes;
pub(crate) use settings::CHUNK_MAX;
pub use settings::{Listen, MEMORY_GROWTH, Settings};
pub(crate) use standing::Standing;

use crate::ring::View;
use crate::store::Store;
use crate::wire::Rules;
use rhythm_net::Time;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the server calls itself: the version of memcached whose commands it has, for clients that
/// look at it, and its own.
pub const VERSION: &str = concat!("1.6.45-rhythm-", env!("CARGO_PKG_VERSION"));
/// The release, as it is told beside that.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// How long a client says nothing before it is asked whether it is there, and with no answer for
/// some minutes its connection ends: machines that are gone would take all places in the end.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(60);
/// memcached's highest verbosity.
const VERBOSITY_MAX: u32 = 2;

/// What happens when a client shuts the server down; true: gracefully.
type OnShutDown = Box<dyn Fn(bool) + Send>;

/// What all threads share.
pub struct Shared {
    /// The items.
    pub store: Arc<Store>,
    /// What parsing needs of the settings, with the users at the start.
    pub rules: Rules,
    /// As the server was started.
    pub settings: Settings,
    /// Counts by the prefixes of keys (`stats detail`).
    pub prefixes: Prefixes,
    /// What is seen of the ring, if the server is a node of one.
    pub ring: Option<Arc<View>>,
    /// The clients of all threads.
    pub connected: Connected,
    /// What it was told since its start.
    pub(crate) standing: Arc<Standing>,
    /// It ends because another node has its place in the ring.
    pub(crate) is_replaced: AtomicBool,
    /// Each thread's.
    counters: Vec<Counters>,
    figures: Vec<Figures>,
    /// What they were at the last `stats reset`.
    baseline: Mutex<[u64; Counter::COUNT]>,
    verbosity: AtomicU32,
    on_shut_down: Mutex<OnShutDown>,
    start: Start,
}

impl Shared {
    /// For a server that starts then. `on_shut_down` is called when a client shuts it
    /// down; true: gracefully.
    pub fn new(
        settings: Settings,
        store: Arc<Store>,
        start: Start,
        on_shut_down: impl Fn(bool) + Send + 'static,
    ) -> Shared {
        Shared {
            store,
            rules: settings.rules(),
            prefixes: Prefixes::new(settings.prefix_delimiter, settings.detail),
            connected: Connected::default(),
            standing: Arc::new(Standing::new(Arc::clone(&settings.users))),
            is_replaced: AtomicBool::new(false),
            // One more for the thread of the ring, which executes commands, too.
            counters: (0..=settings.threads)
                .map(|_| Counters::default())
                .collect(),
            ring: (settings.ring.as_ref()).map(|ring| {
                let view = View::new(ring.placement(), ring.me);
                Arc::new(view.with_workers(settings.threads))
            }),
            figures: (0..settings.threads).map(|_| Figures::default()).collect(),
            baseline: Mutex::new([0; Counter::COUNT]),
            verbosity: AtomicU32::new(settings.verbosity),
            on_shut_down: Mutex::new(Box::new(on_shut_down)),
            settings,
            start,
        }
    }

    /// The counters of a thread.
    pub fn counters(&self, thread: usize) -> &Counters {
        &self.counters[thread]
    }

    /// What a thread tells of its loop.
    pub(crate) fn figures(&self, thread: usize) -> &Figures {
        &self.figures[thread]
    }

    /// What each thread tells of its loop.
    pub(crate) fn all_figures(&self) -> &[Figures] {
        &self.figures
    }

    /// What the clock shows.
    pub fn clock(&self, now: Time) -> Clock {
        self.start.clock(now)
    }

    /// A count over all threads, since the start.
    pub fn total(&self, counter: Counter) -> u64 {
        self.counters.iter().map(|of| of.get(counter)).sum()
    }

    /// A count over all threads, since the last `stats reset`.
    pub fn count(&self, counter: Counter) -> u64 {
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        self.total(counter).wrapping_sub(baseline[counter as usize])
    }

    /// `stats reset`.
    pub(crate) fn reset_stats(&self) {
        let mut baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        *baseline = Counter::ALL.map(|counter| self.total(counter));
        drop(baseline);
        self.store.reset_stats();
        self.prefixes.clear();
    }

    /// How much is told of what goes on.
    pub fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// The `verbosity` command.
    pub(crate) fn set_verbosity(&self, level: u32) {
        self.verbosity
            .store(level.min(VERBOSITY_MAX), Ordering::Relaxed);
    }

    /// The `shutdown` command.
    pub fn shut_down(&self, graceful: bool) {
        let act = self
            .on_shut_down
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        act(graceful);
    }
}
