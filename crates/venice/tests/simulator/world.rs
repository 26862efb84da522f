//! The world of one seed: what happens to whom, and when.

use super::counts::Counts;
use super::etcd::Members;
use super::events::{Event, Events};
use super::monitors::{Part, Process};
use super::network::Network;
use super::shelf::{Memory, Shelf};
use rhythm_net::Time;
use rhythm_venice::agent::{self, Agent};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::keeper::{Keeper, NotKept, Record, State};
use rhythm_venice::name::NodeName;
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::secret::Secret;
use std::collections::{BTreeMap, BTreeSet};
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
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept> {
        let mut state = self.0.lock().expect("one thread");
        for record in records {
            assert!(state.take(record), "{record:?} cannot have happened");
        }
        *self.1.lock().expect("one thread") += 1;
        Ok(Vec::new())
    }

    fn has_room(&mut self) -> bool {
        true
    }
}

/// Which monitors there are, and what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One with a disk.
    Folder,
    /// Two with etcd.
    Etcd,
    /// Two with etcd, and nothing else goes wrong.
    OnlyMonitors,
}

pub(crate) struct World {
    pub(crate) mode: Mode,
    pub(crate) now: Time,
    pub(crate) random: fastrand::Rng,
    pub(crate) events: Events,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    pub(crate) monitors: Vec<Process>,
    pub(crate) etcd: Arc<Mutex<Members>>,
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
pub(crate) fn run(seed: u64, mode: Mode) -> Counts {
    let mut world = World::new(seed, mode);
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
    let etcd = world.etcd.lock().expect("one thread");
    Counts {
        unanswered: etcd.unanswered,
        late: etcd.late_done,
        fenced: etcd.fenced,
        full: etcd.refused,
        in_vain: etcd.in_vain,
        ..world.counts
    }
}

impl World {
    fn new(seed: u64, mode: Mode) -> World {
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
        let monitors = match mode {
            Mode::Folder => 1,
            Mode::Etcd | Mode::OnlyMonitors => 2,
        };
        let etcd = Members::new(fastrand::Rng::with_seed(seed));
        let mut world = World {
            mode,
            now: Time::from_nanos(1),
            events: Events::default(),
            network: Network::default(),
            nodes: (0..count).map(node).collect(),
            monitors: (0..monitors).map(|_| Process::default()).collect(),
            etcd: Arc::new(Mutex::new(etcd)),
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
        (0..monitors).for_each(|monitor| world.begin_monitor(monitor));
        for node in 0..count {
            let memory = (Kind::Memory, world.random.u64(10..100));
            let others = [Kind::Fft, Kind::Aes, Kind::Device].map(|kind| {
                let count = world.random.u64(..3);
                (kind, Share::of_all(kind, count).amount)
            });
            let sizes = [memory].into_iter().chain(others).collect();
            world.nodes[node].memory.lock().expect("one thread").sizes = sizes;
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

    pub(crate) fn numbers(&mut self) -> Box<dyn FnMut() -> [u8; 32] + Send> {
        let mut random = fastrand::Rng::with_seed(self.random.u64(..));
        Box::new(move || {
            let mut bytes = [0; 32];
            random.fill(&mut bytes);
            bytes
        })
    }

    /// The disk, and what is on it.
    pub(crate) fn disk(&self) -> (Disk, State) {
        let state = self.kept.lock().expect("one thread").clone();
        let disk = Disk(Arc::clone(&self.kept), Arc::clone(&self.writes));
        (disk, state)
    }

    /// How often something was kept.
    pub(crate) fn writes(&self) -> u64 {
        let turns = self.etcd.lock().expect("one thread").turns();
        *self.writes.lock().expect("one thread") + turns
    }

    fn begin_node(&mut self, node: usize) {
        let memory = self.nodes[node].memory.lock().expect("one thread");
        let lends = memory.sizes.iter();
        let lends = lends.map(|(kind, amount)| Share {
            kind: *kind,
            amount: *amount,
        });
        let lends = lends.collect();
        drop(memory);
        let settings = agent::Settings {
            name: self.nodes[node].name.clone(),
            monitors: self.monitors.len(),
            place: format!("rack{}", node % 3),
            probe: self.nodes[node].at,
            lends,
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
        let monitors = self.monitors.iter().enumerate();
        let of_monitor = monitors.filter_map(|(monitor, of)| Some((of.wake_at()?, monitor)));
        let of_monitor = of_monitor.min();
        let event = self.events.next_at();
        let monitor_at = of_monitor.map(|(at, _)| at);
        let times = [due.map(|(at, _)| at), monitor_at, event];
        let Some(next) = times.into_iter().flatten().min().filter(|next| *next < end) else {
            return false;
        };
        self.now = self.now.max(next);
        self.etcd.lock().expect("one thread").begin(self.now);
        if event == Some(next) {
            if let Some(event) = self.events.pop() {
                self.happen(event);
            }
        } else if let Some((_, monitor)) = of_monitor.filter(|(at, _)| *at == next) {
            self.with_monitor(monitor, |part, now| match part {
                Part::Leads(monitor) => monitor.tick(now),
                Part::Waits(spare) => spare.tick(now),
            });
        } else if let Some((_, node)) = due {
            self.with_agent(node, Agent::tick);
        }
        true
    }

    /// The monitor of which an event is, if it is one's that is stopped.
    fn stopped(&self, event: &Event) -> Option<usize> {
        let monitor = match event {
            Event::Opened { connection }
            | Event::ToMonitor { connection, .. }
            | Event::MonitorHears { connection } => {
                self.network.connections.get(connection)?.monitor
            }
            Event::Elect { monitor, .. } | Event::Lead { monitor, .. } => *monitor,
            _ => return None,
        };
        self.monitors[monitor].is_stopped.then_some(monitor)
    }

    fn happen(&mut self, event: Event) {
        if let Some(monitor) = self.stopped(&event) {
            return self.monitors[monitor].held.push(event);
        }
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
                let index = of.monitor;
                if of.monitor_has && of.cut[0] > self.now {
                    self.with_monitor(index, |part, now| match part {
                        Part::Leads(monitor) => monitor.received(connection, message, now),
                        Part::Waits(spare) => spare.received(connection, &message),
                    });
                }
            }
            Event::Opened { connection } => self.opened(connection),
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
                if let Some(of) = of.filter(|of| of.monitor_has) {
                    of.monitor_has = false;
                    let index = of.monitor;
                    self.with_monitor(index, |part, now| match part {
                        Part::Leads(monitor) => monitor.closed(connection, now),
                        Part::Waits(spare) => spare.closed(connection),
                    });
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
            Event::MonitorBegins { monitor } => self.begin_monitor(monitor),
            Event::Elect { monitor, life } => self.elect(monitor, life),
            Event::Lead { monitor, life } => self.begin_to_lead(monitor, life),
            Event::Resume { monitor, life } => self.resume_monitor(monitor, life),
        }
        self.network.forget();
    }

    fn open(&mut self, connection: u64) {
        let Some(of) = self.network.connections.get_mut(&connection) else {
            return;
        };
        if !of.agent_has {
            return;
        }
        let node = of.node;
        let monitor = of.monitor;
        if self.monitors[monitor].part.is_none() {
            of.agent_has = false;
            return self.with_agent(node, |agent, now| agent.disconnected(now));
        }
        of.monitor_has = true;
        // The system takes connections for a process that is stopped.
        match self.monitors[monitor].is_stopped {
            true => self.monitors[monitor]
                .held
                .push(Event::Opened { connection }),
            false => self.opened(connection),
        }
        self.with_agent(node, |agent, now| agent.connected(now));
    }

    /// A monitor learns of a connection.
    fn opened(&mut self, connection: u64) {
        let of = self.network.connections.get(&connection);
        if let Some(index) = of.filter(|of| of.monitor_has).map(|of| of.monitor) {
            self.with_monitor(index, |part, now| match part {
                Part::Leads(monitor) => monitor.opened(connection, now),
                Part::Waits(spare) => spare.opened(connection, now),
            });
        }
    }

    /// A node reads what memory it has: mostly plenty.
    fn read(&mut self, node: usize) {
        let is_low = self.has_faults && self.mode != Mode::OnlyMonitors && self.random.u8(..) < 12;
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
