//! What the controller tells of itself: a page for people, figures, health.

use super::account::Account;
use super::feed::Seen;
use super::hardware::Counted;
use crate::collector::Counts;
use crate::policy::Outlook;
use crate::setting::Setting;
use rhythm_observe::{Sample, encode};
use std::fmt::Write;
use std::time::Duration;

/// What there is to tell, replaced from time to time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) switcher: String,
    pub(super) sets: [String; 2],
    pub(super) setting: Option<Setting>,
    /// For how long the controller has run.
    pub(super) ran_for: Duration,
    /// For how long it has been in force.
    pub(super) in_force: Duration,
    /// Only watching.
    pub(super) advises: bool,
    /// What keeps it from switching.
    pub(super) trouble: Option<String>,
    pub(super) explanation: String,
    /// What the policy expects, where it learns and has learned.
    pub(super) outlook: Option<Outlook>,
    pub(super) account: Account,
    /// What CPUs counted in each setting, where they do.
    pub(super) counted: Option<[Counted; 2]>,
    pub(super) counts: Counts,
    pub(super) ring_errors: u64,
    /// None where that is not known.
    pub(super) under_way: Option<usize>,
    pub(super) running: f64,
    pub(super) utilization: f64,
    /// Each class, and what was seen of it in each setting.
    pub(super) classes: Vec<(String, [Seen; 2])>,
}

impl Snapshot {
    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let none = || "not known".to_owned();
        let setting = self
            .setting
            .map_or_else(none, |setting| setting.to_string());
        let seconds = |time: &Duration| format!("{:.1} s", time.as_secs_f64());
        let mode = if self.advises { " (only advises)" } else { "" };
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "setting      {setting}{mode}, for {} so far",
            seconds(&self.in_force)
        );
        let _ = writeln!(text, "switches     {}", self.switcher);
        let _ = writeln!(
            text,
            "sets         all {}, one a core {}",
            self.sets[0], self.sets[1]
        );
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(text, "TROUBLE      {trouble}");
        }
        let why = if self.advises { "advice" } else { "why" };
        let _ = writeln!(text, "{why:<12} {}", self.explanation);
        let _ = writeln!(
            text,
            "time         {} all threads, {} one a core",
            seconds(&self.account.in_setting[0]),
            seconds(&self.account.in_setting[1])
        );
        let _ = writeln!(
            text,
            "switched     {} times to all threads, {} to one a core, {:.0} us each; {} failed, {} \
             times the kernel had another set",
            self.account.switches[0],
            self.account.switches[1],
            self.account.switching.as_secs_f64() * 1e6
                / self.account.switches.iter().sum::<u64>().max(1) as f64,
            self.account.failures,
            self.account.disagreements
        );
        let _ = writeln!(
            text,
            "requests     {} arrivals and completions told, {} lost, {} garbage; {}; {} classes",
            self.counts.records,
            self.counts.lost,
            self.counts.garbage,
            self.under_way
                .map_or("how many are under way is not known".to_owned(), |count| {
                    format!("{count} under way")
                }),
            self.classes.len()
        );
        let _ = writeln!(
            text,
            "load         {:.1} run, CPUs {:.0} % busy",
            self.running,
            self.utilization * 100.0
        );
        for (setting, counted) in Setting::ALL.iter().zip(self.counted.iter().flatten()) {
            if let Some(counted) = counted.text() {
                let _ = writeln!(text, "CPUs count   {setting}: {counted}");
            }
        }
        for (at, decision) in &self.account.decisions {
            let _ = writeln!(text, "decided      {}: {decision}", seconds(at));
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> String {
        let setting = self.setting.map(|setting| setting.to_string());
        let decision = |(at, what): &(Duration, String)| {
            let at_seconds = at.as_secs_f64();
            serde_json::json!({"at_seconds": at_seconds, "decision": what})
        };
        serde_json::json!({
            "setting": setting,
            "advises": self.advises,
            "trouble": self.trouble,
            "why": self.explanation,
            "decisions": self.account.decisions.iter().map(decision).collect::<Vec<_>>(),
            "text": self.text(),
        })
        .to_string()
    }

    /// For `/metrics`.
    pub(super) fn figures(self) -> Result<String, std::fmt::Error> {
        encode("rhythm_rpo", move |to| {
            let both = |values: [f64; 2]| {
                let sample = |setting: Setting| {
                    let labels = vec![("setting", label(setting).to_owned())];
                    (labels, values[setting.index()])
                };
                Setting::ALL.map(sample).to_vec()
            };
            let is = |setting| f64::from(u8::from(self.setting == Some(setting)));
            to.gauges("setting", "1: in force", both(Setting::ALL.map(is)))?;
            let switches = both(self.account.switches.map(|count| count as f64));
            let whole = |samples: Vec<(Vec<(&'static str, String)>, f64)>| {
                let whole = |(labels, value)| (labels, value as u64);
                samples.into_iter().map(whole).collect::<Vec<_>>()
            };
            to.counters("switches", "Switches to a setting", whole(switches))?;
            if let Some(counted) = self.counted {
                let of = |what: fn(Counted) -> u64| {
                    whole(both(counted.map(|counted| what(counted) as f64)))
                };
                let help = "Instructions on the server's CPUs";
                to.counters("instructions", help, of(|all| all.instructions))?;
                let help = "Cycles of the server's CPUs";
                to.counters("cycles", help, of(|all| all.cycles))?;
                if counted.iter().any(|counted| counted.misses.is_some()) {
                    let help = "Misses of the last cache on the server's CPUs";
                    to.counters("cache_misses", help, of(|all| all.misses.unwrap_or(0)))?;
                }
                let help = "Requests answered while CPUs counted";
                to.counters("answers", help, of(|all| all.answers))?;
            }
            let seconds = both(self.account.in_setting.map(|time| time.as_secs_f64()));
            to.times("setting_seconds", "Time in a setting", seconds)?;
            to.counter(
                "decisions",
                "Decisions for another setting",
                self.account.decided,
            )?;
            to.counter(
                "switch_failures",
                "Switches that failed",
                self.account.failures,
            )?;
            let help = "Times that the kernel had another set than it was given";
            to.counter("disagreements", help, self.account.disagreements)?;
            let switching = self.account.switching.as_secs_f64();
            let switching = vec![(Vec::new(), switching)];
            to.times("switching_seconds", "Time that switching took", switching)?;
            to.counter(
                "records",
                "Arrivals and completions told",
                self.counts.records,
            )?;
            let help = "Records overwritten before they were read";
            to.counter("records_lost", help, self.counts.lost)?;
            to.counter("records_garbage", "What was no record", self.counts.garbage)?;
            let help = "Times that a ring could not be opened or read";
            to.counter("ring_errors", help, self.ring_errors)?;
            if let Some(under_way) = self.under_way {
                let help = "Requests under way, where that is known";
                to.gauge("requests_under_way", help, under_way as f64)?;
            }
            to.gauge("running", "Tasks that run or could", self.running)?;
            to.gauge(
                "utilization",
                "Share of the CPUs that is busy",
                self.utilization,
            )?;
            if let Some(outlook) = self.outlook {
                let help = "What part of their time requests are expected to be spared by the \
                            setting in force, against the other one";
                to.gauge("expected_gain", help, outlook.gain)?;
                let help = "How sure it is that they are spared any, from 0 to 1";
                to.gauge("confidence", help, outlook.confidence)?;
                let help = "Switches that were taken back because they made it worse";
                to.counter("reverts", help, outlook.learning.reverts)?;
                let help = "Times that the other setting was tried";
                to.counter("explorations", help, outlook.learning.explorations)?;
            }
            let classes = self.classes.len() as f64;
            to.gauge("classes", "Classes of requests", classes)?;
            let answers = of_classes(&self.classes, |seen| seen.answers);
            let help = "Requests that were answered well, by class and setting";
            to.counters("class_answers", help, answers)?;
            let seconds = of_classes(&self.classes, |seen| seen.took.as_secs_f64());
            let help = "Time that these took";
            to.times("class_seconds", help, seconds)
        })
    }
}

/// A setting, in labels.
fn label(setting: Setting) -> &'static str {
    match setting {
        Setting::AllThreads => "all_threads",
        Setting::OnePerCore => "one_per_core",
    }
}

