//! What becomes of queries when a connection is lost or an answer does not come in time.

use super::super::awaited::{Sent, Which};
use super::super::failure::{Cause, Failure};
use super::super::wire::Wire;
use super::ConnectionPool;
use super::pipe::Loss;
use rhythm_engine::cohort::LaneError;
use rhythm_net::{Port, Time};
use std::io::ErrorKind;

impl<W: Wire> ConnectionPool<W> {
    /// Ends a pipe and decides over the queries in it.
    pub(super) fn lose(&mut self, port: &mut dyn Port, at: usize, loss: Loss, now: Time) {
        let mut pipe = self.pipes.swap_remove(at);
        let is_unused = pipe.is_unused() && now.since(pipe.begun) <= self.options.connect_timeout;
        let cause = match loss {
            Loss::Broken(why) => Some(Cause::Lost(why)),
            Loss::Late => Some(Cause::Late),
            Loss::Unreadable => Some(Cause::Unreadable),
            Loss::Held | Loss::Announced { .. } => None,
        };
        let address = pipe.address;
        match loss {
            Loss::Announced { .. } => port.close(pipe.id),
            _ => port.abort(pipe.id),
        }
        // One at most is its reason: where answers come in order, the oldest.
        if let Some(cause) = cause
            && let Some(sent) = pipe.awaited.wanted().next()
        {
            self.circuit.failed(&sent.query, cause, now);
            if loss == Loss::Late {
                let since = pipe.owed().map_or(sent.since, |(_, since)| since);
                (self.statements).was_late(&sent.query, now.since(since), now);
                if W::IN_ORDER {
                    self.wire.was_late(&pipe.connection, &pipe.awaited);
                }
            }
        }
        if loss == Loss::Unreadable
            && W::IN_ORDER
            && let Some(sent) = pipe.take_answered(Which::Oldest)
            && !sent.is_given_up
        {
            let failure = Cause::Unreadable.at(address);
            self.done.tell(sent.query, Err(failure));
        }
        // From the back, so that the first is the first again.
        while let Some((sent, is_delivered)) = pipe.take_back() {
            let Sent {
                mut query,
                number,
                is_given_up,
                ..
            } = sent;
            let is_announced = matches!(loss, Loss::Announced { number: last } if number > last);
            // Not counted where announced: that comes with an answer, so there is progress.
            let is_safe = !is_delivered || query.call.idempotent;
            let has_retries = query.retries < self.options.retries_max;
            let again = is_announced || is_safe && (has_retries || loss == Loss::Held);
            query.retries += u32::from(!is_announced);
            query.is_alone = self.is_alone(&query);
            query.may_be_slow = self.statements.may_be_slow(query.call.number());
            if is_given_up {
                self.done.spare.keep(query.arguments);
            } else if query.deadline <= now {
                self.done.tell(query, Err(Cause::Late.at(address)));
            } else if again {
                self.done.counts.retries += 1;
                self.waiting.push_front(query);
            } else {
                let failure = Failure {
                    error: LaneError::BackendFailed,
                    ..cause.unwrap_or(Cause::Lost(None)).at(address)
                };
                self.done.tell(query, Err(failure));
            }
        }
        // It opened for nothing, as others will: that goes on without an end where it is not
        // counted.
        if is_unused {
            self.connect_failed(address, pipe.begun, loss.kind(), now);
        }
    }

    /// The input of an open pipe ended, in order where there is no error: what ends with it is
    /// complete then.
    pub(super) fn ended_open(
        &mut self,
        port: &mut dyn Port,
        at: usize,
        why: Option<ErrorKind>,
        now: Time,
    ) {
        let mut loss = Loss::Broken(why);
        let (pipe, answers) = (&mut self.pipes[at], &mut self.done.answers);
        if why.is_none()
            && let Some(verdict) = (self.wire).finish(&mut pipe.connection, &pipe.awaited, answers)
        {
            match pipe.take_answered(verdict.query) {
                None => answers.discard(),
                Some(sent) => {
                    let number = sent.number;
                    self.circuit.judge(&sent, &verdict, now);
                    self.done.tell_verdict(sent, &verdict, pipe.address);
                    loss = Loss::Announced { number };
                }
            }
        }
        self.lose(port, at, loss, now);
    }

