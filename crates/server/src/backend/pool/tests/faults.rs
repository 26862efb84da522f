//! Connections that are lost, and answers that are late or wrong: which queries fail, and which
//! are sent again.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::LaneError;

#[test]
fn after_a_reset_only_the_idempotent_are_sent_again_and_once() {
    let (mut world, id) = World::proven(PoolOptions {
        connections_max: 1,
        ..options()
    });
    world.submit(0..4, true);
    world.serve(id, 1, answer_ok);
    // In the middle of an answer.
    world.receive(id, b"HTTP/1.1 200 OK\r\nContent-Le");
    world.reset(id);
    assert_eq!(world.told.len(), 2);
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.reset(id);
    world.assert_answered(0..2);
    world.assert_failed(2..3, LaneError::BackendFailed);
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.assert_answered(3..4);
    assert_eq!(world.backend.counts().retries, 3);
    let failed = world.told.values().filter(|(result, _)| result.is_err());
    assert_eq!(failed.count(), 1);
}

#[test]
fn what_was_undone_is_sent_again_so_often() {
    let (mut world, id) = World::proven(PoolOptions {
        retries_max: 2,
        ..options()
    });
    let undone = |_: &str| response(409, "begun");
    world.submit(0..1, false);
    for _ in 0..2 {
        assert_eq!(world.serve(id, 1, undone), 1);
        assert_eq!(world.told.len(), 1, "it is not told of");
    }
    assert_eq!(world.serve(id, 1, answer_ok), 1);
    world.assert_answered(0..1);
    world.submit(7..8, false);
    (0..3).for_each(|_| assert_eq!(world.serve(id, 1, undone), 1));
    world.assert_failed(7..8, LaneError::BackendFailed);
    assert_eq!(world.backend.counts().retries, 4);
}

#[test]
fn what_was_not_sent_whole_can_be_sent_again() {
    let (mut world, id) = World::proven(options());
    let length = "GET /besim?1&3&0 HTTP/1.1\r\nHost: sim:81\r\n\r\n".len();
    for (room, is_safe) in [(length - 1, true), (length, false)] {
        let mut id = id;
        if !is_safe {
            (world, id) = World::proven(options());
        }
        world.port.connections.get_mut(&id).unwrap().room = room;
        world.submit(0..1, false);
        world.reset(id);
        if !is_safe {
            world.assert_failed(0..1, LaneError::BackendFailed);
            continue;
        }
        let id = world.newest();
        world.connected(id);
        world.serve(id, 9, answer_ok);
        world.assert_answered(0..1);
    }
}

#[test]
fn a_send_that_finds_the_connection_gone_is_a_loss() {
    let (mut world, id) = World::proven(options());
    world.port.connections.get_mut(&id).unwrap().broken = true;
    world.submit(0..3, false);
    assert!(!world.backend.owns(id));
    let id = world.newest();
    world.connected(id);
    (0..3).for_each(|_| assert_eq!(world.serve(id, 9, answer_ok), 1));
    world.assert_answered(0..3);
}

