//! Several clients write and read the same keys, at all nodes, while all is well, if slow now and
//! then: what they are told is as if one machine had said it. The search is `todc-utils`'s.

use crate::cluster::{Answer, Op};
use crate::random::Random;
use crate::sabotage::Sabotage;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};
use std::time::Duration;
use todc_utils::linearizability::WGLChecker;
use todc_utils::{Action, History, Specification};

const SEEDS: u64 = 20;
const STEPS: u64 = 40;
/// Keys, each of another range.
const KEYS: usize = 2;

/// What is there of one key, and what is said of it.
struct OneKey;

impl Specification for OneKey {
    type State = Answer;
    type Operation = (Op, Answer);

    fn init() -> Answer {
        None
    }

    fn apply(&(op, found): &(Op, Answer), state: &Answer) -> (bool, Answer) {
        match op {
            Op::Set(write) => (true, Some(write)),
            Op::Delete(_) => (true, None),
            Op::Get => (found == *state, *state),
        }
    }
}

/// What clients asked of a key, and were told, in the order of time.
type Actions = Vec<(usize, Action<(Op, Answer)>)>;

/// What clients asked, and were told of each key.
#[derive(Default)]
struct Told {
    asked: Vec<(Op, usize)>,
    keys: [Actions; KEYS],
}

impl Told {
    fn take(&mut self, ring: &mut Ring) {
        for (number, answer) in ring.done.drain(..) {
            let (op, key) = self.asked[number];
            let found = answer.expect("all is well");
            self.keys[key].push((number, Action::Response((op, found))));
        }
    }
}

/// Whether what clients were told could have been said by one machine.
fn is_linearizable(seed: u64, scheme: Scheme, sabotage: Sabotage) -> bool {
    let mut random = Random::new(seed);
    let mut ring = Ring::new(Options {
        scheme,
        replicas: NODES - 1,
        acked: true,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.nodes
        .iter_mut()
        .for_each(|live| live.sabotage = sabotage);
    ring.pass(5000, None, |_| {});
    let keys: [usize; KEYS] = std::array::from_fn(|range| ring.key_of(range));
    let mut told = Told::default();
    for _ in 0..STEPS {
        let some = |random: &mut Random, end: usize| random.below(end as u64) as usize;
        // Some of what one says to another is long on its way.
        match random.below(4) {
            0 => {
                ring.clear();
                let (from, to) = (some(&mut random, NODES), some(&mut random, NODES));
                ring.clog(from, to);
            }
            1 => ring.clear(),
            _ => {}
        }
        for _ in 0..=random.below(4) {
            let (number, key) = (told.asked.len(), some(&mut random, KEYS));
            let op = match random.below(6) {
                0..2 => Op::Set(number as u64),
                2 => Op::Delete(number as u64),
                _ => Op::Get,
            };
            told.asked.push((op, key));
            told.keys[key].push((number, Action::Call((op, None))));
            let (node, now) = (some(&mut random, NODES), ring.time());
            let (done, _) = ring.nodes[node].ask(&[(number, op, keys[key])], now);
            ring.done.extend(done);
            told.take(&mut ring);
        }
        ring.pass(10 + 10 * random.below(3), None, |_| {});
        told.take(&mut ring);
    }
    ring.clear();
    ring.pass(5000, None, |_| {});
    told.take(&mut ring);
    let answered: usize = told.keys.iter().map(Vec::len).sum();
    assert_eq!(answered, 2 * told.asked.len(), "all are answered");
    (told.keys.into_iter()).all(|actions| {
        let history = History::from_actions(actions);
        WGLChecker::<OneKey>::is_linearizable(history)
    })
}

#[test]
fn what_several_clients_are_told_is_as_one_machine_would_say_it() {
    for scheme in [Scheme::Ring, Scheme::Chain] {
        let all = |sabotage| (0..SEEDS).all(|seed| is_linearizable(seed, scheme, sabotage));
        assert!(all(Sabotage::None), "{scheme:?}");
        // Nor would it be so whatever they were told.
        assert!(!all(Sabotage::ReadsAnyCopy), "{scheme:?}");
    }
}
