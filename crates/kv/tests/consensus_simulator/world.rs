//! The nodes, and what is between them.

mod end;
mod mischief;
mod still;

pub(crate) use end::without_leader;
pub(crate) use still::holds_a_lease_over_a_standstill;

use crate::clients::Clients;
use crate::disk::SimDisk;
use crate::random::Random;
use crate::sabotage::Sabotage;
use rhythm_kv::consensus::{
    Answer, Change, Command, Effects, EndError, Node, OpenError, Options, Outcome, Read, Request,
};
use rhythm_net::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// How long there is trouble, and how long it then takes at most until all is well.
const TROUBLE: Duration = Duration::from_secs(25);
const QUIET: Duration = Duration::from_secs(25);
/// Journals are summed up soon.
const JOURNAL_BYTES: u64 = 600;
/// Many more events than a run has: a node whose time is always there already makes no end.
const EVENTS_MAX: u64 = 5_000_000;

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) changed: u64,
    pub(crate) read: u64,
    pub(crate) perhaps: u64,
    pub(crate) nothing: u64,
    pub(crate) crashes: u64,
    pub(crate) torn: u64,
    pub(crate) leaders: u64,
    pub(crate) snapshots: u64,
    pub(crate) leases_ended: u64,
    pub(crate) disk_full: u64,
    /// Nodes that ended as they were told to, nodes that were replaced, and slow networks.
    pub(crate) left: u64,
    pub(crate) replaced: u64,
    pub(crate) slow: u64,
    /// Disks on which a sync failed.
    pub(crate) unsynced: u64,
    /// Journals that were found to be damaged, and clients that left before they were answered.
    pub(crate) damaged: u64,
    pub(crate) gone: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.changed += more.changed;
        self.read += more.read;
        self.perhaps += more.perhaps;
        self.nothing += more.nothing;
        self.crashes += more.crashes;
        self.torn += more.torn;
        self.leaders += more.leaders;
        self.snapshots += more.snapshots;
        self.leases_ended += more.leases_ended;
        self.disk_full += more.disk_full;
        self.left += more.left;
        self.replaced += more.replaced;
        self.slow += more.slow;
        self.unsynced += more.unsynced;
        self.damaged += more.damaged;
        self.gone += more.gone;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Frame {
        from: usize,
        to: usize,
        frame: Vec<u8>,
    },
    Wake {
        node: usize,
        life: u64,
    },
    Restart {
        node: usize,
    },
    Client {
        client: u64,
    },
    Trouble,
    DiskWell {
        node: usize,
    },
    /// A node that was told to end may have done so.
    Leave {
        node: usize,
        life: u64,
    },
    /// The next step of a node's being replaced.
    Replace,
}

/// A place for a node.
struct Seat {
    node: Option<Node<SimDisk>>,
    disk: SimDisk,
    /// How often it was started, and the seconds that its clock is behind.
    life: u64,
    behind: u64,
    /// It stands still until then, and everything that is for it waits.
    still_until: Time,
    /// Since when it is to end.
    leaves: Option<Time>,
    /// Up to which revision it told of changes.
    told: u64,
}

/// A node whose machine is gone, and the last term that it may have known of.
#[derive(Clone, Copy)]
struct Replacement {
    node: usize,
    term: Option<u64>,
}

struct World {
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    seats: Vec<Seat>,
    /// Of 100 frames.
    lost: u64,
    repeated: u64,
    /// Who does not hear whom, and until when.
    deaf: BTreeMap<(usize, usize), Time>,
    /// Every frame takes long; and when the last one came from one to another, as connections keep
    /// the order.
    is_slow: bool,
    came: BTreeMap<(usize, usize), Time>,
    replacement: Option<Replacement>,
    clients: Clients,
    /// What every node has to say of each revision.
    changes: BTreeMap<u64, Change>,
    terms: BTreeMap<u64, u64>,
    has_trouble: bool,
    sabotage: Sabotage,
    counts: Counts,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, sabotage: Sabotage) -> Counts {
    let mut random = Random::new(seed);
    let nodes = [1, 3, 3, 3, 5][random.below(5) as usize];
    let (lost, repeated) = (random.below(8), random.below(8));
    let is_slow = random.percent(10);
    let mut world = World::new(nodes, random);
    (world.lost, world.repeated, world.is_slow) = (lost, repeated, is_slow);
    (world.has_trouble, world.sabotage) = (true, sabotage);
    if sabotage == Sabotage::DisksLie {
        world.seats.iter().for_each(|seat| seat.disk.lie());
    }
    for client in 0..4 {
        world.after(Duration::from_secs(1), Event::Client { client });
    }
    world.after(Duration::from_secs(2), Event::Trouble);
    world.until(Time::ZERO + TROUBLE);
    world.end_trouble();
    if world.is_slow {
        world.serve_slowly();
    }
    world.until(world.now + QUIET);
    world.check()
}

