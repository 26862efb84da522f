//! The thread: events to clients and lines, and at a turn's end all that came to the node.
//!
//! Its end, when it is asked for: nobody connects any more, another node leads, what was taken from
//! clients is answered, and what is to be sent has left; or that takes too long.

use super::clients::{Asks, Clients};
use super::figures::Figures;
use super::member::Member;
use super::otherwise::Otherwise;
use crate::consensus::journal::Folder;
use crate::consensus::node::{Effects, EndError, Node, Read, Request, Ticket};
use crate::lines::{Lines, take_frames};
use crate::shared::RELEASE;
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Peer, Port, Role, Time};
use std::cell::Cell;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Who connects: to whose port.
pub(super) const OF_CLIENTS: Role = Role(0);
pub(super) const OF_NODES: Role = Role(1);

/// Bytes that a line may have untaken before frames for it are lost, beside one frame.
const UNTAKEN_MAX: usize = 16 << 20;
/// Room that a connection keeps between frames.
const KEPT: usize = 64 << 10;
/// How long a node that is to end waits for another to lead, and for all else.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(2);
const LEFT_WITHIN: Duration = Duration::from_secs(6);
/// From when on it is said that nobody leads, though nobody has yet: elections take a second.
const LED_WITHIN: Duration = Duration::from_secs(5);

/// What it is told from another thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// To end, and leave nothing behind that others must find out.
    Leave,
}

/// See the head of this file.
pub(super) struct Worker {
    own: Own,
    clients: Clients,
    lines: Lines,
    otherwise: Otherwise,
    effects: Effects,
    /// Who was last said to lead.
    leader: u64,
    /// When somebody last led, or it began; and whether it was said that nobody does since.
    led_at: Option<Time>,
    is_unled_said: bool,
    /// Since when it is to end.
    leaves: Option<Time>,
    is_over: bool,
    /// Clients may have asked for more behind the answers that they got, or are to be told more.
    goes_on: bool,
    figures: Arc<Figures>,
    failure: Arc<Mutex<Option<EndError>>>,
}

/// The node, as clients see it.
struct Own {
    node: Node<Folder>,
    members: Vec<Member>,
    me: usize,
    /// Who was told something else.
    otherwise: Option<String>,
    now: Time,
}

impl Asks for Own {
    fn has_room(&self) -> bool {
        self.node.has_room()
    }

    fn now(&self) -> Time {
        self.now
    }

    fn length(&self, request: &Request) -> usize {
        match request {
            Request::Read(Read::Item(key)) => {
                let item = self.node.keyspace().get(key);
                item.map_or(0, |item| item.value.len())
            }
            Request::Read(Read::Revision) | Request::Change(_) => 0,
        }
    }

    fn ask(&mut self, ticket: Ticket, request: Request) {
        self.node.ask(ticket, request, self.now);
    }

    fn stats(&mut self) -> String {
        let status = self.node.status();
        let keyspace = self.node.keyspace();
        let leader = match status.leader {
            0 => "",
            leader => &self.members[leader as usize - 1].name,
        };
        let nodes = self.members.iter();
        let nodes = nodes.map(|member| format!("{}@{}", member.name, member.place));
        [
            ("node", self.members[self.me].name.clone()),
            ("leader", leader.to_owned()),
            ("term", status.term.to_string()),
            ("committed", status.committed.to_string()),
            ("applied", status.applied.to_string()),
            ("revision", keyspace.revision().to_string()),
            ("disk_full", u8::from(status.is_full).to_string()),
            ("curr_items", keyspace.len().to_string()),
            ("bytes", keyspace.bytes().to_string()),
            ("leases", keyspace.leases().len().to_string()),
            ("nodes", nodes.collect::<Vec<_>>().join(",")),
            ("otherwise", self.otherwise.clone().unwrap_or_default()),
            ("release", RELEASE.to_owned()),
        ]
        .map(|(name, value)| format!("STAT {name} {value}\r\n"))
        .concat()
            + "END\r\n"
    }
}

