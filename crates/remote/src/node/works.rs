//! Works at a node, and what executors make of them.

use super::connection::Connection;
use super::guard::Guard;
use super::options::{ExecutorFactory, Limits};
use super::services::Services;
use super::turns::{FrontEnd, Turns};
use crate::bundle::Compiled;
use crate::wire::bytes::{Bounded, Wrong};
use crate::wire::message::{self, Digest, Message};
use crate::wire::{columns, outcome};
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_net::sparse::Sparse;
use rhythm_net::{ConnectionId, ConnectionTable, Inbox, Port, Time, Token, Waker};
use rhythm_venice::loan::LoanId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Executors of a thread at most: one for each set of limits that services have.
const EXECUTORS_MAX: usize = 4;

/// What other threads tell it.
#[derive(Debug)]
pub(super) enum Command {
    /// What has become of a service, for a connection that waits for it.
    Compiled(ConnectionId, Digest, Result<Compiled, String>),
    /// A loan is over.
    Over(LoanId),
}

/// A work that an executor has, by its token there.
pub(super) struct Running {
    connection: ConnectionId,
    /// The front end's.
    token: u64,
    stage: usize,
}

/// An executor.
pub(super) struct Made {
    limits: LaneLimits,
    executor: Box<dyn Executor>,
    /// Those who have services of these limits.
    users: Vec<FrontEnd>,
}

/// Since when there was no room, the last time that it was looked for. See memory.rs.
#[derive(Debug, Default)]
pub(super) struct Short {
    pub(super) for_answers: Option<Time>,
    pub(super) for_cohorts: Option<Time>,
}

/// A thread of a node. See worker.rs.
pub(super) struct NodeWorker {
    pub(super) limits: Limits,
    pub(super) guard: Guard,
    pub(super) services: Arc<Services>,
    pub(super) factory: ExecutorFactory,
    pub(super) inbox: Inbox<Command>,
    pub(super) waker: Waker,
    pub(super) executors: Vec<Made>,
    pub(super) connections: ConnectionTable<Connection>,
    /// Those that have works.
    pub(super) turns: Turns,
    pub(super) running: HashMap<u64, Running>,
    pub(super) next_token: u64,
    /// There is more to run that was left for the next turn of the loop.
    pub(super) has_more: bool,
    pub(super) look_at: Time,
    /// Of memory.
    pub(super) short: Short,
    /// Of lines about what front ends do.
    pub(super) refused: Sparse,
    pub(super) done: Vec<Work>,
}

/// Behind which token executors wake the thread.
pub(super) const EXECUTORS: Token = Token(0);

impl NodeWorker {
    pub(super) fn new(
        limits: Limits,
        guard: Guard,
        services: Arc<Services>,
        factory: ExecutorFactory,
        inbox: Inbox<Command>,
        waker: Waker,
    ) -> NodeWorker {
        NodeWorker {
            limits,
            guard,
            services,
            factory,
            inbox,
            waker,
            executors: Vec::new(),
            connections: ConnectionTable::new(),
            turns: Turns::default(),
            running: HashMap::new(),
            next_token: 0,
            has_more: false,
            look_at: Time::ZERO,
            short: Short::default(),
            refused: Sparse::every(Duration::from_secs(10)),
            done: Vec::new(),
        }
    }

    pub(super) fn refuse(&mut self, why: &str, now: Time) {
        if let Some(left_out) = self.refused.line(now) {
            tracing::warn!(why, left_out, "what a front end asks for is refused");
        }
    }

    pub(super) fn end(&mut self, port: &mut dyn Port, id: ConnectionId) {
        self.connections.remove(id);
        port.abort(id);
    }

    pub(super) fn flush(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.flush(port, id)
        {
            self.connections.remove(id);
        }
    }

