//! A host over real sockets: answers later, in pieces, from another thread, to clients that read
//! slowly or go away; content in pieces.

use rhythm_http::{
    AnswerShape, AnswerSlot, Answers, ClientLimits, Content, Flow, Host, HostServer, Request,
    RequestLimits,
};
use rhythm_net::workers::{self, Entrance, WorkerOptions, WorkerThread, Workers};
use rhythm_net::{ListenOptions, Listener, Role, Time, Token, Waker, clock};
use rhythm_protocol::http::request::RequestHead;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of unsent answers that a connection may have.
const UNSENT_MAX: usize = 32 * 1024;
/// What a stream appends at a time.
const PIECE: usize = 4 * 1024;

/// What the tests look at.
#[derive(Default)]
struct Seen {
    /// Bytes appended to streams.
    appended: AtomicU64,
    /// Times that a stream had to wait.
    waits: AtomicU64,
    /// Clients that went away with an answer owed to them.
    gone: AtomicU64,
    /// Bytes of content.
    content: AtomicU64,
    /// Answers longer than they said.
    long: AtomicU64,
}

/// A stream under way: how much of it is to come.
struct Stream {
    left: usize,
}

/// Answers by path:
/// - `/now`: at once; `/later`: when told by another thread
/// - `/stream/N`: N bytes in chunks; `/counted/N`: with their length told
/// - `/short`, `/long`: fewer and more bytes than it said; `/drop`: not at all
/// - `/twice`: whole, and again in every way there is; `/broken`: an error in the middle of a body
/// - `/upload`: content in pieces, answered with its length; `/slow`: the same, waiting after each
///   piece; `/early`: answered before its content came
struct Toy {
    seen: Arc<Seen>,
    streams: HashMap<AnswerSlot, Stream>,
    uploads: HashMap<AnswerSlot, (AnswerShape, bool, u64)>,
    paused: Vec<AnswerSlot>,
    later: Vec<(AnswerSlot, AnswerShape)>,
    wakes: Receiver<()>,
    /// When paused content is taken again.
    resume_at: Option<Time>,
}

impl Toy {
    fn go_on(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let Some(stream) = self.streams.get_mut(&slot) else {
            return;
        };
        let piece = [b'x'; PIECE];
        while stream.left > 0 {
            let length = stream.left.min(PIECE);
            stream.left -= length;
            let flow = answers.append(slot, &piece[..length]);
            (self.seen.appended).fetch_add(length as u64, Ordering::Relaxed);
            match flow {
                Flow::More => {}
                Flow::Wait => {
                    self.seen.waits.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Flow::Gone => {
                    self.streams.remove(&slot);
                    return;
                }
            }
        }
        self.streams.remove(&slot);
        answers.finish(slot);
    }
}

impl Host for Toy {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { slot, shape, .. } = request;
        let path = String::from_utf8_lossy(request.head.path(request.bytes)).into_owned();
        let number = |at: &str| path.strip_prefix(at).and_then(|text| text.parse().ok());
        if let Some(left) = number("/stream/") {
            answers.begin(slot, shape, 200, None, |_| {});
            self.streams.insert(slot, Stream { left });
            self.go_on(answers, slot);
        } else if let Some(left) = number("/counted/") {
            answers.begin(slot, shape, 200, Some(left as u64), |_| {});
            self.streams.insert(slot, Stream { left });
            self.go_on(answers, slot);
        } else {
            match (path.as_str(), request.content) {
                ("/now", Content::Whole(content)) => {
                    answers.answer(slot, shape, 200, content, |_| {})
                }
                ("/later", _) => self.later.push((slot, shape)),
                ("/short", _) => {
                    answers.begin(slot, shape, 200, Some(10), |_| {});
                    let _ = answers.append(slot, b"short");
                    answers.finish(slot);
                }
                ("/long", _) => {
                    answers.begin(slot, shape, 200, Some(10), |_| {});
                    self.seen.long.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(answers.append(slot, b"as long as"), Flow::More);
                    assert_eq!(answers.append(slot, b" said, and more"), Flow::Gone);
                    assert_eq!(answers.append(slot, b"and more"), Flow::Gone);
                    answers.finish(slot);
                }
                ("/drop", _) => answers.abandon(slot),
                ("/twice", _) => {
                    answers.answer(slot, shape, 200, &b"once"[..], |_| {});
                    answers.answer(slot, shape, 200, &b"again"[..], |_| {});
                    answers.error(slot, shape, 500, "");
                    answers.begin(slot, shape, 200, None, |_| {});
                    assert_eq!(answers.append(slot, b"more"), Flow::Gone);
                    answers.finish(slot);
                    answers.abandon(slot);
                }
                ("/broken", _) => {
                    answers.begin(slot, shape, 200, None, |_| {});
                    let _ = answers.append(slot, &[b'x'; 2 * UNSENT_MAX]);
                    answers.error(slot, shape, 502, "It broke.");
                    answers.answer(slot, shape, 200, &b"whole after all"[..], |_| {});
                }
                ("/early", _) => answers.error(slot, shape, 403, "Not <you>."),
                ("/upload" | "/slow", Content::Pieces) => {
                    self.uploads.insert(slot, (shape, path == "/slow", 0));
                }
                _ => answers.error(slot, shape, 404, ""),
            }
        }
    }

