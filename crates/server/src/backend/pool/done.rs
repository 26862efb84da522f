//! Where the queries of a pool end up: each is taken over once, and told of once.

use super::super::BackendCounts;
use super::super::answers::QueryAnswers;
use super::super::awaited::{Sent, Taken};
use super::super::failure::{Cause, Failure};
use super::super::wire::{Verdict, Wire};
use super::options::PoolOptions;
use super::share::UnderWay;
use super::spare::Spare;
use std::net::SocketAddr;

/// Where queries end up.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) answers: QueryAnswers,
    pub(super) counts: BackendCounts,
    /// Queries taken over and not yet told of.
    pub(super) under_way: usize,
    /// Bytes that are kept of them.
    held: usize,
    /// How many they are, and their bytes, by who asked.
    under_way_of: UnderWay,
    /// Memory for queries.
    pub(super) spare: Spare,
}

impl Done {
    /// Whether one of so many bytes cannot be taken over, of anybody or of this one.
    pub(super) fn is_full(&self, bytes: usize, asker: u64, options: &PoolOptions) -> bool {
        let left = options.held_max.saturating_sub(self.held);
        let of_his = self.under_way_of.of(asker);
        self.under_way >= options.queries_max
            || of_his.calls >= options.share.calls_max
            || !of_his.may_have(bytes, left)
    }

    /// How many bytes are kept of this one's queries; the most there can be where he has as many
    /// queries as he may. Each takes some, so who has fewer bytes has few queries, too.
    pub(super) fn held_of(&self, asker: u64, options: &PoolOptions) -> usize {
        let of_his = self.under_way_of.of(asker);
        match of_his.calls >= options.share.calls_max {
            true => usize::MAX,
            false => of_his.bytes,
        }
    }

    /// The beginning of a query of so many bytes.
    pub(super) fn take_over(&mut self, bytes: usize, asker: u64) {
        self.held += bytes;
        self.under_way += 1;
        self.under_way_of.add(asker, bytes);
    }

    /// The end of a query.
    pub(super) fn tell(&mut self, query: Taken, answer: Result<i64, Failure>) {
        self.tell_of(&query, answer);
        self.spare.keep(query.arguments);
    }

    /// The one place where a query is told of.
    pub(super) fn tell_of(&mut self, query: &Taken, answer: Result<i64, Failure>) {
        self.under_way -= 1;
        self.held -= query.bytes;
        self.under_way_of.remove(query.asker, query.bytes);
        self.answers.push(query.key, answer);
    }

    /// The end of a query that was answered, well or not, from there.
    pub(super) fn tell_verdict(
        &mut self,
        sent: Sent,
        verdict: &Verdict,
        address: Option<SocketAddr>,
    ) {
        if sent.is_given_up {
            self.answers.discard();
            self.spare.keep(sent.query.arguments);
        } else {
            let failure = |cause: Cause| cause.at(address);
            self.tell(sent.query, verdict.outcome.map_err(failure));
        }
    }

    /// Likewise, or the query where it is to be sent again: what it asked for was undone.
    pub(super) fn tell_or_repeat<W: Wire>(
        &mut self,
        sent: Sent,
        verdict: &Verdict,
        address: Option<SocketAddr>,
        options: &PoolOptions,
    ) -> Option<Taken> {
        let is_undone = verdict.outcome == Err(Cause::Undone);
        if !is_undone || sent.is_given_up || sent.query.retries >= options.retries_max {
            self.tell_verdict(sent, verdict, address);
            return None;
        }
        self.answers.discard();
        self.counts.retries += 1;
        let mut query = sent.query;
        query.retries += 1;
        query.is_alone |= W::IN_ORDER && query.retries >= options.retries_max;
        Some(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_fewest_bytes_asks_unless_he_has_all_the_calls_he_may() {
        let mut options = PoolOptions::default();
        options.share.calls_max = 3;
        options.held_max = 3_000;
        let mut done = Done::default();
        done.take_over(1_000, 1);
        done.take_over(10, 2);
        done.take_over(10, 2);
        // One with few calls may have no room for another.
        assert!(done.is_full(900, 1, &options) && !done.is_full(900, 2, &options));
        assert!(done.held_of(2, &options) < done.held_of(1, &options));
        assert_eq!(done.held_of(3, &options), 0);
        done.take_over(10, 2);
        assert!(done.is_full(1, 2, &options) && !done.is_full(1, 1, &options));
        assert!(done.held_of(2, &options) > done.held_of(1, &options));
    }
}
