//! Calls that take much longer than others, whoever asks.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::LaneError;

/// Four connections, one query at a time on each, and time enough.
fn four() -> PoolOptions {
    PoolOptions {
        connections_max: 4,
        depth_max: 1,
        timeout: 1000 * MS,
        idle_max: 5000 * MS,
        circuit: CircuitOptions {
            failures_min: 1000,
            ..options().circuit
        },
        ..options()
    }
}

/// What is asked by the call that hangs, by a second that does, and by another.
const HANGS: &str = "1&9";
const HANGS_TOO: &str = "1&99";
const OTHER: &str = "1&2";

/// Asks so many times, each time by another.
fn ask(world: &mut World, text: &str, keys: std::ops::Range<u64>, idempotent: bool) {
    let texts: Vec<String> = keys.clone().map(|_| text.to_owned()).collect();
    world.submit_texts(keys.start, &texts, idempotent, Time::NEVER);
}

/// Answers all but what hangs, and says how many lie there that do.
fn answer_others(world: &mut World) -> usize {
    let mut hang = 0;
    loop {
        let all = world.take_all();
        if all.is_empty() {
            return hang;
        }
        for (id, queries) in all {
            let hangs = |query: &&String| query.starts_with(HANGS);
            hang += queries.iter().filter(hangs).count();
            for query in queries.iter().take_while(|query| !hangs(query)) {
                world.receive(id, answer_ok(query).as_bytes());
            }
        }
    }
}

/// Those of the other call are answered.
fn assert_answered(world: &World, keys: std::ops::Range<u64>) {
    for key in keys {
        let told = world.told.get(&key).map(|(answer, _)| answer.as_deref());
        assert_eq!(told, Some(Ok(answer_to(OTHER).as_bytes())), "{key}");
    }
}

/// A world whose other call has been answered.
fn known() -> World {
    known_with(four())
}

fn known_with(options: PoolOptions) -> World {
    let mut world = World::new(options);
    ask(&mut world, OTHER, 1000..1004, true);
    world.connect_all();
    answer_others(&mut world);
    assert_eq!(world.told.len(), 4);
    world
}

#[test]
fn a_call_that_hangs_gives_half_of_the_connections_back() {
    let mut world = known();
    // Whoever asks, nothing is known of it yet.
    ask(&mut world, HANGS, 0..20, true);
    assert_eq!(answer_others(&mut world), 4);
    ask(&mut world, OTHER, 100..140, true);
    assert!(world.take_all().is_empty());
    // It has taken long.
    world.pass(50 * MS);
    world.connect_all();
    let again = answer_others(&mut world);
    assert_answered(&world, 100..140);
    // All but one, when no others wait: what is sent again included.
    assert_eq!(again, 1);
    for round in 0..5 {
        world.pass(50 * MS);
        ask(&mut world, OTHER, 200 + round..201 + round, true);
        assert_eq!(answer_others(&mut world), 0);
        assert_answered(&world, 200 + round..201 + round);
    }
    world.pass(1000 * MS);
    world.assert_failed(0..20, LaneError::BackendTimeout);
}

#[test]
fn what_cannot_be_sent_again_leaves_some_to_others() {
    let mut world = known();
    // Nothing is known of it yet, and it cannot be taken back.
    ask(&mut world, HANGS, 0..20, false);
    assert_eq!(answer_others(&mut world), 2);
    ask(&mut world, OTHER, 100..110, true);
    ask(&mut world, "1&3", 200..210, false);
    assert_eq!(answer_others(&mut world), 0);
    assert_answered(&world, 100..110);
    assert!((200..210).all(|key| world.is_told(key)));
    world.pass(500 * MS);
    assert_eq!(world.port.connects, 4, "none is taken back");
    world.pass(500 * MS);
    world.connect_all();
    world.assert_failed(0..20, LaneError::BackendTimeout);
    // It is known now.
    ask(&mut world, HANGS, 20..24, false);
    world.connect_all();
    assert_eq!(answer_others(&mut world), 2);
    ask(&mut world, OTHER, 110..120, true);
    world.connect_all();
    answer_others(&mut world);
    assert_answered(&world, 110..120);
}

