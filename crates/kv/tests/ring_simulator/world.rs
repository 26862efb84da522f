//! The world: what happens when, by the seed, and what must hold.

mod copies;
mod end;
mod flushes;
mod mischief;

use crate::cluster::{Answer, Done, FLUSH, Live, Op, key};
use crate::history::{History, Write};
use crate::leases::Leases;
use crate::network::{self, Weather};
use crate::random::Random;
use crate::sabotage::Sabotage;
use flushes::Flushing;
use rhythm_kv::ring::{
    Effects, Elsewhere, Lease, Options, Placement, Roster, SESSIONS, Scheme, Unanswered,
};
use rhythm_net::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// How long clients are at it, in microseconds, and how long the ring has to become whole again.
const BUSY: u64 = 12_000_000;
const WHOLE_WITHIN: u64 = 30_000_000;
/// How long a node that leaves may take.
const LEAVES_WITHIN: u64 = 10_000_000;
/// When all others hear one that begins, unless two do not hear each other for long.
const HEARD_WITHIN: u64 = 2_000_000;
/// Many more events than a run has: a node whose time is always there already makes no end.
const EVENTS_MAX: u64 = 20_000_000;

/// What happened in a run, or in several.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: u64,
    pub(crate) unknown: u64,
    pub(crate) not_done: u64,
    pub(crate) reads: u64,
    pub(crate) forwarded: u64,
    pub(crate) crashes: u64,
    pub(crate) partitions: u64,
    pub(crate) left: u64,
    pub(crate) leased: u64,
    pub(crate) stops: u64,
    pub(crate) unreached: u64,
    pub(crate) outages: u64,
    pub(crate) removed: u64,
    pub(crate) frames: u64,
    pub(crate) of_copies: u64,
    pub(crate) of_tails: u64,
    pub(crate) flushes: u64,
    pub(crate) of_neighbors: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.not_done += other.not_done;
        self.reads += other.reads;
        self.forwarded += other.forwarded;
        self.crashes += other.crashes;
        self.partitions += other.partitions;
        self.left += other.left;
        self.leased += other.leased;
        self.stops += other.stops;
        self.unreached += other.unreached;
        self.outages += other.outages;
        self.removed += other.removed;
        self.frames += other.frames;
        self.of_copies += other.of_copies;
        self.of_tails += other.of_tails;
        self.flushes += other.flushes;
        self.of_neighbors += other.of_neighbors;
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame arrives, or a piece of some; both say at the same place who sent it.
    Frame(usize, Vec<u8>),
    /// A node's time has come.
    Tick(usize, u64),
    /// A node takes what its worker handed over until then.
    Take(usize, u64, usize),
    /// A client is to do something.
    Client(usize),
    /// Somebody dies, comes back, or does not hear another.
    Mischief,
    Die(usize, u64),
    Back(usize),
    Heal,
    /// A node is asked to leave, in this life of it, or has had enough time to.
    Leave(usize, u64),
    Go(usize, u64),
    /// A node asks for its lease to be renewed, in this life of it; it hears that it was, when it
    /// asked at that time.
    Renew(usize, u64),
    Renewed(usize, u64, i64, u64),
    /// etcd looks for leases that are over.
    Expire,
    /// A node hears who has a lease.
    Members(usize, u64),
}

/// A command under way: its client, node, key, what it writes, and when it was sent.
struct Asked {
    client: usize,
    node: usize,
    key: usize,
    op: Op,
    at: u64,
    claim: (u64, u8),
}

impl Asked {
    /// Whether the node still knows the claim under which it was asked.
    fn is_served_as(&self, live: Option<&Live>, placement: &Placement) -> bool {
        let range = placement.range(key(self.key).as_bytes());
        live.is_some_and(|live| {
            let claim = live.node.claim(range);
            (claim.epoch, claim.node) == self.claim
        })
    }
}

