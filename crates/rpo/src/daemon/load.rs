//! How busy the server's CPUs are, from `/proc/stat`, and how many tasks run, from `/proc/loadavg`.
//!
//! The latter is looked at often: it is one short line, and what runs is another number each time.
//! It counts the whole machine's tasks that run or could run, not the server's alone: a control
//! group tells no such number. Where the collectors know how many requests are under way, more than
//! these are not believed.

use crate::cpus::CpuSet;
use crate::policy::Load;
use std::{fs, io};

/// Where the system tells how long CPUs were busy, in ticks of 10 ms.
const STAT: &str = "/proc/stat";
/// Where it tells how many tasks run or could.
const LOADAVG: &str = "/proc/loadavg";

/// Looks whether the system tells how busy CPUs are, without which nothing is ever decided.
///
/// # Errors
/// It does not.
pub fn sees_load() -> io::Result<()> {
    [STAT, LOADAVG]
        .into_iter()
        .try_for_each(|path| fs::read_to_string(path).map(|_| ()))
}

/// What was read last, if anything was.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: Option<Ticks>,
    /// Of the CPUs that are counted now, and no others.
    utilization: Option<f64>,
}

/// Ticks of some CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

impl Meter {
    /// Counts how busy these CPUs were since the last time. Of the first one nothing is known: its
    /// ticks are those since the machine began.
    pub(super) fn count(&mut self, cpus: &CpuSet) {
        self.add(&fs::read_to_string(STAT).unwrap_or_default(), cpus);
    }

    fn add(&mut self, text: &str, cpus: &CpuSet) {
        let now = ticks(text, cpus);
        let Some(before) = self.last.replace(now) else {
            return;
        };
        // One of the CPUs was offline: what is between the two means nothing. So it is where the
        // system says nothing.
        let all = now.all.checked_sub(before.all).filter(|&all| all > 0);
        let busy = now.busy.checked_sub(before.busy);
        if let (Some(all), Some(busy)) = (all, busy) {
            self.utilization = Some((busy as f64 / all as f64).clamp(0.0, 1.0));
        }
    }

    /// What runs now, and how busy these CPUs are. Nothing where the system does not say.
    pub(super) fn look(
        &self,
        cpus: &CpuSet,
        cores: usize,
        under_way: Option<usize>,
    ) -> Option<Load> {
        let text = fs::read_to_string(LOADAVG).ok()?;
        self.load(&text, cpus, cores, under_way)
    }

    fn load(
        &self,
        text: &str,
        cpus: &CpuSet,
        cores: usize,
        under_way: Option<usize>,
    ) -> Option<Load> {
        let (running, _) = text.split(' ').nth(3)?.split_once('/')?;
        // This process reads, so it is one of them.
        let running = running.parse::<u64>().ok()?.saturating_sub(1) as f64;
        let running = match under_way {
            None => running,
            Some(known) => running.min(known as f64),
        };
        // Until these CPUs are counted, by what runs.
        let by_tasks = || (running / cpus.len().max(1) as f64).min(1.0);
        Some(Load {
            running,
            cores: cores as f64,
            utilization: self.utilization.unwrap_or_else(by_tasks),
        })
    }

    /// The set is another one: what was counted until now is of no use.
    pub(super) fn begin_anew(&mut self, cpus: &CpuSet) {
        *self = Meter::default();
        self.count(cpus);
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

    fn stat(busy: u64, idle: u64) -> String {
        format!(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu1 5 0 0 5 0 0 0 0 0 \
             0\nintr 1 2 3\nprocs_running 3\nprocs_blocked 0\n"
        )
    }

    #[test]
    fn it_is_the_share_of_the_ticks_between_two_looks() {
        let one: CpuSet = "0".parse().expect("a list");
        let mut meter = Meter::default();
        meter.add(&stat(100, 100), &one);
        assert_eq!(meter.utilization, None, "it is of all the time before");
        meter.add(&stat(130, 110), &one);
        assert_eq!(meter.utilization, Some(0.75));
        // No tick between, ticks that go back, and garbage: what was known.
        for text in [
            stat(130, 110),
            stat(1, 1),
            String::new(),
            "cpu0 x".to_owned(),
        ] {
            meter.add(&text, &one);
            assert_eq!(meter.utilization, Some(0.75), "{text}");
        }
        meter.add(&stat(1, 1), &one);
        meter.add(&stat(1, 11), &one);
        assert_eq!(meter.utilization, Some(0.0));
        meter.begin_anew(&one);
        assert_eq!(meter.utilization, None);
    }

    #[test]
    fn what_runs_is_told_at_each_look() {
        let two: CpuSet = "0-1".parse().expect("a list");
        let mut meter = Meter::default();
        let line = |running: &str| format!("1.49 1.55 2.21 {running}/125 20969\n");
        let load = meter.load(&line("2"), &two, 1, None).expect("it is told");
        assert_eq!(
            (load.running, load.cores, load.utilization),
            (1.0, 1.0, 0.5)
        );
        meter.utilization = Some(0.25);
        let load = meter.load(&line("5"), &two, 1, Some(2));
        let load = load.expect("it is told");
        assert_eq!((load.running, load.utilization), (2.0, 0.25));
        // What runs is all somebody else's.
        let idle = meter.load(&line("5"), &two, 1, Some(0));
        assert_eq!(idle.expect("it is told").running, 0.0);
        for garbage in ["", "1 2 3", "1 2 3 4", "1 2 3 x/4"] {
            assert_eq!(meter.load(garbage, &two, 1, None), None, "{garbage}");
        }
        let real = meter.look(&two, 1, None).expect("this system tells it");
        assert!(real.running < 1e6);
    }
}
