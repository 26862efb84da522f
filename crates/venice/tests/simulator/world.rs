//! The world of one seed: what happens to whom, and when.

use super::counts::Counts;
use super::events::{Event, Events};
use super::network::Network;
use super::shelf::{Memory, Shelf};
use rhythm_net::Time;
use rhythm_venice::agent::{self, Agent};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::keeper::{Keeper, Record, State};
use rhythm_venice::monitor::policy::{ByDistance, ByDistanceAndLoad, Policy};
use rhythm_venice::monitor::{self, Monitor};
use rhythm_venice::name::NodeName;
use rhythm_venice::secret::Secret;
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

/// A borrower.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) loans: BTreeSet<LoanId>,
    pub(crate) waits: bool,
}

/// A machine.
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) agent: Option<Agent<Shelf>>,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) clients: Vec<Client>,
    pub(crate) at: SocketAddr,
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
    pub(crate) random: fastrand::Rng,
    pub(crate) events: Events,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    pub(crate) monitor: Option<Monitor<Disk>>,
    pub(crate) kept: Arc<Mutex<State>>,
    pub(crate) writes: Arc<Mutex<u64>>,
    pub(crate) has_faults: bool,
    /// Whose each loan and key was, ever.
    pub(crate) told: BTreeMap<LoanId, (u64, LoanKey)>,
    pub(crate) count: u64,
    pub(crate) counts: Counts,
    /// Nodes to which something happened in this step.
    pub(crate) touched: Vec<usize>,
    /// How many of twenty datagrams come through: most take their time, and change little.
    pub(crate) heard: u8,
}

/// Runs a seed.
pub(crate) fn run(seed: u64) -> Counts {
    let mut world = World::new(seed);
    world.run_for(FAULTS);
    world.end_faults();
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
    pub(crate) fn soon(&mut self, millis: u64) -> Time {
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

    pub(crate) fn run_for(&mut self, time: Duration) {
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
        self.with_agent(node, |agent, now| agent.connected(now));
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
}
