//! Calls of some that hang, and most of which cannot be taken back: all others find a connection at
//! once.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::Argument;

/// Of the calls that are asked by a key, these hang.
const HANGING: std::ops::Range<u64> = 10_000..100_000;

/// These calls are.
const BY_KEY: [[&str; 2]; 2] = [["1&3&", ""], ["1&5&", ""]];

/// Asked by all: one that is sent again, and one that is not.
const READS: &str = "1&2";
const PAYS: &str = "1&4";

/// Two that hang whoever asks.
const HANGS: &str = "1&9";
const HANGS_TOO: &str = "1&99";

/// So many connections, one query at a time on each, and time enough.
fn options_of(connections_max: usize) -> PoolOptions {
    PoolOptions {
        connections_max,
        depth_max: 1,
        queries_max: 100_000,
        held_max: 100 << 20,
        timeout: 1000 * MS,
        idle_max: 5000 * MS,
        share: ShareOptions {
            calls_max: 10_000,
            ..options().share
        },
        circuit: CircuitOptions {
            failures_min: 100_000,
            ..options().circuit
        },
        ..options()
    }
}

fn hangs(query: &str) -> bool {
    let key = (BY_KEY.iter()).find_map(|[call, _]| query.strip_prefix(call)?.parse().ok());
    query.starts_with(HANGS) || key.is_some_and(|key| HANGING.contains(&key))
}

/// Answers at once what does not hang, until there is no more.
fn answer_others(world: &mut World) {
    loop {
        world.connect_all();
        let all = world.take_all();
        if all.is_empty() {
            return;
        }
        for (id, queries) in all {
            for query in queries.iter().take_while(|query| !hangs(query)) {
                world.receive(id, answer_ok(query).as_bytes());
            }
        }
    }
}

/// A pool with so many connections, and whoever asks next by a number of his own.
struct Others {
    world: World,
    next: u64,
}

impl Others {
    /// All others ask for what does not hang, which is known.
    fn new(connections: usize) -> Others {
        let mut others = Others {
            world: World::new(options_of(connections)),
            next: 1_000_000,
        };
        others.are_answered(&[READS, PAYS]);
        others
    }

    /// The keys of the next so many.
    fn keys(&mut self, count: u64) -> std::ops::Range<u64> {
        self.next += count;
        self.next - count..self.next
    }

    /// Each asks this of his own; it cannot be sent again.
    fn ask(&mut self, text: &str, count: usize) {
        let keys = self.keys(count as u64);
        let texts = vec![text.to_owned(); count];
        (self.world).submit_texts(keys.start, &texts, false, Time::NEVER);
    }

    /// Others ask by these calls, and by the one that hangs for some: all are answered before any
    /// time has passed.
    fn are_answered(&mut self, texts: &[&str]) {
        let mut all = self.keys(2);
        let by_key = all.clone();
        self.world.submit(by_key, false);
        for text in texts {
            let keys = self.keys(3);
            all.end = keys.end;
            let texts = vec![(*text).to_owned(); 3];
            let idempotent = *text == READS;
            (self.world).submit_texts(keys.start, &texts, idempotent, Time::NEVER);
        }
        answer_others(&mut self.world);
        for key in all {
            let told = self.world.told.get(&key);
            let answer = told.map(|(answer, _)| answer.is_ok());
            assert_eq!(answer, Some(true), "{key} at {:?}", self.world.now);
        }
    }
}

#[test]
fn some_whose_calls_hang_leave_connections_to_all_others_who_ask_the_same() {
    for (connections, some) in [(2, 1), (4, 1), (8, 4), (16, 10), (64, 40)] {
        let mut others = Others::new(connections);
        let mut next = HANGING.start;
        // Over several time-outs.
        for _ in 0..60 {
            for asker in 0..some {
                let keys = next..next + 4;
                next = keys.end;
                others.world.submit_by(asker, keys, false);
                // And for a page of his own.
                let keys = next..next + 1;
                next = keys.end;
                (others.world).submit_call_by(asker, HANGS, keys, false);
            }
            others.are_answered(&[READS, PAYS]);
            others.world.pass(50 * MS);
        }
    }
}

