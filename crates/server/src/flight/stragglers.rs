//! Stragglers: lanes whose backend keeps their cohort waiting move to another context of the same
//! page and stage, so that the others go on (paper, section 3.1).

use crate::flight::cohorts::Cohorts;
use crate::flight::pending::Pending;
use rhythm_cohort::{ContextId, ContextState};
use rhythm_engine::cohort::LaneState;
use rhythm_net::{Slab, Time};

/// Moves the lanes that miss answers to another context, if one can take them and lanes are left to
/// go on. Whether it did: then the cohort waits for nothing more.
pub(crate) fn move_away(
    cohorts: &mut Cohorts,
    pending: &mut Slab<Pending>,
    id: ContextId,
    now: Time,
) -> bool {
    let stragglers = match stragglers_of(cohorts, id) {
        Some(stragglers) => stragglers,
        None => return false,
    };
    let pool = &mut cohorts.pool;
    let key = pool.key(id);
    if pool.state(id) == ContextState::PartiallyFull {
        // It takes no more itself, so that another can be opened at its key.
        pool.launch(id);
    }
    if let Some(other) = pool.forming_of(key)
        && pool.cohort(other).len() + stragglers.len() > pool.lanes_max()
    {
        pool.launch(other);
    }
    let Some(into) = cohorts.open_for_stragglers(id, now) else {
        return false;
    };
    let [(cohort, flight), (target, other)] = cohorts.two_pairs_mut(id, into);
    let mut moved = 0;
    for (request, &key) in cohort.requests.iter().zip(&flight.asked) {
        if stragglers.binary_search(&(request.lane as usize)).is_err() {
            // What a lane that has failed still waits for.
            pending.remove(key);
            continue;
        }
        let index = other.asked.len() as u32;
        other.asked.push(key);
        if let Some(pending) = pending.get_mut(key) {
            pending.context = into;
            pending.request = index;
            let wait = other.wait_mut();
            wait.deadline = wait.deadline.min(pending.deadline);
            wait.unanswered += 1;
            moved += 1;
        }
    }
    debug_assert!(moved > 0, "stragglers miss answers");
    flight.asked.clear();
    flight.wait_mut().unanswered = 0;
    cohort.move_lanes(&stragglers, target);
    flight.requests.move_lanes(&stragglers, &mut other.requests);
    let metrics = flight.epoch().metrics(key.page);
    metrics.stragglers.add(stragglers.len() as u64);
    cohorts.filled(into);
    true
}

/// The lanes that miss answers, in rising order; `None` where there is none, or no other lane to go
/// on.
fn stragglers_of(cohorts: &Cohorts, id: ContextId) -> Option<Vec<usize>> {
    let cohort = cohorts.pool.cohort(id);
    let active = |lane: usize| cohort.lanes[lane] == LaneState::Active;
    let mut stragglers: Vec<usize> = (cohort.requests.iter())
        .filter(|request| request.answer.is_none() && active(request.lane as usize))
        .map(|request| request.lane as usize)
        .collect();
    stragglers.dedup();
    let active_lanes = (0..cohort.len()).filter(|&lane| active(lane)).count();
    (!stragglers.is_empty() && stragglers.len() < active_lanes).then_some(stragglers)
}
