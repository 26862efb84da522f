//! No file imports in a circle: of any two files, at most one can be understood only after the
//! other. Files that import each other, however far round, are one file in disguise.

use super::finding::Finding;
use super::modules::Crate;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(crates: &[Crate]) -> Vec<Finding> {
    crates.iter().flat_map(of_crate).collect()
}

fn of_crate(of: &Crate) -> Vec<Finding> {
    let mut to: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for import in &of.imports {
        to.entry(import.from).or_default().insert(import.to);
    }
    let mut findings = Vec::new();
    let mut done = BTreeSet::new();
    for file in 0..of.files.len() {
        if done.contains(&file) {
            continue;
        }
        // A circle through this file is all that it reaches and that reaches it.
        let forward = reached(&to, file);
        if !forward.contains(&file) {
            continue;
        }
        let circle: BTreeSet<usize> = (forward.iter().copied())
            .filter(|&other| reached(&to, other).contains(&file))
            .collect();
        done.extend(circle.iter().copied());
        // One import a pair of files says enough.
        let mut pairs = BTreeSet::new();
        for import in &of.imports {
            let pair = (import.from, import.to);
            if !(circle.contains(&pair.0) && circle.contains(&pair.1) && pairs.insert(pair)) {
                continue;
            }
            let (from, to) = (&of.files[import.from], &of.files[import.to]);
            findings.push(Finding {
                file: from.clone(),
                line: import.line,
                message: format!(
                    "`{}` of {to} closes a circle of {} files: move what they share below them",
                    import.name,
                    circle.len()
                ),
            });
        }
    }
    findings
}

/// All files that a file leads to.
fn reached(to: &BTreeMap<usize, BTreeSet<usize>>, file: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![file];
    while let Some(at) = next.pop() {
        for &other in to.get(&at).into_iter().flatten() {
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
