//! What this process takes of its machine.

use rhythm_net::{Time, clock};
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When this process began to serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    /// Since 1970. Two processes of one server have different ones.
    pub(crate) wall: Duration,
    pub(crate) monotonic: Time,
}

/// When this was called first.
pub(crate) fn began() -> Began {
    static BEGAN: OnceLock<Began> = OnceLock::new();
    *BEGAN.get_or_init(|| Began {
        // A clock of before 1970 tells processes apart as well as none.
        wall: (SystemTime::now().duration_since(UNIX_EPOCH)).unwrap_or_default(),
        monotonic: clock::monotonic(),
    })
}

/// The time that all its threads together had a processor, since it began.
pub fn cpu_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// The time that this thread had a processor.
pub(crate) fn thread_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// Milliseconds of what the kernel's figures are counted in (USER_HZ, which is fixed for programs).
const TICK_MS: u64 = 10;

/// That time as a user, and in the kernel, to 10 ms (proc(5), `stat`); zero where the system
/// does not tell.
pub fn cpu_times() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have blanks and parentheses in it, fields 3 and on.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_ascii_whitespace().skip(11).map(|field| {
        let ticks = field.parse::<u64>().unwrap_or(0);
        Duration::from_millis(ticks.saturating_mul(TICK_MS))
    });
    let mut next = || times.next().unwrap_or_default();
    (next(), next())
}

/// Bytes of memory that it has now (proc(5), `statm`); none where the system does not say.
pub fn resident_bytes() -> Option<u64> {
    let told = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = told.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_seen() {
        let before = cpu_time();
        let mut sum = 0u64;
        while cpu_time() - before < Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
        const TICK: Duration = Duration::from_millis(TICK_MS);
        while cpu_time() < 4 * TICK {
            sum = std::hint::black_box(sum + 1);
        }
        let before = cpu_time();
        let (user, kernel) = cpu_times();
        let (told, behind) = (user + kernel, cpu_time());
        // Each of the two is rounded down.
        let is_so = told <= behind && told + 2 * TICK >= before;
        assert!(is_so, "{told:?}, between {before:?} and {behind:?}");
        let bytes = resident_bytes().expect("it is Linux");
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let with = resident_bytes().expect("it is Linux");
        // Other tests' threads have little.
        assert!(with > bytes + (48 << 20), "{bytes} to {with}");
        drop(touched);
    }
}
