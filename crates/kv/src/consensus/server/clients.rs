//! The clients: what each asked, in its order, and what it watches.
//!
//! A client's commands go to the node as they come, as long as they are of one kind; what is of
//! another waits for the answers, as a read shows what was written before it. Nothing is read from
//! who has much unanswered or untaken: an answer that waits behind others keeps its value in
//! memory, so it counts as if it were said. What became of watched keys is told between answers,
//! never within one (`clients/telling.rs`).
//!
//! What waits for room at the node waits no longer than what the node took: then nothing was done,
//! which is said without asking it. So work ends soon that nobody waits for any more, such as that
//! of a crowd that asked for much, and went.

mod backlog;
mod client;
mod telling;

use super::figures::Figures;
use super::watches::Watches;
use crate::consensus::keyspace::Outcome;
use crate::consensus::node::{Answer, PATIENCE, Request, Ticket};
use crate::consensus::text::{COMMAND_MAX, How, Wanted, rules};
use crate::wire::Rules;
use backlog::Backlog;
use client::{Client, UNTAKEN_MAX, Wait, watch};
use rhythm_net::{ConnectionId, ConnectionTable, Flushed, Port, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clients at a time.
pub const CLIENTS_MAX: usize = 1024;
/// Commands that a client may have unanswered.
const UNANSWERED_MAX: usize = 64;
/// Bytes that all clients may hold, of answers and of what is to be asked yet; beyond it those that
/// have not moved for longest are dropped.
const HELD_MAX: usize = 256 << 20;

/// All of them.
#[derive(Debug)]
pub(super) struct Clients {
    table: ConnectionTable<Client>,
    of_ticket: BTreeMap<Ticket, ConnectionId>,
    tickets: Ticket,
    watches: Watches,
    backlog: Backlog,
    rules: Rules,
    /// Those who could go on when the node has room, or in the next turn.
    stalled: Vec<ConnectionId>,
    /// What was asked by those who are gone.
    unwanted: Vec<Ticket>,
    figures: Arc<Figures>,
}

/// What a client needs of its node.
pub(super) trait Asks {
    /// Whether more can be asked.
    fn has_room(&self) -> bool;
    /// The time.
    fn now(&self) -> Time;
    /// Bytes of the value that is likely to be the answer.
    fn length(&self, request: &Request) -> usize;
    /// Asks.
    fn ask(&mut self, ticket: Ticket, request: Request);
    /// What `stats` says.
    fn stats(&mut self) -> String;
}

impl Clients {
    pub(super) fn new(figures: Arc<Figures>) -> Clients {
        Clients {
            table: ConnectionTable::new(),
            of_ticket: BTreeMap::new(),
            tickets: 0,
            watches: Watches::default(),
            backlog: Backlog::default(),
            rules: rules(),
            stalled: Vec::new(),
            unwanted: Vec::new(),
            figures,
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Counts who is there.
    pub(super) fn count(&self) {
        let watches: usize = self.table.iter().map(|(_, one)| one.watches.len()).sum();
        self.figures.clients.set(self.table.len() as u64);
        self.figures.watches.set(watches as u64);
    }

    /// The node is to end: what was taken from clients is answered yet, and then they are closed.
    pub(super) fn leave(&mut self, port: &mut dyn Port, node: &mut dyn Asks) {
        let all: Vec<_> = self.table.iter().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.finished(port, id, node));
    }

    /// One has connected. Beyond as many as may be it takes the place of the one that has not moved
    /// for longest in the midst of a command; where none is, nobody is let in.
    pub(super) fn opened(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if self.table.len() >= CLIENTS_MAX {
            let amid = self.table.iter().filter(|(_, one)| one.is_amid_command());
            let longest = amid.min_by_key(|(_, client)| client.moved);
            let Some(longest) = longest.map(|(id, _)| id) else {
                self.figures.turned_away.add(1);
                return port.abort(id);
            };
            self.figures.gave_way.add(1);
            self.drop_client(port, longest);
        }
        let client = Client {
            moved: now,
            ..Client::default()
        };
        self.table.insert(id, client);
    }

    pub(super) fn received(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        bytes: &[u8],
        node: &mut dyn Asks,
    ) {
        let Some(client) = self.table.get_mut(id) else {
            return;
        };
        client.moved = node.now();
        if !client.input.append(bytes, COMMAND_MAX) {
            return self.drop_client(port, id);
        }
        self.go_on(port, id, node);
    }

    pub(super) fn finished(&mut self, port: &mut dyn Port, id: ConnectionId, node: &mut dyn Asks) {
        if let Some(client) = self.table.get_mut(id) {
            client.is_closing = true;
            self.go_on(port, id, node);
        }
    }

    pub(super) fn gone(&mut self, id: ConnectionId) {
        if let Some(client) = self.table.remove(id) {
            for Wait { ticket, .. } in client.waits {
                if self.of_ticket.remove(&ticket).is_some() {
                    self.unwanted.push(ticket);
                }
            }
            for (prefix, _) in client.watches {
                self.watches.end(&prefix, id);
            }
        }
    }

    /// What the node was asked by those who have gone since this was last asked.
    pub(super) fn take_unwanted(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.unwanted)
    }

    fn drop_client(&mut self, port: &mut dyn Port, id: ConnectionId) {
        port.abort(id);
        self.gone(id);
    }

    /// The node answers, if there is still who asked.
    pub(super) fn answered(
        &mut self,
        port: &mut dyn Port,
        ticket: Ticket,
        answer: Answer,
        node: &mut dyn Asks,
    ) {
        match answer {
            Answer::NothingDone => self.figures.nothing_done.add(1),
            Answer::PerhapsDone => self.figures.perhaps_done.add(1),
            Answer::DiskFull => self.figures.disk_full.add(1),
            Answer::Done(_) | Answer::Item(_) | Answer::Revision(_) => {}
        }
        let Some(id) = self.of_ticket.remove(&ticket) else {
            return;
        };
        let Some(client) = self.table.get_mut(id) else {
            return;
        };
        let mut waits = client.waits.iter_mut();
        if let Some(wait) = waits.find(|wait| wait.ticket == ticket) {
            let bytes = match &answer {
                Answer::Item(Some(item)) => item.value.len(),
                _ => 0,
            };
            client.awaited = client.awaited - wait.bytes + bytes;
            let answer = match (&wait.how, answer) {
                // It begins here: the client may take its time to be told so.
                (How::Watch(prefix), Answer::Revision(revision))
                    if !watch(&mut client.watches, &mut self.watches, id, prefix, revision) =>
                {
                    Answer::Done(Outcome::Full)
                }
                (_, answer) => answer,
            };
            (wait.bytes, wait.answer) = (bytes, Some(answer));
        }
        if client.is_answered() {
            self.go_on(port, id, node);
        }
    }

    /// Where all clients hold too much, drops those that have not moved for longest.
    pub(super) fn relieve(&mut self, port: &mut dyn Port) {
        let mut held: usize = self.table.iter().map(|(_, client)| client.holds()).sum();
        let mut dropped = 0;
        while held > HELD_MAX {
            let holding = self.table.iter().filter(|(_, client)| client.holds() > 0);
            let Some((id, client)) = holding.min_by_key(|(_, client)| client.moved) else {
                break;
            };
            held -= client.holds();
            dropped += 1;
            self.drop_client(port, id);
        }
        if dropped > 0 {
            self.figures.gave_way.add(dropped);
            tracing::warn!(
                clients = dropped,
                "slow clients were dropped: all held too much"
            );
        }
    }

    /// There were changes of which nothing is known: who watches begins anew. How many do.
    pub(super) fn skipped(&mut self, port: &mut dyn Port) -> u64 {
        let watch = self
            .table
            .iter()
            .filter(|(_, client)| !client.watches.is_empty());
        let watch: Vec<_> = watch.map(|(id, _)| id).collect();
        watch.iter().for_each(|id| self.drop_client(port, *id));
        watch.len() as u64
    }

    pub(super) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, node: &mut dyn Asks) {
        let Some(client) = self.table.get_mut(id) else {
            return;
        };
        client.moved = node.now();
        match client.out.writable(port, id) {
            Flushed::Gone => self.gone(id),
            Flushed::All | Flushed::Some => self.go_on(port, id, node),
        }
    }

    /// Goes on with those who waited for room, or for their turn.
    pub(super) fn resume(&mut self, port: &mut dyn Port, node: &mut dyn Asks) {
        for id in std::mem::take(&mut self.stalled) {
            if let Some(client) = self.table.get_mut(id) {
                client.is_listed = false;
                self.go_on(port, id, node);
            }
        }
    }

    /// Says what is answered, asks what can be asked, and reads on, or not.
    fn go_on(&mut self, port: &mut dyn Port, id: ConnectionId, node: &mut dyn Asks) {
        while self.step(port, id, node) {}
    }

    /// As [`Clients::go_on`]; whether there is something to be said again.
    fn step(&mut self, port: &mut dyn Port, id: ConnectionId, node: &mut dyn Asks) -> bool {
        let Some(client) = self.table.get_mut(id) else {
            return false;
        };
        let (backlog, mut said) = (&mut self.backlog, Vec::new());
        // What is taken at once makes room for more.
        while client.out.is_empty() && client.has_to_say(backlog) {
            said.clear();
            client.say(backlog, &mut said);
            if client.out.send(port, id, &said) == Flushed::Gone {
                self.gone(id);
                return false;
            }
        }
        said.clear();
        let mut is_cut = false;
        while client.out.unsent() + said.len() + client.awaited < UNTAKEN_MAX
            && client.waits.len() < UNANSWERED_MAX
        {
            // What follows may mean another thing when it is answered: a lease begins.
            let is_alone = !client.waits.is_empty() && client.kind.is_none();
            if is_alone {
                break;
            }
            if client.asked.is_empty() && !client.parse(&self.rules) {
                client.stalled = None;
                is_cut = true;
                break;
            }
            if node.has_room() {
                client.stalled = None;
            }
            let waited = client.stalled.map(|since| node.now().since(since));
            let is_late = waited.is_some_and(|waited| waited >= PATIENCE);
            if !is_late && !node.has_room() {
                client.stalled.get_or_insert(node.now());
                if !std::mem::replace(&mut client.is_listed, true) {
                    self.stalled.push(id);
                }
                break;
            }
            let may_go = |asked: &Wanted| match asked {
                Wanted::Node(..) => client.waits.is_empty() || asked.kind() == client.kind,
                _ => client.waits.is_empty(),
            };
            if !client.asked.front().is_some_and(may_go) {
                break;
            }
            match client.asked.pop_front() {
                Some(asked @ Wanted::Node(..)) => {
                    client.kind = asked.kind();
                    if let Wanted::Node(request, how) = asked {
                        self.tickets += 1;
                        if is_late {
                            self.figures.nothing_done.add(1);
                            client.waits.push_back(Wait {
                                ticket: self.tickets,
                                how,
                                bytes: 0,
                                answer: Some(Answer::NothingDone),
                            });
                            continue;
                        }
                        self.of_ticket.insert(self.tickets, id);
                        let bytes = node.length(&request);
                        client.awaited += bytes;
                        client.waits.push_back(Wait {
                            ticket: self.tickets,
                            how,
                            bytes,
                            answer: None,
                        });
                        node.ask(self.tickets, request);
                    }
                }
                Some(Wanted::Say(text)) => said.extend_from_slice(text.as_bytes()),
                Some(Wanted::Packet(bytes)) => said.extend_from_slice(&bytes),
                Some(Wanted::Stats) => said.extend_from_slice(node.stats().as_bytes()),
                Some(Wanted::Detach) => {
                    client.lease = None;
                    said.extend_from_slice(b"DETACHED\r\n");
                }
                Some(Wanted::Close) => client.is_closing = true,
                None => {}
            }
        }
        if client.out.send(port, id, &said) == Flushed::Gone {
            self.gone(id);
            return false;
        }
        // All was taken that there was room for.
        let is_full = said.len() >= UNTAKEN_MAX;
        if client.out.is_empty() && (is_full || client.has_to_say(backlog)) {
            return true;
        }
        if client.out.is_empty()
            && client.is_to_catch_up()
            && !std::mem::replace(&mut client.is_listed, true)
        {
            self.stalled.push(id);
        }
        // What is not whole may grow to a command's length: of what is as long, nothing is read any
        // more, so it stays as it is.
        let is_idle = client.waits.is_empty() && client.asked.is_empty();
        if is_cut && is_idle && client.input.len() >= COMMAND_MAX {
            self.drop_client(port, id);
            return false;
        }
        if client.is_closing && is_idle && client.out.is_empty() {
            port.close(id);
            self.gone(id);
        } else if client.is_closing || client.input.len() >= COMMAND_MAX {
            port.pause(id);
        } else {
            port.resume(id);
        }
        false
    }
}

#[cfg(test)]
mod tests;