impl Worker {
    pub(super) fn new(
        node: Node<Folder>,
        members: &[Member],
        me: usize,
        otherwise: Otherwise,
        figures: Arc<Figures>,
        failure: Arc<Mutex<Option<EndError>>>,
    ) -> Worker {
        let peer = |member: &Member| Peer::tcp(member.name.as_str(), member.backbone);
        let places = members.iter().map(peer).map(Some).collect();
        Worker {
            own: Own {
                node,
                members: members.to_vec(),
                me,
                otherwise: None,
                now: Time::ZERO,
            },
            clients: Clients::new(Arc::clone(&figures)),
            lines: Lines::new(me, places, UNTAKEN_MAX),
            otherwise,
            effects: Effects::default(),
            leader: 0,
            led_at: None,
            is_unled_said: false,
            leaves: None,
            is_over: false,
            goes_on: false,
            figures,
            failure,
        }
    }

    /// Has the node do what there is to do. What clients ask behind answers waits for the next turn
    /// of the loop: it is seen first who is gone.
    fn flush(&mut self, port: &mut dyn Port, now: Time) -> Result<(), EndError> {
        for ticket in self.clients.take_unwanted() {
            self.own.node.forget(ticket);
        }
        self.own.node.flush(now, &mut self.effects)?;
        for (to, frame) in self.effects.frames.drain(..) {
            self.figures.sent_bytes.add(frame.len() as u64);
            self.lines.send(port, to as usize - 1, &frame, now);
        }
        if std::mem::take(&mut self.effects.skipped) {
            self.figures.gave_way.add(self.clients.skipped(port));
        }
        let was_answered = !self.effects.answers.is_empty();
        // Answers first: a watch that begins with one hears of what comes behind it.
        for (ticket, answer) in self.effects.answers.drain(..) {
            self.clients.answered(port, ticket, answer, &mut self.own);
        }
        self.clients.changed(&self.effects.changes);
        self.effects.changes.clear();
        self.clients.tell(port, &mut self.own);
        self.clients.resume(port, &mut self.own);
        self.clients.relieve(port);
        self.goes_on = was_answered || self.clients.has_more_to_tell();
        Ok(())
    }

    /// Whole frames of another node's go to the node.
    fn receive(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        // On the lines that we began comes what others were told, if they do not understand us.
        if let (Some(to), Some(mut answer)) = (self.lines.place(id), self.lines.take_answer(id)) {
            answer.extend_from_slice(bytes);
            if self.otherwise.take(to, &mut answer, now) {
                self.lines.keep_answer(id, answer);
            }
            return;
        }
        let Some(mut coming) = self.lines.take_coming(id, now) else {
            return;
        };
        coming.extend_from_slice(bytes);
        let (node, otherwise) = (&mut self.own.node, &mut self.otherwise);
        // Whose it is says its first good frame.
        let from = Cell::new(None);
        let was_known = self.lines.is_known(id);
        let length =
            |bytes: &[u8]| Node::<Folder>::frame_length(bytes, was_known || from.get().is_some());
        let take = |frame: &[u8]| match node.frame(frame) {
            Ok(node) => {
                from.set(Some(node));
                Ok(())
            }
            Err(_) => otherwise.frame(frame, now),
        };
        let taken = take_frames(&mut coming, KEPT, length, take);
        if let Some(from) = from.get() {
            self.lines
                .heard(port, id, (from as usize).wrapping_sub(1), now);
        }
        match taken {
            Ok(()) => self.lines.keep_coming(id, coming),
            Err(error) => {
                if self.otherwise.said(now).is_none() {
                    self.lines.complain(id, &error, now);
                }
                self.lines.dismiss(port, id, &self.otherwise.answer());
            }
        }
    }

    /// Whether it has left, or that takes too long.
    fn has_left(&self, now: Time) -> bool {
        let Some(waited) = self.leaves.map(|since| now.since(since)) else {
            return false;
        };
        let node = &self.own.node;
        let is_taken_over = !node.leads() || self.own.members.len() == 1;
        let may_go = is_taken_over || waited >= TAKEN_OVER_WITHIN;
        let is_done = node.is_done() && self.clients.is_empty() && self.lines.are_empty();
        may_go && is_done || waited >= LEFT_WITHIN
    }

    /// Which of the others are not reached, in words.
    fn unreached(&self) -> Option<String> {
        let others = self.own.members.iter().enumerate();
        let others = others.filter(|(node, _)| *node != self.own.me);
        let mut said = String::new();
        let mut are_here = true;
        for (_, member) in others.filter(|(node, _)| !self.lines.is_open(*node)) {
            let before = if said.is_empty() { "" } else { ", " };
            // A String takes everything.
            let _ = write!(said, "{before}{} at {}", member.name, member.place);
            are_here &= member.backbone.ip().is_loopback();
        }
        let hint = match are_here {
            true => {
                "; where they are on other machines, the file needs addresses by which they are \
                     reached from here"
            }
            false => "",
        };
        (!said.is_empty()).then(|| format!("not reached: {said}{hint}"))
    }

