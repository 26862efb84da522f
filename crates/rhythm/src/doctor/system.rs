//! What the system says of itself: files below /proc and /sys, or below another folder in a test.

use std::path::PathBuf;

/// The files of a system.
#[derive(Debug)]
pub(super) struct System {
    root: PathBuf,
}

impl System {
    /// The one that this runs on.
    pub(super) fn this() -> System {
        System { root: "/".into() }
    }

    /// One whose files lie below a folder.
    #[cfg(test)]
    pub(super) fn below(root: PathBuf) -> System {
        System { root }
    }

    /// A file's text without the white space around it; nothing where it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// A file that has one number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Whether there is such a file, whoever may open it.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Names in a folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// The files of this name of the control groups that this process is in, the innermost first:
    /// what each says holds (cgroups(7), version 2).
    pub(super) fn of_control_groups(&self, name: &str) -> Vec<String> {
        let own = self.read("proc/self/cgroup").unwrap_or_default();
        let group = own.lines().find_map(|line| line.strip_prefix("0::"));
        let mut group = group.unwrap_or("/").trim_matches('/');
        let mut all = Vec::new();
        loop {
            all.extend(self.read(&format!("sys/fs/cgroup/{group}/{name}")));
            match group.rsplit_once('/') {
                Some((outer, _)) => group = outer,
                None if !group.is_empty() => group = "",
                None => return all,
            }
        }
    }
}
