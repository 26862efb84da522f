//! What the store of all machines' sessions is told, beside what cohorts ask it: by the same pool,
//! for answers that are held until it has answered (`answer/held.rs`).

use crate::backend::{Asker, Cause, Failure, Told};
use crate::shared_sessions::StoreKey;
use rhythm_engine::cohort::Cell;
use rhythm_net::{Key, Slab, Time};
use std::collections::VecDeque;

/// The bit of keys that no query of a cohort has.
const TOLD: u64 = 1 << 63;

/// What happens to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Begins,
    Changes,
    Ends,
}

/// What the store is told of a session.
#[derive(Debug)]
pub(crate) struct StoreWrite {
    pub(crate) what: What,
    pub(crate) key: StoreKey,
    /// Empty where it ends.
    pub(crate) record: Vec<u8>,
}

/// Something that it is to be told, for an answer that is held.
pub(crate) struct Telling {
    pub(crate) held: Key,
    pub(crate) write: StoreWrite,
    pub(crate) asker: Asker,
}

/// What became of it: whether there was something to change, or why nothing was done.
pub(crate) struct StoreAnswer {
    pub(crate) held: Key,
    pub(crate) what: What,
    pub(crate) outcome: Result<bool, Failure>,
}

/// What is under way.
struct UnderWay {
    held: Key,
    what: What,
    /// Which backend it is.
    backend: Key,
    asked: Time,
}

/// What the store is told, and has answered.
#[derive(Default)]
pub(crate) struct Tellings {
    under_way: Slab<UnderWay>,
    answers: VecDeque<StoreAnswer>,
}

impl Tellings {
    /// A backend is told something: by which key its answer comes.
    pub(crate) fn tell(&mut self, telling: &Telling, backend: Key, now: Time) -> u64 {
        let under_way = self.under_way.insert(UnderWay {
            held: telling.held,
            what: telling.write.what,
            backend,
            asked: now,
        });
        under_way.as_u64() | TOLD
    }

    /// What has been answered.
    pub(crate) fn next_answer(&mut self) -> Option<StoreAnswer> {
        self.answers.pop_front()
    }

    /// Whether what a backend tells by this key is an answer to what it was told.
    pub(crate) fn is_answer(key: u64) -> bool {
        key & TOLD != 0
    }

    /// Takes such an answer.
    pub(crate) fn take(&mut self, key: u64, told: Result<Told<'_>, Failure>) -> Option<Took> {
        let under_way = self.under_way.remove(Key::from_u64(key))?;
        let outcome = told.and_then(|told| match told.status() {
            0 => Ok(has_changed(told)),
            _ => Err(Cause::Refused.into()),
        });
        let took = Took {
            asked: under_way.asked,
            has_failed: outcome.is_err(),
        };
        self.answers.push_back(StoreAnswer {
            held: under_way.held,
            what: under_way.what,
            outcome,
        });
        Some(took)
    }

    /// Whether a backend is told something that it has not answered.
    pub(crate) fn is_told(&self, backend: Key) -> bool {
        let mut all = self.under_way.iter();
        all.any(|(_, under_way)| under_way.backend == backend)
    }
}

/// What an answer was, for the backend's figures.
pub(crate) struct Took {
    pub(crate) asked: Time,
    pub(crate) has_failed: bool,
}

/// Whether there was something under a key: what answers tells so by no row, or by 0.
fn has_changed(told: Told<'_>) -> bool {
    let cell = told.rows().next().and_then(|mut row| row.next());
    !matches!(cell, None | Some(Cell::Null | Cell::Int(0)))
}
