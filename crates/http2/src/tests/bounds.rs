//! What bounds a client, and leaves room to others.

use super::*;
use h2::Reason;

#[test]
fn of_many_requests_some_wait_for_others_to_be_answered() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let asked: Vec<_> = (0..100).map(|_| world.ask(get("/"), true).0).collect();
    world.run();
    assert_eq!(world.echo().came.len(), 16);
    world.server.behind_mut().is_silent = false;
    let begun: Vec<_> = world.echo().came.keys().copied().collect();
    let now = world.now;
    world.server.handle(&mut world.port, now, |echo, port| {
        for id in begun {
            echo.received(port, id, b"", now);
        }
    });
    for asked in asked {
        assert_eq!(world.answer(asked).unwrap().0.status(), 200);
    }
}

#[test]
fn who_waits_for_slow_ones_does_not_wait_for_long() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let _asked: Vec<_> = (0..100).map(|_| world.ask(get("/"), true)).collect();
    world.run();
    assert_eq!(world.echo().came.len(), 16);
    let due = world.now + Duration::from_secs(1);
    let wakes = world.server.wake_at().expect("it looks after them");
    assert!(wakes > world.now && wakes <= due + Duration::from_millis(10));
    world.now = due + Duration::from_millis(10);
    world.run();
    assert_eq!(world.echo().came.len(), 100);
}

#[test]
fn who_takes_nothing_for_long_is_let_go() {
    let mut world = World::new(Echo::default(), OPTIONS);
    world.run();
    world.port.at(ID).room = 10;
    let _asked = world.ask(get("/"), true);
    world.run();
    let just_before = world.now + (OPTIONS.stall - Duration::from_secs(1));
    world.server.tick(&mut world.port, just_before);
    assert!(world.port.connections.contains_key(&ID));
    world.now = world.now + OPTIONS.stall + Duration::from_secs(1);
    world.server.tick(&mut world.port, world.now);
    assert!(world.port.connections.is_empty());
    assert!(world.echo().came.is_empty());
}

#[test]
fn who_takes_back_all_that_is_asked_is_sent_away() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    world.run();
    let mut asked = 0;
    while world.port.connections.contains_key(&ID) && asked < 1000 {
        let Ok((_, mut up)) = world.peers[0].ask.send_request(get("/"), false) else {
            break;
        };
        world.run();
        up.send_reset(Reason::CANCEL);
        world.run();
        asked += 1;
    }
    assert!((150..300).contains(&asked), "after {asked}");
    assert!(!world.port.connections.contains_key(&ID));
}

#[test]
fn more_requests_than_there_is_room_for_are_refused() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let options = Options {
        all_streams_max: 6,
        ..OPTIONS
    };
    let mut world = World::new(echo, options);
    let asked: Vec<_> = (0..5).map(|_| world.ask(get("/"), true).0).collect();
    world.run();
    assert_eq!(world.echo().came.len(), 3);
    let mut refused = 0;
    for mut asked in asked {
        if let Poll::Ready(Err(error)) = Pin::new(&mut asked).poll(&mut cx()) {
            assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
            refused += 1;
        }
    }
    assert_eq!(refused, 2);
}

/// A third connection, of the client that has the first.
const SAME: ConnectionId = ConnectionId::new(5, 1);

#[test]
fn no_client_takes_the_place_of_all_others_by_however_many_connections() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let options = Options {
        all_streams_max: 16,
        client: |_, id| u64::from(id == OTHER),
        ..OPTIONS
    };
    let mut world = World::new(echo, options);
    for id in [OTHER, SAME] {
        world.port.accept(id);
        world.join(id);
    }
    world.run();
    let mut asked = Vec::new();
    let mut ask = |world: &mut World, peer: usize| {
        asked.extend((0..16).map(|_| world.peers[peer].ask(get("/"), false)));
        world.run();
        world.echo().came.len()
    };
    // Half of them are the most that one has, and of the rest the next.
    assert_eq!(ask(&mut world, 0), 8);
    assert_eq!(ask(&mut world, 2), 8);
    assert_eq!(ask(&mut world, 1), 12);
    // What is given back others find, whether it was begun or not.
    drop(asked);
    world.run();
    assert_eq!(world.echo().came.len(), 0);
    let _asked: Vec<_> = (0..16)
        .map(|_| world.peers[1].ask(get("/"), true))
        .collect();
    world.run();
    assert_eq!(world.echo().came.len(), 8);
}

#[test]
fn one_without_requests_that_takes_no_last_word_leaves_its_place_all_the_same() {
    for is_gone in [false, true] {
        let mut world = World::new(Echo::default(), OPTIONS);
        let asked = world.ask(get("/"), true).0;
        world.answer(asked).unwrap();
        world.run();
        world.now += OPTIONS.yield_after;
        (world.port.at(ID).room, world.port.at(ID).broken) = (5, is_gone);
        world.server.crowded(&mut world.port, world.now);
        assert!(world.port.connections.is_empty());
        // One that is there still has what the port has of its answers: its last word is lost.
        assert_eq!(world.port.closed.len(), usize::from(!is_gone));
        assert!(world.port.aborted.is_empty());
        world.server.behind_mut().is_finished = true;
        let now = world.now;
        world.server.idle(&mut world.port, now);
        assert!(world.server.finished(), "no carrier is left");
    }
}

