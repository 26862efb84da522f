//! What one who asks may hold, so that others find something.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::{Argument, LaneError};

const ONE: u64 = 7_000_000;

fn options_of(connections_max: usize, share: Option<usize>) -> PoolOptions {
    let share = ShareOptions {
        connections_max: share,
        ..options().share
    };
    PoolOptions {
        connections_max,
        share,
        ..options()
    }
}

#[test]
fn calls_that_hang_leave_connections_to_others() {
    // While nobody else waits, all but an eighth, or what was said.
    for (connections, share, held) in [
        // Of what cannot be sent again, a quarter.
        (16, None, [14, 4]),
        (8, None, [7, 2]),
        (4, None, [3, 1]),
        (2, None, [1, 1]),
        (1, None, [1, 1]),
        (8, Some(3), [3, 3]),
    ] {
        for (idempotent, held) in [true, false].into_iter().zip(held) {
            let mut world = World::new(options_of(connections, share));
            world.submit_by(ONE, 0..40, idempotent);
            world.connect_all();
            assert_eq!(world.take_all().len(), held, "{share:?} of {connections}");
            if held == connections {
                continue;
            }
            // Others do not wait.
            world.submit(100..101, idempotent);
            world.connect_all();
            let [(id, queries)] = &world.take_all()[..] else {
                panic!("it is sent to one");
            };
            assert_eq!(queries, &["1&3&100"]);
            world.receive(*id, answer_ok("1&3&100").as_bytes());
            world.assert_answered(100..101);
            // And what has waited for it is not sent now either.
            assert!(world.take_all().is_empty());
            world.pass(100 * MS);
            world.assert_failed(0..40, LaneError::BackendTimeout);
            assert!(!world.backend.counts().circuit_open);
        }
    }
}

#[test]
fn while_others_wait_one_holds_half() {
    let mut world = World::new(PoolOptions {
        depth_max: 1,
        ..options_of(8, None)
    });
    world.submit_by(ONE, 0..40, true);
    world.submit_by(ONE + 1, 100..180, true);
    world.connect_all();
    let mut held = 0;
    for round in 0..9 {
        let sent = world.take_all();
        for (id, queries) in sent {
            // The other is answered.
            match queries[0].len() < "1&3&100".len() {
                true => held += 1,
                false => world.receive(id, answer_ok(&queries[0]).as_bytes()),
            }
        }
        assert_eq!(held, 4, "in round {round}");
    }
    assert!(!world.is_told(0) && world.is_told(110));
    let counts = world.backend.counts();
    assert_eq!(counts.connections, 8);
    // All but those that are on their way, and of the others those that are answered.
    assert_eq!(counts.under_way, 120 - world.told.len() as u64);
    assert_eq!(counts.waiting, counts.under_way - 8);
}

#[test]
fn calls_that_hang_behind_others_hold_no_more_either() {
    let mut world = World::new(options_of(4, Some(1)));
    // Two connections whose answers are known to be prompt.
    world.submit(1000..1002, false);
    world.connect_all();
    let ids: Vec<ConnectionId> = world.take_all().iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), 2);
    for (id, key) in ids.iter().zip([1000, 1001]) {
        world.receive(*id, answer_ok(&format!("1&3&{key}")).as_bytes());
    }
    // On each one of his, between those of others.
    for (index, key) in [(0, 10), (1, 20)] {
        world.submit(key..key + 1, true);
        assert_eq!(world.take(ids[index], 9), [format!("1&3&{key}")]);
    }
    world.submit_by(ONE, 0..1, true);
    world.submit_by(ONE, 1..2, true);
    world.submit(30..31, true);
    world.submit(31..32, true);
    for (id, key) in ids.iter().zip([10, 20]) {
        assert_eq!(world.take(*id, 9).len(), 2);
        world.receive(*id, answer_ok(&format!("1&3&{key}")).as_bytes());
    }
    // They hang: one is given up to be sent again, alone, when the other has come to an end.
    world.pass(10 * MS);
    assert_eq!(ids.iter().filter(|id| world.backend.owns(**id)).count(), 1);
    world.connect_all();
    for (id, queries) in world.take_all() {
        let key: u64 = queries[0]["1&3&".len()..].parse().expect("a key");
        assert!((30..32).contains(&key), "{key} is sent to a second");
        world.receive(id, answer_ok(&queries[0]).as_bytes());
    }
    world.assert_answered(30..32);
    world.pass(90 * MS);
    world.assert_failed(0..2, LaneError::BackendTimeout);
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn who_holds_enough_has_more_behind_his_own() {
    let mut world = World::new(options_of(2, Some(1)));
    world.submit(1000..1002, false);
    world.connect_all();
    for (id, queries) in world.take_all() {
        world.receive(id, answer_ok(&queries[0]).as_bytes());
    }
    world.submit_by(ONE, 0..1, true);
    let [(his, _)] = world.take_all()[..] else {
        panic!("it is sent to one");
    };
    // The other connection has nothing to do, and is not for him.
    world.submit_by(ONE, 1..2, true);
    assert_eq!(world.take_all(), [(his, vec!["1&3&1".to_owned()])]);
}

