//! Who reads the ring beside the controller: the batches that the paper's rule makes of the
//! requests that came, by each size of a batch.

use super::super::super::error::ReproduceError;
use rhythm_rpo::Setting;
use rhythm_rpo::classifier::Classifier;
use rhythm_rpo::collector::{Ring, RingError, What};
use rhythm_rpo::policy::{Batches, Event, Majority, Policy};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The sizes of the paper's Table XV.
pub(super) const SIZES: [u32; 6] = [100, 40, 20, 10, 5, 1];
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

/// Batches of a size, in percent; HT-friendly and NOHT-friendly are the paper's words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Shares {
    /// Of the batches, those with a majority of HT-friendly requests.
    pub(super) friendly: f64,
    /// And the others.
    pub(super) unfriendly: f64,
    /// HT-friendly requests in the batches of the others.
    pub(super) friendly_among_others: f64,
    /// Requests that are not HT-friendly in HT-friendly batches.
    pub(super) others_among_friendly: f64,
}

/// What it saw, by the size of a batch.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) arrivals: u64,
    pub(super) shares: BTreeMap<u32, Shares>,
}

/// One who looks, until he is asked.
pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen, RingError>>,
}

fn failed(why: impl ToString) -> ReproduceError {
    ReproduceError::Server {
        server: "mod_rpo".to_owned(),
        said: why.to_string(),
    }
}

impl Watch {
    /// Looks from now on.
    pub(super) fn start(ring: &Path) -> Result<Watch, ReproduceError> {
        let ring = Ring::open(ring).map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&is_over);
        let thread = thread::spawn(move || look(ring, &stops));
        Ok(Watch { is_over, thread })
    }

    pub(super) fn end(self) -> Result<Seen, ReproduceError> {
        self.is_over.store(true, Ordering::Relaxed);
        let seen = self.thread.join();
        let seen = seen.map_err(|_| failed("who reads the ring panicked"))?;
        seen.map_err(failed)
    }
}

fn look(mut ring: Ring, is_over: &AtomicBool) -> Result<Seen, RingError> {
    let mut rules = Rules::new();
    let start = Instant::now();
    loop {
        let ends = is_over.load(Ordering::Relaxed);
        ring.look(start.elapsed(), |record| {
            if matches!(record.what, What::Arrived) {
                rules.arrived(record.method, record.path);
            }
        })?;
        if ends {
            return Ok(rules.seen());
        }
        thread::sleep(LOOK);
    }
}

/// The paper's rule, with each size.
struct Rules {
    classifier: Classifier,
    rules: Vec<(u32, Majority)>,
    arrivals: u64,
}

impl Rules {
    fn new() -> Rules {
        let classifier = Classifier::tpcw();
        let rule = |size: u32| (size, Majority::with_batch(classifier.table(), size));
        Rules {
            rules: SIZES.map(rule).into(),
            classifier,
            arrivals: 0,
        }
    }

    fn arrived(&mut self, method: &str, path: &str) {
        self.arrivals += 1;
        let event = Event::Arrived(self.classifier.classify(method, path));
        for (_, rule) in &mut self.rules {
            // What it would do is the controller's.
            let _ = rule.on(&event, Duration::ZERO);
        }
    }

    fn seen(&self) -> Seen {
        let shares = self.rules.iter().filter_map(|(size, rule)| {
            let shares = shares(rule.batches()?);
            Some((*size, shares))
        });
        Seen {
            arrivals: self.arrivals,
            shares: shares.collect(),
        }
    }
}

fn shares(batches: &Batches) -> Shares {
    let percent = |share: f64| share * 100.0;
    Shares {
        friendly: percent(batches.share(Setting::AllThreads)),
        unfriendly: percent(batches.share(Setting::OnePerCore)),
        friendly_among_others: percent(batches.minority(Setting::OnePerCore)),
        others_among_friendly: percent(batches.minority(Setting::AllThreads)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_each_size_are_counted() {
        let mut rules = Rules::new();
        // Of each five two are not HT-friendly.
        for _ in 0..20 {
            for path in ["/", "/item/7", "/new", "/cart", "/search"] {
                rules.arrived("GET", path);
            }
        }
        let seen = rules.seen();
        assert_eq!(seen.arrivals, 100);
        let five = seen.shares[&5];
        assert_eq!((five.friendly, five.others_among_friendly), (100.0, 40.0));
        let one = seen.shares[&1];
        assert_eq!((one.friendly, one.unfriendly), (60.0, 40.0));
        assert_eq!(
            (one.friendly_among_others, one.others_among_friendly),
            (0.0, 0.0)
        );
    }
}
