//! Contents both ways: windows, pieces, sockets that are full.

use super::*;
use crate::state::WIDE_MAX;

/// Sends as much of a content as there is room for: how much that was.
fn send(world: &mut World, up: &mut SendStream<Bytes>, content: usize) -> usize {
    let mut sent = 0;
    loop {
        up.reserve_capacity(content - sent);
        world.run();
        let room = up.capacity().min(content - sent);
        if room == 0 {
            return sent;
        }
        sent += room;
        let piece = Bytes::from(vec![b'x'; room]);
        up.send_data(piece, sent == content).expect("it stands");
    }
}

fn post(path: &str, content: usize) -> Request<()> {
    let request = Request::post(format!("http://a{path}")).header("content-length", content);
    request.body(()).unwrap()
}

#[test]
fn contents_that_nobody_takes_do_not_keep_others_from_coming() {
    let echo = Echo {
        is_stuck: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let mut stuck: Vec<_> = (0..4)
        .map(|_| {
            let (asked, mut up) = world.ask(post("/stuck", 400_000), false);
            let sent = send(&mut world, &mut up, 400_000);
            assert!(sent > 60_000 && sent < 200_000, "{sent}");
            (asked, up, sent)
        })
        .collect();
    let (asked, mut up) = world.ask(post("/", 500_000), false);
    assert_eq!(send(&mut world, &mut up, 500_000), 500_000);
    assert!(world.answer(asked).unwrap().1.len() > 500_000);
    // And go on once they are taken.
    world.server.behind_mut().is_stuck = false;
    let ids: Vec<_> = world.echo().came.keys().copied().collect();
    let now = world.now;
    world.server.handle(&mut world.port, now, |_, port| {
        ids.iter().for_each(|id| port.resume(*id));
    });
    for (asked, mut up, sent) in stuck.drain(..) {
        let rest = 400_000 - sent;
        assert_eq!(send(&mut world, &mut up, rest), rest);
        assert!(world.answer(asked).unwrap().1.len() > 400_000);
    }
}

#[test]
fn the_places_of_those_who_send_further_ahead_go_to_whoever_needs_them() {
    let echo = Echo {
        is_stuck: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    for slot in 0..WIDE_MAX as u32 {
        let id = ConnectionId::new(100 + slot, 1);
        world.port.accept(id);
        world.join(id);
    }
    let mut asked: Vec<_> = (0..=WIDE_MAX)
        .map(|peer| world.peers[peer].ask(post("/stuck", 400_000), false))
        .collect();
    world.run();
    let places = |world: &World| {
        let state = &world.server.state;
        (state.wide_carriers.len(), state.waiting.len())
    };
    assert_eq!(places(&world), (WIDE_MAX, 1));
    let last = world.peers[WIDE_MAX].id;
    assert!(!world.server.state.wide_carriers.contains(&last));
    // Who sends nothing any more goes on over another connection, since it was let send.
    drop(asked.remove(0));
    world.run();
    assert_eq!(places(&world), (WIDE_MAX, 0));
    assert!(world.server.state.wide_carriers.contains(&last));
    assert!(!world.port.connections.contains_key(&ID));
    // Where nobody waits, he keeps it.
    drop(asked.remove(0));
    world.run();
    assert_eq!(places(&world), (WIDE_MAX, 0));
    assert!(world.port.connections.contains_key(&world.peers[1].id));
    // What one that ends had is given back.
    let gone = world.peers[1].id;
    let how = Ended::Failed(std::io::ErrorKind::ConnectionReset);
    world.server.ended(&mut world.port, gone, how, world.now);
    assert_eq!(places(&world), (WIDE_MAX - 1, 0));
}

#[test]
fn whose_content_is_refused_needs_no_place() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let (asked, _up) = world.ask(post("/", 400_000), false);
    world.run();
    let id = *world.echo().came.keys().next().expect("it has come");
    world.server.handle(&mut world.port, world.now, |_, port| {
        port.pause(id);
        let answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 1\r\n\r\n.";
        assert_eq!(port.send(id, answer), Sent::Taken(answer.len()));
        port.close(id);
    });
    assert_eq!(world.answer(asked).unwrap().1, b".");
    assert!(world.server.state.wide_carriers.is_empty());
}

#[test]
fn short_pieces_of_a_content_come_together_and_others_are_not_looked_at() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let mut asked: Vec<_> = (0..50).map(|_| world.ask(post("/", 99), false)).collect();
    world.run();
    let before = world.echo().told;
    for _ in 0..90 {
        asked[7]
            .1
            .send_data(Bytes::from_static(b"x"), false)
            .unwrap();
    }
    let peer = &mut world.peers[0];
    let _ = Pin::new(&mut peer.connection).poll(&mut cx());
    let mut sent = Vec::new();
    peer.pipe.take_output(|bytes| sent.extend_from_slice(bytes));
    let (state, mut keys) = (&mut world.server.state, Vec::new());
    let carrier = state.carrier(ID).expect("it stands");
    assert!(carrier.asked.is_empty());
    carrier.take_in(&sent);
    carrier.drive(&mut world.port, ID, world.now);
    state.take_ready(ID, &mut keys);
    assert_eq!(keys.len(), 1);
    let stream = state.stream(keys[0]).expect("it is one");
    stream.mark.clear();
    stream.mark.set();
    state.mark(ID);
    world.run();
    assert_eq!(world.echo().told, before + 1);
}

