//! A thread of clients: what each asks for next, and what becomes of the answers.
//!
//! The worker is a [`Handler`](rhythm_net::Handler) of the same driver the servers run on. It fills
//! a server, or loads it for one slice:
//!
//! ```text
//!   closed loop: a client asks again as soon as it is answered -+
//!                                                               +-> ask --> (answer) --> judge
//!   open loop:   requests fall due, and take a client that is free
//! ```
//!
//! In open loop a request that finds no client free stays due, and its time counts from then.

mod answers;
mod events;

use super::client::{Asked, Client, write_request};
use super::items::Items;
use super::options::MemcachedOptions;
use super::report::Counts;
use super::target::Target;
use super::versions::Versions;
use crate::load::Rng;
use rhythm_net::clock::monotonic;
use rhythm_net::{Datagram, DatagramId, DriverOptions, Flushed, Port, Role, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often requests are looked through for those that take too long.
const SCAN: Duration = Duration::from_millis(10);
/// How long a client waits after an error, lest it hammers a server that is down.
const PAUSE: Duration = Duration::from_millis(20);
/// Requests of a client under way while a server is filled; one by datagram.
const FILL_DEPTH: usize = 16;
/// So many errors end a filling: the server cannot be filled.
const FILL_ERRORS_MAX: u64 = 1000;
/// So many datagrams lost, and none answered between them, end it, too.
const FILL_LOST_MAX: u64 = 200;
/// Datagrams handed to the port at once.
const DATAGRAMS: usize = 64;
/// Keys tried for one that nobody writes, before it is left.
const TRIES: u32 = 8;

/// What the threads are to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// Store every key, as often as is asked for.
    Fill,
    /// Load, and measure in this time.
    Measure { from: Time, until: Time },
}

/// What all workers of a slice are told.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) options: MemcachedOptions,
    pub(super) target: Target,
    pub(super) items: Items,
    pub(super) versions: Arc<Versions>,
    pub(super) task: Task,
    pub(super) workers: usize,
    /// Decides what is asked for; another in each slice.
    pub(super) seed: u64,
}

/// A thread's clients.
pub(super) struct Worker {
    setup: Arc<Setup>,
    /// Where datagrams go.
    address: Option<SocketAddr>,
    counts: Counts,
    /// Requests answered: how a filling is getting on.
    live: Arc<AtomicU64>,
    /// Where the counts go in the end.
    results: Sender<Counts>,
    /// Each client's way to each node, those of a client behind each other.
    clients: Vec<Client>,
    /// How many nodes there are.
    nodes: usize,
    key: Vec<u8>,
    /// The client of each connection slot.
    slots: Vec<u32>,
    rng: Rng,
    /// Requests to be used again.
    spare: Vec<Asked>,
    /// Datagrams of one client that are to be sent, one behind the other, and where each ends.
    unsent: Vec<u8>,
    ends: Vec<usize>,
    /// Requests of a client under way at a time.
    depth: usize,
    /// The keys that this thread stores, and how many more.
    keys: std::ops::Range<u32>,
    fill: std::ops::Range<u64>,
    /// Between two requests of this worker, on average; open loop only.
    mean: Option<Duration>,
    next_due: Time,
    /// Where the search for a free client goes on.
    turn: usize,
    under_way: usize,
    /// Datagrams lost since one was answered.
    lost_in_row: u64,
    /// Open loop: something is due, and no client is free.
    is_full: bool,
    has_begun: bool,
    measure_from: Time,
    until: Time,
    next_scan: Time,
    is_stopping: bool,
    done: usize,
}

impl Worker {
    /// The bounds of a worker's driver.
    pub(super) fn driver_options(setup: &Setup) -> DriverOptions {
        let clients_max = setup.options.connections.div_ceil(setup.workers);
        DriverOptions {
            // Twice: a connection just closed may linger beside the one that replaces it.
            outgoing_max: 2 * setup.target.nodes.len() * clients_max + 16,
            receive_bytes: 256 * 1024,
            ..DriverOptions::default()
        }
    }

