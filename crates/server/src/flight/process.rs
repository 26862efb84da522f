//! Process: a cohort's way through its stages (paper, section 3.2, *Process*).
//!
//! ```text
//!    forming --launch--> on the device --stage done--> waiting for a backend
//!                          ^   |                             |        |
//!                          |   | last stage                  |        | stragglers move to
//!                          |   v                             |        v another context
//!                          | answered, context freed         |   waiting for a backend
//!                          +------------ all answered -------+
//! ```
//!
//! Between two stages a cohort hands all its backend requests over in one batch. It goes on when
//! all are answered; or when some are, the straggler delay is over and the device is free: then the
//! lanes without their answers move to another context of the same page and stage. Past its
//! deadline a request has failed, and its lane with it. So every lane is answered within bounded
//! time, and a context is freed when all its lanes are answered or have moved.

use crate::answer::response::{Responder, milliseconds};
use crate::backend::{Ask, Batch};
use crate::flight::request::NO_TICKET;
use crate::pipeline::{Epoch, Pipeline, since_origin};
use rhythm_cohort::{ContextId, ContextState, LaunchReason};
use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::device::{Refusal, Work};
use rhythm_engine::session::SessionId;
use rhythm_net::{Port, Time};
use std::sync::Arc;

/// What the lanes of a cohort have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CohortKey {
    /// Which of the services loaded one after the other.
    pub(crate) epoch: u32,
    /// Index of the page.
    pub(crate) page: u32,
    /// The stage to be run next.
    pub(crate) stage: u32,
}

/// Where a cohort is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It takes lanes, or there is none.
    #[default]
    Forming,
    /// To be given to the device as soon as that has a slot.
    Ready,
    /// A device has it.
    Device,
    /// It waits for a backend.
    Backend,
}

/// What the pipeline keeps of a context beside its cohort.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) phase: Phase,
    /// The service it belongs to; `None` while the context is free.
    epoch: Option<Arc<Epoch>>,
    /// For pages with a session: what each lane's cookie names.
    pub(crate) sessions: Vec<Option<SessionId>>,
    /// When its first stage was launched.
    launched: Time,
    /// The keys of the cohort's backend requests.
    keys: Vec<u64>,
    /// How many of them are not answered.
    unanswered: usize,
    /// When it began to wait for its backend, or last lost its stragglers.
    waiting_since: Time,
    /// The earliest deadline of its requests.
    deadline: Time,
}

impl Run {
    /// Begins with a new cohort.
    pub(crate) fn begin(&mut self, epoch: &Arc<Epoch>, now: Time) {
        self.phase = Phase::Forming;
        if !self
            .epoch
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, epoch))
        {
            self.epoch = Some(epoch.clone());
        }
        self.sessions.clear();
        self.launched = now;
        self.keys.clear();
        self.unanswered = 0;
    }
}

/// A backend request that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    context: ContextId,
    /// Index into the cohort's requests.
    request: u32,
    backend: u32,
    asked: Time,
    deadline: Time,
}

/// The backend requests under way, by key: index and generation, like tickets.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    entries: Vec<(u32, Option<Pending>)>,
    free: Vec<u32>,
}

