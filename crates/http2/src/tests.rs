//! A handler of HTTP/1.1 behind, h2's own client before, and a port in memory between.

use crate::pipe::Pipe;
use crate::{Multiplexed, Options};
use bytes::Bytes;
use h2::client::{self, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use rhythm_net::testing::TestPort;
use rhythm_net::{Accepted, Client, ConnectionId, Ended, Handler, Port, Role, Sent, Time};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const OPTIONS: Options = Options {
    is_on: true,
    role: Role(8),
    head_bytes_max: 16 * 1024,
    streams_max: 100,
    all_streams_max: 100,
    idle: Duration::from_secs(60),
    yield_after: Duration::from_secs(1),
    stall: Duration::from_secs(30),
};

/// Answers each request with its own bytes once they are whole, in pieces as they are taken.
#[derive(Default)]
struct Echo {
    came: BTreeMap<ConnectionId, Vec<u8>>,
    owed: BTreeMap<ConnectionId, Vec<u8>>,
    failed: usize,
    /// Requests are kept, not answered.
    is_silent: bool,
    /// The framing of answers.
    in_chunks: bool,
    /// Behind the request's bytes, so many more are answered.
    more: usize,
    most_at_once: usize,
    /// Those that take bytes again are sent some when nothing else is told.
    is_lazy: bool,
    /// Nothing is sent with what is behind it; that comes when nothing else is told.
    in_pieces: bool,
    room: Vec<ConnectionId>,
    is_finished: bool,
    /// Times that it was asked for room.
    crowded: usize,
}

impl Echo {
    fn send(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let owed = self.owed.get_mut(&id).expect("something is owed");
        let piece = match self.in_pieces {
            true => owed.len().min(20_000),
            false => owed.len(),
        };
        match port.send(id, &owed[..piece]) {
            Sent::Taken(taken) if taken == piece && piece < owed.len() => {
                owed.drain(..taken);
                self.room.push(id);
            }
            Sent::Taken(taken) if taken == owed.len() => {
                self.owed.remove(&id);
                self.came.remove(&id);
                port.close(id);
            }
            Sent::Taken(taken) => drop(owed.drain(..taken)),
            Sent::Gone => self.failed += 1,
        }
    }

    fn is_whole(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let Some((head, content)) = text.split_once("\r\n\r\n") else {
            return false;
        };
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
        match head.contains("chunked") {
            true => content.ends_with("0\r\n\r\n"),
            false => content.len() == length.unwrap_or(0),
        }
    }
}

impl Handler for Echo {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        // A stream, or a connection that turns out to carry some or none.
        assert!([Role(7), Role(7 | 8)].contains(&accepted.role));
        self.came.insert(accepted.connection, Vec::new());
        self.most_at_once = self.most_at_once.max(self.came.len());
    }

    fn crowded(&mut self, _: &mut dyn Port, _: Time) {
        self.crowded += 1;
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        let came = self.came.get_mut(&id).expect("it was opened");
        came.extend_from_slice(bytes);
        if self.is_silent || !Echo::is_whole(came) {
            return;
        }
        let mut content = came.clone();
        content.resize(content.len() + self.more, b'x');
        let answer = match self.in_chunks {
            true => {
                let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut answer = head.to_vec();
                for chunk in content.chunks(1000) {
                    answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    answer.extend_from_slice(chunk);
                    answer.extend_from_slice(b"\r\n");
                }
                answer.extend_from_slice(b"0\r\n\r\n");
                answer
            }
            false => {
                let length = content.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                [head.as_bytes(), &content].concat()
            }
        };
        self.owed.insert(id, answer);
        self.send(port, id);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        match self.is_lazy {
            true => self.room.push(id),
            false => self.send(port, id),
        }
    }

    fn idle(&mut self, port: &mut dyn Port, _: Time) {
        for id in std::mem::take(&mut self.room) {
            self.send(port, id);
        }
    }

    fn ended(&mut self, _: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        assert!(matches!(how, Ended::Failed(_)));
        self.came.remove(&id).expect("it was opened");
        self.owed.remove(&id);
        self.failed += 1;
    }

    fn wake_at(&self) -> Option<Time> {
        (!self.room.is_empty()).then_some(Time::ZERO)
    }

    fn finished(&self) -> bool {
        self.is_finished
    }
}

const ID: ConnectionId = ConnectionId::new(3, 1);
const OTHER: ConnectionId = ConnectionId::new(4, 1);

/// A client's end of a connection.
struct Peer {
    id: ConnectionId,
    pipe: Pipe,
    connection: Connection<Pipe, Bytes>,
    ask: SendRequest<Bytes>,
}