    fn takes_pieces(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        head.path(bytes) != b"/now"
    }

    fn content(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        piece: &[u8],
        is_last: bool,
    ) -> Flow {
        let length = piece.len() as u64;
        self.seen.content.fetch_add(length, Ordering::Relaxed);
        let Some((shape, waits, total)) = self.uploads.get_mut(&slot) else {
            panic!("content of an upload that is over");
        };
        *total += length;
        if is_last {
            let text = total.to_string();
            answers.answer(slot, *shape, 200, text.as_bytes(), |_| {});
            self.uploads.remove(&slot);
        } else if *waits {
            self.paused.push(slot);
            self.resume_at = Some(answers.now() + Duration::from_millis(1));
            return Flow::Wait;
        }
        Flow::More
    }

    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        self.go_on(answers, slot);
    }

    fn gone(&mut self, slot: AnswerSlot) {
        self.streams.remove(&slot);
        self.uploads.remove(&slot);
        self.later.retain(|(other, _)| *other != slot);
        self.seen.gone.fetch_add(1, Ordering::Relaxed);
    }

    fn notified(&mut self, answers: &mut Answers<'_>, _: Token) {
        while self.wakes.try_recv().is_ok() {
            // The last that came is answered first: each goes out in its turn all the same.
            while let Some((slot, shape)) = self.later.pop() {
                let text = format!("later {}", slot.ordinal);
                answers.answer(slot, shape, 200, text.as_bytes(), |_| {});
            }
        }
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        self.resume_at = None;
        for slot in self.paused.drain(..) {
            answers.resume(slot);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.resume_at
    }
}

/// A server that ends with its test.
struct Running {
    address: SocketAddr,
    seen: Arc<Seen>,
    waker: Waker,
    wake: Sender<()>,
    workers: Option<Workers<Infallible>>,
}

impl Running {
    fn start() -> Running {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(any, &ListenOptions::default()).unwrap();
        let address = listener.local_address();
        let seen = Arc::new(Seen::default());
        let (wake, wakes) = channel();
        let (give_waker, waker) = channel();
        let parts = Mutex::new(Some((wakes, give_waker)));
        let its_seen = seen.clone();
        let make = move |thread: WorkerThread<'_, Infallible>| {
            let (wakes, waker) = parts.lock().unwrap().take().ok_or("it panicked")?;
            waker.send(thread.driver.waker(Token(0)).unwrap()).unwrap();
            let toy = Toy {
                seen: its_seen.clone(),
                streams: HashMap::new(),
                uploads: HashMap::new(),
                paused: Vec::new(),
                later: Vec::new(),
                wakes,
                resume_at: None,
            };
            let clients = ClientLimits {
                unsent_max: UNSENT_MAX,
                ..ClientLimits::within(Duration::from_secs(20))
            };
            let limits = RequestLimits {
                body_max: 1000,
                ..RequestLimits::default()
            };
            Ok::<_, &str>(HostServer::new(toy, clients, limits, clock::monotonic()))
        };
        let entrances = vec![Entrance::listeners(Role::default(), vec![listener])];
        let workers = workers::start(&WorkerOptions::default(), entrances, make).unwrap();
        Running {
            address,
            seen,
            waker: waker.recv().unwrap(),
            wake,
            workers: Some(workers),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream.set_write_timeout(limit).unwrap();
        stream
    }

