//! `cargo xtask tidy`: what a small program can check need not be talked about in reviews.
//!
//! - `circles`: no file imports in a circle, and no folder;
//! - `arrows`: crates depend on each other as ARCHITECTURE.md says;
//! - `lines`: at most 100 columns in code, comments and docs;
//! - `links`: what documents, and comments about them, refer to is there;
//! - `fences`: `unsafe` only where ARCHITECTURE.md lets it be;
//! - `surface`: nothing is `pub` that nobody outside its crate uses.
//!
//! `files` finds what is looked at, `modules` reads Rust: which file a path leads to. What is
//! checked by name (arrows, fences) is read from ARCHITECTURE.md, so that the page cannot drift.

mod arrows;
mod circles;
mod fences;
mod files;
mod finding;
mod lines;
mod links;
mod modules;
mod surface;

use anyhow::{Result, bail};

/// Check the tree: circles of imports, arrows, long lines, dead links, unsafe code, dead pub
///
/// Prints each finding as FILE:LINE: what is wrong, and what mends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let tree = files::Tree::read(crate::paths::root())?;
    let crates = modules::read(&tree)?;
    let page = tree.text("ARCHITECTURE.md")?;
    let mut findings = lines::check(&tree);
    let is_there = |path: &str| crate::paths::root().join(path).exists();
    findings.extend(links::check(&tree, is_there));
    findings.extend(arrows::check(&tree, page)?);
    findings.extend(fences::check(&tree, page)?);
    findings.extend(circles::check(&crates));
    findings.extend(surface::check(&tree, &crates));
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} things are untidy", findings.len());
    }
    println!("tidy: {} files, {} crates", tree.len(), crates.len());
    Ok(())
}
