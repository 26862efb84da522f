//! One thread of the server: its connections and datagrams, and the cohort they make.
//!
//! ```text
//!   received --> whole? --> cohort --- idle, or full ---> run: execute --> answers --> Port
//!                  | no        ^                            |                 |
//!                  v           |                            v no room         v not taken
//!                input -------- line <-- writable <------ is_stalled, paused <-----+
//! ```
//!
//! Memory is bounded. A connection's commands are executed as long as its answers are taken: from
//! `UNSENT_MAX` on the rest of its commands waits, and no more is read from it. What all
//! connections of a thread hold (values that are not whole, answers not taken) is bounded by
//! `held_max`: from half of it on a connection has one answer under way at a time, and
//! beyond it those that have not moved for longest are dropped. Answers to a datagram are
//! bounded by what is left out of them. `work` bounds what a turn does.

mod backlog;
mod datagram;
mod ending;
mod lane;
mod line;
mod places;
mod relief;
mod ring;
mod run;
mod told;
mod work;

use super::client::Client;
use super::orders::Order;
use super::udp::Datagrams;
use crate::class::Counts;
use crate::cohort::{Cohort, PART_COMMANDS, Source};
use crate::ring::Written;
use crate::shared::{Counter, Place, Shared};
use crate::store::Worker as StoreWorker;
use crate::wire::{Protocol, Rules, Stream, udp};
use backlog::{Backlog, Left};
use lane::UNSENT_MAX;
use line::Line;
pub(super) use relief::held_least;
use rhythm_net::sparse::Sparse;
use rhythm_net::{
    Accepted, ConnectionId, ConnectionTable, Datagram, DatagramId, Ended, Flushed, Handler, Port,
    Time,
};
pub(super) use ring::Ring;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use work::Work;

/// How often the store takes back what has expired, and how soon again while there is more.
const TEND_EVERY: Duration = Duration::from_secs(1);
const TEND_AGAIN: Duration = Duration::from_millis(1);
/// What is said to a client for whom there is no place.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// One thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    store: StoreWorker,
    rules: Rules,
    clients: ConnectionTable<Client>,
    cohort: Cohort,
    /// Its part in the ring, if there is one.
    ring: Option<Ring>,
    /// What the turn has written, for the ring.
    written: Written,
    /// Answers of the part that is executed.
    out: Vec<u8>,
    datagrams: Datagrams,
    /// Datagrams for which a turn had no room.
    backlog: Backlog,
    /// Connections whose input goes on when it is their turn.
    line: Line,
    /// What was taken of this turn.
    work: Work,
    /// Connections for which there is no place yet; nothing is read from them.
    waiting: VecDeque<ConnectionId>,
    look_for_places_at: Option<Time>,
    /// Since when there are any, and that there are.
    waits: Option<(Time, Place)>,
    /// What all connections hold, and how much that may ever be.
    held: usize,
    held_most: usize,
    /// What is told of connections that were dropped.
    dropped: Sparse,
    /// When the turn of the loop began; none: nothing came in it yet.
    turn_began: Option<Time>,
    /// The commands that were executed in it.
    classes: Counts,
    /// The slot where it is looked next for connections to be dropped.
    relieve_from: u32,
    /// When silent connections are looked for.
    sweep_at: Option<Time>,
    /// When the store is tended.
    tend_at: Time,
    /// When it ends, if it does.
    ends_at: Option<Time>,
    /// Turns before it closes connections: what came before it was to end has come to it then.
    looks: usize,
    /// It ends, and there may be more connections that owe nothing.
    is_closing_idle: bool,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        index: usize,
        store: StoreWorker,
        held_most: usize,
        now: Time,
    ) -> Worker {
        let idle_timeout = shared.settings.idle_timeout;
        let rules = Rules {
            users: shared.standing.users(),
            ..shared.rules.clone()
        };
        Worker {
            rules,
            index,
            store,
            clients: ConnectionTable::new(),
            cohort: Cohort::default(),
            ring: None,
            written: Written::default(),
            out: Vec::new(),
            datagrams: Datagrams::default(),
            backlog: Backlog::default(),
            line: Line::default(),
            work: Work::default(),
            waiting: VecDeque::new(),
            look_for_places_at: None,
            waits: None,
            held: 0,
            held_most,
            dropped: Sparse::default(),
            turn_began: None,
            classes: Counts::default(),
            relieve_from: 0,
            sweep_at: idle_timeout.map(|_| now),
            tend_at: now + TEND_EVERY,
            // None began after it was told to, but for one that does so after a panic.
            ends_at: shared.standing.ends_at(),
            looks: 0,
            is_closing_idle: false,
            shared,
        }
    }

    /// Makes it a part of a ring.
    pub(super) fn in_ring(mut self, ring: Ring) -> Worker {
        self.ring = Some(ring);
        self
    }

    fn count(&self, counter: Counter, more: u64) {
        self.shared.counters(self.index).add(counter, more);
    }

    fn let_in(&mut self, id: ConnectionId, place: Place, now: Time) {
        let has_users = !self.rules.users.is_empty();
        let stream = Stream {
            protocol: match has_users {
                true => Protocol::Ascii,
                false => self.shared.settings.protocol,
            },
            is_stranger: has_users,
            ..Stream::default()
        };
        self.clients.insert(id, Client::new(place, stream, now));
    }

    /// Forgets a connection that is gone, or lets it go.
    fn forget(&mut self, id: ConnectionId) {
        if let Some(client) = self.clients.remove(id) {
            self.held -= client.counted;
        }
    }
}

