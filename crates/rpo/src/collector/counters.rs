//! Counters of a server in this process: what it has counted of each page, read from time to time.
//!
//! A server that counts its requests anyway pays nothing for being watched so. What came between
//! two looks is told at once: so many arrivals, and so many completions that took as long as they
//! did in the mean.

use super::record::Counts;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Most requests of a page that are told of a look, each as one: what is beyond says nothing new.
const TOLD_MAX: u64 = 4096;
/// Most pages that are known.
const PAGES_MAX: usize = 4096;

/// What has been counted of a page since its server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were answered.
    pub completed: u64,
    /// Of these, those at which the server failed.
    pub failed: u64,
    /// How long all that were answered took, together.
    pub took: Duration,
}

/// A server that counts.
pub trait Counting: Send {
    /// Gives each page, by a path that stands for it, and what has been counted of it.
    fn look(&mut self, each: &mut dyn FnMut(&str, Totals));
}

/// What happened to requests of a page between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// One came.
    Arrived,
    /// One was answered, well or not.
    Completed { took: Duration, ok: bool },
}

/// The counters of a server, and what they were.
pub(crate) struct Counters {
    source: Box<dyn Counting>,
    before: HashMap<String, Totals>,
    has_looked: bool,
    counts: Counts,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Counters {
    pub(crate) fn new(source: Box<dyn Counting>) -> Counters {
        Counters {
            source,
            before: HashMap::new(),
            has_looked: false,
            counts: Counts::default(),
        }
    }

    /// What it has told; those that were too many at once are lost.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Tells what happened since the last look, arrivals first: by path, and of each so many. What
    /// was before the first look is history.
    pub(crate) fn look(&mut self, mut each: impl FnMut(&str, Happened)) {
        let Counters {
            source,
            before,
            has_looked,
            counts,
        } = self;
        let is_first = !std::mem::replace(has_looked, true);
        source.look(&mut |path, now| {
            let has_room = before.len() < PAGES_MAX;
            let then = match before.get_mut(path) {
                Some(then) => std::mem::replace(then, now),
                None if !has_room => return,
                None => {
                    before.insert(path.to_owned(), now);
                    if is_first { now } else { Totals::default() }
                }
            };
            // A page that went and came back has begun anew.
            let then = if now.arrived < then.arrived || now.completed < then.completed {
                Totals::default()
            } else {
                then
            };
            let mut tell = |count: u64, what: Happened| {
                let told = count.min(TOLD_MAX);
                counts.lost = counts.lost.saturating_add(count - told);
                counts.records = counts.records.saturating_add(told);
                (0..told).for_each(|_| each(path, what));
            };
            let completed = now.completed - then.completed;
            let failed = now.failed.saturating_sub(then.failed).min(completed);
            let took = now.took.saturating_sub(then.took);
            let took = took.checked_div(completed.try_into().unwrap_or(u32::MAX));
            let took = took.unwrap_or_default();
            tell(now.arrived - then.arrived, Happened::Arrived);
            tell(completed - failed, Happened::Completed { took, ok: true });
            tell(failed, Happened::Completed { took, ok: false });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Pages(Arc<Mutex<Vec<(&'static str, Totals)>>>);

    impl Pages {
        fn are(&self, pages: &[(&'static str, [u64; 4])]) {
            let totals = |[arrived, completed, failed, ms]: [u64; 4]| Totals {
                arrived,
                completed,
                failed,
                took: Duration::from_millis(ms),
            };
            let pages = pages.iter().map(|(name, of)| (*name, totals(*of)));
            *self.0.lock().expect("no panic") = pages.collect();
        }
    }

    impl Counting for Pages {
        fn look(&mut self, each: &mut dyn FnMut(&str, Totals)) {
            for (name, totals) in self.0.lock().expect("no panic").iter() {
                each(name, *totals);
            }
        }
    }

    fn told(counters: &mut Counters) -> Vec<(String, Happened)> {
        let mut told = Vec::new();
        counters.look(|path, happened| told.push((path.to_owned(), happened)));
        told
    }

    #[test]
    fn what_is_between_two_looks_is_told() {
        let pages = Pages::default();
        let mut counters = Counters::new(Box::new(pages.clone()));
        pages.are(&[("/home", [1000, 999, 3, 5000])]);
        assert_eq!(told(&mut counters), [], "history");
        pages.are(&[("/cart", [1, 0, 0, 0]), ("/home", [1002, 1002, 4, 5006])]);
        let took = Duration::from_millis(2);
        let home = |what| ("/home".to_owned(), what);
        let expected = [
            ("/cart".to_owned(), Happened::Arrived),
            home(Happened::Arrived),
            home(Happened::Arrived),
            home(Happened::Completed { took, ok: true }),
            home(Happened::Completed { took, ok: true }),
            home(Happened::Completed { took, ok: false }),
        ];
        assert_eq!(told(&mut counters), expected);
        assert_eq!(told(&mut counters), []);
        // A page that a reload took away, and another gave back.
        pages.are(&[("/home", [1, 1, 0, 2])]);
        let again = [
            home(Happened::Arrived),
            home(Happened::Completed { took, ok: true }),
        ];
        assert_eq!(told(&mut counters), again);
        assert_eq!(counters.counts().records, 8);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let pages = Pages::default();
        let mut counters = Counters::new(Box::new(pages.clone()));
        pages.are(&[]);
        assert_eq!(told(&mut counters), []);
        pages.are(&[("/home", [1 << 40, 0, 0, 0])]);
        assert_eq!(told(&mut counters).len() as u64, TOLD_MAX);
        assert_eq!(counters.counts().lost, (1 << 40) - TOLD_MAX);
    }
}
