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
//! For each place (a page at a stage, of one epoch of the service) at most one context is partially
//! full, and it takes the lanes that come. A busy context's cohort is either here, waiting for a
//! backend, or away on a device. The pool never grows: when no context is free, the stage before it
//! stops taking input.

use super::Cohort;
use crate::program::PageProgram;

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

/// What the lanes of a cohort have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Which of the services loaded one after the other.
    pub epoch: u32,
    /// Index of the page.
    pub page: u32,
    /// The stage to be run next.
    pub stage: u32,
}

/// A cohort context.
#[derive(Debug)]
struct Context {
    state: ContextState,
    place: Place,
    /// `None` while a device has it.
    cohort: Option<Box<Cohort>>,
    /// When the first lane came in, in the caller's time.
    since_ns: u64,
}

/// The contexts. All methods that take a [`ContextId`] panic on one that this pool did not give:
/// the caller's mistake.
#[derive(Debug)]
pub struct Pool {
    contexts: Vec<Context>,
    lanes_max: usize,
    /// Free contexts; the one freed last, whose memory is hot, is used first.
    free: Vec<ContextId>,
    /// Partially full ones, oldest first, with their places beside them: short, and searched for
    /// every request.
    forming: Vec<(Place, ContextId)>,
    /// Full ones, oldest first.
    full: Vec<ContextId>,
}

