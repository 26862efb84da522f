//! What is said of circuits in the log: each worker has one to each backend, and what happens to
//! the backend happens to all of them, so that it is said once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Which backend it is: services that are served beside each other may call theirs the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Named {
    /// The label of its service, where there are several.
    pub(in super::super) service: Option<Box<str>>,
    pub(in super::super) backend: Box<str>,
}

/// How many circuits to each backend are not closed, in all of the process.
static FAILING: Mutex<BTreeMap<Named, usize>> = Mutex::new(BTreeMap::new());

/// That one of a backend's circuits is not closed, until this is dropped.
#[derive(Debug)]
pub(super) struct Failing {
    named: Named,
}

impl Failing {
    /// One is closed no more, and whether no other was.
    pub(super) fn begin(named: &Named) -> (Failing, bool) {
        let mut all = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(named.clone()).or_default();
        *count += 1;
        let failing = Failing {
            named: named.clone(),
        };
        (failing, *count == 1)
    }

    /// It is closed again. Whether all are now.
    pub(super) fn end(self) -> bool {
        let all = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&self.named) == Some(&1)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        let mut all = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.named) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.named);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(service: Option<&str>) -> Named {
        Named {
            service: service.map(Into::into),
            backend: "of these tests alone".into(),
        }
    }

    #[test]
    fn the_first_and_the_last_are_news() {
        let begin = || Failing::begin(&named(None));
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

    #[test]
    fn backends_of_one_name_are_each_their_services() {
        let (bank, is_first_of_bank) = Failing::begin(&named(Some("bank")));
        let (shop, is_first_of_shop) = Failing::begin(&named(Some("shop")));
        assert!(is_first_of_bank && is_first_of_shop);
        assert!(bank.end() && shop.end());
    }
}
