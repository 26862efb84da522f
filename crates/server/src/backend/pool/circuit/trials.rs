//! Trials of a backend that failed: which queries are let through to see, and what they tell.
//!
//! They are shared out by what is asked, and of each call by who asks: who was not answered well
//! has no other in the same round, and no call has more of them than the round has trials, nor more
//! than the first round until one was answered. So neither one user's failures nor the calls of a
//! page that hang, whoever asks, take trials from others. They are judged by what is asked, too:
//! where as many calls are answered as fail, the backend is there.

use super::super::super::asked::CallNumber;
use super::super::super::awaited::Taken;
use super::outcomes::{Outcomes, SLOTS, slot_of_asker, slot_of_call};
use rhythm_net::Time;

/// Trials of the first round; each round that goes well doubles them.
const TRIALS_FIRST: u32 = 4;

/// After a round of so many the circuit is closed. No more are under way of all calls together.
const TRIALS_LAST: u32 = 32;

/// The trials of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfCall {
    /// Slots of those who asked them and were not answered well.
    askers: u64,
    /// Queries that were answered well.
    well: u32,
}

/// A round of trials. See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trials {
    /// How many they are, and how many queries were answered well.
    most: u32,
    well: u32,
    /// By slots of calls.
    of_calls: [OfCall; SLOTS],
    /// Slots of the calls that were answered well in any round since the circuit was open.
    answered: u64,
    /// Nothing was tried for long before them.
    is_calm: bool,
    /// Trials that have told nothing by then are tried again.
    pub(super) until: Time,
}

impl Trials {
    /// The first round, to tell something by then.
    pub(super) fn first(until: Time) -> Trials {
        Trials {
            most: TRIALS_FIRST,
            well: 0,
            of_calls: [OfCall::default(); SLOTS],
            answered: 0,
            is_calm: false,
            until,
        }
    }

    /// A round when nothing is known of any call.
    pub(super) fn calm(until: Time) -> Trials {
        Trials {
            most: TRIALS_LAST,
            answered: u64::MAX,
            is_calm: true,
            ..Trials::first(until)
        }
    }

    /// A round that begins anew.
    pub(super) fn again(&self, until: Time) -> Trials {
        Trials {
            answered: self.answered,
            ..Trials::first(until)
        }
    }

    /// The round after this one; `None` after the last.
    pub(super) fn next(&self, until: Time) -> Option<Trials> {
        (self.most < TRIALS_LAST).then(|| Trials {
            most: 2 * self.most,
            ..self.again(until)
        })
    }

    /// Whether a query of this one, by this call, is let through.
    pub(super) fn admit(&mut self, asker: u64, call: CallNumber) -> bool {
        let (asker, at) = (1 << slot_of_asker(asker), slot_of_call(call));
        let not_well = self.of_calls.iter().map(|of| of.askers.count_ones());
        let all: u32 = not_well.sum();
        let most = match self.answered & 1 << at {
            0 => TRIALS_FIRST,
            _ => self.most,
        };
        let askers = &mut self.of_calls[at].askers;
        let is_trial = *askers & asker == 0 && askers.count_ones() < most && all < TRIALS_LAST;
        if is_trial {
            *askers |= asker;
        }
        is_trial
    }

    /// A query was answered well. Whether most of the round were.
    pub(super) fn succeeded(&mut self, query: &Taken) -> bool {
        let at = slot_of_call(query.call.number());
        self.of_calls[at].askers &= !(1 << slot_of_asker(query.asker));
        self.of_calls[at].well += 1;
        self.well += 1;
        self.answered |= 1 << at;
        2 * self.well > self.most
    }

    /// Whether a round that was not full went well: where few ask, those that told anything decide.
    pub(super) fn are_well(&self, outcomes: &Outcomes) -> bool {
        let asked = || (self.of_calls.iter()).filter(|of| **of != OfCall::default());
        let not_well = asked().fold(0, |askers, of| askers | of.askers);
        let failing = outcomes.askers_failing() + not_well.count_ones();
        let calls_well = asked()
            .filter(|of| of.well > of.askers.count_ones())
            .count();
        self.well > failing || calls_well > 0 && 2 * calls_well >= asked().count()
    }

    /// Whether none has gone well, of this round and those before that it follows.
    pub(super) fn none_is_well(&self, outcomes: &Outcomes) -> bool {
        let fails = match self.is_calm {
            true => outcomes.askers_failing() > 0,
            false => self.most == TRIALS_FIRST,
        };
        fails && self.well == 0
    }
}
