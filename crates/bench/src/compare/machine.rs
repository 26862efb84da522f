//! What of the machine's processors a run took, and what others took meanwhile.

use crate::memcached::cpu;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The CPU time of a process and of all that it has started, but those that have ended and whose
/// parent did not wait for them.
pub(super) fn tree_time(root: u32) -> Duration {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut todo, mut total) = (vec![root], Duration::ZERO);
    while let Some(pid) = todo.pop() {
        // One may have ended meanwhile.
        total += cpu::time(pid).unwrap_or_default();
        todo.extend(children.remove(&pid).unwrap_or_default());
    }
    total
}

/// The parent in a line of proc_pid_stat(5).
fn parent(stat: &str) -> Option<u32> {
    cpu::fields(stat)?.nth(1)?.parse().ok()
}

/// How long each of these processors has run anything, in ticks of which a second has 100, by
/// /proc/stat.
pub(super) fn busy(processors: [usize; 2]) -> Option<[u64; 2]> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let [one, two] = processors.map(|number| busy_of(&stat, number));
    Some([one?, two?])
}

fn busy_of(stat: &str, number: usize) -> Option<u64> {
    let name = format!("cpu{number}");
    let mut lines = stat.lines().map(str::split_ascii_whitespace);
    let mut line = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
    let times: Vec<u64> = line.by_ref().map_while(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq; what is stolen, nobody here has run.
    let of = |at: usize| times.get(at).copied().unwrap_or(0);
    Some(of(0) + of(1) + of(2) + of(5) + of(6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn lines_of_proc_are_read() {
        assert_eq!(parent("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12"), None);
        let stat = "cpu  9 9 9 9 9\ncpu0 1 2 3 100 50 4 5 60 0 0\ncpu1 1 0 0 7\n";
        assert_eq!(
            [0, 1, 2].map(|cpu| busy_of(stat, cpu)),
            [Some(15), Some(1), None]
        );
    }

    #[test]
    fn what_a_process_started_counts_when_it_has_ended() {
        let script = "sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'; echo; read line";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is sh");
        let mut line = String::new();
        let said = BufReader::new(shell.stdout.take().expect("it has one")).read_line(&mut line);
        let took = tree_time(shell.id());
        let _ = shell.kill();
        let _ = shell.wait();
        said.expect("it says so when the other has ended");
        assert!(took > Duration::from_millis(50), "{took:?}");
    }

    #[test]
    fn what_a_process_starts_counts() {
        let script = "sh -c 'while :; do :; done' & wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .spawn()
            .expect("there is sh");
        let root = shell.id();
        let worked = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            tree_time(root) > cpu::time(root).unwrap_or_default() + Duration::from_millis(20)
        });
        // The child first: it is nobody's afterwards.
        let children = fs::read_to_string(format!("/proc/{root}/task/{root}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").args(["-9", child]).status();
        }
        let _ = shell.kill();
        let _ = shell.wait();
        assert!(worked);
    }
}
