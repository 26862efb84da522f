//! The thread of the ring: the [`Node`] between the backbone and the workers.
//!
//! ```text
//!   workers -- Turn: what was written, commands to be passed on --> Node -- frames --> Lines or
//!           <- Told: released, answers, fences --------------------      <- frames --  Stations
//! ```
//!
//! Frames go over TCP ([`Lines`]) or over Ethernet ([`Stations`]). Either may lose some, when a
//! connection breaks or a stream begins anew; they are sent again: the node sees to that.

mod coming;
mod leaving;
mod served;
mod stations;

use super::orders::{Forward, Order, RingOrder, Told};
use crate::class::{Class, Classes};
use crate::execute::{Parsed, Turn};
use crate::lines::Lines;
use crate::membership::Membership;
use crate::registration::{News, Registration};
use crate::ring::{
    Effects, Execute, Local, Member, Node, Options, RangeStatus, Scheme, Status, Ticket, View,
    Written,
};
use crate::shared::Shared;
use crate::store::Worker as StoreWorker;
use crate::wire::{self as memcached, Command, Commands, Rules, Stream};
use leaving::Leaving;
use rhythm_net::sparse::Sparse;
use rhythm_net::{
    Accepted, ConnectionId, Datagram, DatagramId, Ended, Handler, Inbox, Link, Peer, Port, Time,
    clock,
};
use served::{Moved, Served};
use stations::Stations;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes for another node that may be untaken before frames for it are dropped, beside the longest.
const UNTAKEN_MAX: usize = 16 << 20;
/// Bytes of a frame beside the longest item's.
const BESIDE_ITEM: usize = 256 << 10;
/// How long clients have to take their answers, when others serve what this node did: as those of a
/// server by itself at SIGTERM.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// How long a node that leaves waits, when its workers have ended, until others have what was sent
/// to them.
const DRAINED_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked whether it may end.
const END_EVERY: Duration = Duration::from_millis(5);
/// How often it is told how the ring is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// How frames come to other nodes.
enum Way {
    Tcp(Lines),
    Ether(Stations),
}

/// See the head of this file.
pub(super) struct Backbone {
    shared: Arc<Shared>,
    view: Arc<View>,
    scheme: Scheme,
    /// The classes of commands that are answered when the copies exist.
    acked: Classes,
    rules: Rules,
    node: Node,
    store: StoreWorker,
    way: Way,
    workers: Vec<Inbox<Order>>,
    effects: Effects,
    /// What each worker is to be told, from before it is known on: it may be at work by then.
    told: Vec<Told>,
    /// The last fence that each worker has answered.
    fenced: Vec<u64>,
    commands: Commands,
    wake_at: Time,
    tell_at: Time,
    end: End,
    /// Lines of the log about frames that are none.
    refusals: Sparse,
    served: Served,
}

/// How the end of a node comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Not yet.
    Serves,
    /// It hands over what it serves.
    Leaves(Leaving),
    /// The workers were told to end.
    HasLeft,
    /// Since then they have, and what they sent is on its way.
    Drains(Time),
    /// Since then the others are told.
    Gone(Time),
    Over,
}