impl Peer {
    fn new(id: ConnectionId) -> Peer {
        let pipe = Pipe::default();
        let mut builder = client::Builder::new();
        builder
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 24);
        let mut handshake = pin!(builder.handshake(pipe.clone()));
        let Poll::Ready(Ok((ask, connection))) = handshake.as_mut().poll(&mut cx()) else {
            panic!("a client greets at once");
        };
        Peer {
            id,
            pipe,
            connection,
            ask,
        }
    }

    fn ask(&mut self, request: Request<()>, end: bool) -> (ResponseFuture, SendStream<Bytes>) {
        self.ask.send_request(request, end).expect("it may ask")
    }
}

/// Clients, and the server that they ask.
struct World {
    server: Multiplexed<Echo>,
    port: TestPort,
    /// The first has the connection [`ID`].
    peers: Vec<Peer>,
    now: Time,
    /// So many bytes go to the server at a time.
    piece: usize,
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl World {
    fn new(echo: Echo, options: Options) -> World {
        let now = Time::from_nanos(1_000_000_000);
        let mut world = World {
            server: Multiplexed::new(echo, options, Arc::default(), now),
            port: TestPort::with(ID, usize::MAX),
            peers: Vec::new(),
            now,
            piece: usize::MAX,
        };
        world.join(ID);
        world
    }

    /// Has another client come, over a connection that the port has.
    fn join(&mut self, id: ConnectionId) {
        let accepted = Accepted {
            connection: id,
            role: Role(7),
            peer: Client::At(SocketAddr::from(([127, 0, 0, 1], 9))),
        };
        self.server.opened(&mut self.port, accepted, self.now);
        self.peers.push(Peer::new(id));
    }

    /// Has all sides do what they can.
    fn run(&mut self) {
        for _ in 0..200 {
            let mut has_sent = false;
            for peer in &mut self.peers {
                let _ = Pin::new(&mut peer.connection).poll(&mut cx());
                let mut sent = Vec::new();
                peer.pipe.take_output(|bytes| sent.extend_from_slice(bytes));
                for piece in sent.chunks(self.piece.min(64 * 1024)) {
                    self.server
                        .received(&mut self.port, peer.id, piece, self.now);
                }
                has_sent |= !sent.is_empty();
            }
            // A driver has no turn without a reason.
            let is_due = self.server.wake_at().is_some_and(|at| at <= self.now);
            if is_due {
                self.server.tick(&mut self.port, self.now);
            }
            if is_due || has_sent {
                self.server.idle(&mut self.port, self.now);
            }
            for peer in &mut self.peers {
                if let Some(connection) = self.port.connections.get_mut(&peer.id) {
                    let came = std::mem::take(&mut connection.sent);
                    peer.pipe.push(&came);
                } else {
                    for closed in self.port.closed.drain(..) {
                        peer.pipe.push(&closed.sent);
                    }
                    peer.pipe.end();
                }
            }
        }
    }

    /// The first client asks.
    fn ask(&mut self, request: Request<()>, end: bool) -> (ResponseFuture, SendStream<Bytes>) {
        self.peers[0].ask(request, end)
    }

    /// An answer that has come, and its content.
    fn answer(&mut self, mut asked: ResponseFuture) -> Result<(Response<()>, Vec<u8>), h2::Error> {
        self.run();
        let Poll::Ready(answer) = Pin::new(&mut asked).poll(&mut cx()) else {
            panic!("no answer has come");
        };
        let (head, mut content) = answer?.into_parts();
        let mut all = Vec::new();
        loop {
            self.run();
            match content.poll_data(&mut cx()) {
                Poll::Ready(Some(bytes)) => {
                    let bytes = bytes?;
                    release(&mut content, bytes.len());
                    all.extend_from_slice(&bytes);
                }
                Poll::Ready(None) => return Ok((Response::from_parts(head, ()), all)),
                Poll::Pending => panic!("no more comes after {} bytes", all.len()),
            }
        }
    }

    fn echo(&self) -> &Echo {
        self.server.behind()
    }
}

fn release(content: &mut RecvStream, bytes: usize) {
    content
        .flow_control()
        .release_capacity(bytes)
        .expect("it was taken");
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("http://a.example{path}"))
        .body(())
        .unwrap()
}

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
        all_streams_max: 3,
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

#[test]
fn as_many_requests_as_there_is_room_for_are_taken_of_several() {
    let echo = Echo {
        is_silent: true,
        ..Echo::default()
    };
    let options = Options {
        all_streams_max: 6,
        ..OPTIONS
    };
    let mut world = World::new(echo, options);
    world.port.accept(OTHER);
    world.join(OTHER);
    world.run();
    let mut asked = Vec::new();
    for peer in 0..2 {
        asked.extend((0..3).map(|_| world.peers[peer].ask(get("/"), true).0));
        world.run();
    }
    assert_eq!(world.echo().came.len(), 6);
    let one_more = world.peers[1].ask(get("/"), true).0;
    let refused = world.answer(one_more).unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::REFUSED_STREAM));
    drop(asked);
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
