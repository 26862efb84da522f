//! Where control groups are mounted.

use std::fs;
use std::path::PathBuf;

/// Where cgroup v2 is mounted.
#[must_use]
pub(crate) fn cgroup2() -> Option<PathBuf> {
    find(
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
        |of_system| of_system.starts_with("cgroup2 "),
    )
}

/// Where the cpusets of cgroup v1 are mounted.
#[must_use]
pub(crate) fn cpuset1() -> Option<PathBuf> {
    find(
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
        |of_system| {
            let mut words = of_system.split(' ');
            words.next() == Some("cgroup")
                && words
                    .nth(1)
                    .is_some_and(|options| options.split(',').any(|one| one == "cpuset"))
        },
    )
}

/// The mount of which this is true: type, source and options, behind the dash.
fn find(mounts: &str, is: impl Fn(&str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (of_mount, of_system) = line.split_once(" - ")?;
        is(of_system).then(|| of_mount.split(' ').nth(4).map(PathBuf::from))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_type() {
        let mounts = "25 20 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      26 20 0:23 / /sys/fs/cgroup/cpuset rw shared:7 - cgroup cgroup rw,cpuset\n\
                      27 20 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let two = find(mounts, |of| of.starts_with("cgroup2 "));
        assert_eq!(two, Some("/sys/fs/cgroup/unified".into()));
        let one = find(mounts, |of| of.ends_with(",cpuset"));
        assert_eq!(one, Some("/sys/fs/cgroup/cpuset".into()));
        assert_eq!(find("garbage", |_| true), None);
    }
}
