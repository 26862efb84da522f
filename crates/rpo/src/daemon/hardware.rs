//! What the CPUs themselves count under each setting: instructions, cycles, and misses of the last
//! cache. It explains what a setting does; nothing is decided by it.
//!
//! All is counted that runs on the server's CPUs, whoever runs it, in the kernel, too
//! (perf_event_open(2)); the kernel lets only those who may watch everybody (CAP_PERFMON) do that.
//! Virtual machines often have no such counters. Where there are none, nothing is shown.

use crate::cpus::CpuSet;
use crate::setting::Setting;
use perf_event::events::Hardware as Kind;
use perf_event::{Builder, CountAndTime, Counter, ReadFormat};
use std::io::{self, ErrorKind};

/// Most CPUs: each needs three descriptors.
const CPUS_MAX: usize = 256;

/// What was counted while a setting was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) instructions: u64,
    pub(super) cycles: u64,
    /// None where the CPUs do not count them.
    pub(super) misses: Option<u64>,
    /// Requests that were answered meanwhile.
    pub(super) answers: u64,
}

impl Counted {
    /// For people; none where nothing was counted.
    pub(super) fn text(&self) -> Option<String> {
        if self.cycles == 0 {
            return None;
        }
        let rate = self.instructions as f64 / self.cycles as f64;
        let mut text = format!("{rate:.2} instructions a cycle");
        if self.answers > 0 {
            let each = |count: u64| count as f64 / self.answers as f64;
            text += &format!(", an answer {:.0} instructions", each(self.instructions));
            if let Some(misses) = self.misses {
                text += &format!(" and {:.1} misses of the last cache", each(misses));
            }
        }
        Some(text)
    }
}

/// Counters of a server's CPUs.
#[derive(Debug)]
pub struct Hardware {
    cpus: Vec<Cpu>,
    counted: [Counted; 2],
    /// Answers at the last look.
    answers: u64,
}

#[derive(Debug)]
struct Cpu {
    instructions: One,
    cycles: One,
    misses: Option<One>,
}

#[derive(Debug)]
struct One {
    what: What,
    kind: Kind,
    cpu: usize,
    counter: Counter,
    last: CountAndTime,
}

/// How what is to be counted is asked for.
type What = fn(Kind) -> Builder<'static>;

impl Hardware {
    /// Begins to count on these CPUs.
    ///
    /// # Errors
    /// When the CPUs count nothing, this process may not look, or there are more than 256.
    pub fn open(cpus: &CpuSet) -> io::Result<Hardware> {
        Hardware::of(cpus, Builder::new)
    }

    fn of(cpus: &CpuSet, what: What) -> io::Result<Hardware> {
        if cpus.len() > CPUS_MAX {
            let why = format!("{} CPUs are more than {CPUS_MAX}", cpus.len());
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        let open = |cpu, kind| One::open(what, kind, cpu);
        let all = cpus.iter().map(|cpu| {
            Ok(Cpu {
                instructions: open(cpu, Kind::INSTRUCTIONS)?,
                cycles: open(cpu, Kind::CPU_CYCLES)?,
                misses: open(cpu, Kind::CACHE_MISSES).ok(),
            })
        });
        Ok(Hardware {
            cpus: all.collect::<io::Result<_>>()?,
            counted: [Counted::default(); 2],
            answers: 0,
        })
    }

    /// Takes what was counted since the last look to be this setting's; so many requests were
    /// answered until now.
    pub(super) fn look(&mut self, setting: Setting, answers: u64) {
        let counted = &mut self.counted[setting.index()];
        counted.answers += answers.saturating_sub(self.answers);
        self.answers = answers;
        for cpu in &mut self.cpus {
            counted.instructions += cpu.instructions.look();
            counted.cycles += cpu.cycles.look();
            if let Some(misses) = &mut cpu.misses {
                *counted.misses.get_or_insert(0) += misses.look();
            }
        }
    }

    pub(super) fn counted(&self) -> [Counted; 2] {
        self.counted
    }
}

impl One {
    fn open(what: What, kind: Kind, cpu: usize) -> io::Result<One> {
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let mut counter = what(kind)
            .any_pid()
            .one_cpu(cpu)
            .include_kernel()
            .read_format(times)
            .build()?;
        counter.enable()?;
        let last = counter.read_count_and_time()?;
        Ok(One {
            what,
            kind,
            cpu,
            counter,
            last,
        })
    }