impl Backbone {
    /// Over Ethernet, `link` tells of that.
    pub(super) fn new(
        shared: Arc<Shared>,
        ring: &Membership,
        link: Option<Link>,
        session: u64,
        store: StoreWorker,
        now: Time,
    ) -> Backbone {
        let new = || Arc::new(View::new(ring.placement(), ring.me));
        let view = shared.ring.clone().unwrap_or_else(new);
        let options = Options {
            scheme: ring.scheme,
            replicas: ring.replicas,
            elsewhere: Some(ring.elsewhere),
            acked: !ring.replicate.acked().is_empty(),
            lease: ring.etcd.as_ref().map(Registration::lasts),
            ..Options::default()
        };
        view.set_members(ring.members.clone());
        let (terms, roster) = (ring.terms(shared.settings.item_max), ring.roster());
        let (of_node, of_view) = (terms.clone(), Arc::clone(&view));
        let mut node = Node::new(of_node, session, options, of_view, roster, now);
        let mut effects = Effects::default();
        if let Some(registration) = &ring.etcd {
            node.renewed(registration.lease, now, &mut effects);
        }
        let threads = shared.settings.threads;
        let untaken_max = UNTAKEN_MAX + frame_max(&shared);
        let way = match link {
            Some(link) => {
                let stations = Stations::new(ring, &terms, link, session, untaken_max, now);
                Way::Ether(stations)
            }
            None => {
                let peers = peers(&ring.members, ring.roster().places());
                Way::Tcp(Lines::new(ring.me, peers, untaken_max))
            }
        };
        Backbone {
            rules: Rules {
                users: Arc::default(),
                ..shared.rules.clone()
            },
            scheme: ring.scheme,
            acked: ring.replicate.acked(),
            node,
            view,
            store,
            way,
            workers: Vec::new(),
            effects,
            told: (0..threads).map(|_| Told::default()).collect(),
            fenced: vec![0; threads],
            commands: Commands::default(),
            wake_at: now,
            tell_at: now,
            end: End::Serves,
            refusals: Sparse::default(),
            served: Served::default(),
            shared,
        }
    }

