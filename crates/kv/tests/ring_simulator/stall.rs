//! A node whose thread stands still for a while, in a ring that is well: when it goes on, its own
//! time has come before it reads what the others said meanwhile. It takes nobody for dead.

use crate::cluster::Live;
use rhythm_kv::ring::{Effects, Options, Placement, Roster};
use rhythm_net::Time;

pub(crate) const NODES: usize = 3;
/// A step, in milliseconds: what is said in one comes in the next.
const STEP: u64 = 10;

pub(crate) struct Ring {
    pub(crate) placement: Placement,
    options: Options,
    /// In milliseconds.
    now: u64,
    pub(crate) nodes: Vec<Live>,
    /// What came to each node, and it has not read.
    unread: Vec<Vec<Vec<u8>>>,
}

impl Ring {
    pub(crate) fn new(options: Options) -> Ring {
        let mut ring = Ring {
            placement: Placement::new(["a", "b", "c"].map(|name| (name, 4711))),
            options,
            now: 0,
            nodes: Vec::new(),
            unread: vec![Vec::new(); NODES],
        };
        ring.nodes = (0..NODES).map(|me| ring.live(me)).collect();
        ring
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_nanos(self.now * 1_000_000)
    }

    fn live(&self, me: usize) -> Live {
        let (roster, session, now) = (Roster::round(NODES, NODES), self.now + 1, self.time());
        Live::new(
            &self.placement,
            &roster,
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

    /// A node has its turn: its time has come, then it reads.
    fn turn(&mut self, node: usize) {
        let now = self.time();
        let (live, mut effects) = (&mut self.nodes[node], Effects::default());
        live.tick(now, &mut effects);
        for frame in std::mem::take(&mut self.unread[node]) {
            live.come(&frame, now, &mut effects);
        }
        live.take(usize::MAX, now, &mut effects);
        live.settle(now, &mut effects);
        for (to, frame) in live.outbound(&mut effects, now) {
            self.unread[to].push(frame);
        }
    }

    /// So many milliseconds pass, in which one of them may stand still. In each step `check` is
    /// shown the nodes.
    pub(crate) fn pass(&mut self, time: u64, still: Option<usize>, check: impl Fn(&[Live])) {
        for _ in 0..time / STEP {
            self.now += STEP;
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
