//! A thread of a node: its connections, and the cohorts that it runs for them.
//!
//! ```text
//!   connection --Work--> its queue --its turn--> columns --> executor --> Done --> connection
//! ```
//!
//! Connections take turns, a cohort each, so that many front ends share an executor evenly,
//! whatever each of them sends. One that does not take what it was answered has no turn meanwhile.

use super::connection::{Connection, Queued};
use super::services::{Found, Services, Tell};
use super::{ExecutorFactory, Limits};
use crate::bundle::Compiled;
use crate::link::check_version;
use crate::wire::bytes::Wrong;
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message, PROTOCOL, SMALL_MAX, VERSION};
use crate::wire::{answer, columns};
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_net::sparse::Sparse;
use rhythm_net::{
    Accepted, ConnectionId, ConnectionTable, Ended, Handler, Inbox, Port, Time, Token, Waker,
    Worker,
};
use rhythm_venice::random;
use rhythm_venice::secret::{Prover, Secret};
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a front end has to show that it may be here.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long one may be silent: each asks more often whether the node is there.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// Executors of a thread at most: one for each set of limits that services have.
const EXECUTORS_MAX: usize = 4;

/// What other threads tell it.
#[derive(Debug)]
pub(super) enum Command {
    /// What has become of a service, for a connection that waits for it.
    Compiled(ConnectionId, Digest, Result<Compiled, String>),
}

/// A work that an executor has, by its token there.
struct Running {
    connection: ConnectionId,
    /// The front end's.
    token: u64,
    stage: usize,
}

/// See the module's text.
pub(super) struct NodeWorker {
    limits: Limits,
    key: Option<Secret>,
    services: Arc<Services>,
    factory: ExecutorFactory,
    inbox: Inbox<Command>,
    waker: Waker,
    executors: Vec<(LaneLimits, Box<dyn Executor>)>,
    connections: ConnectionTable<Connection>,
    /// Those that have works, in the order of their turns.
    turns: VecDeque<ConnectionId>,
    running: HashMap<u64, Running>,
    next_token: u64,
    /// There is more to run that was left for the next turn of the loop.
    has_more: bool,
    look_at: Time,
    /// Of lines about what front ends do.
    refused: Sparse,
    done: Vec<Work>,
}

/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Behind which token executors wake the thread.
pub(super) const EXECUTORS: Token = Token(0);

impl NodeWorker {
    pub(super) fn new(
        limits: Limits,
        key: Option<Secret>,
        services: Arc<Services>,
        factory: ExecutorFactory,
        inbox: Inbox<Command>,
        waker: Waker,
    ) -> NodeWorker {
        NodeWorker {
            limits,
            key,
            services,
            factory,
            inbox,
            waker,
            executors: Vec::new(),
            connections: ConnectionTable::new(),
            turns: VecDeque::new(),
            running: HashMap::new(),
            next_token: 0,
            has_more: false,
            look_at: Time::ZERO,
            refused: Sparse::every(Duration::from_secs(10)),
            done: Vec::new(),
        }
    }

    fn refuse(&mut self, why: &str, now: Time) {
        if let Some(left_out) = self.refused.line(now) {
            tracing::warn!(why, left_out, "a connection is refused");
        }
    }

    fn end(&mut self, port: &mut dyn Port, id: ConnectionId) {
        self.connections.remove(id);
        port.abort(id);
    }

    fn flush(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.flush(port, id)
        {
            self.connections.remove(id);
        }
    }

