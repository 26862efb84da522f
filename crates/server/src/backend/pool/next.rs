//! Which query that waits goes into a pipe next, by what those who ask, and what they ask, may hold
//! (`share.rs`, `alone.rs`).

use super::super::asked::CallNumber;
use super::super::awaited::{Sent, Taken};
use super::super::wire::Wire;
use super::ConnectionPool;
use super::alone::{HeldAlone, most};
use super::pipe::{Loss, Pipe};
use super::share::most_of;
use super::statements::Statements;
use super::waiting::{MayGo, Waiting};
use rhythm_net::{Port, Time};
use std::cell::{Cell, LazyCell};

/// How many pipes belong to one who asks.
fn held<W: Wire>(pipes: &[Pipe<W>], asker: u64) -> usize {
    let owners = pipes.iter().filter_map(Pipe::owner);
    owners.filter(|owner| *owner == asker).count()
}

/// What slow queries hold.
#[derive(Default)]
pub(super) struct HeldLong {
    /// Who holds pipes by them, in order, once for each of those.
    owners: Vec<u64>,
    /// How many who ask those are: who holds several is bounded by himself.
    askers: usize,
}

impl HeldLong {
    /// What they hold now. Where one alone asks them, it is his doing and not the calls', and
    /// counts as nothing, unless these are slow by others' queries, too.
    pub(super) fn of<W: Wire>(pipes: &[Pipe<W>], statements: &Statements, now: Time) -> HeldLong {
        let mut any_call = false;
        let mut owners = Vec::new();
        let slow = pipes.iter().filter(|pipe| pipe.is_slow(statements, now));
        for query in slow.filter_map(Pipe::oldest) {
            any_call |= statements.is_slow_for_all(query.call.number());
            owners.push(query.asker);
        }
        owners.sort_unstable();
        match owners.chunk_by(|one, next| one == next).count() {
            1 if !any_call => HeldLong::default(),
            askers => HeldLong { owners, askers },
        }
    }

    fn pipes(&self) -> usize {
        self.owners.len()
    }

    /// How many pipes are held by this one's.
    pub(super) fn of_one(&self, asker: u64) -> usize {
        let owners = &self.owners[self.owners.partition_point(|owner| *owner < asker)..];
        owners.partition_point(|owner| *owner == asker)
    }

    /// Whether it is no more than their part of so many pipes. They leave one, whoever waits.
    fn fits(&self, all: usize, others_wait: bool) -> bool {
        self.askers <= most_of(all, others_wait) && self.pipes() <= most_of(all, false)
    }

    /// Whether one more of this asker fits. For who holds none there is one more place: few whose
    /// queries hang do not hold up all others who ask the same.
    fn leaves_one_to(&self, asker: u64, all: usize, others_wait: bool) -> MayGo {
        let pipes = self.pipes() + 1;
        if self.askers >= most_of(all, others_wait) || pipes > most(all, 1) {
            MayGo::NotOfIt
        } else if self.of_one(asker) == 0 || pipes <= most_of(all, false) && pipes < most(all, 1) {
            MayGo::Yes
        } else {
            MayGo::NotOfHim
        }
    }
}

/// Calls of which queries take long now.
pub(super) struct Suspects<'a> {
    statements: &'a Statements,
    /// Those of which one holds a pipe.
    hold: Vec<CallNumber>,
}

impl<'a> Suspects<'a> {
    pub(super) fn of<W: Wire>(
        pipes: &[Pipe<W>],
        statements: &'a Statements,
        now: Time,
    ) -> Suspects<'a> {
        let slow = pipes.iter().filter(|pipe| pipe.is_slow(statements, now));
        let oldest = slow.filter_map(Pipe::oldest);
        Suspects {
            statements,
            hold: oldest.map(|query| query.call.number()).collect(),
        }
    }

    /// Whether this is one: it is slow, or a query of it is.
    pub(super) fn contain(&self, call: CallNumber) -> bool {
        self.statements.is_slow(call) || self.hold.contains(&call)
    }
}