    /// What etcd says.
    fn news(&mut self, port: &mut dyn Port, news: News) {
        match news {
            News::Members(members) => {
                let names = members.values().map(|member| member.name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                tracing::info!(members = names, "who is in the ring");
                let roster = self.scheme.ranked(&members);
                match &mut self.way {
                    // One that is not among them speaks on to those it knew.
                    Way::Tcp(lines) if members.contains_key(&self.view.me()) => {
                        lines.enlist(port, peers(&members, roster.places()));
                        self.view.set_members(members);
                    }
                    Way::Tcp(_) => {}
                    Way::Ether(_) => debug_assert!(false, "over Ethernet the nodes stay"),
                }
                self.with(|node, _, now, out| node.enroll(roster, now, out));
            }
            News::Lease(lease) => {
                self.with(|node, _, now, out| node.renewed(lease, now, out));
            }
            News::Leave => self.shared.shut_down(true),
            News::Replaced => {
                self.shared.is_replaced.store(true, Ordering::Release);
                self.workers.iter().for_each(Inbox::stop);
            }
        }
    }

    /// Has the node do something with the store at hand, and executes what it wants executed. It is
    /// told the time by the clock and not by the turn: the process may have been stopped since.
    fn with(&mut self, act: impl FnOnce(&mut Node, &mut Local<'_, '_>, Time, &mut Effects)) {
        let now = clock::monotonic();
        let second = self.shared.clock(now).now;
        let mut pinned = self.store.pin();
        let mut local = Local::new(&mut pinned, second);
        act(&mut self.node, &mut local, now, &mut self.effects);
        drop(pinned);
        // One that was executed may have the next taken on.
        while !self.effects.executes.is_empty() {
            for execute in std::mem::take(&mut self.effects.executes) {
                self.execute(&execute, now);
            }
        }
        if let Some(fence) = self.effects.fence.take() {
            self.told
                .iter_mut()
                .for_each(|told| told.fence = Some(fence));
        }
    }

    /// Executes a command that another node, or a worker of this one, passed on.
    fn execute(&mut self, execute: &Execute, now: Time) {
        let bytes = &execute.command[..];
        self.commands.clear();
        let mut stream = Stream::default();
        memcached::parse(
            &mut stream,
            &self.rules,
            bytes,
            usize::MAX,
            &mut self.commands,
        );
        let clock = self.shared.clock(now);
        let counters = self.shared.counters(self.shared.settings.threads);
        let pinned = self.store.pin();
        let turn = Turn::new(pinned, clock, &self.shared, counters);
        let may_write = self.view.may_write(clock::monotonic());
        let mut written = Written::default();
        let mut turn = turn.noting(&mut written).writing_if(may_write);
        let mut answer = Vec::new();
        for command in &self.commands.list {
            let commands = &self.commands;
            let parsed = Parsed { bytes, commands };
            let key = command.key.of(bytes, &commands.decoded);
            let hash = self.shared.store.hash(key);
            let before = answer.len();
            // It closes nothing here: the connection is the other node's.
            let _ = turn.execute(parsed, command, hash, &mut answer);
            if let Some((at, long)) = turn.take_long() {
                debug_assert!(at >= before);
                answer.splice(at..at, long.iter().copied());
            }
        }
        drop(turn);
        let of = |command: &Command| Class::of(command.kind, &self.commands);
        if !(self.commands.list.iter()).any(|command| self.acked.has(of(command))) {
            written.answer_at_once();
        }
        let mut pinned = self.store.pin();
        let local = Local::new(&mut pinned, clock.now);
        let (node, effects) = (&mut self.node, &mut self.effects);
        node.executed(execute, answer, &written, &local, effects);
    }

    /// Sends what the node has to say, to the others and to the workers.
    fn send(&mut self, port: &mut dyn Port, now: Time) {
        self.end(now);
        self.node.flush(now, &mut self.effects);
        for (node, frames) in self.effects.frames.iter_mut().enumerate() {
            match &mut self.way {
                Way::Tcp(lines) => lines.send(port, node, frames, now),
                Way::Ether(stations) => stations.send(node, frames),
            }
            frames.clear();
        }
        let way_wakes_at = match &mut self.way {
            Way::Tcp(_) => Time::NEVER,
            Way::Ether(stations) => stations.flush(port, self.node.alive(), now),
        };
        for ticket in self.effects.released.drain(..) {
            let Ticket { worker, number } = ticket;
            self.told[worker].released = Some(number);
        }
        for Ticket { worker, number } in self.effects.broken.drain(..) {
            self.told[worker].broken.push(number);
        }
        for (ticket, answer) in self.effects.answers.drain(..) {
            self.told[ticket.worker]
                .answers
                .push((ticket.number, answer));
        }
        for (worker, told) in self.workers.iter().zip(&mut self.told) {
            if !told.is_empty() {
                worker.send(Order::Ring(std::mem::take(told)));
            }
        }
        if self.tell_at <= now {
            self.tell_at = now + TELL_EVERY;
            let status = self.node.status(now);
            self.tell_ranges(&status, now);
            self.view.set_status(status);
        }
        let soon = match self.end {
            End::Serves => TELL_EVERY,
            _ => END_EVERY,
        };
        let wake_at = self.node.wake_at().min(now + soon);
        self.wake_at = wake_at.min(way_wakes_at);
    }

    /// Says in the log which ranges this node serves, when that has changed.
    fn tell_ranges(&mut self, status: &Status, now: Time) {
        let is_mine = |range: &RangeStatus| {
            range.claim.epoch > 0 && usize::from(range.claim.node) == self.view.me()
        };
        let ranges = status.ranges.iter().enumerate();
        let mine = ranges.filter(|(_, range)| is_mine(range));
        let mine = mine.fold(0, |set, (range, _)| set | 1 << range);
        if let Some(Moved { serves, took, gave }) = self.served.see(mine, now) {
            let of = status.ranges.len();
            let [serves, took, gave] = [serves, took, gave].map(u64::count_ones);
            tracing::info!(
                serves,
                of,
                took,
                gave,
                "ranges moved: so many this node serves now"
            );
        }
    }

    /// The next step of its end, if it is due.
    fn end(&mut self, now: Time) {
        self.end = match self.end {
            End::Leaves(ref mut leaving) => {
                let (steps, is_free) = (self.node.reached(), self.node.has_handed_over());
                if !leaving.is_over(steps, is_free, now) && !self.node.has_left(now) {
                    return;
                }
                if self.node.has_handed_over() {
                    tracing::info!("other nodes serve what this one served");
                } else {
                    tracing::warn!("no other node took over what this one serves");
                }
                self.shared.standing.end_at(now + TAKEN_WITHIN);
                let workers = self.workers.iter();
                workers.for_each(|worker| worker.send(Order::End));
                End::HasLeft
            }
            End::Drains(since) if self.node.is_drained() || now.since(since) >= DRAINED_WITHIN => {
                self.node.go(now);
                End::Gone(now)
            }
            End::Gone(since) => {
                let is_sent = match &self.way {
                    Way::Tcp(lines) => lines.are_empty(),
                    Way::Ether(stations) => stations.are_empty(),
                };
                match is_sent || now.since(since) >= DRAINED_WITHIN {
                    true => End::Over,
                    false => return,
                }
            }
            end => end,
        };
    }
}

/// Where the nodes of these places are.
fn peers(members: &BTreeMap<usize, Member>, places: usize) -> Vec<Option<Peer>> {
    let peer = |member: &Member| Peer::tcp(member.name.as_str(), member.backbone);
    let places = 0..places;
    places.map(|node| members.get(&node).map(peer)).collect()
}

/// The longest frame.
fn frame_max(shared: &Shared) -> usize {
    shared.settings.item_max as usize + BESIDE_ITEM
}

impl Drop for Backbone {
    /// A server whose ring is gone does not go on by itself.
    fn drop(&mut self) {
        self.workers.iter().for_each(Inbox::stop);
    }
}

impl Handler for Backbone {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        if let Way::Tcp(lines) = &mut self.way {
            lines.opened(port, accepted, now);
        }
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.came_on_line(port, id, bytes, now);
    }