    /// What comes back for `bytes` until the server closes.
    fn talk(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A dropped connection is an answer, too.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// What comes until the server closes or drops the connection, letting it answer what waits
    /// for another thread meanwhile.
    fn read_all(&self, client: &mut TcpStream) -> String {
        let moment = Some(Duration::from_millis(20));
        client.set_read_timeout(moment).unwrap();
        let mut answers = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            self.answer_later();
            let mut bytes = [0; 4096];
            match client.read(&mut bytes) {
                Ok(count) if count > 0 => answers.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => return String::from_utf8(answers).unwrap(),
            }
        }
        panic!("the connection did not end");
    }

    /// Lets the server answer what waits for another thread.
    fn answer_later(&self) {
        self.wake.send(()).unwrap();
        self.waker.wake();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.take() {
            workers.stop();
            let ended = workers.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// Waits until something holds, for a bounded time.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let held = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        holds()
    });
    assert!(held, "{what}");
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
}

const LAST: &str = "Connection: close\r\n";

/// The body of an answer in chunks, taken out of them, and what follows it.
fn unchunked(mut bytes: &str) -> (String, &str) {
    let mut body = String::new();
    loop {
        let (size, rest) = bytes.split_once("\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(size, 16).expect("a number");
        body.push_str(&rest[..size]);
        bytes = rest[size..].strip_prefix("\r\n").expect("a chunk's end");
        if size == 0 {
            return (body, bytes);
        }
    }
}

#[test]
fn answers_given_later_and_in_any_order_go_out_in_turn() {
    let server = Running::start();
    let mut client = server.connect();
    let requests = [
        get("/later", ""),
        get("/stream/9000", ""),
        get("/later", ""),
        get("/now", LAST),
    ];
    client.write_all(requests.concat().as_bytes()).unwrap();
    // The stream is ready before its turn.
    eventually("the stream is made", || {
        server.seen.appended.load(Ordering::Relaxed) == 9000
    });
    server.answer_later();
    let mut answers = String::new();
    client.read_to_string(&mut answers).unwrap();
    let (head, rest) = answers.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nDate: "));
    let rest = rest.strip_prefix("later 0").unwrap();
    // It is whole before anything of it is sent.
    let (head, rest) = rest.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("\r\nContent-Length:       9000\r\n"),
        "{head}"
    );
    let rest = rest.strip_prefix(&"x".repeat(9000)).unwrap();
    let (_, rest) = rest.split_once("\r\n\r\n").unwrap();
    let rest = rest.strip_prefix("later 2").unwrap();
    assert!(rest.contains("Content-Length: 0\r\nConnection: close\r\n"));
    assert!(rest.ends_with("\r\n\r\n"));
}

#[test]
fn an_answer_is_given_once_whatever_a_host_does() {
    let server = Running::start();
    // In its turn, and early.
    for before in ["/now", "/later"] {
        let mut client = server.connect();
        let requests = [
            get(before, ""),
            get("/twice", ""),
            get("/twice", ""),
            get("/now", LAST),
        ];
        client.write_all(requests.concat().as_bytes()).unwrap();
        let answers = server.read_all(&mut client);
        assert_eq!(
            answers.matches("HTTP/1.1 200 OK\r\n").count(),
            4,
            "{answers}"
        );
        assert_eq!(answers.matches("\r\n\r\nonce").count(), 2, "{answers}");
        assert!(!answers.contains("again") && !answers.contains(" 500 "));
    }
}

