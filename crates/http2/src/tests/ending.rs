//! How connections end when the server does: nobody's request is lost, and nobody is waited for
//! without end.

use super::*;
use h2::Reason;

#[test]
fn the_end_waits_for_what_is_under_way() {
    let mut world = World::new(
        Echo {
            is_silent: true,
            ..Echo::default()
        },
        OPTIONS,
    );
    let asked = world.ask(get("/"), true).0;
    world.run();
    world.server.listeners_closed();
    world.run();
    assert!(world.port.connections.contains_key(&ID));
    let id = *world.echo().came.keys().next().expect("it is there");
    world.server.behind_mut().is_silent = false;
    let now = world.now;
    world.server.handle(&mut world.port, now, |echo, port| {
        echo.received(port, id, b"", now)
    });
    world.answer(asked).unwrap();
    world.run();
    world.server.behind_mut().is_finished = true;
    world.run();
    assert!(world.server.finished());
    assert!(world.port.connections.is_empty());
}

/// A frame that says that the server goes away: the last stream that it saw (RFC 9113, section
/// 6.8), without an error.
fn goes_away(last: u32) -> Vec<u8> {
    let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
    frame.extend_from_slice(&last.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame
}

fn has(sent: &[u8], frame: &[u8]) -> bool {
    sent.windows(frame.len()).any(|window| window == frame)
}

/// The server is told to end, and its handler has nothing to do.
fn end(world: &mut World) {
    world.server.behind_mut().is_finished = true;
    world.server.listeners_closed();
    let now = world.now;
    world.server.idle(&mut world.port, now);
}

/// So much later, what is due of the server's is done.
fn later(world: &mut World, time: Duration) {
    world.now += time;
    let now = world.now;
    if world.server.wake_at().is_some_and(|at| at <= now) {
        world.server.tick(&mut world.port, now);
    }
    world.server.idle(&mut world.port, now);
}

#[test]
fn a_request_on_its_way_is_answered() {
    let mut world = World::new(Echo::default(), OPTIONS);
    world.run();
    // It is sent, and has not come when the server ends.
    let asked = world.ask(get("/"), true).0;
    end(&mut world);
    assert!(has(&world.port.at(ID).sent, &goes_away(0x7fff_ffff)));
    assert!(!world.server.finished());
    assert_eq!(world.answer(asked).expect("an answer").0.status(), 200);
    world.run();
    assert!(world.port.connections.is_empty() && world.server.finished());
}

#[test]
fn who_greets_late_is_told_at_once() {
    let mut world = World::new(Echo::default(), OPTIONS);
    world.server.listeners_closed();
    let asked = world.ask(get("/"), true).0;
    assert_eq!(world.answer(asked).expect("an answer").0.status(), 200);
    world.run();
    assert!(world.port.connections.is_empty());
}

#[test]
fn who_says_nothing_is_told_which_request_was_the_last() {
    let mut world = World::new(Echo::default(), OPTIONS);
    let asked = world.ask(get("/"), true).0;
    world.answer(asked).expect("an answer");
    end(&mut world);
    later(&mut world, Duration::from_millis(490));
    assert!(!has(&world.port.at(ID).sent, &goes_away(1)));
    later(&mut world, Duration::from_millis(30));
    assert!(world.port.closed[0].sent.ends_with(&goes_away(1)));
    assert!(world.server.finished());
}

/// `GET /` for a.test on a stream, in HPACK without its table.
fn ask_raw(stream: u8) -> Vec<u8> {
    let block = b"\x82\x86\x84\x01\x06a.test";
    let mut frame = vec![0, 0, block.len() as u8, 1, 5, 0, 0, 0, stream];
    frame.extend_from_slice(block);
    frame
}

#[test]
fn who_goes_on_asking_is_refused_and_may_ask_again() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let _asked = world.ask(get("/"), true);
    world.run();
    world.server.listeners_closed();
    let refused = |stream: u8| {
        let reason = u32::from(Reason::REFUSED_STREAM).to_be_bytes();
        [&[0, 0, 4, 3, 0, 0, 0, 0, stream][..], &reason].concat()
    };
    // It has not said that it knows.
    for (stream, wait, begun) in [(3, 0, 2), (5, 1900, 3), (7, 200, 3)] {
        later(&mut world, Duration::from_millis(wait));
        let (now, ask) = (world.now, ask_raw(stream));
        world.server.received(&mut world.port, ID, &ask, now);
        world.server.idle(&mut world.port, now);
        assert_eq!(world.echo().came.len(), begun, "{stream}");
        let is_refused = has(&world.port.at(ID).sent, &refused(stream));
        assert_eq!(is_refused, begun < usize::from(stream / 2 + 1), "{stream}");
    }
}

#[test]
fn answers_that_the_socket_has_no_room_for_are_waited_for() {
    let echo = Echo {
        more: 25_000,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    world.run();
    world.port.at(ID).room = 1_000;
    let asked = [(); 2].map(|()| world.ask(get("/"), true).0);
    world.run();
    // To the handler they are sent: what is left of them waits here, and in h2.
    assert!(world.echo().came.is_empty());
    end(&mut world);
    for _ in 0..60 {
        // It takes a little, and never nothing for long.
        world.port.at(ID).room = 1_000;
        let now = world.now;
        world.server.writable(&mut world.port, ID, now);
        world.server.idle(&mut world.port, now);
        world.run();
        world.now += Duration::from_millis(10);
        if !world.port.connections.contains_key(&ID) {
            break;
        }
    }
    for asked in asked {
        let (_, content) = world.answer(asked).expect("an answer");
        assert!(content.len() > 25_000, "{} bytes", content.len());
    }
    assert!(world.server.finished());
}

#[test]
fn who_takes_nothing_is_not_waited_for() {
    let echo = Echo {
        more: 25_000,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    world.run();
    world.port.at(ID).room = 1_000;
    let _asked = world.ask(get("/"), true);
    world.run();
    assert!(world.echo().came.is_empty());
    end(&mut world);
    later(&mut world, Duration::from_millis(1900));
    assert!(!world.server.finished());
    later(&mut world, Duration::from_millis(200));
    assert!(world.server.finished());
    assert_eq!(world.port.aborted.len(), 1);
}
