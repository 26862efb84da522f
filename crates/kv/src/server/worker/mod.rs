//! One thread of the server: its connections and datagrams, and the cohort they make.
//!
//! ```text
//!   received --> whole? --> cohort --- idle, or full ---> run: execute --> answers --> Port
//!                  | no        ^                            |                 |
//!                  v           |                            v not taken       |
//!                input --------+--- writable <------ is_stalled, paused <-----+
//! ```
//!
//! Memory is bounded. A connection's commands are executed as long as its answers are taken: from
//! `UNSENT_MAX` on the rest of its commands waits, and no more is read from it. What all
//! connections of a thread hold (values that are not whole, answers not taken) is bounded by
//! `held_max`: from half of it on a connection has one answer under way at a time, and
//! beyond it those that have not moved for longest are dropped. Answers to a datagram are
//! bounded by what is left out of them.

mod datagram;
mod ending;
mod lane;
mod places;
mod relief;
mod ring;
mod told;

use super::client::Client;
use super::orders::Order;
use super::udp::Datagrams;
use crate::class::Counts;
use crate::cohort::{Cohort, Source};
use crate::execute::Turn;
use crate::ring::Written;
use crate::shared::{Counter, Place, Shared};
use crate::store::Worker as StoreWorker;
use crate::wire::{Protocol, Rules, Stream, udp};
use datagram::DatagramLane;
use lane::{Lane, SEND_BYTES, StatsDone, UNSENT_MAX};
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
    /// Connections whose input goes on, each once.
    resumed: VecDeque<ConnectionId>,
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
            resumed: VecDeque::new(),
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

    fn run_if_full(&mut self, port: &mut dyn Port, now: Time) {
        if self.cohort.is_full() {
            self.run(port, now);
        }
    }

    /// Executes what has come.
    fn run(&mut self, port: &mut dyn Port, now: Time) {
        if self.cohort.is_empty() {
            return;
        }
        let held_max = self.held_max();
        let counters = self.shared.counters(self.index);
        counters.add(Counter::Cohorts, 1);
        let mut size = 0;
        let store = Arc::clone(&self.shared.store);
        let clock = self.shared.clock(now);
        let mut turn = Turn::new(self.store.pin(), clock, &self.shared, counters);
        if let Some(ring) = &mut self.ring {
            self.written = ring.take_written();
            turn = turn
                .noting(&mut self.written)
                .announcing(ring.announces())
                .writing_if(ring.may_write());
        }
        let mut batch = 0..0;
        let mut stats = StatsDone::default();
        loop {
            let Some(index) = batch.next() else {
                batch = self.cohort.parse(&self.rules);
                if batch.is_empty() {
                    break;
                }
                continue;
            };
            turn.make_way();
            let part = self.cohort.part(index);
            let source = part.source;
            let mut executed = part.commands.len();
            match source {
                Source::Connection(id) => {
                    let Some(client) = self.clients.get_mut(id) else {
                        continue;
                    };
                    let was_stalled = client.is_stalled;
                    let limit = match self.held > held_max / 2 {
                        true => 0,
                        false => UNSENT_MAX,
                    };
                    let mut lane = Lane {
                        port,
                        id,
                        client,
                        out: &mut self.out,
                        ring: self.ring.as_mut(),
                        now,
                        has_written: false,
                        written: 0,
                        limit,
                        yields: false,
                        left: 0,
                        stats: &mut stats,
                        classes: &mut self.classes,
                    };
                    let is_there = lane.run(&mut self.cohort, index, &store, &mut turn);
                    counters.add(Counter::BytesWritten, lane.written);
                    // Those that are left are parsed again.
                    executed -= lane.left;
                    if lane.yields {
                        counters.add(Counter::Yields, 1);
                    } else if client.is_stalled && (executed > 0 || !was_stalled) {
                        // One that was looked at again and found no room waits on.
                        counters.add(Counter::Stalls, 1);
                    }
                    client.moved = now;
                    let waits = client.waits_for_room || !client.owes_nothing();
                    if client.is_stalled && !waits {
                        resume(&mut self.resumed, id, client);
                    }
                    recount(&mut self.held, client);
                    if !is_there {
                        self.held -= client.counted;
                        self.clients.remove(id);
                    }
                }
                Source::Datagram { socket, peer, id } => {
                    let mut lane = DatagramLane {
                        port,
                        datagrams: &mut self.datagrams,
                        out: &mut self.out,
                        stats: &mut stats,
                        classes: &mut self.classes,
                    };
                    lane.run(
                        &mut self.cohort,
                        index,
                        (socket, peer, id),
                        &store,
                        &mut turn,
                    );
                }
            }
            size += executed as u64;
        }
        counters.add(Counter::Commands, size);
        drop(turn);
        if let Some(ring) = &mut self.ring {
            ring.turn_ended(std::mem::take(&mut self.written), now);
        }
        self.shared.figures(self.index).cohort_size.record(size, 1);
        counters.add(Counter::BytesWritten, self.datagrams.flush(port));
        self.cohort.clear();
        self.out.clear();
        self.out.shrink_to(2 * SEND_BYTES);
        self.relieve_if_needed(port, now);
    }
}

/// Has a thread's sum have what a connection holds by now.
fn recount(held: &mut usize, client: &mut Client) {
    let holds = client.holds();
    *held = *held - client.counted + holds;
    client.counted = holds;
}

/// Has a connection's input go on when it is its turn.
fn resume(resumed: &mut VecDeque<ConnectionId>, id: ConnectionId, client: &mut Client) {
    if !client.is_resumed {
        client.is_resumed = true;
        resumed.push_back(id);
    }
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
        if client.input.is_empty() {
            client.in_cohort = true;
            self.cohort
                .add(Source::Connection(id), client.stream, bytes);
            return self.run_if_full(port, now);
        }
        let is_enough = client.is_enough(bytes);
        if !client.append(bytes) {
            port.abort(id);
            return self.forget(id);
        }
        if is_enough && !client.is_stalled {
            client.in_cohort = true;
            let input = std::mem::take(&mut client.input);
            self.cohort
                .add_own(Source::Connection(id), client.stream, input);
        } else {
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
            let stream = Stream {
                is_datagram: true,
                ..Stream::default()
            };
            self.cohort.add(source, stream, commands);
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
            resume(&mut self.resumed, id, client);
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
        while !self.cohort.is_full()
            && let Some(id) = self.resumed.pop_front()
        {
            let Some(client) = self.clients.get_mut(id) else {
                continue;
            };
            client.is_resumed = false;
            if client.is_stalled && !client.in_cohort {
                self.turn_began.get_or_insert(now);
                client.in_cohort = true;
                let input = std::mem::take(&mut client.input);
                self.cohort
                    .add_own(Source::Connection(id), client.stream, input);
            }
        }
        self.run(port, now);
        self.relieve_if_needed(port, now);
        if self.ends_at.is_some() {
            self.go_on_ending(port, now);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let goes_on = !self.resumed.is_empty() || self.held > self.held_max();
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