    /// The worker `index`, which begins at once.
    pub(super) fn new(
        setup: Arc<Setup>,
        index: usize,
        live: Arc<AtomicU64>,
        results: Sender<Counts>,
    ) -> Worker {
        let (options, workers) = (&setup.options, setup.workers);
        let clients = (options.connections + workers - 1 - index) / workers;
        let nodes = setup.target.nodes.len();
        let now = monotonic();
        let mut rng = Rng::new(setup.seed ^ (index as u64) << 48);
        let share = |at: usize| (u64::from(options.keys) * at as u64 / workers as u64) as u32;
        let keys = share(index)..share(index + 1);
        let (fill, measure_from, until) = match setup.task {
            Task::Fill => (
                0..keys.len() as u64 * u64::from(options.fills),
                now,
                Time::NEVER,
            ),
            Task::Measure { from, until } => (0..0, from, until),
        };
        let is_fill = matches!(setup.task, Task::Fill);
        let mean = options.rate.filter(|_| !is_fill);
        let mean = mean.map(|rate| Duration::from_secs_f64(workers as f64 / rate));
        Worker {
            address: setup.target.address().filter(|_| options.udp),
            counts: Counts::new(),
            live,
            results,
            clients: (0..clients * nodes).map(|_| Client::new()).collect(),
            nodes,
            key: Vec::new(),
            slots: Vec::new(),
            spare: Vec::new(),
            unsent: Vec::new(),
            ends: Vec::new(),
            depth: match (is_fill, options.udp) {
                (true, true) => 1,
                (true, false) => FILL_DEPTH,
                (false, _) => options.depth,
            },
            keys,
            fill,
            next_due: mean.map_or(Time::NEVER, |mean| now + rng.exponential(mean)),
            mean,
            rng,
            turn: 0,
            under_way: 0,
            lost_in_row: 0,
            is_full: false,
            has_begun: false,
            measure_from,
            until,
            next_scan: now,
            is_stopping: false,
            done: 0,
            setup,
        }
    }

    fn is_measuring(&self, now: Time) -> bool {
        self.measure_from <= now && now <= self.until
    }

    // ----- what is asked for -----

    /// All clients begin.
    fn begin(&mut self, port: &mut dyn Port, now: Time) {
        self.has_begun = true;
        for index in 0..self.clients.len() {
            match self.address {
                Some(_) => self.refill(port, index, now),
                None => self.connect(port, index),
            }
        }
    }

    /// Has the client of this way ask as much as it may.
    fn refill(&mut self, port: &mut dyn Port, index: usize, now: Time) {
        if self.mean.is_some() {
            self.arrive(port, now);
            return self.finish_if_done(port, index);
        }
        let client = index / self.nodes;
        while !self.is_stopping && self.is_free(client) && self.ask(client, now, now) {}
        for way in self.ways(client) {
            self.flush(port, way);
            self.finish_if_done(port, way);
        }
    }

    /// A client's ways to the nodes.
    fn ways(&self, client: usize) -> std::ops::Range<usize> {
        client * self.nodes..(client + 1) * self.nodes
    }

    fn is_free(&self, client: usize) -> bool {
        let ways = &self.clients[self.ways(client)];
        let is_there = ways.iter().any(|way| way.is_connected) || self.address.is_some();
        let under_way: usize = ways.iter().map(|way| way.pending.len()).sum();
        is_there && under_way < self.depth
    }

    /// A client's way to the owner of a key, or to the next node that it reaches, which serves the
    /// key if the owner is gone.
    fn way(&mut self, client: usize, key: u32) -> usize {
        let ways = self.ways(client);
        if self.nodes == 1 {
            return ways.start;
        }
        let owner = self.owner(key);
        let mut around = (0..self.nodes).map(|step| ways.start + (owner + step) % self.nodes);
        let reached = around.find(|way| self.clients[*way].is_connected);
        reached.unwrap_or(ways.start + owner)
    }

    fn owner(&mut self, key: u32) -> usize {
        self.key.clear();
        self.setup.items.write_key(key, &mut self.key);
        self.setup.target.node(&self.key)
    }

    /// Whether a key is of those that are asked for.
    fn is_asked_for(&mut self, key: u32) -> bool {
        !self.setup.options.of_first || self.nodes == 1 || self.owner(key) == 0
    }