struct World {
    now: u64,
    random: Random,
    weather: Weather,
    placement: Placement,
    roster: Roster,
    /// None: the nodes stay, and have none.
    leases: Option<Leases>,
    /// Until when each node is stopped.
    stopped: Vec<u64>,
    /// Until when none of each node and etcd hears the other.
    unreached: Vec<u64>,
    /// Who does not, and when; of its own, as below; and whose key is removed.
    of_etcd: Random,
    of_keys: Random,
    /// The lease whose key was removed, until its node asks for it to be renewed; and until when
    /// the node may not know of that.
    removed: Vec<Option<i64>>,
    unaware: Vec<u64>,
    /// The lease that each node was last told of.
    told: Vec<i64>,
    options: Options,
    /// Frames go in pieces of so many bytes, over Ethernet.
    ether: Option<usize>,
    nodes: Vec<Option<Live>>,
    /// How often a node was begun, when it last was, and whether its clock is set back each time.
    lives: Vec<u64>,
    begun: Vec<u64>,
    is_set_back: bool,
    ticks: Vec<u64>,
    deaf: Vec<Vec<bool>>,
    /// Until when frames with messages from one to another are on their way.
    clogged: Vec<Vec<u64>>,
    of_clogs: Random,
    /// When somebody flushes all, if anybody does; the flush that is under way, and until when one
    /// may come about of which nobody knows.
    of_flushes: Option<Random>,
    flushing: Option<Flushing>,
    flushed_until: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    keys: Vec<History>,
    clients: usize,
    busy: Vec<usize>,
    asked: BTreeMap<usize, Asked>,
    commands: usize,
    writes: Write,
    /// Clients ask for nothing more.
    is_quiet: bool,
    /// Checks of what may be lost are off: nodes that cannot hear each other each serve all.
    is_split: bool,
    /// Nodes that may still die without a loss: there is another copy of everything.
    spare: usize,
    /// When writes were last lost, as they may be.
    lost_at: u64,
    counts: Counts,
    trace: bool,
    sabotage: Sabotage,
    /// The key that `RING_KEY` names, and what each node has of it.
    traced: Option<(usize, Vec<Option<u64>>)>,
}

pub(crate) fn run(seed: u64, sabotage: Sabotage) -> Counts {
    let mut random = Random::new(seed);
    let count = 2 + random.below(4) as usize;
    let names: Vec<String> = (0..count).map(|node| format!("node-{node}")).collect();
    let is_leased = random.percent(25);
    let leases = is_leased.then(|| Leases::new(500_000 + random.below(1_000_000), &names));
    // Of its own: seeds that do without are what they always were.
    let scheme = match Random::new(seed ^ 0x5c4e).percent(35) {
        true => Scheme::Primary,
        false if Random::new(seed ^ 0xc4a1).percent(40) => Scheme::Chain,
        false => Scheme::Ring,
    };
    let placement = match is_leased {
        true => scheme.slots(),
        false => scheme.placement(names.iter().map(|name| (name.as_str(), 4711))),
    };
    // Of its own, too: nodes of a ring answer reads from their copies, or those of a primary do
    // not.
    let elsewhere = match Random::new(seed ^ 0xe15e).percent(30) {
        true if scheme == Scheme::Ring => Some(Elsewhere::Serve),
        true if scheme == Scheme::Primary => Some(Elsewhere::Forward),
        _ => None,
    };
    let options = Options {
        scheme,
        elsewhere,
        replicas: 1 + random.below(2.min(count as u64 - 1)) as usize,
        acked: random.percent(70) || scheme == Scheme::Chain,
        queue_max: 1 << 16,
        window: [600, 4000, 1 << 20][random.below(3) as usize],
        sync_rate: [2000, 1 << 20][random.below(2) as usize],
        lease: leases
            .as_ref()
            .map(|leases| Duration::from_micros(leases.lasts)),
        again_after: Duration::from_millis(20 + random.below(100)),
        ..Options::default()
    };
    // Of its own: seeds that do without are what they always were.
    let mut of_ether = Random::new(!seed);
    let pieces = [576, 1500, 9000][of_ether.below(3) as usize];
    // Over Ethernet nodes have no leases.
    let ether = (of_ether.percent(40) && !is_leased).then_some(pieces);
    let clients = 1 + random.below(6) as usize;
    let keys_each = 1 + random.below(30) as usize;
    let mut world = World {
        now: 0,
        weather: Weather::new(&mut random),
        roster: match &leases {
            None => scheme.round(count),
            Some(leases) => leases.roster(u64::MAX >> (64 - count), placement.ranges()),
        },
        placement,
        leases,
        stopped: vec![0; count],
        unreached: vec![0; count],
        of_etcd: Random::new(seed ^ 0xe7cd),
        of_keys: Random::new(seed ^ 0x6e75),
        removed: vec![None; count],
        unaware: vec![0; count],
        told: vec![0; count],
        options,
        ether,
        nodes: (0..count).map(|_| None).collect(),
        lives: vec![0; count],
        begun: vec![0; count],
        is_set_back: Random::new(seed ^ 0xc10c).percent(20),
        ticks: vec![0; count],
        deaf: vec![vec![false; count]; count],
        clogged: vec![vec![0; count]; count],
        // Of its own: what else happens in a seed does not follow from it.
        of_clogs: Random::new(seed ^ 0xc106),
        of_flushes: Some(Random::new(seed ^ 0xf105))
            .filter(|_| Random::new(seed ^ 0xf1).percent(30)),
        flushing: None,
        flushed_until: 0,
        queue: BinaryHeap::new(),
        number: 0,
        keys: (0..clients * keys_each).map(|_| History::new()).collect(),
        clients,
        busy: vec![0; clients],
        asked: BTreeMap::new(),
        commands: 0,
        writes: 0,
        is_quiet: false,
        is_split: false,
        spare: 0,
        lost_at: 0,
        counts: Counts {
            leased: is_leased.into(),
            ..Counts::default()
        },
        trace: std::env::var_os("RING_TRACE").is_some(),
        sabotage,
        traced: crate::number("RING_KEY").map(|key| (key as usize, Vec::new())),
        random,
    };
    for node in 0..count {
        let at = world.random.below(400_000);
        world.push(at, Event::Back(node));
    }
    for client in 0..clients {
        let at = 500_000 + world.random.below(1_000_000);
        world.push(at, Event::Client(client));
    }
    world.push(2_000_000, Event::Mischief);
    world.push(0, Event::Expire);
    world.go(BUSY);
    world.quiet();
    world.counts
}

