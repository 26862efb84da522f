//! Backends: who they are, what they are asked, and what they have answered.
//!
//! ```text
//!    a stage is done --ask--> waiting ----poll---> all are answered --> next stage
//!                      |        | overdue: failed; stragglers: moved     ^
//!                      +--------+----------------------------------------+
//!                    answered at once
//! ```
//!
//! Between two stages a cohort hands all its queries over in one batch. It goes on when
//! all are answered; or when some are, the straggler delay is over and the device is free: then the
//! lanes without their answers move to another context of the same page and stage. Past its
//! deadline a query has failed, and its lane with it. So every lane is answered within bounded
//! time.

mod store;

use crate::backend::{Ask, Asker, Backend, Batch, Cause, Failure, Told};
use crate::flight::asker::asker;
use crate::flight::cohorts::{Cohorts, Phase, Wait};
use crate::flight::lane_requests::LaneRequests;
use crate::flight::pending_query::PendingQuery;
use crate::flight::stragglers;
use crate::flight::telling::Tellings;
use crate::flight::together::Together;
use crate::observe::metrics::{BackendMetrics, SiteMetrics};
use crate::owner::ConnectionOwner;
use crate::site::epochs::Epochs;
use crate::site::names::Relocated;
use crate::site::{BackendSettings, Site};
use rhythm_cohort::ContextId;
use rhythm_engine::cohort::{Alike, Argument, Cohort, LaneError, LaneState, Queries};
use rhythm_engine::program::PageProgram;
use rhythm_net::sparse::{Sparse, SparseByKind};
use rhythm_net::{Key, Port, Slab, Time};
use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

/// Makes a site's backend, by its index, for one pipeline. It is called on the event loop: it waits
/// for nothing.
pub type BackendFactory = Box<dyn FnMut(&Site, usize) -> Box<dyn Backend>>;

/// The least straggler delay: going on at once would not be waiting.
const STRAGGLER_DELAY_MIN: Duration = Duration::from_micros(100);

/// Least time between two lines of the log about a backend's numbers of rows.
const SAY_ROWS: Duration = Duration::from_secs(60);

/// Most bytes of the arguments of queries that are asked as one.
const MERGED_BYTES_MAX: usize = 4096;

/// A backend, and who it is.
struct NamedBackend {
    /// Whose it is of the sites that are served beside each other.
    site: usize,
    settings: BackendSettings,
    backend: Box<dyn Backend>,
    /// Of all backends of its name.
    metrics: Arc<BackendMetrics>,
    /// How many of its retries are counted there.
    retries_counted: u64,
    /// Lines of the log that say that its rows are too many or too few.
    rows_said: Sparse,
    /// Which queries are one to it.
    together: Together,
}

/// What became of the queries that a stage left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All are answered.
    Answered,
    /// So they are, and lanes have failed, now or before.
    SomeFailed,
    /// The cohort waits.
    Waiting,
    /// The stage ended with no call: it was the last.
    NoCall,
}

/// See the module's text.
pub(crate) struct Backends {
    slots: Slab<NamedBackend>,
    make: BackendFactory,
    pending: Slab<PendingQuery>,
    /// Cohorts that miss no more answers.
    complete: VecDeque<ContextId>,
    /// What the store of sessions is told beside.
    tellings: Tellings,
    /// Lines of the log about calls that failed and are optional.
    spared: Spared,
    // Memory kept from call to call.
    alike: Alike,
    order: Vec<u32>,
    asks: Vec<Ask>,
    fields: Vec<Box<[u8]>>,
    answered: Vec<PendingQuery>,
    /// Those that were asked as one in vain, with their backends.
    again: Vec<(Key, Key)>,
    waiting: Vec<(Key, PendingQuery)>,
}

