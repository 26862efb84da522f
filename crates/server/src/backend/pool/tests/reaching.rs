//! A backend that cannot be reached, or fails as a whole: what becomes of connections, of the
//! circuit and of what waits.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::LaneError;
use std::io;

#[test]
fn a_backend_that_cannot_be_reached_fails_after_all_addresses() {
    for at_once in [true, false] {
        let mut world = World::new(options());
        world.port.connect_fails = at_once;
        world.submit(0..3, false);
        if !at_once {
            for _ in 0..2 {
                assert!(!world.is_told(0));
                let id = world.newest();
                world.end(id, Ended::Failed(io::ErrorKind::ConnectionRefused));
            }
        }
        world.assert_failed(0..3, LaneError::BackendFailed);
        assert_eq!(world.port.connects, 2);
        assert!(world.port.connections.is_empty());
    }
}

#[test]
fn opening_a_connection_takes_bounded_time() {
    let mut world = World::new(options());
    world.submit(0..1, false);
    let first = world.newest();
    world.pass(30 * MS);
    assert!(!world.backend.owns(first) && !world.port.connections.contains_key(&first));
    let second = world.newest();
    world.connected(second);
    world.serve(second, 1, answer_ok);
    world.assert_answered(0..1);
}

#[test]
fn while_connections_stand_others_are_not_opened_in_a_hurry() {
    let (mut world, id) = World::proven(options());
    world.submit(0..20, true);
    let other = world.newest();
    world.end(other, Ended::Failed(io::ErrorKind::ConnectionRefused));
    assert_eq!(world.port.connects, 2);
    world.serve(id, 1, answer_ok);
    world.pass(99 * MS);
    assert_eq!(world.port.connects, 2);
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn what_ends_as_it_is_opened_was_not_opened() {
    let end_at_once = |world: &mut World| {
        let id = world.newest();
        world.port.connections.get_mut(&id).unwrap().open = true;
        world.backend.connected(&mut world.port, id, world.now);
        // In the same turn.
        world.end(id, Ended::PeerFinished);
    };
    let mut world = World::new(options());
    world.submit(0..1, false);
    for _ in 0..2 {
        assert!(!world.is_told(0));
        end_at_once(&mut world);
    }
    world.assert_failed(0..1, LaneError::BackendFailed);
    assert_eq!(world.port.connects, 2);
    // Where another stands, it is waited for.
    let (mut world, id) = World::proven(options());
    world.submit(0..20, true);
    end_at_once(&mut world);
    assert_eq!(world.port.connects, 2);
    world.serve(id, 1, answer_ok);
    world.pass(99 * MS);
    assert_eq!(world.port.connects, 2);
}

#[test]
fn without_an_address_all_fail() {
    let mut world = World::new(options());
    world.backend = ConnectionPool::new(PlainWire::new(), "sim", Vec::new(), options());
    world.submit(0..2, false);
    world.assert_failed(0..2, LaneError::BackendFailed);
}

#[test]
fn the_circuit_opens_is_tried_by_some_and_closes() {
    let mut world = World::new(options());
    world.port.connect_fails = true;
    world.submit(0..1, false);
    world.submit(1..2, false);
    // Two attempts each, and the third failure opened it.
    assert!(world.backend.counts().circuit_open);
    assert_eq!(world.port.connects, 3);
    world.submit(2..9, false);
    world.assert_failed(2..9, LaneError::BackendRefused);
    assert_eq!(world.port.connects, 3);

    // A trial that fails.
    world.pass(40 * MS);
    world.submit(10..13, false);
    assert_eq!(world.port.connects, 4);
    world.assert_failed(10..13, LaneError::BackendRefused);
    world.submit(13..14, false);
    world.assert_failed(13..14, LaneError::BackendRefused);

    // Rounds of trials that are answered.
    world.pass(40 * MS);
    world.port.connect_fails = false;
    world.submit(20..26, true);
    world.assert_failed(24..26, LaneError::BackendRefused);
    assert!(world.backend.counts().circuit_open);
    let id = world.newest();
    world.connected(id);
    while world.serve(id, 99, answer_ok) > 0 {}
    world.assert_answered(20..24);
    // It answers, and trials go on.
    assert!(!world.backend.counts().circuit_open);
    let mut key = 30;
    for trials in [8, 16, 32] {
        // More than half of a round are enough.
        world.submit(key..key + trials / 2 + 1, true);
        while world.serve(id, 99, answer_ok) > 0 {}
        world.assert_answered(key..key + trials / 2 + 1);
        key += trials;
    }
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn where_nobody_asks_a_connection_that_stands_closes_the_circuit() {
    let mut world = World::new(options());
    world.port.connect_fails = true;
    world.submit(0..1, false);
    world.submit(1..2, false);
    assert!(world.backend.counts().circuit_open);
    assert_eq!(world.port.connects, 3);
    // One attempt in two cool-downs.
    world.pass(200 * MS);
    assert_eq!(world.port.connects, 5);
    world.port.connect_fails = false;
    world.pass(40 * MS);
    let id = world.newest();
    world.connected(id);
    world.pass(39 * MS);
    assert!(world.backend.counts().circuit_open, "it may end at once");
    world.pass(MS);
    assert!(!world.backend.counts().circuit_open);
    // Nobody is refused.
    world.submit(10..20, true);
    while world.serve(id, 99, answer_ok) > 0 {}
    world.assert_answered(10..20);
}

#[test]
fn trials_without_an_answer_are_followed_by_others() {
    let mut world = World::new(options());
    world.port.connect_fails = true;
    world.submit(0..1, false);
    world.submit(1..2, false);
    world.port.connect_fails = false;
    world.pass(40 * MS);
    world.submit(2..4, false);
    let id = world.newest();
    world.connected(id);
    world.pass(100 * MS);
    world.assert_failed(2..4, LaneError::BackendTimeout);
    world.submit(4..8, true);
    let id = world.newest();
    world.connected(id);
    while world.serve(id, 99, answer_ok) > 0 {}
    world.assert_answered(4..8);
}

#[test]
fn only_attempts_in_a_row_count_as_unreachable() {
    let mut world = World::new(options());
    for key in 0..6 {
        world.submit(key..key + 1, false);
        let refused = world.newest();
        world.end(refused, Ended::Failed(io::ErrorKind::ConnectionRefused));
        assert!(!world.is_told(key), "given up after one attempt");
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        world.end(id, Ended::PeerFinished);
    }
    world.assert_answered(0..6);
}

#[test]
fn attempts_begun_side_by_side_are_one_in_a_row() {
    let mut world = World::new(PoolOptions {
        connections_max: 16,
        ..options()
    });
    for (attempt, is_open) in [(0, false), (1, false), (2, true)] {
        let keys = 16 * attempt..16 * (attempt + 1);
        world.submit(keys.clone(), false);
        assert_eq!(world.port.connects as u64, keys.end);
        world.pass(30 * MS);
        assert!(keys.clone().all(|key| world.is_told(key)));
        assert_eq!(world.backend.counts().circuit_open, is_open, "{attempt}");
    }
}

#[test]
fn failing_answers_open_the_circuit_and_what_waits_is_refused() {
    let mut world = World::new(PoolOptions {
        connections_max: 1,
        ..options()
    });
    world.submit(1000..1001, true);
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.submit(0..10, true);
    world.serve(id, 2, |_| response(404, "who?"));
    assert!(!world.backend.counts().circuit_open);
    world.assert_failed(0..2, LaneError::BackendFailed);
    world.submit(10..12, true);
    world.serve(id, 3, |_| response(503, "busy"));
    assert!(!world.backend.counts().circuit_open, "as many were well");
    world.serve(id, 1, |_| response(503, "busy"));
    assert!(world.backend.counts().circuit_open);
    world.assert_failed(2..6, LaneError::BackendFailed);
    // What waits is refused; what is on its way is still answered.
    world.submit(12..13, true);
    world.assert_failed(12..13, LaneError::BackendRefused);
    world.serve(id, 99, answer_ok);
    world.assert_answered(6..12);
    assert_eq!(world.backend.counts().retries, 0);
}

#[test]
fn that_this_side_has_no_room_is_no_failure_of_the_backend() {
    let mut world = World::new(PoolOptions {
        timeout: 500 * MS,
        ..options()
    });
    world.port.is_full = true;
    for key in 0..9 {
        world.submit(key..key + 1, true);
    }
    world.pass(300 * MS);
    assert!(world.told.is_empty() && !world.backend.counts().circuit_open);
    // No more attempts than turns with something new, and one a pause.
    assert_eq!(world.port.connects, 9 + 3);
    world.port.is_full = false;
    world.pass(100 * MS);
    world.connect_all();
    while world.told.len() < 9 {
        let sent = world.take_all();
        assert!(!sent.is_empty());
        for (id, queries) in sent {
            let answers: String = queries.iter().map(|query| answer_ok(query)).collect();
            world.receive(id, answers.as_bytes());
        }
    }
    world.assert_answered(0..9);
    // Where it lasts, they fail in time.
    world.pass(100 * MS);
    assert!(world.port.connections.is_empty());
    world.port.is_full = true;
    world.submit(20..21, true);
    world.pass(500 * MS);
    world.assert_failed(20..21, LaneError::BackendTimeout);
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn a_backend_that_is_elsewhere_is_asked_there_and_its_old_connections_end_with_their_answers() {
    let (mut world, old) = World::proven(options());
    let old_address = world.port.at(old).address;
    assert_eq!(old_address, "10.0.0.1:81".parse().unwrap());
    world.submit(0..1, true);
    let there = Peer::tcp("sim", "10.0.0.3:81".parse().unwrap());
    assert!(world.backend.relocate(std::slice::from_ref(&there)));
    world.poll();
    assert!(world.backend.owns(old), "it owes an answer");
    world.submit(1..2, true);
    let new = world.newest();
    assert_eq!(world.port.at(new).address, "10.0.0.3:81".parse().unwrap());
    world.connected(new);
    world.serve(new, 1, answer_ok);
    world.assert_answered(1..2);
    world.serve(old, 1, answer_ok);
    world.assert_answered(0..1);
    assert!(!world.backend.owns(old) && !world.port.connections.contains_key(&old));

    // One that is being opened is given up, which is no failure; one that stays is kept.
    world.submit(2..20, true);
    let opening = world.newest();
    assert_ne!(opening, new);
    let elsewhere = Peer::tcp("sim", "10.0.0.4:81".parse().unwrap());
    assert!(world.backend.relocate(&[there, elsewhere.clone()]));
    world.poll();
    assert!(world.backend.owns(opening) && world.backend.owns(new));
    assert!(world.backend.relocate(&[elsewhere]));
    world.poll();
    assert!(!world.backend.owns(opening) && world.backend.owns(new));
    loop {
        world.connect_all();
        let ids: Vec<ConnectionId> = world.port.connections.keys().copied().collect();
        let served = ids.into_iter().map(|id| world.serve(id, 99, answer_ok));
        if served.sum::<usize>() == 0 {
            break;
        }
    }
    world.assert_answered(2..20);
    assert!(!world.backend.owns(new));
    let left = world.port.connections.values().map(|one| one.address);
    assert!(left.eq(["10.0.0.4:81".parse().unwrap(); 2]));
}

#[test]
fn a_queue_that_is_full_for_a_moment_is_no_failure_and_one_that_stays_so_is() {
    let mut world = World::new(PoolOptions {
        timeout: 1000 * MS,
        ..options()
    });
    world.port.queue_is_full = true;
    let wait = |world: &mut World, key| {
        world.submit(key..key + 1, false);
        world.pass(25 * MS);
    };
    // Others come meanwhile, who try it as well.
    (0..2).for_each(|key| wait(&mut world, key));
    world.port.queue_is_full = false;
    world.pass(100 * MS);
    let id = world.newest();
    world.connected(id);
    while world.serve(id, 99, answer_ok) > 0 {}
    world.pass(100 * MS);
    assert!(!world.backend.counts().circuit_open && world.port.connections.is_empty());
    // Nobody asks for long, and then it hangs.
    world.pass(1000 * MS);
    world.port.queue_is_full = true;
    (10..12).for_each(|key| wait(&mut world, key));
    assert!(!world.is_told(10));
    let mut keys = 12..99;
    while !world.backend.counts().circuit_open {
        wait(&mut world, keys.next().expect("it opens"));
    }
    world.assert_failed(10..11, LaneError::BackendFailed);
    world.submit(100..101, false);
    world.assert_failed(100..101, LaneError::BackendRefused);
    // It is tried, and found well.
    world.port.queue_is_full = false;
    world.pass(200 * MS);
    let id = world.newest();
    world.connected(id);
    world.pass(40 * MS);
    assert!(!world.backend.counts().circuit_open);
}
