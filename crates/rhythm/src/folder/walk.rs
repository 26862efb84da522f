//! The names below a folder: which files there are, and which links lead out of it.

use super::regular::{Found, Identity};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// More names than this are no service's.
const NAMES_MAX: usize = 1 << 20;

/// What is below a folder.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Everything that is no folder, sorted.
    pub(super) files: Vec<PathBuf>,
    /// Links that lead out of the folder, and where to.
    pub(super) outside: Vec<(PathBuf, PathBuf)>,
}

/// A folder to be looked through, and those it is in.
struct Step {
    path: PathBuf,
    ancestors: Vec<Identity>,
}

impl Walk {
    /// Looks through a folder; one that does not exist is empty. Hidden files and editors' backups
    /// are left out.
    pub(super) fn through(folder: &Path) -> Result<Walk> {
        let mut walk = Walk::default();
        if fs::symlink_metadata(folder).is_err() {
            return Ok(walk);
        }
        let found = Found::find(folder)?;
        if !found.is_folder() {
            bail!("{} is to be a folder", folder.display());
        }
        let root = found.real_path()?;
        if let Some(parent) = folder.parent() {
            let parent = Found::find(parent)?.real_path()?;
            if !root.starts_with(parent) {
                walk.outside.push((folder.to_owned(), root.clone()));
            }
        }
        let mut steps = vec![Step {
            path: folder.to_owned(),
            ancestors: vec![found.identity()],
        }];
        let mut names = 0;
        while let Some(step) = steps.pop() {
            let reading = || format!("cannot read {}", step.path.display());
            for entry in fs::read_dir(&step.path).with_context(reading)? {
                let entry = entry.with_context(reading)?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                names += 1;
                if names > NAMES_MAX {
                    bail!("{} has more than {NAMES_MAX} files", folder.display());
                }
                if name.starts_with('.') || name.ends_with('~') {
                    continue;
                }
                walk.add(&entry.path(), &root, &step, &mut steps)?;
            }
        }
        walk.files.sort();
        walk.outside.sort();
        Ok(walk)
    }

    fn add(&mut self, path: &Path, root: &Path, step: &Step, steps: &mut Vec<Step>) -> Result<()> {
        let found = Found::find(path)?;
        let is_link = fs::symlink_metadata(path).is_ok_and(|entry| entry.is_symlink());
        if is_link {
            let real = found.real_path()?;
            if !real.starts_with(root) {
                self.outside.push((path.to_owned(), real));
            }
        }
        if !found.is_folder() {
            self.files.push(path.to_owned());
            return Ok(());
        }
        if step.ancestors.contains(&found.identity()) {
            bail!(
                "{} leads back to a folder that it is in: remove the link",
                path.display()
            );
        }
        let mut ancestors = step.ancestors.clone();
        ancestors.push(found.identity());
        steps.push(Step {
            path: path.to_owned(),
            ancestors,
        });
        Ok(())
    }
}
