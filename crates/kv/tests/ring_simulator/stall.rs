//! A node whose thread stands still for a while, in a ring that is well: when it goes on, its own
//! time has come before it reads what the others said meanwhile. It takes nobody for dead.

use crate::cluster::{Done, Live, Op, key};
use crate::network::has_messages;
use rhythm_kv::ring::{Effects, Lease, Options, Placement, Roster, SESSIONS};
use rhythm_net::Time;

pub(crate) const NODES: usize = 3;
const NAMES: [&str; NODES] = ["a", "b", "c"];
/// A step, in milliseconds: what is said in one comes in the next.
const STEP: u64 = 10;

pub(crate) struct Ring {
    pub(crate) placement: Placement,
    roster: Roster,
    options: Options,
    /// In milliseconds.
    now: u64,
    pub(crate) nodes: Vec<Live>,
    /// What came to each node, and it has not read.
    unread: Vec<Vec<Vec<u8>>>,
    /// One whom the others do not hear, and who does not hear them.
    pub(crate) apart: Option<usize>,
    /// This one's frames do not come to that one.
    pub(crate) deaf: Option<(usize, usize)>,
    /// Where nodes have leases, one who is not told that its own was renewed.
    pub(crate) unrenewed: Option<usize>,
    /// Who has a lease, a bit each, and which.
    members: u64,
    leases: [i64; NODES],
    /// What one says to another is on its way, though it is heard.
    clogged: Option<(usize, usize)>,
    on_its_way: Vec<Vec<u8>>,
    /// One who stands still before it says what a turn of its had it say, and that.
    pub(crate) held: Option<usize>,
    unsaid: Vec<(usize, Vec<u8>)>,
    /// Nodes that begin have clocks that were set back.
    pub(crate) is_set_back: bool,
    /// What became of clients' commands.
    pub(crate) done: Vec<Done>,
}

/// How long all of it lasts at most, in milliseconds.
const LASTS_MAX: u64 = 300_000;

/// In the life of a node that begins at first, by its clock.
const FIRST: u64 = 1_000_000_000;

impl Ring {
    /// Nodes of a file, that have a range of their own each.
    pub(crate) fn new(options: Options) -> Ring {
        let placement = Placement::new(NAMES.map(|name| (name, 4711)));
        Ring::of(placement, Roster::round(NODES, NODES), options)
    }

    /// Nodes with slots, each of which the others have copies of.
    pub(crate) fn with_slots(options: Options) -> Ring {
        let placement = Placement::slots();
        let roster = Roster::ranked(NAMES.into_iter().enumerate(), placement.ranges());
        Ring::of(placement, roster, options)
    }

    fn of(placement: Placement, roster: Roster, options: Options) -> Ring {
        let mut ring = Ring {
            placement,
            roster,
            options,
            now: 0,
            nodes: Vec::new(),
            unread: vec![Vec::new(); NODES],
            apart: None,
            deaf: None,
            unrenewed: None,
            members: (1 << NODES) - 1,
            leases: [1, 2, 3],
            clogged: None,
            on_its_way: Vec::new(),
            held: None,
            unsaid: Vec::new(),
            is_set_back: false,
            done: Vec::new(),
        };
        ring.nodes = (0..NODES).map(|me| ring.live(me)).collect();
        ring
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_nanos(self.now * 1_000_000)
    }

    fn live(&self, me: usize) -> Live {
        let life = match self.is_set_back {
            true => FIRST - self.now,
            false => FIRST + self.now,
        };
        let (session, now) = (life * SESSIONS, self.time());
        Live::new(
            &self.placement,
            &self.roster,
            me,
            &self.options,
            session,
            None,
            now,
        )
    }

    /// A node begins another life, with nothing.
    pub(crate) fn begin_anew(&mut self, node: usize) {
        self.nodes[node] = self.live(node);
        self.unread[node].clear();
    }

    /// A node has its turn: its time has come, it takes what its worker handed over, and reads.
    fn turn(&mut self, node: usize) {
        let now = self.time();
        let (live, mut effects) = (&mut self.nodes[node], Effects::default());
        live.tick(now, &mut effects);
        live.take(usize::MAX, now, &mut effects);
        for frame in std::mem::take(&mut self.unread[node]) {
            live.come(&frame, now, &mut effects);
        }
        self.done.extend(live.settle(now, &mut effects));
        for (to, frame) in live.outbound(&mut effects, now) {
            if self.held == Some(node) {
                self.unsaid.push((to, frame));
            } else if self.clogged == Some((node, to)) && has_messages(&frame) {
                self.on_its_way.push(frame);
            } else if ![node, to].map(Some).contains(&self.apart) && self.deaf != Some((node, to)) {
                self.unread[to].push(frame);
            }
        }
    }

    /// What this one says to that one comes when it is [cleared](Self::clear), and not before.
    pub(crate) fn clog(&mut self, from: usize, to: usize) {
        self.clogged = Some((from, to));
    }

    pub(crate) fn clear(&mut self) {
        if let Some((_, to)) = self.clogged.take() {
            self.unread[to].append(&mut self.on_its_way);
        }
    }

    /// What is on its way does not come, as who sent it is gone.
    pub(crate) fn break_off(&mut self) {
        self.clogged = None;
        self.on_its_way.clear();
    }

    /// Who was held goes on, and says what it had to say.
    pub(crate) fn say(&mut self) {
        for (to, frame) in std::mem::take(&mut self.unsaid) {
            self.unread[to].push(frame);
        }
    }

