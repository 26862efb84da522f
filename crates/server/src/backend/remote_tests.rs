//! The remote backend against another side in the test's hands.

use super::fake::FakePort;
use super::*;
use proptest::prelude::*;
use rhythm_besim::Bank;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A request's outcome and when it was told.
type Told = (Result<Vec<u8>, LaneError>, Time);

/// A backend, its port, a clock, and what was told.
struct World {
    backend: RemoteBesim,
    port: FakePort,
    now: Time,
    told: BTreeMap<u64, Told>,
    /// How often each query was carried out.
    executed: BTreeMap<String, u32>,
}

fn options() -> RemoteOptions {
    RemoteOptions {
        connections_max: 2,
        depth_max: 8,
        requests_max: 100,
        text_max: 40,
        timeout: 100 * MS,
        connect_timeout: 30 * MS,
        idle_max: 50 * MS,
        limits: AnswerLimits {
            head_max: 200,
            body_max: 60,
        },
        circuit: CircuitOptions {
            failures_max: 3,
            cool_down: 40 * MS,
        },
    }
}

fn response(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
    )
}

fn closing(body: &str) -> String {
    response(200, body).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
}

/// What the other side answers to a query, if nothing is wrong.
fn answer_to(query: &str) -> String {
    format!("answer to {query}")
}

impl World {
    fn new(options: RemoteOptions) -> World {
        let url: BackendUrl = "http://sim:81/besim".parse().unwrap();
        let addresses = vec![
            "10.0.0.1:81".parse().unwrap(),
            "10.0.0.2:81".parse().unwrap(),
        ];
        World {
            backend: RemoteBesim::new(&url, addresses, options),
            port: FakePort::default(),
            now: Time::ZERO,
            told: BTreeMap::new(),
            executed: BTreeMap::new(),
        }
    }

    /// A world whose first connection is open and has answered key 1000.
    fn proven(options: RemoteOptions) -> (World, ConnectionId) {
        let mut world = World::new(options);
        world.submit(1000..1001, false);
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        assert_eq!(world.told.len(), 1);
        (world, id)
    }

    fn submit(&mut self, keys: std::ops::Range<u64>, idempotent: bool) {
        self.submit_until(keys, idempotent, Time::NEVER);
    }

    /// Asks `1&3&{key}` for each key.
    fn submit_until(&mut self, keys: std::ops::Range<u64>, idempotent: bool, deadline: Time) {
        let texts: Vec<_> = keys.clone().map(|key| format!("1&3&{key}")).collect();
        self.submit_texts(keys.start, &texts, idempotent, deadline);
    }

    fn submit_texts(&mut self, first: u64, texts: &[String], idempotent: bool, deadline: Time) {
        let mut arena = Arena::default();
        let asks: Vec<_> = (first..)
            .zip(texts)
            .map(|(key, text)| Ask {
                key,
                text: arena.push(text.as_bytes()),
            })
            .collect();
        let batch = Batch {
            asks: &asks,
            arena: &arena,
            idempotent,
            deadline,
        };
        self.backend.submit(&mut self.port, batch, self.now);
        self.poll();
    }

    fn poll(&mut self) {
        let World { told, now, .. } = self;
        self.backend.poll(&mut |key, answer| {
            let before = told.insert(key, (answer.map(<[u8]>::to_vec), *now));
            assert_eq!(before, None, "{key} is told of twice");
        });
    }

    fn newest(&self) -> ConnectionId {
        *self
            .port
            .connections
            .keys()
            .next_back()
            .expect("a connection")
    }

    fn connected(&mut self, id: ConnectionId) {
        assert!(self.backend.owns(id));
        self.port.connections.get_mut(&id).unwrap().open = true;
        self.backend.connected(&mut self.port, id, self.now);
        self.poll();
    }

    fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        assert!(self.backend.owns(id));
        self.backend.received(&mut self.port, id, bytes, self.now);
        self.poll();
    }

    fn end(&mut self, id: ConnectionId, how: Ended) {
        assert!(self.backend.owns(id));
        if how != Ended::PeerFinished {
            self.port.connections.remove(&id);
        }
        self.backend.ended(&mut self.port, id, how, self.now);
        self.poll();
        assert!(
            !self.port.connections.contains_key(&id),
            "a connection is left behind"
        );
    }

    fn reset(&mut self, id: ConnectionId) {
        self.end(id, Ended::Failed(io::ErrorKind::ConnectionReset));
    }

    /// The queries that lie complete at the other side, at most `count`.
    fn take(&mut self, id: ConnectionId, count: usize) -> Vec<String> {
        let Some(connection) = self.port.connections.get_mut(&id) else {
            return Vec::new();
        };
        let sent = String::from_utf8(std::mem::take(&mut connection.sent)).unwrap();
        let mut rest = &sent[..];
        let mut queries = Vec::new();
        while queries.len() < count
            && let Some((request, behind)) = rest.split_once("\r\n\r\n")
        {
            let query = request
                .strip_prefix("GET /besim?")
                .and_then(|request| request.strip_suffix(" HTTP/1.1\r\nHost: sim:81"))
                .expect("a request");
            queries.push(query.to_owned());
            rest = behind;
        }
        connection.sent = rest.as_bytes().to_vec();
        queries
    }

    /// Carries out at most `count` requests and answers as `answer` says, all at once.
    fn serve(&mut self, id: ConnectionId, count: usize, answer: impl Fn(&str) -> String) -> usize {
        let queries = self.take(id, count);
        let mut bytes = String::new();
        for query in &queries {
            *self.executed.entry(query.clone()).or_default() += 1;
            bytes.push_str(&answer(query));
        }
        if !bytes.is_empty() {
            self.receive(id, bytes.as_bytes());
        }
        queries.len()
    }

    /// Lets time pass, with ticks when they are asked for.
    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut ticks = 0;
        while let Some(at) = self.backend.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.backend.tick(&mut self.port, self.now);
            self.poll();
            ticks += 1;
            assert!(ticks < 1000, "it wants to be woken without end");
        }
        self.now = end;
    }

    fn result(&self, key: u64) -> Result<&str, LaneError> {
        let (result, _) = self
            .told
            .get(&key)
            .unwrap_or_else(|| panic!("{key} is not told of"));
        result
            .as_deref()
            .map(|body| std::str::from_utf8(body).unwrap())
            .map_err(|error| *error)
    }

    fn assert_answered(&self, keys: std::ops::Range<u64>) {
        for key in keys {
            assert_eq!(self.result(key), Ok(&answer_to(&format!("1&3&{key}"))[..]));
        }
    }

    fn assert_failed(&self, keys: std::ops::Range<u64>, error: LaneError) {
        for key in keys {
            assert_eq!(self.result(key), Err(error), "{key}");
        }
    }

    fn is_told(&self, key: u64) -> bool {
        self.told.contains_key(&key)
    }
}

fn answer_ok(query: &str) -> String {
    response(200, &answer_to(query))
}

#[test]
fn a_batch_is_one_send() {
    let (mut world, id) = World::proven(options());
    let sends = world.port.sends;
    world.submit(0..8, false);
    assert_eq!(world.port.sends, sends + 1);
    assert_eq!(world.serve(id, 99, answer_ok), 8);
    world.assert_answered(0..8);
    assert_eq!(world.port.connects, 1);
    assert_eq!(world.backend.counts().requests, 9);
}

