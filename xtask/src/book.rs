//! `cargo xtask book`: the documents as a site with search, by mdBook.
//!
//! mdBook reads one folder, so what the site has is laid there first (docs/SUMMARY.md lists it):
//! docs/, and the documents of the root. On the way, documents that are named in passing become
//! links, with the section that is named behind them.

use crate::markdown::{Places, mentions, places, prose};
use crate::paths::{root, target};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make the site of the documents: target/book/html
///
/// Needs mdBook (cargo install mdbook@0.5.4 --locked).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Lay out what mdBook reads, in target/book, and leave the rest to it
    #[arg(long)]
    no_build: bool,
}

/// Documents of the root that the site has.
const OF_ROOT: [&str; 6] = [
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "HACKING.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let book = target().join("book");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("{}", book.display()))?;
    }
    let mut files = Vec::new();
    walk(&root().join("docs"), &mut files)?;
    let mut texts = BTreeMap::new();
    for path in &files {
        let name = path.strip_prefix(root())?.display().to_string();
        match name.ends_with(".md") {
            true => drop(texts.insert(name, read(path)?)),
            false => copy(path, &book.join(place(&name)))?,
        }
    }
    for name in OF_ROOT {
        texts.insert(name.to_owned(), read(&root().join(name))?);
    }
    // The summary is the side bar there, and no page.
    let known: BTreeMap<&str, Places> = texts
        .iter()
        .filter(|(name, _)| *name != "docs/SUMMARY.md")
        .map(|(name, text)| (name.as_str(), places(text)))
        .collect();
    for (name, text) in &texts {
        let to = book.join(place(name));
        fs::create_dir_all(to.parent().context("it lies in a folder")?)?;
        fs::write(&to, linked(name, text, &known)).with_context(|| format!("{}", to.display()))?;
    }
    println!("{}", book.display());
    if args.no_build {
        return Ok(());
    }
    let built = Command::new("mdbook").arg("build").arg(&book).status();
    let built = built.context("cannot run mdbook: `cargo install mdbook@0.5.4 --locked`")?;
    match built.success() {
        true => Ok(()),
        false => bail!("mdbook: {built}"),
    }
}

/// Where a file of the repository is in the book.
fn place(name: &str) -> PathBuf {
    match name.strip_prefix("docs/") {
        Some("book.toml") => PathBuf::from("book.toml"),
        Some(below) => Path::new("src").join(below),
        None => Path::new("src").join(name),
    }
}

/// A document with links where it names others.
fn linked(name: &str, text: &str, known: &BTreeMap<&str, Places>) -> String {
    // From where it is to the folder of all.
    let up = match name.strip_prefix("docs/") {
        Some(below) => "../".repeat(below.matches('/').count()),
        None => String::new(),
    };
    let prose = prose(text);
    let is_prose = |at: usize| prose.iter().any(|range| range.contains(&at));
    let mut linked = String::with_capacity(text.len());
    let mut done = 0;
    for mention in mentions(text) {
        let document = mention.document;
        let Some(places) = known.get(document).filter(|_| is_prose(mention.at)) else {
            continue;
        };
        let below = document.strip_prefix("docs/").unwrap_or(document);
        let section = mention
            .section
            .and_then(|section| places.headings.get(&section));
        let anchor = section
            .map(|anchor| format!("#{anchor}"))
            .unwrap_or_default();
        linked.push_str(&text[done..mention.at]);
        linked.push_str(&format!("[{document}]({up}{below}{anchor})"));
        done = mention.at + document.len();
    }
    linked.push_str(&text[done..]);
    // What lies in docs/ is beside the documents of the root here.
    match name.starts_with("docs/") {
        true => linked,
        false => linked.replace("](docs/", "]("),
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        match path.is_dir() {
            true => walk(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("it lies in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("{}", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_becomes_a_link() {
        let other = places("# Other\n\n## The `way` out\n");
        let known = BTreeMap::from([("docs/o.md", other)]);
        let text = "See docs/o.md, *The way\nout*; docs/o.md.\n\n    docs/o.md\n\n`docs/o.md` \
                    docs/p.md [docs/o.md](o.md)\n";
        let expected = "See [docs/o.md](../o.md#the-way-out), *The way\nout*; \
                        [docs/o.md](../o.md).\n\n    docs/o.md\n\n`docs/o.md` docs/p.md \
                        [docs/o.md](o.md)\n";
        assert_eq!(linked("docs/results/a.md", text, &known), expected);
        let root = linked("README.md", "[a](docs/a.png) docs/o.md", &known);
        assert_eq!(root, "[a](a.png) [docs/o.md](o.md)");
    }
}