impl Backends {
    /// None yet; `make` makes them.
    pub(crate) fn new(make: BackendFactory) -> Backends {
        Backends {
            slots: Slab::new(),
            make,
            pending: Slab::new(),
            complete: VecDeque::new(),
            tellings: Tellings::default(),
            spared: Spared::default(),
            alike: Alike::default(),
            order: Vec::new(),
            asks: Vec::new(),
            fields: Vec::new(),
            answered: Vec::new(),
            again: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// The backends of the site of this index: those that are here already where they are the same.
    /// Other sites have their own, whatever their names.
    pub(crate) fn of_site(&mut self, at: usize, site: &Site, metrics: &SiteMetrics) -> Vec<Key> {
        let all = site.settings.backends.iter().enumerate();
        all.map(|(index, settings)| {
            let same = |(_, slot): &(Key, &NamedBackend)| {
                slot.site == at && slot.settings.is_same(settings)
            };
            let known = self.slots.iter().find(same).map(|(key, _)| key);
            known
                .or_else(|| self.moved(at, settings))
                .unwrap_or_else(|| {
                    let mut backend = (self.make)(site, index);
                    if let Some(service) = site.label() {
                        backend.belongs_to(service);
                    }
                    self.slots.insert(NamedBackend {
                        site: at,
                        settings: settings.clone(),
                        backend,
                        metrics: metrics.backend(&settings.name),
                        retries_counted: 0,
                        rows_said: Sparse::every(SAY_ROWS),
                        together: Together::default(),
                    })
                })
        })
        .collect()
    }

    /// Whether one of these can be told where requests come from.
    pub(crate) fn any_takes_fields(&self, keys: &[Key]) -> bool {
        let mut slots = keys.iter().filter_map(|key| self.slots.get(*key));
        slots.any(|slot| slot.backend.takes_fields())
    }

    /// A backend that was elsewhere, and is where these settings say now.
    fn moved(&mut self, at: usize, settings: &BackendSettings) -> Option<Key> {
        let mut slots = self.slots.iter_mut();
        let is_it = |slot: &NamedBackend| slot.site == at && slot.settings.is_elsewhere(settings);
        let (key, slot) = slots.find(|(_, slot)| is_it(slot))?;
        if !slot.backend.relocate(&settings.peers) {
            return None;
        }
        slot.settings.peers.clone_from(&settings.peers);
        Some(key)
    }

    /// The names of backends lead elsewhere.
    pub(crate) fn relocate(&mut self, relocated: &[Relocated]) {
        for Relocated {
            site,
            config,
            peers,
        } in relocated
        {
            for (_, slot) in self.slots.iter_mut() {
                let is_it = slot.site == *site && slot.settings.config.as_ref() == Some(config);
                if is_it && slot.backend.relocate(peers) {
                    slot.settings.peers.clone_from(peers);
                }
            }
        }
    }

    /// Closes and drops the backends that neither these epochs have, which are served now, nor a
    /// cohort under way.
    pub(crate) fn retire(&mut self, port: &mut dyn Port, epochs: &Epochs, cohorts: &Cohorts) {
        let is_used = |key: &Key| {
            (epochs.all().iter()).any(|epoch| epoch.backends.contains(key))
                || self.tellings.is_told(*key)
                || (cohorts.epochs()).any(|epoch| epoch.backends.contains(key))
        };
        let slots = self.slots.iter().map(|(key, _)| key);
        let unused: Vec<Key> = slots.filter(|key| !is_used(key)).collect();
        for key in unused {
            if let Some(mut slot) = self.slots.remove(key) {
                slot.count_retries();
                slot.backend.close(port);
            }
        }
    }

    /// The backends, which may have connections of their own.
    pub(crate) fn owners(&mut self) -> impl Iterator<Item = &mut dyn ConnectionOwner> {
        let slots = self.slots.iter_mut();
        slots.map(|(_, slot)| -> &mut dyn ConnectionOwner { &mut *slot.backend })
    }

    /// Hands the queries that a cohort's stage left over to their backend.
    pub(crate) fn ask(
        &mut self,
        port: &mut dyn Port,
        cohorts: &mut Cohorts,
        id: ContextId,
        now: Time,
    ) -> Asked {
        let key = cohorts.pool.key(id);
        let (cohort, flight) = cohorts.pair_mut(id);
        let epoch = flight.epoch().clone();
        let Some(call) = epoch.call_before(key.page, key.stage) else {
            return Asked::NoCall;
        };
        let backend = epoch.backends[call.backend];
        let slot = self.slots.get_mut(backend);
        let slot = slot.expect("the backends of a cohort's epoch are kept");
        slot.metrics.requests.add(cohort.queries.len() as u64);
        let embedded = slot.backend.embedded();
        let program = epoch.program(key.page);
        if cohort.queries.is_empty() || embedded.is_some() {
            if flight.requests.has_origins() {
                for lane in cohort.queries.lanes() {
                    flight.requests.ask(*lane as usize, key.stage, None);
                }
            }
            if let Some(backend) = embedded {
                let (queries, mut rows) = cohort.exchange(program);
                backend.answer(queries, &mut rows);
            }
            let misfits = cohort.settle(program);
            slot.say_rows(misfits, program, now);
            keep_misfits(cohort, &mut flight.requests, key.stage);
            let has_failed = |lane: &LaneState| matches!(lane, LaneState::Failed(_));
            return match cohort.lanes.iter().any(has_failed) {
                true => Asked::SomeFailed,
                false => Asked::Answered,
            };
        }
        let settings = &epoch.site.settings.backends[call.backend];
        let deadline = now + settings.timeout;
        let wait = Wait {
            unanswered: cohort.queries.len(),
            since: now,
            deadline,
            asked: now,
            straggler_delay: settings.straggler_delay.max(STRAGGLER_DELAY_MIN),
            stays: false,
        };
        cohorts.set_phase(id, Phase::Backend(wait));
        let at = key;
        let (cohort, flight) = cohorts.pair_mut(id);
        debug_assert!(flight.asked.is_empty(), "it waits already");
        let first_of = call.shared.then(|| self.alike.find(&cohort.queries));
        self.order.clear();
        self.asks.clear();
        self.fields.clear();
        let tells = flight.requests.has_origins();
        let takes_fields = tells && slot.backend.takes_fields();
        let stage = at.stage;
        for query in 0..cohort.queries.len() {
            let key = self.pending.insert(PendingQuery {
                context: id,
                query: query as u32,
                backend,
                asked: now,
                deadline,
            });
            flight.asked.push(key);
            let lane = cohort.queries.lanes()[query] as usize;
            let client = flight.requests.client(lane);
            let (client, connection) = client.expect("a lane that asks is not answered");
            let asker = asker(cohort, program, lane, client, connection);
            let first = first_of.map_or(query as u32, |first_of| first_of[query]);
            // Most ask what nobody before them did, and are not looked for.
            if first < query as u32
                && let Ok(at) = self.order.binary_search(&first)
            {
                slot.metrics.shared.add(1);
                slot.follow(&mut self.asks[at], key, asker);
                if tells {
                    flight.requests.ask(lane, stage, None);
                }
                continue;
            }
            if tells {
                let mut fields = Vec::new();
                let out = takes_fields.then_some(&mut fields);
                flight.requests.ask(lane, stage, out);
                self.fields.push(fields.into());
            }
            self.order.push(query as u32);
            self.asks.push(Ask {
                first: self.asks.len(),
                count: 1,
                key: key.as_u64(),
                asker,
            });
        }
        if call.merged && call.idempotent && self.asks.len() > 1 {
            let most = slot.backend.merges(call);
            slot.merge(&mut self.asks, &self.order, &cohort.queries, most);
        }
        // Those that were made one are told of none.
        let is_each = self.fields.len() == self.asks.len();
        let batch = Batch {
            fields: if is_each { &self.fields } else { &[] },
            call,
            queries: &cohort.queries,
            order: &self.order,
            asks: &self.asks,
            step: epoch.calls_before(key.page, key.stage),
            deadline,
        };
        slot.backend.submit(port, batch, now);
        Asked::Waiting
    }

    /// Takes what the backends have answered. Whether there was anything.
    pub(crate) fn poll(&mut self, port: &mut dyn Port, cohorts: &mut Cohorts, now: Time) -> bool {
        let mut any = false;
        for (backend, slot) in self.slots.iter_mut() {
            let (metrics, together) = (&slot.metrics, &mut slot.together);
            let (settings, spared) = (&slot.settings, &mut self.spared);
            let mut tell =
                |together: &mut Together, key: u64, answer: Result<Told<'_>, Failure>| {
                    let all = iter::once(Key::from_u64(key)).chain(together.take_followers(key));
                    // One that nobody waits for any more is late, and of no use.
                    let waited_for = all.filter_map(|key| self.pending.remove(key));
                    self.answered.clear();
                    self.answered.extend(waited_for);
                    for of_cohort in self.answered.chunk_by(|a, b| a.context == b.context) {
                        let to = (settings, &**metrics, &mut *spared);
                        let is_complete = deliver(cohorts, to, of_cohort, answer, now);
                        self.complete.extend(is_complete);
                    }
                };
            slot.backend.poll(&mut |key, answer| {
                any = true;
                if Tellings::is_answer(key) {
                    if let Some(took) = self.tellings.take(key, answer) {
                        let nanoseconds = now.since(took.asked).as_nanos() as u64;
                        metrics.latency.record(nanoseconds, 1);
                        metrics.failures.add(u64::from(took.has_failed));
                    }
                    return;
                }
                let Some(merged) = together.take_merged(key) else {
                    return tell(together, key, answer);
                };
                let rows_of = match answer {
                    Ok(told) if told.status() == 0 => told.split(merged.len()),
                    _ => None,
                };
                match (answer, rows_of) {
                    (Ok(told), Some(rows_of)) => {
                        for (key, rows) in merged.into_iter().zip(&rows_of) {
                            match rows {
                                Some(rows) => tell(together, key.as_u64(), Ok(told.part(rows))),
                                None => self.again.push((backend, key)),
                            }
                        }
                    }
                    (Err(failure), _) if !failure.is_of_query() => {
                        for key in merged {
                            tell(together, key.as_u64(), Err(failure));
                        }
                    }
                    // Whose doing it is nobody knows.
                    _ => (self.again).extend(merged.into_iter().map(|key| (backend, key))),
                }
            });
        }
        while let Some((backend, key)) = self.again.pop() {
            self.ask_alone(port, cohorts, backend, key, now);
        }
        any
    }

    /// Asks a query by itself that was asked with others in vain, for whoever still waits for it.
    fn ask_alone(
        &mut self,
        port: &mut dyn Port,
        cohorts: &mut Cohorts,
        backend: Key,
        key: Key,
        now: Time,
    ) {
        let slot = self.slots.get_mut(backend);
        let slot = slot.expect("the backends of a cohort's epoch are kept");
        let all = iter::once(key).chain(slot.together.take_followers(key.as_u64()));
        self.waiting.clear();
        self.waiting
            .extend(all.filter_map(|key| Some((key, *self.pending.get(key)?))));
        // Those that ask the same have one deadline: asked again they would be late by it, too.
        let is_late = self.waiting.iter().any(|(_, it)| it.deadline <= now);
        // One that has moved without its texts cannot be asked again; another may have them.
        let is_whole = |(_, pending): &(Key, PendingQuery)| {
            let queries = &cohorts.pool.cohort(pending.context).queries;
            queries.is_whole(pending.query as usize)
        };
        let whole = self.waiting.iter().position(is_whole);
        let Some(whole) = whole.filter(|_| !is_late) else {
            let why: Failure = match is_late {
                true => Cause::Late.into(),
                false => LaneError::MemoryShort.into(),
            };
            for (key, pending) in self.waiting.drain(..) {
                self.pending.remove(key);
                let to = (&slot.settings, &*slot.metrics, &mut self.spared);
                let is_complete = deliver(cohorts, to, &[pending], Err(why), now);
                self.complete.extend(is_complete);
            }
            return;
        };
        self.waiting.swap(0, whole);
        let Some(((key, pending), followers)) = self.waiting.split_first() else {
            unreachable!("the one that is whole is among them");
        };
        let mut ask = Ask {
            first: 0,
            count: 1,
            key: key.as_u64(),
            asker: asker_of(cohorts, *pending),
        };
        for (key, pending) in followers {
            let asker = asker_of(cohorts, *pending);
            slot.follow(&mut ask, *key, asker);
        }
        let at = cohorts.pool.key(pending.context);
        let (cohort, flight) = cohorts.pair_mut(pending.context);
        let epoch = flight.epoch().clone();
        let Some(call) = epoch.call_before(at.page, at.stage) else {
            unreachable!("a query that is waited for is asked by a call");
        };
        let mut fields = Vec::new();
        if slot.backend.takes_fields() {
            let lane = cohort.queries.lanes()[pending.query as usize] as usize;
            (flight.requests).ask(lane, at.stage, Some(&mut fields));
        }
        let batch = Batch {
            fields: &[fields.into()],
            call,
            queries: &cohort.queries,
            order: &[pending.query],
            asks: &[ask],
            step: epoch.calls_before(at.page, at.stage),
            deadline: pending.deadline,
        };
        slot.backend.submit(port, batch, now);
    }

    /// A cohort that misses no more answers.
    pub(crate) fn next_complete(&mut self) -> Option<ContextId> {
        self.complete.pop_front()
    }

    /// What is due for a cohort that waits: gives up what had not come by its deadline, of all that
    /// was `heard`, and where `idle`, moves lanes that keep the others waiting to another context.
    /// Whether the cohort can go on.
    pub(crate) fn look_after(
        &mut self,
        cohorts: &mut Cohorts,
        id: ContextId,
        idle: bool,
        heard: Time,
        now: Time,
    ) -> bool {
        let wait = *cohorts.flight_mut(id).wait_mut();
        if wait.deadline <= heard {
            self.give_up(cohorts, id, heard);
        }
        if cohorts.flight_mut(id).wait_mut().unanswered == 0 {
            return true;
        }
        if cohorts.goes_on_at(id, idle) > now {
            return false;
        }
        let is_needed = cohorts.are_few_free();
        let wait = cohorts.flight_mut(id).wait_mut();
        wait.since = now;
        wait.stays = is_needed;
        stragglers::move_away(cohorts, &mut self.pending, id, now)
    }

    /// Fails the lanes whose queries are past their deadline.
    fn give_up(&mut self, cohorts: &mut Cohorts, id: ContextId, heard: Time) {
        let at = cohorts.pool.key(id);
        let (cohort, flight) = cohorts.pair_mut(id);
        let mut next = Time::NEVER;
        let mut given_up = Vec::new();
        let mut backend = None;
        for (query, key) in flight.asked.iter().enumerate() {
            let Some(pending) = self.pending.get_mut(*key) else {
                continue;
            };
            if pending.deadline > heard {
                next = next.min(pending.deadline);
                continue;
            }
            let slot = self.slots.get(pending.backend);
            let slot = slot.expect("the backends of a cohort's epoch are kept");
            slot.metrics.failures.add(1);
            backend = Some(&slot.settings.name);
            self.pending.remove(*key);
            given_up.push(query);
        }
        let wait = flight.wait_mut();
        wait.unanswered -= given_up.len();
        wait.deadline = next;
        // Those that are over have waited long enough for the others.
        wait.asked = wait.since;
        let Some(backend) = backend else {
            return;
        };
        let late = Cause::Late.at(None);
        let program = flight.epoch().program(at.page);
        let (_, mut rows) = cohort.exchange(program);
        if rows.call().optional {
            self.spared.say(backend, &program.name, late, heard);
        }
        let failed: Vec<usize> = (given_up.iter())
            .filter_map(|query| rows.fail(*query, late.error))
            .collect();
        for lane in failed {
            flight.requests.keep_failure(lane, late);
        }
        for query in given_up {
            let lane = cohort.queries.lanes()[query] as usize;
            (flight.requests).call_failed(lane, at.stage, late.error);
        }
    }

    /// A cohort's queries are answered, given up or moved: it waits for them no more, and its
    /// lanes get their rows.
    pub(crate) fn wait_over(&mut self, cohorts: &mut Cohorts, id: ContextId, now: Time) {
        let key = cohorts.pool.key(id);
        let (cohort, flight) = cohorts.pair_mut(id);
        debug_assert_eq!(flight.wait_mut().unanswered, 0);
        flight.asked.clear();
        let (epoch, program) = (flight.epoch(), flight.epoch().program(key.page));
        let misfits = cohort.settle(program);
        let call = epoch.call_before(key.page, key.stage);
        let call = call.expect("it waited for the answers to a call");
        let slot = self.slots.get_mut(epoch.backends[call.backend]);
        let slot = slot.expect("the backends of a cohort's epoch are kept");
        slot.say_rows(misfits, program, now);
        keep_misfits(cohort, &mut flight.requests, key.stage);
    }

    /// How many queries are not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.pending.len()
    }