#[test]
fn a_new_connection_is_tried_with_one_request() {
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
fn many_requests_use_several_connections_and_addresses() {
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
fn answers_and_requests_may_come_in_any_pieces() {
    let (mut world, id) = World::proven(options());
    world.port.connections.get_mut(&id).unwrap().room = 0;
    world.submit(0..2, false);
    let sends = world.port.sends;
    world.submit(2..5, false);
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
fn after_a_reset_only_the_idempotent_are_sent_again_and_once() {
    for (idempotent, told_after_first) in [(false, 3), (true, 0)] {
        let (mut world, id) = World::proven(options());
        world.submit(0..4, idempotent);
        world.serve(id, 1, answer_ok);
        // In the middle of an answer.
        world.receive(id, b"HTTP/1.1 200 OK\r\nContent-Le");
        world.reset(id);
        assert_eq!(world.told.len() - 2, told_after_first);
        if !idempotent {
            world.assert_failed(1..4, LaneError::BackendFailed);
            continue;
        }
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        world.reset(id);
        world.assert_answered(0..2);
        world.assert_failed(2..4, LaneError::BackendFailed);
        assert_eq!(world.backend.counts().retries, 3);
        assert_eq!(world.backend.counts().failures, 2);
    }
}

#[test]
fn what_was_not_sent_whole_can_be_sent_again() {
    let (mut world, id) = World::proven(options());
    let length = "GET /besim?1&3&0 HTTP/1.1\r\nHost: sim:81\r\n\r\n".len();
    world.port.connections.get_mut(&id).unwrap().room = 2 * length - 1;
    world.submit(0..3, false);
    world.reset(id);
    world.assert_failed(0..1, LaneError::BackendFailed);
    let id = world.newest();
    world.connected(id);
    assert_eq!(world.take(id, 9), ["1&3&1"]);
    world.receive(id, answer_ok("1&3&1").as_bytes());
    world.serve(id, 9, answer_ok);
    world.assert_answered(1..3);
}

#[test]
fn a_send_that_finds_the_connection_gone_is_a_loss() {
    let (mut world, id) = World::proven(options());
    world.port.connections.get_mut(&id).unwrap().broken = true;
    world.submit(0..3, false);
    assert!(!world.backend.owns(id));
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.serve(id, 2, answer_ok);
    world.assert_answered(0..3);
}

#[test]
fn after_an_announced_end_the_rest_is_sent_again() {
    let (mut world, id) = World::proven(options());
    world.submit(0..4, false);
    for answered in 1..=4 {
        let id = if answered == 1 {
            id
        } else {
            let id = world.newest();
            world.connected(id);
            id
        };
        world.serve(id, 1, |query| closing(&answer_to(query)));
        assert!(!world.backend.owns(id));
        assert_eq!(world.told.len(), 1 + answered);
    }
    world.assert_answered(0..4);
    assert!(world.port.connections.is_empty());
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn a_body_may_end_with_the_connection() {
    let (mut world, id) = World::proven(options());
    world.submit(0..1, false);
    world.take(id, 1);
    world.receive(id, b"HTTP/1.0 200 OK\r\n\r\nanswer to ");
    world.receive(id, b"1&3&0");
    assert!(!world.is_told(0));
    world.end(id, Ended::PeerFinished);
    world.assert_answered(0..1);
    // But not with its failure.
    let (mut world, id) = World::proven(options());
    world.submit(0..1, false);
    world.receive(id, b"HTTP/1.0 200 OK\r\n\r\nanswer to 1&3&0");
    world.reset(id);
    world.assert_failed(0..1, LaneError::BackendFailed);
}

#[test]
fn late_answers_cost_their_connection() {
    let (mut world, id) = World::proven(options());
    world.submit_until(0..1, true, Time::ZERO + 20 * MS);
    world.submit(1..3, true);
    world.submit(3..4, false);
    world.pass(19 * MS);
    assert!(!world.is_told(0) && world.backend.owns(id));
    world.pass(MS);
    world.assert_failed(0..1, LaneError::BackendTimeout);
    world.assert_failed(3..4, LaneError::BackendFailed);
    assert!(!world.backend.owns(id) && !world.port.connections.contains_key(&id));
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.serve(id, 1, answer_ok);
    world.assert_answered(1..3);
}

#[test]
fn waiting_counts_as_time() {
    let mut world = World::new(RemoteOptions {
        connect_timeout: 1000 * MS,
        ..options()
    });
    world.submit(0..2, true);
    world.pass(99 * MS);
    assert!(world.told.is_empty());
    world.pass(MS);
    world.assert_failed(0..2, LaneError::BackendTimeout);
    // Without time there is no attempt.
    world.submit_until(2..3, true, world.now);
    world.assert_failed(2..3, LaneError::BackendTimeout);
}

#[test]
fn a_backend_that_cannot_be_reached_fails_after_all_addresses() {
    for at_once in [true, false] {
        let mut world = World::new(options());
        world.port.connect_fails = at_once;
        world.submit(0..3, false);
        if !at_once {
            for _ in 0..2 {
                assert!(!world.is_told(0));
                let id = world.newest();
                world.end(id, Ended::Failed(io::ErrorKind::ConnectionRefused));
            }
        }
        world.assert_failed(0..3, LaneError::BackendFailed);
        assert_eq!(world.port.connects, 2);
        assert!(world.port.connections.is_empty());
    }
}

#[test]
fn opening_a_connection_takes_bounded_time() {
    let mut world = World::new(options());
    world.submit(0..1, false);
    let first = world.newest();
    world.pass(30 * MS);
    assert!(!world.backend.owns(first) && !world.port.connections.contains_key(&first));
    let second = world.newest();
    world.connected(second);
    world.serve(second, 1, answer_ok);
    world.assert_answered(0..1);
}

#[test]
fn while_connections_stand_others_are_not_opened_in_a_hurry() {
    let (mut world, id) = World::proven(options());
    world.submit(0..20, true);
    let other = world.newest();
    world.end(other, Ended::Failed(io::ErrorKind::ConnectionRefused));
    assert_eq!(world.port.connects, 2);
    world.serve(id, 1, answer_ok);
    world.pass(99 * MS);
    assert_eq!(world.port.connects, 2);
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn without_an_address_all_fail() {
    let url: BackendUrl = "http://sim".parse().unwrap();
    let mut world = World::new(options());
    world.backend = RemoteBesim::new(&url, Vec::new(), options());
    world.submit(0..2, false);
    world.assert_failed(0..2, LaneError::BackendFailed);
}

#[test]
fn the_circuit_opens_is_probed_by_one_and_closes() {
    let mut world = World::new(options());
    world.port.connect_fails = true;
    world.submit(0..1, false);
    world.submit(1..2, false);
    // Two attempts each, and the third failure opened it.
    assert!(world.backend.counts().circuit_open);
    assert_eq!(world.port.connects, 3);
    world.submit(2..9, false);
    world.assert_failed(2..9, LaneError::BackendRefused);
    assert_eq!(world.port.connects, 3);

    // A probe that fails.
    world.pass(40 * MS);
    world.submit(10..13, false);
    assert_eq!(world.port.connects, 4);
    world.assert_failed(10..13, LaneError::BackendRefused);
    world.submit(13..14, false);
    world.assert_failed(13..14, LaneError::BackendRefused);

    // One that is answered.
    world.pass(40 * MS);
    world.port.connect_fails = false;
    world.submit(20..23, false);
    world.submit(23..24, false);
    assert_eq!(world.port.connects, 5);
    world.assert_failed(21..24, LaneError::BackendRefused);
    let id = world.newest();
    world.connected(id);
    assert_eq!(world.serve(id, 99, answer_ok), 1);
    world.assert_answered(20..21);
    assert!(!world.backend.counts().circuit_open);
    world.submit(30..33, false);
    world.serve(id, 99, answer_ok);
    world.assert_answered(30..33);
}

#[test]
fn a_probe_without_an_answer_opens_the_circuit_again() {
    let mut world = World::new(options());
    world.port.connect_fails = true;
    world.submit(0..1, false);
    world.submit(1..2, false);
    world.port.connect_fails = false;
    world.pass(40 * MS);
    world.submit(2..3, false);
    let id = world.newest();
    world.connected(id);
    world.pass(100 * MS);
    world.assert_failed(2..3, LaneError::BackendTimeout);
    world.submit(3..4, false);
    world.assert_failed(3..4, LaneError::BackendRefused);
    assert!(world.port.connections.is_empty());
}

#[test]
fn a_probe_that_never_left_opens_the_circuit_again() {
    let mut world = World::new(RemoteOptions {
        connect_timeout: 1000 * MS,
        ..options()
    });
    world.port.connect_fails = true;
    world.submit(0..1, false);
    world.submit(1..2, false);
    world.port.connect_fails = false;
    world.pass(40 * MS);
    world.submit(2..3, false);
    world.pass(100 * MS);
    world.assert_failed(2..3, LaneError::BackendTimeout);
    // Another cool-down, another probe.
    world.submit(3..4, false);
    world.assert_failed(3..4, LaneError::BackendRefused);
    world.pass(40 * MS);
    world.submit(4..5, false);
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.assert_answered(4..5);
}

#[test]
fn only_attempts_in_a_row_count_as_unreachable() {
    let mut world = World::new(options());
    for key in 0..6 {
        world.submit(key..key + 1, false);
        let refused = world.newest();
        world.end(refused, Ended::Failed(io::ErrorKind::ConnectionRefused));
        assert!(!world.is_told(key), "given up after one attempt");
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        world.end(id, Ended::PeerFinished);
    }
    world.assert_answered(0..6);
}

#[test]
fn failing_answers_open_the_circuit_and_what_waits_is_refused() {
    let (mut world, id) = World::proven(RemoteOptions {
        connections_max: 1,
        ..options()
    });
    world.submit(0..10, true);
    world.serve(id, 2, |_| response(404, "who?"));
    assert!(!world.backend.counts().circuit_open);
    world.assert_failed(0..2, LaneError::BackendFailed);
    world.submit(10..12, true);
    world.serve(id, 3, |_| response(503, "busy"));
    assert!(world.backend.counts().circuit_open);
    world.assert_failed(2..5, LaneError::BackendFailed);
    // Two wait, seven are on their way: those are still answered.
    world.assert_failed(10..12, LaneError::BackendRefused);
    world.serve(id, 99, answer_ok);
    world.assert_answered(5..10);
    assert_eq!(world.backend.counts().retries, 0);
}

#[test]
fn requests_beyond_the_bound_are_refused() {
    let mut world = World::new(RemoteOptions {
        requests_max: 5,
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
fn texts_are_bounded_and_cannot_leave_the_request_line() {
    let (mut world, id) = World::proven(options());
    let texts = ["x".repeat(41), "1&3& HTTP/1.1\r\nX: #\u{e9}".into()];
    world.submit_texts(0, &texts, true, Time::NEVER);
    world.assert_failed(0..1, LaneError::TooLarge);
    assert_eq!(world.take(id, 9), ["1&3&%20HTTP/1.1%0D%0AX:%20%23%C3%A9"]);
}

#[test]
fn unreadable_answers_fail_one_request_and_end_the_connection() {
    let long = response(200, &"x".repeat(61));
    for bad in [
        "HTTP/1.1 2oo\r\n",
        "\r\n\r\n",
        "HTTP/1.1 101 Go\r\n\r\n",
        &long,
    ] {
        let (mut world, id) = World::proven(options());
        world.submit(0..3, true);
        world.take(id, 99);
        world.receive(id, bad.as_bytes());
        world.assert_failed(0..1, LaneError::BadAnswer);
        assert!(!world.backend.owns(id) && world.told.len() == 2);
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        world.serve(id, 1, answer_ok);
        world.assert_answered(1..3);
    }
}

#[test]
fn an_answer_nobody_asked_for_ends_the_connection() {
    let (mut world, id) = World::proven(options());
    world.receive(id, response(200, "surprise").as_bytes());
    assert!(!world.backend.owns(id));
    // Nor is it taken for the answer to a request that is not sent yet.
    let (mut world, id) = World::proven(options());
    world.port.connections.get_mut(&id).unwrap().room = 10;
    world.submit(0..1, false);
    world.receive(id, response(200, "surprise").as_bytes());
    assert!(!world.backend.owns(id) && !world.is_told(0));
    let id = world.newest();
    world.connected(id);
    world.serve(id, 1, answer_ok);
    world.assert_answered(0..1);
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
    assert_eq!(world.backend.counts().failures, 0);
}

#[test]
fn remote_answers_are_the_embedded_ones() {
    let bank = Bank::new(1000);
    let texts: Vec<String> = (0..=13)
        .map(|command| format!("1&{command}&17&1&2013-01-01&2013-02-01&500&a%26b&%C3%A9&x"))
        .chain((0..=13).map(|command| format!("1&{command}&17")))
        .collect();
    let mut world = World::new(RemoteOptions {
        text_max: 1000,
        limits: AnswerLimits::default(),
        ..options()
    });
    world.submit_texts(0, &texts, false, Time::NEVER);
    let id = world.newest();
    world.connected(id);
    let bank_answer = |query: &str| {
        let mut body = Vec::new();
        bank.answer(query.as_bytes(), &mut body);
        response(200, std::str::from_utf8(&body).unwrap())
    };
    while world.serve(id, 8, bank_answer) > 0 {}
    assert_eq!(world.told.len(), texts.len());

    let mut embedded = EmbeddedBesim::new(Bank::new(1000));
    let mut arena = Arena::default();
    let mut requests: Vec<_> = texts
        .iter()
        .map(|text| BackendRequest {
            lane: 0,
            text: arena.push(text.as_bytes()),
            answer: None,
        })
        .collect();
    assert!(embedded.answer_into(&mut requests, &mut arena));
    for (key, request) in (0..).zip(&requests) {
        let answer = request.answer.map(|view| arena.get(view));
        assert_eq!(Ok(answer.unwrap()), world.result(key).map(str::as_bytes));
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        count: u64,
        idempotent: bool,
        deadline_ms: u64,
    },
    Pass {
        ms: u64,
    },
    ConnectFails(bool),
    /// One of these happens to some connection.
    Opened(usize),
    Served {
        connection: usize,
        count: usize,
        kind: u8,
        cut: usize,
    },
    Reset(usize),
    Finished(usize),
    Broken(usize),
    Room {
        connection: usize,
        bytes: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let connection = || 0..4usize;
    prop_oneof![
        4 => (1..20u64, any::<bool>(), 0..150u64).prop_map(|(count, idempotent, deadline_ms)| {
            Step::Submit { count, idempotent, deadline_ms }
        }),
        3 => (0..60u64).prop_map(|ms| Step::Pass { ms }),
        1 => any::<bool>().prop_map(Step::ConnectFails),
        6 => connection().prop_map(Step::Opened),
        10 => (connection(), 1..9usize, 0..12u8, 0..400usize).prop_map(|(connection, count, kind, cut)| {
            Step::Served { connection, count, kind, cut }
        }),
        1 => connection().prop_map(Step::Reset),
        1 => connection().prop_map(Step::Finished),
        1 => connection().prop_map(Step::Broken),
        2 => (connection(), 0..200usize).prop_map(|(connection, bytes)| Step::Room { connection, bytes }),
    ]
}

impl World {
    fn nth(&self, nth: usize, open: bool) -> Option<ConnectionId> {
        let some = self
            .port
            .connections
            .iter()
            .filter(|(_, c)| c.open == open)
            .map(|(id, _)| *id);
        let all: Vec<_> = some.collect();
        (!all.is_empty()).then(|| all[nth % all.len()])
    }

    /// Carries requests out, and answers in two pieces, or only with the first of them and then not at all.
    fn serve_somehow(&mut self, id: ConnectionId, count: usize, kind: u8, cut: usize) {
        let queries = self.take(id, if kind == 7 { 1 } else { count });
        let mut bytes = String::new();
        for query in &queries {
            *self.executed.entry(query.clone()).or_default() += 1;
            let body = answer_to(query);
            bytes += &match kind {
                0 | 1 => chunked(&body),
                2 => response(503, &body),
                3 => response(404, &body),
                4 => format!("HTTP/1.1 102 Wait\r\n\r\n{}", response(200, &body)),
                7 => closing(&body),
                8 => "nonsense".into(),
                _ => response(200, &body),
            };
        }
        let (first, second) = bytes.as_bytes().split_at(cut.min(bytes.len()));
        if !first.is_empty() {
            self.receive(id, first);
        }
        if !self.backend.owns(id) {
            return;
        }
        if kind == 9 {
            self.reset(id);
        } else if !second.is_empty() {
            self.receive(id, second);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever happens: each request is told of once, in time, with its own answer or an error; those that are not
    /// idempotent are carried out at most once, the others at most twice; and nothing is left behind.
    #[test]
    fn each_request_ends_once(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new(options());
        let mut asked = Vec::new();
        let mut key = 0;
        for step in steps {
            match step {
                Step::Submit { count, idempotent, deadline_ms } => {
                    let deadline = world.now + Duration::from_millis(deadline_ms);
                    let keys = key..key + count;
                    key = keys.end;
                    let latest = deadline.min(world.now + 100 * MS);
                    asked.extend(keys.clone().map(|key| (key, idempotent, latest)));
                    world.submit_until(keys, idempotent, deadline);
                }
                Step::Pass { ms } => world.pass(Duration::from_millis(ms)),
                Step::ConnectFails(fails) => world.port.connect_fails = fails,
                Step::Opened(nth) => {
                    if let Some(id) = world.nth(nth, false) {
                        world.connected(id);
                    }
                }
                Step::Served { connection, count, kind, cut } => {
                    if let Some(id) = world.nth(connection, true) {
                        world.serve_somehow(id, count, kind, cut);
                    }
                }
                Step::Reset(nth) => {
                    if let Some(id) = world.nth(nth, nth % 2 == 0) {
                        world.reset(id);
                    }
                }
                Step::Finished(nth) => {
                    if let Some(id) = world.nth(nth, true) {
                        world.end(id, Ended::PeerFinished);
                    }
                }
                Step::Broken(nth) => {
                    if let Some(id) = world.nth(nth, true) {
                        world.port.connections.get_mut(&id).unwrap().broken = true;
                    }
                }
                Step::Room { connection, bytes } => {
                    if let Some(id) = world.nth(connection, true) {
                        let fake = world.port.connections.get_mut(&id).unwrap();
                        fake.room = bytes;
                        if std::mem::take(&mut fake.blocked) {
                            world.backend.writable(&mut world.port, id, world.now);
                            world.poll();
                        }
                    }
                }
            }
        }
        world.pass(1000 * MS);
        prop_assert_eq!(world.told.len(), asked.len());
        for (key, idempotent, latest) in asked {
            let query = format!("1&3&{key}");
            let (result, at) = &world.told[&key];
            prop_assert!(*at <= latest, "{key} told at {at:?}, wanted by {latest:?}");
            if let Ok(body) = result {
                prop_assert_eq!(String::from_utf8_lossy(body), answer_to(&query));
            }
            let executed = world.executed.get(&query).copied().unwrap_or(0);
            prop_assert!(executed <= 1 + u32::from(idempotent));
        }
        prop_assert!(world.port.connections.is_empty());
        prop_assert_eq!(world.backend.wake_at(), None);
        prop_assert_eq!(world.backend.counts().requests, key);
    }
}
