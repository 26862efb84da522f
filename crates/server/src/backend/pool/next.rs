//! Which query that waits goes into a pipe next, by what those who ask, and what they ask, may hold
//! (`share.rs`).

use super::super::awaited::Taken;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::pipe::{Loss, Pipe};
use super::share::{most_alone, most_of};
use super::statements::Statements;
use super::waiting::Waiting;
use rhythm_engine::program::Call;
use rhythm_net::{Port, Time};
use std::cell::Cell;
use std::rc::Rc;

/// How many pipes belong to one who asks.
fn held<W: Wire>(pipes: &[Pipe<W>], asker: u64) -> usize {
    let owners = pipes.iter().filter_map(Pipe::owner);
    owners.filter(|owner| *owner == asker).count()
}

/// Whether a pipe is held by a slow query.
fn is_slow<W: Wire>(pipe: &Pipe<W>, statements: &Statements, now: Time) -> bool {
    let oldest = pipe.awaited.wanted().next();
    let owed = pipe.owed().map_or(now, |(_, since)| since);
    oldest.is_some_and(|sent| statements.takes_long(Rc::as_ptr(&sent.query.call), now.since(owed)))
}

/// How many pipes are held by queries of a call that cannot be sent again: none is taken back.
fn held_alone<W: Wire>(pipes: &[Pipe<W>], call: *const Call) -> usize {
    let oldest = pipes.iter().filter_map(|pipe| pipe.awaited.wanted().next());
    let of_it = |query: &&Taken| query.is_alone && Rc::as_ptr(&query.call) == call;
    oldest.map(|sent| &sent.query).filter(of_it).count()
}

/// What slow queries hold.
#[derive(Clone, Copy, Default)]
struct HeldLong {
    /// How many of those who ask hold pipes by them: who holds several is bounded by himself.
    askers: usize,
    pipes: usize,
}

impl HeldLong {
    /// Whether it is no more than their part of so many pipes. They leave one, whoever waits: what
    /// is not to be sent again may turn out to be slow, too.
    fn fits(self, all: usize, others_wait: bool) -> bool {
        self.askers <= most_of(all, others_wait) && self.pipes <= most_of(all, false)
    }

    /// With one more.
    fn and_one(self) -> HeldLong {
        HeldLong {
            askers: self.askers + 1,
            pipes: self.pipes + 1,
        }
    }
}

/// What slow queries hold. Where one alone asks them, it is his doing and not the calls', and
/// counts as nothing, unless these are slow.
fn held_long<W: Wire>(pipes: &[Pipe<W>], statements: &Statements, now: Time) -> HeldLong {
    let mut any_call = false;
    let mut askers = Vec::new();
    for pipe in pipes.iter().filter(|pipe| is_slow(pipe, statements, now)) {
        if let Some(sent) = pipe.awaited.wanted().next() {
            any_call |= statements.is_slow(Rc::as_ptr(&sent.query.call));
            askers.push(sent.query.asker);
        }
    }
    let pipes = askers.len();
    askers.sort_unstable();
    askers.dedup();
    match askers.len() {
        1 if !any_call => HeldLong::default(),
        askers => HeldLong { askers, pipes },
    }
}

/// Whether queries of a call take long now: it is slow, or one of them is.
pub(super) fn is_suspect<W: Wire>(
    pipes: &[Pipe<W>],
    call: *const Call,
    statements: &Statements,
    now: Time,
) -> bool {
    let is_of_it = |pipe: &Pipe<W>| {
        let oldest = pipe.awaited.wanted().next();
        oldest.is_some_and(|sent| Rc::as_ptr(&sent.query.call) == call)
    };
    let mut slow = pipes.iter().filter(|pipe| is_slow(pipe, statements, now));
    statements.is_slow(call) || slow.any(is_of_it)
}

/// Whether queries wait of other calls than this one, that are not slow.
fn others_wait(waiting: &Waiting, call: &Rc<Call>, statements: &Statements) -> bool {
    let is_other = |of| of != Rc::as_ptr(call) && !statements.is_slow(of);
    waiting.of_calls().any(|(of, _)| is_other(of))
}

/// Finds this once for a call: of many that wait one behind the other most are of one.
fn remembered(find: impl Fn(&Waiting, &Rc<Call>) -> bool) -> impl Fn(&Waiting, &Rc<Call>) -> bool {
    let known = Cell::new((std::ptr::null(), false));
    move |waiting, call| {
        let (of, mut found) = known.get();
        if of != Rc::as_ptr(call) {
            found = find(waiting, call);
            known.set((Rc::as_ptr(call), found));
        }
        found
    }
}

