//! The remote backend, case by case: what it sends, and what becomes of requests when things go
//! wrong.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::LaneError;
use std::io;

#[test]
fn a_batch_is_one_send() {
    let (mut world, id) = World::proven(options());
    let sends = world.port.sends;
    world.submit(0..8, true);
    assert_eq!(world.port.sends, sends + 1);
    assert_eq!(world.serve(id, 99, answer_ok), 8);
    world.assert_answered(0..8);
    assert_eq!(world.port.connects, 1);
    assert_eq!(world.backend.counts().requests, 9);
}

#[test]
fn a_new_connection_is_tried_with_one_request() {
    let mut world = World::new(options());
    world.submit(0..20, true);
    assert_eq!(world.port.connects, 2);
    let id = world.newest();
    world.connected(id);
    assert_eq!(world.serve(id, 99, answer_ok), 1);
    assert_eq!(world.serve(id, 99, answer_ok), 8);
    assert_eq!(world.serve(id, 99, answer_ok), 8);
    assert_eq!(world.serve(id, 99, answer_ok), 3);
    world.assert_answered(0..20);
}

#[test]
fn many_requests_use_several_connections_and_addresses() {
    let (mut world, first) = World::proven(options());
    world.submit(0..30, true);
    let second = world.newest();
    assert_eq!(world.port.connections.len(), 2);
    let addresses: Vec<_> = world
        .port
        .connections
        .values()
        .map(|c| c.address.to_string())
        .collect();
    assert_eq!(addresses, ["10.0.0.1:81", "10.0.0.2:81"]);
    world.connected(second);
    for _ in 0..3 {
        world.serve(first, 8, answer_ok);
        world.serve(second, 8, answer_ok);
    }
    world.assert_answered(0..30);
    assert_eq!(world.port.connects, 2);
}

#[test]
fn answers_and_requests_may_come_in_any_pieces() {
    let (mut world, id) = World::proven(options());
    world.port.connections.get_mut(&id).unwrap().room = 0;
    world.submit(0..2, true);
    let sends = world.port.sends;
    world.submit(2..5, true);
    assert_eq!(world.port.sends, sends, "sent to a full socket");
    while world.port.connections[&id].blocked {
        let connection = world.port.connections.get_mut(&id).unwrap();
        connection.blocked = false;
        connection.room = 7;
        world.backend.writable(&mut world.port, id, world.now);
    }
    let queries = world.take(id, 99);
    assert_eq!(queries.len(), 5);
    for (i, query) in queries.iter().enumerate() {
        let answer = if i % 2 == 0 {
            chunked(&answer_to(query))
        } else {
            answer_ok(query)
        };
        answer.bytes().for_each(|byte| world.receive(id, &[byte]));
        assert_eq!(world.told.len(), i + 2);
    }
    world.assert_answered(0..5);
}

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
    assert_eq!(world.backend.counts().failures, 1);
}

#[test]
fn what_cannot_be_sent_again_shares_no_connection() {
    let (mut world, id) = World::proven(PoolOptions {
        connections_max: 1,
        ..options()
    });
    world.submit(0..2, true);
    world.submit(2..4, false);
    world.submit(4..6, true);
    // Those that share go before, as the connection has room for them.
    assert_eq!(world.take(id, 9), ["1&3&0", "1&3&1", "1&3&4", "1&3&5"]);
    for key in [0, 1, 4, 5] {
        assert_eq!(world.take(id, 9), Vec::<String>::new());
        let answer = answer_ok(&format!("1&3&{key}"));
        world.receive(id, answer.as_bytes());
    }
    world.submit(6..7, true);
    assert_eq!(world.take(id, 9), ["1&3&2"]);
    world.receive(id, answer_ok("1&3&2").as_bytes());
    assert_eq!(world.take(id, 9), ["1&3&3"]);
    world.reset(id);
    world.assert_failed(3..4, LaneError::BackendFailed);
    assert_eq!(world.told.len(), 7);
}