    /// Open loop: what is due by now takes the clients that are free.
    fn arrive(&mut self, port: &mut dyn Port, now: Time) {
        let Some(mean) = self.mean.filter(|_| !self.is_stopping) else {
            return;
        };
        let clients = self.clients.len() / self.nodes;
        self.is_full = false;
        while self.next_due <= now {
            let mut others = (0..clients).map(|step| (self.turn + step) % clients);
            let free = match self.under_way < clients * self.depth {
                true => others.find(|index| self.is_free(*index)),
                false => None,
            };
            let Some(client) = free else {
                self.is_full = true;
                return;
            };
            self.turn = client + 1;
            let due = self.next_due;
            self.next_due = due + self.rng.exponential(mean);
            self.ask(client, due, now);
            self.ways(client).for_each(|way| self.flush(port, way));
        }
    }

    /// Has a client ask for something, which the next flush sends. False where there is nothing
    /// more to ask for.
    fn ask(&mut self, client: usize, due: Time, now: Time) -> bool {
        let setup = Arc::clone(&self.setup);
        let (options, items, versions) = (&setup.options, &setup.items, &setup.versions);
        let mut asked = self.spare.pop().unwrap_or_default();
        asked.keys.clear();
        asked.input.clear();
        asked.gone.clear();
        (asked.answered, asked.hits, asked.part) = (0, 0, (0, 0));
        asked.is_refused = false;
        let write = match setup.task {
            Task::Fill => {
                let keys = &self.keys;
                let write = |number: u64| {
                    let key = keys.start + (number % keys.len() as u64) as u32;
                    Some((key, versions.begin(key)?))
                };
                match self.fill.find_map(write) {
                    Some(write) => Some(write),
                    None => return false,
                }
            }
            Task::Measure { .. } => self.choose_write(items, versions),
        };
        match write {
            Some((key, _)) => asked.keys.push((key, 0)),
            None => self.choose_keys(options.batch, items, versions, &mut asked.keys),
        }
        let way = self.way(client, asked.keys[0].0);
        let client = &mut self.clients[way];
        asked.is_write = write.is_some();
        asked.id = client.next_id;
        client.next_id = client.next_id.wrapping_add(1);
        (asked.started, asked.sent) = (if self.mean.is_some() { due } else { now }, now);
        let version = write.map_or(0, |(_, version)| version);
        if self.address.is_some() {
            write_request(
                options.words,
                &asked,
                version,
                items,
                true,
                &mut self.unsent,
            );
            self.ends.push(self.unsent.len());
        } else {
            let out = &mut client.out;
            out.write(|out| write_request(options.words, &asked, version, items, false, out));
        }
        client.pending.push_back(asked);
        self.under_way += 1;
        true
    }

    /// Keys to be asked for, all of one node, as clients of several send them.
    fn choose_keys(
        &mut self,
        count: usize,
        items: &Items,
        versions: &Versions,
        keys: &mut Vec<(u32, u32)>,
    ) {
        let mut owner = None;
        while keys.len() < count {
            let key = items.choose(&mut self.rng);
            if !self.is_asked_for(key) {
                continue;
            }
            if count > 1 && self.nodes > 1 {
                let of_key = self.owner(key);
                if *owner.get_or_insert(of_key) != of_key {
                    continue;
                }
            }
            keys.push((key, versions.oldest(key)));
        }
    }

    /// Whether the next request is to write.
    fn is_to_write(&mut self) -> bool {
        f64::from(self.rng.below(1_000_000)) < self.setup.options.writes * 1e4
    }

    /// A key to be written, with its version, if this request is to write and there is one.
    fn choose_write(&mut self, items: &Items, versions: &Versions) -> Option<(u32, u32)> {
        if !self.is_to_write() {
            return None;
        }
        let first = items.choose(&mut self.rng);
        let keys = (0..TRIES)
            .map(|step| ((u64::from(first) + u64::from(step)) % u64::from(items.count)) as u32);
        keys.filter(|key| self.is_asked_for(*key))
            .find_map(|key| Some((key, versions.begin(key)?)))
    }

    // ----- connections -----

    /// Sends what is written.
    fn flush(&mut self, port: &mut dyn Port, index: usize) {
        if let Some(address) = self.address {
            return self.send_datagrams(port, index, address);
        }
        let client = &mut self.clients[index];
        if let (Some(connection), true) = (client.connection, client.is_connected) {
            let flushed = client.out.flush(port, connection);
            self.flushed(port, index, flushed);
        }
    }

