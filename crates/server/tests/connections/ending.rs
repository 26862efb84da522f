//! Drains, reloads and panics while connections are busy.

use crate::common::*;
use crate::{NEVER, busy_count};
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, Refusal, Work};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn draining_finishes_what_is_under_way() {
    let server = start(|_| {});
    let mut busy = client(&server);
    let mut idle = client(&server);
    assert_eq!(idle.get("/hello").status, 200);
    busy.send("GET /ask?q=held-busy HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(busy_count(&server), 2);
    server.shutdown();
    assert!(idle.closed(), "the drain is under way");
    answer_held("held-busy");
    let last = busy.response(false);
    assert_eq!(
        (last.text(), last.header("connection")),
        ("[held-busy]", Some("close"))
    );
    assert!(busy.closed());
    let address = server.local_addr();
    end(server).expect("its workers were well");
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_panic_costs_a_worker_its_connections_and_nothing_else() {
    /// Panics over pages that take a number.
    struct Fragile(ScalarExecutor);

    impl Executor for Fragile {
        fn name(&self) -> &'static str {
            "fragile"
        }

        fn submit(&mut self, work: Work) -> Result<(), Refusal> {
            assert_ne!(work.program().name, "number", "a planted mistake");
            self.0.submit(work)
        }

        fn poll(&mut self, done: &mut Vec<Work>) {
            self.0.poll(done);
        }

        fn in_flight(&self) -> usize {
            self.0.in_flight()
        }
    }

    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    parts.devices = Arc::new(|_, _| Ok(Box::new(Fragile(ScalarExecutor::default()))));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let mut bystander = client(&server);
    assert_eq!(bystander.get("/hello").status, 200);
    let mut culprit = client(&server);
    culprit.send("GET /number/3 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(culprit.dropped() && bystander.dropped());
    assert_eq!(client(&server).get("/hello").status, 200);
    assert_eq!(server.metrics().worker(0).restarts.get(), 1);
    stop(server);
}

#[test]
fn draining_ends_even_if_clients_do_not() {
    let server = start(|options| options.drain.timeout = Duration::from_millis(150));
    let mut stuck = client(&server);
    stuck.send("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    let metrics = server.metrics().worker(0);
    eventually("the client is known", || metrics.accepted.get() == 1);
    stop(server);
    assert!(stuck.dropped());
}

#[test]
fn draining_waits_for_what_is_half_sent_but_not_for_as_long_as_it_may() {
    let server = start(|options| {
        options.pipeline.clients.header_timeout = NEVER;
        options.pipeline.clients.body_timeout = NEVER;
        options.drain.timeout = NEVER;
    });
    let halves = [
        "GET /hello HTTP/1.1\r\nHo",
        "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nna",
    ];
    let mut clients = halves.map(|half| {
        let mut client = client(&server);
        client.send(half);
        client
    });
    let metrics = server.metrics().worker(0);
    eventually("they are let in", || metrics.accepted.get() == 2);
    server.shutdown();
    for client in &mut clients {
        assert_eq!(client.response(false).status, 408);
        assert!(client.closed());
    }
    end(server).expect("its workers were well");
}

#[test]
fn a_reload_under_load_loses_no_request() {
    let versions: Vec<_> = ["one", "two"]
        .map(|word| {
            let page = format!(
                "+++\nroute = \"GET /word\"\n[[step]]\ncall = \"echo\"\n\
                request = \"1&3&late\"\nrows = \"a(text)\"\n+++\n{word}"
            );
            let extra = format!("+++\nroute = \"GET /{word}\"\n+++\nonly {word}");
            site_of(service_of(
                &[("word.html", &page), (&format!("{word}.html"), &extra)],
                SERVICE,
            ))
        })
        .into();
    let mut turn = 0;
    let loaded = versions.clone();
    let loader = Box::new(move || {
        turn += 1;
        if turn % 3 == 0 {
            Err("a mistake in a page".to_owned())
        } else {
            Ok(loaded[turn % 2].clone())
        }
    });
    let options = options_of(versions[0].service());
    let server = rhythm_server::Server::start(options, parts(versions[0].clone(), loader))
        .expect("it starts");
    let address = server.local_addr();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(address);
                let mut seen = [0, 0];
                for _ in 0..15 {
                    let response = client.get("/word");
                    assert_eq!(response.status, 200);
                    seen[["one", "two"]
                        .iter()
                        .position(|word| *word == response.text())
                        .expect("a version")] += 1;
                    // Pages that come and go are there or not, but always answered.
                    assert!(matches!(client.get("/two").status, 200 | 404));
                }
                seen
            })
        })
        .collect();
    let control = server.control();
    let mut outcomes = Vec::new();
    for _ in 0..9 {
        outcomes.push(control.reload().is_ok());
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut total = [0, 0];
    for client in clients {
        let seen = client.join().expect("every answer was right");
        total = [total[0] + seen[0], total[1] + seen[1]];
    }
    assert!(total[0] > 0 && total[1] > 0, "{total:?}");
    assert_eq!(outcomes.iter().filter(|ok| !**ok).count(), 3);
    stop(server);
}