    pub(super) fn say(&mut self, port: &mut dyn Port, id: ConnectionId, message: Message<'_>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.say(message);
        }
        self.flush(port, id);
    }

    /// A front end hears of a service that it asked about.
    pub(super) fn settled(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.asked = connection.asked.saturating_sub(1);
        }
    }

    /// Whose a connection is.
    pub(super) fn front_end(&self, id: ConnectionId) -> FrontEnd {
        let loan = self.connections.get(id).and_then(|it| it.loan);
        loan.map_or(FrontEnd::Connection(id), FrontEnd::Loan)
    }

    /// The executor for stages of a front end's service.
    pub(super) fn executor(&mut self, of: FrontEnd, compiled: &Compiled) -> Result<usize, String> {
        let limits = compiled.limits;
        let there = self.executors.iter().position(|made| made.limits == limits);
        let index = match there {
            Some(index) => index,
            None => self.make_executor(of, limits)?,
        };
        if !self.executors[index].users.contains(&of) {
            self.forget_users();
            self.executors[index].users.push(of);
        }
        Ok(index)
    }

    /// Makes one of other limits than there are, in place of another where they are many.
    fn make_executor(&mut self, of: FrontEnd, limits: LaneLimits) -> Result<usize, String> {
        if self.executors.len() >= EXECUTORS_MAX {
            self.forget_users();
            let Some(index) = self.spared(of) else {
                return Err(format!(
                    "there are {EXECUTORS_MAX} other sets of [limits] under way there already"
                ));
            };
            self.executors.swap_remove(index);
        }
        let executor = (self.factory)(limits, self.waker.clone())?;
        self.executors.push(Made {
            limits,
            executor,
            users: Vec::new(),
        });
        Ok(self.executors.len() - 1)
    }

    /// Forgets users of executors that are gone.
    fn forget_users(&mut self) {
        let here = self.connections.iter().map(|(id, _)| self.front_end(id));
        let here: Vec<FrontEnd> = here.collect();
        for made in &mut self.executors {
            made.users.retain(|user| here.contains(user));
        }
    }

    /// The executor that makes way for another of this front end's: one that nobody uses, or whose
    /// users have as many left as that has then. One that runs something does not.
    fn spared(&self, of: FrontEnd) -> Option<usize> {
        let count = |of: FrontEnd| {
            let own = self.executors.iter().filter(|it| it.users.contains(&of));
            own.count()
        };
        let fewest = |made: &Made| made.users.iter().map(|user| count(*user)).min();
        let all = self.executors.iter().enumerate();
        let idle = all.filter(|(_, made)| made.executor.in_flight() == 0);
        let (index, most) = idle
            .map(|(index, made)| (index, fewest(made).unwrap_or(usize::MAX)))
            .max_by_key(|(_, fewest)| *fewest)?;
        (most > count(of) + 1).then_some(index)
    }

    /// Runs the next work of who has its turn. False: there is none, or no room for it.
    pub(super) fn run_next(&mut self, port: &mut dyn Port, now: Time) -> bool {
        if !self.has_room_for_answers(port, now) {
            // Nobody has a turn until some of it is taken, or who does not take it is ended.
            return false;
        }
        let is_ready = |id: ConnectionId| {
            let connection = self.connections.get(id);
            connection.is_none_or(Connection::has_taken_all)
        };
        let Some(id) = self.turns.next(is_ready) else {
            return false;
        };
        let of = self.front_end(id);
        let Some(connection) = self.connections.get_mut(id) else {
            return true;
        };
        let Some(queued) = connection.queue.pop_front() else {
            return true;
        };
        let Some(compiled) = self.services.get(&queued.digest) else {
            self.again_in_turn(id);
            self.decline(port, id, queued.token, true);
            return true;
        };
        let index = match self.executor(of, &compiled) {
            Ok(index) => index,
            Err(why) => {
                // It is offered anew, and told when it may be taken.
                self.refuse(&why, now);
                self.again_in_turn(id);
                self.decline(port, id, queued.token, true);
                return true;
            }
        };
        let (page, cohort) = match columns::take(&compiled.service, &queued.bytes) {
            Ok(taken) => taken,
            Err(Wrong(why)) => {
                self.refuse(why, now);
                self.end(port, id);
                return true;
            }
        };
        let token = self.next_token;
        let stage = cohort.stage;
        let work = Work {
            service: compiled.service,
            page,
            cohort,
            token,
        };
        match self.executors[index].executor.submit(work) {
            Ok(()) => {
                self.next_token += 1;
                let running = Running {
                    connection: id,
                    token: queued.token,
                    stage,
                };
                self.running.insert(token, running);
                self.again_in_turn(id);
                self.collect(port, now);
                true
            }
            Err(Refusal::Busy(_)) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.queue.push_front(queued);
                }
                self.turns.push_front(of, id);
                false
            }
            Err(Refusal::Lost(_, why)) => {
                self.refuse(&why, now);
                self.again_in_turn(id);
                self.decline(port, id, queued.token, false);
                true
            }
        }
    }

    /// It has its next turn after all others.
    pub(super) fn again_in_turn(&mut self, id: ConnectionId) {
        let connection = self.connections.get(id);
        if connection.is_some_and(|connection| !connection.queue.is_empty()) {
            let of = self.front_end(id);
            self.turns.push_back(of, id);
        }
    }

    pub(super) fn decline(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        token: u64,
        is_unknown: bool,
    ) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.under_way -= 1;
        }
        self.say(port, id, Message::Declined { token, is_unknown });
    }

    /// Answers what executors have run.
    pub(super) fn collect(&mut self, port: &mut dyn Port, now: Time) {
        let mut done = std::mem::take(&mut self.done);
        for made in &mut self.executors {
            made.executor.poll(&mut done);
        }
        for work in done.drain(..) {
            let Some(running) = self.running.remove(&work.token) else {
                continue;
            };
            let (id, token) = (running.connection, running.token);
            if self.connections.get(id).is_none_or(|it| it.is_ending) {
                continue;
            }
            let mut bytes = Vec::new();
            let put = |to: &mut Bounded<'_>| outcome::put(work.program(), &work.cohort, to);
            let is_whole = outcome::is_whole(&work.cohort, running.stage)
                && message::put_done(token, &mut bytes, put)
                && self.keeps(id, bytes.len());
            let Some(connection) = self.connections.get_mut(id).filter(|_| is_whole) else {
                // It has more room where it comes from.
                self.decline(port, id, token, false);
                continue;
            };
            connection.under_way -= 1;
            connection.answer(bytes, now);
            self.flush(port, id);
        }
        self.done = done;
    }
}