    /// The turn ends: backends send what they were handed over. Whether any has something to tell.
    pub(crate) fn turn_ends(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let mut any = false;
        for (_, slot) in self.slots.iter_mut() {
            any |= slot.backend.turn_ends(port, now);
        }
        any
    }

    /// Lets time pass for those that wanted it.
    pub(crate) fn tick(&mut self, port: &mut dyn Port, now: Time) {
        for (_, slot) in self.slots.iter_mut() {
            if slot.backend.wake_at().is_some_and(|at| at <= now) {
                slot.backend.tick(port, now);
            }
        }
    }

    /// When [`Backends::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        let all = self.slots.iter();
        all.filter_map(|(_, slot)| slot.backend.wake_at()).min()
    }

    /// Brings the figures up to date. Where backends of one name follow each other, what is
    /// now is that of the epochs that are served.
    pub(crate) fn set_gauges(&mut self, epochs: &Epochs) {
        for (key, slot) in self.slots.iter_mut() {
            slot.count_retries();
            if (epochs.all().iter()).any(|epoch| epoch.backends.contains(&key)) {
                let (counts, metrics) = (slot.backend.counts(), &slot.metrics);
                metrics.under_way.set(counts.under_way);
                metrics.waiting.set(counts.waiting);
                metrics.connections.set(counts.connections);
                metrics.circuit_open.set(u64::from(counts.circuit_open));
                metrics.answers_some.set(u64::from(counts.answers_some));
            }
        }
    }
}

