//! What clients ask, and what they remember of it.

use crate::history::{KeyHistory, Op, Said};
use crate::random::Random;
use crate::world::Counts;
use rhythm_kv::consensus::{Answer, Command, Outcome, Read, Request, Ticket};
use rhythm_kv::wire::Mode;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys of texts; the one behind them is a number.
const TEXTS: usize = 3;
/// How long the lease lives that one client holds.
const TTL: Duration = Duration::from_millis(2500);
/// What is stored with it.
const OWN: &[u8] = b"own";
/// The digit that is appended to numbers that are smaller.
const MORE: u64 = 7;
const LONG: u64 = 1_000_000_000;

/// What a client waits for.
#[derive(Clone, Copy, Debug)]
enum Waits {
    /// For the answer to a question about a key.
    Key(usize, usize),
    /// For a lease, or for a sign of life in this one, sent at this time.
    Lease(u64, Time),
    /// To have stored something in this lease.
    Stored(u64),
    /// Who replaces a node, for a write to be confirmed.
    Replacing,
    /// For nothing any more.
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct Clients {
    histories: Vec<KeyHistory>,
    /// Of each key's history, a value that was there, and its revision.
    known: Vec<Option<(u64, u64)>>,
    /// The keys that are asked about.
    keys: Vec<usize>,
    waits: BTreeMap<Ticket, (usize, Waits)>,
    tickets: u64,
    values: u64,
    /// A write of who replaces a node was confirmed.
    is_confirmed: bool,
    /// The lease that is held, and when the last sign of life was sent that was answered.
    lease: Option<(u64, Time)>,
}

fn key(index: usize) -> Vec<u8> {
    format!("key-{index}").into_bytes()
}

impl Clients {
    pub(crate) fn new() -> Clients {
        Clients {
            histories: vec![KeyHistory::default(); TEXTS + 1],
            known: vec![None; TEXTS + 1],
            keys: (0..=TEXTS).collect(),
            ..Clients::default()
        }
    }

    fn wait(&mut self, node: usize, waits: Waits) -> Ticket {
        self.tickets += 1;
        self.waits.insert(self.tickets, (node, waits));
        self.tickets
    }

    /// A ticket for whose answer nobody waits.
    pub(crate) fn nobodys(&mut self, node: usize) -> Ticket {
        self.wait(node, Waits::Gone)
    }

    /// A client's next question, for this node.
    pub(crate) fn ask(&mut self, node: usize, random: &mut Random) -> (Ticket, Request) {
        let place = random.below(TEXTS as u64 + 1) as usize;
        if self.histories[self.keys[place]].is_full() {
            self.keys[place] = self.histories.len();
            self.histories.push(KeyHistory::default());
            self.known.push(None);
        }
        let at = self.keys[place];
        self.values += 1;
        let new = 1_000_000 + self.values;
        let is_number = place == TEXTS;
        let known = self.known[at];
        let op = match (random.below(100), known) {
            (0..35, _) => Op::Get,
            (35..40, _) => Op::Delete,
            (40..60, _) if is_number => Op::Add(1),
            (60.., _) if is_number => Op::Incr(1 + random.below(3)),
            (40..55, _) => Op::Add(new),
            (55..75, Some((old, _))) => Op::Cas(old, new),
            (75..90, Some((old, _))) if old < LONG => Op::Append(old, 10 * old + MORE),
            _ => Op::Set(new),
        };
        let number = self.histories[at].ask(op);
        let ticket = self.wait(node, Waits::Key(at, number));
        let store = |mode, value: u64, cas| Command::Store {
            mode,
            key: key(at),
            flags: 0,
            value: value.to_string().into_bytes(),
            cas,
            lease: None,
        };
        let revision = known.map_or(0, |(_, revision)| revision);
        let request = match op {
            Op::Get => Request::Read(Read::Item(key(at))),
            Op::Set(value) => Request::Change(store(Mode::Set, value, 0)),
            Op::Add(value) => Request::Change(store(Mode::Add, value, 0)),
            Op::Cas(_, value) => Request::Change(store(Mode::Cas, value, revision)),
            Op::Append(..) => Request::Change(store(Mode::Append, MORE, revision)),
            Op::Delete => Request::Change(Command::Delete {
                key: key(at),
                cas: None,
            }),
            Op::Incr(delta) => Request::Change(Command::Arithmetic {
                key: key(at),
                up: true,
                delta,
            }),
        };
        (ticket, request)
    }

    /// The holder's next: to hold a lease, and something in it.
    pub(crate) fn hold(
        &mut self,
        node: usize,
        random: &mut Random,
        now: Time,
    ) -> (Ticket, Request) {
        match self.lease {
            None => {
                let ticket = self.wait(node, Waits::Lease(0, now));
                let ttl = TTL.as_millis() as u64;
                (ticket, Request::Change(Command::Open { ttl }))
            }
            Some((lease, _)) if random.percent(30) => {
                let ticket = self.wait(node, Waits::Stored(lease));
                let store = Command::Store {
                    mode: Mode::Set,
                    key: OWN.to_vec(),
                    flags: 0,
                    value: b"x".to_vec(),
                    cas: 0,
                    lease: Some(lease),
                };
                (ticket, Request::Change(store))
            }
            Some((lease, _)) => {
                let ticket = self.wait(node, Waits::Lease(lease, now));
                (ticket, Request::Change(Command::Renew { lease }))
            }
        }
    }