impl Asked {
    fn insert(&mut self, pending: Pending) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.1 = Some(pending);
        u64::from(entry.0) << 32 | u64::from(index)
    }

    fn get_mut(&mut self, key: u64) -> Option<&mut Pending> {
        let (generation, pending) = self.entries.get_mut(key as u32 as usize)?;
        (*generation == (key >> 32) as u32)
            .then_some(pending.as_mut())
            .flatten()
    }

    fn take(&mut self, key: u64) -> Option<Pending> {
        let pending = *self.get_mut(key)?;
        let entry = &mut self.entries[key as u32 as usize];
        *entry = (entry.0.wrapping_add(1), None);
        self.free.push(key as u32);
        Some(pending)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl Pipeline {
    /// Launches a cohort that was forming: looks up its sessions and gives it to the device.
    pub(crate) fn launch(&mut self, port: &mut dyn Port, id: ContextId, reason: LaunchReason) {
        self.pool.launch(id);
        let now = self.now;
        let key = self.pool.key(id);
        let cohort = self.pool.cohort_mut(id);
        let run = &mut self.runs[id as usize];
        run.launched = now;
        let epoch = run
            .epoch
            .as_ref()
            .expect("a cohort that is formed has its service");
        let metrics = &epoch.pages[key.page as usize];
        metrics.launches[reason as usize].add(1);
        metrics.cohort_size.record(cohort.len() as u64, 1);
        let program = &epoch.site.service.pages[key.page as usize];
        if let Some(fields) = program.session_fields {
            self.users.clear();
            self.users.resize(run.sessions.len(), None);
            (self.sessions).lookup_batch(&run.sessions, milliseconds(now), &mut self.users);
            for (lane, user) in self.users.iter().enumerate() {
                if let Some(user) = user {
                    cohort.fields[usize::from(fields.present)].set_int(lane, 1);
                    cohort.fields[usize::from(fields.user)].set_int(lane, *user);
                }
            }
        }
        self.submit(port, id);
    }

    /// Gives a busy context's cohort to the device.
    pub(crate) fn submit(&mut self, port: &mut dyn Port, id: ContextId) {
        let run = &mut self.runs[id as usize];
        let epoch = run.epoch.as_ref().expect("a busy context has its service");
        let work = Work {
            service: epoch.site.service.clone(),
            page: self.pool.key(id).page as usize,
            cohort: self.pool.take(id),
            token: u64::from(id),
        };
        match self.executor.submit(work) {
            Ok(()) => run.phase = Phase::Device,
            Err(Refusal::Busy(work)) => {
                run.phase = Phase::Ready;
                self.take_back(id, work.cohort);
                self.ready.push_back(id);
            }
            Err(Refusal::Lost(work, reason)) => {
                tracing::error!(device = self.executor.name(), reason, "the device is lost");
                self.take_back(id, work.cohort);
                self.fail_all(port, id, LaneError::DeviceFailed);
            }
        }
    }

    /// Fails the lanes that are left, answers them and frees the context.
    /// A device gives a cohort back, its stage run or not.
    fn take_back(&mut self, id: ContextId, cohort: Box<Cohort>) {
        let key = CohortKey {
            stage: cohort.stage as u32,
            ..self.pool.key(id)
        };
        self.pool.put_back(id, cohort, key);
    }

    fn fail_all(&mut self, port: &mut dyn Port, id: ContextId, error: LaneError) {
        let cohort = self.pool.cohort_mut(id);
        for lane in 0..cohort.len() {
            cohort.fail(lane, error);
        }
        self.respond(port, id);
        self.free(id);
    }

    /// Frees a context all of whose lanes are answered or have moved.
    fn free(&mut self, id: ContextId) {
        let run = &mut self.runs[id as usize];
        for key in run.keys.drain(..) {
            // Of lanes that failed while others of their requests were under way.
            self.asked.take(key);
        }
        run.phase = Phase::Forming;
        self.pool.release(id);
        self.freed = true;
    }

    /// Answers the lanes that are finished or failed. Whether any is left.
    fn respond(&mut self, port: &mut dyn Port, id: ContextId) -> bool {
        let run = &self.runs[id as usize];
        let epoch = run.epoch.as_ref().expect("a busy context has its service");
        let page = self.pool.key(id).page as usize;
        let mut responder = Responder {
            clients: &mut self.clients,
            requests: &mut self.requests,
            sessions: &self.sessions,
            random: &mut self.random,
            date: &self.date,
            site: &epoch.site,
            page,
            metrics: &epoch.pages[page],
            now: self.now,
            launched: run.launched,
            answered: 0,
            log: self.log.as_mut(),
        };
        let left = responder.answer_lanes(port, self.pool.cohort_mut(id));
        if responder.answered > 0 {
            let served = (epoch.pages[page].clone(), run.launched, responder.answered);
            self.served.push(served);
        }
        left
    }

    /// Takes what the device has done. Whether there was anything.
    pub(crate) fn collect(&mut self, port: &mut dyn Port) -> bool {
        let mut done = std::mem::take(&mut self.done);
        self.executor.poll(&mut done);
        let any = !done.is_empty();
        for work in done.drain(..) {
            let id = work.token as ContextId;
            self.take_back(id, work.cohort);
            self.stage_done(port, id);
        }
        self.done = done;
        any
    }

    /// A stage is done: answers the lanes that have their answer, and asks the backend for the
    /// others.
    fn stage_done(&mut self, port: &mut dyn Port, id: ContextId) {
        if !self.respond(port, id) {
            return self.free(id);
        }
        let key = self.pool.key(id);
        let run = &self.runs[id as usize];
        let epoch = run.epoch.as_ref().expect("a busy context has its service");
        let program = &epoch.site.service.pages[key.page as usize];
        let stage = (key.stage as usize)
            .checked_sub(1)
            .and_then(|done| program.stages.get(done));
        match stage.and_then(|stage| stage.call) {
            Some(call) => self.ask(port, id, call),
            // The last stage finishes all lanes; one that is left is the executor's mistake.
            None => self.fail_all(port, id, LaneError::DeviceFailed),
        }
    }

    /// Hands the requests of a cohort over to its backend.
    fn ask(&mut self, port: &mut dyn Port, id: ContextId, call: usize) {
        let now = self.now;
        let key = self.pool.key(id);
        let run = &mut self.runs[id as usize];
        let epoch = run.epoch.as_ref().expect("a busy context has its service");
        let call = &epoch.site.service.pages[key.page as usize].calls[call];
        let slot_index = epoch.backends[call.backend];
        let slot = &mut self.backends[slot_index];
        let cohort = self.pool.cohort_mut(id);
        slot.metrics.requests.add(cohort.requests.len() as u64);
        if cohort.requests.is_empty()
            || slot
                .backend
                .answer_into(&mut cohort.requests, &mut cohort.arena)
        {
            return self.submit(port, id);
        }
        run.deadline = now + epoch.site.settings.backends[call.backend].timeout;
        run.waiting_since = now;
        run.phase = Phase::Backend;
        run.unanswered = cohort.requests.len();
        run.keys.clear();
        self.batch.clear();
        for (index, request) in cohort.requests.iter().enumerate() {
            let key = self.asked.insert(Pending {
                context: id,
                request: index as u32,
                backend: slot_index as u32,
                asked: now,
                deadline: run.deadline,
            });
            run.keys.push(key);
            self.batch.push(Ask {
                key,
                text: request.text,
            });
        }
        let batch = Batch {
            asks: &self.batch,
            arena: &cohort.arena,
            idempotent: call.idempotent,
            deadline: run.deadline,
        };
        slot.backend.submit(port, batch, now);
    }

    /// Takes what the backends have answered. Whether there was anything.
    pub(crate) fn collect_answers(&mut self, port: &mut dyn Port) -> bool {
        let now = self.now;
        let mut complete = std::mem::take(&mut self.complete);
        let mut any = false;
        let Pipeline {
            backends,
            asked,
            pool,
            runs,
            ..
        } = self;
        for slot in backends.iter_mut() {
            let metrics = &slot.metrics;
            slot.backend.poll(&mut |key, answer| {
                any = true;
                let Some(pending) = asked.take(key) else {
                    return;
                };
                metrics
                    .latency
                    .record(now.since(pending.asked).as_nanos() as u64, 1);
                let cohort = pool.cohort_mut(pending.context);
                let request = pending.request as usize;
                let lane = cohort.requests[request].lane as usize;
                match answer {
                    Ok(body) if cohort.arena.has_room(body.len()) => {
                        cohort.requests[request].answer = Some(cohort.arena.push(body));
                    }
                    Ok(_) => cohort.fail(lane, LaneError::TooLarge),
                    Err(error) => {
                        metrics.failures.add(1);
                        cohort.fail(lane, error);
                    }
                }
                let run = &mut runs[pending.context as usize];
                run.unanswered -= 1;
                if run.unanswered == 0 {
                    complete.push(pending.context);
                }
            });
        }
        for id in complete.drain(..) {
            self.go_on(port, id);
        }
        self.complete = complete;
        any
    }

    /// A cohort's backend requests are answered, or given up: its next stage.
    fn go_on(&mut self, port: &mut dyn Port, id: ContextId) {
        // Stragglers of several cohorts form one that may still be taking more.
        if self.pool.state(id) != ContextState::Busy {
            self.pool.launch(id);
        }
        self.runs[id as usize].keys.clear();
        if self.respond(port, id) {
            self.submit(port, id);
        } else {
            self.free(id);
        }
    }

    /// Gives up requests past their deadline, and lets cohorts go on without their stragglers.
    pub(crate) fn check_waiting(&mut self, port: &mut dyn Port) {
        let now = self.now;
        for id in 0..self.runs.len() as ContextId {
            if self.runs[id as usize].phase != Phase::Backend {
                continue;
            }
            if self.runs[id as usize].deadline <= now {
                self.give_up(id);
            }
            let run = &self.runs[id as usize];
            if run.unanswered == 0 {
                self.go_on(port, id);
            } else if run.waiting_since + self.straggler_delay(id) <= now {
                self.runs[id as usize].waiting_since = now;
                if self.executor.in_flight() == 0 && self.move_stragglers(id) {
                    self.go_on(port, id);
                }
            }
        }
    }

    /// How long the lanes of a cohort wait for each other.
    fn straggler_delay(&self, id: ContextId) -> std::time::Duration {
        let run = &self.runs[id as usize];
        let key = self.pool.key(id);
        let delay = run.epoch.as_ref().and_then(|epoch| {
            let program = epoch.site.service.pages.get(key.page as usize)?;
            let call = program
                .stages
                .get((key.stage as usize).checked_sub(1)?)?
                .call?;
            let backend = program.calls.get(call)?.backend;
            Some(epoch.site.settings.backends.get(backend)?.straggler_delay)
        });
        // Never at once: going round would not be waiting.
        delay
            .unwrap_or_default()
            .max(std::time::Duration::from_micros(100))
    }

    /// Fails the lanes whose requests are past their deadline.
    fn give_up(&mut self, id: ContextId) {
        let now = self.now;
        let run = &mut self.runs[id as usize];
        let cohort = self.pool.cohort_mut(id);
        let mut next = Time::NEVER;
        for (index, key) in run.keys.iter().enumerate() {
            let Some(pending) = self.asked.get_mut(*key) else {
                continue;
            };
            if pending.deadline > now {
                next = next.min(pending.deadline);
                continue;
            }
            self.backends[pending.backend as usize]
                .metrics
                .failures
                .add(1);
            self.asked.take(*key);
            cohort.fail(
                cohort.requests[index].lane as usize,
                LaneError::BackendTimeout,
            );
            run.unanswered -= 1;
        }
        run.deadline = next;
    }

    /// Moves the lanes that miss answers to another context, if one can take them and lanes are
    /// left to go on.
    fn move_stragglers(&mut self, id: ContextId) -> bool {
        let key = self.pool.key(id);
        let cohort = self.pool.cohort(id);
        let active = |lane: usize| cohort.lanes[lane] == LaneState::Active;
        let mut stragglers: Vec<usize> = (cohort.requests.iter())
            .filter(|request| request.answer.is_none() && active(request.lane as usize))
            .map(|request| request.lane as usize)
            .collect();
        stragglers.dedup();
        let active_lanes = (0..cohort.len()).filter(|&lane| active(lane)).count();
        if stragglers.is_empty() || stragglers.len() == active_lanes {
            return false;
        }
        if self.pool.state(id) == ContextState::PartiallyFull {
            // It takes no more itself, so that another can be opened at its key.
            self.pool.launch(id);
        }
        if let Some(other) = self.pool.forming_of(key)
            && self.pool.cohort(other).len() + stragglers.len() > self.pool.lanes_max()
        {
            self.pool.launch(other);
        }
        let epoch = self.runs[id as usize].epoch.clone();
        let epoch = epoch.expect("a busy context has its service");
        let program = &epoch.site.service.pages[key.page as usize];
        let now = self.now;
        let prepare = |cohort: &mut Cohort| {
            cohort.reset(program);
            cohort.stage = key.stage as usize;
        };
        let Some(into) = self.pool.open(key, since_origin(now), prepare) else {
            return false;
        };
        let [run, other] = (self.runs.get_disjoint_mut([id as usize, into as usize]))
            .expect("a busy context and one that forms");
        let (cohort, target) = self.pool.two_cohorts_mut(id, into);
        if target.is_empty() {
            other.begin(&epoch, now);
            other.phase = Phase::Backend;
            other.launched = run.launched;
            other.waiting_since = now;
            other.deadline = Time::NEVER;
        }
        let moves = |lane: u32| stragglers.binary_search(&(lane as usize)).is_ok();
        let mut kept = Vec::new();
        for (request, key) in cohort.requests.iter().zip(&run.keys) {
            if !moves(request.lane) {
                kept.push(*key);
                continue;
            }
            other.keys.push(*key);
            if let Some(pending) = self.asked.get_mut(*key) {
                pending.context = into;
                pending.request = (other.keys.len() - 1) as u32;
                other.deadline = other.deadline.min(pending.deadline);
                other.unanswered += 1;
                run.unanswered -= 1;
            }
        }
        cohort.move_lanes(&stragglers, target);
        for &lane in &stragglers {
            cohort.tickets[lane] = NO_TICKET;
        }
        for key in kept {
            // What lanes that have failed still wait for.
            self.asked.take(key);
        }
        run.keys.clear();
        run.unanswered = 0;
        epoch.pages[key.page as usize]
            .stragglers
            .add(stragglers.len() as u64);
        let lanes = self.pool.cohort(into).len();
        self.pool.filled(into, lanes);
        true
    }

    /// When [`Pipeline::check_waiting`] is due.
    pub(crate) fn waiting_until(&self) -> Option<Time> {
        (0..self.runs.len() as ContextId)
            .filter(|&id| self.runs[id as usize].phase == Phase::Backend)
            .map(|id| {
                let run = &self.runs[id as usize];
                run.deadline
                    .min(run.waiting_since + self.straggler_delay(id))
            })
            .min()
    }
}
