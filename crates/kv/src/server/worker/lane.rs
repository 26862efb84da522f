//! A connection's commands are executed and answered, as long as the answers are taken.

use super::super::client::Client;
use super::super::held::Until;
use super::ring::{Ring, Way, flushes};
use super::work::{self, WORK_MAX};
use crate::class::{Class, Counts};
use crate::cohort::{Cohort, PART_COMMANDS, Part as Brought};
use crate::execute::{Then, Turn};
use crate::ring::{Road, Written};
use crate::store::{Large, Store};
use crate::wire::{Command, Commands, Kind, What};
use rhythm_net::{ConnectionId, Flushed, Part, Port, Shared, Time};
use std::sync::Arc;

/// Answers that a connection may leave untaken before its commands wait, in bytes.
pub(super) const UNSENT_MAX: usize = 1 << 20;
/// Answers are sent when so many bytes of one connection's are together.
pub(super) const SEND_BYTES: usize = 256 * 1024;

/// The fewest commands of a connection that are parsed together.
const COMMANDS_MIN: usize = 16;

/// Whether a command is a `stats`, in whichever protocol.
pub(super) fn is_stats(commands: &Commands, at: usize) -> bool {
    match commands.list[at].kind {
        Kind::Stats(_) => true,
        Kind::Binary { index } => commands.binary[index as usize].what == What::Stat,
        _ => false,
    }
}

/// How many commands are parsed where so many were executed, and there are more.
fn more_than(executed: usize) -> usize {
    (2 * executed).clamp(COMMANDS_MIN, PART_COMMANDS)
}

/// A connection whose commands are executed.
pub(super) struct Lane<'a> {
    pub(super) port: &'a mut dyn Port,
    pub(super) id: ConnectionId,
    pub(super) client: &'a mut Client,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) written: u64,
    /// Answers that may stay untaken.
    pub(super) limit: usize,
    /// What its `stats` cost.
    pub(super) of_stats: usize,
    /// The turn's commands.
    pub(super) classes: &'a mut Counts,
    pub(super) ring: Option<&'a mut Ring>,
    pub(super) now: Time,
    /// The turn wrote something for this connection that is to be confirmed, or showed it such.
    pub(super) has_written: bool,
    /// The turn has no room for any of its commands.
    pub(super) is_left: bool,
    /// Commands are left so that others have their turn.
    pub(super) yields: bool,
    /// How many commands were left.
    pub(super) left: usize,
}

