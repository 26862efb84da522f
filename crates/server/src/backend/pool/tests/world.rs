//! A remote backend with its other side in the test's hands.

use super::super::*;
use crate::backend::besim::BesimWire;
use crate::backend::http_client::{BackendUrl, Response, ResponseLimits, Responses};
use crate::backend::{Ask, Awaited, QueryAnswers, Told, Which};
use rhythm_engine::cohort::{Argument, Cell, LaneError, Queries};
use rhythm_engine::program::{Asking, Call, CallResult, Form, Type};
use rhythm_net::testing::TestPort;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

pub(super) const MS: Duration = Duration::from_millis(1);

/// A query's outcome and when it was told.
pub(super) type Outcome = (Result<Vec<u8>, LaneError>, Time);

/// A backend, its port, a clock, and what was told.
pub(super) struct World {
    pub(super) backend: ConnectionPool<PlainWire>,
    pub(super) port: TestPort,
    pub(super) now: Time,
    /// How far along the requests are whose queries are submitted.
    pub(super) step: u32,
    pub(super) told: BTreeMap<u64, Outcome>,
    /// How often each query was carried out.
    pub(super) executed: BTreeMap<String, u32>,
}

/// The wire of BeSim, but for the bodies of answers: each is one text.
#[derive(Debug)]
pub(super) struct PlainWire(BesimWire);

const LIMITS: ResponseLimits = ResponseLimits {
    head_max: 200,
    body_max: 60,
};

impl PlainWire {
    pub(super) fn new() -> PlainWire {
        let url: BackendUrl = "http://sim:81/besim".parse().unwrap();
        PlainWire(BesimWire::new(&url, LIMITS))
    }
}

fn plain_verdict(response: &Response<'_>, answers: &mut QueryAnswers) -> Verdict {
    answers.cell(Cell::Text(response.body));
    answers.end_row();
    Verdict {
        query: Which::Oldest,
        outcome: match response.status {
            200..=299 => Ok(0),
            409 => Err(Cause::Undone),
            status => Err(Cause::Status(status)),
        },
        is_healthy: response.status < 500,
        goes_on: response.keep_alive,
    }
}

impl Wire for PlainWire {
    type Connection = Responses;

    fn encode<'a>(
        &mut self,
        responses: &mut Responses,
        number: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        self.0.encode(responses, number, call, arguments, out);
    }

    fn decode(
        &mut self,
        responses: &mut Responses,
        input: &[u8],
        _: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        let (used, response) = responses.next(input, &LIMITS)?;
        let verdict = response.map(|response| plain_verdict(&response, answers));
        Ok((used, verdict))
    }

    fn finish(
        &mut self,
        responses: &mut Responses,
        _: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Option<Verdict> {
        Some(plain_verdict(&responses.finish()?, answers))
    }
}

impl<W: Wire> ConnectionPool<W> {
    /// Whether this is a connection of its own.
    pub(super) fn owns(&self, connection: ConnectionId) -> bool {
        self.find(connection).is_some()
    }
}

/// A call whose queries have these pieces around integers.
pub(in super::super) fn call(pieces: &[&str], idempotent: bool) -> Call {
    Call {
        backend: 0,
        asking: Asking::Request,
        has_name: true,
        statements: Box::default(),
        document: None,
        form: Form {
            pieces: pieces.iter().map(|piece| piece.as_bytes().into()).collect(),
            arguments: vec![Type::Int; pieces.len() - 1],
        },
        columns: 1,
        result: CallResult::Rows(0),
        status: 1,
        idempotent,
        optional: false,
        shared: false,
        merged: false,
        particulars: Default::default(),
    }
}

/// One query of a batch.
pub(super) fn ask(first: usize, key: u64, asker: u64) -> Ask {
    Ask {
        first,
        count: 1,
        key,
        asker: Asker {
            number: asker,
            visitor: 0,
        },
    }
}

/// The first so many queries, in order.
pub(super) fn order(queries: &Queries) -> Vec<u32> {
    (0..queries.len() as u32).collect()
}

