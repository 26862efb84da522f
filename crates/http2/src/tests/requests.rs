//! Requests and their answers, and what is none.

use super::*;
use h2::Reason;
use http::HeaderMap;

#[test]
fn many_requests_of_one_connection_are_under_way_at_once() {
    for in_chunks in [false, true] {
        for piece in [1, 7, usize::MAX] {
            let echo = Echo {
                in_chunks,
                ..Echo::default()
            };
            let mut world = World::new(echo, OPTIONS);
            world.piece = piece;
            world.run();
            world.server.behind_mut().is_silent = true;
            let first = world.ask(get("/0"), true).0;
            world.run();
            world.server.behind_mut().is_silent = false;
            let asked: Vec<_> = (1..50)
                .map(|n| world.ask(get(&format!("/{n}")), true).0)
                .collect();
            for (n, asked) in asked.into_iter().enumerate() {
                let (head, content) = world.answer(asked).unwrap();
                assert_eq!(head.status(), 200);
                let text = String::from_utf8(content).unwrap();
                assert!(
                    text.starts_with(&format!("GET /{} HTTP/1.1\r\nhost: a.example\r\n", n + 1))
                );
                assert!(head.headers().get("transfer-encoding").is_none());
            }
            drop(first);
            world.run();
            assert_eq!(
                world.echo().failed,
                2,
                "the connection became another, and one was left"
            );
            assert!(world.echo().came.is_empty());
        }
    }
}

#[test]
fn a_request_that_is_taken_back_is_ended() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let (_asked, mut up) = world.ask(get("/"), false);
    world.run();
    assert_eq!(world.echo().came.len(), 1);
    up.send_reset(Reason::CANCEL);
    world.run();
    assert!(world.echo().came.is_empty());
    assert!(world.port.connections.contains_key(&ID));
}

#[test]
fn what_does_not_begin_as_http2_does_goes_through_as_it_is() {
    let whole = b"PRI * HTTP/1.1\r\ncontent-length: 2\r\n\r\nab";
    for piece in 1..whole.len() {
        let mut world = World::new(
            Echo {
                is_silent: true,
                ..Echo::default()
            },
            OPTIONS,
        );
        for bytes in whole.chunks(piece) {
            world.server.received(&mut world.port, ID, bytes, world.now);
        }
        let came: Vec<_> = world.echo().came.values().collect();
        assert_eq!(came, [&whole.to_vec()], "by {piece}");
    }
    let mut world = World::new(
        Echo {
            is_silent: true,
            ..Echo::default()
        },
        Options {
            is_on: false,
            ..OPTIONS
        },
    );
    world.server.received(
        &mut world.port,
        ID,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        world.now,
    );
    assert_eq!(world.echo().came.values().next().map(Vec::len), Some(24));
}

#[test]
fn malformed_requests_are_reset_and_the_others_answered() {
    let mut world = World::new(Echo::default(), OPTIONS);
    let bad = Request::get("http://a/")
        .header("host", "b")
        .body(())
        .unwrap();
    let bad = world.ask(bad, true).0;
    let good = world.ask(get("/"), true).0;
    world.run();
    let error = world.answer(bad).unwrap_err();
    assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR));
    assert_eq!(world.answer(good).unwrap().0.status(), 200);
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    for seed in 0..200_u64 {
        let mut world = World::new(Echo::default(), OPTIONS);
        let asked = world.ask(get("/"), true).0;
        world.run();
        drop(asked);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let noise: Vec<u8> = (0..64)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Few lengths, so that frames end.
                (state >> 32) as u8 & if state & 4 == 0 { 0x0f } else { 0xff }
            })
            .collect();
        world
            .server
            .received(&mut world.port, ID, &noise, world.now);
        world.server.ended(
            &mut world.port,
            ID,
            Ended::Failed(std::io::ErrorKind::ConnectionReset),
            world.now,
        );
        assert!(world.echo().came.is_empty(), "{seed}");
    }
}

#[test]
fn trailers_and_interim_answers_do_no_harm() {
    let mut world = World::new(Echo::default(), OPTIONS);
    let request = Request::post("http://a/")
        .header("expect", "100-continue")
        .body(())
        .unwrap();
    let (asked, mut up) = world.ask(request, false);
    up.reserve_capacity(2);
    world.run();
    up.send_data(Bytes::from_static(b"ab"), false).unwrap();
    up.send_trailers(HeaderMap::new()).unwrap();
    let (_, content) = world.answer(asked).unwrap();
    let text = String::from_utf8(content).unwrap();
    assert!(text.ends_with("\r\n\r\n2\r\nab\r\n0\r\n\r\n"), "{text}");
    assert!(!text.contains("expect"));
}
