//! The learned policy: no table, no batch size; what each setting does is found out from the
//! completions (the paper leaves this as future work, section VI).
//!
//! ```text
//! arrivals, completions ──▶ rates (speed by setting and load) ─┐
//! load ──▶ work offered ───────────────────────────────────────┴─▶ chain: requests running, in
//!     either setting ──▶ what the setting in force loses ──sum──▶ switch when that is worth it
//! ```
//!
//! What is lost against the other setting is summed up, never below nothing, and it switches when
//! the sum is worth a number of switches (`patience`): a plan that is never far from what knowing
//! the future would have allowed, and whose period grows with the measured cost of switching. What
//! turns out to be switched to and fro doubles the patience: the batch of the paper, adapting.
//!
//! Safety: the baseline, all threads, is in force until the other one is better at its own lower
//! bound; what is uncertain is tried for seconds, only
//! with room on the cores and in the objective; what made it worse is taken back and counted.

mod chain;
mod drift;
mod explore;
mod rates;
mod settings;

use super::{Decision, Event, Learning, Load, Outlook, Policy, Why};
use crate::Setting;
use chain::mean_running;
use drift::{Drift, FORGET};
use explore::Explorer;
use rates::{Rates, Sums};
pub use settings::LearnedSettings;
use std::time::Duration;

/// The learned policy.
#[derive(Debug)]
pub struct Learned {
    settings: LearnedSettings,
    rates: Rates,
    explorer: Explorer,
    drift: Drift,
    learning: Learning,
    setting: Setting,
    /// While a switch is under way: until when at the latest, and why it is made.
    switching: Option<(f64, Why)>,
    cores: f64,
    utilization: f64,
    /// Smoothed: running requests, cores' worth of work done, response time.
    running: f64,
    offered: f64,
    response: f64,
    heard: f64,
    fitted: f64,
    /// Running requests that the chain expects, by setting; of the one that is not the baseline, at
    /// its lower bound.
    expected: [f64; 2],
    /// The same, as likely as not: what is told.
    likely: [f64; 2],
    /// Seconds times running requests lost against the other setting.
    lost: f64,
    patience: f64,
    /// Seconds of standstill that a switch costs.
    cost: f64,
    switched: f64,
    trial: Option<Trial>,
    /// No switch for a gain, and no try, before this.
    held: f64,
    last: Option<Why>,
}

/// A switch that has yet to prove itself against the setting before it.
#[derive(Clone, Copy, Debug)]
struct Trial {
    from: Sums,
    until: f64,
}

/// Fitted so often, in seconds.
const FIT_EVERY: f64 = 0.5;
/// Running requests are smoothed over this.
const SMOOTH: f64 = 0.03;
/// A switch proves itself within this.
const TRIAL: f64 = 4.0;
/// After one that did not, none for this.
const HOLD: f64 = 30.0;
/// A switch that nobody confirms is over after this.
const SWITCH_MAX: f64 = 2.0;
/// Switching back this soon is to and fro.
const TO_AND_FRO: f64 = 5.0;
/// Without a word on the load for so long, it goes by what is in flight.
const SILENCE: f64 = 0.5;
const PATIENCE_MAX: f64 = 64.0;
/// Completions from which on a setting is known.
const KNOWN: f64 = 1000.0;
/// As unsure as it can be of a load that it has not seen, which would else decide alone.
const UNSEEN: f64 = 0.2;
/// Standard deviations that are no chance.
const SURE: f64 = 2.5;

impl Learned {
    /// With all threads as its baseline.
    #[must_use]
    pub fn new(settings: LearnedSettings) -> Learned {
        Learned {
            rates: Rates::new(),
            explorer: Explorer::new(settings.explore_for.as_secs_f64()),
            drift: Drift::default(),
            learning: Learning::default(),
            setting: Setting::AllThreads,
            switching: None,
            cores: 1.0,
            utilization: 0.0,
            running: 0.0,
            offered: 0.0,
            response: 0.0,
            heard: 0.0,
            fitted: 0.0,
            expected: [0.0; 2],
            likely: [0.0; 2],
            lost: 0.0,
            patience: settings.patience,
            cost: settings.switch_cost.as_secs_f64(),
            switched: 0.0,
            trial: None,
            held: 0.0,
            last: None,
            settings,
        }
    }

    /// How it has gone so far.
    #[must_use]
    pub fn learning(&self) -> Learning {
        self.learning
    }

    /// What the setting in force is expected to answer sooner or later than the other one, as a
    /// share of the other one's running requests; positive where it is better.
    #[must_use]
    pub fn gain(&self) -> f64 {
        let other = self.likely[self.setting.other().index()];
        if other > 0.0 {
            1.0 - self.likely[self.setting.index()] / other
        } else {
            0.0
        }
    }

