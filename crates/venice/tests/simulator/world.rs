//! The world of one seed: what happens to whom, and when.

use super::events::{Event, Events};
use super::network::Network;
use super::shelf::{Memory, Shelf};
use rhythm_net::Time;
use rhythm_venice::agent::{self, Agent};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::keeper::{Keeper, Record, State};
use rhythm_venice::monitor::policy::{ByDistance, ByDistanceAndLoad, Policy};
use rhythm_venice::monitor::{self, Monitor, Now};
use rhythm_venice::name::NodeName;
use rhythm_venice::secret::Secret;
use rhythm_venice::wire::{Local, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long things go wrong, and how long it is quiet then, before and after borrowers leave.
const FAULTS: Duration = Duration::from_secs(40);
const QUIET: Duration = Duration::from_secs(30);
/// What is well, in bytes that are available.
const PLENTY: u64 = 1 << 40;

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) lent: u64,
    pub(crate) not_lent: u64,
    pub(crate) broken: u64,
    pub(crate) given_back: u64,
    pub(crate) reclaimed: u64,
    pub(crate) refused_by_donor: u64,
    pub(crate) node_deaths: u64,
    pub(crate) monitor_deaths: u64,
    /// Of these, between what was kept and what was said.
    pub(crate) between: u64,
    pub(crate) cuts: u64,
    pub(crate) silent: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.steps += more.steps;
        self.lent += more.lent;
        self.not_lent += more.not_lent;
        self.broken += more.broken;
        self.given_back += more.given_back;
        self.reclaimed += more.reclaimed;
        self.refused_by_donor += more.refused_by_donor;
        self.node_deaths += more.node_deaths;
        self.monitor_deaths += more.monitor_deaths;
        self.between += more.between;
        self.cuts += more.cuts;
        self.silent += more.silent;
    }
}

/// A borrower.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) loans: BTreeSet<LoanId>,
    waits: bool,
}

/// A machine.
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) agent: Option<Agent<Shelf>>,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) clients: Vec<Client>,
    at: SocketAddr,
}

/// A disk that keeps what it is told, whoever dies.
pub(crate) struct Disk(pub(crate) Arc<Mutex<State>>, Arc<Mutex<u64>>);

impl Keeper for Disk {
    fn keep(&mut self, records: &[Record]) -> io::Result<()> {
        let mut state = self.0.lock().expect("one thread");
        for record in records {
            assert!(state.take(record), "{record:?} cannot have happened");
        }
        *self.1.lock().expect("one thread") += 1;
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        true
    }
}

pub(crate) struct World {
    pub(crate) now: Time,
    random: fastrand::Rng,
    pub(crate) events: Events,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    pub(crate) monitor: Option<Monitor<Disk>>,
    pub(crate) kept: Arc<Mutex<State>>,
    writes: Arc<Mutex<u64>>,
    has_faults: bool,
    /// Whose each loan and key was, ever.
    told: BTreeMap<LoanId, (u64, LoanKey)>,
    count: u64,
    pub(crate) counts: Counts,
    /// Nodes to which something happened in this step.
    pub(crate) touched: Vec<usize>,
    /// How many of twenty datagrams come through: most take their time, and change little.
    heard: u8,
}