impl World {
    fn push(&mut self, after: u64, event: Event) {
        self.number += 1;
        assert!(self.number < EVENTS_MAX, "it makes no end: {event:?}");
        let at = self.now + after;
        self.queue.push(Reverse((at, self.number, event)));
    }

    fn time(&self) -> Time {
        Time::from_nanos(1000 * self.now)
    }

    fn go(&mut self, until: u64) {
        while let Some(Reverse((at, _, _))) = self.queue.peek()
            && *at <= until
            && let Some(Reverse((at, _, event))) = self.queue.pop()
        {
            self.now = at;
            self.happen(event);
            self.trace_key();
        }
        self.now = until;
    }

    fn happen(&mut self, event: Event) {
        let now = self.time();
        // What comes to a node that is stopped waits, and what etcd and one that does not reach it
        // say to each other.
        let comes_at = match event {
            Event::Frame(node, _)
            | Event::Tick(node, _)
            | Event::Take(node, ..)
            | Event::Leave(node, _) => self.stopped[node],
            Event::Renew(node, _) | Event::Renewed(node, ..) | Event::Members(node, ..) => {
                self.stopped[node].max(self.unreached[node])
            }
            // Those who have no lease, and did not know it, would not speak to it.
            Event::Back(_) => self.unreached.iter().copied().max().unwrap_or(0),
            _ => 0,
        };
        if comes_at > self.now {
            let after = comes_at - self.now + self.random.below(2000);
            return self.push(after, event);
        }
        match event {
            Event::Frame(to, frame) => {
                let from = usize::from(frame[3]);
                let clogged_until = self.clogged[from][to];
                if clogged_until > self.now && network::has_messages(&frame) {
                    let after = clogged_until - self.now + self.random.below(2000);
                    self.push(after, Event::Frame(to, frame));
                    // Some bytes of it come.
                    self.with(to, |live, _| live.node.heard(from, now));
                } else if !self.deaf[from][to] {
                    self.with(to, |live, effects| live.come(&frame, now, effects));
                }
            }
            Event::Tick(node, number) => {
                if self.ticks[node] == number {
                    self.with(node, |live, effects| live.tick(now, effects));
                }
            }
            Event::Take(node, life, count) => {
                if self.lives[node] == life {
                    self.with(node, |live, effects| live.take(count, now, effects));
                }
            }
            Event::Client(client) => self.ask(client),
            Event::Mischief => {
                self.check_all_copies();
                self.mischief();
            }
            Event::Die(node, life) => {
                if self.lives[node] == life && self.nodes[node].is_some() {
                    // It was not to die alone with what it had.
                    self.spare = 1;
                    self.crash(node);
                    self.push(1_000_000, Event::Back(node));
                }
            }
            Event::Back(node) => {
                if self.nodes[node].is_none() {
                    // It waits until the lease of its life before is over.
                    if let Some(ends) = self.leases.as_ref().and_then(|all| all.ends(node)) {
                        let after = ends.saturating_sub(self.now) + 1 + self.random.below(300_000);
                        return self.push(after, Event::Back(node));
                    }
                    self.lives[node] += 1;
                    self.begun[node] = self.now;
                    self.removed[node] = None;
                    let life = match self.is_set_back {
                        true => u64::from(u32::MAX) - self.lives[node],
                        false => self.lives[node],
                    };
                    let session = SESSIONS * life;
                    let asked = self.now;
                    let lease = self.leases.as_mut().map(|all| all.renew(node, asked));
                    let members = self.leases.as_ref().map(Leases::members);
                    let roster = match (&self.leases, members) {
                        (Some(all), Some(members)) => all.roster(members, self.placement.ranges()),
                        _ => self.roster.clone(),
                    };
                    let (placement, options) = (&self.placement, &self.options);
                    let ether = self.ether;
                    let mut live =
                        Live::new(placement, &roster, node, options, session, ether, now);
                    live.sabotage = self.sabotage;
                    if let Some((number, _)) = lease {
                        let lease = self.lease(node, number, asked);
                        live.node.renewed(lease, now, &mut Effects::default());
                        self.told[node] = number;
                        self.push(0, Event::Renew(node, self.lives[node]));
                        self.tell_members();
                    }
                    self.nodes[node] = Some(live);
                    self.say(|| format!("node {node} begins"));
                    self.with(node, |live, effects| live.tick(now, effects));
                }
            }
            Event::Leave(node, life) => {
                if self.lives[node] == life {
                    self.say(|| format!("node {node} leaves"));
                    self.with(node, |live, _| live.leave(now));
                    // Copies are with those who stay, and have their leases.
                    let stay = self.nodes.iter().zip(&self.stopped);
                    let stays = |(live, until): &(&Option<Live>, &u64)| {
                        live.as_ref().is_some_and(|live| !live.is_leaving) && **until <= self.now
                    };
                    self.spare = self.spare.min(stay.filter(stays).count().saturating_sub(1));
                    if !self.is_whole() {
                        // One of these may not have them yet.
                        self.spare = self.spare.saturating_sub(1);
                    }
                    self.push(LEAVES_WITHIN, Event::Go(node, life));
                }
            }
            // It did not come to an end, and its process is ended.
            Event::Go(node, life) => {
                if self.lives[node] == life && self.nodes[node].is_some() {
                    self.crash(node);
                    self.push(1_000_000, Event::Back(node));
                }
            }
            Event::Renew(node, life) => {
                let asked = self.now;
                if self.lives[node] == life
                    && let Some(number) = self.removed[node].take()
                {
                    // It sees that it is gone.
                    let lease = Lease {
                        until: Time::ZERO,
                        ..self.lease(node, number, asked)
                    };
                    self.with(node, |live, out| live.node.renewed(lease, now, out));
                }
                if self.lives[node] == life
                    && self.nodes[node].is_some()
                    && let Some(leases) = &mut self.leases
                {
                    let (number, is_new) = leases.renew(node, asked);
                    let (slow, every) = (leases.slow(), leases.lasts / 3);
                    self.say(|| format!("node {node} has lease {number}, new: {is_new}"));
                    let after = 1 + self.random.below(slow);
                    self.push(after, Event::Renewed(node, life, number, asked));
                    self.push(every, Event::Renew(node, life));
                    if is_new {
                        self.tell_members();
                    }
                }
            }
            Event::Renewed(node, life, number, asked) => {
                let lease = self.lease(node, number, asked);
                if self.lives[node] == life {
                    if std::mem::replace(&mut self.told[node], number) != number {
                        // Who has another is told first who is there.
                        self.happen(Event::Members(node, life));
                    }
                    self.with(node, |live, out| live.node.renewed(lease, now, out));
                }
            }
            Event::Expire => {
                let at = self.now;
                if let Some(leases) = &mut self.leases {
                    let slow = leases.slow();
                    if leases.expire(at) {
                        self.say(|| "a lease is over".to_owned());
                        self.tell_members();
                    }
                    let after = 1 + self.random.below(slow);
                    self.push(after, Event::Expire);
                }
            }
            Event::Members(node, life) => {
                if self.lives[node] == life
                    && let Some(leases) = &self.leases
                {
                    let roster = leases.roster(leases.members(), self.placement.ranges());
                    self.with(node, |live, out| live.node.enroll(roster, now, out));
                }
            }
            Event::Heal => self.deaf.iter_mut().for_each(|from| from.fill(false)),
        }
    }

