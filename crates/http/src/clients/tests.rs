//! Tests of clients' connections, over a port and a clock of the tests' own.

use super::*;
use crate::answer::Answered;
use crate::answer::body::Body;
use crate::answer::framing::Framing;
use crate::clients::connection::Begun;
use crate::clients::input::{Next, Reading};
use crate::clients::stream::Flow;
use crate::clients::turns::tests::{ID, Sends};
use crate::limits::RequestLimits;
use std::time::Duration;

/// The host of all answers in pieces.
const HOST: HostId = HostId(0);

/// A connection, of which so many requests were taken.
fn asked(limits: ClientLimits, requests: usize, port: &mut Sends) -> (Clients, Vec<Owed>) {
    let mut clients = Clients::new(limits, Time::ZERO);
    clients.opened(ID, ([127, 0, 0, 1], 1).into(), Time::ZERO);
    let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(requests);
    let limits = RequestLimits::default();
    let mut owed = Vec::new();
    let mut reading: Reading<'_> = clients.read(ID, &input).unwrap();
    while clients.next(port, &mut reading, &limits, Time::ZERO) == Next::Request {
        owed.push(reading.owed());
        reading.taken();
    }
    clients.read_done(port, reading, Time::ZERO);
    assert_eq!(owed.len(), requests);
    (clients, owed)
}

/// Begins an answer of so many bytes.
fn begin(clients: &mut Clients, port: &mut Sends, owed: Owed, length: u64) {
    let begun = Begun {
        host: HOST,
        framing: Framing::Length(length),
        answered: Answered::bare(200),
    };
    clients.begin(port, owed.slot, owed.shape, begun, Time::ZERO, |_, out| {
        out.extend_from_slice(b"head ");
        out.len()
    });
}

#[test]
fn a_client_that_is_too_slow_for_a_stream_as_a_whole_is_dropped() {
    // Milliseconds between two times at which it takes 100 bytes.
    for (pause, is_dropped) in [(500, true), (100, false)] {
        let limits = ClientLimits {
            rate_min: 1000,
            ..ClientLimits::within(Duration::from_secs(1))
        };
        let mut port = Sends {
            room: Some(5),
            ..Sends::default()
        };
        let (mut clients, owed) = asked(limits, 1, &mut port);
        begin(&mut clients, &mut port, owed[0], 1 << 20);
        clients.flush(&mut port, Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..20 {
            // A piece alone is taken in time.
            let flow = clients.append(&mut port, owed[0].slot, &[b'x'; 200], 1, now);
            clients.flush(&mut port, now);
            if flow == Flow::Gone {
                break;
            }
            for _ in 0..2 {
                now += Duration::from_millis(pause);
                clients.expire(&mut port, now, &mut Vec::new());
                port.room = Some(100);
                clients.writable(&mut port, ID, now);
            }
            clients.check().unwrap();
        }
        assert_eq!(!clients.has(ID), is_dropped, "{pause} ms");
    }
}

#[test]
fn a_host_that_takes_no_more_is_waited_for_whatever_else_was() {
    let mut port = Sends::default();
    let limits = ClientLimits::within(Duration::from_secs(1));
    let (mut clients, _) = asked(limits, 1, &mut port);
    assert!(clients.stall(&mut port, ID, Stall::Output));
    assert!(!clients.stall(&mut port, ID, Stall::Host));
    clients.settle(&mut port, ID, Time::ZERO);
    assert_eq!(clients.next_unstalled(Time::ZERO), None);
    clients.resume(ID);
    assert_eq!(clients.next_unstalled(Time::ZERO), Some(ID));
    assert!(clients.proceed(ID, false).is_some());
}

#[test]
fn a_long_answer_before_its_turn_is_sent_from_where_it_lies() {
    // With room in the socket for all, for some of it, and with something unsent before it.
    for room in [None, Some(3000), Some(3)] {
        let mut port = Sends {
            room,
            ..Sends::default()
        };
        let limits = ClientLimits::within(Duration::from_secs(1));
        let (mut clients, owed) = asked(limits, 3, &mut port);
        let long = vec![b'x'; 100_000];
        let mut answer = |port: &mut Sends, owed: &Owed, body: &[u8]| {
            let Owed { slot, shape, .. } = *owed;
            assert!(clients.answer(port, slot, shape, Time::ZERO, |_, out| {
                out.extend_from_slice(b"head ");
                Body::Bytes(body)
            }));
            let connection = clients.connections.get(ID).unwrap();
            let early = connection.position(1);
            early.map(|at| connection.pending[at].bytes.as_ptr())
        };
        let place = answer(&mut port, &owed[1], &long).expect("it is kept");
        answer(&mut port, &owed[0], &[b'o'; 2000]);
        answer(&mut port, &owed[2], b"last");
        clients.flush(&mut port, Time::ZERO);
        port.room = None;
        clients.writable(&mut port, ID, Time::ZERO);
        let sent = port.slices.iter().flatten();
        let end = place.wrapping_add(long.len());
        assert!(
            sent.clone().any(|(at, _)| (place..end).contains(at)),
            "{room:?}"
        );
        let mut whole = b"head ".to_vec();
        whole.extend([b'o'; 2000]);
        whole.extend(b"head ");
        whole.extend(&long);
        whole.extend(b"head last");
        assert!(port.bytes == whole, "{room:?}");
        clients.check().unwrap();
    }
}

#[test]
fn nobody_is_told_of_room_in_an_answer_whose_client_has_gone() {
    let mut port = Sends {
        room: Some(3),
        ..Sends::default()
    };
    let limits = ClientLimits::within(Duration::from_secs(1));
    for leaves in [false, true] {
        let (mut clients, owed) = asked(limits, 1, &mut port);
        let slot = owed[0].slot;
        begin(&mut clients, &mut port, owed[0], 1 << 20);
        clients.flush(&mut port, Time::ZERO);
        let flow = clients.append(&mut port, slot, &[b'x'; 200], 1, Time::ZERO);
        assert_eq!(flow, Flow::Wait);
        port.room = None;
        clients.writable(&mut port, ID, Time::ZERO);
        if leaves {
            clients.remove(ID);
        }
        let roomy = clients.next_roomy();
        assert_eq!(roomy, (!leaves).then_some((HOST, slot)));
        assert_eq!(clients.next_gone().is_some(), leaves);
        port.room = Some(3);
    }
}