/// Gives queries of one cohort their answer, the same for all. The cohort, if it misses no more.
fn deliver(
    cohorts: &mut Cohorts,
    (settings, metrics, spared): (&BackendSettings, &BackendMetrics, &mut Spared),
    queries: &[PendingQuery],
    answer: Result<Told<'_>, Failure>,
    now: Time,
) -> Option<ContextId> {
    let PendingQuery { context, asked, .. } = *queries.first()?;
    let took = now.since(asked).as_nanos() as u64;
    metrics.latency.record(took, queries.len() as u64);
    let at = cohorts.pool.key(context);
    let (cohort, flight) = cohorts.pair_mut(context);
    let (_, mut rows) = cohort.exchange(flight.epoch().program(at.page));
    let is_optional = rows.call().optional;
    let numbers = queries.iter().map(|pending| pending.query as usize);
    match answer {
        Ok(told) => {
            rows.answer_all(numbers, |answer| told.deliver(answer));
            for (lane, misfit) in cohort.take_misfits() {
                let failure: Failure = Cause::Misfit(misfit).into();
                (flight.requests).call_failed(lane, at.stage, failure.error);
                match is_optional {
                    true => {
                        let page = &flight.epoch().program(at.page).name;
                        spared.say(&settings.name, page, failure, now);
                    }
                    false => flight.requests.keep_failure(lane, failure),
                }
            }
        }
        Err(failure) => {
            metrics.failures.add(queries.len() as u64);
            let failed: Vec<usize> = numbers
                .filter_map(|query| rows.fail(query, failure.error))
                .collect();
            for lane in failed {
                flight.requests.keep_failure(lane, failure);
            }
            if is_optional {
                let page = &flight.epoch().program(at.page).name;
                spared.say(&settings.name, page, failure, now);
            }
            for pending in queries {
                let lane = cohort.queries.lanes()[pending.query as usize] as usize;
                (flight.requests).call_failed(lane, at.stage, failure.error);
            }
        }
    }
    let wait = flight.wait_mut();
    wait.unanswered -= queries.len();
    (wait.unanswered == 0).then_some(context)
}