/// Whether queries wait of other calls than this one, none of which takes long: else two calls that
/// hang for few would each wait until the other does not. What may not go because of whom it is of
/// does not count: he waits for himself.
fn others_wait(
    waiting: &Waiting,
    call: CallNumber,
    suspects: &Suspects<'_>,
    held_alone: &HeldAlone,
) -> bool {
    let is_other = |of| of != call && !suspects.contain(of);
    let waits_for_himself = |query: &Taken| query.is_alone && held_alone.is_of(query.asker);
    // Mostly there are none, of few calls.
    waiting.of_calls().any(|(of, _)| is_other(of))
        && [false, true].into_iter().any(|is_alone| {
            let mut queries = waiting.next_of_lines(is_alone, is_other);
            queries.any(|query| !waits_for_himself(query))
        })
}

/// Finds this once for a call: of many that wait one behind the other most are of one.
fn remembered(
    find: impl Fn(&Waiting, CallNumber) -> bool,
) -> impl Fn(&Waiting, CallNumber) -> bool {
    let known = Cell::new(None);
    move |waiting, call| match known.get() {
        Some((of, found)) if of == call => found,
        _ => {
            let found = find(waiting, call);
            known.set(Some((call, found)));
            found
        }
    }
}

impl<W: Wire> ConnectionPool<W> {
    /// Whether slow queries may come to hold too much: some hold connections, or wait.
    pub(super) fn has_slow(&mut self, now: Time) -> bool {
        if !W::IN_ORDER {
            return false;
        }
        let hang: Vec<CallNumber> = (self.pipes.iter())
            .filter(|pipe| pipe.has_taken_long(&self.statements, now))
            .filter_map(|pipe| Some(pipe.oldest()?.call.number()))
            .collect();
        self.statements.look(&hang, now);
        let statements = &self.statements;
        let waits = |(call, _)| statements.is_slow(call);
        let holds = |pipe: &Pipe<W>| pipe.is_slow(statements, now);
        self.waiting.of_calls().any(waits) || self.pipes.iter().any(holds)
    }

    /// The next query for a pipe that has room, if one waits that may go into it. `has_slow`: see
    /// there.
    pub(super) fn next_for(&mut self, at: usize, has_slow: bool, now: Time) -> Option<Taken> {
        let is_empty = self.pipes[at].awaited.len() == 0;
        self.with_may_go(Some(at), has_slow, now, |waiting, may_go| match is_empty {
            true => waiting.pop(may_go),
            false => waiting.pop_shared(may_go),
        })
    }

    /// Whether a query waits that may go into a pipe without others.
    pub(super) fn any_may_go(&mut self, has_slow: bool, now: Time) -> bool {
        self.with_may_go(None, has_slow, now, |waiting, may_go| {
            waiting.has_next(may_go)
        })
    }

