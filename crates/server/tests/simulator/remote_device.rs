//! A device on another machine: the link to it, which needs a port and a clock.
//!
//! ```text
//!    submit --message--> away ----answer came whole----> far executor ---> done
//!                          |                                                ^
//!                          | connection lost, deadline past                 |
//!                          +--> waiting --> local executor -----------------+
//!                                             there is none: failed --------+
//! ```
//!
//! It has one connection, opened when there is something to send and closed when there has been
//! nothing for a while. A work stays here, untouched, until its answer has come whole: what is lost
//! on the way begins anew on this machine. As what travels is only a key and a length
//! (device_server.rs), the far machine's executor is at hand here and runs the stage at the moment
//! at which its columns would have come back.

use crate::device_server::{put_message, take_message};
use rhythm_engine::cohort::LaneError;
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_net::{ConnectionId, Ended, Flushed, Outgoing, Peer, Port, Time};
use rhythm_server::{ConnectionOwner, DeviceLink};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Bounds of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkOptions {
    /// Works under way at most.
    pub(crate) slots: usize,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    /// What is lost is run again on this machine.
    pub(crate) has_local: bool,
}

/// How long a connection is kept that has nothing to do.
const IDLE: Duration = Duration::from_secs(2);
/// Most bytes that stand for a cohort.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// What became of works, for the run to read.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// Answered by the far machine.
    pub(crate) answered: Cell<u64>,
    /// Lost, and given to the local executor.
    pub(crate) again: Cell<u64>,
    /// Lost for good.
    pub(crate) failed: Cell<u64>,
}

fn count(fate: &Cell<u64>) {
    fate.set(fate.get() + 1);
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    is_open: bool,
    /// What the socket has not taken.
    output: Outgoing,
    input: Vec<u8>,
    idle_until: Time,
}

/// See the module's text.
pub(crate) struct RemoteDevice {
    peer: Peer,
    options: LinkOptions,
    connection: Option<Connection>,
    far: Box<dyn Executor>,
    local: Option<Box<dyn Executor>>,
    /// Sent or to be sent, by token, each with its deadline.
    away: BTreeMap<u64, (Time, Work)>,
    /// For the local executor to have a slot.
    waiting: VecDeque<Work>,
    done: Vec<Work>,
    fates: Rc<Fates>,
}

impl RemoteDevice {
    pub(crate) fn new(
        peer: Peer,
        options: LinkOptions,
        far: Box<dyn Executor>,
        local: Box<dyn Executor>,
        fates: Rc<Fates>,
    ) -> RemoteDevice {
        RemoteDevice {
            peer,
            options,
            connection: None,
            far,
            local: options.has_local.then_some(local),
            away: BTreeMap::new(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            fates,
        }
    }

    /// Sends what the socket takes.
    fn flush(&mut self, port: &mut dyn Port) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if connection.is_open && connection.output.flush(port, connection.id) == Flushed::Gone {
            self.connection = None;
            self.lose();
        }
    }

    /// Gives the connection up, and all that was under way on it.
    fn hang_up(&mut self, port: &mut dyn Port) {
        if let Some(connection) = self.connection.take() {
            port.abort(connection.id);
        }
        self.lose();
    }

    /// All that was under way is lost: it begins anew here, or has failed.
    fn lose(&mut self) {
        let lost = std::mem::take(&mut self.away).into_values();
        self.waiting.extend(lost.map(|(_, work)| work));
        self.run_waiting();
    }

    /// Gives the local executor what it has slots for.
    fn run_waiting(&mut self) {
        while let Some(work) = self.waiting.pop_front() {
            let Some(local) = &mut self.local else {
                self.fail(work);
                continue;
            };
            match Executor::submit(local, work) {
                Ok(()) => count(&self.fates.again),
                Err(Refusal::Busy(work)) => return self.waiting.push_front(work),
                Err(Refusal::Lost(work, _)) => self.fail(work),
            }
        }
    }

    fn fail(&mut self, mut work: Work) {
        count(&self.fates.failed);
        for lane in 0..work.cohort.len() {
            work.cohort.fail(lane, LaneError::DeviceFailed);
        }
        work.cohort.queries.clear();
        self.done.push(work);
    }

    /// Takes the answers that have come whole. False: what came is none.
    fn take_answers(&mut self, now: Time) -> bool {
        let Some(connection) = &mut self.connection else {
            return true;
        };
        while let Ok(message) = take_message(&mut connection.input) {
            let Some(key) = message else {
                return true;
            };
            let Some((_, work)) = self.away.remove(&key) else {
                return false;
            };
            connection.idle_until = now + IDLE;
            count(&self.fates.answered);
            let taken = Executor::submit(&mut self.far, work);
            taken.expect("a plain executor has room");
            Executor::poll(&mut self.far, &mut self.done);
        }
        false
    }
}

impl RemoteDevice {
    /// Its connection, if it is this one.
    fn own(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connection.as_mut().filter(|own| own.id == id)
    }
}

impl ConnectionOwner for RemoteDevice {
    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) -> bool {
        let Some(connection) = self.own(id) else {
            return false;
        };
        connection.is_open = true;
        self.flush(port);
        true
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) -> bool {
        let Some(connection) = self.own(id) else {
            return false;
        };
        connection.input.extend_from_slice(bytes);
        if !self.take_answers(now) {
            self.hang_up(port);
        }
        true
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) -> bool {
        if self.own(id).is_none() {
            return false;
        }
        match how {
            Ended::PeerFinished => self.hang_up(port),
            Ended::Failed(_) => {
                self.connection = None;
                self.lose();
            }
        }
        true
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) -> bool {
        let Some(connection) = self.own(id) else {
            return false;
        };
        if connection.output.writable(port, id) == Flushed::Gone {
            self.connection = None;
            self.lose();
        }
        true
    }

    fn wake_at(&self) -> Option<Time> {
        let deadline = self.away.values().map(|(deadline, _)| *deadline).min();
        deadline.or(self.connection.as_ref().map(|own| own.idle_until))
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.wake_at().is_some_and(|at| at <= now) {
            self.hang_up(port);
        }
    }
}

impl DeviceLink for RemoteDevice {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn submit(&mut self, port: &mut dyn Port, work: Work, now: Time) -> Result<(), Refusal> {
        if self.in_flight() >= self.options.slots {
            return Err(Refusal::Busy(work));
        }
        if self.connection.is_none() {
            match port.connect(&self.peer) {
                Ok(id) => {
                    self.connection = Some(Connection {
                        id,
                        is_open: false,
                        output: Outgoing::new(),
                        input: Vec::new(),
                        idle_until: now + IDLE,
                    })
                }
                Err(_) if self.local.is_some() => {
                    self.waiting.push_back(work);
                    self.run_waiting();
                    return Ok(());
                }
                Err(error) => {
                    count(&self.fates.failed);
                    return Err(Refusal::Lost(work, error.to_string()));
                }
            }
        }
        if let Some(connection) = &mut self.connection {
            let length = work.cohort.arena.bytes().len().min(MESSAGE_BYTES_MAX);
            (connection.output).write(|out| put_message(out, work.token, length as u32));
        }
        self.away
            .insert(work.token, (now + self.options.timeout, work));
        self.flush(port);
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        if let Some(local) = &mut self.local {
            Executor::poll(local, &mut self.done);
        }
        self.run_waiting();
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        let local = self.local.as_ref().map_or(0, Executor::in_flight);
        self.away.len() + self.waiting.len() + local + self.done.len()
    }
}
