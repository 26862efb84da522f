//! Whatever nodes, monitor and borrowers say to each other that have the secret, in whatever order,
//! a monitor and an agent go on, and the monitor keeps nothing that cannot have happened.
//!
//! An input is a row of steps: who says something, how many bytes it is, and these; or time passes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_net::Time;
use rhythm_venice::agent::{self, Agent, Lender, NoRoom};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::keeper::{Keeper, NotKept, Record, State};
use rhythm_venice::monitor::policy::ByDistanceAndLoad;
use rhythm_venice::monitor::{self, Monitor, Now};
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::secret::{Nonce, Secret};
use rhythm_venice::wire::{self, Framed, Local, MESSAGE_MAX, Message};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is kept, and whether there is room for more.
#[derive(Default)]
struct Disk {
    state: State,
    is_full: bool,
}

/// Keeps what can have happened.
struct Kept(Arc<Mutex<Disk>>);

impl Keeper for Kept {
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept> {
        let mut disk = self.0.lock().expect("one thread");
        let before = disk.state.loans.clone();
        let mut changed = BTreeSet::new();
        for record in records {
            assert!(disk.state.take(record), "{record:?} cannot have happened");
            changed.insert(match record {
                Record::Begun(kept) => kept.loan,
                Record::Stands(loan) | Record::Gone(loan) => *loan,
            });
        }
        changed.retain(|loan| disk.is_full && disk.state.loans.contains_key(loan));
        for loan in &changed {
            match before.get(loan) {
                Some(kept) => disk.state.loans.insert(*loan, kept.clone()),
                None => disk.state.loans.remove(loan),
            };
        }
        Ok(changed.into_iter().collect())
    }

    fn has_room(&mut self) -> bool {
        true
    }
}

/// What a node lends.
fn lends() -> Vec<Share> {
    let (one, two) = (Share::of_all(Kind::Fft, 1), Share::of_all(Kind::Aes, 2));
    let device = Share::of_all(Kind::Device, 1);
    vec![Share::memory(1 << 20), one, two, device]
}

/// Lends what it is asked for.
struct Shelf(SocketAddr, BTreeMap<LoanId, Share>);

impl Lender for Shelf {
    fn grant(&mut self, loan: LoanId, share: Share, _: &LoanKey) -> Result<SocketAddr, NoRoom> {
        assert!(self.1.insert(loan, share).is_none(), "{loan:?} is lent");
        for most in lends() {
            let lent = self.1.values().filter(|share| share.kind == most.kind);
            let lent: u64 = lent.map(|share| share.amount).sum();
            assert!(lent <= most.amount, "{loan:?}: more than there is");
        }
        Ok(self.0)
    }

    fn revoke(&mut self, loan: LoanId) {
        self.1.remove(&loan);
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        self.1.iter().map(|(loan, share)| (*loan, *share)).collect()
    }
}

/// Numbers that are always the same.
fn numbers() -> Box<dyn FnMut() -> Nonce + Send> {
    let mut last = 0u8;
    Box::new(move || {
        last = last.wrapping_add(1);
        [last; 32]
    })
}

fn secret() -> Secret {
    Secret::of(b"0123456789abcdef")
}

/// Where the agents are.
fn at(index: usize) -> SocketAddr {
    ([127, 0, 0, 1], 2 + index as u16).into()
}

struct World {
    now: Time,
    disk: Arc<Mutex<Disk>>,
    monitor: Monitor<Kept>,
    agents: [Agent<Shelf>; 2],
}

/// The borrower of each agent.
const BORROWER: u64 = 9;
/// All the memory that a machine may want to have.
const PLENTY: u64 = 1 << 30;

impl World {
    fn new() -> World {
        let (now, disk) = (Time::from_nanos(1), Arc::default());
        let mut world = World {
            now,
            monitor: World::monitor(&disk, now),
            disk,
            agents: [0, 1].map(|index| World::agent(index, now)),
        };
        world.pass(Duration::ZERO);
        world
    }

    /// A monitor that begins with what is kept.
    fn monitor(disk: &Arc<Mutex<Disk>>, now: Time) -> Monitor<Kept> {
        let (settings, policy) = (monitor::Settings::default(), Box::new(ByDistanceAndLoad));
        let state = disk.lock().expect("one thread").state.clone();
        let keeper = (Kept(Arc::clone(disk)), &state);
        Monitor::new(settings, secret(), policy, keeper, numbers(), now)
    }

    /// An agent that begins, and its borrower.
    fn agent(index: usize, now: Time) -> Agent<Shelf> {
        let settings = agent::Settings {
            name: format!("n{index}").parse().expect("a name"),
            monitors: 1,
            place: String::new(),
            probe: at(index),
            lends: lends(),
            keep_free: 1000,
            reclaim_within: Duration::from_secs(1),
            borrow_within: Duration::from_secs(1),
        };
        let shelf = Shelf(at(index), BTreeMap::new());
        let mut agent = Agent::new(settings, secret(), shelf, numbers(), now);
        agent.memory(PLENTY, now);
        agent.client_opened(BORROWER);
        agent
    }