    /// Tells of how it is: in the log where another leads, and for who asks.
    fn tell(&mut self, now: Time) {
        let otherwise = self.otherwise.said(now);
        let status = self.own.node.status();
        let unreached = (status.leader == 0).then(|| self.unreached()).flatten();
        self.figures
            .set_why_unled(otherwise.as_ref().or(unreached.as_ref()));
        self.own.otherwise = otherwise;
        let led_at = *self.led_at.get_or_insert(now);
        if status.leader > 0 {
            (self.led_at, self.is_unled_said) = (Some(now), false);
        } else if !self.is_unled_said && now.since(led_at) >= LED_WITHIN {
            self.is_unled_said = true;
            let why = unreached.unwrap_or_default();
            tracing::warn!(
                term = status.term,
                why,
                "no node leads the keyspace for 5 s"
            );
        }
        let (keyspace, figures) = (self.own.node.keyspace(), &self.figures);
        figures.set_status(&status);
        for (node, of) in figures.nodes.iter().enumerate() {
            let is_reached = node == self.own.me || self.lines.is_open(node);
            of.is_reached.set(u64::from(is_reached));
            let has = self.own.node.has_up_to(node as u64 + 1);
            of.has_up_to.set(has.unwrap_or(0));
        }
        figures.items.set(keyspace.len() as u64);
        figures.item_bytes.set(keyspace.bytes() as u64);
        figures.leases.set(keyspace.leases().len() as u64);
        if status.leader != self.leader {
            self.leader = status.leader;
            match self.leader {
                0 => tracing::warn!(term = status.term, "no node leads the keyspace"),
                leader => {
                    let name = &self.own.members[leader as usize - 1].name;
                    tracing::info!(term = status.term, leader = name, "the keyspace is led");
                }
            }
        }
    }
}

impl Handler for Worker {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        match accepted.role {
            OF_NODES => self.lines.opened(port, accepted, now),
            _ => self.clients.opened(port, accepted.connection, now),
        }
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.own.now = now;
        match self.lines.has(id) {
            true => self.receive(port, id, bytes, now),
            false => self.clients.received(port, id, bytes, &mut self.own),
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        // Who does not understand us cannot tell us from anybody else otherwise, nor reach us,
        // maybe.
        if let Some(node) = self.lines.connected(id)
            && self.otherwise.is_to_be_told(node)
        {
            let told = self.otherwise.answer();
            self.lines.send(port, node, &told, now);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.own.now = now;
        self.lines.writable(port, id);
        self.clients.writable(port, id, &mut self.own);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.own.now = now;
        if self.lines.has(id) {
            return self.lines.ended(port, id, how, now);
        }
        match how {
            Ended::PeerFinished => self.clients.finished(port, id, &mut self.own),
            Ended::Failed(_) => self.clients.gone(id),
        }
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        self.own.node.tick(now);
        self.clients.count();
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.own.now = now;
        // Begins the lines that there are not.
        (0..self.own.members.len()).for_each(|node| self.lines.send(port, node, &[], now));
        if let Err(error) = self.flush(port, now) {
            tracing::error!(%error, "the node cannot go on, and ends");
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = Some(error);
            self.is_over = true;
        }
        self.is_over |= self.has_left(now);
        self.tell(now);
    }

    fn wake_at(&self) -> Option<Time> {
        match self.goes_on {
            true => Some(Time::ZERO),
            false => Some(self.own.node.wake_at()),
        }
    }

    fn finished(&self) -> bool {
        self.is_over
    }
}

impl rhythm_net::Worker for Worker {
    type Command = Order;

    fn obey(&mut self, port: &mut dyn Port, order: Order, now: Time) {
        let Order::Leave = order;
        tracing::info!("the node ends: another is to lead, and clients get their answers");
        self.own.now = now;
        self.leaves = Some(now);
        self.figures.leaves.set(1);
        port.stop_accepting();
        self.own.node.leave();
        self.clients.leave(port, &mut self.own);
    }
}
