//! Cohorts: the pool's contexts, and beside each what is known of the cohort in it besides its
//! columns, its *flight*.
//!
//! Formation fills contexts, devices and backends work on them, responses empty them; what they
//! have in common is kept here. Where each is on its way is in phase.rs, which of them wait for a
//! backend in waits.rs, what memory they take in memory.rs.

mod bytes;
mod memory;
mod phase;
mod waits;

pub use bytes::CohortBytes;
pub(crate) use memory::NextPass;
pub(crate) use phase::{Phase, Wait};

use crate::flight::lane_requests::LaneRequests;
use crate::flight::timeline::Timeline;
use crate::site::epoch::Epoch;
use crate::trace::CohortSpan;
use rhythm_cohort::{ContextId, ContextState, Pool};
use rhythm_engine::cohort::{Budget, Cohort, LaneError, LaneState, Share};
use rhythm_net::{ConnectionId, Key, Time};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What the lanes of a cohort have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CohortKey {
    /// Which of the epochs, and so which site.
    pub(crate) epoch: u32,
    /// Index of the page.
    pub(crate) page: u32,
    /// The stage to be run next.
    pub(crate) stage: u32,
}

impl CohortKey {
    /// Of cohorts that take requests for a page of an epoch.
    pub(crate) fn first(epoch: u32, page: u32) -> CohortKey {
        CohortKey {
            epoch,
            page,
            stage: 0,
        }
    }
}

/// What is known of a cohort besides its columns.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Where it is ([`Cohorts::set_phase`]).
    phase: Phase,
    /// What it belongs to; `None` while its context is free, so that what a reload has replaced
    /// goes with the last cohort that needs it.
    epoch: Option<Arc<Epoch>>,
    /// Whom its lanes are for.
    pub(crate) requests: LaneRequests,
    /// When its first stage was launched; while it forms, when it began to.
    pub(crate) launched: Time,
    /// What it did since then, where somebody asks.
    pub(crate) timeline: Timeline,
    /// Its span, where requests of it are recorded.
    pub(crate) span: Option<CohortSpan>,
    /// The keys of its queries that were asked, in the order of the cohort's.
    pub(crate) asked: Vec<Key>,
    /// How many clients had deserted when its first request was taken
    /// ([`Clients::deserted`](rhythm_http::Clients::deserted)).
    pub(crate) deserted: u64,
    /// What the cohort has its memory of.
    share: Rc<Share>,
    /// It was the next of those that wait for memory.
    was_next: bool,
    /// Since when its cohort has waited for memory.
    short_since: Option<Time>,
    /// Since when it is known to be free and to keep memory.
    keeps_since: Option<Time>,
}

impl Flight {
    /// That of a free context whose cohort has its memory of this share.
    fn new(share: Rc<Share>, texts_max: usize) -> Flight {
        Flight {
            phase: Phase::default(),
            epoch: None,
            requests: LaneRequests::of_share(&share, texts_max),
            launched: Time::ZERO,
            timeline: Timeline::default(),
            span: None,
            asked: Vec::new(),
            deserted: 0,
            share,
            was_next: false,
            short_since: None,
            keeps_since: None,
        }
    }

    /// Begins with a new cohort.
    fn begin(&mut self, epoch: &Arc<Epoch>, launched: Time) {
        debug_assert!(self.asked.is_empty(), "a context was freed while it waited");
        debug_assert!(self.epoch.is_none(), "a context was freed in its epoch");
        debug_assert_eq!(self.requests.lanes(), 0, "a context was freed with lanes");
        self.epoch = Some(epoch.clone());
        self.launched = launched;
        self.timeline.clear();
        self.span = None;
        self.was_next = false;
        self.keeps_since = None;
    }

    /// What it belongs to. Panics where its context is free.
    pub(crate) fn epoch(&self) -> &Arc<Epoch> {
        self.epoch.as_ref().expect("a flight belongs to an epoch")
    }

    /// How it waits for its backend. Panics where it does not.
    pub(crate) fn wait_mut(&mut self) -> &mut Wait {
        match &mut self.phase {
            Phase::Backend(wait) => wait,
            phase => unreachable!("a cohort waits for a backend and is {phase:?}"),
        }
    }
}

/// What stragglers of a cohort need where they go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// How many they are.
    pub(crate) lanes: usize,
    /// Bytes of texts that they have.
    pub(crate) bytes: usize,
    /// Bytes that are kept of their requests.
    pub(crate) kept: usize,
}

