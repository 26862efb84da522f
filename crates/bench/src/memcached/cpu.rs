//! The CPU time of a process.
//!
//! The scheduler tells it of each thread to the nanosecond (proc_pid_schedstat(5)), as long as the
//! thread is there; proc_pid_stat(5) tells it of the process and of its children in ticks, of those
//! that have ended, too. What is missed of those by the one the other has.

use std::fs;
use std::io;
use std::time::Duration;

/// What /proc counts in: a hundredth of a second, wherever Linux runs.
const TICK: Duration = Duration::from_millis(10);

/// What a process has run, in user and kernel mode, and those of its children that have ended.
pub(crate) fn time(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let mut total = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let nanos = text.split_ascii_whitespace().next();
        total += nanos.and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    }
    let [own, children] = ticks(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Duration::from_nanos(total).max(TICK * own) + TICK * children)
}

/// What a process has run, and those of its children that have ended and that it has waited for.
fn ticks(stat: &str) -> Option<[u32; 2]> {
    let times = fields(stat)?.skip(11).take(4);
    let times: Vec<u32> = times.map_while(|time| time.parse().ok()).collect();
    match times[..] {
        [user, system, of_children, in_system] => Some([
            user.checked_add(system)?,
            of_children.checked_add(in_system)?,
        ]),
        _ => None,
    }
}

/// The fields of a line of proc_pid_stat(5) behind its name, which may have anything in it: state,
/// parent, and so on.
pub(crate) fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    /// Runs for so long.
    fn run(time: Duration) {
        let mut sum = 0_u64;
        let own = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        while own() < time {
            sum = std::hint::black_box(sum + 1);
        }
    }

    #[test]
    fn threads_that_have_ended_count() {
        let pid = std::process::id();
        let before = time(pid).unwrap();
        let much = Duration::from_millis(300);
        std::thread::spawn(move || run(much)).join().unwrap();
        let took = time(pid).unwrap().saturating_sub(before);
        assert!(took >= much - 4 * TICK, "{took:?}");
    }

    #[test]
    fn lines_of_proc_are_read() {
        let line = "12 (a) b) S 7 12 12 0 -1 4194304 1 2 3 4 50 60 700 800 20 0";
        assert_eq!(ticks(line), Some([110, 1500]));
        assert_eq!(ticks("12 (a) S 7 12"), None);
        assert_eq!(ticks("12"), None);
    }

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
