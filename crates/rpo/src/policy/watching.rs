//! Watching alone: says whether the choice of a setting matters to this server now.
//!
//! What one thread a core would do to requests is seen only where it is in force, so a policy that
//! learns learns nothing from a server that nobody switches. What can be seen is whether threads of
//! one core met at all: while no more tasks run than there are cores, each can have one to itself,
//! and both settings are the same to it. A rule that judges by what arrives needs no trial; what it
//! would have in force is told beside that.

use super::{Decision, Event, Load, Policy};
use crate::Setting;
use std::time::Duration;

/// In a smaller share of the looks than this, tasks that share cores are chance.
const CROWDED_MIN: f64 = 0.05;

/// Decides nothing of its own.
pub struct Watching {
    rule: Option<Box<dyn Policy + Send>>,
    requests: u64,
    looks: u64,
    /// Looks at which more ran than there were cores.
    crowded: u64,
    /// Of what ran at all looks, the sum.
    running: f64,
    cores: f64,
    setting: Setting,
    since: Duration,
    in_setting: [Duration; 2],
}

impl Watching {
    /// With a rule, if there is one that needs no trial.
    #[must_use]
    pub fn new(rule: Option<Box<dyn Policy + Send>>) -> Watching {
        Watching {
            rule,
            requests: 0,
            looks: 0,
            crowded: 0,
            running: 0.0,
            cores: 0.0,
            setting: Setting::AllThreads,
            since: Duration::ZERO,
            in_setting: [Duration::ZERO; 2],
        }
    }

    fn look(&mut self, load: &Load) {
        self.looks += 1;
        self.running += load.running;
        self.cores = load.cores;
        self.crowded += u64::from(load.running > load.cores);
    }

    fn advice(&self) -> String {
        if self.requests == 0 {
            return "nothing to gain: no request was told of (is it the server's ring, socket or \
                    log that was named, and does anybody ask it?)"
                .to_owned();
        }
        if self.looks == 0 {
            return "nothing can be said yet: how busy the CPUs are is not known".to_owned();
        }
        let share = self.crowded as f64 / self.looks as f64;
        let mean = self.running / self.looks as f64;
        let met = format!(
            "in {:.0} % of the time more tasks ran than the {} cores can have one each ({mean:.1} \
             on average)",
            share * 100.0,
            self.cores
        );
        match share < CROWDED_MIN {
            true => format!(
                "nothing to gain now: {met}; a task that has a core to itself runs the same in \
                 both settings"
            ),
            false => format!(
                "may be worth it: {met}; what one thread a core does to them cannot be seen by \
                 watching: `rhythm rpo` tries it for short times, and goes back where it does harm"
            ),
        }
    }
}

impl Policy for Watching {
    fn on(&mut self, event: &Event, now: Duration) -> Option<Decision> {
        match event {
            Event::Arrived(_) => self.requests += 1,
            Event::Load(load) => self.look(load),
            Event::Switched { .. } | Event::Completed { .. } | Event::Replaced(_) | Event::Woke => {
            }
        }
        self.in_setting[self.setting.index()] += now.saturating_sub(self.since);
        self.since = now;
        if let Event::Switched { setting, .. } = event {
            self.setting = *setting;
        }
        self.rule.as_mut()?.on(event, now)
    }

    fn wake_at(&self) -> Option<Duration> {
        self.rule.as_ref()?.wake_at()
    }

    fn explain(&self) -> String {
        let advice = self.advice();
        let Some(rule) = &self.rule else {
            return advice;
        };
        let one = self.in_setting[Setting::OnePerCore.index()].as_secs_f64();
        let all: f64 = self.in_setting.iter().map(Duration::as_secs_f64).sum();
        let share = if all > 0.0 { one / all } else { 0.0 };
        format!(
            "{advice}; the rule would have one a core in force in {:.0} % of the time, now {}",
            share * 100.0,
            rule.explain()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fixed;
    use super::*;
    use crate::ClassId;

    fn watched(requests: u64, running: &[f64]) -> String {
        let mut watching = Watching::new(None);
        for _ in 0..requests {
            let decided = watching.on(&Event::Arrived(ClassId::OTHER), Duration::ZERO);
            assert_eq!(decided, None);
        }
        for &running in running {
            let load = Load {
                running,
                cores: 4.0,
                utilization: 0.5,
            };
            assert_eq!(watching.on(&Event::Load(load), Duration::ZERO), None);
        }
        watching.explain()
    }

    #[test]
    fn who_has_a_core_each_has_nothing_to_gain() {
        let said = watched(0, &[9.0]);
        assert!(said.starts_with("nothing to gain: no request"), "{said}");
        let said = watched(7, &[]);
        assert!(said.starts_with("nothing can be said yet"), "{said}");
        let said = watched(7, &[0.0, 1.0, 4.0, 3.0]);
        assert!(said.starts_with("nothing to gain now: in 0 %"), "{said}");
        assert!(said.contains("the 4 cores") && said.contains("(2.0 on"));
        let said = watched(7, &[4.0, 5.0, 9.0, 8.0]);
        assert!(said.starts_with("may be worth it: in 75 %"), "{said}");
    }

    #[test]
    fn a_rule_that_needs_no_trial_is_told_of() {
        let rule = Box::new(Fixed::new(Setting::OnePerCore));
        let mut watching = Watching::new(Some(rule));
        let now = Duration::from_secs;
        let decided = watching.on(&Event::Arrived(ClassId::OTHER), now(1));
        let setting = decided.expect("it is not in force").setting;
        assert_eq!(setting, Setting::OnePerCore);
        let took = Duration::ZERO;
        assert_eq!(
            watching.on(&Event::Switched { setting, took }, now(1)),
            None
        );
        assert_eq!(watching.on(&Event::Woke, now(4)), None);
        let said = watching.explain();
        assert!(said.contains("in force in 75 % of the time"), "{said}");
    }
}