/// Who asks a query that is waited for.
fn asker_of(cohorts: &mut Cohorts, pending: PendingQuery) -> Asker {
    let at = cohorts.pool.key(pending.context);
    let (cohort, flight) = cohorts.pair_mut(pending.context);
    let lane = cohort.queries.lanes()[pending.query as usize] as usize;
    let client = flight.requests.client(lane);
    let (client, connection) = client.expect("a lane that waits is not answered");
    let program = flight.epoch().program(at.page);
    asker(cohort, program, lane, client, connection)
}

/// Keeps why answers are none that their page takes, for the log.
fn keep_misfits(cohort: &mut Cohort, requests: &mut LaneRequests, stage: u32) {
    for (lane, misfit) in cohort.take_misfits() {
        let failure: Failure = Cause::Misfit(misfit).into();
        requests.keep_failure(lane, failure);
        requests.call_failed(lane, stage, failure.error);
    }
}

/// What the log is told of calls that fail, and that their pages can do without.
#[derive(Default)]
struct Spared(SparseByKind<(String, String, Failure)>);

impl Spared {
    fn say(&mut self, backend: &str, page: &str, failure: Failure, now: Time) {
        let kind = (backend.to_owned(), page.to_owned(), failure);
        if let Some(left_out) = self.0.line(kind, now) {
            tracing::warn!(
                page,
                backend,
                cause = failure.cause.map(|cause| cause.to_string()),
                left_out,
                "an optional call failed, and its page went on: {failure}"
            );
        }
    }
}

