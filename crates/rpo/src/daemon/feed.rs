//! What becomes of records: the classifier and the policy hear of them, and what is decided waits
//! to be obeyed.

use crate::classifier::log::is_success;
use crate::classifier::{ClassId, Classifier};
use crate::collector::{Happened, InFlight, Record, What};
use crate::controller::Controller;
use crate::policy::{Decision, Policy};
use crate::setting::Setting;
use std::time::Duration;

/// What was seen of a class in a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Requests that were answered well.
    pub(super) answers: u64,
    /// How long these took together.
    pub(super) took: Duration,
}

/// What becomes of records.
pub(super) struct Feed {
    pub(super) classifier: Classifier,
    pub(super) controller: Controller,
    pub(super) under_way: InFlight,
    /// Requests that were answered.
    pub(super) answers: u64,
    /// By class and setting ([`Setting::index`]).
    seen: Vec<[Seen; 2]>,
    /// The last decision that is not yet obeyed.
    pub(super) decision: Option<Decision>,
}

impl Feed {
    /// Of a server that has all its threads.
    pub(super) fn new(classifier: Classifier, policy: Box<dyn Policy + Send>) -> Feed {
        Feed {
            classifier,
            controller: Controller::new(policy, Setting::AllThreads),
            under_way: InFlight::default(),
            answers: 0,
            seen: Vec::new(),
            decision: None,
        }
    }

    /// Of several decisions of one look the last holds.
    pub(super) fn decide(&mut self, decision: Option<Decision>) {
        if decision.is_some() {
            self.decision = decision;
        }
    }

    fn arrived(&mut self, class: ClassId, now: Duration) {
        let decision = self.controller.arrived(class, now);
        self.decide(decision);
    }

    pub(super) fn take(&mut self, record: &Record<'_>, now: Duration) {
        let class = self.classifier.classify(record.method, record.path);
        match record.what {
            What::Arrived => {
                self.under_way.arrived(record.token, now);
                self.arrived(class, now);
            }
            What::Completed { took, status } => {
                self.under_way.completed(record.token);
                self.completed(class, took, status, now);
                self.learn(record, status, now);
            }
            What::Whole { took, status } => {
                self.under_way.was_untold(now);
                self.arrived(class, now);
                if let Some(took) = took {
                    self.completed(class, took, status, now);
                }
                self.learn(record, status, now);
            }
        }
    }

    /// Of an answer there may come a class, for requests from now on: this one came as another.
    fn learn(&mut self, record: &Record<'_>, status: u16, now: Duration) {
        if is_success(status) {
            self.make_class(record.method, record.path, now);
        }
    }

    /// The class of a request that somebody vouches for, its own if there is room.
    fn make_class(&mut self, method: &str, path: &str, now: Duration) -> ClassId {
        let class = self.classifier.learn(method, path);
        if class != ClassId::OTHER {
            return class;
        }
        let Some(replaced) = self.classifier.replace(method, path) else {
            return class;
        };
        if let Some(seen) = self.seen.get_mut(usize::from(replaced.0)) {
            *seen = Default::default();
        }
        let decision = self.controller.replaced(replaced, now);
        self.decide(decision);
        replaced
    }

    pub(super) fn counted(&mut self, path: &str, happened: Happened, now: Duration) {
        // It is a page of this process, which no stranger makes up.
        let class = self.make_class("", path, now);
        match happened {
            Happened::Arrived => self.arrived(class, now),
            Happened::Completed { took, ok } => self.finished(class, took, ok, now),
        }
    }

    /// Each class, and what was seen of it.
    pub(super) fn classes(&self) -> Vec<(String, [Seen; 2])> {
        let seen = self
            .seen
            .iter()
            .copied()
            .chain(std::iter::repeat(Default::default()));
        let classes = self.classifier.table().classes();
        // What a server counts of its own pages has no method in front.
        let names = classes.map(|class| class.name.trim_start().to_owned());
        names.zip(seen).collect()
    }

    fn completed(&mut self, class: ClassId, took: Duration, status: u16, now: Duration) {
        // What the server refuses or fails at says nothing of what the work takes.
        self.finished(class, took, (200..500).contains(&status), now);
    }

    fn finished(&mut self, class: ClassId, took: Duration, ok: bool, now: Duration) {
        self.answers += 1;
        if ok {
            let index = usize::from(class.0);
            if index >= self.seen.len() {
                self.seen.resize_with(index + 1, Default::default);
            }
            let seen = &mut self.seen[index][self.controller.setting().index()];
            seen.answers += 1;
            seen.took = seen.took.saturating_add(took);
        }
        let decision = self.controller.completed(class, took, ok, now);
        self.decide(decision);
    }
}