    fn say(&mut self, port: &mut dyn Port, id: ConnectionId, message: Message<'_>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.say(message);
        }
        self.flush(port, id);
    }

    /// Takes all messages that have come whole.
    fn take_messages(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        let mut taken = 0;
        while let Some(connection) = self.connections.get(id) {
            if connection.is_ending {
                return;
            }
            let most = match connection.nonce {
                Some(_) => SMALL_MAX,
                None => MESSAGE_MAX,
            };
            let outcome = match message::take(&input[taken..], most) {
                Ok(None) => break,
                Ok(Some((message, length))) => {
                    taken += length;
                    self.take_message(port, id, message, now)
                }
                Err(wrong) => Err(wrong),
            };
            if let Err(Wrong(why)) = outcome {
                self.refuse(why, now);
                return self.end(port, id);
            }
        }
        input.drain(..taken);
        if input.is_empty() && input.capacity() > SMALL_MAX {
            input = Vec::new();
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.input = input;
        }
    }

    fn take_message(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        message: Message<'_>,
        now: Time,
    ) -> Result<(), Wrong> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        connection.deadline = now + SILENT_MAX;
        if let Some(nonce) = connection.nonce {
            return self.take_hello(port, id, nonce, message, now);
        }
        match message {
            Message::Ping => self.say(port, id, Message::Pong),
            Message::Offer { digest } => {
                let tell = self.tell(id, digest);
                match self.services.find(&digest, tell) {
                    Found::Kept(compiled) => self.compiled(port, id, digest, Ok(compiled)),
                    Found::Pending => {}
                    Found::Unknown => self.say(port, id, Message::Send { digest }),
                }
            }
            Message::Sources { bytes } => {
                let digest: Digest = Sha256::digest(bytes).into();
                let tell = self.tell(id, digest);
                if !self.services.compile(digest, bytes.to_vec(), tell) {
                    let why = "too many services wait to be compiled there".to_owned();
                    self.compiled(port, id, digest, Err(why));
                }
            }
            Message::Work {
                token,
                digest,
                cohort,
            } => return self.take_work(port, id, token, digest, cohort),
            _ => return Err(Wrong("a front end says what only a node says")),
        }
        Ok(())
    }

    fn take_hello(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        nonce: [u8; 32],
        message: Message<'_>,
        now: Time,
    ) -> Result<(), Wrong> {
        let Message::Hello {
            protocol,
            version,
            nonce: theirs,
            proof,
        } = message
        else {
            return Err(Wrong("a front end does not say hello"));
        };
        let mut checked = check_version(protocol, version);
        if let (Ok(()), Some(key)) = (&checked, &self.key)
            && !key.is_proven(Prover::FrontEnd, &[&nonce, &theirs], &proof)
        {
            checked = Err("the front end does not have this node's key".to_owned());
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        match checked {
            Ok(()) => {
                connection.nonce = None;
                let proof = match &self.key {
                    Some(key) => key.prove(Prover::Device, &[&theirs, &nonce]),
                    None => [0; 32],
                };
                self.say(port, id, Message::Welcome { proof });
            }
            Err(why) => {
                connection.is_ending = true;
                self.say(port, id, Message::Refused { why: &why });
                self.refuse(&why, now);
            }
        }
        Ok(())
    }

    /// What tells this thread what has become of a service.
    fn tell(&self, id: ConnectionId, digest: Digest) -> Tell {
        let inbox = self.inbox.clone();
        Box::new(move |compiled| inbox.send(Command::Compiled(id, digest, compiled)))
    }

    /// Tells a front end what has become of its service.
    fn compiled(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        digest: Digest,
        compiled: Result<Compiled, String>,
    ) {
        let fit = compiled.and_then(|compiled| {
            self.executor(&compiled)?;
            Ok(compiled.programs)
        });
        match fit {
            Ok(programs) => self.say(port, id, Message::Ready { digest, programs }),
            Err(why) => {
                tracing::warn!(why, "a service is not taken");
                self.say(port, id, Message::Unfit { digest, why: &why });
            }
        }
    }

    /// The executor for stages of a service.
    fn executor(&mut self, compiled: &Compiled) -> Result<usize, String> {
        let limits = compiled.limits;
        if let Some(index) = self.executors.iter().position(|(own, _)| *own == limits) {
            return Ok(index);
        }
        if self.executors.len() >= EXECUTORS_MAX {
            let used = self.services.limits();
            // One that runs something is not taken away.
            (self.executors)
                .retain(|(own, executor)| used.contains(own) || executor.in_flight() > 0);
        }
        if self.executors.len() >= EXECUTORS_MAX {
            return Err(format!(
                "there are {EXECUTORS_MAX} other sets of [limits] under way there already"
            ));
        }
        let executor = (self.factory)(limits, self.waker.clone())?;
        self.executors.push((limits, executor));
        Ok(self.executors.len() - 1)
    }

    fn take_work(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        token: u64,
        digest: Digest,
        cohort: &[u8],
    ) -> Result<(), Wrong> {
        let held: usize = self.connections.iter().map(|(_, it)| it.held()).sum();
        let has_room = held + cohort.len() <= self.limits.held_max;
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        if connection.under_way >= self.limits.in_flight {
            return Err(Wrong(
                "a front end sends more cohorts at a time than it may",
            ));
        }
        if !has_room {
            let is_unknown = false;
            self.say(port, id, Message::Declined { token, is_unknown });
            return Ok(());
        }
        connection.under_way += 1;
        if connection.queue.is_empty() {
            self.turns.push_back(id);
        }
        let bytes = cohort.to_vec();
        let queued = Queued {
            token,
            digest,
            bytes,
        };
        connection.queue.push_back(queued);
        self.has_more = true;
        Ok(())
    }

    /// Runs the next work of who has its turn. False: there is none, or no room for it.
    fn run_next(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let ready = |id: &ConnectionId| {
            let connection = self.connections.get(*id);
            connection.is_none_or(Connection::has_taken_all)
        };
        let Some(at) = self.turns.iter().position(ready) else {
            return false;
        };
        let Some(id) = self.turns.remove(at) else {
            return false;
        };
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
        let index = match self.executor(&compiled) {
            Ok(index) => index,
            Err(_) => {
                self.again_in_turn(id);
                self.decline(port, id, queued.token, false);
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
        match self.executors[index].1.submit(work) {
            Ok(()) => {
                self.next_token += 1;
                let running = Running {
                    connection: id,
                    token: queued.token,
                    stage,
                };
                self.running.insert(token, running);
                self.again_in_turn(id);
                self.collect(port);
                true
            }
            Err(Refusal::Busy(_)) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.queue.push_front(queued);
                }
                self.turns.push_front(id);
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
    fn again_in_turn(&mut self, id: ConnectionId) {
        let connection = self.connections.get(id);
        if connection.is_some_and(|connection| !connection.queue.is_empty()) {
            self.turns.push_back(id);
        }
    }

    fn decline(&mut self, port: &mut dyn Port, id: ConnectionId, token: u64, is_unknown: bool) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.under_way -= 1;
        }
        self.say(port, id, Message::Declined { token, is_unknown });
    }

    /// Answers what executors have run.
    fn collect(&mut self, port: &mut dyn Port) {
        let mut done = std::mem::take(&mut self.done);
        for (_, executor) in &mut self.executors {
            executor.poll(&mut done);
        }
        for work in done.drain(..) {
            let Some(running) = self.running.remove(&work.token) else {
                continue;
            };
            let (id, token) = (running.connection, running.token);
            let Some(connection) = self.connections.get_mut(id) else {
                continue;
            };
            let mut bytes = Vec::new();
            let put = |to: &mut Vec<u8>| answer::put(work.program(), &work.cohort, to);
            let is_whole = answer::is_whole(&work.cohort, running.stage)
                && message::put_done(token, &mut bytes, put);
            if is_whole {
                connection.under_way -= 1;
                connection.say_bytes(bytes);
                self.flush(port, id);
            } else {
                // It has more room where it comes from.
                self.decline(port, id, token, false);
            }
        }
        self.done = done;
    }
}

impl Handler for NodeWorker {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        let (id, nonce) = (accepted.connection, random::numbers());
        let connection = Connection::new(nonce, now + HELLO_WITHIN);
        self.connections.insert(id, connection);
        let greeting = Message::Greeting {
            protocol: PROTOCOL,
            version: VERSION,
            nonce,
            has_key: self.key.is_some(),
            in_flight: u16::try_from(self.limits.in_flight).unwrap_or(u16::MAX),
        };
        self.say(port, id, greeting);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.input.extend_from_slice(bytes);
        self.take_messages(port, id, now);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        self.connections.remove(id);
        if how == Ended::PeerFinished {
            port.close(id);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        if let Some(connection) = self.connections.get_mut(id) {
            if !connection.writable(port, id) {
                self.connections.remove(id);
            }
            self.has_more = true;
        }
    }

    fn notified(&mut self, port: &mut dyn Port, _: Token, _: Time) {
        self.collect(port);
        self.has_more = true;
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.look_at > now {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let late = self.connections.iter().filter(|(_, it)| it.deadline <= now);
        let late: Vec<ConnectionId> = late.map(|(id, _)| id).collect();
        for id in late {
            self.end(port, id);
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        // One at a time: between two, the loop looks what has come.
        self.has_more = !self.turns.is_empty() && self.run_next(port, now);
    }

    fn wake_at(&self) -> Option<Time> {
        match self.has_more {
            true => Some(Time::ZERO),
            false => Some(self.look_at),
        }
    }
}

impl Worker for NodeWorker {
    type Command = Command;

    fn obey(&mut self, port: &mut dyn Port, command: Command, _: Time) {
        let Command::Compiled(id, digest, compiled) = command;
        if self.connections.get(id).is_some() {
            self.compiled(port, id, digest, compiled);
        }
    }
}
