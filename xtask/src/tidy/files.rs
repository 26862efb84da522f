//! The files of the repository that are kept by hand.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Folders that are made, not written.
const MADE: [&str; 5] = ["target", ".git", "built", "corpus", "artifacts"];

/// Texts of files by their path, relative to the root.
pub(crate) struct Tree {
    texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every file that is text, except in folders that are made.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut texts = BTreeMap::new();
        walk(root, "", &mut texts)?;
        Ok(Tree { texts })
    }

    /// A tree of these files, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let own = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        Tree {
            texts: files.iter().map(own).collect(),
        }
    }

    /// How many files there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// All files, by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.texts.iter();
        texts.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// One file's text.
    pub(crate) fn text(&self, path: &str) -> Result<&str> {
        let text = self.texts.get(path).map(String::as_str);
        text.with_context(|| format!("{path} is missing"))
    }

    /// Whether there is such a file.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.texts.contains_key(path)
    }
}

fn walk(root: &Path, below: &str, texts: &mut BTreeMap<String, String>) -> Result<()> {
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() && !MADE.contains(&name.as_str()) {
            walk(root, &path, texts)?;
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            texts.insert(path, text);
        }
    }
    Ok(())
}