impl World {
    /// Nodes that begin, with all well between them.
    fn new(nodes: usize, random: Random) -> World {
        let mut world = World {
            lost: 0,
            repeated: 0,
            is_slow: false,
            came: BTreeMap::new(),
            replacement: None,
            now: Time::ZERO,
            events: BinaryHeap::new(),
            count: 0,
            seats: Vec::new(),
            deaf: BTreeMap::new(),
            clients: Clients::new(),
            changes: BTreeMap::new(),
            terms: BTreeMap::new(),
            has_trouble: false,
            sabotage: Sabotage::None,
            counts: Counts::default(),
            random,
        };
        for node in 0..nodes {
            world.seats.push(Seat {
                node: None,
                disk: SimDisk::default(),
                life: 0,
                behind: 0,
                still_until: Time::ZERO,
                leaves: None,
                told: 0,
            });
            world.after(Duration::ZERO, Event::Restart { node });
        }
        world
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.count += 1;
        assert!(self.count < EVENTS_MAX, "it makes no end: {event:?}");
        let at = self.now + wait;
        self.events.push(Reverse((at, self.count, event)));
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.random.below(to - from))
    }

    fn until(&mut self, end: Time) {
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at < end
            && let Some(Reverse((at, _, event))) = self.events.pop()
        {
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        // What is for a node that stands still comes when it goes on.
        if let Event::Frame { to: node, .. } | Event::Wake { node, .. } = event {
            let until = self.seats[node].still_until;
            if until > self.now {
                let wait = until.since(self.now);
                return self.after(wait, event);
            }
        }
        match event {
            Event::Frame { from, to, frame } => {
                let is_deaf = |until: &Time| *until > self.now;
                if self.deaf.get(&(from, to)).is_some_and(is_deaf) {
                    return;
                }
                if let Some(node) = &mut self.seats[to].node {
                    node.frame(&frame).expect("a frame of this keyspace");
                    self.flush(to);
                }
            }
            Event::Wake { node: at, life } => {
                let seat = &mut self.seats[at];
                if let Some(node) = &mut seat.node
                    && seat.life == life
                {
                    node.tick(self.now);
                    let wait = node.wake_at().since(self.now);
                    self.after(wait, Event::Wake { node: at, life });
                    self.flush(at);
                }
            }
            Event::Restart { node } if self.is_gone(node) => {}
            Event::Restart { node } => self.start(node),
            Event::Client { client } => self.client(client),
            Event::Trouble => self.trouble(),
            Event::DiskWell { node } => self.seats[node].disk.set_well(),
            Event::Leave { node, life } => self.end(node, life),
            Event::Replace => self.replace_on(),
        }
    }

    fn options(&mut self, at: usize) -> Options {
        let second = self.now.since(Time::ZERO).as_secs();
        Options {
            id: at as u64 + 1,
            nodes: self.seats.len() as u64,
            digest: 99,
            whose: at as u64,
            seed: at as u64 * 7919 + self.random.below(1 << 20),
            started: second.saturating_sub(self.seats[at].behind),
            journal_bytes: JOURNAL_BYTES,
        }
    }

    fn start(&mut self, at: usize) {
        let options = self.options(at);
        let seat = &mut self.seats[at];
        self.counts.unsynced += u64::from(seat.disk.has_failed());
        let (journal, is_torn) = seat.disk.crash(&mut self.random);
        self.counts.torn += u64::from(is_torn);
        let forgets = self.sabotage == Sabotage::Forgets && seat.life > 0;
        let journal = match forgets && self.random.percent(20) {
            true => {
                seat.disk.lose();
                Vec::new()
            }
            false => journal,
        };
        seat.life += 1;
        seat.leaves = None;
        // What it executes again was told of before.
        seat.told = 0;
        match Node::open(options, seat.disk.clone(), &journal, self.now) {
            Ok(node) => {
                let (life, wait) = (seat.life, node.wake_at().since(self.now));
                seat.node = Some(node);
                self.after(wait, Event::Wake { node: at, life });
            }
            Err(OpenError::Unwritten(_)) => {
                self.after(Duration::from_millis(500), Event::Restart { node: at });
            }
            Err(error) => panic!("node {at}: {error}"),
        }
    }

    /// Has a node do what there is to do. It may die of it.
    fn flush(&mut self, at: usize) {
        let Some(node) = &mut self.seats[at].node else {
            return;
        };
        let mut effects = Effects::default();
        let flushed = node.flush(self.now, &mut effects);
        let status = node.status();
        if let Err(error) = flushed {
            // Nobody forgets what it confirmed, and all are of one release.
            assert!(
                matches!(error, EndError::Unwritten(_)),
                "node {at}: {error}"
            );
            // Some of what it sent before may be on its way; nobody was answered.
            let kept = self.random.below(effects.frames.len() as u64 + 1) as usize;
            effects.frames.truncate(kept);
            effects.answers.clear();
            self.die(at);
        } else if status.leader == at as u64 + 1 {
            let other = *self.terms.entry(status.term).or_insert_with(|| {
                self.counts.leaders += 1;
                status.leader
            });
            assert_eq!(other, status.leader, "two lead in term {}", status.term);
        }
        for change in effects.changes {
            let told = &mut self.seats[at].told;
            assert!(change.revision > *told, "a revision comes once: {change:?}");
            *told = change.revision;
            let before = self.changes.entry(change.revision);
            let before = before.or_insert_with(|| change.clone());
            assert_eq!(*before, change, "nodes tell of the same changes");
        }
        self.counts.snapshots += u64::from(effects.skipped);
        for (to, frame) in effects.frames {
            self.send(at, to as usize - 1, frame);
        }
        for (ticket, answer) in effects.answers {
            let answer = match answer {
                Answer::PerhapsDone if self.sabotage == Sabotage::DeniesAll => Answer::NothingDone,
                answer => answer,
            };
            self.clients
                .answered(ticket, answer, self.now, &mut self.counts);
        }
    }

    fn send(&mut self, from: usize, to: usize, frame: Vec<u8>) {
        if self.random.percent(self.lost) {
            return;
        }
        let copies = 1 + u64::from(self.random.percent(self.repeated));
        for _ in 0..copies {
            let wait = match self.random.below(50) {
                _ if self.is_slow => self.in_order(from, to),
                0 if self.has_trouble => self.millis(20, 2000),
                1..5 if self.has_trouble => self.millis(5, 60),
                _ => self.millis(1, 5),
            };
            let frame = frame.clone();
            self.after(wait, Event::Frame { from, to, frame });
        }
    }

    /// How long a frame takes where all take long, behind the one before it.
    fn in_order(&mut self, from: usize, to: usize) -> Duration {
        let at = self.now + self.millis(300, 800);
        let came = self.came.entry((from, to)).or_insert(at);
        *came = at.max(*came);
        came.since(self.now)
    }

    /// Whether a node's machine is gone, and no other has its place yet.
    fn is_gone(&self, at: usize) -> bool {
        self.replacement
            .is_some_and(|replacement| replacement.node == at)
    }

    fn die(&mut self, at: usize) {
        self.counts.crashes += 1;
        self.stop(at);
    }

    fn stop(&mut self, at: usize) {
        self.seats[at].node = None;
        self.clients.died(at);
        let wait = self.millis(50, 3000);
        self.after(wait, Event::Restart { node: at });
    }

    fn client(&mut self, client: u64) {
        if !self.has_trouble {
            return;
        }
        let at = self.random.below(self.seats.len() as u64) as usize;
        let seat = &mut self.seats[at];
        if let Some(node) = &mut seat.node
            && seat.still_until <= self.now
            && seat.leaves.is_none()
        {
            let random = &mut self.random;
            let (ticket, request) = match client {
                0 => self.clients.hold(at, random, self.now),
                _ => self.clients.ask(at, random),
            };
            let answered = match (self.sabotage, &request) {
                (Sabotage::ReadsAlone, Request::Read(Read::Item(key))) => {
                    Some(Answer::Item(node.keyspace().get(key).cloned()))
                }
                (Sabotage::DropsRenewals, Request::Change(Command::Renew { lease })) => {
                    Some(Answer::Done(Outcome::Alive(*lease)))
                }
                _ => None,
            };
            if let Some(answer) = answered {
                (self.clients).answered(ticket, answer, self.now, &mut self.counts);
            } else {
                let again = (self.sabotage == Sabotage::DoesTwice).then(|| request.clone());
                node.ask(ticket, request, self.now);
                if let Some(request) = again {
                    node.ask(self.clients.nobodys(at), request, self.now);
                }
            }
            if random.percent(10)
                && let Some(ticket) = self.clients.leave(at)
            {
                node.forget(ticket);
                self.counts.gone += 1;
            }
            self.flush(at);
        }
        // The holder is silent for too long now and then.
        let wait = match (client, self.random.below(20)) {
            (0, 0) => self.millis(2000, 6000),
            (0, _) => self.millis(200, 900),
            (_, 0) => self.millis(500, 3000),
            _ => self.millis(10, 500),
        };
        self.after(wait, Event::Client { client });
    }
}
