//! Derives whom classes are friendly to, from logs.

use super::Friendly;
use super::log::Counts;
use std::collections::BTreeMap;

/// The paper's rule (section III-A): what is more frequent in the log of a mix that is faster with
/// all threads than in that of one that is not is HT-friendly, and the other way round. What is in
/// neither, or equally frequent, is not classified.
#[must_use]
pub fn by_frequency(all_threads: &Counts, one_per_core: &Counts) -> BTreeMap<String, Friendly> {
    let share = |counts: &Counts, name: &str| {
        let requests = counts.classes.get(name).map_or(0, |one| one.requests);
        requests as f64 / counts.total().max(1) as f64
    };
    let names = all_threads
        .classes
        .keys()
        .chain(one_per_core.classes.keys());
    let mut friendly = BTreeMap::new();
    for name in names {
        let (with, without) = (share(all_threads, name), share(one_per_core, name));
        if with > without {
            friendly.insert(name.clone(), Friendly::AllThreads);
        } else if without > with {
            friendly.insert(name.clone(), Friendly::OnePerCore);
        }
    }
    friendly
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::log::Counted;

    fn counts(classes: &[(&str, u64)]) -> Counts {
        let counted = |requests: u64| Counted { requests, bytes: 0 };
        let classes = classes
            .iter()
            .map(|(name, count)| ((*name).to_owned(), counted(*count)));
        Counts {
            classes: classes.collect(),
            unreadable: 0,
        }
    }

    #[test]
    fn more_frequent_in_one_log_than_in_the_other() {
        // Shares count, not numbers: the second log is ten times as long.
        let browsing = counts(&[("home", 29), ("cart", 2), ("same", 10), ("only", 9)]);
        let ordering = counts(&[("home", 91), ("cart", 135), ("same", 100), ("rest", 174)]);
        let friendly = by_frequency(&browsing, &ordering);
        assert_eq!(friendly.get("home"), Some(&Friendly::AllThreads));
        assert_eq!(friendly.get("cart"), Some(&Friendly::OnePerCore));
        assert_eq!(friendly.get("same"), None);
        assert_eq!(friendly.get("only"), Some(&Friendly::AllThreads));
        assert_eq!(friendly.get("rest"), Some(&Friendly::OnePerCore));
    }
}