    fn renew(&mut self) {
        let now = self.time();
        let Some(lasts) = self.options.lease else {
            return;
        };
        let has = |node: &usize| Some(*node) != self.unrenewed && self.members & 1 << node != 0;
        for node in (0..NODES).filter(has) {
            // Its clock may be slower.
            let number = self.leases[node];
            let lease = Lease {
                until: now + lasts * 9 / 10,
                number,
                revision: number,
            };
            let live = &mut self.nodes[node].node;
            live.renewed(lease, now, &mut Effects::default());
        }
    }

    /// All leases end, and etcd reaches nobody.
    pub(crate) fn lose_etcd(&mut self) {
        self.members = 0;
    }

    /// A node has another lease, and all that have one are told so.
    pub(crate) fn register(&mut self, node: usize) {
        let last = self.leases.into_iter().max().unwrap_or(0);
        (self.members, self.leases[node]) = (self.members | 1 << node, last + 1);
        self.tell_members();
    }

    /// The lease of a node is over, and all others are told so.
    pub(crate) fn expire(&mut self, node: usize) {
        self.members &= !(1 << node);
        self.tell_members();
    }

    /// The nodes in the order in which they are to serve a range.
    pub(crate) fn order(&self, range: usize) -> Vec<usize> {
        self.roster.around(range).collect()
    }

    fn tell_members(&mut self) {
        let names = NAMES.into_iter().enumerate();
        let names = names.filter(|(node, _)| self.members & 1 << node != 0);
        let (roster, now) = (Roster::ranked(names, self.placement.ranges()), self.time());
        for node in (0..NODES).filter(|node| self.members & 1 << node != 0) {
            let node = &mut self.nodes[node].node;
            node.enroll(roster.clone(), now, &mut Effects::default());
        }
    }

    /// What a node has of a key.
    pub(crate) fn value(&mut self, node: usize, key: usize) -> Option<u64> {
        let now = self.time();
        self.nodes[node].value(key, now)
    }

    /// Whether a node says that it has a range complete.
    pub(crate) fn has(&self, node: usize, range: usize) -> bool {
        self.nodes[node].node.complete() & 1 << range != 0
    }

    /// The first key of a range.
    pub(crate) fn key_of(&self, range: usize) -> usize {
        let is_of_it = |number: &usize| self.placement.range(key(*number).as_bytes()) == range;
        (0..).find(is_of_it).expect("there are keys of all ranges")
    }

    /// A client has this node write a key, and is answered.
    pub(crate) fn set(&mut self, node: usize, key: usize, write: u64) {
        let now = self.time();
        self.done.clear();
        let (done, _) = self.nodes[node].ask(&[(0, Op::Set(write), key)], now);
        self.done.extend(done);
        for _ in 0..200 {
            self.pass(STEP, None, |_| {});
            if self.done.contains(&(0, Ok(None))) {
                return;
            }
        }
        panic!("{key} is not written at {node}: {:?}", self.done);
    }

    /// So many milliseconds pass, in which one of them may stand still. In each step `check` is
    /// shown the nodes.
    #[track_caller]
    pub(crate) fn pass(&mut self, time: u64, still: Option<usize>, check: impl Fn(&[Live])) {
        // Who waits for something that does not come about would wait for ever.
        assert!(self.now < LASTS_MAX, "it does not come about");
        for _ in 0..time / STEP {
            self.now += STEP;
            self.renew();
            if let Some((from, to)) = self.clogged.filter(|_| !self.on_its_way.is_empty()) {
                // Some bytes of it come.
                let now = self.time();
                self.nodes[to].node.heard(from, now);
            }
            for node in (0..NODES).filter(|node| Some(*node) != still) {
                self.turn(node);
            }
            check(&self.nodes);
        }
    }
}

#[test]
fn a_node_that_stood_still_takes_nobody_for_dead() {
    let all_alive = |live: &Live| live.node.alive() == 0b111;
    let mut ring = Ring::new(Options::default());
    ring.pass(5000, None, |_| {});
    assert!(ring.nodes.iter().all(all_alive));
    for (time, is_missed) in [(400, false), (3000, true)] {
        ring.pass(time, Some(1), |_| {});
        assert_eq!(all_alive(&ring.nodes[0]), !is_missed, "{time} ms");
        // It may not know yet that others took what it served, and takes nothing itself.
        let claims = |live: &Live| [0, 2].map(|range| live.node.claim(range));
        let before = claims(&ring.nodes[0]);
        ring.pass(100, None, |nodes| {
            assert!(all_alive(&nodes[1]), "{time} ms");
            assert_eq!(claims(&nodes[1]), before, "{time} ms");
        });
        // It has its own range back in the end.
        ring.pass(5000, None, |_| {});
        assert!(ring.nodes.iter().all(all_alive));
        assert!(ring.nodes.iter().all(|live| live.node.claim(1).node == 1));
    }
}

/// One that was never there does not have it wait for longer than one that died.
#[test]
fn a_node_that_stood_still_takes_over_as_soon_as_another() {
    let mut ring = Ring::new(Options::default());
    ring.apart = Some(2);
    ring.pass(5000, None, |_| {});
    assert!(ring.has(1, 0) && ring.nodes[1].node.claim(0).node == 0);
    ring.pass(300, Some(1), |_| {});
    let since = ring.now;
    while ring.nodes[1].node.claim(0).node != 1 {
        ring.pass(STEP, Some(0), |_| {});
        assert!(ring.now - since < 1000, "it takes nothing");
    }
}
