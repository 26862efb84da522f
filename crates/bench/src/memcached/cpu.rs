//! The CPU time of a process, from the scheduler: proc_pid_schedstat(5), of each of its threads.

use std::fs;
use std::io;
use std::time::Duration;

/// What the threads of a process have run, in user and kernel mode; of those that are there now.
pub(crate) fn time(pid: u32) -> io::Result<Duration> {
    let mut total = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let nanos = text.split_ascii_whitespace().next();
        total += nanos.and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(total))
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_runs_takes_time() {
        let pid = std::process::id();
        let before = super::time(pid).unwrap();
        let mut sum = 0_u64;
        while super::time(pid).unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(super::time(u32::MAX).is_err());
    }
}