#[test]
fn who_sends_when_all_is_told_is_told_that_it_is() {
    let echo = Echo {
        is_lazy: true,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    let content: Vec<u8> = (0..700_000).map(|n| b'a' + (n % 23) as u8).collect();
    let asked: Vec<_> = (0..2)
        .map(|_| {
            let request = Request::post("http://a/").header("content-length", content.len());
            let (asked, mut up) = world.ask(request.body(()).unwrap(), false);
            let mut rest = &content[..];
            while !rest.is_empty() {
                up.reserve_capacity(rest.len());
                world.run();
                let room = up.capacity().min(rest.len());
                let piece = Bytes::copy_from_slice(&rest[..room]);
                up.send_data(piece, room == rest.len()).unwrap();
                rest = &rest[room..];
            }
            asked
        })
        .collect();
    for asked in asked {
        let (_, came) = world.answer(asked).unwrap();
        assert!(came.ends_with(&content), "{} bytes came", came.len());
    }
}

#[test]
fn many_that_send_much_do_not_wait_for_one_another() {
    let mut world = World::new(Echo::default(), OPTIONS);
    let content = vec![b'x'; 100_000];
    let mut all: Vec<_> = (0..40)
        .map(|_| {
            let request = Request::post("http://a/").header("content-length", content.len());
            let (asked, mut up) = world.ask(request.body(()).unwrap(), false);
            up.reserve_capacity(content.len());
            (asked, up, &content[..])
        })
        .collect();
    for _ in 0..200 {
        world.run();
        for (_, up, rest) in &mut all {
            let room = up.capacity().min(rest.len()).min(10_000);
            if room > 0 {
                let piece = Bytes::copy_from_slice(&rest[..room]);
                up.send_data(piece, room == rest.len()).unwrap();
                *rest = &rest[room..];
            }
        }
    }
    for (asked, _, rest) in all {
        assert!(rest.is_empty(), "{} bytes have no room", rest.len());
        assert!(world.answer(asked).unwrap().1.ends_with(&content));
    }
}

#[test]
fn who_would_send_while_the_socket_is_full_sends_when_it_is_not() {
    let echo = Echo {
        in_pieces: true,
        more: 60_000,
        ..Echo::default()
    };
    let mut world = World::new(echo, OPTIONS);
    world.run();
    world.port.at(ID).room = 10_000;
    let asked: Vec<_> = (0..8).map(|_| world.ask(get("/"), true).0).collect();
    for _ in 0..20 {
        world.run();
        world.port.at(ID).room = 10_000;
        world.server.writable(&mut world.port, ID, world.now);
    }
    world.port.at(ID).room = usize::MAX;
    world.server.writable(&mut world.port, ID, world.now);
    for asked in asked {
        assert!(world.answer(asked).unwrap().1.len() > 60_000);
    }
}

#[test]
fn content_goes_up_and_comes_back_at_any_length() {
    for (length, is_known) in [(0, true), (1, false), (70_000, true), (300_000, false)] {
        let mut world = World::new(Echo::default(), OPTIONS);
        let mut request = Request::post("http://a.example/up");
        if is_known {
            request = request.header("content-length", length);
        }
        let (asked, mut up) = world.ask(request.body(()).unwrap(), false);
        let content: Vec<u8> = (0..length).map(|n| b'a' + (n % 23) as u8).collect();
        let mut rest = &content[..];
        loop {
            up.reserve_capacity(rest.len());
            world.run();
            let room = up.capacity().min(rest.len());
            let sent = up.send_data(Bytes::copy_from_slice(&rest[..room]), room == rest.len());
            // Who has said that nothing comes may have been answered.
            assert!(sent.is_ok() || rest.is_empty());
            rest = &rest[room..];
            if rest.is_empty() {
                break;
            }
        }
        let (_, came) = world.answer(asked).unwrap();
        let letters = |bytes: &[u8]| {
            bytes
                .iter()
                .filter(|byte| byte.is_ascii_lowercase())
                .count()
        };
        // The head's own letters, and those of chunks' sizes, are few.
        assert!(letters(&came).abs_diff(length) < 400, "{length} {is_known}");
    }
}

#[test]
fn who_takes_nothing_is_given_little() {
    let mut world = World::new(Echo::default(), OPTIONS);
    world.run();
    world.port.at(ID).room = 1000;
    let field = "x".repeat(15_000);
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let request = Request::get("http://a/")
                .header("field", &field)
                .body(())
                .unwrap();
            world.ask(request, true).0
        })
        .collect();
    world.run();
    let owed: usize = world.echo().owed.values().map(Vec::len).sum();
    // Of the 16 that are begun.
    assert!(
        owed > 16 * 15_000 - 140_000,
        "{owed} are with the handler still"
    );
    assert!(world.port.at(ID).blocked);
    // It is let go when it has taken nothing for long; or taken up again when it does.
    world.port.at(ID).room = usize::MAX;
    world.server.writable(&mut world.port, ID, world.now);
    for asked in asked {
        let (_, content) = world.answer(asked).unwrap();
        assert!(content.len() > 15_000);
    }
}