    fn heard(&mut self, load: &Load, now: f64) -> Option<Decision> {
        let passed = (now - self.heard).clamp(0.0, 1.0);
        self.heard = now;
        self.cores = load.cores.max(1.0);
        self.utilization = load.utilization;
        match &self.switching {
            Some((until, _)) if now < *until => return None,
            Some(_) => {
                self.switching = None;
                self.explorer.cancel(now);
            }
            None => {}
        }
        self.running += (load.running - self.running) * (1.0 - (-passed / SMOOTH).exp());
        self.rates
            .change(self.setting, self.running, self.cores, now);
        let work = self.running
            * self
                .rates
                .speed(self.setting, self.running.max(0.01), self.cores);
        let horizon = self.settings.horizon.as_secs_f64();
        self.offered += (work - self.offered) * (1.0 - (-passed / horizon).exp());
        if now - self.fitted >= FIT_EVERY {
            self.fit(now);
        }
        self.decide(passed, now)
    }

    fn fit(&mut self, now: f64) {
        let memory = self.settings.memory.as_secs_f64();
        let sums = self.rates.sums(now);
        let speeds = self.rates.speeds(self.setting);
        if self.drift.alarmed(&sums, &speeds, now) {
            self.learning.changes += 1;
            self.explorer.restart();
            self.rates.forget(FORGET);
        }
        self.rates.forget((-(now - self.fitted) / memory).exp());
        self.fitted = now;
        self.rates.fit(now);
        self.drift.restart(self.rates.sums(now));
        self.expected = Setting::ALL.map(|setting| self.expect(setting, true));
        self.likely = Setting::ALL.map(|setting| self.expect(setting, false));
    }

    /// Running requests in a setting; of the one that is not the baseline, at its lower bound, if
    /// that is asked for.
    fn expect(&self, setting: Setting, bounded: bool) -> f64 {
        mean_running(self.offered, self.cores, |running| {
            let speed = self.rates.speed(setting, running, self.cores);
            match setting {
                Setting::OnePerCore if bounded => {
                    speed * (-self.deviation(running / self.cores)).exp()
                }
                _ => speed,
            }
        })
    }

    /// Standard deviation of the logarithm of both settings' speeds' ratio near a load.
    fn deviation(&self, load: f64) -> f64 {
        let part = |setting| 1.0 / self.rates.weight(setting, load).max(1.0);
        (part(Setting::AllThreads) + part(Setting::OnePerCore))
            .sqrt()
            .min(UNSEEN)
    }

    /// How sure it is that fewer requests run in a setting, with so many, than in the other one.
    fn confidence(&self, here: f64, there: f64) -> f64 {
        let deviations = (there / here).ln() / self.deviation(self.offered / self.cores);
        1.0 / (1.0 + (-1.702 * deviations).exp())
    }

    fn decide(&mut self, passed: f64, now: f64) -> Option<Decision> {
        let other = self.setting.other();
        let (ours, others) = (
            self.expected[self.setting.index()],
            self.expected[other.index()],
        );
        let busy = self.offered / self.cores;
        if let Some(end) = self
            .explorer
            .end(now, self.running / self.cores, self.setting)
        {
            let completions = self.rates.sums(now).completions_since(&end);
            self.lost = 0.0;
            self.fit(now);
            let [ours, others] = [self.setting, other].map(|one| self.expected[one.index()]);
            if ours < others {
                // What was tried is better: it stays.
                self.learning.switches += 1;
                self.switched = now;
                return None;
            }
            return self.switch(Why::Explored { completions }, now);
        }
        if self.explorer.exploring() {
            return None;
        }
        if let Some(why) = self.proves_itself(now) {
            return self.switch(why, now);
        }
        // Both must speak for the other one: what runs now, and what is to be expected.
        let speeds = [self.setting, other].map(|setting| {
            self.rates
                .speed(setting, self.running.max(0.01), self.cores)
        });
        let at_once = self.running * (1.0 - speeds[0] / speeds[1]);
        self.lost = (self.lost + passed * at_once.min(ours - others)).max(0.0);
        if now - self.switched > 60.0 {
            self.patience = (self.patience * (-passed / 60.0).exp()).max(self.settings.patience);
        }
        let standstill = self.cost * ours.max(1.0) / (1.0 - busy).max(0.2);
        if self.lost > self.patience * standstill && now >= self.held {
            let expected = 1.0 - others / ours;
            let evidence = self.lost / standstill;
            let confidence = self.confidence(others, ours);
            if now - self.switched < TO_AND_FRO {
                self.patience = (self.patience * 2.0).min(PATIENCE_MAX);
            }
            self.learning.switches += 1;
            return self.switch(
                Why::Gain {
                    expected,
                    confidence,
                    evidence,
                },
                now,
            );
        }
        let room = busy.max(self.utilization.min(1.0)) <= self.settings.explore_below;
        let late = self
            .settings
            .objective
            .is_some_and(|objective| self.response > objective.as_secs_f64());
        let is_free = self.trial.is_none() && now >= self.held;
        if room && !late && is_free && self.explorer.due(now) {
            self.learning.explorations += 1;
            let load = others / self.cores;
            let sure = (ours / others).ln().abs() > SURE * self.deviation(load);
            let known = self.rates.weight(other, load) >= KNOWN;
            self.explorer.begin(sure || known);
            return self.switch(Why::Exploring { load: busy }, now);
        }
        None
    }