    /// Sends datagrams of a client together: what the socket does not take is lost, as any may be.
    fn send_datagrams(&mut self, port: &mut dyn Port, index: usize, address: SocketAddr) {
        let mut batch = [Datagram::new(address, &[]); DATAGRAMS];
        let mut start = 0;
        for ends in self.ends.chunks(DATAGRAMS) {
            for (datagram, &end) in batch.iter_mut().zip(ends) {
                datagram.bytes = &self.unsent[start..end];
                start = end;
            }
            port.send_datagrams(socket(index), &batch[..ends.len()]);
        }
        self.unsent.clear();
        self.ends.clear();
    }

    fn flushed(&mut self, port: &mut dyn Port, index: usize, flushed: Flushed) {
        if flushed == Flushed::Gone {
            self.give_up(port, index, "connection closed while sending");
        }
    }

    fn connect(&mut self, port: &mut dyn Port, index: usize) {
        self.clients[index].retry_at = None;
        match port.connect(&self.setup.target.nodes[index % self.nodes].peer) {
            Ok(connection) => {
                let slot = connection.slot() as usize;
                if self.slots.len() <= slot {
                    self.slots.resize(slot + 1, u32::MAX);
                }
                self.slots[slot] = index as u32;
                self.clients[index].connection = Some(connection);
            }
            Err(error) => self.give_up(port, index, &format!("connect: {error}")),
        }
    }

    /// The connection cannot go on: what was under way got no answer, and another one follows.
    fn give_up(&mut self, port: &mut dyn Port, index: usize, reason: &str) {
        let client = &mut self.clients[index];
        if let Some(connection) = client.disconnected() {
            port.abort(connection);
        }
        let lost = client.pending.len();
        self.under_way -= lost;
        // A write among them may yet come about: its key is left as it is.
        self.spare.extend(client.pending.drain(..));
        (0..lost.max(1)).for_each(|_| self.error(reason));
        self.clients[index].retry_at = Some(monotonic() + PAUSE);
        self.finish_if_done(port, index);
    }

    fn error(&mut self, kind: &str) {
        self.counts.error(kind);
        if matches!(self.setup.task, Task::Fill) && self.counts.errors() >= FILL_ERRORS_MAX {
            self.fill = 0..0;
        }
    }

    /// The client of a connection.
    fn client(&self, connection: rhythm_net::ConnectionId) -> Option<usize> {
        let index = *self.slots.get(connection.slot() as usize)? as usize;
        (self.clients.get(index)?.connection == Some(connection)).then_some(index)
    }

    // ----- the end -----

    /// Nothing more is asked for; what is under way is still awaited.
    fn stop(&mut self, port: &mut dyn Port) {
        self.is_stopping = true;
        // What was due and found no client free has waited until now at least.
        while let Some(mean) = self.mean.filter(|_| self.next_due < self.until) {
            if self.is_measuring(self.next_due) {
                let is_write = self.is_to_write();
                let waited = self.until.since(self.next_due);
                self.counts.never_sent(is_write, waited);
            }
            self.next_due += self.rng.exponential(mean);
        }
        (0..self.clients.len()).for_each(|index| self.finish_if_done(port, index));
    }

    /// Ends a client that has nothing to ask and nothing under way.
    fn finish_if_done(&mut self, port: &mut dyn Port, index: usize) {
        let is_filled = matches!(self.setup.task, Task::Fill) && self.fill.is_empty();
        let client = &mut self.clients[index];
        let has_more = !(self.is_stopping || is_filled);
        if has_more || client.is_done || !client.pending.is_empty() {
            return;
        }
        client.is_done = true;
        client.retry_at = None;
        if let Some(connection) = client.disconnected() {
            port.close(connection);
        }
        self.done += 1;
    }

    /// All clients are done: tells what became of their requests.
    fn report(&mut self) {
        let counts = std::mem::replace(&mut self.counts, Counts::new());
        // Nobody listens where the run was given up.
        let _ = self.results.send(counts);
    }
}

/// The datagram socket of a client: each has its own.
pub(super) fn socket(index: usize) -> DatagramId {
    DatagramId {
        index: index as u32,
        role: Role(index as u32),
    }
}