#[test]
fn a_connection_that_owes_only_what_nobody_waits_for_makes_room() {
    let (mut world, first) = World::proven(options_of(1, None));
    world.submit_by(ONE, 0..4, true);
    assert_eq!(world.take(first, 9).len(), 4);
    // Those behind the first are to go elsewhere, but there is no other connection.
    world.pass(10 * MS);
    assert!(world.backend.owns(first) && world.port.connects == 1);
    // It is answered; those are still being worked on.
    world.receive(first, answer_ok("1&3&0").as_bytes());
    assert!(!world.backend.owns(first));
    world.connect_all();
    for key in 1..4 {
        let second = world.newest();
        assert_eq!(world.serve(second, 9, answer_ok), 1, "{key}");
    }
    world.assert_answered(0..4);
    // Where nobody needs it, it is waited for.
    let (mut world, first) = World::proven(options_of(2, None));
    world.submit(0..2, true);
    world.take(first, 9);
    world.pass(10 * MS);
    world.connect_all();
    assert_eq!(world.serve(world.newest(), 9, answer_ok), 1);
    world.receive(first, answer_ok("1&3&0").as_bytes());
    world.assert_answered(0..2);
    assert!(world.backend.owns(first));
}

#[test]
fn calls_beyond_the_bound_of_one_are_refused_to_him_alone() {
    let mut world = World::new(PoolOptions {
        share: ShareOptions {
            calls_max: 5,
            ..options().share
        },
        ..options()
    });
    world.submit_by(ONE, 0..9, true);
    world.assert_failed(5..9, LaneError::BackendRefused);
    assert_eq!(world.told.len(), 4);
    world.submit(10..11, true);
    assert_eq!(world.told.len(), 4);
    world.connect_all();
    // Each that has ended makes room for another, however it ended.
    world.pass(100 * MS);
    world.assert_failed(0..5, LaneError::BackendTimeout);
    world.submit_by(ONE, 40..49, true);
    world.assert_failed(45..49, LaneError::BackendRefused);
    assert!(!world.is_told(44));
}

#[test]
fn bytes_of_one_leave_some_to_others() {
    let of = |asker: u64, bytes: usize, world: &mut World| {
        let key = world.told.len() as u64 + 1000 * world.backend.counts().under_way;
        let text = "x".repeat(bytes);
        world.submit_one(
            asker,
            key,
            &call(&["1&3&", ""], true),
            [Argument::Text(text.as_bytes())],
        );
        world.poll();
        !world.is_told(key)
    };
    let mut world = World::new(PoolOptions {
        held_max: 40_000,
        query_max: 1 << 20,
        queries_max: 1000,
        ..options()
    });
    let taken = |asker: u64, world: &mut World| (0..100).filter(|_| of(asker, 900, world)).count();
    // Half of all, a third of it beside one who has that, and so on.
    let held = [1, 2, 3, 4].map(|one| taken(ONE + one, &mut world));
    assert!((14..=20).contains(&held[0]), "{held:?}");
    assert!(held.is_sorted_by(|a, b| a > b) && held[3] > 0, "{held:?}");
    // One call of anybody is taken while there is room, however large it is.
    let mut world = World::new(PoolOptions {
        held_max: 40_000,
        query_max: 1 << 20,
        ..options()
    });
    assert!(of(ONE, 30_000, &mut world) && !of(ONE, 10, &mut world));
    assert!(of(ONE + 1, 5_000, &mut world) && !of(ONE + 2, 30_000, &mut world));
    // What has ended makes room for more.
    world.pass(100 * MS);
    assert_eq!(world.backend.counts().under_way, 0);
    assert!(of(ONE, 30_000, &mut world));
}
