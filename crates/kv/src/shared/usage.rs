//! How much CPU time the process has had.

use std::time::Duration;

/// What the kernel's figures are counted in (USER_HZ, which is fixed for programs).
const TICK: Duration = Duration::from_millis(10);

/// As a user and in the kernel; zero where the system does not tell.
pub(crate) fn cpu_time() -> (Duration, Duration) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have blanks and parentheses in it, fields 3 and on (proc(5)).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_ascii_whitespace().skip(11).map(|field| {
        let ticks = field.parse::<u32>().unwrap_or(0);
        TICK * ticks
    });
    let mut next = || times.next().unwrap_or_default();
    (next(), next())
}