#[test]
fn few_whose_reads_hang_leave_connections_to_all_others_who_ask_the_same() {
    for (connections, few) in [(8, 3), (16, 5), (64, 20)] {
        let mut others = Others::new(connections);
        let mut next = HANGING.start;
        let ask = |others: &mut Others, next: &mut u64, askers: std::ops::Range<u64>, each| {
            for asker in askers {
                let keys = *next..*next + each;
                *next = keys.end;
                others.world.submit_by(asker, keys, true);
            }
        };
        let each = connections as u64;
        ask(&mut others, &mut next, 0..few, each);
        answer_others(&mut others.world);
        // It is known by then that they take long.
        others.world.pass(60 * MS);
        for round in 0..60 {
            let (reads, asked) = (others.keys(3), others.world.now);
            others.world.submit(reads.clone(), true);
            let rest = others.keys(3);
            let texts = vec![READS.to_owned(); 3];
            (others.world).submit_texts(rest.start, &texts, true, Time::NEVER);
            ask(&mut others, &mut next, 0..few, 1);
            if round == 8 && connections > 8 {
                // One more, who takes the place that there was for one.
                ask(&mut others, &mut next, few..few + 1, each);
            }
            for _ in 0..8 {
                answer_others(&mut others.world);
                others.world.pass(10 * MS);
            }
            for key in reads.start..rest.end {
                let told = others.world.told.get(&key);
                let told = told.map(|(answer, at)| (answer.is_ok(), at.since(asked) <= 60 * MS));
                let why = format!("{key} of round {round}, {connections} connections");
                assert_eq!(told, Some((true, true)), "{why}");
            }
        }
    }
}

#[test]
fn calls_that_hang_together_leave_connections_to_others() {
    for connections in [4, 8, 16, 64] {
        let mut others = Others::new(connections);
        let many = 2 * connections;
        others.ask(HANGS, many);
        others.ask(HANGS_TOO, many);
        answer_others(&mut others.world);
        for _ in 0..5 {
            let reads = others.keys(3);
            let texts = vec![READS.to_owned(); 3];
            (others.world).submit_texts(reads.start, &texts, true, Time::NEVER);
            answer_others(&mut others.world);
            assert!(
                { reads }.all(|key| others.world.is_told(key)),
                "{connections}"
            );
            others.world.pass(100 * MS);
        }
        // They are known now.
        others.world.pass(500 * MS);
        for _ in 0..40 {
            others.ask(HANGS, 2);
            others.ask(HANGS_TOO, 2);
            others.are_answered(&[READS, PAYS]);
            others.world.pass(50 * MS);
        }
    }
}

#[test]
fn those_who_ask_what_hangs_for_few_do_not_wait_for_each_other() {
    let mut others = Others::new(8);
    // Each of two calls, in one turn.
    let ask_both = |world: &mut World, askers: [u64; 2], first: u64| {
        let keys = first..first + 2;
        for ((asker, key), by_key) in askers.into_iter().zip(keys).zip(&BY_KEY) {
            let argument = [Argument::Int(key as i64)];
            world.submit_one(asker, key, &call(by_key, false), argument);
        }
        world.poll();
        answer_others(world);
    };
    ask_both(&mut others.world, [8, 9], 100);
    for few in [[0, 1], [2, 3]] {
        ask_both(&mut others.world, few, HANGING.start + few[0]);
    }
    others.world.pass(60 * MS);
    ask_both(&mut others.world, [10, 11], 200);
    assert!((200..202).all(|key| others.world.result(key).is_ok()));
}

