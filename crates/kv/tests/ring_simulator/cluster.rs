//! One node with its store and a worker, as a server has them, but for threads and sockets.

use crate::network;
use crate::sabotage::{self, Sabotage};
use rhythm_kv::ring::ether::{Came, Ether};
use rhythm_kv::ring::{Effects, Execute, Local, Node, Options, Ticket, View, Written};
use rhythm_kv::ring::{Placement, Road, Roster, Scheme, Terms, Unanswered};
use rhythm_kv::store::{Change, Marks, New, Pinned, Store, StoreOptions, Value, Worker};
use rhythm_net::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Set(u64),
    Delete(u64),
    Get,
}

/// An answer: what was found, if it was a get.
pub(crate) type Answer = Option<u64>;

/// What the worker hands over, in this order.
enum Handed {
    Written(Ticket, Written),
    Forward(Ticket, Road, Vec<u8>),
    Fenced(u64),
}

/// The client that flushes all items.
pub(crate) const FLUSH: usize = usize::MAX;

/// Bytes for another node that may be untaken before frames are dropped.
const UNTAKEN_MAX: usize = 1 << 18;

pub(crate) struct Live {
    /// What frames go through, where it is not TCP.
    ether: Option<Ether>,
    pub(crate) node: Node,
    pub(crate) view: Arc<View>,
    store: Worker,
    handed: VecDeque<Handed>,
    tickets: u64,
    /// Clients' commands without an answer, and the answer that is ready.
    pub(crate) waiting: BTreeMap<u64, (usize, Answer)>,
    /// Of these, those that were forwarded, and their range.
    forwarded: BTreeMap<u64, usize>,
    skew: u32,
    is_acked: bool,
    is_chain: bool,
    pub(crate) is_leaving: bool,
    pub(crate) sabotage: Sabotage,
}

/// What becomes of a client's command: its number, and the answer, or why there is none.
pub(crate) type Done = (usize, Result<Answer, Unanswered>);

/// The answer of a node that may not write.
const REFUSED: &str = "refused";

pub(crate) fn key(number: usize) -> String {
    format!("key-{number}")
}

fn command(op: Op, key: usize) -> Vec<u8> {
    let text = match op {
        Op::Set(write) => format!("set {key} {write}"),
        Op::Delete(_) => format!("delete {key} 0"),
        Op::Get => format!("get {key} 0"),
    };
    text.into_bytes()
}

fn parsed(command: &[u8]) -> (Op, usize) {
    let text = std::str::from_utf8(command).expect("text");
    let words: Vec<&str> = text.split(' ').collect();
    let (key, write) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    match words[0] {
        "set" => (Op::Set(write), key),
        "delete" => (Op::Delete(0), key),
        _ => (Op::Get, key),
    }
}

/// Executes a command on the store.
fn execute(op: Op, number: usize, now: u32, pinned: &mut Pinned<'_>, w: &mut Written) -> Answer {
    let key = key(number);
    let key = key.as_bytes();
    let hash = pinned.store().hash(key);
    match op {
        Op::Set(write) => {
            let value = write.to_string();
            let new = New {
                value: Value::Bytes(value.as_bytes()),
                flags: 7,
                expires: 0,
                cas: None,
                marks: Marks::default(),
            };
            let set = pinned.update(hash, key, now, |_| (Change::Store(new), ()));
            set.expect("there is room");
            w.key(key);
            None
        }
        Op::Delete(_) => {
            let gone = pinned.update(hash, key, now, |_| (Change::Remove, ()));
            gone.expect("it needs none");
            w.key(key);
            None
        }
        Op::Get => {
            let item = pinned.get(hash, key, now)?;
            item.access(now);
            Some(std::str::from_utf8(item.value()).ok()?.parse().unwrap())
        }
    }
}