    /// The holder begins a lease, or gives a sign of life.
    pub(crate) fn sign_of_life(&mut self, node: usize, now: Time) -> (Ticket, Request) {
        let lease = self.lease.map_or(0, |(lease, _)| lease);
        let ttl = TTL.as_millis() as u64;
        let command = match lease {
            0 => Command::Open { ttl },
            lease => Command::Renew { lease },
        };
        (
            self.wait(node, Waits::Lease(lease, now)),
            Request::Change(command),
        )
    }

    /// Whether a lease is held, as far as the holder knows.
    pub(crate) fn holds_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// One who waits for a node's answer about a key waits no longer.
    pub(crate) fn leave(&mut self, node: usize) -> Option<Ticket> {
        let mut waits = self.waits.iter_mut();
        let (ticket, waits, (key, number)) =
            waits.find_map(|(ticket, (of, waits))| match *waits {
                Waits::Key(key, number) if *of == node => Some((*ticket, waits, (key, number))),
                _ => None,
            })?;
        *waits = Waits::Gone;
        self.histories[key].give_up(number);
        Some(ticket)
    }

    /// A write by who replaces a node.
    pub(crate) fn confirm(&mut self, node: usize) -> (Ticket, Request) {
        let store = Command::Store {
            mode: Mode::Set,
            key: b"replaced".to_vec(),
            flags: 0,
            value: b"x".to_vec(),
            cas: 0,
            lease: None,
        };
        (self.wait(node, Waits::Replacing), Request::Change(store))
    }

    /// No such write was confirmed yet.
    pub(crate) fn unconfirm(&mut self) {
        self.is_confirmed = false;
    }

    /// Whether one was.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// A node answered.
    pub(crate) fn answered(
        &mut self,
        ticket: Ticket,
        answer: Answer,
        now: Time,
        counts: &mut Counts,
    ) {
        let Some((_, waits)) = self.waits.remove(&ticket) else {
            panic!("answered twice, or never asked: {answer:?}");
        };
        match (waits, answer) {
            (Waits::Key(at, number), answer) => self.of_key(at, number, answer, counts),
            (Waits::Replacing, Answer::Done(Outcome::Stored(_))) => self.is_confirmed = true,
            (Waits::Lease(0, sent), Answer::Done(Outcome::Alive(lease))) => {
                self.lease = Some((lease, sent));
            }
            (Waits::Lease(of, sent), Answer::Done(Outcome::Alive(_))) => {
                if let Some((lease, last)) = &mut self.lease
                    && *lease == of
                {
                    *last = sent.max(*last);
                }
            }
            (Waits::Lease(of, _), Answer::Done(Outcome::NotFound))
            | (Waits::Stored(of), Answer::Done(Outcome::LeaseOver)) => {
                self.lease_over(of, now, counts);
            }
            _ => {}
        }
    }

    fn lease_over(&mut self, of: u64, now: Time, counts: &mut Counts) {
        if let Some((lease, sent)) = self.lease.take_if(|(lease, _)| *lease == of) {
            let alive = now.since(sent);
            assert!(alive >= TTL, "lease {lease} ended after {alive:?}");
            counts.leases_ended += 1;
        }
    }

    fn of_key(&mut self, at: usize, number: usize, answer: Answer, counts: &mut Counts) {
        let history = &mut self.histories[at];
        let said = match answer {
            Answer::Item(item) => {
                counts.read += 1;
                let item = item.map(|item| {
                    let value = String::from_utf8(item.value.to_vec()).expect("digits");
                    (value.parse().expect("digits"), item.revision)
                });
                self.known[at] = item.or(self.known[at]);
                Said::Item(item)
            }
            Answer::Done(outcome) => {
                counts.changed += 1;
                match outcome {
                    Outcome::Stored(revision) => Said::Stored(revision),
                    Outcome::Number(number, revision) => Said::Number(number, revision),
                    Outcome::NotStored => Said::NotStored,
                    Outcome::Exists => Said::Exists,
                    Outcome::NotFound => Said::NotFound,
                    Outcome::Deleted => Said::Deleted,
                    outcome => panic!("{outcome:?}"),
                }
            }
            Answer::PerhapsDone => {
                counts.perhaps += 1;
                return history.give_up(number);
            }
            Answer::NothingDone => {
                counts.nothing += 1;
                return history.forget(number);
            }
            Answer::DiskFull => {
                counts.disk_full += 1;
                return history.forget(number);
            }
            Answer::Revision(_) => panic!("nobody asked for it"),
        };
        history.answer(number, said);
    }

    /// A node died: who waits for it does not know what became of it.
    pub(crate) fn died(&mut self, node: usize) {
        self.waits.retain(|_, (of, waits)| {
            if let Waits::Key(at, number) = *waits
                && *of == node
            {
                self.histories[at].give_up(number);
            }
            *of != node
        });
    }

    /// Nothing is asked any more.
    pub(crate) fn check(self) {
        for (at, history) in self.histories.into_iter().enumerate() {
            if !history.is_linearizable() {
                history.print();
                panic!("the history of key {at} is not linearizable");
            }
        }
    }

    pub(crate) const fn own() -> &'static [u8] {
        OWN
    }

    pub(crate) const fn ttl() -> Duration {
        TTL
    }
}
