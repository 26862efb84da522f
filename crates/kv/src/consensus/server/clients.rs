//! The clients: what each asked, in its order, and what it watches.
//!
//! A client's commands go to the node as they come, as long as they are of one kind; what is of
//! another waits for the answers, as a read shows what was written before it. Nothing is read from
//! who has much unanswered or untaken.

use crate::consensus::command::Outcome;
use crate::consensus::keyspace::Change;
use crate::consensus::node::{Answer, Request, Ticket};
use crate::consensus::text::{Asked, COMMAND_MAX, How, Parser, rules};
use crate::input::Input;
use crate::wire::Rules;
use rhythm_net::{ConnectionId, ConnectionTable, Flushed, Outgoing, Port};
use std::collections::{BTreeMap, VecDeque};

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
    asked: VecDeque<Asked>,
    /// What the node was asked, and has answered or not.
    waits: VecDeque<(Ticket, How, Option<Answer>)>,
    /// Of those that wait: whether they may change something; none: by itself.
    kind: Option<bool>,
    /// A key of the `get` at hand could not be read.
    in_error: bool,
    session: Option<u64>,
    /// Prefixes, and the revision behind which changes are told.
    watches: Vec<(Vec<u8>, u64)>,
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
}

/// What a client needs of its node.
pub(super) trait Asks {
    /// Whether more can be asked.
    fn has_room(&self) -> bool;
    /// Asks.
    fn ask(&mut self, ticket: Ticket, request: Request);
    /// What `stats` says.
    fn stats(&mut self) -> String;
}

impl Clients {
    pub(super) fn new() -> Clients {
        Clients {
            table: ConnectionTable::new(),
            of_ticket: BTreeMap::new(),
            tickets: 0,
            rules: rules(),
            stalled: Vec::new(),
        }
    }

    /// One has connected; beyond as many as may be, nobody is let in.
    pub(super) fn opened(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if self.table.len() >= CLIENTS_MAX {
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
                self.of_ticket.remove(&ticket);
            }
        }
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
                    client.out.push(b"CHANGED ");
                    client.out.push(key);
                    client
                        .out
                        .push(format!(" {revision} {what}\r\n").as_bytes());
                }
            }
            if client.watches.is_empty() {
                continue;
            }
            let is_slow = client.out.unsent() > 2 * UNTAKEN_MAX;
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
            self.go_on(port, id, node);
        }
    }

    /// Says what is answered, asks what can be asked, and reads on, or not.
    fn go_on(&mut self, port: &mut dyn Port, id: ConnectionId, node: &mut dyn Asks) {
        let Some(client) = self.table.get_mut(id) else {
            return;
        };
        let mut said = Vec::new();
        // What is taken at once makes room for more.
        while client.out.is_empty() && client.is_answered() {
            said.clear();
            client.say(&mut said);
            if client.out.send(port, id, &said) == Flushed::Gone {
                return self.gone(id);
            }
        }
        said.clear();
        while client.out.unsent() + said.len() < UNTAKEN_MAX && client.waits.len() < UNANSWERED_MAX
        {
            // What follows may mean another thing when it is answered: a session begins.
            let is_alone = !client.waits.is_empty() && client.kind.is_none();
            if is_alone || client.asked.is_empty() && !client.parse(&self.rules) {
                break;
            }
            if !node.has_room() {
                self.stalled.push(id);
                break;
            }
            let may_go = |asked: &Asked| match asked {
                Asked::Node(..) => client.waits.is_empty() || asked.kind() == client.kind,
                _ => client.waits.is_empty(),
            };
            if !client.asked.front().is_some_and(may_go) {
                break;
            }
            match client.asked.pop_front() {
                Some(asked @ Asked::Node(..)) => {
                    client.kind = asked.kind();
                    if let Asked::Node(request, how) = asked {
                        self.tickets += 1;
                        self.of_ticket.insert(self.tickets, id);
                        client.waits.push_back((self.tickets, how, None));
                        node.ask(self.tickets, request);
                    }
                }
                Some(Asked::Say(text)) => said.extend_from_slice(text.as_bytes()),
                Some(Asked::Stats) => said.extend_from_slice(node.stats().as_bytes()),
                Some(Asked::Detach) => {
                    client.session = None;
                    said.extend_from_slice(b"DETACHED\r\n");
                }
                Some(Asked::Close) => client.is_closing = true,
                None => {}
            }
        }
        if client.out.send(port, id, &said) == Flushed::Gone {
            return self.gone(id);
        }
        // What is not whole may grow to a command's length, and there is nothing behind it yet.
        let is_idle = client.waits.is_empty() && client.asked.is_empty();
        let is_too_long = client.input.len() > COMMAND_MAX && is_idle;
        if is_too_long && node.has_room() && client.out.unsent() < UNTAKEN_MAX {
            return self.drop_client(port, id);
        }
        if client.is_closing && is_idle && client.out.is_empty() {
            port.close(id);
            self.gone(id);
        } else if client.is_closing || client.input.len() >= COMMAND_MAX {
            port.pause(id);
        } else {
            port.resume(id);
        }
    }
}

impl Client {
    /// Takes the next command from what came. False: there is none.
    fn parse(&mut self, rules: &Rules) -> bool {
        while self.asked.is_empty() {
            let (bytes, session) = (self.input.rest(), self.session);
            match (self.parser).next(rules, bytes, session, &mut self.asked) {
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
            match (how, answer) {
                (How::Open | How::Attach(_), Answer::Done(Outcome::Alive(session))) => {
                    self.session = Some(session);
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
