//! A backend that answers: how queries are spread over its connections, in how many sends, and
//! what is not sent.

use super::super::pipe::UNSENT_MAX;
use super::super::*;
use super::world::*;
use rhythm_engine::cohort::LaneError;

#[test]
fn a_batch_is_one_send() {
    let (mut world, id) = World::proven(options());
    let sends = world.port.sends;
    world.submit(0..8, true);
    assert_eq!(world.port.sends, sends + 1);
    assert_eq!(world.serve(id, 99, answer_ok), 8);
    world.assert_answered(0..8);
    assert_eq!(world.port.connects, 1);
    assert_eq!(world.told.len(), 9);
}

#[test]
fn a_new_connection_is_tried_with_one_query() {
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
fn many_queries_use_several_connections_and_addresses() {
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
fn answers_and_queries_may_come_in_any_pieces() {
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
fn queries_beyond_the_bound_are_refused() {
    let mut world = World::new(PoolOptions {
        queries_max: 5,
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
fn queries_beyond_the_bytes_that_may_be_kept_are_refused() {
    let mut world = World::new(PoolOptions {
        held_max: 5 * (size_of::<Sent>() + 16),
        ..options()
    });
    world.submit(0..9, true);
    let taken = 9 - world.told.len() as u64;
    assert!((1..=5).contains(&taken), "{taken}");
    world.assert_failed(taken..9, LaneError::BackendRefused);
    let id = world.newest();
    world.connected(id);
    while world.serve(id, 9, answer_ok) > 0 {}
    world.assert_answered(0..taken);
    // There is room again for as many.
    world.submit(10..19, true);
    while world.serve(id, 9, answer_ok) > 0 {}
    world.assert_answered(10..10 + taken);
    world.assert_failed(10 + taken..19, LaneError::BackendRefused);
}

#[test]
fn a_pipe_takes_no_more_than_some_bytes_that_are_not_sent() {
    let many = 4000;
    let (mut world, id) = World::proven(PoolOptions {
        connections_max: 1,
        depth_max: many,
        queries_max: many,
        ..options()
    });
    let room = |world: &mut World, bytes: usize| {
        world.port.connections.get_mut(&id).unwrap().room = bytes;
    };
    room(&mut world, 0);
    let keys = 2000..2000 + many as u64;
    world.submit(keys.clone(), true);
    room(&mut world, usize::MAX);
    world.backend.writable(&mut world.port, id, world.now);
    let sent = world.port.connections[&id].sent.len();
    assert!((UNSENT_MAX..UNSENT_MAX + 100).contains(&sent), "{sent}");
    world.poll();
    while world.serve(id, many, answer_ok) > 0 {}
    world.assert_answered(keys);
}

#[test]
fn texts_are_bounded_and_cannot_leave_the_request_line() {
    let (mut world, id) = World::proven(options());
    let texts = ["x".repeat(41), "1&3& HTTP/1.1\r\nX: #\u{e9}".into()];
    world.submit_texts(0, &texts, true, Time::NEVER);
    world.assert_failed(0..1, LaneError::TextTooLong);
    assert_eq!(world.take(id, 9), ["1&3&%20HTTP/1.1%0D%0AX:%20%23%C3%A9"]);
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
    assert!(world.told.values().all(|(result, _)| result.is_ok()));
}
