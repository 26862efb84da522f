//! Frames of HTTP/2 from a client, sound ones and any others: what a handler of HTTP/1.1 has of a
//! stream is one request, framed as it says, and never the beginning of another; and it is told of
//! the end of all that it was not told whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_http2::{Multiplexed, Options};
use rhythm_net::testing::TestPort;
use rhythm_net::{Accepted, Client, ConnectionId, Ended, Handler, Port, Role, Sent, Time};
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{Framing, HeadLimits, RequestHead, parse_head};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const OPTIONS: Options = Options {
    is_on: true,
    role: Role(2),
    head_bytes_max: 4096,
    streams_max: 8,
    all_streams_max: 16,
    client: |_, id| id.as_u64(),
    idle: Duration::from_secs(60),
    farewell: Duration::from_millis(500),
    yield_after: Duration::from_secs(1),
    stall: Duration::from_secs(30),
};
/// All that HTTP/2 lets through.
const LIMITS: HeadLimits = HeadLimits {
    head_max: 64 * 1024,
    target_max: 16 * 1024,
    headers_max: 1024,
};
const ID: ConnectionId = ConnectionId::new(3, 1);

/// A request that is there.
#[derive(Debug, PartialEq)]
enum Request {
    /// So much of it has come.
    Comes(Vec<u8>),
    /// It is whole, and this of its answer was not taken.
    Owed(Vec<u8>),
}

/// Answers requests when they are whole; shared with who looks whether all of them end.
#[derive(Clone, Default)]
struct Behind(Rc<RefCell<BTreeMap<ConnectionId, Request>>>);

/// The content of a request that is whole. What is not HTTP/1.1 has none.
fn content(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut head = RequestHead::new();
    let length = match parse_head(&mut head, bytes, &LIMITS) {
        Ok(Progress::Complete { head_len }) => head_len,
        Ok(Progress::Partial) => panic!("a head comes whole: {}", bytes.escape_ascii()),
        Err(_) => return Some(Vec::new()),
    };
    let content = &bytes[length..];
    assert!(
        !head.keep_alive() && !head.is_http10(),
        "a stream brings one request"
    );
    let whole = match head.framing() {
        Framing::None => 0,
        Framing::Length(length) => length as usize,
        Framing::Chunked => {
            let (limits, mut out) = (ChunkLimits::default(), Vec::new());
            let decoded = ChunkedDecoder::new(&limits).decode(content, &mut out);
            let decoded = decoded.expect("it is put into chunks here");
            assert_eq!(decoded.consumed, content.len(), "nothing is behind it");
            return decoded.done.then_some(out);
        }
    };
    assert!(
        content.len() <= whole,
        "more than a request: {}",
        bytes.escape_ascii()
    );
    (content.len() == whole).then(|| content.to_vec())
}

impl Handler for Behind {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        let comes = Request::Comes(Vec::new());
        let before = self.0.borrow_mut().insert(accepted.connection, comes);
        assert_eq!(before, None, "it is there already");
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        let mut all = self.0.borrow_mut();
        let request = all.get_mut(&id).expect("it was opened");
        let Request::Comes(came) = request else {
            panic!("more than a request: {}", bytes.escape_ascii());
        };
        came.extend_from_slice(bytes);
        let Some(content) = content(came) else {
            return;
        };
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in content.chunks(1000) {
            answer.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            answer.extend_from_slice(piece);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        *request = Request::Owed(answer);
        drop(all);
        self.writable(port, id, now);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        let mut all = self.0.borrow_mut();
        let Some(Request::Owed(answer)) = all.get_mut(&id) else {
            panic!("it has nothing to send");
        };
        match port.send(id, answer) {
            Sent::Taken(taken) if taken < answer.len() => drop(answer.drain(..taken)),
            Sent::Taken(_) => {
                all.remove(&id);
                port.close(id);
            }
            // Its end is not told behind that.
            Sent::Gone => drop(all.remove(&id)),
        }
    }

    fn ended(&mut self, _: &mut dyn Port, id: ConnectionId, _: Ended, _: Time) {
        self.0.borrow_mut().remove(&id).expect("it is there");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Header fields in HPACK, as literals: those that each request has, and these, parted by NULs.
fn fields(method: &[u8], more: &[u8]) -> Vec<u8> {
    let mut all: Vec<&[u8]> = vec![b":method", method, b":scheme", b"http", b":path", b"/a?b"];
    all.extend([&b":authority"[..], b"h"]);
    all.extend(more.split(|byte| *byte == 0));
    let mut block = Vec::new();
    for (at, text) in all.into_iter().enumerate() {
        let text = &text[..text.len().min(126)];
        block.extend_from_slice(&[0, text.len() as u8][at % 2..]);
        block.extend_from_slice(text);
    }
    block
}

/// What was sent is frames, all of them whole.
fn check_frames(mut sent: &[u8]) {
    while let [a, b, c, _, _, _, _, _, _, rest @ ..] = sent {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        assert!(length <= 16_384, "a frame longer than any may be");
        sent = rest.get(length..).expect("a frame is sent whole");
    }
    assert!(sent.is_empty(), "a frame's head is sent whole");
}

/// A frame: kind, flags, a number that is its stream's or says how it is made, and its payload.
type Said<'a> = (u8, u8, u8, &'a [u8]);

fuzz_target!(|input: (u16, Vec<Said<'_>>)| {
    let (piece, frames) = input;
    let mut now = Time::from_nanos(1_000_000_000);
    let behind = Behind::default();
    let mut server = Multiplexed::new(behind.clone(), OPTIONS, Default::default(), now);
    let mut port = TestPort::with(ID, usize::MAX);
    let accepted = Accepted {
        connection: ID,
        role: Role(1),
        peer: Client::At(([127, 0, 0, 1], 9).into()),
    };
    server.opened(&mut port, accepted, now);
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend(frame(4, 0, 0, b""));
    let mut stream = 1;
    for (kind, flags, number, payload) in frames.into_iter().take(64) {
        match kind % 14 {
            10 => now += Duration::from_millis(u64::from(number) * 10),
            // The next request, and content of it.
            11 | 12 => {
                stream += 2;
                let method = [&b"GET"[..], b"POST", b"HEAD", b"PUT"][usize::from(number & 3)];
                said.extend(frame(1, 4 | flags & 1, stream, &fields(method, payload)));
            }
            13 => said.extend(frame(0, flags & 1, stream, payload)),
            kind => said.extend(frame(kind, flags, number.into(), payload)),
        }
        for piece in said.chunks(1 + usize::from(piece)) {
            server.received(&mut port, ID, piece, now);
        }
        said.clear();
        if server.wake_at().is_some_and(|at| at <= now) {
            server.tick(&mut port, now);
        }
        server.idle(&mut port, now);
    }
    let failed = Ended::Failed(std::io::ErrorKind::ConnectionReset);
    for connection in port.connections.values().chain(&port.closed) {
        check_frames(&connection.sent);
    }
    if port.connections.contains_key(&ID) {
        server.ended(&mut port, ID, failed, now);
        server.idle(&mut port, now);
    }
    assert!(behind.0.borrow().is_empty(), "all are told of their end");
});
