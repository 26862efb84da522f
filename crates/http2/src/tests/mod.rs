//! A handler of HTTP/1.1 behind, h2's own client before, and a port in memory between.

mod bounds;
mod contents;
mod ending;
mod requests;

use crate::pipe::Pipe;
use crate::{Multiplexed, Options};
use bytes::Bytes;
use h2::client::{self, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
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
    all_streams_max: 1000,
    client: |_, id| id.as_u64(),
    idle: Duration::from_secs(60),
    farewell: Duration::from_millis(500),
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
    /// More of requests for `/stuck` is not taken.
    is_stuck: bool,
    /// Times that something came.
    told: usize,
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
            Sent::Gone => {
                self.owed.remove(&id);
                self.came.remove(&id);
                self.failed += 1;
            }
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
        self.told += 1;
        if self.is_stuck && came.starts_with(b"POST /stuck") {
            port.pause(id);
        }
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
