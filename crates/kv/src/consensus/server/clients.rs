//! The clients: what each asked, in its order, and what it watches.
//!
//! A client's commands go to the node as they come, as long as they are of one kind; what is of
//! another waits for the answers, as a read shows what was written before it. Nothing is read from
//! who has much unanswered or untaken. What became of watched keys is told between answers, never
//! within one.
//!
//! What waits for room at the node waits no longer than what the node took: then nothing was done,
//! which is said without asking it. So work ends soon that nobody waits for any more, such as that
//! of a crowd that asked for much, and went.

use super::figures::Figures;
use crate::consensus::keyspace::{Change, Outcome};
use crate::consensus::node::{Answer, PATIENCE, Request, Ticket};
use crate::consensus::text::{COMMAND_MAX, How, Parser, Wanted, rules};
use crate::input::Input;
use crate::wire::Rules;
use rhythm_net::{ConnectionId, ConnectionTable, Flushed, Outgoing, Port, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Clients at a time.
pub const CLIENTS_MAX: usize = 1024;
/// Commands that a client may have unanswered, and bytes of answers untaken.
const UNANSWERED_MAX: usize = 64;
const UNTAKEN_MAX: usize = 1 << 20;
/// What a client may watch.
const WATCHES_MAX: usize = 16;

/// A client.
#[derive(Debug, Default)]
struct Client {
    input: Input,
    parser: Parser,
    asked: VecDeque<Wanted>,
    /// What the node was asked, and has answered or not.
    waits: VecDeque<(Ticket, How, Option<Answer>)>,
    /// Since when what comes next waits for room at the node.
    stalled: Option<Time>,
    is_listed: bool,
    /// Of those that wait: whether they may change something; none: by itself.
    kind: Option<bool>,
    /// A key of the `get` at hand could not be read.
    in_error: bool,
    lease: Option<u64>,
    /// Prefixes, and the revision behind which changes are told.
    watches: Vec<(Vec<u8>, u64)>,
    /// Some keys of a `get` are said, and not yet all; and what is to be told behind it.
    is_amid: bool,
    told_later: Vec<u8>,
    out: Outgoing,
    /// Nothing more comes, or nothing more is wanted.
    is_closing: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Clients {
    table: ConnectionTable<Client>,
    of_ticket: BTreeMap<Ticket, ConnectionId>,
    tickets: Ticket,
    rules: Rules,
    /// Those who could go on when the node has room.
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

    /// One has connected; beyond as many as may be, nobody is let in.
    pub(super) fn opened(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if self.table.len() >= CLIENTS_MAX {
            self.figures.turned_away.add(1);
            return port.abort(id);
        }
        self.table.insert(id, Client::default());
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
            for (ticket, ..) in client.waits {
                if self.of_ticket.remove(&ticket).is_some() {
                    self.unwanted.push(ticket);
                }
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
        if let Some((.., place)) = waits.find(|(of, ..)| *of == ticket) {
            *place = Some(answer);
        }
        if client.is_answered() {
            self.go_on(port, id, node);
        }
    }

    /// Tells of changes.
    pub(super) fn changed(&mut self, port: &mut dyn Port, changes: &[Change]) {
        let mut gone = Vec::new();
        for (id, client) in self.table.iter_mut() {
            for Change {
                key,
                revision,
                is_deleted,
            } in changes
            {
                let watched =
                    |(prefix, from): &(Vec<u8>, u64)| key.starts_with(prefix) && revision > from;
                if client.watches.iter().any(watched) {
                    let what = if *is_deleted { "delete" } else { "set" };
                    client.told_later.extend_from_slice(b"CHANGED ");
                    client.told_later.extend_from_slice(key);
                    let rest = format!(" {revision} {what}\r\n");
                    client.told_later.extend_from_slice(rest.as_bytes());
                }
            }
            if client.watches.is_empty() {
                continue;
            }
            if !client.is_amid {
                client.out.push(&std::mem::take(&mut client.told_later));
            }
            let is_slow = client.out.unsent() + client.told_later.len() > 2 * UNTAKEN_MAX;
            if is_slow || client.out.flush(port, id) == Flushed::Gone {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.drop_client(port, id));
    }

    /// There were changes of which nothing is known: who watches begins anew.
    pub(super) fn skipped(&mut self, port: &mut dyn Port) {
        let watch = self
            .table
            .iter()
            .filter(|(_, client)| !client.watches.is_empty());
        let watch: Vec<_> = watch.map(|(id, _)| id).collect();
        watch.into_iter().for_each(|id| self.drop_client(port, id));
    }

    pub(super) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, node: &mut dyn Asks) {
        let Some(client) = self.table.get_mut(id) else {
            return;
        };
        match client.out.writable(port, id) {
            Flushed::Gone => self.gone(id),
            Flushed::All | Flushed::Some => self.go_on(port, id, node),
        }
    }

    /// Goes on with those who waited for room.
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
        let mut said = Vec::new();
        // What is taken at once makes room for more.
        while client.out.is_empty() && client.is_answered() {
            said.clear();
            client.say(&mut said);
            if client.out.send(port, id, &said) == Flushed::Gone {
                self.gone(id);
                return false;
            }
        }
        said.clear();
        while client.out.unsent() + said.len() < UNTAKEN_MAX && client.waits.len() < UNANSWERED_MAX
        {
            // What follows may mean another thing when it is answered: a lease begins.
            let is_alone = !client.waits.is_empty() && client.kind.is_none();
            if is_alone || client.asked.is_empty() && !client.parse(&self.rules) {
                break;
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
                        if node.has_room() {
                            client.stalled = None;
                        }
                        if is_late {
                            self.figures.nothing_done.add(1);
                            let answer = Some(Answer::NothingDone);
                            client.waits.push_back((self.tickets, how, answer));
                            continue;
                        }
                        self.of_ticket.insert(self.tickets, id);
                        client.waits.push_back((self.tickets, how, None));
                        node.ask(self.tickets, request);
                    }
                }
                Some(Wanted::Say(text)) => said.extend_from_slice(text.as_bytes()),
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
        if client.is_answered() && client.out.is_empty() {
            return true;
        }
        // What is not whole may grow to a command's length, and there is nothing behind it yet.
        let is_idle = client.waits.is_empty() && client.asked.is_empty();
        let is_too_long = client.input.len() > COMMAND_MAX && is_idle;
        if is_too_long && node.has_room() && client.out.unsent() < UNTAKEN_MAX {
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

impl Client {
    /// Takes the next command from what came. False: there is none.
    fn parse(&mut self, rules: &Rules) -> bool {
        while self.asked.is_empty() {
            let (bytes, lease) = (self.input.rest(), self.lease);
            match (self.parser).next(rules, bytes, lease, &mut self.asked) {
                0 => return false,
                taken => self.input.take(taken),
            }
        }
        true
    }

    /// Whether what was asked first is answered.
    fn is_answered(&self) -> bool {
        matches!(self.waits.front(), Some((.., Some(_))))
    }

    /// Says what is answered, in the order in which it was asked, as far as there is room.
    fn say(&mut self, said: &mut Vec<u8>) {
        while said.len() < UNTAKEN_MAX
            && self.is_answered()
            && let Some((_, how, Some(answer))) = self.waits.pop_front()
        {
            how.say(&answer, &mut self.in_error, said);
            self.is_amid = matches!(how, How::Get { is_last: false, .. });
            if !self.is_amid {
                said.append(&mut self.told_later);
            }
            match (how, answer) {
                (How::Open | How::Attach(_), Answer::Done(Outcome::Alive(lease))) => {
                    self.lease = Some(lease);
                }
                (How::Watch(prefix), Answer::Revision(revision)) => {
                    self.watches.push((prefix, revision));
                    // The first gives way to the one too many.
                    if self.watches.len() > WATCHES_MAX {
                        self.watches.remove(0);
                    }
                }
                _ => {}
            }
        }
    }
}
