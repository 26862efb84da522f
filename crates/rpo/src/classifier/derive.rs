//! Derives whom classes are friendly to, from logs.

use super::Friendly;
use super::glob::literal;
use super::log::{Counted, Counts};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use toml_writer::TomlWrite;

/// What shares of a log differ by at least if it is more than rounding.
const ROUNDING: f64 = 1e-9;

/// The paper's rule (section III-A): what is more frequent in the log of a mix that is faster with
/// all threads than in that of one that is not is HT-friendly, and the other way round. What is in
/// neither, or equally frequent, is not classified.
#[must_use]
pub fn by_frequency(all_threads: &Counts, one_per_core: &Counts) -> BTreeMap<String, Friendly> {
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

/// The paper's other way (its footnote 1), by how long answers are: there are two groups of
/// classes, those whose answers are shorter in the mean and those whose are longer, parted where
/// the logs differ most. Each group is friendly to the setting of the log in which it is more
/// frequent. So it says something of classes of which the logs, class by class, say nothing. Where
/// no two groups differ, nothing is classified.
#[must_use]
pub fn by_size(all_threads: &Counts, one_per_core: &Counts) -> BTreeMap<String, Friendly> {
    let (all, one) = (&all_threads.classes, &one_per_core.classes);
    let names: BTreeSet<&String> = all.keys().chain(one.keys()).collect();
    let size = |name: &str| mean_size(all_threads, one_per_core, name);
    let mut sized: Vec<_> = names.into_iter().map(|name| (size(name), name)).collect();
    sized.sort_by(|one, other| one.0.total_cmp(&other.0));
    // How much more frequent the shorter ones are in the first log.
    let mut more = 0.0;
    let places = sized.windows(2).enumerate().filter_map(|(index, pair)| {
        let [(size, name), (next, _)] = pair else {
            return None;
        };
        more += share(all_threads, name) - share(one_per_core, name);
        // Of places that differ by rounding alone, the one with the larger step is meant.
        let differs = (more.abs() / ROUNDING).round();
        (size < next && differs > 0.0).then_some((differs, next / size.max(1.0), more, index))
    });
    let place =
        places.max_by(|one, other| (one.0.total_cmp(&other.0)).then(one.1.total_cmp(&other.1)));
    let Some((_, _, more, last)) = place else {
        return BTreeMap::new();
    };
    let mut settings = [Friendly::AllThreads, Friendly::OnePerCore];
    if more < 0.0 {
        settings.reverse();
    }
    let setting = |index| settings[usize::from(index > last)];
    let sized = (0..).zip(&sized);
    sized
        .map(|(index, (_, name))| ((*name).clone(), setting(index)))
        .collect()
}

/// The part of a log's requests that is of this class.
fn share(counts: &Counts, name: &str) -> f64 {
    let requests = counts.classes.get(name).map_or(0, |one| one.requests);
    requests as f64 / counts.total().max(1) as f64
}

/// How many bytes answers of this class have in the mean, in both logs.
fn mean_size(all_threads: &Counts, one_per_core: &Counts, name: &str) -> f64 {
    let both = [all_threads, one_per_core].map(|counts| counts.classes.get(name).copied());
    let sum = |of: fn(Counted) -> u64| {
        both.iter()
            .flatten()
            .map(|one| of(*one) as f64)
            .sum::<f64>()
    };
    sum(|one| one.bytes) / sum(|one| one.requests).max(1.0)
}

/// How it is said of classes whom they are friendly to, by the log of a mix that is faster with all
/// threads and that of one that is not.
pub type Rule = fn(&Counts, &Counts) -> BTreeMap<String, Friendly>;

/// What a rule says as text: the tables `[[class]]` of a file for `rhythm rpo --config`. The logs
/// were counted by classes that are the first part of a path ([`Classifier::default`]); so a class
/// has that part, and all below it.
///
/// [`Classifier::default`]: super::Classifier::default
#[must_use]
pub fn tables(all_threads: &Counts, one_per_core: &Counts, rule: Rule) -> String {
    let mut text = String::new();
    for (name, friendly) in rule(all_threads, one_per_core) {
        // The class of what is of none has no path.
        let Some((method, path)) = name.split_once(' ') else {
            continue;
        };
        let own = format!("{method} {}", literal(path));
        // Of the home page it is what begins with two slashes.
        let below = format!("{own}/**");
        let setting = match friendly {
            Friendly::AllThreads => "all-threads",
            Friendly::OnePerCore => "one-per-core",
        };
        let [with, without] = [all_threads, one_per_core].map(|log| share(log, &name) * 100.0);
        let size = mean_size(all_threads, one_per_core, &name);
        let seen = format!("{with:.1} % against {without:.1} %, of {size:.0} bytes");
        // Writing to a text cannot fail.
        let _ = table(&mut text, &seen, &name, &[&own, &below], setting);
    }
    text
}

fn table(
    text: &mut String,
    seen: &str,
    name: &str,
    patterns: &[&str],
    friendly: &str,
) -> fmt::Result {
    writeln!(text, "[[class]]    # {seen}")?;
    text.write_str("name = ")?;
    text.value(name)?;
    text.write_str("\npatterns = ")?;
    text.value(patterns)?;
    text.write_str("\nfriendly = ")?;
    text.value(friendly)?;
    text.write_str("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::{Classifier, log};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Printed {
        class: Vec<Class>,
    }

    /// As `--config` reads it.
    #[derive(Deserialize)]
    struct Class {
        name: String,
        patterns: Vec<String>,
        friendly: Friendly,
    }

    #[test]
    fn what_is_printed_classifies_each_path_as_the_logs_did() {
        let paths = [
            "/",
            "//x",
            "/item/7",
            "/item",
            "/cart/a/b",
            "/a*c",
            "/abc",
            r"/a\*c",
            "/\u{7f}\u{1}",
            "/'",
            "*",
        ];
        let mut own = Classifier::default();
        let mut counted = |weight: fn(usize) -> usize| {
            let line = |path: &str| format!("h - - [t] \"GET {path} HTTP/1.1\" 200 7");
            let lines = (paths.iter().enumerate())
                .flat_map(|(index, path)| vec![line(path); weight(index)]);
            log::count(lines, &mut own)
        };
        let (all, one) = (
            counted(|index| 1 + index),
            counted(|index| 1 + index * index),
        );
        let printed = tables(&all, &one, by_frequency);
        let read: Printed = toml::from_str(&printed).expect(&printed);
        assert!(read.class.len() > 5, "{printed}");
        let mut classifier = Classifier::closed();
        for class in &read.class {
            for pattern in &class.patterns {
                let friendly = Some(class.friendly);
                classifier
                    .rule(pattern, &class.name, friendly)
                    .expect("a pattern");
            }
        }
        for path in paths {
            let (made, given) = (own.learn("GET", path), classifier.classify("GET", path));
            let name = &classifier.table().get(given).name;
            assert_eq!(own.table().get(made).name, *name, "{path:?} {printed}");
        }
    }

    fn counts(classes: &[(&str, u64)]) -> Counts {
        let sized: Vec<_> = classes
            .iter()
            .map(|&(name, count)| (name, count, 0))
            .collect();
        counts_of_sizes(&sized)
    }

    /// Of each class, how many there are, and how many bytes one has.
    fn counts_of_sizes(classes: &[(&str, u64, u64)]) -> Counts {
        let counted = |requests, size| Counted {
            requests,
            bytes: requests * size,
        };
        let classes = classes
            .iter()
            .map(|&(name, count, size)| (name.to_owned(), counted(count, size)));
        Counts {
            classes: classes.collect(),
            unreadable: 0,
        }
    }

    #[test]
    fn the_shorter_ones_and_the_longer_ones_are_two_groups() {
        // Of the longer ones `x` is more frequent in the first log: its group is not.
        let of = |numbers: [u64; 5]| {
            let sizes = [("a", 100), ("b", 200), ("y", 800), ("x", 900), ("z", 999)];
            let classes = sizes.iter().zip(numbers);
            let classes = classes.map(|(&(name, size), number)| (name, number, size));
            counts_of_sizes(&classes.collect::<Vec<_>>())
        };
        let (small, large) = (of([60, 20, 5, 12, 3]), of([10, 15, 10, 10, 55]));
        let by_name = by_frequency(&small, &large);
        assert_eq!(by_name.get("x"), Some(&Friendly::AllThreads));
        let friendly = by_size(&small, &large);
        for (name, setting) in [
            ("a", Friendly::AllThreads),
            ("b", Friendly::AllThreads),
            ("x", Friendly::OnePerCore),
            ("y", Friendly::OnePerCore),
            ("z", Friendly::OnePerCore),
        ] {
            assert_eq!(friendly.get(name), Some(&setting), "{name}");
        }
        // The other way round, and where there is nothing to part.
        let swapped = by_size(&large, &small);
        assert_eq!(swapped.get("a"), Some(&Friendly::OnePerCore));
        assert_eq!(swapped.get("z"), Some(&Friendly::AllThreads));
        let alike = [("a", 1, 5), ("b", 2, 5)].map(|one| counts_of_sizes(&[one]));
        assert!(by_size(&alike[0], &alike[1]).is_empty());
        assert!(by_size(&small, &small).is_empty());
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
