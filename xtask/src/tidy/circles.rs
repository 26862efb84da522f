//! No file imports in a circle, and no folder: of any two, at most one can be understood only after
//! the other. Files that import each other, however far round, are one file in disguise; so are
//! folders, even where no two of their files do.
//!
//! A module's own file (`mod.rs`, or `x.rs` beside `x/`) stands in its folder among the modules
//! below it, and with all of them in the folder above.

use super::finding::Finding;
use super::modules::Crate;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(crates: &[Crate]) -> Vec<Finding> {
    let findings = crates.iter().flat_map(|of| {
        let mut findings = of_files(of);
        // Where files form a circle, their folders do so for it.
        let known: BTreeSet<(String, usize)> = (findings.iter())
            .map(|found| (found.file.clone(), found.line))
            .collect();
        let folders = of_folders(of).into_iter();
        findings.extend(folders.filter(|found| !known.contains(&(found.file.clone(), found.line))));
        findings
    });
    findings.collect()
}

fn of_files(of: &Crate) -> Vec<Finding> {
    let message = |name: &str, to: &str, circle: usize| {
        format!(
            "`{name}` of {to} closes a circle of {circle} files: move what they share below them"
        )
    };
    closing(of, |file| Some(file.to_owned()), message)
}

fn of_folders(of: &Crate) -> Vec<Finding> {
    let mut levels: BTreeSet<Vec<&str>> = BTreeSet::new();
    for file in &of.files {
        let path = module(file);
        levels.extend((0..path.len()).map(|depth| path[..depth].to_vec()));
    }
    let mut findings = Vec::new();
    for level in levels {
        // The module of this folder that a file belongs to; the folder's own file is one, too.
        let unit = |file: &str| {
            let below = module(file);
            let below = below.strip_prefix(&level[..])?;
            Some(
                below
                    .first()
                    .map_or(String::new(), |unit| (*unit).to_owned()),
            )
        };
        let place = match level[..] {
            [] => "the crate".to_owned(),
            _ => format!("{}/", level.join("/")),
        };
        findings.extend(closing(of, unit, |name, to, circle| {
            format!(
                "`{name}` of {to} closes a circle of {circle} modules of {place}: move what they \
                 share below them"
            )
        }));
    }
    findings
}

/// The path of modules that a file stands for.
fn module(file: &str) -> Vec<&str> {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside);
    let mut path: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") || matches!(path[..], ["lib" | "main"]) {
        path.pop();
    }
    path
}

/// The imports that close circles between units, each of some files: one import a pair of units
/// says enough. `message` is given the name imported, its file, and the units of the circle.
fn closing(
    of: &Crate,
    unit: impl Fn(&str) -> Option<String>,
    message: impl Fn(&str, &str, usize) -> String,
) -> Vec<Finding> {
    let units: Vec<Option<String>> = of.files.iter().map(|file| unit(file)).collect();
    let mut to: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut arrows = Vec::new();
    for import in &of.imports {
        if let (Some(from), Some(into)) = (&units[import.from], &units[import.to])
            && from != into
        {
            to.entry(from).or_default().insert(into);
            arrows.push((from.as_str(), into.as_str(), import));
        }
    }
    let mut findings = Vec::new();
    let mut done = BTreeSet::new();
    for &unit in to.keys() {
        if done.contains(unit) {
            continue;
        }
        // A circle through this unit is all that it reaches and that reaches it.
        let forward = reached(&to, unit);
        if !forward.contains(unit) {
            continue;
        }
        let circle: BTreeSet<&str> = (forward.iter().copied())
            .filter(|other| reached(&to, other).contains(unit))
            .collect();
        done.extend(circle.iter().copied());
        let mut pairs = BTreeSet::new();
        for &(from, into, import) in &arrows {
            if circle.contains(from) && circle.contains(into) && pairs.insert((from, into)) {
                findings.push(Finding {
                    file: of.files[import.from].clone(),
                    line: import.line,
                    message: message(&import.name, &of.files[import.to], circle.len()),
                });
            }
        }
    }
    findings
}

