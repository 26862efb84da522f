//! What is said of circuits in the log: each worker has one to each backend, and what happens to
//! the backend happens to all of them, so that it is said once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How many circuits to backends of each name are not closed, in all of the process.
static FAILING: Mutex<BTreeMap<Box<str>, usize>> = Mutex::new(BTreeMap::new());

/// That one of a backend's circuits is not closed, until this is dropped.
#[derive(Debug)]
pub(super) struct Failing {
    backend: Box<str>,
}

impl Failing {
    /// One is closed no more, and whether no other was.
    pub(super) fn begin(backend: &str) -> (Failing, bool) {
        let mut all = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(backend.into()).or_default();
        *count += 1;
        let failing = Failing {
            backend: backend.into(),
        };
        (failing, *count == 1)
    }

    /// It is closed again. Whether all are now.
    pub(super) fn end(self) -> bool {
        let all = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&self.backend) == Some(&1)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        let mut all = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.backend) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.backend);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_news() {
        let begin = || Failing::begin("of this test alone");
        let (first, is_first) = begin();
        let (second, is_second) = begin();
        assert!(is_first && !is_second);
        assert!(!first.end());
        // A worker ends while its circuit is open.
        let (third, is_third) = begin();
        drop(third);
        assert!(!is_third && second.end());
        assert!(begin().1, "it begins anew");
    }
}
