//! How busy the server's CPUs are, from `/proc/stat`.
//!
//! It counts the whole machine's tasks that run or could run, not the server's alone: a control
//! group tells no such number. Where the collectors know how many requests are under way, more than
//! these are not believed.

use crate::cpus::CpuSet;
use crate::policy::Load;
use std::{fs, io};

/// Where the system tells it.
const STAT: &str = "/proc/stat";

/// Looks whether the system tells how busy CPUs are, without which nothing is ever decided.
///
/// # Errors
/// It does not.
pub fn sees_load() -> io::Result<()> {
    fs::read_to_string(STAT).map(|_| ())
}

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: Ticks,
}

/// Ticks of some CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

impl Meter {
    /// How busy these CPUs were since the last look. Nothing where the system does not say.
    pub(super) fn look(
        &mut self,
        cpus: &CpuSet,
        cores: usize,
        under_way: Option<usize>,
    ) -> Option<Load> {
        let text = fs::read_to_string(STAT).ok()?;
        self.read(&text, cpus, cores, under_way)
    }

    fn read(
        &mut self,
        text: &str,
        cpus: &CpuSet,
        cores: usize,
        under_way: Option<usize>,
    ) -> Option<Load> {
        let now = ticks(text, cpus);
        let before = std::mem::replace(&mut self.last, now);
        // Another set of CPUs, or one that was offline: what is between them means nothing.
        let all = now.all.checked_sub(before.all).filter(|&all| all > 0)?;
        let busy = now.busy.checked_sub(before.busy)?;
        let running = text
            .lines()
            .find_map(|line| line.strip_prefix("procs_running "));
        // This process reads, so it is one of them.
        let running = running?.trim().parse::<u64>().ok()?.saturating_sub(1) as f64;
        let believed = match under_way {
            None => running,
            Some(known) => running.min(known as f64),
        };
        Some(Load {
            running: believed,
            cores: cores as f64,
            utilization: (busy as f64 / all as f64).clamp(0.0, 1.0),
        })
    }

    /// The set is another one: ticks until now do not count.
    pub(super) fn begin_anew(&mut self, cpus: &CpuSet) {
        let text = fs::read_to_string(STAT).unwrap_or_default();
        self.last = ticks(&text, cpus);
    }
}

/// Adds up the lines `cpuN user nice system idle iowait irq softirq steal ...` of some CPUs.
fn ticks(text: &str, cpus: &CpuSet) -> Ticks {
    let mut sum = Ticks::default();
    for line in text.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().filter(|_| !line.starts_with(' '));
        let Some(cpu) = number.and_then(|word| word.parse().ok()) else {
            continue;
        };
        if !cpus.contains(cpu) {
            continue;
        }
        for (field, word) in words.take(8).enumerate() {
            let ticks: u64 = word.parse().unwrap_or(0);
            sum.all = sum.all.saturating_add(ticks);
            // Idle, and idle with a disk at work.
            if field != 3 && field != 4 {
                sum.busy = sum.busy.saturating_add(ticks);
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(busy: u64, idle: u64, running: u64) -> String {
        format!(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu1 5 0 0 5 0 0 0 0 0 \
             0\nintr 1 2 3\nprocs_running {running}\nprocs_blocked 0\n"
        )
    }

    #[test]
    fn it_is_the_share_of_the_ticks_between_two_looks() {
        let one: CpuSet = "0".parse().expect("a list");
        let mut meter = Meter::default();
        meter.read(&stat(100, 100, 3), &one, 1, None);
        let load = meter
            .read(&stat(130, 110, 5), &one, 1, None)
            .expect("ticks");
        assert_eq!(
            (load.running, load.cores, load.utilization),
            (4.0, 1.0, 0.75)
        );
        let load = meter.read(&stat(130, 120, 5), &one, 1, Some(2));
        let load = load.expect("ticks");
        assert_eq!((load.running, load.utilization), (2.0, 0.0));
        // What runs is all somebody else's.
        let idle = meter.read(&stat(130, 130, 5), &one, 1, Some(0));
        assert_eq!(idle.expect("ticks").running, 0.0);
        // No tick between, ticks that go back, and garbage.
        for text in [
            stat(130, 130, 5),
            stat(1, 1, 5),
            String::new(),
            "cpu0 x".to_owned(),
        ] {
            assert_eq!(meter.read(&text, &one, 1, None), None, "{text}");
        }
    }
}