#[test]
fn a_call_that_hangs_hurts_no_other_after_the_backend_was_away() {
    let mut world = known_with(PoolOptions {
        queries_max: 10_000,
        circuit: CircuitOptions {
            cool_down: 200 * MS,
            ..four().circuit
        },
        ..four()
    });
    world.port.connect_fails = true;
    world.take_all();
    let ids: Vec<ConnectionId> = world.port.connections.keys().copied().collect();
    ids.into_iter().for_each(|id| world.reset(id));
    for key in 0..3 {
        ask(&mut world, OTHER, key..key + 1, true);
    }
    assert!(world.backend.counts().circuit_open);
    world.port.connect_fails = false;
    world.pass(200 * MS);
    // Over several time-outs, those of many who ask for it come before each of the other.
    let mut key = 10_000;
    for round in 0..100 {
        ask(&mut world, HANGS, key..key + 20, true);
        key += 20;
        ask(&mut world, OTHER, 100 + round..101 + round, true);
        for _ in 0..2 {
            world.connect_all();
            answer_others(&mut world);
            world.pass(50 * MS);
        }
        world.connect_all();
        answer_others(&mut world);
        assert_answered(&world, 100 + round..101 + round);
    }
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn what_took_long_once_does_not_make_up_for_what_takes_long_now() {
    let mut world = known();
    // Three calls hang, and are asked no more.
    for key in 0..6 {
        let text = [HANGS, HANGS_TOO, "1&999"][key as usize % 3];
        ask(&mut world, text, 10 * key..10 * key + 4, true);
        world.connect_all();
        assert!(answer_others(&mut world) > 1);
        world.pass(1000 * MS);
    }
    for second in 0..6 {
        ask(&mut world, OTHER, 100 + second..101 + second, true);
        world.connect_all();
        answer_others(&mut world);
        world.pass(1000 * MS);
    }
    // Later another does; nor does it when nobody has asked anything for long.
    for (key, text) in [(200, "1&98"), (300, "1&97")] {
        ask(&mut world, text, key..key + 20, true);
        world.connect_all();
        assert_eq!(answer_others(&mut world), 4);
        ask(&mut world, OTHER, key + 20..key + 30, true);
        world.pass(50 * MS);
        world.connect_all();
        answer_others(&mut world);
        assert_answered(&world, key + 20..key + 30);
        world.pass(60_000 * MS);
    }
}

#[test]
fn what_is_seldom_asked_finds_connections_beside_calls_that_hang() {
    let mut world = known();
    for round in 0..20 {
        for (first, text) in [(0, HANGS), (1000, HANGS_TOO)] {
            let first = 10_000 + first + 10 * round;
            ask(&mut world, text, first..first + 10, true);
        }
        let other = 100 + round..101 + round;
        if round % 7 == 6 {
            ask(&mut world, OTHER, other.clone(), true);
        }
        for _ in 0..2 {
            world.connect_all();
            answer_others(&mut world);
            world.pass(500 * MS);
        }
        if round % 7 == 6 {
            assert_answered(&world, other);
        }
    }
}

#[test]
fn few_whose_calls_hang_do_not_hold_all_connections() {
    let mut world = known();
    // Each of the two may hold half.
    for asker in [1, 2] {
        world.submit_call_by(asker, HANGS, 10 * asker..10 * asker + 8, true);
    }
    assert_eq!(answer_others(&mut world), 4);
    ask(&mut world, OTHER, 100..110, true);
    world.pass(50 * MS);
    for round in 0..5 {
        world.connect_all();
        answer_others(&mut world);
        assert_answered(&world, 100..110 + round);
        world.pass(50 * MS);
        ask(&mut world, OTHER, 110 + round..111 + round, true);
    }
}

#[test]
fn several_of_each_leave_one_to_others() {
    let mut world = known();
    world.submit_call_by(1, HANGS, 0..2, true);
    world.submit_call_by(2, HANGS, 10..11, true);
    assert_eq!(answer_others(&mut world), 3);
    world.pass(50 * MS);
    // One of two gives way to who holds none; and that is enough.
    for asker in [3, 4] {
        world.submit_call_by(asker, HANGS, 10 * asker..10 * asker + 1, true);
    }
    assert_eq!(answer_others(&mut world), 1);
    ask(&mut world, OTHER, 100..110, true);
    world.connect_all();
    answer_others(&mut world);
    assert_answered(&world, 100..110);
}

#[test]
fn a_call_that_gave_way_to_those_behind_it_is_known_to_be_slow() {
    let mut world = known_with(PoolOptions {
        depth_max: 4,
        ..four()
    });
    ask(&mut world, HANGS, 0..3, false);
    ask(&mut world, HANGS_TOO, 10..11, true);
    assert_eq!(answer_others(&mut world), 3);
    world.pass(50 * MS);
    // It goes behind the one of the same call, which is given up for it.
    ask(&mut world, HANGS_TOO, 11..12, true);
    assert_eq!(answer_others(&mut world), 1);
    world.pass(MS);
    world.connect_all();
    assert_eq!(answer_others(&mut world), 0, "it is not sent again");
    ask(&mut world, OTHER, 100..110, true);
    world.connect_all();
    assert_eq!(answer_others(&mut world), 0);
    assert_answered(&world, 100..110);
}

#[test]
fn where_slow_ones_hold_all_one_gives_way_though_it_was_sent_again_before() {
    let mut world = known_with(PoolOptions {
        connections_max: 2,
        ..four()
    });
    ask(&mut world, HANGS, 0..2, true);
    let ids: Vec<ConnectionId> = world.take_all().iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), 2);
    ids.into_iter().for_each(|id| world.reset(id));
    world.poll();
    world.connect_all();
    assert_eq!(answer_others(&mut world), 2);
    ask(&mut world, OTHER, 100..110, true);
    world.pass(50 * MS);
    world.connect_all();
    assert_eq!(answer_others(&mut world), 0);
    assert_answered(&world, 100..110);
    let connects = world.port.connects;
    for round in 0..5 {
        world.pass(50 * MS);
        ask(&mut world, OTHER, 200 + round..201 + round, true);
        assert_eq!(answer_others(&mut world), 0);
        assert_answered(&world, 200 + round..201 + round);
    }
    assert_eq!(world.port.connects, connects, "no other is taken back");
    world.pass(1000 * MS);
    world.assert_failed(0..2, LaneError::BackendTimeout);
}