    fn connected(&mut self, _: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Way::Tcp(lines) = &mut self.way
            && let Some(node) = lines.connected(id)
        {
            self.node.connected(node, now);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        if let Way::Tcp(lines) = &mut self.way {
            lines.writable(port, id);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        if let Way::Tcp(lines) = &mut self.way {
            lines.ended(port, id, how, now);
        }
    }

    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        _: DatagramId,
        datagrams: &[Datagram<'_>],
        now: Time,
    ) {
        for datagram in datagrams {
            self.came_over_ethernet(port, datagram, now);
        }
    }

    fn tick(&mut self, _: &mut dyn Port, _: Time) {
        self.with(|node, local, now, out| node.tick(local, now, out));
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.send(port, now);
    }

    fn wake_at(&self) -> Option<Time> {
        Some(self.wake_at)
    }

    fn finished(&self) -> bool {
        self.end == End::Over
    }
}

impl rhythm_net::Worker for Backbone {
    type Command = RingOrder;

    fn obey(&mut self, port: &mut dyn Port, order: RingOrder, now: Time) {
        match order {
            RingOrder::Workers(workers) => {
                debug_assert_eq!(workers.len(), self.told.len(), "one for each thread");
                self.workers = workers;
            }
            RingOrder::Turn {
                worker,
                ticket: number,
                written,
                is_awaited,
                forwards,
            } => {
                self.view.takes(&written);
                self.with(|node, local, now, out| {
                    let ticket = Ticket { worker, number };
                    let awaits = is_awaited.then_some(ticket);
                    if is_awaited || !written.is_empty() {
                        node.written(awaits, &written, local);
                    }
                    node.took(ticket);
                    for Forward {
                        number,
                        road,
                        command,
                    } in forwards
                    {
                        let ticket = Ticket { worker, number };
                        node.forward(ticket, road, command, now, out);
                    }
                });
            }
            RingOrder::News(news) => self.news(port, news),
            RingOrder::Leave if self.end == End::Serves => {
                tracing::info!("this node leaves the ring");
                self.end = End::Leaves(Leaving::new(now));
                self.node.leave(now);
            }
            RingOrder::Leave => {}
            RingOrder::Go => self.end = End::Drains(now),
            RingOrder::Fenced { worker, fence } => {
                // One fence may be asked for twice: each worker's answers count by themselves.
                let before = self.fenced.iter().min().copied();
                self.fenced[worker] = fence.max(self.fenced[worker]);
                let all = self.fenced.iter().min().copied();
                if let Some(fence) = all.filter(|_| all > before) {
                    self.with(|node, _, now, out| node.fenced(fence, now, out));
                }
            }
        }
    }
}
