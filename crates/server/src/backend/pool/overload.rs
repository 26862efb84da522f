//! Overload: what waits and cannot be answered in time is refused at once.
//!
//! Where more is asked than the backend can answer, all wait until they are too late, and what it
//! does is of use to nobody. So no more requests wait than it answers in half of the time that a
//! query may take, by how long its answers took of late: the other half is for their own calls, and
//! for what is not foreseen. Beyond, who comes last in the order in which they are to go is refused
//! (503, to come again). Only first calls of requests are: for those that are further along, work
//! was done already, and they are not many (`waiting.rs`); nor what was sent before.
//!
//! Calls that are slow (`statements.rs`) are counted by themselves, against the part of the
//! connections that they may hold: others do not wait for them.

use super::super::failure::Cause;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::share::most_of;
use rhythm_engine::program::Call;
use std::rc::Rc;
use std::time::Duration;

impl<W: Wire> ConnectionPool<W> {
    /// Refuses what cannot be answered in time.
    pub(super) fn refuse_beyond(&mut self) {
        let all = self.options.connections_max.max(1);
        // Where answers come in order, each holds its connection by itself when it is its turn.
        let depth = if W::IN_ORDER { 1 } else { self.depth() };
        // Not where each has its turn with the next answers.
        if self.waiting.len() <= all * depth {
            return;
        }
        let half = self.options.timeout / 2;
        let time = |connections: usize| {
            half.saturating_mul(u32::try_from(connections * depth).unwrap_or(u32::MAX))
        };
        let (time_of_all, time_of_slow) = (time(all), time(most_of(all, true)));
        let (statements, done) = (&self.statements, &mut self.done);
        let mut fits = Fits::default();
        let is_over = self.waiting.of_calls().any(|(call, count)| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let cost = statements.cost(call, 0).saturating_mul(count);
            !match statements.is_slow(call) {
                true => fits.slow(call, cost, time_of_slow),
                false => fits.any(cost, time_of_all),
            }
        });
        if !is_over {
            return;
        }
        let mut fits = Fits::default();
        self.waiting.sift(
            |query| {
                let call = Rc::as_ptr(&query.call);
                let cost = statements.cost(call, query.step);
                let fits = match statements.is_slow(call) {
                    true => fits.slow(call, cost, time_of_slow),
                    false => fits.any(cost, time_of_all),
                };
                fits || query.step > 0 || query.retries > 0
            },
            |query| done.tell(query, Err(Cause::TooMany.at(None))),
        );
    }
}

/// The time that those take which go before.
#[derive(Debug, Default)]
struct Fits {
    taken: Duration,
    /// That of each call that is slow.
    slow: Vec<(*const Call, Duration)>,
}

impl Fits {
    /// Whether one more fits a time; it is taken then.
    fn take(taken: &mut Duration, cost: Duration, time: Duration) -> bool {
        let after = taken.saturating_add(cost);
        let fits = after <= time;
        if fits {
            *taken = after;
        }
        fits
    }

    fn any(&mut self, cost: Duration, time: Duration) -> bool {
        Fits::take(&mut self.taken, cost, time)
    }

    fn slow(&mut self, call: *const Call, cost: Duration, time: Duration) -> bool {
        let at = self.slow.iter().position(|(of, _)| *of == call);
        let at = at.unwrap_or_else(|| {
            self.slow.push((call, Duration::ZERO));
            self.slow.len() - 1
        });
        Fits::take(&mut self.slow[at].1, cost, time)
    }
}