#[test]
fn one_without_requests_is_closed_in_time_and_when_others_wait() {
    for is_crowded in [false, true] {
        let mut world = World::new(Echo::default(), OPTIONS);
        let asked = world.ask(get("/"), true).0;
        world.answer(asked).unwrap();
        world.run();
        if is_crowded {
            // It has its place for a while, as those have that the handler is asked for.
            world.server.crowded(&mut world.port, world.now);
            assert!(world.port.connections.contains_key(&ID));
            world.now += OPTIONS.yield_after;
            world.server.crowded(&mut world.port, world.now);
            assert_eq!(world.echo().crowded, 2);
        } else {
            world.now = world.now + OPTIONS.idle + Duration::from_secs(1);
            world.server.tick(&mut world.port, world.now);
        }
        assert!(world.port.connections.is_empty(), "{is_crowded}");
        // It is told that its first request was the last that was seen, and that all is well.
        let farewell = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        assert!(world.port.closed[0].sent.ends_with(&farewell));
        assert!(!world.server.finished());
    }
}

/// The handler finds a connection gone, and opens one of its own, which has the same place.
#[test]
fn who_is_gone_within_a_send_leaves_nothing_behind() {
    let echo = Echo {
        is_silent: true,
        more: 60_000,
        ..Echo::default()
    };
    let options = Options {
        all_streams_max: 6,
        ..OPTIONS
    };
    let mut world = World::new(echo, options);
    let _asked: Vec<_> = (0..3).map(|_| world.ask(get("/"), true)).collect();
    world.run();
    let begun: Vec<_> = world.echo().came.keys().copied().collect();
    let failed = world.echo().failed;
    assert_eq!(begun.len(), 3);
    world.server.behind_mut().is_silent = false;
    world.port.at(ID).broken = true;
    world.port.connects = ID.slot() - 1;
    let (now, mut own) = (world.now, None);
    world.server.handle(&mut world.port, now, |echo, port| {
        for id in begun {
            echo.received(port, id, b"", now);
        }
        let peer = rhythm_net::Peer::tcp("other", ([127, 0, 0, 1], 1).into());
        own = port.connect(&peer).ok();
    });
    assert_eq!(world.echo().failed, failed + 3);
    assert!(world.echo().came.is_empty());
    let state = &world.server.state;
    assert_eq!((state.carriers, state.streams), (0, 0));
    let own = own.expect("it may be opened");
    world.port.at(ConnectionId::new(ID.slot(), 0)).open = true;
    world.server.handle(&mut world.port, now, |_, port| {
        assert_eq!(port.send(own, b"hello"), Sent::Taken(5));
    });
    // What the one had of all requests the next may have.
    world.port.accept(OTHER);
    world.join(OTHER);
    world.server.behind_mut().is_silent = true;
    world.run();
    let _asked: Vec<_> = (0..5).map(|_| world.peers[1].ask(get("/"), true)).collect();
    world.run();
    assert_eq!(world.echo().came.len(), 3);
}

#[test]
fn of_a_connection_that_is_gone_nothing_more_is_told() {
    let mut world = World::new(Echo::default(), OPTIONS);
    let request = Request::post("http://a.example/").header("content-length", 9);
    let (_asked, mut up) = world.ask(request.body(()).unwrap(), false);
    world.run();
    let (told, failed) = (world.echo().told, world.echo().failed);
    // A part of its content comes with something that the server says something to.
    up.send_data(Bytes::from("x"), false).expect("it stands");
    let mut pings = world.peers[0].connection.ping_pong().expect("only now");
    pings.send_ping(h2::Ping::opaque()).expect("the first");
    world.port.at(ID).broken = true;
    world.run();
    assert_eq!((world.echo().told, world.echo().failed), (told, failed + 1));
    assert_eq!(world.server.state.carriers, 0);
}

#[test]
fn those_whose_time_is_over_at_once_are_closed_a_few_at_a_time() {
    let mut world = World::new(Echo::default(), OPTIONS);
    for slot in 0..40 {
        let id = ConnectionId::new(100 + slot, 1);
        world.port.accept(id);
        world.join(id);
    }
    world.run();
    world.now = world.now + OPTIONS.idle + Duration::from_secs(1);
    while !world.port.connections.is_empty() {
        let before = world.port.connections.len();
        assert!(world.server.wake_at().is_some_and(|at| at <= world.now));
        world.server.tick(&mut world.port, world.now);
        let closed = before - world.port.connections.len();
        assert!((1..=10).contains(&closed), "{closed}");
    }
}