    /// Whether the last switch has made it worse.
    fn proves_itself(&mut self, now: f64) -> Option<Why> {
        let trial = self.trial?;
        // Of what is known now of the setting before: both are in the same units then.
        let before = self.rates.speeds(self.setting.other());
        let [seen, expected] = self.rates.sums(now).since(&trial.from, &before);
        if expected >= 30.0 && seen < 0.85 * expected - 2.0 * expected.sqrt() {
            self.trial = None;
            self.learning.reverts += 1;
            self.held = now + HOLD;
            self.patience = (self.patience * 2.0).min(PATIENCE_MAX);
            return Some(Why::Reverted { expected, seen });
        }
        if now >= trial.until {
            self.trial = None;
        }
        None
    }

    fn switch(&mut self, why: Why, now: f64) -> Option<Decision> {
        self.switching = Some((now + SWITCH_MAX, why.clone()));
        self.last = Some(why.clone());
        Some(Decision {
            setting: self.setting.other(),
            why,
        })
    }

    fn switched(&mut self, setting: Setting, took: Duration, now: f64) {
        let why = self.switching.take().map(|(_, why)| why);
        let least = self.settings.switch_cost.as_secs_f64();
        self.cost += (took.as_secs_f64().max(least) - self.cost) * 0.3;
        self.rates.skip(now);
        let done = setting != self.setting;
        self.setting = setting;
        self.rates.change(setting, self.running, self.cores, now);
        let from = self.rates.sums(now);
        self.drift.restart(from);
        self.trial = (done && matches!(why, Some(Why::Gain { .. }))).then_some(Trial {
            from,
            until: now + TRIAL,
        });
        // Away from the baseline for no reason that is known (others did that, or it waited for
        // longer than a switch may take) is a try, too: it has an end.
        let is_strange = why.is_none() && setting == Setting::OnePerCore;
        if done && (is_strange || matches!(why, Some(Why::Exploring { .. }))) {
            self.explorer.began(now, from);
        } else if self.explorer.exploring() {
            self.explorer.cancel(now);
        }
        if matches!(why, Some(Why::Gain { .. } | Why::Reverted { .. })) {
            self.switched = now;
        }
        self.lost = 0.0;
        self.heard = now;
    }
}

impl Policy for Learned {
    fn on(&mut self, event: &Event, now: Duration) -> Option<Decision> {
        let now = now.as_secs_f64();
        match event {
            Event::Arrived(class) => {
                self.rates.arrived(*class, now);
                None
            }
            Event::Completed {
                class,
                took,
                ok: false,
            } => {
                self.rates.failed(*class, took.as_secs_f64(), now);
                None
            }
            Event::Completed { class, took, .. } => {
                self.rates.completed(*class, took.as_secs_f64(), now);
                self.response += (took.as_secs_f64() - self.response) * 0.02;
                None
            }
            Event::Replaced(class) => {
                self.rates.replace(*class, now);
                None
            }
            Event::Load(load) => self.heard(load, now),
            Event::Switched { setting, took } => {
                self.switched(*setting, *took, now);
                None
            }
            // Nobody says how busy it is: all that is in flight is taken to run.
            Event::Woke if now - self.heard >= SILENCE => {
                let running = f64::from(self.rates.in_flight());
                let utilization = (running / self.cores).min(1.0);
                self.heard(
                    &Load {
                        running,
                        cores: self.cores,
                        utilization,
                    },
                    now,
                )
            }
            Event::Woke => None,
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        let at = ((self.heard / SILENCE).floor() + 2.0) * SILENCE;
        Some(Duration::from_secs_f64(at))
    }

    fn outlook(&self) -> Option<Outlook> {
        let [here, there] =
            [self.setting, self.setting.other()].map(|setting| self.likely[setting.index()]);
        (here > 0.0 && there > 0.0).then(|| Outlook {
            gain: self.gain(),
            confidence: self.confidence(here, there),
            learning: self.learning,
        })
    }

    fn explain(&self) -> String {
        let [all, one] = self.likely;
        let why = self
            .last
            .as_ref()
            .map_or("no switch yet".to_owned(), ToString::to_string);
        format!(
            "{}: {:.2} of {} cores of work; {all:.2} requests run with all threads, {one:.2} with \
             one a core (expected); last: {why}",
            self.setting, self.offered, self.cores
        )
    }
}
#[cfg(test)]
mod tests;