#[test]
fn the_slow_share_by_what_is_in_flight() {
    let (mut world, first) = World::proven(options());
    world.submit(0..1, true);
    world.pass(20 * MS);
    world.serve(first, 1, answer_ok);
    // It takes one at a time now, and what waits opens the other connection.
    world.submit(1..4, true);
    assert_eq!(world.take(first, 9), ["1&3&1"]);
    let second = world.newest();
    world.connected(second);
    assert_eq!(world.take(second, 9), ["1&3&2"]);
    world.receive(second, answer_ok("1&3&2").as_bytes());
    assert_eq!(world.take(second, 9), ["1&3&3"]);
    // Answers at once make it deeper again.
    world.receive(second, answer_ok("1&3&3").as_bytes());
    world.submit(4..9, true);
    assert!(world.take(second, 9).len() > 1);
}

#[test]
fn those_behind_a_slow_one_go_elsewhere_and_it_fails_alone() {
    let (mut world, first) = World::proven(options());
    world.submit(0..4, true);
    assert_eq!(world.take(first, 9).len(), 4);
    world.pass(9 * MS);
    assert_eq!(world.port.connections.len(), 1);
    world.pass(MS);
    let second = world.newest();
    assert_ne!(second, first);
    world.connected(second);
    for key in 1..4 {
        assert_eq!(world.take(second, 9), [format!("1&3&{key}")]);
        // Nothing is put in behind the slow one.
        assert_eq!(world.take(first, 9), Vec::<String>::new());
        world.receive(second, answer_ok(&format!("1&3&{key}")).as_bytes());
    }
    world.assert_answered(1..4);
    assert!(!world.is_told(0));
    // An answer comes after all, and those of the others are nobody's.
    world.pass(50 * MS);
    for key in 0..4 {
        world.receive(first, answer_ok(&format!("1&3&{key}")).as_bytes());
    }
    world.assert_answered(0..4);
    assert!(world.backend.owns(first));
    // One that never comes fails alone.
    let (mut world, first) = World::proven(options());
    world.submit(0..4, true);
    world.take(first, 9);
    world.pass(10 * MS);
    let second = world.newest();
    world.connected(second);
    (1..4).for_each(|_| assert_eq!(world.serve(second, 9, answer_ok), 1));
    world.pass(90 * MS);
    world.assert_answered(1..4);
    world.assert_failed(0..1, LaneError::BackendTimeout);
    assert!(!world.backend.owns(first));
    assert!(!world.backend.counts().circuit_open);
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
    let id = world.newest();
    world.connected(id);
    while world.serve(id, 99, answer_ok) > 0 {}
    world.assert_answered(20..24);
    assert!(world.backend.counts().circuit_open);
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
fn requests_beyond_the_bound_are_refused() {
    let mut world = World::new(PoolOptions {
        requests_max: 5,
        ..options()
    });
    world.submit(0..9, true);
    assert_eq!(world.told.len(), 4);
    world.assert_failed(5..9, LaneError::BackendRefused);
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.submit(10..12, true);
    world.assert_failed(11..12, LaneError::BackendRefused);
    world.serve(id, 9, answer_ok);
    world.assert_answered(0..5);
    world.assert_answered(10..11);
}

#[test]
fn texts_are_bounded_and_cannot_leave_the_request_line() {
    let (mut world, id) = World::proven(options());
    let texts = ["x".repeat(41), "1&3& HTTP/1.1\r\nX: #\u{e9}".into()];
    world.submit_texts(0, &texts, true, Time::NEVER);
    world.assert_failed(0..1, LaneError::TooLarge);
    assert_eq!(world.take(id, 9), ["1&3&%20HTTP/1.1%0D%0AX:%20%23%C3%A9"]);
}

#[test]
fn unreadable_answers_fail_one_request_and_end_the_connection() {
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
        // One failure, though it meets three requests.
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
    // Nor is it taken for the answer to a request that is not sent yet.
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
fn idle_connections_end() {
    let (mut world, id) = World::proven(options());
    world.pass(49 * MS);
    assert!(world.backend.owns(id));
    world.pass(MS);
    assert!(!world.backend.owns(id) && world.port.connections.is_empty());
    assert_eq!(world.backend.wake_at(), None);
    // From the other side, it is no failure.
    let (mut world, mut id) = World::proven(options());
    for key in 0..5 {
        world.end(id, Ended::PeerFinished);
        world.submit(key..key + 1, false);
        id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
    }
    world.assert_answered(0..5);
    assert_eq!(world.backend.counts().failures, 0);
}

#[test]
fn a_request_is_sent_again_so_often_and_no_more() {
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
