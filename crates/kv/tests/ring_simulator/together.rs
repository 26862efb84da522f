//! Several clients that write the same keys at all nodes of a ring whose nodes are well, though
//! what one says to another takes long now and then: whether what they are told could have been
//! told by one machine. The search is `todc-utils`'s, as for keyspaces; the rules are here.

use crate::cluster::{Answer, Op};
use crate::random::Random;
use crate::stall::{NODES, Ring};
use rhythm_kv::ring::{Options, Scheme};
use std::time::Duration;
use todc_utils::linearizability::WGLChecker;
use todc_utils::{Action, History, Specification};

const CLIENTS: usize = 6;
const KEYS: usize = 2;
/// Steps of 10 ms in which clients ask; and of what one says to another that is kept back.
const STEPS: u64 = 100;
const LATE: u64 = 12;

/// What one key shows.
struct Register;

impl Specification for Register {
    type State = Answer;
    type Operation = (Op, Answer);

    fn init() -> Answer {
        None
    }

    fn apply(&(op, answer): &(Op, Answer), state: &Answer) -> (bool, Answer) {
        match op {
            Op::Set(write) => (true, Some(write)),
            Op::Delete(_) => (true, None),
            Op::Get => (answer == *state, *state),
        }
    }
}

/// Whether all that clients are told of each key could be told by one machine.
fn is_linearizable(seed: u64, scheme: Scheme) -> bool {
    let mut random = Random::new(seed);
    let mut ring = Ring::with_slots(Options {
        scheme,
        replicas: NODES - 1,
        acked: true,
        stuck_after: Duration::from_secs(60),
        ..Options::default()
    });
    ring.pass(5000, None, |_| {});
    let mut histories = vec![Vec::new(); KEYS];
    // What each client asked: of which key, and under which number.
    let mut asked: Vec<Option<(usize, usize, Op)>> = vec![None; CLIENTS];
    let (mut numbers, mut late_until) = (0, 0);
    for step in 0..STEPS + 2 * LATE {
        let asks = step < STEPS;
        if step >= late_until {
            ring.clear();
            if asks && random.percent(30) {
                let from = random.below(NODES as u64) as usize;
                let to = (from + 1 + random.below(NODES as u64 - 1) as usize) % NODES;
                ring.clog(from, to);
                late_until = step + 1 + random.below(LATE);
            }
        }
        ring.done.clear();
        for (client, asked) in asked.iter_mut().enumerate() {
            if !asks || asked.is_some() || !random.percent(40) {
                continue;
            }
            numbers += 1;
            let op = match random.below(10) {
                0 => Op::Delete(numbers as u64),
                1..5 => Op::Set(numbers as u64),
                _ => Op::Get,
            };
            let key = random.below(KEYS as u64) as usize;
            *asked = Some((key, numbers, op));
            histories[key].push((numbers, Action::Call((op, None))));
            let (now, node) = (ring.time(), random.below(NODES as u64) as usize);
            let (done, _) = ring.nodes[node].ask(&[(client, op, key)], now);
            ring.done.extend(done);
        }
        ring.pass(10, None, |_| {});
        for (client, answer) in std::mem::take(&mut ring.done) {
            let (key, number, op) = asked[client].take().expect("it is answered once");
            let answer = answer.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
            histories[key].push((number, Action::Response((op, answer))));
        }
    }
    assert!(
        numbers > 30 && asked.iter().all(Option::is_none),
        "{asked:?}"
    );
    let mut histories = histories.into_iter().map(History::from_actions);
    histories.all(WGLChecker::<Register>::is_linearizable)
}

#[test]
fn what_several_write_together_is_linearizable() {
    for scheme in [Scheme::Ring, Scheme::Chain] {
        for seed in 0..60 {
            assert!(
                is_linearizable(seed, scheme),
                "seed {seed}, {}",
                scheme.name()
            );
        }
    }
}

/// Any node with a copy answers there, and one may be before another.
#[test]
fn copies_of_a_primary_that_anybody_reads_are_not() {
    assert!((0..60).any(|seed| !is_linearizable(seed, Scheme::Primary)));
}