/// Why no context takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOpen {
    /// None is free: the request has to wait for one.
    NoContext,
    /// Others have the memory that it needs: it has to wait for that.
    NoMemory,
    /// Its texts find no room even in an empty cohort.
    TooLarge,
}

/// All cohorts of a pipeline. See the module's text.
#[derive(Debug)]
pub(crate) struct Cohorts {
    pub(crate) pool: Pool<CohortKey, Cohort>,
    /// No more form or run at a time: what the pool has beyond is for those that wait.
    working_max: usize,
    /// Beside each context of the pool.
    flights: Vec<Flight>,
    /// Those that wait for a backend.
    waiting: Vec<ContextId>,
    /// What all of them take together beyond what is each one's own.
    budget: Rc<Budget>,
    /// Those that wait for memory, longest first.
    short: VecDeque<ContextId>,
    /// A context was freed since this was last asked, or its cohort began to wait for a backend.
    freed: bool,
    /// A cohort has given memory back since one found none.
    gave_back: bool,
}

/// Lanes of cohorts that have come together to wait for a backend, at least: however few a cohort
/// takes, those who wait for long take few contexts.
const WAITING_LANES: usize = 4096;

/// Contexts are few where no more are free than all divided by this.
const FEW_SHARE: usize = 4;

/// With so many contexts the last one that is free is kept for stragglers.
const CONTEXTS_MANY: usize = 4;

/// The time as the pool counts it.
pub(crate) fn since_origin(now: Time) -> Duration {
    now.since(Time::ZERO)
}

impl Cohorts {
    /// Free contexts, for so many cohorts that form or run and so many that wait for a backend, of
    /// so many lanes and bytes.
    pub(crate) fn new(
        working_max: usize,
        waiting: usize,
        lanes_max: usize,
        bytes: CohortBytes,
    ) -> Cohorts {
        let contexts = working_max + waiting;
        let budget = Budget::new(bytes.first_part, bytes.common_max);
        let cohort = || Cohort::of_share(&Share::new(&budget), bytes.arena_max);
        let pool = Pool::new(contexts, lanes_max, cohort);
        let flight = |id: usize| {
            let share = pool.cohort(id as ContextId).share();
            Flight::new(share.expect("it was made of one").clone(), bytes.arena_max)
        };
        Cohorts {
            flights: (0..contexts).map(flight).collect(),
            pool,
            working_max,
            waiting: Vec::with_capacity(contexts),
            budget,
            short: VecDeque::new(),
            freed: false,
            gave_back: false,
        }
    }

    /// The context that takes lanes of a page, which takes long or not, with room in its cohort for
    /// texts of so many bytes, for so many that are kept of their requests, and for one more
    /// answer.
    ///
    /// # Errors
    /// Why there is none.
    #[inline]
    pub(crate) fn open(
        &mut self,
        epoch: &Arc<Epoch>,
        page: u32,
        texts: usize,
        kept: usize,
        is_heavy: bool,
        now: Time,
    ) -> Result<ContextId, NotOpen> {
        let key = CohortKey::first(epoch.number, page);
        if (self.keeps_last() || !self.may_work(is_heavy)) && self.pool.forming_of(key).is_none() {
            return Err(NotOpen::NoContext);
        }
        let prepare = |cohort: &mut Cohort| cohort.reset(epoch.program(page));
        let open = self.pool.open(key, since_origin(now), prepare);
        let id = open.ok_or(NotOpen::NoContext)?;
        let cohort = self.pool.cohort(id);
        let has_room = self.reserve(id, texts, kept)
            && (cohort.is_empty()
                || cohort.len() < epoch.sizes(page).lanes_max()
                    && self.expects(id, epoch, page, cohort.len() + 1));
        match (cohort.is_empty(), has_room) {
            (true, true) => self.flights[id as usize].begin(epoch, now),
            (false, true) => {}
            (true, false) if !cohort.arena.could_hold(texts) => {
                self.close_again(id);
                return Err(NotOpen::TooLarge);
            }
            (true, false) => {
                if let Err(why) = self.find_memory(id, epoch.program(page), texts, kept) {
                    self.close_again(id);
                    // What it found is too little, and others' again.
                    self.forget(id);
                    return Err(why);
                }
                self.flights[id as usize].begin(epoch, now);
            }
            (false, false) => {
                // If it holds as much as it can, an empty one takes the lane.
                if cohort.len() >= epoch.sizes(page).lanes_max() || !self.give_back_kept(id) {
                    self.pool.close(id);
                }
                return self.open(epoch, page, texts, kept, is_heavy, now);
            }
        }
        Ok(id)
    }

