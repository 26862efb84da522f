//! Derives whom classes are friendly to, from logs.

use super::Friendly;
use super::log::Counts;
use std::collections::BTreeMap;
use std::time::Duration;

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

/// By size (footnote 1): the mean service times of NOHT-friendly requests were two orders of
/// magnitude above those of the others. The border is where two neighbors, in the order of their
/// size, are furthest apart as a ratio; nothing is classified where that is less than
/// `least_ratio`.
#[must_use]
pub fn by_size(means: &BTreeMap<String, Duration>, least_ratio: f64) -> BTreeMap<String, Friendly> {
    let mut sizes: Vec<(&String, f64)> = means
        .iter()
        .filter(|(_, mean)| !mean.is_zero())
        .map(|(name, mean)| (name, mean.as_secs_f64()))
        .collect();
    sizes.sort_by(|left, right| left.1.total_cmp(&right.1));
    let border = sizes
        .windows(2)
        .map(|pair| (pair[1].1 / pair[0].1, pair[1].1))
        .filter(|(ratio, _)| *ratio >= least_ratio)
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let Some((_, border)) = border else {
        return BTreeMap::new();
    };
    let friendly = |size: f64| {
        if size < border {
            Friendly::AllThreads
        } else {
            Friendly::OnePerCore
        }
    };
    sizes
        .into_iter()
        .map(|(name, size)| (name.clone(), friendly(size)))
        .collect()
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

    #[test]
    fn sizes_part_where_they_are_furthest_apart() {
        let means = |means: &[(&str, u64)]| -> BTreeMap<String, Duration> {
            let mean = |mean: u64| Duration::from_micros(mean);
            means
                .iter()
                .map(|(name, micros)| ((*name).to_owned(), mean(*micros)))
                .collect()
        };
        let sizes = means(&[
            ("a", 900),
            ("b", 2_000),
            ("c", 90_000),
            ("d", 150_000),
            ("e", 0),
        ]);
        let friendly = by_size(&sizes, 5.0);
        assert_eq!(friendly.get("b"), Some(&Friendly::AllThreads));
        assert_eq!(friendly.get("c"), Some(&Friendly::OnePerCore));
        assert_eq!(friendly.get("e"), None, "never measured");
        assert!(by_size(&means(&[("a", 900), ("b", 2_000)]), 5.0).is_empty());
    }
}
