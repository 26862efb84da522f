//! Crates depend on each other as the page on architecture says: its lines `crate -> crate, ...`
//! below the heading *Arrows* name every crate and what it needs, no more and no less.

use super::files::Tree;
use super::finding::Finding;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "ARCHITECTURE.md";

pub(crate) fn check(tree: &Tree, page: &str) -> Result<Vec<Finding>> {
    let drawn = drawn(page);
    let needed = needed(tree)?;
    let mut findings = Vec::new();
    let mut find = |file: &str, line, message| {
        findings.push(Finding {
            file: file.to_owned(),
            line,
            message,
        });
    };
    for (name, (manifest, needs)) in &needed {
        let Some((line, allowed)) = drawn.get(name) else {
            let message = format!("the crate `{name}` is not among the arrows of {PAGE}");
            find(manifest, 1, message);
            continue;
        };
        for need in needs.difference(allowed) {
            let message = format!("`{name}` needs `{need}`, against the arrows of {PAGE}");
            find(manifest, 1, message);
        }
        for need in allowed.difference(needs) {
            let message = format!("`{name}` no longer needs `{need}`: take the arrow away");
            find(PAGE, *line, message);
        }
    }
    for (name, (line, _)) in &drawn {
        if !needed.contains_key(name) {
            find(PAGE, *line, format!("there is no crate `{name}`"));
        }
    }
    Ok(findings)
}

/// Each crate of the page, with its line and what it may need.
fn drawn(page: &str) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let mut arrows = BTreeMap::new();
    let mut inside = false;
    for (number, line) in (1..).zip(page.lines()) {
        if line.starts_with('#') {
            inside = line.trim_start_matches('#').trim() == "Arrows";
        }
        if let (true, Some((name, needs))) = (inside, line.split_once("->")) {
            let words = needs.split([',', ' ']).filter(|word| !word.is_empty());
            let needs = words.filter(|word| *word != "nothing").map(str::to_owned);
            // One that needs much has several lines.
            let (_, all) =
                (arrows.entry(name.trim().to_owned())).or_insert_with(|| (number, BTreeSet::new()));
            all.extend(needs);
        }
    }
    arrows
}

/// Each crate's manifest and the crates of the project that it needs, tests aside.
fn needed(tree: &Tree) -> Result<BTreeMap<String, (String, BTreeSet<String>)>> {
    let mut crates = BTreeMap::new();
    for (path, text) in tree.iter() {
        let Some(name) = (path.strip_prefix("crates/"))
            .and_then(|below| below.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
        else {
            continue;
        };
        let manifest: toml::Table = toml::from_str(text).with_context(|| format!("read {path}"))?;
        let needs = (manifest.get("dependencies"))
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(toml::Table::keys)
            .filter_map(|need| need.strip_prefix("rhythm-"))
            .map(str::to_owned);
        crates.insert(name.to_owned(), (path.to_owned(), needs.collect()));
    }
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "# Page\n\n## Arrows\n\n    top -> base\n    top -> old\n\
        \x20   base -> nothing\n    gone -> base\n\n## Next\n\n    a -> b\n";

    #[test]
    fn what_is_needed_and_what_is_drawn_must_agree() {
        let tree = Tree::of(&[
            (
                "crates/top/Cargo.toml",
                "[dependencies]\nrhythm-base.workspace = true\nrhythm-else.workspace = true\n",
            ),
            (
                "crates/base/Cargo.toml",
                "[dev-dependencies]\nrhythm-top.workspace = true\n",
            ),
            ("crates/else/Cargo.toml", "[package]\n"),
            (
                "crates/top/inner/Cargo.toml",
                "[dependencies]\nrhythm-top = \"1\"\n",
            ),
        ]);
        let findings = check(&tree, PAGE_TEXT).expect("the manifests are sound");
        let messages: Vec<&str> = findings
            .iter()
            .map(|found| found.message.as_str())
            .collect();
        assert_eq!(
            messages,
            [
                "the crate `else` is not among the arrows of ARCHITECTURE.md",
                "`top` needs `else`, against the arrows of ARCHITECTURE.md",
                "`top` no longer needs `old`: take the arrow away",
                "there is no crate `gone`",
            ]
        );
    }
}