    fn now(&self) -> Now {
        Now {
            at: self.now,
            unix_seconds: 1,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.monitor.tick(self.now());
        self.agents.iter_mut().for_each(|it| it.tick(self.now));
        self.settle();
    }

    /// Takes each other's messages to where they go, until there are none.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut was_quiet = true;
            for index in 0..self.agents.len() {
                for effect in self.agents[index].flush() {
                    was_quiet = false;
                    self.act(index, effect);
                }
            }
            for effect in self.monitor.flush().expect("it leads") {
                was_quiet = false;
                match effect {
                    monitor::Effect::Send(connection, message) => {
                        let agent = &mut self.agents[connection as usize];
                        agent.received(message, self.now);
                    }
                    monitor::Effect::Close(connection) => {
                        self.agents[connection as usize].disconnected(self.now);
                    }
                }
            }
            if was_quiet {
                return self.check();
            }
        }
        panic!("they talk for ever");
    }

    /// What an agent does. Its connection has its number.
    fn act(&mut self, index: usize, effect: agent::Effect) {
        let (now, agent) = (self.now(), &mut self.agents[index]);
        match effect {
            agent::Effect::Connect(_) => {
                self.monitor.opened(index as u64, now);
                agent.connected(self.now);
            }
            agent::Effect::Disconnect => self.monitor.closed(index as u64, now),
            agent::Effect::Say(message) => self.monitor.received(index as u64, message, now),
            agent::Effect::Drop(borrower) => {
                assert_eq!(borrower, BORROWER);
                agent.client_opened(BORROWER);
            }
            agent::Effect::Probe(to, bytes) => {
                if let Some(to) = (0..self.agents.len()).find(|other| at(*other) == to) {
                    self.agents[to].probed(at(index), &bytes, self.now);
                }
            }
            agent::Effect::Tell(..) => {}
        }
    }

    /// What the monitor knows, whatever it was told, is what it would know if it began anew.
    fn check(&self) {
        let disk = self.disk.lock().expect("one thread");
        let kept = &disk.state.loans;
        assert_eq!(self.monitor.rat().count(), kept.len());
        for (id, loan) in self.monitor.rat().rows() {
            assert_ne!(loan.lender, loan.borrower, "a node borrows of itself");
            let kept = kept.get(&id).expect("what there is is kept");
            let same = (&kept.lender, &kept.borrower, kept.share);
            assert_eq!(same, (&loan.lender, &loan.borrower, loan.share));
            assert!(kept.stands || !loan.is_live(), "{loan:?} does not stand");
        }
    }

    /// The connection of an agent is cut.
    fn cut(&mut self, index: usize) {
        self.monitor.closed(index as u64, self.now());
        self.agents[index].disconnected(self.now);
    }

    /// All borrowers leave, and no more lies are told: what was not so is made up for on new
    /// connections, and all is lent no more.
    fn end(mut self) {
        self.disk.lock().expect("one thread").is_full = false;
        for index in 0..self.agents.len() {
            self.cut(index);
            self.agents[index].client_closed(BORROWER);
        }
        for _ in 0..30 {
            let agents = self.agents.iter_mut();
            agents.for_each(|agent| agent.memory(PLENTY, self.now));
            self.pass(Duration::from_secs(1));
        }
        assert_eq!(self.monitor.rat().count(), 0, "loans are left");
        for agent in &self.agents {
            let status = agent.status(self.now);
            assert!(status.is_registered, "{:?}", status.trouble);
            assert_eq!((status.lent, status.borrowed), (vec![], vec![]));
            let all = (status.offers.iter()).all(|offer| offer.idle == offer.size);
            assert!(all || agent.has_left(), "{:?}", status.offers);
        }
    }
}

/// A message, which is written as it was read.
fn message<M: Framed + Clone + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<M> {
    let message = M::take_from(bytes)?;
    let mut written = Vec::new();
    wire::put(&message, &mut written);
    let length = written.len();
    let read = wire::first::<M>(&written, MESSAGE_MAX);
    assert_eq!(read, Ok(Some((message.clone(), length))));
    Some(message)
}

/// What a borrower says that means what it says.
fn honest(how: u8, agent: &Agent<Shelf>, now: Time) -> Local {
    let borrowed = agent.status(now).borrowed;
    match borrowed.get(usize::from(how >> 4)) {
        Some((loan, _)) if how & 8 > 0 => Local::GiveBack { loan: *loan },
        lent => Local::Borrow {
            request: how.into(),
            share: match Kind::ALL[usize::from(how & 3)] {
                Kind::Memory => Share::memory(u64::from(how) << 12 | 1),
                kind => Share::of_one(kind, how & 4 > 0),
            },
            apart: lent.map(|(loan, _)| *loan).into_iter().collect(),
        },
    }
}

fuzz_target!(|data: &[u8]| {
    let mut world = World::new();
    let mut rest = data;
    while let [kind, number, behind @ ..] = rest {
        let says = if kind & 15 < 6 { *number } else { 0 };
        let (bytes, next) = behind.split_at(usize::from(says).min(behind.len()));
        rest = next;
        let (now, which) = (world.now, usize::from(kind >> 7));
        let agent = &mut world.agents[which];
        match kind & 15 {
            0 | 1 => {
                if let Some(message) = message::<Message>(bytes) {
                    let now = world.now();
                    world.monitor.received(which as u64, message, now);
                }
            }
            2 | 3 => {
                if let Some(message) = message::<Message>(bytes) {
                    agent.received(message, now);
                }
            }
            4 => {
                if let Some(local) = message::<Local>(bytes) {
                    agent.client_said(BORROWER, local, now);
                }
            }
            5 => agent.probed(at(1 - which), bytes, now),
            6 => agent.memory(u64::from(*number) << 4, now),
            7 => agent.memory(PLENTY, now),
            8 => agent.leave(now),
            9 => {
                world.cut(which);
                world.agents[which] = World::agent(which, now);
            }
            10 => world.cut(which),
            11 => {
                (0..world.agents.len()).for_each(|index| world.cut(index));
                world.monitor = World::monitor(&world.disk, now);
            }
            12 => world.disk.lock().expect("one thread").is_full = number & 1 > 0,
            13 => world.pass(Duration::from_millis(u64::from(*number) * 20)),
            _ => {
                let honest = honest(*number, agent, now);
                agent.client_said(BORROWER, honest, now);
            }
        }
        world.settle();
    }
    world.end();
});