impl Lane<'_> {
    /// Executes a connection's part of the cohort, and sends the answers. Whether the connection
    /// is still there.
    pub(super) fn run(
        &mut self,
        cohort: &mut Cohort,
        index: usize,
        store: &Store,
        turn: &mut Turn<'_>,
    ) -> bool {
        self.client.in_cohort = false;
        self.client.is_stalled = false;
        self.client.waits_for_room = false;
        self.out.clear();
        let written_before = turn.written().map_or(0, Written::count);
        let mut writes = written_before;
        self.has_written = false;
        let commands = cohort.part(index).commands.clone();
        let mut closes = false;
        let mut cut = None;
        let before = turn.work();
        for at in commands.clone() {
            let unsent = self.client.unsent();
            let is_full = unsent > 0 && unsent + self.out.len() > self.limit;
            if (is_full || self.client.held.is_full()) && cohort.can_leave(index, at) {
                cut = Some(at);
                break;
            }
            let took = turn.work() - before + self.written as usize + self.of_stats;
            if (self.is_left || took > WORK_MAX) && cohort.can_leave(index, at) {
                self.yields = true;
                cut = Some(at);
                // What was replaced may have been much, too.
                turn.renew();
                break;
            }
            if let Some(range) = self.lacks_room(cohort, index, at) {
                cut = Some(at);
                self.wait_for_room(range);
                break;
            }
            cohort.prepare(at, store, turn);
            let part = cohort.part(index);
            let command = &cohort.commands().list[at];
            let class = Class::of(command.kind, cohort.commands());
            match self.way(cohort, part, command) {
                Way::Here => {}
                Way::There(road) => {
                    if !self.pass_on(road, cohort, index, at) {
                        return false;
                    }
                    continue;
                }
                Way::Behind(road) => {
                    if cohort.can_leave(index, at) {
                        cut = Some(at);
                        break;
                    }
                    if !self.pass_on(road, cohort, index, at) {
                        return false;
                    }
                    continue;
                }
                // It is begun, and not parted: that much more finds room.
                Way::Wait { shows: false, .. } => self.wrote(class),
                Way::HereConfirmed(range) | Way::Wait { range, shows: true } => {
                    self.has_written = true;
                    if let Some(ring) = &mut self.ring {
                        ring.shows(range);
                    }
                }
            }
            self.classes.add(class);
            let hash = cohort.hash_of(at);
            let answered = self.out.len();
            let then = turn.execute(cohort.parsed(part), command, hash, self.out);
            if is_stats(cohort.commands(), at) {
                self.of_stats += work::of_stats(self.out.len() - answered);
            }
            let written = turn.written().map_or(0, Written::count);
            if written > writes {
                writes = written;
                self.wrote(class);
            }
            if let Some((at, long)) = turn.take_long()
                && !self.send_long(at, long)
            {
                return false;
            }
            if then == Then::Close {
                closes = true;
                break;
            }
            if self.out.len() >= SEND_BYTES && !self.send() {
                return false;
            }
            turn.make_way();
        }
        if !self.out.is_empty() && !self.send() {
            return false;
        }
        if turn.written().map_or(0, Written::count) > written_before
            && let Some(ring) = &mut self.ring
        {
            ring.keeps(self.id, &mut self.client.held);
        }
        let part = cohort.part(index);
        let (before, parsed, commands_max) = (part.before, part.parsed, part.commands_max);
        let client = &mut *self.client;
        client.stream = part.stream;
        if closes {
            client.is_closing = true;
        } else if let Some(at) = cut {
            let command = cohort.commands().list[at];
            self.left = commands.end - at;
            if !self.is_left {
                client.commands_max = more_than(at - commands.start);
            }
            let Some(rest) = cohort.leave(index, command.start as usize) else {
                self.port.abort(self.id);
                return false;
            };
            client.input = rest;
            (client.needed, client.or_line) = (0, false);
            client.is_stalled = true;
            client.stream.state = before.state.again(&command);
            // Who it is was said before what was cut, or is still to be said.
            let done = &cohort.commands().list[commands.start..at];
            let has_entered = done
                .iter()
                .any(|done| done.kind == Kind::Auth { accepted: true });
            client.stream.is_stranger = before.is_stranger && !has_entered;
        } else {
            let Some(rest) = cohort.leave(index, parsed.consumed) else {
                self.port.abort(self.id);
                return false;
            };
            (client.needed, client.or_line) = (parsed.needed, parsed.or_line);
            // The bound on commands ended it, and not the want of bytes.
            client.is_stalled = commands.len() >= commands_max && !rest.is_empty();
            self.yields |= client.is_stalled;
            client.commands_max = match client.is_stalled {
                true => more_than(commands.len()),
                false => PART_COMMANDS,
            };
            client.input = rest;
        }
        if client.is_closing || client.has_finished && !client.is_stalled {
            client.is_closing = true;
            self.port.pause(self.id);
            if client.owes_nothing() {
                self.port.close(self.id);
                return false;
            }
        } else if client.is_stalled {
            self.port.pause(self.id);
        } else {
            self.port.resume(self.id);
        }
        true
    }

    /// A command of this class wrote something.
    fn wrote(&mut self, class: Class) {
        if let Some(ring) = &mut self.ring
            && ring.confirms(class)
        {
            self.has_written = true;
            ring.is_to_confirm();
        }
    }

    /// What the answers that are together wait for, if they may not be sent.
    fn until(&mut self) -> Option<Until> {
        let ring = self.ring.as_mut()?;
        if self.has_written {
            return Some(ring.holds(self.id));
        }
        (!self.client.held.is_empty()).then_some(Until::Before)
    }

    /// Passes a command on to who serves the range of its key. Whether the connection is still
    /// there.
    fn pass_on(&mut self, road: Road, cohort: &Cohort, index: usize, at: usize) -> bool {
        if !self.out.is_empty() && !self.send() {
            return false;
        }
        let part = cohort.part(index);
        let kind = cohort.commands().list[at].kind;
        self.classes.add(Class::of(kind, cohort.commands()));
        if let Some(ring) = &mut self.ring {
            let (number, asked, bytes) = ring.forward(self.id, road, cohort, part, at, self.now);
            self.client.held.expect(number, road, asked, bytes);
        }
        if let Kind::Get { is_last: true, .. } = kind {
            self.out.extend_from_slice(b"END\r\n");
        }
        true
    }

    /// Where a command is executed.
    fn way(&self, cohort: &Cohort, part: &Brought, command: &Command) -> Way {
        let Some(ring) = &self.ring else {
            return Way::Here;
        };
        let held = &self.client.held;
        // What is about all keys is in order with what is about any.
        match flushes(command.kind, cohort.parsed(part).commands) {
            true if held.asks() => return Way::Behind(Road::HERE),
            true => return Way::There(Road::HERE),
            false if held.asks_by(Road::HERE) => return Way::Behind(Road::HERE),
            false => {}
        }
        let awaits = self.has_written || held.awaits_release();
        ring.way(cohort, part, command, awaits, |road| held.asks_by(road))
    }

    /// A range without room for what begins here, if there is one: the commands that are not parted
    /// wait for all of their ranges.
    fn lacks_room(&self, cohort: &Cohort, index: usize, at: usize) -> Option<usize> {
        let ring = self.ring.as_ref()?;
        if ring.has_room() || !cohort.can_leave(index, at) {
            return None;
        }
        let part = cohort.part(index);
        let commands = &cohort.commands().list[at..part.commands.end];
        let request = (commands.iter()).take_while(|of| of.start == commands[0].start);
        let mut ways = request.map(|command| self.way(cohort, part, command));
        ways.find_map(|way| match way {
            Way::There(road) => ring.is_crowded(road).then_some(road.range),
            Way::Wait { range, .. } => Some(range),
            _ => None,
        })
    }

    /// Commands wait until the ring takes those of a range.
    fn wait_for_room(&mut self, range: usize) {
        self.client.waits_for_room = true;
        if let Some(ring) = &mut self.ring {
            ring.stalls(self.id, range, self.now);
        }
    }

    /// Sends the answers that are together. Whether the connection is still there.
    fn send(&mut self) -> bool {
        self.written += self.out.len() as u64;
        if let Some(until) = self.until() {
            self.client.held.push(until, self.out, None);
            self.out.clear();
            return true;
        }
        let sent = self.client.out.send(self.port, self.id, self.out);
        self.out.clear();
        sent != Flushed::Gone
    }

    /// Sends the answers that are together, with a long value in its place among them, of which
    /// nothing is copied. Whether the connection is still there.
    fn send_long(&mut self, at: usize, long: Arc<Large>) -> bool {
        self.written += (self.out.len() + long.len()) as u64;
        if let Some(until) = self.until() {
            let (before, behind) = self.out.split_at(at);
            self.client.held.push(until, before, Some(long));
            self.client.held.push(until, behind, None);
            self.out.clear();
            return true;
        }
        let long: Arc<dyn Shared> = long;
        let (before, behind) = self.out.split_at(at);
        let parts = [Part::Lent(before), Part::Kept(&long, 0), Part::Lent(behind)];
        let sent = self.client.out.gather(self.port, self.id, &parts);
        self.out.clear();
        sent != Flushed::Gone
    }
}