    /// What was counted since the last look; nothing on a CPU that was taken offline. The kernel
    /// takes a CPU's counters from it when it goes offline, and does not give them back: they can
    /// be read, and stand still. So one whose time stands still is made anew, once that is
    /// possible.
    fn look(&mut self) -> u64 {
        let Ok(now) = self.counter.read_count_and_time() else {
            return 0;
        };
        if now.time_enabled == self.last.time_enabled
            && let Ok(again) = One::open(self.what, self.kind, self.cpu)
        {
            *self = again;
            return 0;
        }
        let counted = since(&self.last, &now);
        self.last = now;
        counted
    }
}

/// What came between two reads. Counters that are more than the CPU has take turns; what one missed
/// is taken to be like what it saw.
fn since(last: &CountAndTime, now: &CountAndTime) -> u64 {
    let count = now.count.saturating_sub(last.count);
    let enabled = now.time_enabled.saturating_sub(last.time_enabled);
    let running = now.time_running.saturating_sub(last.time_running);
    if running == 0 {
        return 0;
    }
    let scaled = u128::from(count) * u128::from(enabled.max(running)) / u128::from(running);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;
    use std::time::{Duration, Instant};

    fn at(count: u64, time_enabled: u64, time_running: u64) -> CountAndTime {
        CountAndTime {
            count,
            time_enabled,
            time_running,
        }
    }

    #[test]
    fn counters_that_take_turns_are_scaled() {
        assert_eq!(since(&at(100, 10, 10), &at(300, 30, 30)), 200);
        assert_eq!(since(&at(100, 10, 10), &at(300, 50, 20)), 800);
        assert_eq!(since(&at(100, 10, 10), &at(100, 50, 10)), 0);
        assert_eq!(since(&at(100, 10, 10), &at(50, 5, 5)), 0);
        assert_eq!(since(&at(0, 0, 0), &at(u64::MAX, u64::MAX, 1)), u64::MAX);
    }

    #[test]
    fn it_is_told_for_people() {
        let none = Counted::default();
        assert_eq!(none.text(), None);
        let counted = Counted {
            instructions: 3000,
            cycles: 2000,
            misses: Some(25),
            answers: 10,
        };
        let text = counted.text().expect("it was counted");
        let (rate, answer) = text.split_once(", ").expect("both");
        assert_eq!(rate, "1.50 instructions a cycle");
        let expected = "an answer 300 instructions and 2.5 misses of the last cache";
        assert_eq!(answer, expected);
        let idle = Counted {
            answers: 0,
            ..counted
        };
        assert_eq!(idle.text().as_deref(), Some("1.50 instructions a cycle"));
    }

    /// By clocks, which machines without counters have, too.
    #[test]
    fn each_setting_has_what_came_while_it_was_in_force() {
        let cpus: CpuSet = [0].into_iter().collect();
        let mut hardware = match Hardware::of(&cpus, |_| Builder::new(Software::CPU_CLOCK)) {
            Ok(hardware) => hardware,
            Err(error) => {
                eprintln!("not tried: this user may not watch everybody: {error}");
                return;
            }
        };
        // The looks themselves take time, and a counter may be read first in one and last in the
        // other: each has at least what is slept, at most what both looks and the sleep take.
        let begin = Instant::now();
        hardware.look(Setting::AllThreads, 0);
        let before = hardware.counted();
        std::thread::sleep(Duration::from_millis(50));
        hardware.look(Setting::OnePerCore, 7);
        let most = begin.elapsed().as_nanos() as u64;
        let [all, one] = hardware.counted();
        assert_eq!(all, before[0]);
        assert_eq!(one.answers, 7);
        // It is the time that went by on that CPU, in ns, by a clock that nobody sets right.
        let near = 50_000_000 * 99 / 100..=most * 101 / 100;
        for clock in [one.instructions, one.cycles, one.misses.expect("a clock")] {
            assert!(near.contains(&clock), "{clock} of {most}");
        }
        hardware.look(Setting::AllThreads, 9);
        assert_eq!(hardware.counted()[0].answers, 2);
    }

    #[test]
    fn a_counter_that_stands_still_is_made_anew() {
        let clock: What = |_| Builder::new(Software::CPU_CLOCK);
        let mut one = match One::open(clock, Kind::CPU_CYCLES, 0) {
            Ok(one) => one,
            Err(error) => {
                eprintln!("not tried: this user may not watch everybody: {error}");
                return;
            }
        };
        // As a CPU's are that went offline.
        one.counter.disable().expect("it is on");
        one.look();
        let pause = || std::thread::sleep(Duration::from_millis(5));
        pause();
        one.look();
        pause();
        assert!(one.look() > 1_000_000, "it counts again");
    }

    #[test]
    fn a_machine_without_counters_has_none() {
        if std::path::Path::new("/sys/bus/event_source/devices/cpu").exists() {
            eprintln!("not tried: this machine has counters");
            return;
        }
        let cpus: CpuSet = [0].into_iter().collect();
        assert!(Hardware::open(&cpus).is_err());
        let many: CpuSet = (0..=CPUS_MAX).collect();
        let error = Hardware::open(&many).expect_err("too many").to_string();
        assert_eq!(error, "257 CPUs are more than 256");
    }
}
