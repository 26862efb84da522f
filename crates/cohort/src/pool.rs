//! The cohort pool: a fixed number of cohort contexts and where each stands (paper, section 3.1,
//! *Cohort Management*).
//!
//! ```text
//!            first lane                  last place taken
//!    Free ---------------> PartiallyFull ----------------> Full
//!     ^                          |                          |
//!     |                          | launched                 | launched
//!     |     answers sent         v                          v
//!     +------------------------ Busy <----------------------+
//! ```
//!
//! For each key (what the lanes of a cohort have in common) at most one context is partially full,
//! and it takes the lanes that come. A busy context's cohort is either here, waiting for a backend,
//! or away on a device. The pool never grows: when no context is free, the stage before it
//! stops taking input.

use std::time::Duration;

/// Index of a context in its pool.
pub type ContextId = u32;

/// Where a context stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextState {
    /// It can be used to form a new cohort.
    #[default]
    Free,
    /// Lanes are added to it.
    PartiallyFull,
    /// It has no room for another lane and waits for its launch.
    Full,
    /// It is being executed.
    Busy,
}

/// A cohort context.
#[derive(Debug)]
struct Context<K, C> {
    state: ContextState,
    /// Of no meaning while it is free.
    key: Option<K>,
    /// `None` while a device has it.
    cohort: Option<Box<C>>,
    /// When the first lane came in, since an origin of the caller's choice.
    since: Duration,
}

/// The contexts, each for a cohort `C` of lanes that have the key `K` in common. All methods that
/// take a [`ContextId`] panic on one that this pool did not give: the caller's mistake.
#[derive(Debug)]
pub struct Pool<K, C> {
    contexts: Vec<Context<K, C>>,
    lanes_max: usize,
    /// Free contexts; the one freed last, whose memory is hot, is used first.
    free: Vec<ContextId>,
    /// Partially full ones, oldest first, with their keys beside them: short, and searched for
    /// every request.
    forming: Vec<(K, ContextId)>,
    /// Full ones, oldest first.
    full: Vec<ContextId>,
}

impl<K: Copy + Eq + std::fmt::Debug, C> Pool<K, C> {
    /// A pool of `contexts` contexts for cohorts of at most `lanes_max` lanes, both at least 1,
    /// each made by `cohort`.
    pub fn new(contexts: usize, lanes_max: usize, cohort: impl Fn() -> C) -> Self {
        let contexts = contexts.max(1);
        Pool {
            contexts: (0..contexts)
                .map(|_| Context {
                    state: ContextState::Free,
                    key: None,
                    cohort: Some(Box::new(cohort())),
                    since: Duration::ZERO,
                })
                .collect(),
            lanes_max: lanes_max.max(1),
            free: (0..contexts as ContextId).rev().collect(),
            forming: Vec::with_capacity(contexts),
            full: Vec::with_capacity(contexts),
        }
    }

    /// How many contexts there are.
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Never: a pool has at least one context.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// How many lanes a cohort holds at most.
    pub fn lanes_max(&self) -> usize {
        self.lanes_max
    }

    /// Where a context stands.
    pub fn state(&self, id: ContextId) -> ContextState {
        self.contexts[id as usize].state
    }

    /// What its lanes have in common. Panics for a free one.
    pub fn key(&self, id: ContextId) -> K {
        self.contexts[id as usize].key.expect("it is in use")
    }

    /// When its first lane came in, since the caller's origin.
    pub fn since(&self, id: ContextId) -> Duration {
        self.contexts[id as usize].since
    }

    /// The context that takes lanes of a key.
    #[inline]
    pub fn forming_of(&self, key: K) -> Option<ContextId> {
        let mut forming = self.forming.iter();
        forming.find(|(of, _)| *of == key).map(|&(_, id)| id)
    }

