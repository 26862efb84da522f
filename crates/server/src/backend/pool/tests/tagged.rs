//! A protocol with tags: answers come in any order, and what a connection knows is asked for by a
//! shorter name.
//!
//! A message is its length (a byte), its tag (a byte), and a text. The first query of a call on a
//! connection says `define NAME ...`, those after it the name alone: so each connection has to be
//! told for itself. An answer's text is what was asked, or `!` where the other side has had enough:
//! it carries out nothing behind that.

use super::super::*;
use super::asking::all_answered;
use super::world::{MS, asks, call, cells, options, order};
use crate::backend::{Awaited, QueryAnswers, Which};
use rhythm_engine::cohort::{Argument, Cell, LaneError, Queries};
use rhythm_engine::program::Call;
use rhythm_net::testing::TestPort;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

#[derive(Debug)]
struct TaggedWire;

/// What a connection knows, and the beginning of a message.
#[derive(Debug, Default)]
struct Known {
    defined: Vec<Box<[u8]>>,
    input: Vec<u8>,
}

fn put_message(tag: u8, text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[text.len() as u8, tag]);
    out.extend_from_slice(text);
}

/// A whole message at the beginning of the input: its tag, its text, and what follows.
fn message(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [length, tag, rest @ ..] = input else {
        return None;
    };
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((*tag, text, rest))
}

impl Wire for TaggedWire {
    type Connection = Known;

    const IN_ORDER: bool = false;

    fn encode<'a>(
        &mut self,
        known: &mut Known,
        number: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        let name = &call.form.pieces[0];
        let mut text = Vec::new();
        if !known.defined.contains(name) {
            known.defined.push(name.clone());
            text.extend_from_slice(b"define ");
        }
        call.form.write(arguments, &mut text);
        put_message(number as u8, &text, out);
    }

    fn decode(
        &mut self,
        known: &mut Known,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        let before = known.input.len();
        known.input.extend_from_slice(input);
        let Some((tag, text, rest)) = message(&known.input) else {
            return Ok((input.len(), None));
        };
        let used = known.input.len() - before - rest.len();
        // Tags are the numbers' last byte: at most 256 are under way.
        let first = (0..).find(|&number| awaited.call(Which::Number(number)).is_some());
        let first = first.filter(|_| awaited.len() > 0).ok_or(Unreadable)?;
        let number = first + u64::from(tag.wrapping_sub(first as u8));
        if awaited.call(Which::Number(number)).is_none() {
            return Err(Unreadable);
        }
        let goes_on = text != b"!";
        answers.cell(Cell::Text(text));
        answers.end_row();
        known.input.clear();
        Ok((
            used,
            Some(Verdict {
                query: Which::Number(number),
                outcome: match goes_on {
                    true => Ok(0),
                    false => Err(Cause::Refused),
                },
                is_healthy: true,
                goes_on,
            }),
        ))
    }
}

/// A pool of such connections over a port in the test's hands.
struct Tagged {
    pool: ConnectionPool<TaggedWire>,
    port: TestPort,
    now: Time,
    told: BTreeMap<u64, Result<String, LaneError>>,
}

impl Tagged {
    fn new(connections_max: usize) -> Tagged {
        let peers = vec![Peer::tcp("sim", "10.0.0.1:81".parse().unwrap())];
        let options = PoolOptions {
            connections_max,
            idle_max: 1000 * MS,
            ..options()
        };
        Tagged {
            pool: ConnectionPool::new(TaggedWire, "tagged", peers, options),
            port: TestPort::default(),
            now: Time::ZERO,
            told: BTreeMap::new(),
        }
    }

    /// Asks `get {key}` for each of these keys, to be answered within 50 ms.
    fn submit(&mut self, keys: std::ops::Range<u64>, idempotent: bool) {
        let mut queries = Queries::default();
        for key in keys.clone() {
            assert!(queries.push(0, [Argument::Int(key as i64)].into_iter()));
        }
        let batch = Batch {
            fields: &[],
            call: &call(&["get ", ""], idempotent),
            queries: &queries,
            order: &order(&queries),
            asks: &asks(keys),
            step: 0,
            deadline: self.now + 50 * MS,
        };
        self.pool.submit(&mut self.port, batch, self.now);
        self.poll();
    }

    fn poll(&mut self) {
        self.pool.turn_ends(&mut self.port, self.now);
        let told = &mut self.told;
        self.pool.poll(&mut |key, answer| {
            let answer = answer.map(|told| String::from_utf8(cells(told)).unwrap());
            let before = told.insert(key, answer.map_err(|why| why.error));
            assert_eq!(before, None, "{key} is told of twice");
        });
    }