    /// A node's lease that was asked for at a time: clocks do not run alike.
    fn lease(&self, node: usize, number: i64, asked: u64) -> Lease {
        let (lasts, revision) = match &self.leases {
            Some(leases) => (leases.lasts, leases.given(node)),
            None => (0, 0),
        };
        Lease {
            until: Time::from_nanos(1000 * (asked + lasts - lasts / 10)),
            number,
            revision,
        }
    }

    /// All nodes will hear who has a lease now.
    fn tell_members(&mut self) {
        let Some(leases) = &self.leases else {
            return;
        };
        let slow = leases.slow();
        for node in 0..self.nodes.len() {
            let after = 1 + self.random.below(slow);
            self.push(after, Event::Members(node, self.lives[node]));
        }
    }

    /// Says what the nodes have of the key that is traced, where that is something else.
    fn trace_key(&mut self) {
        let Some((number, before)) = self.traced.take() else {
            return;
        };
        let now = self.time();
        let nodes = self.nodes.iter_mut();
        let has: Vec<_> = nodes
            .map(|live| live.as_mut()?.value(number, now))
            .collect();
        if has != before {
            let range = self.placement.range(key(number).as_bytes());
            self.say(|| format!("{} of range {range}: {has:?}", key(number)));
        }
        self.traced = Some((number, has));
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>9} {}", self.now, what());
        }
    }

    /// Has a node do something, and sends what it has to say.
    fn with(&mut self, node: usize, act: impl FnOnce(&mut Live, &mut Effects)) {
        let now = self.time();
        let Some(live) = &mut self.nodes[node] else {
            return;
        };
        let mut effects = Effects::default();
        let state = |live: &Live| {
            let ranges = 0..live.view.placement().ranges();
            let of = |range| (live.node.claim(range), live.node.targets(range));
            (
                live.node.alive(),
                live.node.complete(),
                ranges.map(of).collect::<Vec<_>>(),
            )
        };
        let before = self.trace.then(|| state(live));
        act(live, &mut effects);
        if let Some(before) = before
            && before != state(live)
        {
            let (alive, complete, ranges) = state(live);
            println!(
                "{:>9} node {node}: alive {alive:b}, complete {complete:b}",
                self.now
            );
            for (range, (claim, targets)) in ranges.iter().enumerate() {
                let (epoch, of) = (claim.epoch, claim.node);
                println!("    range {range}: epoch {epoch} of {of}, targets {targets:b}");
            }
        }
        let fences = effects.fence.is_some();
        let done = live.settle(now, &mut effects);
        let outbound = live.outbound(&mut effects, now);
        let wake_at = live.wake_at().as_nanos() / 1000 + 1;
        self.ticks[node] += 1;
        let after = wake_at.saturating_sub(self.now).min(1_000_000);
        self.push(after, Event::Tick(node, self.ticks[node]));
        if fences {
            self.take_later(node, 1);
        }
        self.send(outbound);
        self.answered(done);
        self.let_go(node);
    }

    /// Puts frames, or pieces of some, on their way.
    fn send(&mut self, outbound: Vec<(usize, Vec<u8>)>) {
        for (to, frame) in outbound {
            self.counts.frames += 1;
            for (late, damaged) in network::arrivals(self.weather, &mut self.random) {
                let mut frame = frame.clone();
                if damaged {
                    let at = 8 + self.random.below(frame.len() as u64 - 8) as usize;
                    frame[at] ^= 1 << self.random.below(8);
                }
                self.push(late, Event::Frame(to, frame));
            }
        }
    }

    /// A node ends that has left, and whose clients have their answers.
    fn let_go(&mut self, node: usize) {
        let now = self.time();
        let is_asked = self.asked.values().any(|asked| asked.node == node);
        // One that is there is not to be missed, but where it may not have been heard yet, or its
        // lease be over.
        let stays = |(other, live): (usize, &Option<Live>)| {
            let is_known = self.begun[other] + HEARD_WITHIN < self.now;
            other != node && is_known && live.as_ref().is_some_and(|live| !live.is_leaving)
        };
        let may_miss = self.is_split || self.leases.is_some();
        let was_missed = !may_miss && self.nodes.iter().enumerate().any(stays);
        let Some(live) = (self.nodes[node].as_mut()).filter(|live| live.is_leaving) else {
            return;
        };
        if is_asked || !live.node.has_left(now) || !live.node.is_drained() {
            return;
        }
        // Nobody was there to take what it had.
        if live.node.stayers() == 0 && !was_missed {
            self.keys.iter_mut().for_each(History::lose);
            self.lost_at = self.now;
        }
        live.node.go(now);
        let mut effects = Effects::default();
        live.settle(now, &mut effects);
        let outbound = live.outbound(&mut effects, now);
        self.send(outbound);
        self.counts.left += 1;
        if let Some(leases) = &mut self.leases {
            leases.revoke(node);
            self.tell_members();
        }
        self.say(|| format!("node {node} has left"));
        self.nodes[node] = None;
        self.ticks[node] += 1;
        let after = 1 + self.random.below(4) * self.random.below(2_000_000);
        self.push(after, Event::Back(node));
    }

    fn take_later(&mut self, node: usize, count: usize) {
        // A worker's turn may last: what it hands over comes in order all the same.
        let after = 1 + self.random.below(3) * self.random.below(3000);
        self.push(after, Event::Take(node, self.lives[node], count));
    }

    /// A client sends some commands to one node.
    fn ask(&mut self, client: usize) {
        let count = self.nodes.len();
        let node = self.random.below(count as u64) as usize;
        let now = self.time();
        let each = self.keys.len() / self.clients;
        let key = client * each + self.random.below(each as u64) as usize;
        let burst = 1 + self.random.below(3);
        let range = self.placement.range(crate::cluster::key(key).as_bytes());
        let has_room = |live: &Live| (live.view.full() | live.view.crowded()) & 1 << range == 0;
        let Some(live) = self.nodes[node]
            .as_mut()
            .filter(|live| has_room(live) && !live.node.has_left(now))
            .filter(|_| self.stopped[node] <= self.now)
        else {
            let after = 1000 + self.random.below(20_000);
            return self.push(after, Event::Client(client));
        };
        let mut ops = Vec::new();
        let mut has_read = false;
        for _ in 0..burst {
            let op = match self.random.below(10) {
                // A worker has writes wait for the reads before them.
                _ if has_read && self.options.scheme == Scheme::Chain => Op::Get,
                0..5 => Op::Set(self.writes + 1),
                5 => Op::Delete(self.writes + 1),
                _ => Op::Get,
            };
            has_read |= op == Op::Get;
            if let Op::Set(write) | Op::Delete(write) = op {
                self.writes = write;
                self.keys[key].sent(write, matches!(op, Op::Delete(_)));
            }
            self.commands += 1;
            let claim = live.node.claim(range);
            let asked = Asked {
                client,
                node,
                key,
                op,
                at: self.now,
                claim: (claim.epoch, claim.node),
            };
            self.asked.insert(self.commands, asked);
            ops.push((self.commands, op, key));
        }
        self.busy[client] = ops.len();
        let (done, forwarded) = live.ask(&ops, now);
        self.counts.forwarded += forwarded;
        if self.trace {
            println!(
                "{:>9} client {client} at {node}: {ops:?} -> {done:?}",
                self.now
            );
        }
        self.take_later(node, ops.len());
        self.answered(done);
    }

    fn answered(&mut self, done: Vec<Done>) {
        for (command, answer) in done {
            if command == FLUSH {
                self.flushed(answer.is_ok());
                continue;
            }
            let asked = self.asked.remove(&command).expect("asked once");
            self.say(|| format!("command {command} {:?}: {answer:?}", asked.op));
            // What a chain shows is confirmed, too.
            let is_confirmed =
                answer.is_ok() && (asked.op != Op::Get || self.options.scheme == Scheme::Chain);
            self.judge(&asked, answer);
            if is_confirmed {
                self.check_copies(asked.key);
            }
            self.busy[asked.client] -= 1;
            if self.busy[asked.client] == 0 && !self.is_quiet {
                let after = 10 + self.random.below(2) * self.random.below(50_000);
                self.push(after, Event::Client(asked.client));
            }
        }
    }

    fn judge(&mut self, asked: &Asked, answer: Result<Answer, Unanswered>) {
        if self.may_be_flushed() {
            self.keys[asked.key].lose();
            self.lost_at = self.now;
        }
        let history = &mut self.keys[asked.key];
        match (asked.op, answer) {
            (Op::Set(write) | Op::Delete(write), Ok(_)) => {
                self.counts.acknowledged += 1;
                if asked.is_served_as(self.nodes[asked.node].as_ref(), &self.placement) {
                    history.answered_at(asked.node, asked.claim, write);
                }
                // Who acknowledged it may have died since, with all there was of it.
                if asked.at > self.lost_at {
                    history.acknowledged(write, asked.at);
                }
                if self.is_split {
                    history.lose();
                }
            }
            (Op::Set(write) | Op::Delete(write), Err(Unanswered::NotDone)) => {
                self.counts.not_done += 1;
                history.not_done(write);
            }
            (Op::Set(write) | Op::Delete(write), Err(Unanswered::Unknown)) => {
                self.counts.unknown += 1;
                history.given_up(write, self.now);
            }
            (Op::Get, Ok(found)) => {
                self.counts.reads += 1;
                // Who answers a get that was forwarded may be another by then.
                let claim = match asked.at == self.now {
                    true => asked.claim,
                    false => (0, asked.node as u8),
                };
                let is_copy = usize::from(asked.claim.1) != asked.node;
                // Its key was just removed: until it hears of that, it may show what is old.
                let is_unaware = self.unaware[asked.node] > self.now;
                if asked.at == self.now && (is_copy || is_unaware) {
                    match self.options.scheme {
                        _ if !is_copy => {}
                        Scheme::Chain => self.counts.of_tails += 1,
                        Scheme::Ring => self.counts.of_neighbors += 1,
                        Scheme::Primary => self.counts.of_copies += 1,
                    }
                    let of = (asked.node, asked.claim);
                    let is_acked = self.options.acked && !is_unaware;
                    let read = history.read_copy(found, of, is_acked);
                    read.unwrap_or_else(|wrong| panic!("a copy of {}: {wrong}", key(asked.key)));
                } else if asked.at == self.now && !self.is_split {
                    let read = history.read(found, claim);
                    read.unwrap_or_else(|wrong| panic!("{}: {wrong}", key(asked.key)));
                } else {
                    let seen = history.read_late(found);
                    seen.unwrap_or_else(|wrong| panic!("{}: {wrong}", key(asked.key)));
                }
                // What a chain shows is confirmed: nobody finds anything older from then on.
                if let Some(write) = found
                    && self.options.scheme == Scheme::Chain
                    && !self.is_split
                    && asked.at > self.lost_at
                {
                    self.keys[asked.key].acknowledged(write, asked.at);
                }
            }
            (Op::Get, Err(_)) => {}
        }
    }
}