    /// Whether another cohort may form beside those that form or run. Where its page takes long,
    /// half of what there may be is kept for others, who would wait long for one to end.
    #[inline]
    fn may_work(&self, is_heavy: bool) -> bool {
        let [free, ..] = self.pool.counts();
        let max = match is_heavy {
            true => self.working_max.div_ceil(2),
            false => self.working_max,
        };
        self.pool.len() - free - self.waiting.len() < max
    }

    /// Most lanes that wait for a backend together.
    pub(crate) fn waiting_lanes_max(&self) -> usize {
        self.pool.lanes_max().max(WAITING_LANES)
    }

    /// Frees a context that was opened in vain.
    fn close_again(&mut self, id: ContextId) {
        self.rest(id);
        self.pool.release(id);
    }

    /// Whether the one context that is free is kept: it is where cohorts that wait for backends
    /// come together (`stragglers.rs`), and with none nobody could, however many wait.
    #[inline]
    fn keeps_last(&self) -> bool {
        let [free, ..] = self.pool.counts();
        free == 1 && self.pool.len() >= CONTEXTS_MANY && !self.waiting.is_empty()
    }

    /// The context that takes stragglers of a cohort, with room in its cohort for what they need,
    /// prepared for them: the one that takes such already, or a free one.
    pub(crate) fn open_for_stragglers(
        &mut self,
        from: ContextId,
        needs: Needs,
        now: Time,
    ) -> Option<ContextId> {
        let key = self.pool.key(from);
        let flight = &mut self.flights[from as usize];
        let (launched, epoch) = (flight.launched, flight.epoch().clone());
        let wait = Wait {
            unanswered: 0,
            since: now,
            deadline: Time::NEVER,
            stays: false,
            ..*flight.wait_mut()
        };
        let prepare = |cohort: &mut Cohort| {
            cohort.reset(epoch.program(key.page));
            cohort.stage = key.stage as usize;
        };
        let into = self.pool.open(key, since_origin(now), prepare)?;
        if self.pool.cohort(into).is_empty() {
            if !self.has_room_for(into, from, needs, now) {
                self.close_again(into);
                return None;
            }
            self.flights[into as usize].begin(&epoch, launched);
            self.set_phase(into, Phase::Backend(wait));
        }
        Some(into)
    }

    /// After a lane was added: takes note of a cohort that is full.
    #[inline]
    pub(crate) fn filled(&mut self, id: ContextId) {
        let lanes = self.pool.cohort(id).len();
        debug_assert_eq!(lanes, self.flights[id as usize].requests.lanes());
        self.pool.filled(id, lanes);
    }

    /// Takes the last lane back before its request was taken in.
    pub(crate) fn take_back_lane(&mut self, id: ContextId) {
        let cohort = self.pool.cohort_mut(id);
        cohort.pop_lane();
        if cohort.is_empty() {
            self.free(id);
        }
    }

    /// A cohort and its flight. Panics while a device has it.
    #[inline]
    pub(crate) fn pair_mut(&mut self, id: ContextId) -> (&mut Cohort, &mut Flight) {
        (self.pool.cohort_mut(id), &mut self.flights[id as usize])
    }

    /// Two cohorts and their flights. Panics if they are the same, or a device has one.
    pub(crate) fn two_pairs_mut(
        &mut self,
        a: ContextId,
        b: ContextId,
    ) -> [(&mut Cohort, &mut Flight); 2] {
        let [flight_a, flight_b] = (self.flights.get_disjoint_mut([a as usize, b as usize]))
            .expect("two contexts of the pool");
        let (cohort_a, cohort_b) = self.pool.two_cohorts_mut(a, b);
        [(cohort_a, flight_a), (cohort_b, flight_b)]
    }

    /// A cohort's flight.
    #[inline]
    pub(crate) fn flight(&self, id: ContextId) -> &Flight {
        &self.flights[id as usize]
    }

    /// A cohort's flight, to change.
    #[inline]
    pub(crate) fn flight_mut(&mut self, id: ContextId) -> &mut Flight {
        &mut self.flights[id as usize]
    }