/// A figure of each class in each setting.
fn of_classes<T>(classes: &[(String, [Seen; 2])], figure: impl Fn(&Seen) -> T) -> Vec<Sample<T>> {
    let mut samples = Vec::new();
    for (class, seen) in classes {
        for setting in Setting::ALL {
            let labels = vec![
                ("class", class.clone()),
                ("setting", label(setting).to_owned()),
            ];
            samples.push((labels, figure(&seen[setting.index()])));
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::super::telling::Status;
    use super::*;
    use rhythm_observe::admin::{Observed, Told};

    #[test]
    fn all_of_it_can_be_told() {
        let shared = Status::default();
        let decision = (
            Duration::from_secs(3),
            "one a core: 3 of the last 20".to_owned(),
        );
        shared.set(Snapshot {
            setting: Some(Setting::OnePerCore),
            in_force: Duration::from_secs(2),
            trouble: Some("cannot write cpuset.cpus".to_owned()),
            account: Account {
                switches: [1, 2],
                switching: Duration::from_millis(250),
                in_setting: [Duration::ZERO, Duration::from_millis(1500)],
                decisions: [decision].into(),
                ..Account::default()
            },
            counted: Some([
                Counted::default(),
                Counted {
                    instructions: 1_200,
                    cycles: 1_000,
                    misses: Some(7),
                    answers: 2,
                },
            ]),
            ..Snapshot::default()
        });
        assert_eq!(
            shared.tell(b"/healthz"),
            Some(Told::health(Some("cannot write cpuset.cpus")))
        );
        assert_eq!(shared.tell(b"/other"), None);
        let text = shared.get().text();
        for part in [
            "setting      one a core, for 2.0 s so far",
            "TROUBLE      cannot write",
            "3 of the last 20",
            "2 to one",
            "CPUs count   one a core: 1.20 instructions a cycle",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let figures = shared.get().figures().expect("a text can be written to");
        for line in [
            "rhythm_rpo_setting{setting=\"one_per_core\"} 1.0",
            "rhythm_rpo_switches_total{setting=\"one_per_core\"} 2",
            "rhythm_rpo_instructions_total{setting=\"one_per_core\"} 1200",
            "rhythm_rpo_cache_misses_total{setting=\"one_per_core\"} 7",
            "rhythm_rpo_setting_seconds_total{setting=\"one_per_core\"} 1.5",
            "rhythm_rpo_switching_seconds_total{} 0.25",
        ] {
            assert!(
                figures.lines().any(|told| told == line),
                "{line} is not in {figures}"
            );
        }
        let json: serde_json::Value = serde_json::from_str(&shared.get().json()).expect("JSON");
        assert_eq!(json["setting"], "one a core");
    }
}