    /// Opens the connection that was asked for last.
    fn connect(&mut self) -> ConnectionId {
        let id = *self.port.connections.keys().next_back().unwrap();
        self.port.connections.get_mut(&id).unwrap().open = true;
        self.pool.connected(&mut self.port, id, self.now);
        self.pool.turn_ends(&mut self.port, self.now);
        id
    }

    /// A connection that has answered key 1000.
    fn proven(&mut self) -> ConnectionId {
        self.submit(1000..1001, false);
        let id = self.connect();
        let asked = self.take(id);
        assert_eq!(asked[0].1, "define get 1000");
        self.answer(id, &asked);
        id
    }

    /// The messages that have come to the other side, with their tags.
    fn take(&mut self, id: ConnectionId) -> Vec<(u8, String)> {
        let sent = std::mem::take(&mut self.port.connections.get_mut(&id).unwrap().sent);
        let mut rest = &sent[..];
        let mut messages = Vec::new();
        while let Some((tag, text, behind)) = message(rest) {
            messages.push((tag, String::from_utf8(text.to_vec()).unwrap()));
            rest = behind;
        }
        assert_eq!(rest, b"");
        messages
    }

    /// Answers with these messages, a byte at a time.
    fn answer(&mut self, id: ConnectionId, messages: &[(u8, String)]) {
        let mut bytes = Vec::new();
        for (tag, text) in messages {
            put_message(*tag, text.as_bytes(), &mut bytes);
        }
        for byte in bytes {
            self.pool.received(&mut self.port, id, &[byte], self.now);
            self.poll();
        }
    }

    fn pass(&mut self, ms: u32) {
        self.now += ms * MS;
        self.pool.tick(&mut self.port, self.now);
        self.poll();
    }

    fn text(&self, key: u64) -> Result<&str, LaneError> {
        let told = self.told.get(&key).expect("it is told of");
        told.as_deref().map_err(|error| *error)
    }
}

#[test]
fn answers_find_their_queries_in_any_order() {
    let mut tagged = Tagged::new(1);
    let id = tagged.proven();
    tagged.submit(0..8, false);
    let mut asked = tagged.take(id);
    let texts: Vec<&str> = asked.iter().map(|(_, text)| &text[..]).collect();
    let expected: Vec<String> = (0..8).map(|key| format!("get {key}")).collect();
    assert_eq!(texts, expected, "what it knows is not said again");
    asked.rotate_left(3);
    asked.swap(0, 7);
    tagged.answer(id, &asked);
    for key in 0..8 {
        assert_eq!(tagged.text(key), Ok(&format!("get {key}")[..]));
    }
    // A tag that is not awaited is nobody's.
    tagged.submit(8..9, false);
    tagged.answer(id, &[(77, String::new())]);
    assert!(!tagged.pool.owns(id));
    assert_eq!(tagged.text(8), Err(LaneError::BackendFailed));
}

#[test]
fn each_connection_is_told_what_it_does_not_know() {
    let mut tagged = Tagged::new(1);
    let id = tagged.proven();
    tagged.submit(0..2, true);
    assert_eq!(tagged.take(id)[0].1, "get 0");
    tagged.port.connections.remove(&id);
    let reset = Ended::Failed(std::io::ErrorKind::ConnectionReset);
    tagged.pool.ended(&mut tagged.port, id, reset, tagged.now);
    tagged.pool.turn_ends(&mut tagged.port, tagged.now);
    let id = tagged.connect();
    let first = tagged.take(id);
    assert_eq!(first, [(0, "define get 0".to_owned())], "encoded anew");
    tagged.answer(id, &first);
    let second = tagged.take(id);
    assert_eq!(second, [(1, "get 1".to_owned())]);
    tagged.answer(id, &second);
    assert_eq!(tagged.text(0), Ok("define get 0"));
    assert_eq!(tagged.text(1), Ok("get 1"));
}

#[test]
fn what_is_late_is_given_up_alone_while_others_are_answered() {
    let mut tagged = Tagged::new(1);
    let id = tagged.proven();
    tagged.pass(1);
    tagged.submit(0..1, false);
    tagged.pass(30);
    tagged.submit(1..3, false);
    let asked = tagged.take(id);
    tagged.answer(id, &asked[1..2]);
    tagged.pass(20);
    assert_eq!(tagged.text(0), Err(LaneError::BackendTimeout));
    assert_eq!(tagged.text(1), Ok("get 1"));
    assert!(tagged.pool.owns(id) && !tagged.told.contains_key(&2));
    // Its answer is nobody's business any more, and harms nobody.
    tagged.answer(id, &asked[0..1]);
    tagged.answer(id, &asked[2..3]);
    assert_eq!(tagged.text(2), Ok("get 2"));
    assert!(tagged.pool.owns(id));
}