    /// Whether few contexts are free, so that those that wait come together (`stragglers.rs`).
    pub(crate) fn are_few_free(&self) -> bool {
        let [free, ..] = self.pool.counts();
        free * FEW_SHARE <= self.pool.len()
    }

    /// Gives the requests back for which nothing was done yet, and whose clients are gone: nobody
    /// waits for their answers. `deserted` is how many clients are by now. Whether any request is
    /// left.
    #[inline]
    pub(crate) fn is_wanted(
        &mut self,
        id: ContextId,
        deserted: u64,
        is_here: impl Fn(ConnectionId) -> bool,
    ) -> bool {
        let (cohort, flight) = self.pair_mut(id);
        if flight.deserted == deserted || cohort.stage > 0 {
            return true;
        }
        flight.deserted = deserted;
        for (lane, state) in cohort.lanes.iter_mut().enumerate() {
            let connection = flight.requests.connection(lane);
            if *state == LaneState::Active && connection.is_some_and(|id| !is_here(id)) {
                flight.requests.take(lane);
                *state = LaneState::Vacant;
            }
        }
        flight.requests.left() > 0
    }

    /// The epochs of the cohorts that there are, each as often as it has some.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        self.flights
            .iter()
            .filter_map(|flight| flight.epoch.as_deref())
    }

    /// Launches a cohort unless it is already: one that takes lanes, or stragglers.
    pub(crate) fn launch(&mut self, id: ContextId) {
        if self.pool.state(id) != ContextState::Busy {
            self.pool.launch(id);
        }
    }

    /// Fails the lanes that are left.
    pub(crate) fn fail_all(&mut self, id: ContextId, error: LaneError) {
        let cohort = self.pool.cohort_mut(id);
        for lane in 0..cohort.len() {
            cohort.fail(lane, error);
        }
    }

    /// Frees a context all of whose lanes are answered or have moved.
    pub(crate) fn free(&mut self, id: ContextId) {
        let flight = &mut self.flights[id as usize];
        assert_eq!(flight.requests.left(), 0, "a context is freed unanswered");
        assert!(flight.asked.is_empty(), "a context is freed while it waits");
        let cohort = self.pool.cohort(id);
        // What those took that moved, or found no memory for more, tells nothing.
        let tells = |state: &&LaneState| match state {
            LaneState::Finished => true,
            LaneState::Failed(error) => *error != LaneError::MemoryShort,
            _ => false,
        };
        let telling = cohort.lanes.iter().filter(tells).count();
        if let Some(epoch) = flight.epoch.take()
            && 2 * telling >= cohort.len().max(1)
        {
            let page = self.pool.key(id).page;
            let own = cohort.arena.used() - epoch.program(page).texts.len();
            epoch.sizes(page).took(own.div_ceil(cohort.len()) as u64);
        }
        self.set_phase(id, Phase::Forming);
        self.rest(id);
        self.pool.release(id);
        self.freed = true;
        self.gave_back = true;
    }

    /// Whether a context was freed since this was last asked, or its cohort began to wait.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// How many requests are not answered.
    pub(crate) fn requests(&self) -> usize {
        self.flights
            .iter()
            .map(|flight| flight.requests.left())
            .sum()
    }

    /// What must hold between two events.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.pool.check()?;
        self.check_memory()?;
        for (id, flight) in (0..).zip(&self.flights) {
            let state = self.pool.state(id);
            let listed = self.waiting.iter().filter(|&&at| at == id).count();
            if listed != usize::from(matches!(flight.phase, Phase::Backend(_))) {
                return Err(format!(
                    "context {id} is {:?} and {listed} times among those that wait",
                    flight.phase
                ));
            }
            let free = state == ContextState::Free;
            if free && (flight.requests.left() > 0 || !flight.asked.is_empty()) {
                return Err(format!(
                    "context {id} is free, and its lanes are not answered"
                ));
            }
            if free != flight.epoch.is_none() {
                return Err(format!(
                    "context {id} is {state:?}, and its epoch is kept or missing"
                ));
            }
            let fits = match flight.phase {
                Phase::Forming => state != ContextState::Busy,
                Phase::Ready | Phase::Device | Phase::Short => state == ContextState::Busy,
                Phase::Backend(wait) => !free && wait.unanswered <= flight.asked.len(),
            };
            if !fits {
                return Err(format!("context {id} is {state:?} and {:?}", flight.phase));
            }
        }
        Ok(())
    }
}
