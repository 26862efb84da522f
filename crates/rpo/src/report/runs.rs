//! All runs, each made once, on as many threads as there are processors.
//!
//! Several tables show the same runs: what they need is gathered first. Which thread makes a run
//! changes nothing of it, since its seed is its own.

use super::setup::Setup;
use crate::model::{ModelError, Outcome, Params};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Setups, each with its outcomes by seed.
pub(super) struct Runs(Vec<(Setup, Vec<Outcome>)>);

impl Runs {
    /// Makes them; `progress` is told how many of how many are done.
    pub(super) fn make(
        params: &Params,
        setups: impl Iterator<Item = Setup>,
        seeds: usize,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Runs, ModelError> {
        let mut distinct: Vec<Setup> = Vec::new();
        for setup in setups {
            if !distinct.contains(&setup) {
                distinct.push(setup);
            }
        }
        let of = distinct.len() * seeds;
        progress(0, of);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let (next, setups) = (&AtomicUsize::new(0), &distinct);
        let mut outcomes: Vec<Option<Outcome>> = vec![None; of];
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(threads);
            for _ in 0..threads {
                let sender = sender.clone();
                scope.spawn(move || {
                    loop {
                        let run = next.fetch_add(1, Ordering::Relaxed);
                        let Some(setup) = setups.get(run / seeds) else {
                            return;
                        };
                        let outcome = setup.once(params, (run % seeds) as u64);
                        // After an error nobody takes any more.
                        if sender.send((run, outcome)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (done, (run, outcome)) in receiver.into_iter().enumerate() {
                outcomes[run] = Some(outcome?);
                progress(done + 1, of);
            }
            Ok::<(), ModelError>(())
        })?;
        let mut outcomes = outcomes.into_iter().flatten();
        let of_setup = distinct
            .into_iter()
            .map(|setup| (setup, outcomes.by_ref().take(seeds).collect()));
        Ok(Runs(of_setup.collect()))
    }

    /// The outcomes of a setup that was asked for.
    pub(super) fn of(&self, setup: &Setup) -> &[Outcome] {
        let found = self.0.iter().find(|(known, _)| known == setup);
        found.map_or(&[], |(_, outcomes)| outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::Who;
    use super::*;
    use crate::model::Workload;

    fn setup(mix: &str, who: Who) -> Setup {
        Setup {
            workload: Workload::mix(mix, 48.0),
            ghz: 2.5,
            cores: 4,
            who,
        }
    }

    #[test]
    fn each_is_made_once_and_is_what_it_is_by_itself() {
        let params = Params::paper().expect("params/paper.toml");
        let (ht, noht) = (setup("ordering", Who::Ht), setup("ordering", Who::Noht));
        let mut told = Vec::new();
        let asked = [ht.clone(), noht.clone(), ht.clone()];
        let made = Runs::make(&params, asked.into_iter(), 2, |done, of| {
            told.push((done, of));
        });
        let made = made.expect("a mix of the paper");
        assert_eq!(told, [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]);
        let alone = noht.once(&params, 1).expect("a mix of the paper");
        let among = made.of(&noht);
        assert_eq!(among.len(), 2);
        assert_eq!(among[1].response_ms(), alone.response_ms());
        assert_ne!(among[0].response_ms(), among[1].response_ms());
        assert!(made.of(&setup("ordering", Who::Learned)).is_empty());
        let unknown = std::iter::once(setup("shopping", Who::Ht));
        assert!(Runs::make(&params, unknown, 3, |_, _| {}).is_err());
    }
}