/// Has a thread's sum have what a connection holds by now.
fn recount(held: &mut usize, client: &mut Client) {
    let holds = client.holds();
    *held = *held - client.counted + holds;
    client.counted = holds;
}

impl Handler for Worker {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        let id = accepted.connection;
        self.count(Counter::Opened, 1);
        if self.waiting.is_empty()
            && let Some(place) = self.place()
        {
            self.let_in(id, place, now);
        } else if self.shared.settings.turn_away {
            self.count(Counter::Rejected, 1);
            // Who does not take it at once learns of it by the close.
            let _ = port.send(id, TOO_MANY);
            port.close(id);
        } else {
            port.pause(id);
            self.wait_for_place(id, now);
        }
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.turn_began.get_or_insert(now);
        self.count(Counter::BytesRead, bytes.len() as u64);
        if self.clients.get(id).is_some_and(|client| client.in_cohort) {
            self.run(port, now);
        }
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.is_closing {
            return;
        }
        client.moved = now;
        // Who takes as much, and came before it, is before it.
        let waits = self.line.is_before(client);
        if client.input.is_empty() && !waits {
            client.in_cohort = true;
            let (stream, most) = (client.stream, client.commands_max);
            (self.cohort).add(Source::Connection(id), stream, most, bytes);
            return self.run_if_full(port, now);
        }
        let is_enough = client.is_enough(bytes);
        if !client.append(bytes) {
            port.abort(id);
            return self.forget(id);
        }
        if is_enough && !client.is_stalled && !waits {
            client.in_cohort = true;
            let (stream, most) = (client.stream, client.commands_max);
            let input = std::mem::take(&mut client.input);
            (self.cohort).add_own(Source::Connection(id), stream, most, input);
        } else {
            if is_enough && !client.is_stalled {
                client.is_stalled = true;
                port.pause(id);
                self.line.push(id, client);
                self.shared.counters(self.index).add(Counter::Yields, 1);
            }
            recount(&mut self.held, client);
            self.relieve_if_needed(port, now);
        }
        self.run_if_full(port, now);
    }

    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        datagrams: &[Datagram<'_>],
        now: Time,
    ) {
        self.turn_began.get_or_insert(now);
        for datagram in datagrams {
            self.count(Counter::BytesRead, datagram.bytes.len() as u64);
            let Some((id, commands)) = udp::request(datagram.bytes) else {
                continue;
            };
            let peer = datagram.peer;
            let source = Source::Datagram { socket, peer, id };
            if !self.backlog.is_empty() {
                let bytes = commands.to_vec();
                self.backlog.push(port, socket, Left { source, bytes });
                continue;
            }
            (self.cohort).add(source, Stream::of_datagram(), PART_COMMANDS, commands);
            self.run_if_full(port, now);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.moved = now;
        let flushed = client.out.writable(port, id);
        match flushed {
            Flushed::Gone => return self.forget(id),
            Flushed::All if client.is_closing && client.owes_nothing() => {
                port.close(id);
                return self.forget(id);
            }
            Flushed::All | Flushed::Some => {}
        }
        let waits = client.waits_for_room || client.unsent() >= UNSENT_MAX / 2;
        if client.is_stalled && !waits {
            self.line.push(id, client);
        }
        recount(&mut self.held, client);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        if self.clients.get(id).is_some_and(|client| client.in_cohort) {
            self.run(port, now);
        }
        let Some(client) = self.clients.get_mut(id) else {
            // It gave up, if it waited.
            self.waiting.retain(|waiting| *waiting != id);
            return self.note_waiting(now);
        };
        if matches!(how, Ended::Failed(_)) {
            return self.forget(id);
        }
        client.has_finished = true;
        if !client.is_stalled {
            client.is_closing = true;
            if client.owes_nothing() {
                port.close(id);
                self.forget(id);
            }
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let timeout = self.shared.settings.idle_timeout;
        if let (Some(at), Some(timeout)) = (self.sweep_at, timeout)
            && at <= now
        {
            self.sweep_at = Some(self.sweep(port, timeout, now));
        }
        if self.look_for_places_at.is_some_and(|at| at <= now) {
            self.let_waiting_in(port, now);
        }
        self.tick_ring(now);
        if self.tend_at <= now {
            let has_more = self.store.pin().tend(self.shared.clock(now).now);
            self.tend_at = now + if has_more { TEND_AGAIN } else { TEND_EVERY };
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        // Who has had some of this turn, and wants more, is not among these.
        let end = self.line.end();
        self.run(port, now);
        self.go_on(port, end, now);
        self.go_on_with_datagrams(port, now);
        self.relieve_if_needed(port, now);
        if self.ends_at.is_some() {
            self.go_on_ending(port, now);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let waits = !self.line.is_empty() || !self.backlog.is_empty();
        let goes_on = waits || self.held > self.held_max();
        let ends = self.is_closing_idle || self.looks > 0;
        let now = (goes_on || ends).then_some(Time::ZERO);
        let times = [
            now,
            self.sweep_at,
            self.look_for_places_at,
            Some(self.tend_at),
            self.ends_at,
            self.ring.as_ref().and_then(Ring::wake_at),
        ];
        times.into_iter().flatten().min()
    }

    fn turn_ended(&mut self, now: Time) {
        let figures = self.shared.figures(self.index);
        if let Some(began) = self.turn_began.take() {
            let took = now.since(began).as_nanos() as u64;
            figures.turns.record(took, 1);
            for (class, count) in self.classes.take() {
                figures.commands[class as usize].record(took, count.into());
            }
        }
        figures.held.set(self.held as u64);
        self.work = Work::default();
        self.looks = self.looks.saturating_sub(1);
        if self.ends_at.is_some_and(|at| at <= now) {
            self.ends_at = Some(Time::ZERO);
        }
    }

    fn finished(&self) -> bool {
        self.has_ended()
    }
}

impl Drop for Worker {
    /// It may have panicked in the midst of a turn: what it wrote until then is to be on all nodes
    /// that are to have it.
    fn drop(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.end(std::mem::take(&mut self.written));
        }
    }
}

impl rhythm_net::Worker for Worker {
    type Command = Order;

    fn obey(&mut self, port: &mut dyn Port, order: Order, now: Time) {
        match order {
            Order::Users => self.rules.users = self.shared.standing.users(),
            Order::Ring(told) => self.told(port, told, now),
            Order::End => self.end(port),
        }
    }
}

#[cfg(test)]
mod tests;