/// Runs a seed.
pub(crate) fn run(seed: u64) -> Counts {
    let mut world = World::new(seed);
    world.run_for(FAULTS);
    world.has_faults = false;
    world.run_for(QUIET);
    world.can_borrow();
    for node in 0..world.nodes.len() {
        for client in std::mem::take(&mut world.nodes[node].clients) {
            world.with_agent(node, |agent, _| agent.client_closed(client.id));
        }
    }
    world.run_for(QUIET);
    world.check_quiet();
    world.counts
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = match random.u8(..50) {
            0 => 64,
            1..=6 => 24,
            _ => 8,
        };
        let node = |index: usize| Node {
            name: format!("n{index}").parse().expect("a name"),
            agent: None,
            memory: Arc::default(),
            clients: Vec::new(),
            at: ([10, 0, (index >> 8) as u8, index as u8], 7).into(),
        };
        let mut world = World {
            now: Time::from_nanos(1),
            events: Events::default(),
            network: Network::default(),
            nodes: (0..count).map(node).collect(),
            monitor: None,
            kept: Arc::default(),
            writes: Arc::default(),
            has_faults: true,
            told: BTreeMap::new(),
            count: 0,
            counts: Counts::default(),
            touched: Vec::new(),
            heard: if random.u8(..8) == 0 { 18 } else { 1 },
            random,
        };
        world.begin_monitor();
        for node in 0..count {
            let size = world.random.u64(10..100);
            world.nodes[node].memory.lock().expect("one thread").size = size;
            world.begin_node(node);
            let at = world.soon(1000);
            world.events.at(at, Event::Reading { node });
            world.events.at(at, Event::Client { node });
        }
        let at = world.soon(3000);
        world.events.at(at, Event::Fault);
        world
    }

    /// A moment within so many milliseconds.
    fn soon(&mut self, millis: u64) -> Time {
        self.now + Duration::from_micros(self.random.u64(1..=millis * 1000))
    }

    fn numbers(&mut self) -> Box<dyn FnMut() -> [u8; 32] + Send> {
        let mut random = fastrand::Rng::with_seed(self.random.u64(..));
        Box::new(move || {
            let mut bytes = [0; 32];
            random.fill(&mut bytes);
            bytes
        })
    }

    fn begin_monitor(&mut self) {
        let policy: Box<dyn Policy> = match self.random.bool() {
            true => Box::new(ByDistance),
            false => Box::new(ByDistanceAndLoad),
        };
        let state = self.kept.lock().expect("one thread").clone();
        let disk = Disk(Arc::clone(&self.kept), Arc::clone(&self.writes));
        let settings = monitor::Settings::default();
        let secret = Secret::of(b"a secret of the test");
        let numbers = self.numbers();
        let monitor = Monitor::new(settings, secret, policy, (disk, &state), numbers, self.now);
        self.monitor = Some(monitor);
    }

    fn begin_node(&mut self, node: usize) {
        let settings = agent::Settings {
            name: self.nodes[node].name.clone(),
            place: format!("rack{}", node % 3),
            probe: self.nodes[node].at,
            size: self.nodes[node].memory.lock().expect("one thread").size,
            keep_free: 1000,
            reclaim_within: Duration::from_secs(2),
            borrow_within: Duration::from_secs(10),
        };
        let secret = Secret::of(b"a secret of the test");
        let shelf = Shelf(Arc::clone(&self.nodes[node].memory), self.nodes[node].at);
        let numbers = self.numbers();
        let mut agent = Agent::new(settings, secret, shelf, numbers, self.now);
        agent.memory(PLENTY, self.now);
        self.nodes[node].agent = Some(agent);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {
            self.counts.steps += 1;
            self.check();
        }
        self.now = end;
    }

    /// The next thing that happens before `end`, if any.
    fn step(&mut self, end: Time) -> bool {
        let agents = self.nodes.iter().enumerate();
        let due = agents.filter_map(|(node, of)| Some((of.agent.as_ref()?.wake_at()?, node)));
        let due = due.min();
        let of_monitor = self.monitor.as_ref().and_then(Monitor::wake_at);
        let event = self.events.next_at();
        let times = [due.map(|(at, _)| at), of_monitor, event];
        let Some(next) = times.into_iter().flatten().min().filter(|next| *next < end) else {
            return false;
        };
        self.now = self.now.max(next);
        if event == Some(next) {
            if let Some(event) = self.events.pop() {
                self.happen(event);
            }
        } else if of_monitor == Some(next) {
            self.with_monitor(Monitor::tick);
        } else if let Some((_, node)) = due {
            self.with_agent(node, Agent::tick);
        }
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Open { connection } => self.open(connection),
            Event::ToMonitor {
                connection,
                message,
            } => {
                let of = self
                    .network
                    .connections
                    .get_mut(&connection)
                    .expect("it is known");
                of.under_way -= 1;
                self.touched.push(of.node);
                if of.monitor_has && of.cut[0] > self.now {
                    self.with_monitor(|monitor, now| monitor.received(connection, message, now));
                }
            }
            Event::ToAgent {
                connection,
                message,
            } => {
                let of = self
                    .network
                    .connections
                    .get_mut(&connection)
                    .expect("it is known");
                of.under_way -= 1;
                let node = of.node;
                if of.agent_has && of.cut[1] > self.now {
                    self.with_agent(node, |agent, now| agent.received(message, now));
                }
            }
            Event::MonitorHears { connection } => {
                let of = self.network.connections.get_mut(&connection);
                if of.is_some_and(|of| std::mem::take(&mut of.monitor_has)) {
                    self.with_monitor(|monitor, now| monitor.closed(connection, now));
                }
            }
            Event::AgentHears { connection } => {
                let of = self.network.connections.get_mut(&connection);
                if let Some(of) = of.filter(|of| of.agent_has) {
                    of.agent_has = false;
                    let node = of.node;
                    self.with_agent(node, |agent, now| agent.disconnected(now));
                }
            }
            Event::Datagram { to, from, bytes } => {
                if let Some(node) = self.nodes.iter().position(|node| node.at == to) {
                    self.with_agent(node, |agent, now| agent.probed(from, &bytes, now));
                }
            }
            Event::Reading { node } => self.read(node),
            Event::Client { node } => self.client(node),
            Event::Fault => self.fault(),
            Event::NodeBegins { node } => self.begin_node(node),
            Event::MonitorBegins => self.begin_monitor(),
        }
        self.network.forget();
    }

    fn open(&mut self, connection: u64) {
        let is_there = self.monitor.is_some();
        let Some(of) = self.network.connections.get_mut(&connection) else {
            return;
        };
        if !of.agent_has {
            return;
        }
        let node = of.node;
        if !is_there {
            of.agent_has = false;
            return self.with_agent(node, |agent, now| agent.disconnected(now));
        }
        of.monitor_has = true;
        self.with_monitor(|monitor, now| monitor.opened(connection, now));
        self.with_agent(node, |agent, _| agent.connected());
    }

    /// A node reads what memory it has: mostly plenty.
    fn read(&mut self, node: usize) {
        let is_low = self.has_faults && self.random.u8(..) < 12;
        let available = if is_low {
            self.random.u64(900..1000)
        } else {
            PLENTY
        };
        self.with_agent(node, |agent, now| agent.memory(available, now));
        let at = self.now + Duration::from_secs(1);
        self.events.at(at, Event::Reading { node });
    }

    /// A borrower of this node comes, wants something, gives it back, or goes.
    fn client(&mut self, node: usize) {
        let at = self.soon(2000);
        self.events.at(at, Event::Client { node });
        if self.nodes[node].agent.is_none() || !self.has_faults {
            return;
        }
        if self.nodes[node].clients.len() < 3 && self.random.bool() {
            self.come(node);
        }
        let clients = self.nodes[node].clients.len();
        if clients == 0 {
            return;
        }
        let index = self.random.usize(..clients);
        let client = &self.nodes[node].clients[index];
        let (id, loan) = (client.id, client.loans.first().copied());
        match self.random.u8(..10) {
            0 => {
                self.nodes[node].clients.swap_remove(index);
                self.with_agent(node, |agent, _| agent.client_closed(id));
            }
            1..=2 if loan.is_some() => self.give_back(node, id, loan),
            3 if loan.is_some() => {
                let renew = Local::Renew {
                    loan: loan.expect("there is one"),
                };
                self.with_agent(node, |agent, now| agent.client_said(id, renew, now));
            }
            _ => {
                let most = if self.random.u8(..10) == 0 { 200 } else { 40 };
                let bytes = self.random.u64(1..most);
                self.want(node, index, bytes);
            }
        }
    }

    fn come(&mut self, node: usize) -> usize {
        self.count += 1;
        let id = self.count;
        let client = Client {
            id,
            ..Client::default()
        };
        self.nodes[node].clients.push(client);
        self.with_agent(node, |agent, _| agent.client_opened(id));
        self.nodes[node].clients.len() - 1
    }

    fn want(&mut self, node: usize, index: usize, bytes: u64) {
        let client = &mut self.nodes[node].clients[index];
        if !std::mem::replace(&mut client.waits, true) {
            let (id, borrow) = (client.id, Local::Borrow { request: 1, bytes });
            self.with_agent(node, |agent, now| agent.client_said(id, borrow, now));
        }
    }

    fn give_back(&mut self, node: usize, client: u64, loan: Option<LoanId>) {
        if let Some(loan) = loan {
            let mut clients = self.nodes[node].clients.iter_mut();
            if let Some(of) = clients.find(|of| of.id == client) {
                of.loans.remove(&loan);
            }
            self.counts.given_back += 1;
            let back = Local::GiveBack { loan };
            self.with_agent(node, |agent, now| agent.client_said(client, back, now));
        }
    }

    /// When all is well, a little can be borrowed.
    fn can_borrow(&mut self) {
        let lent = self.counts.lent;
        let has_room = |node: &Node| {
            let memory = node.memory.lock().expect("one thread");
            let taken: u64 = memory.loans.values().map(|(_, bytes)| bytes).sum();
            taken < memory.size
        };
        if self.nodes.iter().skip(1).any(has_room) {
            let index = self.come(0);
            self.want(0, index, 1);
            self.run_for(Duration::from_secs(10));
            assert!(
                self.counts.lent > lent,
                "nothing is lent though there is room"
            );
        }
    }

    fn fault(&mut self) {
        let at = self.soon(2000);
        self.events.at(at, Event::Fault);
        if !self.has_faults {
            return;
        }
        let node = self.random.usize(..self.nodes.len());
        match self.random.u8(..10) {
            0..=1 => self.kill_node(node),
            2 => self.kill_monitor(),
            3..=5 => {
                if let Some(connection) = self.network.of(node) {
                    self.counts.cuts += 1;
                    self.cut(connection, 3000);
                }
            }
            6 => {
                if let Some(connection) = self.network.of(node) {
                    self.counts.silent += 1;
                    self.cut(connection, 15_000);
                }
            }
            _ => self.nodes[node].memory.lock().expect("one thread").refusals += 1,
        }
    }

    /// Nothing comes through any more, from some moment on, and the ends learn of it.
    fn cut(&mut self, connection: u64, monitor_within: u64) {
        let cuts = [self.soon(20), self.soon(20)];
        let (agent, monitor) = (self.soon(3000), self.soon(monitor_within));
        if let Some(of) = self.network.connections.get_mut(&connection) {
            of.cut = [of.cut[0].min(cuts[0]), of.cut[1].min(cuts[1])];
            let later = Duration::from_millis(20);
            self.events
                .at(agent + later, Event::AgentHears { connection });
            self.events
                .at(monitor + later, Event::MonitorHears { connection });
        }
    }

    fn kill_node(&mut self, node: usize) {
        if self.nodes[node].agent.take().is_none() {
            return;
        }
        self.counts.node_deaths += 1;
        self.nodes[node].clients.clear();
        let mut memory = self.nodes[node].memory.lock().expect("one thread");
        memory.loans.clear();
        self.counts.refused_by_donor += std::mem::take(&mut memory.refused);
        drop(memory);
        if let Some(connection) = self.network.of(node) {
            // Of a machine that lost its power nobody hears.
            let within = if self.random.bool() { 10 } else { 15_000 };
            self.cut(connection, within);
            let of = self.network.connections.get_mut(&connection);
            of.expect("it is known").agent_has = false;
        }
        let again = if self.random.bool() { 500 } else { 10_000 };
        let at = self.soon(again);
        self.events.at(at, Event::NodeBegins { node });
    }

    fn kill_monitor(&mut self) {
        if self.monitor.take().is_none() {
            return;
        }
        self.counts.monitor_deaths += 1;
        let connections: Vec<u64> = self.network.connections.keys().copied().collect();
        for connection in connections {
            self.cut(connection, 10);
            let of = self.network.connections.get_mut(&connection);
            of.expect("it is known").monitor_has = false;
        }
        let at = self.soon(8000);
        self.events.at(at, Event::MonitorBegins);
    }

    /// Something happens to the monitor, and what it does then; or it dies before that.
    pub(crate) fn with_monitor(&mut self, what: impl FnOnce(&mut Monitor<Disk>, Now)) {
        let Some(monitor) = &mut self.monitor else {
            return;
        };
        let unix_seconds = self.now.as_nanos() / 1_000_000_000;
        what(
            monitor,
            Now {
                at: self.now,
                unix_seconds,
            },
        );
        let may_die = self.has_faults && self.random.u16(..2000) == 0;
        if may_die && self.random.bool() {
            // Before anything is written.
            return self.kill_monitor();
        }
        let writes = *self.writes.lock().expect("one thread");
        let effects = monitor.flush().expect("the disk works");
        let has_written = *self.writes.lock().expect("one thread") > writes;
        let dies_now = self.has_faults && has_written && self.random.u8(..100) == 0;
        if dies_now || may_die {
            self.counts.between += u64::from(has_written);
            return self.kill_monitor();
        }
        for effect in effects {
            match effect {
                monitor::Effect::Send(connection, message) => {
                    let delay = self.delay();
                    let of = self.network.connections.get_mut(&connection);
                    if let Some(of) = of.filter(|of| of.monitor_has) {
                        of.under_way += 1;
                        of.to_agent = (self.now + delay).max(of.to_agent + NANOSECOND);
                        let at = of.to_agent;
                        self.events.at(
                            at,
                            Event::ToAgent {
                                connection,
                                message,
                            },
                        );
                    }
                }
                monitor::Effect::Close(connection) => {
                    if let Some(of) = self.network.connections.get_mut(&connection) {
                        of.monitor_has = false;
                        let at = of.to_agent + Duration::from_millis(1);
                        self.events
                            .at(at.max(self.now), Event::AgentHears { connection });
                    }
                }
            }
        }
    }

    /// Mostly short.
    fn delay(&mut self) -> Duration {
        let most = if self.random.u8(..20) == 0 {
            500_000
        } else {
            1000
        };
        Duration::from_micros(self.random.u64(50..50 + most))
    }

    /// Something happens to an agent, and what it does then.
    pub(crate) fn with_agent(&mut self, node: usize, what: impl FnOnce(&mut Agent<Shelf>, Time)) {
        let Some(agent) = &mut self.nodes[node].agent else {
            return;
        };
        what(agent, self.now);
        self.touched.push(node);
        for effect in agent.flush() {
            match effect {
                agent::Effect::Connect => {
                    let connection = self.network.begin(node, self.now);
                    let at = self.now + self.delay();
                    self.events.at(at, Event::Open { connection });
                }
                agent::Effect::Disconnect => {
                    if let Some(connection) = self.network.of(node) {
                        let delay = self.delay();
                        let of = self.network.connections.get_mut(&connection);
                        let of = of.expect("it is known");
                        of.agent_has = false;
                        let at = of.to_monitor.max(self.now) + delay;
                        self.events.at(at, Event::MonitorHears { connection });
                    }
                }
                agent::Effect::Say(message) => {
                    let delay = self.delay();
                    let connection = self.network.of(node).expect("agents say it on one");
                    let of = self.network.connections.get_mut(&connection);
                    let of = of.expect("it is known");
                    of.under_way += 1;
                    of.to_monitor = (self.now + delay).max(of.to_monitor + NANOSECOND);
                    let at = of.to_monitor;
                    self.events.at(
                        at,
                        Event::ToMonitor {
                            connection,
                            message,
                        },
                    );
                }
                agent::Effect::Tell(client, local) => self.told(node, client, local),
                agent::Effect::Drop(client) => {
                    panic!("borrower {client} is dropped, though it did nothing wrong")
                }
                agent::Effect::Probe(to, bytes) => {
                    if self.random.u8(..20) < self.heard {
                        let at = self.now + self.delay();
                        let from = self.nodes[node].at;
                        self.events.at(at, Event::Datagram { to, from, bytes });
                    }
                }
            }
        }
    }

    /// A borrower is told something.
    fn told(&mut self, node: usize, client: u64, local: Local) {
        let mut clients = self.nodes[node].clients.iter_mut();
        let of = clients.find(|of| of.id == client);
        let of = of.expect("who is gone is told nothing");
        match local {
            Local::Lent {
                loan,
                bytes,
                key,
                donor,
                ..
            } => {
                of.waits = false;
                of.loans.insert(loan);
                self.counts.lent += 1;
                let known = self.told.insert(loan, (client, key.clone()));
                assert!(known.is_none(), "{loan:?} is told to two borrowers");
                let same = self.told.values().filter(|(_, other)| *other == key);
                assert_eq!(same.count(), 1, "the key of {loan:?} is another's, too");
                // The donor has it, with this key, unless it has died or taken it back.
                let lender = self.nodes.iter().find(|node| node.at == donor);
                let memory = lender.expect("a node").memory.lock().expect("one thread");
                assert_eq!(memory.keys.get(&loan), Some(&key), "the key of {loan:?}");
                if let Some((_, lent)) = memory.loans.get(&loan) {
                    assert_eq!(*lent, bytes);
                }
                assert_ne!(donor, self.nodes[node].at, "a node borrows of itself");
            }
            Local::NotLent { .. } => {
                of.waits = false;
                self.counts.not_lent += 1;
            }
            Local::Broken { loan, why } => {
                assert!(of.loans.remove(&loan), "{loan:?} was not its own");
                self.counts.broken += 1;
                self.counts.reclaimed += u64::from(why == Reason::DonorNeedsIt);
            }
            Local::ReclaimWanted { loan, .. } => {
                let gives = self.random.bool();
                if gives {
                    self.give_back(node, client, Some(loan));
                }
            }
            Local::Stands { loan, stands } => {
                assert_eq!(stands, of.loans.contains(&loan), "{loan:?}");
            }
            other => panic!("a borrower is told {other:?}"),
        }
    }
}

const NANOSECOND: Duration = Duration::from_nanos(1);