    /// The context that takes lanes of a key: the one that does already, or a free one from now
    /// on, whose cohort, as its last use left it, `prepare` makes ready. `None`: no context is
    /// free, so the lane has to wait.
    #[inline]
    pub fn open(
        &mut self,
        key: K,
        now: Duration,
        prepare: impl FnOnce(&mut C),
    ) -> Option<ContextId> {
        if let Some(id) = self.forming_of(key) {
            return Some(id);
        }
        let id = self.free.pop()?;
        let context = &mut self.contexts[id as usize];
        let cohort = context
            .cohort
            .as_mut()
            .expect("a free context has its cohort");
        prepare(cohort);
        context.state = ContextState::PartiallyFull;
        context.key = Some(key);
        context.since = now;
        self.forming.push((key, id));
        Some(id)
    }

    /// The cohort of a context. Panics while a device has it.
    #[inline]
    pub fn cohort(&self, id: ContextId) -> &C {
        self.contexts[id as usize]
            .cohort
            .as_ref()
            .expect("asked for only while no device has it")
    }

    /// [`Pool::cohort`], to change.
    #[inline]
    pub fn cohort_mut(&mut self, id: ContextId) -> &mut C {
        self.contexts[id as usize]
            .cohort
            .as_mut()
            .expect("asked for only while no device has it")
    }

    /// The cohorts of two contexts. Panics if they are the same, or a device has one.
    pub fn two_cohorts_mut(&mut self, a: ContextId, b: ContextId) -> (&mut C, &mut C) {
        let [a, b] = self
            .contexts
            .get_disjoint_mut([a as usize, b as usize])
            .expect("two contexts of this pool");
        let expect = "asked for only while no device has it";
        (
            a.cohort.as_mut().expect(expect),
            b.cohort.as_mut().expect(expect),
        )
    }

    /// After lanes were added to a partially full context, which now has so many: makes it full if
    /// it is, and says so.
    #[inline]
    pub fn filled(&mut self, id: ContextId, lanes: usize) -> bool {
        let full = lanes >= self.lanes_max;
        if full && self.state(id) == ContextState::PartiallyFull {
            self.close(id);
        }
        full
    }

    /// Makes a partially full context full whatever its number of lanes, as when its arena has no
    /// room for another.
    pub fn close(&mut self, id: ContextId) {
        debug_assert_eq!(self.state(id), ContextState::PartiallyFull);
        self.forming.retain(|&(_, at)| at != id);
        self.full.push(id);
        self.contexts[id as usize].state = ContextState::Full;
    }

    /// Partially full contexts, oldest first.
    pub fn forming(&self) -> impl Iterator<Item = ContextId> {
        self.forming.iter().map(|&(_, id)| id)
    }

    /// Full contexts, oldest first.
    pub fn full(&self) -> impl Iterator<Item = ContextId> {
        self.full.iter().copied()
    }

    /// Makes a partially full or full context busy.
    pub fn launch(&mut self, id: ContextId) {
        match self.state(id) {
            ContextState::PartiallyFull => self.forming.retain(|&(_, at)| at != id),
            ContextState::Full => self.full.retain(|&at| at != id),
            state => unreachable!("a context that is {state:?} cannot be launched"),
        }
        self.contexts[id as usize].state = ContextState::Busy;
    }

    /// Takes a busy context's cohort, to give it to a device.
    pub fn take(&mut self, id: ContextId) -> Box<C> {
        let context = &mut self.contexts[id as usize];
        debug_assert_eq!(context.state, ContextState::Busy);
        context.cohort.take().expect("taken once")
    }

    /// Puts it back when the device is done with it; `key` is what its lanes have in common now.
    pub fn put_back(&mut self, id: ContextId, cohort: Box<C>, key: K) {
        let context = &mut self.contexts[id as usize];
        debug_assert!(context.state == ContextState::Busy && context.cohort.is_none());
        context.key = Some(key);
        context.cohort = Some(cohort);
    }

    /// Frees a context all of whose lanes are answered, or that never got one.
    pub fn release(&mut self, id: ContextId) {
        match self.state(id) {
            ContextState::Busy => {}
            ContextState::PartiallyFull => self.forming.retain(|&(_, at)| at != id),
            state => unreachable!("a context that is {state:?} cannot be freed"),
        }
        let context = &mut self.contexts[id as usize];
        assert!(
            context.cohort.is_some(),
            "a context is freed with its cohort"
        );
        context.state = ContextState::Free;
        context.key = None;
        self.free.push(id);
    }