impl<W: Wire> ConnectionPool<W> {
    /// Whether slow queries may come to hold too much: some hold connections, or wait.
    pub(super) fn has_slow(&mut self, now: Time) -> bool {
        if !W::IN_ORDER {
            return false;
        }
        self.statements.look(now);
        let statements = &self.statements;
        let waits = |(call, _)| statements.is_slow(call);
        let holds = |pipe: &Pipe<W>| is_slow(pipe, statements, now);
        self.waiting.of_calls().any(waits) || self.pipes.iter().any(holds)
    }

    /// The next query for a pipe that has room, if one waits that may go into it. `has_slow`: see
    /// there.
    pub(super) fn next_for(&mut self, at: usize, has_slow: bool, now: Time) -> Option<Taken> {
        let ConnectionPool {
            waiting,
            pipes,
            options,
            statements,
            ..
        } = self;
        let all = options.connections_max.max(1);
        let is_bounded = |connections: usize| W::IN_ORDER && pipes.len() >= connections;
        let by_asker = is_bounded(options.share.connections_max(all, true));
        let by_call = has_slow && is_bounded(most_of(all, true));
        let by_alone = is_bounded(most_alone(all));
        let oldest = pipes[at].awaited.wanted().next();
        let belongs_to = oldest.map(|sent| Rc::as_ptr(&sent.query.call));
        let may_hold = remembered(|waiting, call| {
            !is_suspect(pipes, Rc::as_ptr(call), statements, now)
                || (held_long(pipes, statements, now).and_one())
                    .fits(all, others_wait(waiting, call, statements))
        });
        let may_hold_alone =
            remembered(|_, call| held_alone(pipes, Rc::as_ptr(call)) < most_alone(all));
        let may_go = |waiting: &Waiting, query: &Taken| {
            let asker = query.asker;
            let is_its_own = belongs_to == Some(Rc::as_ptr(&query.call));
            (!by_call || is_its_own || may_hold(waiting, &query.call))
                && (!(by_alone && query.is_alone) || may_hold_alone(waiting, &query.call))
                && (!by_asker || pipes[at].owner() == Some(asker) || {
                    let others_wait = waiting.has_others(asker);
                    let most = match query.is_alone {
                        true => options.share.connections_max_alone(all, others_wait),
                        false => options.share.connections_max(all, others_wait),
                    };
                    held(pipes, asker) < most
                })
        };
        match pipes[at].awaited.len() {
            0 => waiting.pop(may_go),
            _ => waiting.pop_shared(may_go),
        }
    }

    /// Takes a pipe back from slow queries that hold more than their part while others wait, where
    /// they can be sent again: few who ask may hold many. Whether there was one.
    pub(super) fn take_back(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let all = self.options.connections_max.max(1);
        let (pipes, statements) = (&self.pipes, &self.statements);
        let slow = pipes.iter().filter(|pipe| is_slow(pipe, statements, now));
        let slow = slow.count();
        if held_long(pipes, statements, now).fits(all, true) && slow <= most_of(all, false) {
            return false;
        }
        let find = |retries_max: u32| {
            pipes.iter().position(|pipe| {
                let oldest = pipe.awaited.wanted().next();
                let mut all = pipe.awaited.wanted().map(|sent| &sent.query);
                oldest.is_some_and(|sent| {
                    others_wait(&self.waiting, &sent.query.call, statements)
                        && all.all(|query| query.call.idempotent && query.retries < retries_max)
                        && is_slow(pipe, statements, now)
                })
            })
        };
        // Where they hold all, one is sent again however often it was. That does not go on: its
        // call is known to be slow then, and waits for its part.
        let at = find(self.options.retries_max).or_else(|| find(u32::MAX).filter(|_| slow >= all));
        let Some(at) = at else {
            return false;
        };
        self.take_from_slow(port, at, now);
        true
    }

    /// Takes a pipe from the slow query that holds it.
    pub(super) fn take_from_slow(&mut self, port: &mut dyn Port, at: usize, now: Time) {
        let oldest = self.pipes[at].awaited.wanted().next();
        if let Some((sent, (_, since))) = oldest.zip(self.pipes[at].owed()) {
            (self.statements).holds_too_much(&sent.query.call, now.since(since), now);
        }
        self.lose(port, at, Loss::Held, now);
    }

    /// When the next query that holds a pipe has taken long.
    pub(super) fn next_slow_at(&self, now: Time) -> Time {
        let at = |pipe: &Pipe<W>| {
            let call = &pipe.awaited.wanted().next()?.query.call;
            let (_, since) = pipe.owed()?;
            let at = since + self.statements.patience(Rc::as_ptr(call));
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
        let oldest = self.pipes[at].awaited.wanted().next();
        let Some(query) = oldest.map(|sent| &sent.query).filter(|_| W::IN_ORDER) else {
            return false;
        };
        let all = self.options.connections_max.max(1);
        let others_wait = others_wait(&self.waiting, &query.call, &self.statements);
        is_slow(&self.pipes[at], &self.statements, now)
            && !held_long(&self.pipes, &self.statements, now).fits(all, others_wait)
    }
}