impl NamedBackend {
    /// Has a query, asked by this one, be answered by what another asks. Of those who ask the same,
    /// the one that holds the least of the backend is who asks: none waits behind what the others
    /// have asked besides.
    fn follow(&mut self, ask: &mut Ask, query: Key, asker: Asker) {
        self.together.follow(ask.key, query);
        ask.asker = self.who_holds_less(ask.asker, asker);
    }

    /// Makes queries one, so many at most.
    fn merge(&mut self, asks: &mut Vec<Ask>, order: &[u32], queries: &Queries, most: usize) {
        if most < 2 {
            return;
        }
        let bytes_of = |ask: &Ask| -> usize {
            let arguments = queries.arguments(order[ask.first] as usize);
            arguments.map(Argument::bytes).sum()
        };
        let (mut merged, mut bytes) = (Vec::new(), 0);
        let mut of_last: Vec<Key> = Vec::new();
        for ask in asks.drain(..) {
            let more = bytes_of(&ask);
            let key = Key::from_u64(ask.key);
            match merged.last_mut() {
                Some(last) if of_last.len() < most && bytes + more <= MERGED_BYTES_MAX => {
                    let last: &mut Ask = last;
                    last.count += 1;
                    last.asker = self.who_holds_less(last.asker, ask.asker);
                    of_last.push(key);
                    bytes += more;
                }
                _ => {
                    self.merged(std::mem::replace(&mut of_last, vec![key]));
                    merged.push(ask);
                    bytes = more;
                }
            }
        }
        self.merged(of_last);
        *asks = merged;
    }