#[test]
fn after_an_announced_end_the_rest_is_sent_again() {
    let (mut world, id) = World::proven(options());
    world.submit(0..4, true);
    for answered in 1..=4 {
        let id = if answered == 1 {
            id
        } else {
            let id = world.newest();
            world.connected(id);
            id
        };
        world.serve(id, 1, |query| closing(&answer_to(query)));
        assert!(!world.backend.owns(id));
        assert_eq!(world.told.len(), 1 + answered);
    }
    world.assert_answered(0..4);
    assert!(world.port.connections.is_empty());
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn a_body_may_end_with_the_connection() {
    let (mut world, id) = World::proven(options());
    world.submit(0..1, false);
    world.take(id, 1);
    world.receive(id, b"HTTP/1.0 200 OK\r\n\r\nanswer to ");
    world.receive(id, b"1&3&0");
    assert!(!world.is_told(0));
    world.end(id, Ended::PeerFinished);
    world.assert_answered(0..1);
    // But not with its failure.
    let (mut world, id) = World::proven(options());
    world.submit(0..1, false);
    world.receive(id, b"HTTP/1.0 200 OK\r\n\r\nanswer to 1&3&0");
    world.reset(id);
    world.assert_failed(0..1, LaneError::BackendFailed);
}

#[test]
fn late_answers_cost_their_connection() {
    let (mut world, id) = World::proven(options());
    world.submit_until(0..1, false, Time::ZERO + 20 * MS);
    world.pass(19 * MS);
    assert!(!world.is_told(0) && world.backend.owns(id));
    world.pass(MS);
    world.assert_failed(0..1, LaneError::BackendTimeout);
    assert!(!world.backend.owns(id) && !world.port.connections.contains_key(&id));
}

#[test]
fn waiting_counts_as_time() {
    let mut world = World::new(PoolOptions {
        connect_timeout: 1000 * MS,
        ..options()
    });
    world.submit(0..2, true);
    world.pass(99 * MS);
    assert!(world.told.is_empty());
    world.pass(MS);
    world.assert_failed(0..2, LaneError::BackendTimeout);
    // Without time there is no attempt.
    world.submit_until(2..3, true, world.now);
    world.assert_failed(2..3, LaneError::BackendTimeout);
}

#[test]
fn unreadable_answers_fail_one_query_and_end_the_connection() {
    let long = response(200, &"x".repeat(61));
    for bad in [
        "HTTP/1.1 2oo\r\n",
        "\r\n\r\n",
        "HTTP/1.1 101 Go\r\n\r\n",
        &long,
    ] {
        let (mut world, id) = World::proven(PoolOptions {
            circuit: CircuitOptions {
                failures_min: 2,
                ..options().circuit
            },
            ..options()
        });
        world.submit(0..3, true);
        world.take(id, 99);
        world.receive(id, bad.as_bytes());
        world.assert_failed(0..1, LaneError::BadAnswer);
        // One failure, though it meets three queries.
        assert!(!world.backend.counts().circuit_open);
        assert!(!world.backend.owns(id) && world.told.len() == 2);
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        world.serve(id, 1, answer_ok);
        world.assert_answered(1..3);
    }
}

#[test]
fn an_answer_nobody_asked_for_ends_the_connection() {
    let (mut world, id) = World::proven(options());
    world.receive(id, response(200, "surprise").as_bytes());
    assert!(!world.backend.owns(id));
    // Nor is it taken for the answer to a query that is not sent yet.
    let (mut world, id) = World::proven(options());
    world.port.connections.get_mut(&id).unwrap().room = 10;
    world.submit(0..1, false);
    world.receive(id, response(200, "surprise").as_bytes());
    assert!(!world.backend.owns(id) && !world.is_told(0));
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.assert_answered(0..1);
    // Nor is a part of one kept for it, whether it comes alone or behind an answer.
    let surprise = response(200, "surprise");
    for length in 1..surprise.len() {
        let part = &surprise[..length];
        let (mut world, id) = World::proven(options());
        world.receive(id, part.as_bytes());
        assert!(!world.backend.owns(id), "{part:?}");
        let (mut world, id) = World::proven(options());
        world.submit(0..1, false);
        world.serve(id, 1, |query| answer_ok(query) + part);
        assert!(!world.backend.owns(id), "{part:?}");
        world.assert_answered(0..1);
    }
}

#[test]
fn a_query_is_sent_again_so_often_and_no_more() {
    for retries_max in [0, 1, 3] {
        let (mut world, mut id) = World::proven(PoolOptions {
            retries_max,
            circuit: CircuitOptions {
                failures_min: 100,
                ..options().circuit
            },
            ..options()
        });
        world.submit(0..1, true);
        for again in 0..=retries_max {
            assert!(!world.is_told(0), "sent {again} times of {retries_max}");
            assert_eq!(world.take(id, 9).len(), 1);
            world.reset(id);
            if again < retries_max {
                id = world.newest();
                world.connected(id);
            }
        }
        world.assert_failed(0..1, LaneError::BackendFailed);
        assert_eq!(world.backend.counts().retries, u64::from(retries_max));
    }
}
