//! A layer over a port in memory, with a codec that changes nothing.

use super::state::{DROPPED_MAX, YIELD_AFTER};
use super::*;
use crate::port::{Client, Peer, Role, Sent};
use crate::testing::TestPort;
use std::io::IoSlice;

/// Makes records of what they hold.
struct Copies;

struct Record;

impl Codecs for Copies {
    type Codec = Record;

    fn accepted(&mut self, _: &Accepted) -> Option<Record> {
        Some(Record)
    }

    fn connecting(&mut self, _: &Peer) -> Option<Record> {
        Some(Record)
    }
}

impl Codec for Record {
    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> usize {
        let before = out.len();
        slices.iter().for_each(|slice| out.extend_from_slice(slice));
        out.len() - before
    }

    fn open(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        _: &mut Vec<u8>,
    ) -> Result<(), ErrorKind> {
        plain.extend_from_slice(input);
        Ok(())
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// Answers what comes, and is done with who asked.
#[derive(Default)]
struct AnswersOnce {
    /// How often it was asked for room.
    crowded: usize,
}

impl Handler for AnswersOnce {
    fn opened(&mut self, _: &mut dyn Port, _: Accepted, _: Time) {}

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        assert_eq!(port.send(id, bytes), Sent::Taken(bytes.len()));
        port.close(id);
    }

    fn crowded(&mut self, _: &mut dyn Port, _: Time) {
        self.crowded += 1;
    }
}

const MS: Duration = Duration::from_millis(1);

/// A layer with so many connections, closed a millisecond after each other, whose peers have not
/// taken the end of their answers.
fn closing(count: u32) -> (Layer<AnswersOnce, Copies>, TestPort) {
    let linger = 10 * YIELD_AFTER;
    let mut layer = Layer::new(AnswersOnce::default(), Copies, linger, Time::ZERO);
    let mut port = TestPort {
        room: 3,
        ..TestPort::default()
    };
    for index in 0..count {
        let (id, now) = (ConnectionId::new(index, 0), Time::ZERO + index * MS);
        let accepted = Accepted {
            connection: id,
            role: Role(1),
            peer: Client::Unix,
        };
        port.accept(id);
        layer.opened(&mut port, accepted, now);
        layer.received(&mut port, id, b"answer", now);
    }
    (layer, port)
}

#[test]
fn who_has_not_taken_the_end_of_an_answer_for_a_while_gives_way() {
    let (mut layer, mut port) = closing(20);
    let mut crowded = |port: &mut TestPort, now| {
        layer.crowded(port, now);
        (port.connections.len(), layer.handler.crowded)
    };
    let soon = Time::ZERO + (YIELD_AFTER - MS);
    assert_eq!(
        crowded(&mut port, soon),
        (20, 1),
        "they have a while for it"
    );
    // Those of the first eleven milliseconds, some at a time, and nobody else meanwhile.
    let later = Time::ZERO + YIELD_AFTER + 10 * MS;
    assert_eq!(crowded(&mut port, later), (20 - DROPPED_MAX, 1));
    let first = (0..DROPPED_MAX as u32).map(|index| ConnectionId::new(index, 0));
    assert!(
        first
            .into_iter()
            .all(|id| !port.connections.contains_key(&id))
    );
    assert_eq!(crowded(&mut port, later), (9, 1));
    assert_eq!(crowded(&mut port, later), (9, 2));
    assert_eq!(port.aborted.len(), 11);
}

#[test]
fn what_we_have_begun_has_no_place_that_a_client_could_have() {
    let (mut layer, mut port) = closing(0);
    let server = Peer::tcp("a server", ([127, 0, 0, 1], 1).into());
    let mut begun = None;
    layer.handle(&mut port, Time::ZERO, |_, port| {
        begun = port.connect(&server).ok();
    });
    let id = begun.expect("a connection");
    port.at(id).open = true;
    layer.connected(&mut port, id, Time::ZERO);
    layer.handle(&mut port, Time::ZERO, |_, port| {
        assert_eq!(port.send(id, b"question"), Sent::Taken(8));
        port.close(id);
    });
    // It takes its time, which the handler is not spared for, and is over in the end.
    layer.crowded(&mut port, Time::ZERO + 2 * YIELD_AFTER);
    assert_eq!((port.connections.len(), layer.handler.crowded), (1, 1));
    layer.tick(&mut port, Time::ZERO + 11 * YIELD_AFTER);
    assert!(port.connections.is_empty());
}

#[test]
fn many_that_take_nothing_are_dropped_some_at_a_time() {
    let (mut layer, mut port) = closing(20);
    let late = Time::ZERO + 11 * YIELD_AFTER;
    for left in [20 - DROPPED_MAX, 20 - 2 * DROPPED_MAX, 0] {
        assert!(layer.wake_at().is_some_and(|at| at <= late));
        layer.tick(&mut port, late);
        assert_eq!(port.connections.len(), left);
    }
    assert_eq!(layer.wake_at(), None);
}