#[test]
fn a_call_is_slow_no_more_when_its_queries_are_answered_promptly_again() {
    let mut world = known();
    let is_slow = |world: &mut World| {
        let statements = &mut world.backend.statements;
        let hangs = statements.share(&call(&[HANGS], true));
        statements.is_slow(hangs.number())
    };
    for key in 0..12 {
        ask(&mut world, HANGS, 10 * key..10 * key + 4, true);
        world.connect_all();
        assert!(answer_others(&mut world) > 0);
        world.pass(1000 * MS);
    }
    assert!(is_slow(&mut world));
    // One hangs still.
    ask(&mut world, HANGS, 500..501, true);
    world.connect_all();
    assert_eq!(answer_others(&mut world), 1);
    let answer = |world: &mut World, key: u64| {
        ask(world, HANGS, key..key + 1, true);
        world.connect_all();
        for (id, queries) in world.take_all() {
            world.receive(id, answer_ok(&queries[0]).as_bytes());
        }
        assert!(world.is_told(key), "{key}");
        world.pass(20 * MS);
    };
    for key in 510..530 {
        answer(&mut world, key);
        assert!(is_slow(&mut world), "{key}");
    }
    world.pass(1000 * MS);
    assert!(world.is_told(500));
    for key in 600..607 {
        answer(&mut world, key);
        assert!(is_slow(&mut world), "{key}");
    }
    for key in 607..610 {
        answer(&mut world, key);
    }
    assert!(!is_slow(&mut world));
}

#[test]
fn calls_that_all_take_long_hold_all_connections() {
    let mut world = World::new(four());
    for round in 0..3 {
        let first = 100 * round;
        ask(&mut world, OTHER, first..first + 4, true);
        ask(&mut world, "1&3", first + 10..first + 14, true);
        world.connect_all();
        for _ in 0..2 {
            assert_eq!(world.port.connections.len(), 4);
            world.pass(60 * MS);
            answer_once(&mut world, 4);
        }
    }
}

/// Answers what lies there, so many.
fn answer_once(world: &mut World, count: usize) {
    let all = world.take_all();
    assert_eq!(all.len(), count);
    for (id, queries) in all {
        world.receive(id, answer_ok(&queries[0]).as_bytes());
    }
}