/// Queries of a batch, in their order, each asked by somebody else.
pub(super) fn asks(keys: std::ops::Range<u64>) -> Vec<Ask> {
    (keys.enumerate())
        .map(|(query, key)| ask(query, key, key))
        .collect()
}

/// An answer's cells, its rows one behind the other.
pub(super) fn cells(told: Told<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    for cell in told.rows().flatten() {
        match cell {
            Cell::Text(text) => all.extend_from_slice(text),
            other => panic!("no text: {other:?}"),
        }
    }
    all
}

pub(super) fn options() -> PoolOptions {
    PoolOptions {
        connections_max: 2,
        depth_max: 8,
        queries_max: 100,
        held_max: 1 << 20,
        query_max: 40,
        retries_max: 1,
        timeout: 100 * MS,
        connect_timeout: 30 * MS,
        idle_max: 50 * MS,
        share: ShareOptions {
            connections_max: None,
            calls_max: 100,
        },
        circuit: CircuitOptions {
            unreachable_max: 3,
            failures_min: 3,
            window: 1000 * MS,
            cool_down: 40 * MS,
        },
    }
}

pub(super) fn response(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{body}")
}

pub(super) fn chunked(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
    )
}

pub(super) fn closing(body: &str) -> String {
    response(200, body).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
}

/// What the other side answers to a query, if nothing is wrong.
pub(super) fn answer_to(query: &str) -> String {
    format!("answer to {query}")
}

impl World {
    pub(super) fn new(options: PoolOptions) -> World {
        let peer = |address: &str| Peer::tcp("sim", address.parse().unwrap());
        let peers = ["10.0.0.1:81", "10.0.0.2:81"].map(peer).to_vec();
        World {
            backend: ConnectionPool::new(PlainWire::new(), "sim", peers, options),
            port: TestPort::default(),
            now: Time::ZERO,
            step: 0,
            told: BTreeMap::new(),
            executed: BTreeMap::new(),
        }
    }

    /// A world whose first connection is open and has answered key 1000.
    pub(super) fn proven(options: PoolOptions) -> (World, ConnectionId) {
        let mut world = World::new(options);
        world.submit(1000..1001, false);
        let id = world.newest();
        world.connected(id);
        world.serve(id, 1, answer_ok);
        assert_eq!(world.told.len(), 1);
        (world, id)
    }

    pub(super) fn submit(&mut self, keys: std::ops::Range<u64>, idempotent: bool) {
        self.submit_until(keys, idempotent, Time::NEVER);
    }

    /// Asks `1&3&{key}` for each key.
    pub(super) fn submit_until(
        &mut self,
        keys: std::ops::Range<u64>,
        idempotent: bool,
        deadline: Time,
    ) {
        let mut queries = Queries::default();
        for key in keys.clone() {
            assert!(queries.push(0, [Argument::Int(key as i64)].into_iter()));
        }
        let batch = Batch {
            fields: &[],
            call: &call(&["1&3&", ""], idempotent),
            queries: &queries,
            order: &order(&queries),
            asks: &asks(keys),
            step: self.step,
            deadline,
        };
        self.backend.submit(&mut self.port, batch, self.now);
        self.poll();
    }

    /// As [`World::submit`], all by one.
    pub(super) fn submit_by(&mut self, asker: u64, keys: std::ops::Range<u64>, idempotent: bool) {
        for key in keys {
            let arguments = [Argument::Int(key as i64)];
            self.submit_one(asker, key, &call(&["1&3&", ""], idempotent), arguments);
        }
        self.poll();
    }

    /// Asks this text for each key, all by one.
    pub(super) fn submit_call_by(
        &mut self,
        asker: u64,
        text: &str,
        keys: std::ops::Range<u64>,
        idempotent: bool,
    ) {
        for key in keys {
            self.submit_one(asker, key, &call(&[text], idempotent), []);
        }
        self.poll();
    }