/// All units that a unit leads to.
fn reached<'u>(to: &BTreeMap<&'u str, BTreeSet<&'u str>>, unit: &'u str) -> BTreeSet<&'u str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![unit];
    while let Some(at) = next.pop() {
        for &other in to.get(at).into_iter().flatten() {
            if reached.insert(other) {
                next.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::files::Tree;
    use super::super::modules;
    use super::*;

    /// The circles of one crate with these files.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("crates/a/Cargo.toml", "")];
        all.extend(files);
        let crates = modules::read(&Tree::of(&all)).expect("it is Rust");
        let short = |path: &str| path.trim_start_matches("crates/a/src/").to_owned();
        (check(&crates).into_iter())
            .map(|found| format!("{}:{} {}", short(&found.file), found.line, found.message))
            .map(|text| text.split(" closes").next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn two_files_that_take_from_each_other_are_a_circle() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b.rs", "use crate::c::C;\npub struct B(C);\n"),
            (
                "crates/a/src/c.rs",
                "pub struct C;\nfn f() { vec![super::b::B::new()]; }\n",
            ),
        ]);
        assert_eq!(
            found,
            [
                "b.rs:1 `C` of crates/a/src/c.rs",
                "c.rs:2 `B` of crates/a/src/b.rs"
            ]
        );
    }

    #[test]
    fn a_signpost_is_no_import_but_using_what_it_shows_is() {
        let child = (
            "crates/a/src/b.rs",
            "use crate::Shared;\npub struct B(Shared);\n",
        );
        let signpost = "mod b;\npub use b::B;\npub struct Shared;\n";
        assert!(circles(&[("crates/a/src/lib.rs", signpost), child]).is_empty());
        let user = format!("{signpost}fn f(b: B) {{}}\n");
        let found = circles(&[("crates/a/src/lib.rs", &user), child]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn an_item_counts_as_its_own_files_however_it_is_shown() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "pub mod m;\nmod user;\n"),
            (
                "crates/a/src/m/mod.rs",
                "mod low;\nmod high;\npub use low::*;\npub use high::High;\n",
            ),
            ("crates/a/src/m/low.rs", "pub struct Low;\n"),
            (
                "crates/a/src/m/high.rs",
                "use crate::m::Low;\npub struct High(Low);\n",
            ),
            (
                "crates/a/src/user.rs",
                "use crate::m::{self, High};\nfn f(h: High, l: m::Low) {}\n",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn folders_that_take_from_each_other_are_a_circle_though_their_files_are_none() {
        let below = ("crates/a/src/low/deep.rs", "pub struct Deep;\n");
        let upper = ("crates/a/src/high.rs", "mod part;\nuse crate::low::Low;\n");
        let part = ("crates/a/src/high/part.rs", "use crate::low::deep::Deep;\n");
        let root = ("crates/a/src/lib.rs", "mod low;\nmod high;\nmod apart;\n");
        let apart = ("crates/a/src/apart.rs", "pub struct Apart;\n");
        let sound = (
            "crates/a/src/low/mod.rs",
            "pub mod deep;\npub struct Low(deep::Deep);\n",
        );
        let found = circles(&[root, upper, part, sound, below, apart]);
        assert!(found.is_empty(), "{found:?}");
        let looks_up = ("crates/a/src/low/other.rs", "use crate::high::part::P;\n");
        let with = (
            "crates/a/src/low/mod.rs",
            "pub mod deep;\nmod other;\npub struct Low;\n",
        );
        let shown = (
            "crates/a/src/high/part.rs",
            "use crate::apart::Apart;\npub struct P(Apart);\n",
        );
        let found = circles(&[root, upper, shown, with, below, looks_up, apart]);
        assert_eq!(
            found,
            [
                "low/other.rs:1 `P` of crates/a/src/high/part.rs",
                "high.rs:2 `Low` of crates/a/src/low/mod.rs",
            ]
        );
    }

    #[test]
    fn modules_that_a_macro_names_are_files_too() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod b;\n"),
            (
                "crates/a/src/b.rs",
                "kinds! { c = \"kinds/c.rs\", }\npub struct B(c::C);\n",
            ),
            (
                "crates/a/src/kinds/c.rs",
                "use crate::b::B;\npub struct C(B);\n",
            ),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn tests_may_look_anywhere() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            (
                "crates/a/src/b.rs",
                "pub struct B;\n#[cfg(test)]\nmod tests { use crate::c::C; }\n",
            ),
            ("crates/a/src/c.rs", "use crate::b::B;\npub struct C(B);\n"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
