//! The names below a folder.

use super::regular::{Found, Identity, Unfit};
use anyhow::{Context, Error, Result, bail};
use rhythm_engine::settings::StaticSettings;
use std::fs;
use std::path::{Path, PathBuf};

/// How a folder is looked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// Whether links may lead out of it.
    pub(super) outside: bool,
    /// The most files and folders there may be in it.
    pub(super) files_max: usize,
}

/// A folder to be looked through, and those it is in.
struct Step {
    path: PathBuf,
    ancestors: Vec<Identity>,
}

impl Walk {
    /// As these settings say.
    pub(super) fn of(settings: &StaticSettings) -> Walk {
        Walk {
            outside: settings.outside_links,
            files_max: settings.files_max as usize,
        }
    }

    /// Finds again what [`through`](Walk::through) found below a folder, to be read: whoever may
    /// write there may have put a link in its place, or in that of a folder that it is in.
    pub(super) fn find(&self, path: &Path, folder: &Path) -> Result<Found> {
        let found = Found::find(path)?;
        if !self.outside {
            let root = self.root(folder, &Found::find(folder)?)?;
            self.check(path, &found.real_path()?, &root)?;
        }
        Ok(found)
    }

    /// Where a folder is, that may be a link as what is in it may.
    fn root(&self, folder: &Path, found: &Found) -> Result<PathBuf> {
        let root = found.real_path()?;
        if let Some(parent) = folder.parent() {
            self.check(folder, &root, &Found::find(parent)?.real_path()?)?;
        }
        Ok(root)
    }

    /// Everything below a folder that is no folder, sorted; nothing where that does not exist.
    /// Hidden files and editors' backups are left out, and what cannot be taken is given to
    /// `refused`, with why.
    pub(super) fn through(
        &self,
        folder: &Path,
        mut refused: impl FnMut(&Path, Error) -> Result<()>,
    ) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        if fs::symlink_metadata(folder).is_err() {
            return Ok(files);
        }
        let found = Found::find(folder)?;
        if !found.is_folder() {
            bail!("{} is to be a folder", folder.display());
        }
        let root = self.root(folder, &found)?;
        let mut steps = vec![Step {
            path: folder.to_owned(),
            ancestors: vec![found.identity()],
        }];
        let mut names = 0;
        while let Some(step) = steps.pop() {
            let reading = || format!("cannot read {}", step.path.display());
            for entry in fs::read_dir(&step.path).with_context(reading)? {
                let entry = entry.with_context(reading)?;
                let (name, path) = (entry.file_name(), entry.path());
                let name = name.to_string_lossy();
                if name.starts_with('.') || name.ends_with('~') {
                    continue;
                }
                match self.entry(&step, &path, &root) {
                    Ok(Some(below)) => steps.push(below),
                    Ok(None) => files.push(path),
                    Err(why) => refused(&path, why)?,
                }
                names += 1;
                if names > self.files_max {
                    bail!(
                        "{} has more files and folders than [static] files_max = {}: remove some, \
                         or raise it",
                        folder.display(),
                        self.files_max
                    );
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// What stands in a folder: one to be looked through, too, or a file.
    fn entry(&self, step: &Step, path: &Path, root: &Path) -> Result<Option<Step>> {
        let found = Found::find(path)?;
        let is_link = fs::symlink_metadata(path).is_ok_and(|entry| entry.is_symlink());
        if is_link {
            self.check(path, &found.real_path()?, root)?;
        }
        let is_folder = found.is_folder();
        (is_folder.then(|| step.below(path, found.identity()))).transpose()
    }

    /// Whether what a link leads to may be taken.
    fn check(&self, link: &Path, real: &Path, root: &Path) -> Result<()> {
        if !self.outside && !real.starts_with(root) {
            let (link, real) = (link.display(), real.display());
            bail!(Unfit {
                why: format!("{link} leads to {real}, which is outside of the folder"),
                cure: "put what it leads to into the folder, or set `outside_links = true` in \
                       [static] of service.toml",
            });
        }
        Ok(())
    }
}

impl Step {
    /// To a folder below it, unless that is above it, too.
    fn below(&self, path: &Path, identity: Identity) -> Result<Step> {
        if self.ancestors.contains(&identity) {
            bail!(Unfit {
                why: format!("{} leads back to a folder that it is in", path.display()),
                cure: "remove the link",
            });
        }
        let mut ancestors = self.ancestors.clone();
        ancestors.push(identity);
        Ok(Step {
            path: path.to_owned(),
            ancestors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_put_in_the_place_of_what_was_found_is_not_read() {
        let (service, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = service.path().join("static");
        for root in [other.path(), &folder] {
            fs::create_dir_all(root.join("below")).unwrap();
            fs::write(root.join("below/a"), "").unwrap();
        }
        let mut walk = Walk {
            outside: false,
            files_max: 10,
        };
        let found = walk.through(&folder, |_, why| Err(why)).unwrap();
        assert!(walk.find(&found[0], &folder).is_ok());
        // Of the file, of a folder that it is in, of all of them.
        for (replaced, by) in [
            (&found[0], "below/a"),
            (&folder.join("below"), "below"),
            (&folder, ""),
        ] {
            fs::rename(replaced, service.path().join("away")).unwrap();
            symlink(other.path().join(by), replaced).unwrap();
            assert!(
                walk.find(&found[0], &folder).is_err(),
                "{}",
                replaced.display()
            );
            walk.outside = true;
            assert!(walk.find(&found[0], &folder).is_ok());
            walk.outside = false;
            fs::remove_file(replaced).unwrap();
            fs::rename(service.path().join("away"), replaced).unwrap();
        }
    }
}