#[test]
fn a_worker_that_cannot_go_on_is_told_of() {
    /// Panics over all there is.
    struct Broken;

    impl Executor for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn submit(&mut self, _: Work) -> Result<(), Refusal> {
            panic!("a planted mistake");
        }

        fn poll(&mut self, _: &mut Vec<Work>) {}

        fn in_flight(&self) -> usize {
            0
        }
    }

    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    options.admin = Some(any_port());
    options.workers = 2;
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    // Each worker has a device once.
    let left = std::sync::atomic::AtomicUsize::new(2);
    parts.devices = Arc::new(move |_, _| {
        use std::sync::atomic::Ordering::Relaxed;
        let one = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        one.map_err(|_| "no device is left".to_owned())?;
        Ok(Box::new(Broken))
    });
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let admin = server.admin_addr().expect("an admin listener");
    let health = || Client::new(admin).get("/healthz");
    assert_eq!(health().status, 200);
    let mut culprit = client(&server);
    culprit.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(culprit.dropped());
    eventually("it is told", || health().text() == "a worker has ended\n");
    assert_eq!(
        Client::new(admin).get("/readyz").text(),
        "a worker has ended\n"
    );
    server.shutdown();
    assert!(end(server).is_err());
}

/// A client's end of HTTP/2, as bytes: one that does as none of the usual ones, which ask nothing
/// more once they are told.
struct Frames(TcpStream);

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

impl Frames {
    fn new(server: &rhythm_server::Handle) -> Frames {
        let stream = TcpStream::connect(server.local_addr()).expect("it listens");
        stream.set_read_timeout(Some(NEVER)).expect("a duration");
        let mut frames = Frames(stream);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        frames.0.write_all(preface).expect("it is taken");
        frames.send(SETTINGS, 0, 0, b"");
        frames
    }

    /// Sends a frame (RFC 9113, section 4.1).
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.0.write_all(&frame).expect("it is taken");
    }

    /// Asks for `/hello`, in HPACK without its table (RFC 7541, section 6.2.2).
    fn ask(&mut self, stream: u32) {
        let block = b"\x82\x86\x04\x06/hello\x01\x06a.test";
        self.send(HEADERS, 0x5, stream, block);
    }

    /// The next frame that is such, by its kind, flags and stream: its payload. `None` where the
    /// server sends no more.
    fn until(&mut self, is: impl Fn(u8, u8, u32) -> bool) -> Option<Vec<u8>> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).ok()?;
            let [_, _, _, kind, flags, stream @ ..] = head;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload).expect("a whole frame");
            if is(kind, flags, u32::from_be_bytes(stream)) {
                return Some(payload);
            }
        }
    }

    /// Whether the last frame of an answer comes.
    fn is_answered(&mut self, of: u32) -> bool {
        let is_last = |_, flags, stream| stream == of && flags & 1 != 0;
        self.until(is_last).is_some()
    }

    /// The last stream that the server says it has seen, as it goes away.
    fn last_seen(&mut self) -> Option<u32> {
        let payload = self.until(|kind, _, _| kind == GOAWAY)?;
        let last = payload.first_chunk().expect("a stream's number");
        Some(u32::from_be_bytes(*last))
    }
}

#[test]
fn a_drain_answers_streams_that_were_on_their_way_and_says_which_was_the_last() {
    let server = start(|options| {
        options.http2.is_on = true;
        options.http2.farewell = WAIT_MAX / 2;
    });
    let mut client = Frames::new(&server);
    client.ask(1);
    assert!(client.is_answered(1));
    server.shutdown();
    assert_eq!(client.last_seen(), Some(0x7fff_ffff));
    let ping = client.until(|kind, _, _| kind == PING).expect("it asks");
    // Sent before that was read, as far as the server knows.
    client.ask(3);
    assert!(client.is_answered(3));
    // Now it is read: what comes behind is not seen.
    client.send(PING, 1, 0, &ping);
    assert_eq!(client.last_seen(), Some(3));
    assert_eq!(client.until(|_, _, _| true), None, "it is the end");
    end(server).expect("its workers were well");
}
