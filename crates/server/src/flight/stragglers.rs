//! Stragglers: lanes whose backend keeps their cohort waiting move to another context of the same
//! page and stage, so that the others go on (paper, section 3.1). Where their texts find no
//! room, they stay, and their cohort waits for them.
//!
//! Where few contexts are free, cohorts that wait as a whole come together, too: else calls that
//! hang, one at a time, would soon have them all, and no page was served.

use crate::flight::cohorts::{Cohorts, Needs};
use crate::flight::pending_query::PendingQuery;
use rhythm_cohort::{ContextId, ContextState};
use rhythm_engine::cohort::LaneState;
use rhythm_net::{Slab, Time};

/// Moves the lanes that miss answers to another context, if one can take them and something is
/// gained: lanes are left to go on, or a context that is needed. Whether it did: then the cohort
/// waits for nothing more.
pub(crate) fn move_away(
    cohorts: &mut Cohorts,
    pending: &mut Slab<PendingQuery>,
    id: ContextId,
    now: Time,
) -> bool {
    let stragglers = match stragglers_of(cohorts, id) {
        Some(stragglers) => stragglers,
        None => return false,
    };
    let key = cohorts.pool.key(id);
    let program = cohorts.flight(id).epoch().program(key.page);
    let needs = Needs {
        lanes: stragglers.len(),
        bytes: cohorts.pool.cohort(id).moved_bytes(program, &stragglers),
        kept: cohorts.flight(id).requests.kept_bytes(),
    };
    let pool = &mut cohorts.pool;
    if pool.state(id) == ContextState::PartiallyFull {
        // It takes no more itself, so that another can be opened at its key.
        pool.launch(id);
    }
    if let Some(other) = cohorts.pool.forming_of(key)
        && !cohorts.has_room_for(other, id, needs, now)
    {
        cohorts.pool.launch(other);
    }
    let Some(into) = cohorts.open_for_stragglers(id, needs, now) else {
        return false;
    };
    let [(cohort, flight), (target, other)] = cohorts.two_pairs_mut(id, into);
    if other.timeline.launched().is_none() {
        other.timeline.follow(&flight.timeline);
    }
    // Of a cohort without one no request is told of.
    let of_stragglers = || flight.span.map(|span| span.of_stragglers(now));
    other.span = other.span.or_else(of_stragglers);
    let mut moved = 0;
    for (&lane, &key) in cohort.queries.lanes().iter().zip(&flight.asked) {
        if stragglers.binary_search(&(lane as usize)).is_err() {
            // What a lane that has failed still waits for.
            pending.remove(key);
            continue;
        }
        let index = other.asked.len() as u32;
        other.asked.push(key);
        if let Some(pending) = pending.get_mut(key) {
            pending.context = into;
            pending.query = index;
            let wait = other.wait_mut();
            wait.asked = wait.asked.max(pending.asked);
            wait.deadline = wait.deadline.min(pending.deadline);
            wait.unanswered += 1;
            moved += 1;
        }
    }
    debug_assert!(moved > 0, "stragglers miss answers");
    flight.asked.clear();
    flight.wait_mut().unanswered = 0;
    let program = flight.epoch().program(key.page);
    cohort.move_lanes(program, &stragglers, target);
    flight.requests.move_lanes(&stragglers, &mut other.requests);
    let metrics = flight.epoch().metrics(key.page);
    metrics.stragglers.add(stragglers.len() as u64);
    true
}

/// The lanes that miss answers, in rising order; `None` where there is none, or nothing gained by
/// moving them.
fn stragglers_of(cohorts: &Cohorts, id: ContextId) -> Option<Vec<usize>> {
    let cohort = cohorts.pool.cohort(id);
    let active = |lane: usize| cohort.lanes[lane] == LaneState::Active;
    let mut stragglers: Vec<usize> = (cohort.queries.lanes().iter().enumerate())
        .filter(|(query, lane)| !cohort.is_answered(*query) && active(**lane as usize))
        .map(|(_, lane)| *lane as usize)
        .collect();
    stragglers.dedup();
    // Lanes that have failed have an answer to give, too.
    let others = cohorts.flight(id).requests.left() - stragglers.len();
    let is_worth = others > 0 || is_to_join(cohorts, id, stragglers.len());
    (!stragglers.is_empty() && is_worth).then_some(stragglers)
}

/// Whether a cohort all of whose lanes, so many, miss answers is to give its context back.
fn is_to_join(cohorts: &Cohorts, id: ContextId, lanes: usize) -> bool {
    // One that takes stragglers already, or has many, is where others join.
    cohorts.are_few_free()
        && cohorts.pool.state(id) == ContextState::Busy
        && lanes <= cohorts.waiting_lanes_max() / 2
}
