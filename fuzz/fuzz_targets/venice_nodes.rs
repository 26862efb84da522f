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
use rhythm_venice::secret::{Nonce, Secret};
use rhythm_venice::wire::{self, Framed, Local, MESSAGE_MAX, Message};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Keeps what can have happened.
#[derive(Default)]
struct Kept(State);

impl Keeper for Kept {
    fn keep(&mut self, records: &[Record]) -> Result<(), NotKept> {
        for record in records {
            assert!(self.0.take(record), "{record:?} cannot have happened");
        }
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        true
    }
}

/// Lends what it is asked for.
#[derive(Default)]
struct Shelf(BTreeMap<LoanId, u64>);

impl Lender for Shelf {
    fn grant(&mut self, loan: LoanId, bytes: u64, _: &LoanKey) -> Result<SocketAddr, NoRoom> {
        assert!(self.0.insert(loan, bytes).is_none(), "{loan:?} is lent");
        Ok(([127, 0, 0, 1], 1).into())
    }

    fn revoke(&mut self, loan: LoanId) {
        self.0.remove(&loan);
    }

    fn lent(&self) -> Vec<(LoanId, u64)> {
        self.0.iter().map(|(loan, bytes)| (*loan, *bytes)).collect()
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

struct World {
    now: Time,
    monitor: Monitor<Kept>,
    agents: [Agent<Shelf>; 2],
}

/// The borrower of each agent.
const BORROWER: u64 = 9;

impl World {
    fn new() -> World {
        let now = Time::from_nanos(1);
        let secret = || Secret::of(b"0123456789abcdef");
        let agent = |name: &str| {
            let settings = agent::Settings {
                name: name.parse().expect("a name"),
                monitors: 1,
                place: String::new(),
                probe: ([127, 0, 0, 1], 2).into(),
                size: 1 << 20,
                keep_free: 0,
                reclaim_within: Duration::from_secs(1),
                borrow_within: Duration::from_secs(1),
            };
            Agent::new(settings, secret(), Shelf::default(), numbers(), now)
        };
        let mut world = World {
            now,
            monitor: Monitor::new(
                monitor::Settings::default(),
                secret(),
                Box::new(ByDistanceAndLoad),
                (Kept::default(), &State::default()),
                numbers(),
                now,
            ),
            agents: [agent("a"), agent("b")],
        };
        for agent in &mut world.agents {
            agent.memory(1 << 30, now);
            agent.client_opened(BORROWER);
            agent.tick(now);
        }
        world.settle();
        world
    }

    fn now(&self) -> Now {
        Now {
            at: self.now,
            unix_seconds: 1,
        }
    }

    /// Takes each other's messages to where they go, until there are none.
    fn settle(&mut self) {
        let now = self.now();
        for _ in 0..1000 {
            let mut was_quiet = true;
            for (index, agent) in self.agents.iter_mut().enumerate() {
                let connection = index as u64;
                for effect in agent.flush() {
                    was_quiet = false;
                    match effect {
                        agent::Effect::Connect(_) => {
                            self.monitor.opened(connection, now);
                            agent.connected();
                        }
                        agent::Effect::Disconnect => self.monitor.closed(connection, now),
                        agent::Effect::Say(message) => {
                            self.monitor.received(connection, message, now);
                        }
                        agent::Effect::Drop(borrower) => {
                            assert_eq!(borrower, BORROWER);
                            agent.client_opened(BORROWER);
                        }
                        agent::Effect::Tell(..) | agent::Effect::Probe(..) => {}
                    }
                }
            }
            for effect in self.monitor.flush().expect("it keeps all") {
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
                return;
            }
        }
        panic!("they talk for ever");
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

fuzz_target!(|data: &[u8]| {
    let mut world = World::new();
    let mut rest = data;
    while let [kind, length, behind @ ..] = rest {
        let (bytes, next) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = next;
        let (now, which) = (world.now(), usize::from(kind >> 7));
        match kind & 7 {
            0 | 1 => {
                if let Some(message) = message::<Message>(bytes) {
                    world.monitor.received(which as u64, message, now);
                }
            }
            2 | 3 => {
                if let Some(message) = message::<Message>(bytes) {
                    world.agents[which].received(message, world.now);
                }
            }
            4 => {
                if let Some(local) = message::<Local>(bytes) {
                    world.agents[which].client_said(BORROWER, local, world.now);
                }
            }
            5 => {
                let from = ([127, 0, 0, 1], 3).into();
                world.agents[which].probed(from, bytes, world.now);
            }
            6 => {
                let available = u64::from(*length) << 22;
                world.agents[which].memory(available, world.now);
            }
            _ => {
                world.now = world.now + Duration::from_millis(u64::from(*length) * 20);
                world.monitor.tick(world.now());
                world
                    .agents
                    .iter_mut()
                    .for_each(|agent| agent.tick(world.now));
            }
        }
        world.settle();
    }
});