#[test]
fn an_error_in_the_middle_of_a_body_ends_the_connection_there() {
    let server = Running::start();
    for before in ["/now", "/later"] {
        let mut client = server.connect();
        let requests = [get(before, ""), get("/broken", ""), get("/now", "")];
        client.write_all(requests.concat().as_bytes()).unwrap();
        let answers = server.read_all(&mut client);
        assert!(answers.matches("HTTP/1.1").count() <= 2, "{answers}");
        assert!(
            !answers.contains("502") && !answers.contains("whole"),
            "{answers}"
        );
        assert!(!answers.ends_with("0\r\n\r\n"), "it looks finished");
    }
}

#[test]
fn a_body_of_unknown_length_is_told_by_it_or_comes_in_chunks() {
    let server = Running::start();
    // At once: 100 bytes lie in the outbox when they are all there, 200 KB do not.
    // Early: 200 KB have to wait for room, and are not whole when their turn comes.
    for (before, length) in [
        ("/now", 100),
        ("/now", 200_000),
        ("/later", 100),
        ("/later", 200_000),
    ] {
        let mut client = server.connect();
        let asked = server.seen.appended.load(Ordering::Relaxed);
        let requests = [
            get(before, ""),
            get(&format!("/stream/{length}"), ""),
            get(&format!("/stream/{length}"), ""),
            get("/now", LAST),
        ];
        client.write_all(requests.concat().as_bytes()).unwrap();
        eventually("the streams are made, or wait", || {
            let made = server.seen.appended.load(Ordering::Relaxed) - asked;
            // The second is not begun while the first is as much as a connection may have unsent.
            made >= (2 * length).min(UNSENT_MAX as u64)
        });
        server.answer_later();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        let (_, mut rest) = answers.split_once("\r\n\r\n").unwrap();
        rest = rest.strip_prefix("later 0").unwrap_or(rest);
        for _ in 0..2 {
            let (head, after) = rest.split_once("\r\n\r\n").unwrap();
            let body;
            if length == 100 {
                assert!(
                    head.contains("\r\nContent-Length:        100\r\n"),
                    "{head}"
                );
                assert!(!head.contains("Transfer-Encoding"), "{head}");
                (body, rest) = (after[..100].to_owned(), &after[100..]);
            } else {
                assert!(
                    head.contains("\r\nTransfer-Encoding: chunked\r\n"),
                    "{head}"
                );
                assert!(!head.contains("Content-Length"), "{head}");
                (body, rest) = unchunked(after);
            }
            assert!(body == "x".repeat(length as usize), "{before} {length}");
        }
        assert!(
            rest.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
            "{rest}"
        );
    }
}

#[test]
fn a_stream_waits_for_a_client_that_reads_slowly() {
    const LENGTH: usize = 32 << 20;
    let server = Running::start();
    let mut client = server.connect();
    let path = format!("/counted/{LENGTH}");
    client.write_all(get(&path, LAST).as_bytes()).unwrap();
    eventually("it has to wait", || {
        server.seen.waits.load(Ordering::Relaxed) > 0
    });
    // Between two looks nothing is read, so nothing more is made.
    let made = || server.seen.appended.load(Ordering::Relaxed) as usize;
    let mut before = made();
    eventually("it stands still", || {
        std::thread::sleep(Duration::from_millis(50));
        let now = made();
        let stands = now == before;
        stands || now > LENGTH
    });
    before = made();
    assert!(before < LENGTH / 2, "{before} bytes wait for nobody");
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match client.read(&mut buffer).unwrap() {
            0 => break,
            length => read += length,
        }
        assert!(made() <= read + before + UNSENT_MAX + (8 << 20));
    }
    assert!(read > LENGTH && read < LENGTH + 200, "{read}");
    assert_eq!(made(), LENGTH);
}