impl Live {
    pub(crate) fn new(
        placement: &Placement,
        roster: &Roster,
        me: usize,
        options: &Options,
        session: u64,
        ether: Option<usize>,
        now: Time,
    ) -> Live {
        let places = roster.places();
        let terms = Terms::new("node", []);
        let new = |bytes_max| Ether::new(&terms, places, me, session, bytes_max, now);
        let ether = ether.map(new);
        let view = Arc::new(View::new(placement.clone(), me).with_workers(1));
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            workers: 1,
            secret: Some([session, me as u64]),
            ..StoreOptions::default()
        });
        let store = Store::worker(&Arc::new(store.expect("memory"))).expect("a seat");
        Live {
            ether,
            node: Node::new(
                terms,
                session,
                options.clone(),
                Arc::clone(&view),
                roster.clone(),
                now,
            ),
            view,
            store,
            handed: VecDeque::new(),
            tickets: 0,
            waiting: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            skew: 100 + 7 * me as u32,
            is_acked: options.acked,
            is_chain: options.scheme == Scheme::Chain,
            is_leaving: false,
            sabotage: Sabotage::None,
        }
    }

    pub(crate) fn leave(&mut self, now: Time) {
        self.is_leaving = true;
        self.node.leave(now);
    }

    fn second(&self, now: Time) -> u32 {
        self.skew + (now.as_nanos() / 1_000_000_000) as u32
    }

    /// Whether this node may write.
    pub(crate) fn may_write(&self, now: Time) -> bool {
        self.view.may_write(now)
    }

    /// A client's commands come, in this order. Those that are answered at once, and that one was
    /// forwarded.
    pub(crate) fn ask(&mut self, ops: &[(usize, Op, usize)], now: Time) -> (Vec<Done>, u64) {
        let second = self.second(now);
        let mut done = Vec::new();
        let mut written = Written::default();
        let (mut batch, mut count) = (Vec::new(), 0);
        // What this burst of a client wrote or asked for, and has no answer to.
        let (mut awaits, mut roads) = (false, Vec::new());
        for (client, op, number) in ops {
            let range = self.view.placement().range(key(*number).as_bytes());
            let goes_on = self.forwarded.values().any(|other| *other == range);
            let may_read_copy =
                self.view.may_read_copy(range, now) || self.sabotage == Sabotage::ReadsAnyCopy;
            let may_read = *op == Op::Get && may_read_copy;
            let is_elsewhere = self.view.is_elsewhere(range, || now);
            let server = Road::to_server(range);
            let reading = Road {
                reads: true,
                ..server
            };
            let road = match self.is_chain {
                false => (goes_on || is_elsewhere && !may_read).then_some(server),
                true if roads.contains(&server) => Some(server),
                true if *op == Op::Get && may_read => roads.contains(&reading).then_some(reading),
                true if *op == Op::Get => (is_elsewhere || !awaits).then_some(reading),
                true => (is_elsewhere || roads.contains(&reading)).then_some(server),
            };
            if let Some(road) = road {
                // What was written before is handed over before.
                self.hand(&mut written, &mut batch, &mut done);
                self.tickets += 1;
                let ticket = Ticket {
                    worker: 0,
                    number: self.tickets,
                };
                self.waiting.insert(self.tickets, (*client, None));
                self.forwarded.insert(self.tickets, range);
                roads.push(road);
                let command = command(*op, *number);
                self.handed
                    .push_back(Handed::Forward(ticket, road, command));
                count += 1;
                continue;
            }
            if *op != Op::Get && !self.view.may_write(now) {
                done.push((*client, Err(Unanswered::NotDone)));
                continue;
            }
            if *op != Op::Get {
                self.view.writes(Ticket {
                    worker: 0,
                    number: self.tickets + 1,
                });
            }
            let mut nowhere = Written::default();
            let written = match self.sabotage {
                Sabotage::ForgetsWrites if self.tickets.is_multiple_of(8) => &mut nowhere,
                _ => &mut written,
            };
            let answer = execute(*op, *number, second, &mut self.store.pin(), written);
            if self.is_chain && is_elsewhere {
                done.push((*client, Ok(answer)));
                continue;
            }
            awaits = true;
            if self.is_chain {
                written.shows(1 << range);
            }
            batch.push((*client, answer));
        }
        self.hand(&mut written, &mut batch, &mut done);
        (done, count)
    }

    /// A worker does this in a turn that began when its node served the key's range, whoever does
    /// by now. Its clock shows a second so much later than its node's did.
    pub(crate) fn does_late(&mut self, op: Op, number: usize, later: u32, now: Time) {
        let (second, mut written) = (self.second(now) + later, Written::default());
        execute(op, number, second, &mut self.store.pin(), &mut written);
        self.hand(&mut written, &mut Vec::new(), &mut Vec::new());
    }

    /// A client has all items go in so many seconds; 0: now.
    pub(crate) fn flush_in(&mut self, seconds: u32) {
        self.tickets += 1;
        let ticket = Ticket {
            worker: 0,
            number: self.tickets,
        };
        self.waiting.insert(self.tickets, (FLUSH, None));
        self.forwarded.insert(self.tickets, usize::MAX);
        let command = format!("flush {seconds}").into_bytes();
        let forward = Handed::Forward(ticket, Road::HERE, command);
        self.handed.push_back(forward);
    }

    /// The last thing that was handed over comes to the node first, as of another worker.
    pub(crate) fn hands_over_last_first(&mut self) {
        self.handed.rotate_right(1);
    }

    fn hand(&mut self, written: &mut Written, batch: &mut Vec<(usize, Answer)>, d: &mut Vec<Done>) {
        let written = std::mem::take(written);
        let awaits_copies = self.is_acked && self.sabotage != Sabotage::AnswersAtOnce;
        // What the head of a chain shows is to be confirmed.
        let is_awaited = self.is_chain && !batch.is_empty();
        if written.is_empty() && !is_awaited {
            d.extend(batch.drain(..).map(|(client, answer)| (client, Ok(answer))));
            return;
        }
        self.tickets += 1;
        let ticket = Ticket {
            worker: 0,
            number: self.tickets,
        };
        self.handed.push_back(Handed::Written(ticket, written));
        for (client, answer) in batch.drain(..) {
            match awaits_copies {
                // One ticket for all: the clients of a batch are numbered one after the other.
                true => drop(self.waiting.insert(self.tickets, (client, answer))),
                false => d.push((client, Ok(answer))),
            }
            if awaits_copies {
                self.tickets += 1;
            }
        }
    }

    /// The node takes some of what the worker handed over, all that came before a time.
    pub(crate) fn take(&mut self, count: usize, now: Time, effects: &mut Effects) {
        let second = self.second(now);
        for _ in 0..count {
            let Some(handed) = self.handed.pop_front() else {
                return;
            };
            let mut pinned = self.store.pin();
            let local = Local::new(&mut pinned, second);
            match handed {
                Handed::Written(ticket, written) => {
                    self.node.written(Some(ticket), &written, &local);
                    self.node.took(ticket);
                }
                Handed::Forward(ticket, road, command) => {
                    self.node.forward(ticket, road, command, now, effects);
                }
                Handed::Fenced(fence) => self.node.fenced(fence, now, effects),
            }
        }
    }

    /// What the backbone brought: a frame, or a piece of some.
    pub(crate) fn come(&mut self, bytes: &[u8], now: Time, effects: &mut Effects) {
        let Some(ether) = &mut self.ether else {
            return self.frame(bytes, now, effects);
        };
        let came = ether.take(bytes, now);
        if let Came::Another { from, session } = came {
            self.node.hears_another(from, session, now);
        }
        if let Came::Met(from) = came {
            self.node.connected(from, now);
        }
        if let Came::From(from) | Came::Met(from) = came {
            self.node.heard(from, now);
            let mut coming = std::mem::take(ether.coming(from));
            let frames = network::frames(&coming);
            let whole: usize = frames.iter().map(Vec::len).sum();
            coming.drain(..whole);
            *ether.coming(from) = coming;
            for frame in frames {
                self.frame(&frame, now, effects);
            }
        }
    }

    /// What is on its way to other nodes, each frame or piece by itself.
    pub(crate) fn outbound(&mut self, effects: &mut Effects, now: Time) -> Vec<(usize, Vec<u8>)> {
        let sabotage = self.sabotage;
        let all = std::mem::take(&mut effects.frames).into_iter();
        let all = all
            .map(move |bytes| sabotage::said(sabotage, bytes))
            .enumerate();
        let Some(ether) = &mut self.ether else {
            let each = |(to, bytes): (usize, Vec<u8>)| {
                let frames = network::frames(&bytes).into_iter();
                frames.map(move |frame| (to, frame)).collect::<Vec<_>>()
            };
            return all.flat_map(each).collect();
        };
        for (to, bytes) in all {
            if to != self.view.me() {
                ether.send(to, &bytes, UNTAKEN_MAX);
            }
        }
        let mut pieces = Vec::new();
        ether.flush(self.node.alive(), now, |to, _, piece| {
            pieces.push((to, piece.to_vec()))
        });
        pieces
    }

    pub(crate) fn wake_at(&self) -> Time {
        let ether = self.ether.as_ref().map_or(Time::NEVER, Ether::wake_at);
        self.node.wake_at().min(ether)
    }

    fn frame(&mut self, bytes: &[u8], now: Time, effects: &mut Effects) {
        let second = self.second(now);
        let mut pinned = self.store.pin();
        let mut local = Local::new(&mut pinned, second);
        self.node.frame(bytes, &mut local, now, effects);
    }

    pub(crate) fn tick(&mut self, now: Time, effects: &mut Effects) {
        let second = self.second(now);
        let mut pinned = self.store.pin();
        let mut local = Local::new(&mut pinned, second);
        self.node.tick(&mut local, now, effects);
    }

    /// Does what the node wants done, and tells whose commands are answered.
    pub(crate) fn settle(&mut self, now: Time, effects: &mut Effects) -> Vec<Done> {
        while let Some(first) = (!effects.executes.is_empty()).then(|| effects.executes.remove(0)) {
            self.run(&first, now, effects);
        }
        if let Some(fence) = effects.fence.take() {
            match self.sabotage {
                Sabotage::FencesAtOnce => self.handed.push_front(Handed::Fenced(fence)),
                _ => self.handed.push_back(Handed::Fenced(fence)),
            }
        }
        self.node.flush(now, effects);
        let mut done = Vec::new();
        let released = effects.released.drain(..).map(|ticket| (ticket, true));
        let broken = effects.broken.drain(..).map(|ticket| (ticket, false));
        let hides_losses = self.sabotage == Sabotage::HidesLosses;
        for (ticket, is_released) in released.chain(broken) {
            let is_released = is_released || hides_losses;
            // Those of the same batch have the numbers that follow, up to the next ticket.
            let mut number = ticket.number;
            while let Some((client, answer)) = self.waiting.remove(&number) {
                let answer = is_released.then_some(answer);
                done.push((client, answer.ok_or(Unanswered::Unknown)));
                number += 1;
                if self.forwarded.contains_key(&number) {
                    break;
                }
            }
        }
        for (ticket, answer) in effects.answers.drain(..) {
            self.forwarded.remove(&ticket.number);
            if let Some((client, _)) = self.waiting.remove(&ticket.number) {
                let answer = answer.and_then(|answer| match answer == REFUSED.as_bytes() {
                    true => Err(Unanswered::NotDone),
                    false => Ok(answer),
                });
                let read = |text: Vec<u8>| String::from_utf8(text).unwrap().parse().ok();
                done.push((client, answer.map(read)));
            }
        }
        done
    }

    fn run(&mut self, forwarded: &Execute, now: Time, effects: &mut Effects) {
        let second = self.second(now);
        let mut written = Written::default();
        let mut pinned = self.store.pin();
        if let Some(seconds) = forwarded.command.strip_prefix(b"flush ") {
            let seconds = std::str::from_utf8(seconds).expect("text");
            match seconds.parse().expect("a number") {
                0 => {
                    pinned.store().flush_all(second, second);
                    written.flush();
                }
                later => written.flush_at(second + later),
            }
            let local = Local::new(&mut pinned, second);
            return (self.node).executed(forwarded, Vec::new(), &written, &local, effects);
        }
        let (op, number) = parsed(&forwarded.command);
        let answer = match op == Op::Get || self.view.may_write(now) {
            true => {
                let answer = execute(op, number, second, &mut pinned, &mut written);
                answer.map_or(String::new(), |write| write.to_string())
            }
            false => REFUSED.to_owned(),
        };
        let local = Local::new(&mut pinned, second);
        (self.node).executed(forwarded, answer.into_bytes(), &written, &local, effects);
    }

    /// What is there under a key.
    pub(crate) fn value(&mut self, number: usize, now: Time) -> Option<u64> {
        let second = self.second(now);
        let (key, pinned) = (key(number), self.store.pin());
        let hash = pinned.store().hash(key.as_bytes());
        let item = pinned.get(hash, key.as_bytes(), second)?;
        std::str::from_utf8(item.value()).ok()?.parse().ok()
    }

    /// All valid items of a range.
    pub(crate) fn items(&mut self, range: usize, now: Time) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let second = self.second(now);
        let placement = self.view.placement().clone();
        let pinned = self.store.pin();
        let mut items = BTreeMap::new();
        let mut bucket = 0;
        loop {
            let is_there = pinned.walk(bucket, |item| {
                let hash = pinned.store().hash(item.key());
                if placement.range(item.key()) == range
                    && let Some(item) = pinned.get(hash, item.key(), second)
                {
                    assert_eq!(item.flags(), 7);
                    items.insert(item.key().to_vec(), item.value().to_vec());
                }
            });
            if !is_there {
                return items;
            }
            bucket += 1;
        }
    }
}