impl Pool {
    /// A pool of `contexts` contexts for cohorts of at most `lanes_max` lanes, both at least 1.
    pub fn new(contexts: usize, lanes_max: usize) -> Pool {
        let contexts = contexts.max(1);
        Pool {
            contexts: (0..contexts)
                .map(|_| Context {
                    state: ContextState::Free,
                    place: Place::default(),
                    cohort: Some(Box::default()),
                    since_ns: 0,
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

    /// What its lanes have in common; of no meaning while it is free.
    pub fn place(&self, id: ContextId) -> Place {
        self.contexts[id as usize].place
    }

    /// When its first lane came in.
    pub fn since_ns(&self, id: ContextId) -> u64 {
        self.contexts[id as usize].since_ns
    }

    /// The context that takes lanes for a place.
    #[inline]
    pub fn forming_at(&self, place: Place) -> Option<ContextId> {
        self.forming
            .iter()
            .find(|(at, _)| *at == place)
            .map(|&(_, id)| id)
    }

    /// The context that takes lanes for a place: the one that does already, or a free one from now
    /// on. `None`: no context is free, so the request has to wait.
    #[inline]
    pub fn open(&mut self, place: Place, program: &PageProgram, now_ns: u64) -> Option<ContextId> {
        if let Some(id) = self.forming_at(place) {
            return Some(id);
        }
        let id = self.free.pop()?;
        let context = &mut self.contexts[id as usize];
        let cohort = context
            .cohort
            .as_mut()
            .expect("a free context has its cohort");
        cohort.reset(program);
        cohort.stage = place.stage as usize;
        context.state = ContextState::PartiallyFull;
        context.place = place;
        context.since_ns = now_ns;
        self.forming.push((place, id));
        Some(id)
    }

    /// Whether [`Pool::open`] has a free context to give.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The cohort of a context. Panics while a device has it.
    #[inline]
    pub fn cohort(&self, id: ContextId) -> &Cohort {
        self.contexts[id as usize]
            .cohort
            .as_ref()
            .expect("asked for only while no device has it")
    }

    /// [`Pool::cohort`], to change.
    #[inline]
    pub fn cohort_mut(&mut self, id: ContextId) -> &mut Cohort {
        self.contexts[id as usize]
            .cohort
            .as_mut()
            .expect("asked for only while no device has it")
    }

    /// The cohorts of two contexts. Panics if they are the same, or a device has one.
    pub fn two_cohorts_mut(&mut self, a: ContextId, b: ContextId) -> (&mut Cohort, &mut Cohort) {
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

    /// After lanes were added to a partially full context: makes it full if it is, and says so.
    #[inline]
    pub fn filled(&mut self, id: ContextId) -> bool {
        let full = self.cohort(id).len() >= self.lanes_max;
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
    pub fn take(&mut self, id: ContextId) -> Box<Cohort> {
        let context = &mut self.contexts[id as usize];
        debug_assert_eq!(context.state, ContextState::Busy);
        context.cohort.take().expect("taken once")
    }

    /// Puts it back when the device is done with it.
    pub fn put_back(&mut self, id: ContextId, cohort: Box<Cohort>) {
        let context = &mut self.contexts[id as usize];
        debug_assert!(context.state == ContextState::Busy && context.cohort.is_none());
        context.place.stage = cohort.stage as u32;
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
        let cohort = context
            .cohort
            .as_mut()
            .expect("a context is freed with its cohort");
        cohort.lanes.clear();
        cohort.tickets.clear();
        context.state = ContextState::Free;
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
    /// its state, no two partially full ones have the same place, and only busy ones are away.
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
        for (index, (place, _)) in self.forming.iter().enumerate() {
            if self.forming[..index].iter().any(|(at, _)| at == place) {
                return Err(format!("two contexts are partially full at {place:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Field, FieldType, SessionUse, StageProgram, Type};
    use proptest::prelude::*;

    fn program() -> PageProgram {
        PageProgram {
            name: "page".into(),
            routes: Vec::new(),
            session: SessionUse::None,
            session_fields: None,
            content_type: "text/html".into(),
            params: Vec::new(),
            list_params: Vec::new(),
            fields: vec![Field {
                name: "x".into(),
                kind: FieldType::Scalar(Type::Int),
            }],
            calls: Vec::new(),
            stages: vec![StageProgram::default()],
            texts: b"abc".to_vec(),
            tables: Vec::new(),
            header_names: Vec::new(),
        }
    }

    #[test]
    fn goes_through_the_states_of_the_paper() {
        let (program, place) = (program(), Place::default());
        let mut pool = Pool::new(1, 2);
        let id = pool.open(place, &program, 7).unwrap();
        assert_eq!(pool.state(id), ContextState::PartiallyFull);
        pool.cohort_mut(id).push_lane(1);
        assert!(!pool.filled(id));
        assert_eq!(
            pool.open(place, &program, 8),
            Some(id),
            "the same place, the same context"
        );
        let elsewhere = Place { page: 1, ..place };
        assert_eq!(pool.open(elsewhere, &program, 8), None, "there is no other");
        pool.cohort_mut(id).push_lane(2);
        assert!(pool.filled(id));
        assert_eq!((pool.state(id), pool.since_ns(id)), (ContextState::Full, 7));
        assert_eq!(
            pool.open(place, &program, 9),
            None,
            "a full one takes no lanes"
        );
        pool.launch(id);
        let mut cohort = pool.take(id);
        cohort.stage = 1;
        pool.check().unwrap();
        pool.put_back(id, cohort);
        assert_eq!(pool.place(id).stage, 1);
        pool.release(id);
        assert_eq!(pool.counts(), [1, 0, 0, 0]);
        pool.check().unwrap();
    }

    proptest! {
        /// Whatever is done, contexts are neither lost nor doubled.
        #[test]
        fn keeps_its_books(steps in prop::collection::vec((0u8..4, 0u32..3), 0..200)) {
            let program = program();
            let mut pool = Pool::new(3, 2);
            let mut busy = Vec::new();
            for (step, page) in steps {
                match step {
                    0 | 1 => {
                        let place = Place { page, ..Place::default() };
                        if let Some(id) = pool.open(place, &program, 0) {
                            pool.cohort_mut(id).push_lane(0);
                            pool.filled(id);
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
                        pool.put_back(id, cohort);
                        pool.release(id);
                    },
                }
                prop_assert_eq!(pool.check(), Ok(()));
                prop_assert_eq!(pool.counts()[3], busy.len());
            }
        }
    }
}