#[test]
fn a_host_is_told_that_a_client_has_gone() {
    let server = Running::start();
    let gone = || server.seen.gone.load(Ordering::Relaxed);
    let mut stream = server.connect();
    let request = get("/counted/99999999", "");
    stream.write_all(request.as_bytes()).unwrap();
    eventually("it has to wait", || {
        server.seen.waits.load(Ordering::Relaxed) > 0
    });
    drop(stream);
    eventually("the stream's client is gone", || gone() == 1);
    let mut upload = server.connect();
    let head = "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc";
    upload.write_all(head.as_bytes()).unwrap();
    eventually("content came", || {
        server.seen.content.load(Ordering::Relaxed) == 3
    });
    upload.shutdown(Shutdown::Write).unwrap();
    eventually("the upload's client is gone", || gone() == 2);
    // What is answered to nobody harms nobody.
    server.answer_later();
    assert!(server.talk(&get("/now", LAST)).starts_with("HTTP/1.1 200"));
}

#[test]
fn bodies_are_framed_as_the_client_can_read_them() {
    let server = Running::start();
    let old = server.talk("GET /stream/5000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let (head, body) = old.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
    assert!(!head.contains("Transfer-Encoding") && !head.contains("Content-Length"));
    assert_eq!(body.len(), 5000);
    let head_only = server.talk(&format!(
        "HEAD /counted/70 HTTP/1.1\r\nHost: x\r\n\r\n\
         HEAD /stream/70 HTTP/1.1\r\nHost: x\r\n{LAST}\r\n"
    ));
    assert!(head_only.contains("Content-Length: 70\r\n"), "{head_only}");
    assert!(head_only.contains("Transfer-Encoding: chunked\r\n"));
    assert!(!head_only.contains('x'), "{head_only}");
    // Nothing tells a client that a body ends too soon but the connection's end.
    let short = server.talk(&format!("{}{}", get("/short", ""), get("/now", "")));
    assert!(short.contains("Content-Length: 10\r\n") && short.ends_with("\r\n\r\nshort"));
    // One that is too long cannot be taken back, but no byte beyond what was said is sent.
    let long = server.talk(&format!("{}{}", get("/long", ""), get("/now", "")));
    assert!(long.contains("Content-Length: 10\r\n") && long.ends_with("\r\n\r\nas long as"));
    // Before its turn as in it: the answer before it still comes.
    let mut behind = server.connect();
    let both = [get("/later", ""), get("/long", ""), get("/now", "")].concat();
    behind.write_all(both.as_bytes()).unwrap();
    eventually("both are asked", || {
        server.seen.long.load(Ordering::Relaxed) == 2
    });
    server.answer_later();
    let mut answers = Vec::new();
    let _ = behind.read_to_end(&mut answers);
    assert!(answers.ends_with(b"later 0"), "{answers:?}");
    let dropped = server.talk(&format!("{}{}", get("/now", ""), get("/drop", "")));
    assert_eq!(dropped.matches("HTTP/1.1").count(), 1, "{dropped}");
}

#[test]
fn content_comes_in_pieces_and_waits_for_its_host() {
    let server = Running::start();
    for path in ["/upload", "/slow"] {
        let length = 300_000;
        let content = "y".repeat(length);
        let counted =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{content}");
        let chunked = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            format!("3e8\r\n{}\r\n", &content[..1000]).repeat(300)
        );
        let answers = server.talk(&format!("{counted}{chunked}{}", get("/now", LAST)));
        assert_eq!(answers.matches("\r\n\r\n300000").count(), 2, "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 3);
    }
    let asked = server.talk(&format!(
        "POST /now HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n{LAST}\r\nab"
    ));
    // Its content is there already.
    assert!(
        asked.starts_with("HTTP/1.1 200") && asked.ends_with("ab"),
        "{asked}"
    );
    // Content that is collected is bounded, that in pieces is not.
    let large = server.talk("POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
    let malformed =
        server.talk("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(malformed, "");
}

#[test]
fn an_answer_before_its_content_ends_the_connection() {
    let server = Running::start();
    let head = "POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nGET /now HTTP/1.1\r\n";
    let answer = server.talk(head);
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1);
    assert!(answer.contains("<p>Not &lt;you&gt;.</p>"));
}
