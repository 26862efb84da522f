//! Refusing: queries that wait and cannot be answered in time, as `overload.rs` tells, go back to
//! their requests.

use super::super::asked::CallNumber;
use super::super::failure::Cause;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::next::is_suspect;
use super::overload::Overload;
use rhythm_net::Time;

impl<W: Wire> ConnectionPool<W> {
    /// Refuses what cannot be answered in time.
    pub(super) fn refuse_beyond(&mut self, now: Time) {
        let all = self.options.connections_max.max(1);
        // Where answers come in order, each holds its connection by itself when it is its turn.
        let depth = if W::IN_ORDER { 1 } else { self.depth() };
        let few = all * depth;
        if self.waiting.len() <= few {
            self.overload = Overload::default();
            return;
        }
        let (pipes, statements, done) = (&self.pipes, &self.statements, &mut self.done);
        // Those of which queries take long now are not waited for by others either.
        let kinds: Vec<(CallNumber, usize, usize)> = (self.waiting.of_calls())
            .map(|(call, count)| {
                let is_slow = is_suspect(pipes, call, statements, now);
                (call, usize::from(is_slow), count)
            })
            .collect();
        let mut waiting = [0; 2];
        for (_, kind, count) in &kinds {
            waiting[*kind] += count;
        }
        let most_wait = self.options.timeout / 2;
        let mut left = self.overload.left(waiting, few, most_wait, now);
        if waiting
            .iter()
            .zip(left)
            .all(|(waiting, left)| *waiting <= left)
        {
            return;
        }
        self.waiting.sift(
            |query| {
                let of_it = |(of, ..): &&(_, _, _)| *of == query.call.number();
                let kind = kinds.iter().find(of_it).map_or(0, |(_, kind, _)| *kind);
                let left = &mut left[kind];
                let fits = *left > 0;
                *left = left.saturating_sub(1);
                fits || query.step > 0 || query.retries > 0
            },
            |query| done.tell(query, Err(Cause::Overload.at(None))),
        );
    }
}