#[test]
fn a_connection_that_says_nothing_is_given_up_with_what_is_late() {
    let mut tagged = Tagged::new(1);
    let id = tagged.proven();
    tagged.pass(1);
    tagged.submit(0..1, false);
    tagged.pass(10);
    tagged.submit(1..3, true);
    tagged.pass(40);
    assert!(!tagged.pool.owns(id));
    assert_eq!(tagged.text(0), Err(LaneError::BackendTimeout));
    let id = tagged.connect();
    let asked = tagged.take(id);
    assert_eq!(asked, [(0, "define get 1".to_owned())], "sent again");
}

#[test]
fn answers_that_never_come_do_not_fill_a_connection() {
    let mut tagged = Tagged::new(1);
    let id = tagged.proven();
    // Of each two one is never answered; those may take half of the eight places, and one more.
    for key in 0..5 {
        assert!(tagged.pool.owns(id), "{key}");
        tagged.pass(1);
        tagged.submit(2 * key..2 * key + 2, false);
        tagged.pass(1);
        let asked = tagged.take(id);
        tagged.answer(id, &asked[1..]);
        tagged.pass(49);
        let lost = tagged.text(2 * key);
        assert_eq!(lost, Err(LaneError::BackendTimeout));
    }
    tagged.pass(1);
    tagged.submit(20..22, false);
    tagged.pass(1);
    let asked = tagged.take(id);
    tagged.answer(id, &asked[1..]);
    tagged.pass(49);
    assert!(!tagged.pool.owns(id));
}

#[test]
fn behind_an_announced_end_all_is_sent_again_and_before_it_what_is_safe() {
    let mut tagged = Tagged::new(1);
    let id = tagged.proven();
    tagged.submit(0..1, false);
    tagged.submit(1..2, true);
    tagged.submit(2..4, false);
    let asked = tagged.take(id);
    tagged.answer(id, &[(asked[2].0, "!".to_owned())]);
    assert_eq!(tagged.text(2), Err(LaneError::BackendFailed));
    // It may have been carried out, and is not idempotent.
    assert_eq!(tagged.text(0), Err(LaneError::BackendFailed));
    let id = tagged.connect();
    for expected in ["define get 1", "get 3"] {
        let asked = tagged.take(id);
        assert_eq!(asked[0].1, expected);
        tagged.answer(id, &asked);
    }
    assert_eq!(tagged.told.len(), 5);
}

/// Answers what comes together from the last to the first, and ends after some.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut piece = [0; 4096];
    let mut count = 0;
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        input.extend_from_slice(&piece[..length]);
        let mut messages = Vec::new();
        while let Some((tag, text, rest)) = message(&input) {
            messages.push((tag, text.to_vec()));
            input = rest.to_vec();
        }
        let mut output = Vec::new();
        for (tag, text) in messages.iter().rev() {
            put_message(*tag, text, &mut output);
        }
        stream.write_all(&output)?;
        count += messages.len();
        if count > 1_000 {
            return Ok(());
        }
    }
}

#[test]
fn all_is_answered_over_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    let options = PoolOptions {
        connections_max: 2,
        depth_max: 100,
        // A connection that ends on an empty line is no loss, one that is in use may be.
        retries_max: 10,
        timeout: std::time::Duration::from_secs(60),
        ..PoolOptions::default()
    };
    let peers = vec![Peer::tcp("sim", address)];
    let mut pool = ConnectionPool::new(TaggedWire, "tagged", peers, options);
    let answers = all_answered(&mut pool, 4000, 300, |pool, port, keys, now| {
        let mut queries = Queries::default();
        for key in keys.clone() {
            assert!(queries.push(0, [Argument::Int(key as i64)].into_iter()));
        }
        let batch = Batch {
            fields: &[],
            call: &call(&["get ", ""], true),
            queries: &queries,
            order: &order(&queries),
            asks: &asks(keys),
            step: 0,
            deadline: Time::NEVER,
        };
        pool.submit(port, batch, now);
    });
    for (key, answer) in answers {
        let (_, answer) = answer.expect("it is answered");
        let answer = String::from_utf8(answer).unwrap();
        let text = answer.strip_prefix("define ").unwrap_or(&answer);
        assert_eq!(text, format!("get {key}"));
    }
}
