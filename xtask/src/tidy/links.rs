//! What documents refer to is there: files and anchors of links, and files and sections that are
//! named in passing, as in "docs/operations.md, *Behind a proxy*". Addresses elsewhere are not
//! asked for.

use super::files::Tree;
use super::finding::Finding;
use crate::markdown::{Places, links, mentions, places};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Looks at all documents. `is_there` knows of files that are no text.
pub(crate) fn check(tree: &Tree, is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let documents = tree.iter().filter(|(path, _)| path.ends_with(".md"));
    let places: BTreeMap<&str, Places> =
        documents.map(|(path, text)| (path, places(text))).collect();
    let is_there = |path: &str| {
        let folder = format!("{path}/");
        tree.has(path) || tree.iter().any(|(other, _)| other.starts_with(&folder)) || is_there(path)
    };
    let mut findings = Vec::new();
    for (path, text) in tree.iter() {
        let mut find = |at: usize, message: String| {
            let line = 1 + text[..at].matches('\n').count();
            let file = path.to_owned();
            findings.push(Finding {
                file,
                line,
                message,
            });
        };
        if places.contains_key(path) {
            for (at, target) in links(text) {
                if let Some(wrong) = wrong_link(path, &target, &places, is_there) {
                    find(at, wrong);
                }
            }
        }
        // The tests here name what is not there.
        let is_own = path.starts_with("xtask/src/");
        for mention in mentions(text).into_iter().filter(|_| !is_own) {
            let (at, document) = (mention.at, mention.document);
            match (places.get(document), mention.section) {
                (None, _) => find(at, format!("{document} is not there: name another")),
                (Some(places), Some(section)) if !places.sections.contains(&section) => {
                    find(
                        at,
                        format!("{document} has no section *{section}*: name another"),
                    );
                }
                _ => {}
            }
        }
    }
    findings
}

/// What is wrong with a link of the document at `path`.
fn wrong_link(
    path: &str,
    target: &str,
    places: &BTreeMap<&str, Places>,
    is_there: impl Fn(&str) -> bool,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let file = match file {
        "" => path.to_owned(),
        file => beside(path, file)?,
    };
    // What the site has beside docs/ lies in the root: `cargo xtask book`.
    let file = match file.strip_prefix("docs/") {
        Some(name) if path == "docs/SUMMARY.md" && !is_there(&file) => name.to_owned(),
        _ => file,
    };
    if !is_there(&file) {
        return Some(format!("{target} leads to {file}, which is not there"));
    }
    let anchor = anchor?;
    let is_known = places
        .get(&*file)
        .is_some_and(|it| it.anchors.contains(anchor));
    (!is_known).then(|| format!("{target}: {file} has no heading that is #{anchor}"))
}

/// A path that is relative to the folder of `path`, from the root.
fn beside(path: &str, relative: &str) -> Option<String> {
    let mut whole = PathBuf::new();
    let folder = Path::new(path).parent()?;
    for part in folder.join(relative).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::Normal(name) => whole.push(name),
            _ => {}
        }
    }
    whole.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of(files), |path| path == "docs/a.png");
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let good = "# A `b`, *c*\n\n[x](#a-b-c) ![y](a.png) [z](../README.md) [r](results/) \
                    [w](https://nowhere.invalid/x#y)\n\n## Twice\n\n## Twice\n\n[2](#twice-1)\n";
        let readme = "# R\n[x](docs/a.md#twice)\n[a](docs/b.html)\n[b](docs/a.md#thrice)\n";
        let all = [
            ("docs/a.md", good),
            ("README.md", readme),
            ("docs/results/x.md", "[up](../a.md#twice) [down](y.md)\n"),
        ];
        assert_eq!(
            found(&all),
            [
                "README.md:3: docs/b.html leads to docs/b.html, which is not there",
                "README.md:4: docs/a.md#thrice: docs/a.md has no heading that is #thrice",
                "docs/results/x.md:1: y.md leads to docs/results/y.md, which is not there",
            ]
        );
    }

    #[test]
    fn documents_and_sections_are_named_as_they_are() {
        let document = "# A\n\n## The way\n\n*Behind a\nproxy* all is well; *not this*.\n";
        let code = "//! docs/a.md, *The\n//! `way`*, and docs/b.md.\n// docs/a.md, *not this*\n";
        let other =
            "docs/a.md, *Behind\na proxy*; https://x.example/docs/c.md; `docs/a.md, *gone*`";
        let all = [("docs/a.md", document), ("x.rs", code), ("o.md", other)];
        assert_eq!(
            found(&all),
            [
                "o.md:2: docs/a.md has no section *gone*: name another",
                "x.rs:2: docs/b.md is not there: name another",
                "x.rs:3: docs/a.md has no section *not this*: name another",
            ]
        );
    }
}