    /// Asks this for a key, at the end of this turn.
    pub(super) fn submit_one<const N: usize>(
        &mut self,
        asker: u64,
        key: u64,
        call: &Call,
        arguments: [Argument<'_>; N],
    ) {
        let mut queries = Queries::default();
        assert!(queries.push(0, arguments.into_iter()));
        let batch = Batch {
            fields: &[],
            call,
            queries: &queries,
            order: &order(&queries),
            asks: &[ask(0, key, asker)],
            step: 0,
            deadline: Time::NEVER,
        };
        self.backend.submit(&mut self.port, batch, self.now);
    }

    /// Opens the connections that are begun, until there are no more.
    pub(super) fn connect_all(&mut self) {
        while let Some((&id, _)) = self.port.connections.iter().find(|(_, c)| !c.open) {
            self.connected(id);
        }
    }

    /// The queries that lie at the other side of each connection.
    pub(super) fn take_all(&mut self) -> Vec<(ConnectionId, Vec<String>)> {
        let ids: Vec<ConnectionId> = self.port.connections.keys().copied().collect();
        let all = ids.into_iter().map(|id| (id, self.take(id, 99)));
        all.filter(|(_, queries)| !queries.is_empty()).collect()
    }

    /// Asks each of these texts.
    pub(super) fn submit_texts(
        &mut self,
        first: u64,
        texts: &[String],
        idempotent: bool,
        deadline: Time,
    ) {
        for (key, text) in (first..).zip(texts) {
            let mut queries = Queries::default();
            assert!(queries.push(0, std::iter::empty()));
            let batch = Batch {
                fields: &[],
                call: &call(&[text], idempotent),
                queries: &queries,
                order: &order(&queries),
                asks: &[ask(0, key, key)],
                step: 0,
                deadline,
            };
            self.backend.submit(&mut self.port, batch, self.now);
        }
        self.poll();
    }

    /// The end of a turn.
    pub(super) fn poll(&mut self) {
        self.backend.turn_ends(&mut self.port, self.now);
        let World { told, now, .. } = self;
        self.backend.poll(&mut |key, answer| {
            let before = told.insert(key, (answer.map(cells).map_err(|why| why.error), *now));
            assert_eq!(before, None, "{key} is told of twice");
        });
    }

    pub(super) fn newest(&self) -> ConnectionId {
        *self
            .port
            .connections
            .keys()
            .next_back()
            .expect("a connection")
    }

    pub(super) fn connected(&mut self, id: ConnectionId) {
        assert!(self.backend.owns(id));
        self.port.connections.get_mut(&id).unwrap().open = true;
        self.backend.connected(&mut self.port, id, self.now);
        self.poll();
    }

    pub(super) fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        assert!(self.backend.owns(id));
        self.backend.received(&mut self.port, id, bytes, self.now);
        self.poll();
    }

    pub(super) fn end(&mut self, id: ConnectionId, how: Ended) {
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

    pub(super) fn reset(&mut self, id: ConnectionId) {
        self.end(id, Ended::Failed(io::ErrorKind::ConnectionReset));
    }

    /// The queries that lie complete at the other side, at most `count`.
    pub(super) fn take(&mut self, id: ConnectionId, count: usize) -> Vec<String> {
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

    /// Carries out at most `count` queries and answers as `answer` says, all at once.
    pub(super) fn serve(
        &mut self,
        id: ConnectionId,
        count: usize,
        answer: impl Fn(&str) -> String,
    ) -> usize {
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
    pub(super) fn pass(&mut self, duration: Duration) {
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

    pub(super) fn result(&self, key: u64) -> Result<&str, LaneError> {
        let (result, _) = self
            .told
            .get(&key)
            .unwrap_or_else(|| panic!("{key} is not told of"));
        result
            .as_deref()
            .map(|body| std::str::from_utf8(body).unwrap())
            .map_err(|error| *error)
    }

    pub(super) fn assert_answered(&self, keys: std::ops::Range<u64>) {
        for key in keys {
            assert_eq!(self.result(key), Ok(&answer_to(&format!("1&3&{key}"))[..]));
        }
    }

    pub(super) fn assert_failed(&self, keys: std::ops::Range<u64>, error: LaneError) {
        for key in keys {
            assert_eq!(self.result(key), Err(error), "{key}");
        }
    }

    pub(super) fn is_told(&self, key: u64) -> bool {
        self.told.contains_key(&key)
    }
}

pub(super) fn answer_ok(query: &str) -> String {
    response(200, &answer_to(query))
}
