//! Backend requests under way: what each key that a backend tells an answer by stands for.

use rhythm_cohort::ContextId;
use rhythm_net::Time;

/// A backend request that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// The context whose cohort waits for it.
    pub(crate) context: ContextId,
    /// Index into the cohort's requests.
    pub(crate) request: u32,
    /// Index of the backend among the pipeline's.
    pub(crate) backend: u32,
    /// When it was handed over.
    pub(crate) asked: Time,
    /// When it is given up.
    pub(crate) deadline: Time,
}

/// The backend requests under way, by key: index and generation.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    entries: Vec<(u32, Option<Pending>)>,
    free: Vec<u32>,
}

impl PendingRequests {
    pub(crate) fn insert(&mut self, pending: Pending) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.1 = Some(pending);
        u64::from(entry.0) << 32 | u64::from(index)
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut Pending> {
        let (generation, pending) = self.entries.get_mut(key as u32 as usize)?;
        (*generation == (key >> 32) as u32)
            .then_some(pending.as_mut())
            .flatten()
    }

    pub(crate) fn take(&mut self, key: u64) -> Option<Pending> {
        let pending = *self.get_mut(key)?;
        let entry = &mut self.entries[key as u32 as usize];
        *entry = (entry.0.wrapping_add(1), None);
        self.free.push(key as u32);
        Some(pending)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