    /// Does something with what waits and whether it may go: into this pipe, or into one without
    /// others. `has_slow`: see there.
    fn with_may_go<T>(
        &mut self,
        pipe: Option<usize>,
        has_slow: bool,
        now: Time,
        then: impl FnOnce(&mut Waiting, &dyn Fn(&Waiting, &Taken) -> MayGo) -> T,
    ) -> T {
        let ConnectionPool {
            waiting,
            pipes,
            options,
            statements,
            ..
        } = self;
        let (pipes, statements) = (&pipes[..], &*statements);
        let (all, share) = (options.connections_max.max(1), &options.share);
        let is_bounded = |connections: usize| W::IN_ORDER && pipes.len() >= connections;
        let by_asker = is_bounded(share.connections_max(all, true));
        let by_call = has_slow && is_bounded(most_of(all, true));
        let first = pipe.and_then(|at| pipes[at].oldest());
        let held_alone = LazyCell::new(|| HeldAlone::of(pipes, statements, now));
        let held_long = LazyCell::new(|| HeldLong::of(pipes, statements, now));
        let suspects = LazyCell::new(|| Suspects::of(pipes, statements, now));
        let others_wait =
            remembered(|waiting, call| others_wait(waiting, call, &suspects, &held_alone));
        let is_doubtful = remembered(|_, call| {
            let is_of_it = |query: &Taken| query.is_alone && query.call.number() == call;
            let is_first = || {
                let mut held = pipes.iter().filter_map(Pipe::oldest);
                statements.is_new(call) && !held.any(is_of_it)
            };
            !(statements.was_answered(call) || is_first())
        });
        let may_go = |waiting: &Waiting, query: &Taken| {
            let (asker, call) = (query.asker, query.call.number());
            let is_its_own = first.is_some_and(|first| first.call.number() == call);
            let is_his_own = first.is_some_and(|first| first.asker == asker);
            if by_call && !is_its_own && suspects.contain(call) {
                match held_long.leaves_one_to(asker, all, others_wait(waiting, call)) {
                    MayGo::Yes => {}
                    not => return not,
                }
            }
            if W::IN_ORDER && query.is_alone {
                let is_doubtful = suspects.contain(call) || is_doubtful(waiting, call);
                match held_alone.leaves_enough(all, asker, is_doubtful, share) {
                    MayGo::Yes => {}
                    not => return not,
                }
            }
            let is_within_share = || {
                let most = share.connections_max(all, waiting.has_others(asker));
                held(pipes, asker) < most
            };
            match !by_asker || is_his_own || is_within_share() {
                true => MayGo::Yes,
                false => MayGo::NotOfHim,
            }
        };
        then(waiting, &may_go)
    }

    /// Whether one waits who holds no pipe by slow queries, for the place that these would leave to
    /// him if none of them held several.
    pub(super) fn first_waits(&self, now: Time) -> bool {
        let all = self.options.connections_max.max(1);
        let (waiting, pipes, statements) = (&self.waiting, &self.pipes, &self.statements);
        let held_long = HeldLong::of(pipes, statements, now);
        if held_long.pipes() < most(all, 1) {
            return false;
        }
        let held_alone = HeldAlone::of(pipes, statements, now);
        let suspects = Suspects::of(pipes, statements, now);
        let others_wait =
            remembered(|waiting, call| others_wait(waiting, call, &suspects, &held_alone));
        let may_be_held = |call| held_long.askers < most_of(all, others_wait(waiting, call));
        let mut queries = waiting.next_of_lines(false, may_be_held);
        queries.any(|query| held_long.of_one(query.asker) == 0)
    }

    /// Whether one waits who holds no pipe by what cannot be sent again, for one of those that
    /// there are for such queries, which hold all of these (`alone.rs`).
    pub(super) fn alone_waits(&self, now: Time) -> bool {
        let all = self.options.connections_max.max(1);
        let held_alone = HeldAlone::of(&self.pipes, &self.statements, now);
        if held_alone.leaves_one(all) {
            return false;
        }
        let suspects = Suspects::of(&self.pipes, &self.statements, now);
        let is_other = |call| !suspects.contain(call);
        let mut queries = self.waiting.next_of_lines(true, is_other);
        queries.any(|query| !held_alone.is_of(query.asker))
    }

