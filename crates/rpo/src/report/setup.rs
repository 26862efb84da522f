//! What is simulated for a row of a table: a workload, a machine, and who chooses.

use crate::Setting;
use crate::model::{Chooser, Length, ModelError, Oracle, Outcome, Params, Run, Workload, run};
use crate::policy::{Fixed, Learned, LearnedSettings, Majority, Policy};

/// Who chooses the setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Who {
    Ht,
    Noht,
    /// The paper's rule, with a batch of so many.
    Rpo(u32),
    Learned,
    /// Who sees into the server; of several, and of both settings alone, the best of each run.
    Oracle,
}

impl Who {
    fn name(self) -> String {
        match self {
            Who::Ht => "HT".into(),
            Who::Noht => "NOHT".into(),
            Who::Rpo(20) => "RPO".into(),
            Who::Rpo(batch) => format!("RPO, b = {batch}"),
            Who::Learned => "learned".into(),
            Who::Oracle => "oracle".into(),
        }
    }
}

/// What is simulated, but for the seed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) workload: Workload,
    pub(super) ghz: f64,
    pub(super) cores: u32,
    pub(super) who: Who,
}

impl Setup {
    pub(super) fn name(&self) -> String {
        let workload = match &self.workload {
            Workload::Mix { mix, .. } => mix.clone(),
            // Fewer light sessions than elsewhere: a mean of so many seconds between two.
            Workload::Custom {
                switching, light_s, ..
            } if *light_s > 0.02 => {
                format!("S({:.0}) {light_s} s", switching * 100.0)
            }
            Workload::Custom { switching, .. } => format!("S({:.0})", switching * 100.0),
        };
        format!("{workload}, {} GHz, {}", self.ghz, self.who.name())
    }

    /// A run of it.
    pub(super) fn once(&self, params: &Params, seed: u64) -> Result<Outcome, ModelError> {
        let mut policy: Box<dyn Policy> = match self.who {
            Who::Ht => Box::new(Fixed::new(Setting::AllThreads)),
            Who::Noht => Box::new(Fixed::new(Setting::OnePerCore)),
            Who::Rpo(batch) => Box::new(Majority::with_batch(&params.classes(), batch)),
            Who::Learned => Box::new(Learned::new(LearnedSettings::default())),
            Who::Oracle => return self.best(params, seed),
        };
        self.run(params, seed, false, Chooser::Policy(policy.as_mut()))
    }

    /// A run of the paper's rule or of a setting alone, second by second.
    pub(super) fn seconds(&self, params: &Params, seed: u64) -> Result<Outcome, ModelError> {
        let mut policy: Box<dyn Policy> = match self.who {
            Who::Rpo(batch) => Box::new(Majority::with_batch(&params.classes(), batch)),
            Who::Noht => Box::new(Fixed::new(Setting::OnePerCore)),
            _ => Box::new(Fixed::new(Setting::AllThreads)),
        };
        self.run(params, seed, true, Chooser::Policy(policy.as_mut()))
    }

    fn best(&self, params: &Params, seed: u64) -> Result<Outcome, ModelError> {
        let alone = |who| Setup {
            who,
            ..self.clone()
        };
        let mut best = alone(Who::Ht).once(params, seed)?;
        let mut offer = |outcome: Outcome| {
            if outcome.response_ms() < best.response_ms() {
                best = outcome;
            }
        };
        offer(alone(Who::Noht).once(params, seed)?);
        for oracle in Oracle::all() {
            offer(self.run(params, seed, false, Chooser::Oracle(oracle))?);
        }
        Ok(best)
    }

    fn run(
        &self,
        params: &Params,
        seed: u64,
        each_second: bool,
        chooser: Chooser<'_>,
    ) -> Result<Outcome, ModelError> {
        let mut params = params.clone();
        params.server.cores = self.cores;
        // The paper's durations (section II-B). Who learns has had one before. Of a mix all times
        // are alike; of S(0), whose sort of sessions changes once, no two are, so all have gone
        // through its sessions once: they are compared over the same ones.
        let learned = self.who == Who::Learned;
        let length = match &self.workload {
            Workload::Mix { mix, .. } => {
                let lasts = if mix == "browsing" { 900.0 } else { 1500.0 };
                let before = if learned { lasts } else { 60.0 };
                Length::Seconds {
                    all: before + lasts,
                    warm_up: before,
                }
            }
            Workload::Custom { switching, .. } if learned || *switching == 0.0 => {
                Length::Cycles { all: 2, warm_up: 1 }
            }
            Workload::Custom { .. } => Length::Cycles { all: 1, warm_up: 0 },
        };
        let run_of = Run {
            ghz: self.ghz,
            workload: self.workload.clone(),
            seed,
            length,
            each_second,
        };
        run(&params, &run_of, chooser)
    }
}
