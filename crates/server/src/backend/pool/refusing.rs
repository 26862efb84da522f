//! Refusing: queries that wait and cannot be answered in time, as `overload.rs` tells, go back to
//! their requests.

use super::super::asked::CallNumber;
use super::super::awaited::Taken;
use super::super::failure::Cause;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::next::{HeldLong, Suspects};
use rhythm_net::Time;

impl<W: Wire> ConnectionPool<W> {
    /// Refuses what cannot be answered in time.
    pub(super) fn refuse_beyond(&mut self, now: Time) {
        let all = self.options.connections_max.max(1);
        // Where answers come in order, each holds its connection by itself when it is its turn.
        let depth = if W::IN_ORDER { 1 } else { self.depth() };
        let few = all * depth;
        if self.waiting.len() <= few {
            self.overload.is_over();
            return;
        }
        let (pipes, statements, done) = (&self.pipes, &self.statements, &mut self.done);
        // Those of which queries take long now are not waited for by others either.
        let suspects = Suspects::of(pipes, statements, now);
        let kinds: Vec<(CallNumber, usize, usize)> = (self.waiting.of_calls())
            .map(|(call, count)| (call, usize::from(suspects.contain(call)), count))
            .collect();
        let mut waiting = [0; 2];
        for (_, kind, count) in &kinds {
            waiting[*kind] += count;
        }
        let mut left = self.overload.left(waiting, few, now);
        if waiting
            .iter()
            .zip(left)
            .all(|(waiting, left)| *waiting <= left)
        {
            return;
        }
        let kind_of = |query: &Taken| {
            let of_it = |(of, ..): &&(_, _, _)| *of == query.call.number();
            kinds.iter().find(of_it).map_or(0, |(_, kind, _)| *kind)
        };
        // Who has slow ones under way waits for those, and makes nobody give way.
        let held_long = HeldLong::of(pipes, statements, now);
        let holds = |query: &Taken| held_long.of_one(query.asker) > 0;
        let mut others = [0; 2];
        for query in self.waiting.iter().filter(|query| !holds(query)) {
            others[kind_of(query)] += 1;
        }
        self.waiting.sift(
            |query| {
                let kind = kind_of(query);
                let (left, others) = (&mut left[kind], &mut others[kind]);
                let fits = match holds(query) {
                    true => *left > *others,
                    false => *left > 0,
                };
                *others -= usize::from(!holds(query));
                if !fits {
                    return query.step > 0 || query.retries > 0;
                }
                *left = left.saturating_sub(1);
                true
            },
            |query| done.tell(query, Err(Cause::Overload.at(None))),
        );
    }
}
