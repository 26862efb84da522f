//! Derives whom classes are friendly to, from logs.

use super::Friendly;
use super::glob::literal;
use super::log::Counts;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use toml_writer::TomlWrite;

/// The paper's rule (section III-A): what is more frequent in the log of a mix that is faster with
/// all threads than in that of one that is not is HT-friendly, and the other way round. What is in
/// neither, or equally frequent, is not classified.
#[must_use]
pub(crate) fn by_frequency(
    all_threads: &Counts,
    one_per_core: &Counts,
) -> BTreeMap<String, Friendly> {
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

/// The same as text: the tables `[[class]]` of a file for `rhythm rpo --config`. The logs were
/// counted by classes that are the first part of a path ([`Classifier::default`]); so a class has
/// that part, and all below it.
///
/// [`Classifier::default`]: super::Classifier::default
#[must_use]
pub fn tables(all_threads: &Counts, one_per_core: &Counts) -> String {
    let mut text = String::new();
    for (name, friendly) in by_frequency(all_threads, one_per_core) {
        // The class of what is of none has no path.
        let Some((method, path)) = name.split_once(' ') else {
            continue;
        };
        let share = |counts: &Counts| {
            let requests = counts.classes.get(&name).map_or(0, |one| one.requests);
            requests as f64 * 100.0 / counts.total().max(1) as f64
        };
        let own = format!("{method} {}", literal(path));
        // Of the home page it is what begins with two slashes.
        let below = format!("{own}/**");
        let setting = match friendly {
            Friendly::AllThreads => "all-threads",
            Friendly::OnePerCore => "one-per-core",
        };
        let shares = [all_threads, one_per_core].map(share);
        // Writing to a text cannot fail.
        let _ = table(&mut text, shares, &name, &[&own, &below], setting);
    }
    text
}

fn table(
    text: &mut String,
    [with, without]: [f64; 2],
    name: &str,
    patterns: &[&str],
    friendly: &str,
) -> fmt::Result {
    writeln!(text, "[[class]]    # {with:.1} % against {without:.1} %")?;
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
        let printed = tables(&all, &one);
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
        let counted = |requests: u64| log::Counted { requests, bytes: 0 };
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