    /// Takes note of what is asked as one.
    fn merged(&mut self, queries: Vec<Key>) {
        if queries.len() > 1 {
            self.metrics.merged.add(queries.len() as u64);
            self.together.merge(queries);
        }
    }

    /// The one of two who ask of whose calls the backend keeps less: it is bounded in bytes, too.
    fn who_holds_less(&self, one: Asker, other: Asker) -> Asker {
        let held = |asker: Asker| self.backend.held_of(asker.number);
        match one.number != other.number && held(other) < held(one) {
            true => other,
            false => one,
        }
    }

    /// Says that so many lanes were answered another number of rows than the one that their page
    /// takes: nothing else tells the page's author why they get 502.
    fn say_rows(&mut self, lanes: usize, program: &PageProgram, now: Time) {
        if lanes > 0 && self.rows_said.line(now).is_some() {
            tracing::warn!(
                backend = self.settings.name,
                page = program.name,
                lanes,
                "requests answered by no row, or by several, get 502, as the page has `row = ...`: \
                 let the backend answer one, or take them all by `rows = ...`"
            );
        }
    }

    /// Counts the retries since this was last done.
    fn count_retries(&mut self) {
        let retries = self.backend.counts().retries;
        self.metrics.retries.add(retries - self.retries_counted);
        self.retries_counted = retries;
    }
}
