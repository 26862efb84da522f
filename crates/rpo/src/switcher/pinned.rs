//! Threads that are kept on CPUs of their own within a control group.
//!
//! Before Linux 6.2 a change of a group's CPUs gives each thread in it the whole set; from then
//! on the kernel remembers what a thread asked for (`user_cpus_ptr`), and goes on keeping it there.

use super::affinity::get;
use super::error::SwitchError;
use super::process::threads;
use crate::cpus::CpuSet;
use std::fs;
use std::path::Path;

/// The first Linux that remembers threads' own sets.
const REMEMBERS: (u32, u32) = (6, 2);
/// Most levels of groups that are looked into.
const DEPTH_MAX: usize = 16;

/// Refuses to switch a group, which has these CPUs, if threads in it are kept on CPUs of their own
/// and this kernel would forget that.
pub(super) fn check(folder: &Path, group: &CpuSet) -> Result<(), SwitchError> {
    match are_remembered() {
        true => Ok(()),
        false => refuse(folder, group),
    }
}

/// The same with a kernel that forgets.
pub(super) fn refuse(folder: &Path, group: &CpuSet) -> Result<(), SwitchError> {
    match find(folder, group)? {
        None => Ok(()),
        Some(thread) => Err(SwitchError::Unfit(format!(
            "thread {thread} in {} is kept on CPUs of its own, which would be lost with Linux \
             before 6.2: switch off such pinning (nginx: worker_cpu_affinity; rhythm: --pin)",
            folder.display()
        ))),
    }
}

/// Whether this kernel remembers what threads asked for; not where it does not say which it is.
fn are_remembered() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release_of(&release).is_some_and(|release| release >= REMEMBERS)
}

fn release_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text
        .trim()
        .split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// A thread in the group of this folder, or below it, that has fewer CPUs than these.
fn find(folder: &Path, group: &CpuSet) -> Result<Option<u32>, SwitchError> {
    find_within(folder, group, DEPTH_MAX)
}

fn find_within(folder: &Path, group: &CpuSet, depth: usize) -> Result<Option<u32>, SwitchError> {
    // What vanishes meanwhile has no threads.
    let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines().filter_map(|line| line.parse().ok()) {
        for thread in threads(process) {
            if get(thread)?.is_some_and(|own| !group.is_subset(&own)) {
                return Ok(Some(thread));
            }
        }
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Ok(None);
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(thread) = find_within(&entry.path(), group, depth)?
        {
            return Ok(Some(thread));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_by_their_numbers() {
        for (text, release) in [
            ("6.1.0-18-amd64\n", Some((6, 1))),
            ("6.18.44-x", Some((6, 18))),
            ("7.0", Some((7, 0))),
            ("", None),
            ("six", None),
        ] {
            assert_eq!(release_of(text), release, "{text}");
        }
        assert!((6, 18) >= REMEMBERS && (6, 1) < REMEMBERS && (5, 15) < REMEMBERS);
    }
}
