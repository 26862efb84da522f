//! Processes as `/proc` tells of them: who descends from whom, and which threads they have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// A process that is not mistaken for a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since the system did.
    pub start: u64,
}

/// The parent and the start of a process that has not ended, from the text of `/proc/PID/stat`. The
/// second field, the name, may have anything in it, so what counts begins behind its last
/// parenthesis.
fn stat(text: &str) -> Option<(u32, u64)> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // Who ended and is not yet looked after by its parent has no threads any more.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    // Field 22; two are read, and the two before them are cut off.
    let start = fields.nth(17)?.parse().ok()?;
    Some((parent, start))
}

impl Process {
    /// The process that has this number now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Process> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, start) = stat(&text)?;
        Some(Process { pid, start })
    }

    /// Whether it still runs.
    pub(super) fn runs(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Its threads; none where it has ended.
    pub(super) fn threads(self) -> Vec<u32> {
        threads(self.pid)
    }
}

/// The threads of the process that has this number; none where there is none.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default()
}

/// Entries of a folder that are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Some(number) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            found.push(number);
        }
    }
    Ok(found)
}

/// These processes, as far as they run, and all that descend from them.
pub(super) fn tree(roots: &BTreeSet<Process>) -> io::Result<BTreeSet<Process>> {
    let mut children = BTreeMap::<u32, Vec<Process>>::new();
    let mut all = BTreeMap::<u32, Process>::new();
    for pid in numbers(Path::new("/proc"))? {
        // It may have ended since.
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if let Some((parent, start)) = stat(&text) {
            let process = Process { pid, start };
            all.insert(pid, process);
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = BTreeSet::new();
    let mut next: Vec<Process> = (roots.iter().copied())
        .filter(|root| all.get(&root.pid) == Some(root))
        .collect();
    while let Some(process) = next.pop() {
        if found.insert(process) {
            next.extend(children.get(&process.pid).into_iter().flatten());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_fool_nobody() {
        let rest = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(stat(&format!("12 (a) b 99 (c)) {rest}")), Some((7, 4711)));
        for garbage in [
            "",
            "12",
            "12 (a)",
            "12 (a) S x",
            "12 (a) S 7 1",
            "12 (a) Z 7 1",
        ] {
            assert_eq!(stat(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn children_are_found_and_who_ended_is_not() {
        let own = Process::of(std::process::id()).expect("this process");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("a child");
        let of = Process::of(child.id()).expect("it runs");
        let found = tree(&BTreeSet::from([own])).expect("/proc");
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(found.contains(&own) && found.contains(&of));
        assert!(!of.runs() && own.runs());
        assert!(!tree(&BTreeSet::from([own])).expect("/proc").contains(&of));
        // The number alone is not it.
        let later = Process {
            start: own.start + 1,
            ..own
        };
        assert!(tree(&BTreeSet::from([later])).expect("/proc").is_empty());
    }
}