    /// Takes a pipe back from slow queries that hold more than their part while others wait, or
    /// from one who holds several while one waits who holds none, where they can be sent again: few
    /// who ask may hold many. Whether there was one.
    pub(super) fn take_back(&mut self, port: &mut dyn Port, now: Time) -> bool {
        if !self.renewals.is_left(now) {
            return false;
        }
        let all = self.options.connections_max.max(1);
        let (pipes, statements) = (&self.pipes, &self.statements);
        let slow = pipes.iter().filter(|pipe| pipe.is_slow(statements, now));
        let slow = slow.count();
        let held_long = HeldLong::of(pipes, statements, now);
        let (first_waits, alone_waits) = (self.first_waits(now), self.alone_waits(now));
        if !first_waits && !alone_waits && held_long.fits(all, true) && slow <= most_of(all, false)
        {
            return false;
        }
        let held_alone = HeldAlone::of(pipes, statements, now);
        let suspects = Suspects::of(pipes, statements, now);
        let others_wait = |call| others_wait(&self.waiting, call, &suspects, &held_alone);
        let may_give = |query: &Taken| {
            first_waits && held_long.of_one(query.asker) > 1 || others_wait(query.call.number())
        };
        // Of who holds most, the one that has taken longest; none that may be answered at once,
        // whatever is known of its call.
        let find = |retries_max: u32| {
            let may_go_again =
                |sent: &Sent| sent.query.call.idempotent && sent.query.retries < retries_max;
            (pipes.iter().enumerate())
                .filter(|(_, pipe)| pipe.has_taken_long(statements, now))
                .filter(|(_, pipe)| pipe.oldest().is_some_and(may_give))
                .filter(|(_, pipe)| pipe.awaited.wanted().all(may_go_again))
                .max_by_key(|(_, pipe)| {
                    let held = pipe.owner().map(|owner| held_long.of_one(owner));
                    (held, pipe.owed().map(|(_, since)| now.since(since)))
                })
                .map(|(at, _)| at)
        };
        // Where they hold all, or all that are for those who ask this, or for what is not sent
        // again, one is sent again however often it was. That does not go on: its call is known to
        // be slow then, and waits for its part.
        let hold_all = first_waits || alone_waits || slow >= all;
        let at = find(self.options.retries_max).or_else(|| find(u32::MAX).filter(|_| hold_all));
        let Some(at) = at else {
            return false;
        };
        self.take_from_slow(port, at, now);
        true
    }

    /// Takes a pipe from the slow query that holds it.
    pub(super) fn take_from_slow(&mut self, port: &mut dyn Port, at: usize, now: Time) {
        let (pipes, statements) = (&self.pipes, &mut self.statements);
        if let Some((query, (_, since))) = pipes[at].oldest().zip(pipes[at].owed()) {
            let (asker, call) = (query.asker, query.call.number());
            let long = pipes
                .iter()
                .filter(|pipe| pipe.has_taken_long(statements, now));
            let mut others = long.filter_map(Pipe::oldest).filter(|of| of.asker != asker);
            let is_of_one = !others.any(|of| of.call.number() == call);
            let of_one = is_of_one.then_some(asker);
            statements.holds_too_much(call, of_one, now.since(since), now);
        }
        self.renew(port, at, now);
    }

    /// Gives a connection up for what holds it.
    pub(super) fn renew(&mut self, port: &mut dyn Port, at: usize, now: Time) {
        self.renewals.take(now);
        self.lose(port, at, Loss::Held, now);
    }

    /// When the next query that holds a pipe has taken long.
    pub(super) fn next_slow_at(&self, now: Time) -> Time {
        let at = |pipe: &Pipe<W>| {
            let call = pipe.oldest()?.call.number();
            let (_, since) = pipe.owed()?;
            let at = since + self.statements.patience(call);
            (at > now).then_some(at)
        };
        let all = self.pipes.iter().filter_map(at);
        all.min().unwrap_or(Time::NEVER)
    }

    /// Whether a pipe belongs to one who holds more than his part: it came behind others and has
    /// its turn now.
    pub(super) fn is_beyond_share(&self, at: usize) -> bool {
        let Some(owner) = self.pipes[at].owner().filter(|_| W::IN_ORDER) else {
            return false;
        };
        let all = self.options.connections_max.max(1);
        let has_others = self.waiting.has_others(owner);
        held(&self.pipes, owner) > self.options.share.connections_max(all, has_others)
    }

    /// Likewise whether it belongs to a slow query, where these hold more than their part.
    pub(super) fn is_slow_beyond_share(&self, at: usize, now: Time) -> bool {
        let Some(query) = self.pipes[at].oldest().filter(|_| W::IN_ORDER) else {
            return false;
        };
        let all = self.options.connections_max.max(1);
        let held_alone = HeldAlone::of(&self.pipes, &self.statements, now);
        let suspects = Suspects::of(&self.pipes, &self.statements, now);
        let call = query.call.number();
        let others_wait = others_wait(&self.waiting, call, &suspects, &held_alone);
        self.pipes[at].is_slow(&self.statements, now)
            && !HeldLong::of(&self.pipes, &self.statements, now).fits(all, others_wait)
    }
}