#[test]
fn what_hangs_for_one_alone_leaves_the_other_of_two_connections_to_all_who_ask_the_same() {
    let mut world = World::new(options_of(2));
    let hang = |world: &mut World, key: u64| {
        world.submit_by(1000, HANGING.start + key..HANGING.start + key + 1, true);
        answer_others(world);
    };
    let read = |world: &mut World, key: u64| {
        world.submit_texts(key, &[READS.to_owned()], true, Time::NEVER);
        answer_others(world);
        assert!(world.is_told(key));
    };
    world.submit(0..1, true);
    read(&mut world, 1);
    // One call is slow, whoever asks.
    for key in 2..4 {
        world.submit_texts(key, &[HANGS.to_owned()], false, Time::NEVER);
        answer_others(&mut world);
        world.pass(1000 * MS);
    }
    // Another hangs for him alone, beside it, and gives its connection to others who wait.
    hang(&mut world, 0);
    world.pass(60 * MS);
    world.submit_texts(4, &[HANGS.to_owned()], false, Time::NEVER);
    answer_others(&mut world);
    read(&mut world, 5);
    assert_eq!(world.backend.counts().retries, 1);
    world.pass(1000 * MS);
    // It is his doing.
    for round in 1..20 {
        hang(&mut world, round);
        world.pass(60 * MS);
        let keys = 10 * round..10 * round + 3;
        world.submit(keys.clone(), true);
        answer_others(&mut world);
        assert!({ keys }.all(|key| world.is_told(key)), "{round}");
    }
}

#[test]
fn reads_that_hang_and_were_sent_again_leave_connections_to_what_is_not() {
    let mut others = Others::new(4);
    let world = &mut others.world;
    for (asker, by_key) in [(0, 0), (1, 0), (2, 1)] {
        let argument = [Argument::Int((HANGING.start + asker) as i64)];
        world.submit_one(asker, asker, &call(&BY_KEY[by_key], true), argument);
    }
    world.poll();
    world.connect_all();
    let mut held = world.take_all();
    assert_eq!(held.len(), 3);
    // What comes back last goes first again, and the first of its call goes beside others.
    held.sort_by_key(|(_, queries)| queries[0].ends_with("10001"));
    held.into_iter().for_each(|(id, _)| world.reset(id));
    world.connect_all();
    assert_eq!(world.take_all().len(), 3);
    world.pass(60 * MS);
    for _ in 0..10 {
        others.are_answered(&[READS, PAYS]);
        others.world.pass(60 * MS);
    }
}

#[test]
fn a_call_that_had_no_time_is_as_new_as_before() {
    let mut others = Others::new(4);
    let new = ["1&7".to_owned()];
    let soon = others.world.now + MS;
    (others.world).submit_texts(0, &new, false, soon);
    assert_eq!(others.world.take_all().len(), 1);
    others.world.pass(2 * MS);
    assert!(others.world.told[&0].0.is_err());
    others.ask(HANGS, 2);
    answer_others(&mut others.world);
    (others.world).submit_texts(1, &new, false, Time::NEVER);
    answer_others(&mut others.world);
    assert!(others.world.is_told(1));
}

#[test]
fn no_connection_is_opened_for_what_may_not_go() {
    let mut world = World::new(PoolOptions {
        idle_max: 50 * MS,
        ..options_of(4)
    });
    world.submit_by(1, HANGING.start..HANGING.start + 10, false);
    for _ in 0..10 {
        answer_others(&mut world);
        world.pass(60 * MS);
    }
    assert_eq!(world.port.connects, 4);
    // Another finds one.
    world.submit(0..1, false);
    answer_others(&mut world);
    world.assert_answered(0..1);
}

#[test]
fn what_may_not_go_is_not_looked_at_without_end_after_a_connection_failed() {
    let mut world = World::new(options_of(4));
    world.submit_by(1, HANGING.start..HANGING.start + 1, false);
    answer_others(&mut world);
    world.submit_by(1, HANGING.start + 1..HANGING.start + 2, false);
    assert_eq!(world.port.connects, 1);
    // Another needs a connection, which fails, and does not wait until the next attempt.
    world.submit_until(0..1, false, world.now + 50 * MS);
    let connects = world.port.connects;
    world.end(world.newest(), Ended::Failed(ErrorKind::ConnectionRefused));
    world.pass(500 * MS);
    assert!(world.told[&0].0.is_err());
    assert_eq!(world.port.connects, connects);
}