    /// Ends a connection, whether it is in use already or not.
    pub(super) fn lose_or_drop(&mut self, port: &mut dyn Port, at: usize, loss: Loss, now: Time) {
        match self.pipes[at].is_open() {
            true => self.lose(port, at, loss, now),
            false => self.drop_opening(port, at, loss.kind(), now),
        }
    }

    /// Gives up what is late: waiting queries, queries in pipes, and pipes that are stuck.
    pub(super) fn expire(&mut self, port: &mut dyn Port, now: Time) {
        let done = &mut self.done;
        // That they waited is no failure of theirs: they never left.
        (self.waiting).extract(
            |query| query.deadline <= now,
            |query| done.tell(query, Err(Cause::Unsent.at(None))),
        );
        let depth = self.options.depth_max;
        while let Some(at) = self.pipes.iter().position(|pipe| pipe.is_late(now)) {
            if self.pipes[at].is_stuck(depth, now) {
                self.lose(port, at, Loss::Late, now);
                continue;
            }
            let (done, circuit) = (&mut self.done, &mut self.circuit);
            let failure = Cause::Late.at(self.pipes[at].address);
            self.pipes[at].awaited.give_up(now, |query| {
                circuit.failed(query, Cause::Late, now);
                done.tell_of(query, Err(failure));
                done.spare.keep(std::mem::take(&mut query.arguments));
            });
        }
        let sent = self.pipes.iter().flat_map(|pipe| pipe.awaited.wanted());
        let under_way = (self.waiting.iter()).chain(sent.map(|sent| &sent.query));
        self.deadline_next = under_way
            .map(|query| query.deadline)
            .min()
            .unwrap_or(Time::NEVER);
    }

    /// The oldest query of a pipe takes long: those behind it go elsewhere, each alone, and it
    /// waits for its answer or its deadline by itself; or like them for a pipe of its own, where
    /// its asker holds enough.
    pub(super) fn move_behind(&mut self, port: &mut dyn Port, at: usize, now: Time) {
        if !self.pipes[at].was_put_off() {
            self.pace.stalled();
        }
        let is_beyond_share = self.is_beyond_share(at);
        let is_taken = is_beyond_share || self.is_slow_beyond_share(at, now);
        let left = match is_taken {
            true => &self.renewals,
            false => &self.moves,
        };
        if !left.is_left(now) {
            self.pipes[at].moves_after = left.next_at();
            return;
        }
        if is_beyond_share {
            return self.renew(port, at, now);
        }
        if is_taken {
            return self.take_from_slow(port, at, now);
        }
        // What it still owes then is of no use to anybody.
        self.moves.take(now);
        let (waiting, counts) = (&mut self.waiting, &mut self.done.counts);
        let retries_max = self.options.retries_max;
        self.pipes[at].awaited.move_behind_first(|mut query| {
            counts.retries += 1;
            query.retries += 1;
            query.is_alone = query.retries >= retries_max;
            waiting.push_front(query);
        });
    }

    /// Fails what waits.
    pub(super) fn fail_waiting(&mut self, failure: Failure) {
        let done = &mut self.done;
        (self.waiting).extract(|_| true, |query| done.tell(query, Err(failure)));
    }

    /// Refuses what waits, as the circuit is open.
    pub(super) fn refuse_waiting(&mut self) {
        let (done, circuit) = (&mut self.done, &self.circuit);
        (self.waiting).extract(
            |query| circuit.refuses_all(query.call.number()),
            |query| done.tell(query, Err(Cause::LeftAlone.at(None))),
        );
    }
}