    /// How many contexts are free, partially full, full and busy.
    pub fn counts(&self) -> [usize; 4] {
        let (free, forming, full) = (self.free.len(), self.forming.len(), self.full.len());
        [
            free,
            forming,
            full,
            self.contexts.len() - free - forming - full,
        ]
    }

    /// What must always hold, for tests and the simulator: every context is in exactly the list of
    /// its state, no two partially full ones have the same key, and only busy ones are away.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        for (index, context) in self.contexts.iter().enumerate() {
            let id = index as ContextId;
            let listed = (
                self.free.iter().filter(|&&at| at == id).count(),
                self.forming.iter().filter(|&&(_, at)| at == id).count(),
                self.full.iter().filter(|&&at| at == id).count(),
            );
            let expected = match context.state {
                ContextState::Free => (1, 0, 0),
                ContextState::PartiallyFull => (0, 1, 0),
                ContextState::Full => (0, 0, 1),
                ContextState::Busy => (0, 0, 0),
            };
            if listed != expected {
                return Err(format!(
                    "context {id} is {:?} and listed {listed:?}",
                    context.state
                ));
            }
            if context.cohort.is_none() && context.state != ContextState::Busy {
                return Err(format!(
                    "context {id} is {:?} without its cohort",
                    context.state
                ));
            }
        }
        for (index, (key, _)) in self.forming.iter().enumerate() {
            if self.forming[..index].iter().any(|(of, _)| of == key) {
                return Err(format!("two contexts are partially full for {key:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_nanos(7);

    #[test]
    fn goes_through_the_states_of_the_paper() {
        let mut pool: Pool<u32, Vec<u8>> = Pool::new(1, 2, Vec::new);
        let id = pool
            .open(5, NOW, |lanes: &mut Vec<u8>| lanes.push(1))
            .unwrap();
        assert_eq!(pool.state(id), ContextState::PartiallyFull);
        assert!(!pool.filled(id, 1));
        let again = pool.open(5, NOW * 2, |_| unreachable!("it is open"));
        assert_eq!(again, Some(id), "the same key, the same context");
        assert_eq!(pool.open(6, NOW, |_| ()), None, "there is no other");
        pool.cohort_mut(id).push(2);
        assert!(pool.filled(id, 2));
        assert_eq!((pool.state(id), pool.since(id)), (ContextState::Full, NOW));
        assert_eq!(pool.open(5, NOW, |_| ()), None, "a full one takes no lanes");
        pool.launch(id);
        let cohort = pool.take(id);
        pool.check().unwrap();
        pool.put_back(id, cohort, 9);
        assert_eq!(pool.key(id), 9);
        pool.release(id);
        assert_eq!(pool.counts(), [1, 0, 0, 0]);
        pool.check().unwrap();
    }

    proptest! {
        /// Whatever is done, contexts are neither lost nor doubled.
        #[test]
        fn keeps_its_books(steps in prop::collection::vec((0u8..4, 0u32..3), 0..200)) {
            let mut pool: Pool<u32, Vec<u8>> = Pool::new(3, 2, Vec::new);
            let mut busy = Vec::new();
            for (step, key) in steps {
                match step {
                    0 | 1 => {
                        if let Some(id) = pool.open(key, NOW, Vec::clear) {
                            pool.cohort_mut(id).push(0);
                            let lanes = pool.cohort(id).len();
                            pool.filled(id, lanes);
                        }
                    }
                    2 => {
                        let next = pool.full().next().or_else(|| pool.forming().next());
                        if let Some(id) = next {
                            pool.launch(id);
                            busy.push((id, pool.take(id)));
                        }
                    }
                    _ => if let Some((id, cohort)) = busy.pop() {
                        pool.put_back(id, cohort, key);
                        pool.release(id);
                    },
                }
                prop_assert_eq!(pool.check(), Ok(()));
                prop_assert_eq!(pool.counts()[3], busy.len());
            }
        }
    }
}
