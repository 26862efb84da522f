//! Tests of clients' connections, over a port and a clock of the tests' own.

use super::*;
use crate::answer::Answered;
use crate::answer::body::Body;
use crate::answer::framing::Framing;
use crate::clients::connection::Begun;
use crate::clients::input::{Next, Reading};
use crate::clients::no_room::{Expected, KnownBy};
use crate::clients::stream::Flow;
use crate::clients::turns::tests::{ID, accepted};
use crate::limits::RequestLimits;
use rhythm_net::TURN_MAX;
use rhythm_net::testing::TestPort;
use std::cell::RefCell;
use std::time::Duration;

/// The host of all answers in pieces.
const HOST: HostId = HostId(0);

/// A connection, of which so many requests were taken.
fn asked(limits: ClientLimits, requests: usize, port: &mut TestPort) -> (Clients, Vec<Owed>) {
    let mut clients = Clients::new(limits, Time::ZERO);
    let owed = ask(&mut clients, ID, requests, port);
    (clients, owed)
}

/// Opens a connection and takes so many requests of it.
fn ask(clients: &mut Clients, id: ConnectionId, count: usize, port: &mut TestPort) -> Vec<Owed> {
    clients.opened(accepted(id), Time::ZERO);
    let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(count);
    let limits = RequestLimits::default();
    let mut owed = Vec::new();
    let mut reader = clients.read(id, &input).unwrap();
    while reader.next(port, &limits, Time::ZERO) == Next::Request {
        owed.push(reader.reading.owed());
        reader.reading.taken();
    }
    let left = reader.leave(port, Time::ZERO);
    clients.read_done(port, left);
    assert_eq!(owed.len(), count);
    owed
}

/// Begins an answer of so many bytes.
fn begin(clients: &mut Clients, port: &mut TestPort, owed: Owed, length: u64) {
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
        let mut port = TestPort::with(ID, 5);
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
                if clients.has(ID) {
                    port.at(ID).room = 100;
                }
                clients.writable(&mut port, ID, now);
            }
            clients.check().unwrap();
        }
        assert_eq!(!clients.has(ID), is_dropped, "{pause} ms");
        assert_eq!(clients.too_slow(), u64::from(is_dropped), "{pause} ms");
    }
}

#[test]
fn content_that_was_not_asked_for_yet_is_not_waited_for() {
    let mut port = TestPort::with(ID, usize::MAX);
    let timeout = Duration::from_secs(1);
    let (mut clients, owed) = asked(ClientLimits::within(timeout), 2, &mut port);
    clients.expect_pieces(owed[1].slot, false);
    clients.continue_with(&mut port, owed[1].slot, Time::ZERO);
    let settle = |clients: &mut Clients, port: &mut TestPort, now| {
        let mut at = clients.at_hand(ID).expect("it is open");
        assert!(!at.settle(port, now));
    };
    settle(&mut clients, &mut port, Time::ZERO);
    // The answer before its own is what all wait for.
    let answered = Time::ZERO + 3 * timeout;
    clients.expire(&mut port, answered, &mut Vec::new());
    assert!(clients.has(ID));
    clients.answer(
        &mut port,
        owed[0].slot,
        owed[0].shape,
        answered,
        |_, out| {
            out.extend_from_slice(b"first ");
            Body::Bytes(b"")
        },
    );
    clients.flush(&mut port, answered);
    assert_eq!(port.at(ID).sent, b"first HTTP/1.1 100 Continue\r\n\r\n");
    assert!(port.unanswered.contains(&ID), "to be asked is no answer");
    // From now on it is for the client.
    for (after, is_there) in [(timeout / 2, true), (3 * timeout, false)] {
        clients.expire(&mut port, answered + after, &mut Vec::new());
        assert_eq!(clients.has(ID), is_there, "{after:?}");
    }
}

#[test]
fn who_is_in_the_midst_of_a_request_or_asks_ahead_is_not_answered() {
    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const BODY_BEGUN: &[u8] = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n-";
    // It could have waited to be asked for its content.
    const ANNOUNCED: &[u8] =
        b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n--";
    let mut port = TestPort::with(ID, usize::MAX);
    let mut clients = Clients::new(ClientLimits::within(Duration::from_secs(1)), Time::ZERO);
    clients.opened(accepted(ID), Time::ZERO);
    let limits = RequestLimits {
        body_max: 2,
        ..RequestLimits::default()
    };
    // What comes next on the one connection, and whether all of it is answered.
    for (input, is_answered) in [
        (ASK, true),
        (&[ASK, ASK].concat(), false),
        (ASK, true),
        (&[ASK, b"GET /"].concat(), false),
        (&ASK[5..], true),
        (&[ASK, BODY_BEGUN].concat(), false),
        (b"-", true),
        (ANNOUNCED, false),
        (ASK, true),
    ] {
        // As a driver does with what comes, and with what is sent.
        port.unanswered.remove(&ID);
        let mut owed = Vec::new();
        let mut reader = clients.read(ID, input).expect("it is open");
        loop {
            match reader.next(&mut port, &limits, Time::ZERO) {
                Next::Request => owed.push(reader.reading.owed()),
                Next::Head => continue,
                Next::Nothing => break,
                next => panic!("{next:?}"),
            }
            reader.reading.taken();
        }
        let left = reader.leave(&mut port, Time::ZERO);
        clients.read_done(&mut port, left);
        for Owed { slot, shape, .. } in owed {
            clients.answer(&mut port, slot, shape, Time::ZERO, |_, _| {
                Body::Bytes(b"it")
            });
        }
        clients.flush(&mut port, Time::ZERO);
        assert_eq!(
            !port.unanswered.contains(&ID),
            is_answered,
            "{}",
            input.escape_ascii()
        );
    }
}

#[test]
fn a_host_that_takes_no_more_is_waited_for_whatever_else_was() {
    let mut port = TestPort::with(ID, usize::MAX);
    let limits = ClientLimits::within(Duration::from_secs(1));
    let (mut clients, _) = asked(limits, 1, &mut port);
    assert!(clients.stall(&mut port, ID, Stall::Output));
    assert!(!clients.stall(&mut port, ID, Stall::Host));
    let mut at = clients.at_hand(ID).expect("it is open");
    assert!(!at.settle(&mut port, Time::ZERO));
    assert_eq!(clients.next_unstalled(Time::ZERO), None);
    clients.resume(ID);
    assert_eq!(clients.next_unstalled(Time::ZERO), Some(ID));
    assert!(clients.proceed(ID, false).is_some());
}

#[test]
fn a_buffer_is_taken_only_where_it_is_kept_as_it_is() {
    let mut port = TestPort::with(ID, 3);
    let limits = ClientLimits::within(Duration::from_secs(1));
    let (mut clients, owed) = asked(limits, 3, &mut port);
    let buffer = RefCell::new(Vec::new());
    // Before its turn, when it can be sent, and behind what is being sent.
    for (ordinal, byte, is_taken) in [(1, b'b', false), (0, b'a', true), (2, b'c', true)] {
        *buffer.borrow_mut() = vec![byte; 6000];
        let Owed { slot, shape, .. } = owed[ordinal];
        assert!(
            clients.answer(&mut port, slot, shape, Time::ZERO, |_, out| {
                out.extend_from_slice(b"head ");
                Body::Own(&buffer, 5000)
            })
        );
        let left = buffer.take();
        assert_eq!(left.is_empty(), is_taken, "{ordinal}");
        clients.check().unwrap();
    }
    clients.flush(&mut port, Time::ZERO);
    port.at(ID).room = usize::MAX;
    clients.writable(&mut port, ID, Time::ZERO);
    let whole = [b'a', b'b', b'c'].map(|byte| [b"head ", &[byte; 5000][..]].concat());
    assert!(port.at(ID).sent == whole.concat());
}

#[test]
fn a_long_answer_before_its_turn_is_sent_from_where_it_lies() {
    // With room in the socket for all, for some of it, and with something unsent before it.
    for room in [usize::MAX, 3000, 3] {
        let mut port = TestPort::with(ID, room);
        let limits = ClientLimits::within(Duration::from_secs(1));
        let (mut clients, owed) = asked(limits, 3, &mut port);
        let long = vec![b'x'; 100_000];
        let mut answer = |port: &mut TestPort, owed: &Owed, body: &[u8]| {
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
        port.at(ID).room = usize::MAX;
        clients.writable(&mut port, ID, Time::ZERO);
        let sent = port.at(ID).slices.iter().flatten();
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
        assert!(port.at(ID).sent == whole, "{room:?}");
        clients.check().unwrap();
    }
}

#[test]
fn nobody_is_told_of_room_in_an_answer_whose_client_has_gone() {
    let mut port = TestPort::with(ID, 3);
    let limits = ClientLimits::within(Duration::from_secs(1));
    for leaves in [false, true] {
        let (mut clients, owed) = asked(limits, 1, &mut port);
        let slot = owed[0].slot;
        begin(&mut clients, &mut port, owed[0], 1 << 20);
        clients.flush(&mut port, Time::ZERO);
        let flow = clients.append(&mut port, slot, &[b'x'; 200], 1, Time::ZERO);
        assert_eq!(flow, Flow::Wait);
        port.at(ID).room = usize::MAX;
        clients.writable(&mut port, ID, Time::ZERO);
        if leaves {
            clients.remove(ID);
        }
        let roomy = clients.next_roomy();
        assert_eq!(roomy, (!leaves).then_some((HOST, slot)));
        assert_eq!(clients.next_gone().is_some(), leaves);
        port.at(ID).room = 3;
    }
}

/// Its end was told while something else was at work on its request, which then goes to a host.
#[test]
fn a_client_that_finished_before_its_host_was_asked_is_gone_for_one_that_ends_with_input() {
    for ends in [false, true] {
        let mut port = TestPort::with(ID, usize::MAX);
        let (mut clients, owed) = asked(ClientLimits::within(Duration::from_secs(1)), 1, &mut port);
        let slot = owed[0].slot;
        clients.ended(&mut port, ID, Ended::PeerFinished, Time::ZERO);
        assert!(clients.has(ID), "a page would answer it");
        clients.await_host_while(&mut port, slot, HOST, ends);
        assert_eq!(clients.has(ID), !ends);
        let gone = clients.next_gone();
        assert_eq!(gone, ends.then_some((HOST, (slot, None))));
        clients.check().expect("sound");
    }
}

#[test]
fn what_is_kept_beside_an_answer_is_held_until_it_is_less() {
    let mut port = TestPort::with(ID, usize::MAX);
    let (mut clients, owed) = asked(ClientLimits::within(Duration::from_secs(1)), 1, &mut port);
    let slot = owed[0].slot;
    clients.await_host(&mut port, slot, HOST);
    let before = clients.held.total;
    clients.keeps_beside(&mut port, slot, 1000);
    assert_eq!(clients.held.total, before + 1000);
    clients.keeps_less_beside(slot, 900);
    assert_eq!(clients.held.total, before + 100);
    clients.keeps_less_beside(slot, 900);
    assert_eq!(clients.held.total, before);
    clients.check().expect("sound");
}

/// Another connection.
const OTHER: ConnectionId = ConnectionId::new(1, 1);

/// Opens a connection, and has it ask so often.
fn asks(
    clients: &mut Clients,
    port: &mut TestPort,
    id: ConnectionId,
    requests: usize,
) -> Vec<Owed> {
    port.accept(id);
    clients.opened(accepted(id), Time::ZERO);
    let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(requests);
    let reading = clients.read(id, &input).expect("it is open").pause();
    taken(clients, port, reading, 0).0
}

/// Takes what requests it may, whose answers are expected to have so many bytes, and says what the
/// next waits for.
fn taken(
    clients: &mut Clients,
    port: &mut TestPort,
    reading: Reading<'_>,
    expected: usize,
) -> (Vec<Owed>, Option<Stall>) {
    taken_as(clients, port, reading, Expected::bytes(expected))
}

/// The same, where that is known in some way.
fn taken_as(
    clients: &mut Clients,
    port: &mut TestPort,
    reading: Reading<'_>,
    expected: Expected,
) -> (Vec<Owed>, Option<Stall>) {
    let (mut owed, mut waits) = (Vec::new(), None);
    let limits = RequestLimits::default();
    let mut reader = clients.go_on(reading).expect("it is open");
    while reader.next(port, &limits, Time::ZERO) == Next::Request {
        match reader.admit(Some(expected)) {
            Ok(()) => {
                owed.push(reader.reading.owed());
                reader.reading.taken();
            }
            Err(stall) => {
                waits = Some(stall);
                reader.put_back(port, stall, Time::ZERO);
                break;
            }
        }
    }
    let left = reader.leave(port, Time::ZERO);
    clients.read_done(port, left);
    (owed, waits)
}

/// Answers a request with so many bytes.
fn answer(clients: &mut Clients, port: &mut TestPort, owed: Owed, length: usize) {
    let Owed { slot, shape, .. } = owed;
    let body = vec![b'x'; length];
    clients.answer(port, slot, shape, Time::ZERO, |_, _| Body::Bytes(&body));
    clients.flush(port, Time::ZERO);
    clients.check().unwrap();
}

/// Admits the request at hand, whose answer is expected to have so many bytes, and takes it or puts
/// it back.
fn admitted(
    clients: &mut Clients,
    port: &mut TestPort,
    reading: Reading<'_>,
    (bytes, is_taken): (usize, bool),
) -> Owed {
    let mut reader = clients.go_on(reading).expect("it is open");
    let next = reader.next(port, &RequestLimits::default(), Time::ZERO);
    assert_eq!(next, Next::Request);
    assert_eq!(reader.admit(Some(Expected::bytes(bytes))), Ok(()));
    let owed = reader.reading.owed();
    match is_taken {
        true => reader.reading.taken(),
        false => assert!(reader.put_back(port, Stall::Context, Time::ZERO)),
    }
    let left = reader.leave(port, Time::ZERO);
    clients.read_done(port, left);
    clients.turn_is_over(Duration::ZERO);
    clients.check().unwrap();
    owed
}

#[test]
fn what_is_promised_is_what_is_under_way_however_often_it_was_put_back_or_asked_behind() {
    const A: usize = 5000;
    const B: usize = 7000;
    let mut port = TestPort::default();
    port.accept(ID);
    let mut clients = Clients::new(ClientLimits::within(Duration::from_secs(1)), Time::ZERO);
    clients.opened(accepted(ID), Time::ZERO);
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let came = |clients: &mut Clients| clients.read(ID, ask).expect("it is open").pause();
    let reading = came(&mut clients);
    let mut first = admitted(&mut clients, &mut port, reading, (A, true));
    // No context is free for the second, again and again.
    let reading = came(&mut clients);
    admitted(&mut clients, &mut port, reading, (B, false));
    assert_eq!(clients.held.promised, A);
    let again = |clients: &mut Clients| clients.proceed(ID, true).expect("it waits").pause();
    for _ in 0..3 {
        let reading = again(&mut clients);
        admitted(&mut clients, &mut port, reading, (B, false));
        assert_eq!(clients.held.promised, A);
    }
    let reading = again(&mut clients);
    let mut second = admitted(&mut clients, &mut port, reading, (B, true));
    assert_eq!(clients.held.promised, A + B);
    // One of them is always under way.
    for _ in 0..3 {
        answer(&mut clients, &mut port, first, 10);
        assert_eq!(clients.held.promised, B);
        let reading = came(&mut clients);
        let third = admitted(&mut clients, &mut port, reading, (B, true));
        assert_eq!(clients.held.promised, 2 * B);
        (first, second) = (second, third);
    }
    answer(&mut clients, &mut port, first, 10);
    answer(&mut clients, &mut port, second, 10);
    assert_eq!(clients.held.promised, 0);
}

#[test]
fn of_what_is_promised_each_part_is_given_back_as_it_was_promised() {
    const LONG: usize = 9000;
    const SHORT: usize = 100;
    let mut port = TestPort::default();
    port.accept(ID);
    let limits = ClientLimits::within(Duration::from_secs(1));
    let mut clients = Clients::new(limits, Time::ZERO);
    clients.opened(accepted(ID), Time::ZERO);
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let take = |clients: &mut Clients, port: &mut TestPort, bytes| {
        let reading = clients.read(ID, ask).expect("it is open").pause();
        admitted(clients, port, reading, (bytes, true))
    };
    // One follows the other, so that there is always one under way.
    let mut before = take(&mut clients, &mut port, LONG);
    for _ in 0..3 {
        let short = take(&mut clients, &mut port, SHORT);
        assert_eq!(clients.held.promised, LONG + SHORT);
        answer(&mut clients, &mut port, before, 10);
        assert_eq!(clients.held.promised, SHORT);
        before = take(&mut clients, &mut port, LONG);
        answer(&mut clients, &mut port, short, 10);
        assert_eq!(clients.held.promised, LONG);
    }
    // What is answered before its turn is held, and not promised.
    let [second, third] = [SHORT, LONG].map(|bytes| take(&mut clients, &mut port, bytes));
    answer(&mut clients, &mut port, third, 10);
    assert_eq!(clients.held.promised, LONG + SHORT);
    answer(&mut clients, &mut port, second, 10);
    assert_eq!(clients.held.promised, LONG);
    // A connection that is gone is promised nothing.
    take(&mut clients, &mut port, SHORT);
    clients.ended(
        &mut port,
        ID,
        Ended::Failed(std::io::ErrorKind::ConnectionReset),
        Time::ZERO,
    );
    assert_eq!(clients.held.promised, 0);
}

#[test]
fn who_asks_for_one_thing_goes_before_who_asks_for_more() {
    let mut port = TestPort::default();
    let limits = ClientLimits {
        pipelined_max: 1000,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    let mut clients = Clients::new(limits, Time::ZERO);
    let many = asks(&mut clients, &mut port, ID, 500).len();
    assert!((2..100).contains(&many), "{many} in one turn");
    // The turn's quantum is used up; a first request needs none.
    assert_eq!(asks(&mut clients, &mut port, OTHER, 500).len(), 1);
    assert_eq!(clients.next_unstalled(Time::ZERO), None);
    assert!(!clients.has_news(Time::ZERO) && clients.wake_at() == Some(Time::ZERO));
    // Then each in its turn, who has waited longest first.
    for id in [ID, OTHER, ID, OTHER] {
        clients.turn_is_over(Duration::ZERO);
        assert_eq!(clients.next_unstalled(Time::ZERO), Some(id));
        let reading = clients.proceed(id, false).expect("it is its turn").pause();
        assert!(taken(&mut clients, &mut port, reading, 0).0.len() > 1);
        clients.check().unwrap();
    }
}

#[test]
fn what_of_a_turn_is_for_later_requests_follows_from_how_long_turns_take() {
    let mut port = TestPort::default();
    let limits = ClientLimits {
        pipelined_max: 100_000,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    let mut clients = Clients::new(limits, Time::ZERO);
    asks(&mut clients, &mut port, ID, 5000);
    // How many there are of each slice of a turn's, until it has taken so long.
    let mut slices = |clients: &mut Clients, took: Duration| {
        let mut counts = Vec::new();
        while let Some(id) = clients.next_unstalled(Time::ZERO) {
            let reading = clients.proceed(id, false).expect("it waits").pause();
            counts.push(taken(clients, &mut port, reading, 0).0.len());
            clients.next_slice(|| took);
        }
        counts
    };
    let mut in_turns = |clients: &mut Clients, took: Duration| {
        let counts = (0..8).map(|_| {
            clients.turn_is_over(took);
            slices(clients, Duration::ZERO)
        });
        counts.last().unwrap().iter().sum::<usize>()
    };
    let first = in_turns(&mut clients, TURN_MAX * 2);
    let quick = in_turns(&mut clients, TURN_MAX / 2);
    let slow = in_turns(&mut clients, TURN_MAX * 2);
    assert!(
        1 <= first && first == slow && 10 * slow < quick,
        "{first} {quick} {slow}"
    );
    // However much it has, a turn that is long already has one slice of it.
    in_turns(&mut clients, TURN_MAX / 2);
    clients.turn_is_over(TURN_MAX / 2);
    let of_a_long_one = slices(&mut clients, TURN_MAX / 2);
    assert_eq!(of_a_long_one.len(), 1);
    assert!(4 * of_a_long_one[0] <= quick, "{of_a_long_one:?} {quick}");
}

#[test]
fn crowds_are_closed_while_the_turn_has_time() {
    const CROWD: u32 = 20;
    for closing_takes in [Duration::ZERO, TURN_MAX] {
        let mut port = TestPort {
            closing_takes,
            ..TestPort::default()
        };
        let limits = ClientLimits {
            yield_after: Duration::from_secs(2),
            ..ClientLimits::within(Duration::from_secs(1))
        };
        let mut clients = Clients::new(limits, Time::ZERO);
        let come = |clients: &mut Clients, port: &mut TestPort| {
            for slot in 0..CROWD {
                let id = ConnectionId::new(slot, 1);
                port.accept(id);
                clients.opened(accepted(id), Time::ZERO);
            }
        };
        come(&mut clients, &mut port);
        let mut now = Time::ZERO + Duration::from_secs(2);
        let closed = clients.make_room(&mut port, now);
        let at_a_time = match closing_takes {
            Duration::ZERO => CROWD as usize,
            _ => 4,
        };
        assert_eq!(closed, at_a_time);
        // Those that are late go on with the rest, some in each turn.
        let mut turns = 0;
        while clients.open() > 0 {
            let before = clients.open();
            now += Duration::from_millis(100);
            clients.expire(&mut port, now, &mut Vec::new());
            assert_eq!(clients.open(), before - before.min(at_a_time));
            turns += 1;
            assert!(turns < 10, "they are closed some time");
        }
        clients.check().unwrap();
    }
}

#[test]
fn long_answers_wait_for_room_and_are_not_made_to_be_thrown_away() {
    const LONG: usize = 600_000;
    let limits = ClientLimits {
        held_max: 1 << 20,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    for reads in [true, false] {
        let mut port = TestPort {
            room: 0,
            ..TestPort::default()
        };
        let mut clients = Clients::new(limits, Time::ZERO);
        let ask = |clients: &mut Clients, port: &mut TestPort, id: ConnectionId| {
            port.accept(id);
            clients.opened(accepted(id), Time::ZERO);
            let reader = clients.read(id, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            let reading = reader.expect("it is open").pause();
            clients.turn_is_over(Duration::ZERO);
            taken(clients, port, reading, LONG)
        };
        let (first, waits) = ask(&mut clients, &mut port, ID);
        assert_eq!((first.len(), waits), (1, None));
        // Promised, then held.
        let (none, waits) = ask(&mut clients, &mut port, OTHER);
        assert_eq!((none.len(), waits), (0, Some(Stall::Room)));
        assert_eq!(clients.next_unstalled(Time::ZERO), None);
        answer(&mut clients, &mut port, first[0], LONG);
        assert_eq!(clients.next_unstalled(Time::ZERO), None);
        assert_eq!(clients.gave_way(), 0);
        let mut now = Time::ZERO;
        if reads {
            port.at(ID).room = usize::MAX;
            clients.writable(&mut port, ID, now);
        } else {
            // Whoever holds it may never read.
            now = clients.wake_at().expect("it goes on without");
            assert!(now > Time::ZERO);
        }
        assert_eq!(clients.next_unstalled(now), Some(OTHER));
        let reading = clients
            .proceed(OTHER, false)
            .expect("it has waited")
            .pause();
        let (second, waits) = taken(&mut clients, &mut port, reading, LONG);
        assert_eq!((second.len(), waits), (1, None));
        answer(&mut clients, &mut port, second[0], LONG);
        assert_eq!(
            (clients.has(ID), clients.gave_way()),
            (reads, u64::from(!reads))
        );
    }
}

/// Opens a connection that asks for one answer, and says what that waits for.
fn waits_for(
    clients: &mut Clients,
    port: &mut TestPort,
    id: ConnectionId,
    expected: Expected,
) -> Option<Stall> {
    port.accept(id);
    clients.opened(accepted(id), Time::ZERO);
    let reader = clients.read(id, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let reading = reader.expect("it is open").pause();
    taken_as(clients, port, reading, expected).1
}

/// Connections, of which the first holds all the room that there is.
fn without_room(port: &mut TestPort) -> Clients {
    let limits = ClientLimits {
        held_max: 1 << 20,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    let mut clients = Clients::new(limits, Time::ZERO);
    let expected = Expected::bytes(1 << 20);
    assert_eq!(waits_for(&mut clients, port, ID, expected), None);
    clients.turn_is_over(Duration::ZERO);
    clients
}

#[test]
fn who_comes_and_goes_while_others_wait_is_forgotten() {
    let mut port = TestPort::default();
    let mut clients = without_room(&mut port);
    // One stays in front.
    for slot in 1..100_000 {
        let id = ConnectionId::new(1 + slot.min(2), slot);
        let waits = waits_for(&mut clients, &mut port, id, Expected::bytes(100_000));
        assert_eq!(waits, Some(Stall::Room));
        clients.turn_is_over(Duration::ZERO);
        if slot > 1 {
            clients.remove(id);
            port.connections.remove(&id);
        }
        assert!(clients.waiting() <= 6, "{} wait", clients.waiting());
    }
    clients.check().unwrap();
}

#[test]
fn whose_turn_it_is_is_let_through_only_where_it_has_waited() {
    let mut port = TestPort::default();
    let mut clients = without_room(&mut port);
    let unknown = Expected {
        by: KnownBy::Nothing,
        ..Expected::bytes(1 << 20)
    };
    let ids: [ConnectionId; 3] = std::array::from_fn(|slot| ConnectionId::new(2 + slot as u32, 1));
    for id in ids {
        let waits = waits_for(&mut clients, &mut port, id, unknown);
        assert_eq!(waits, Some(Stall::Room));
    }
    let now = clients.wake_at().expect("one goes on without room");
    let mut next = |expected: Expected| {
        let id = clients.next_unstalled(now)?;
        let reading = clients.proceed(id, false).expect("it waited").pause();
        let (owed, waits) = taken_as(&mut clients, &mut port, reading, expected);
        Some((id, owed.len(), waits))
    };
    // The page is known by then: short answers go on at once, long ones wait with others of theirs.
    assert_eq!(next(Expected::bytes(1000)), Some((ids[0], 1, None)));
    let long = Expected::bytes(900_000);
    assert_eq!(next(long), Some((ids[1], 0, Some(Stall::Room))));
    // One is let through there, and the next after a while.
    assert_eq!(next(long), Some((ids[1], 1, None)));
    assert_eq!(next(unknown), None);
    clients.check().unwrap();
}

#[test]
fn who_waits_for_a_turn_does_not_stand_behind_all_who_wait_for_room() {
    let mut port = TestPort::default();
    let mut clients = without_room(&mut port);
    let long = Expected::bytes(100_000);
    let crowd: Vec<ConnectionId> = (2..10).map(|slot| ConnectionId::new(slot, 1)).collect();
    for id in &crowd {
        let waits = waits_for(&mut clients, &mut port, *id, long);
        assert_eq!(waits, Some(Stall::Room));
    }
    // There is room again, and one of them takes all that a turn has.
    clients.remove(ID);
    clients.turn_is_over(Duration::from_secs(1));
    let next = |clients: &mut Clients, port: &mut TestPort| {
        let id = clients.next_unstalled(Time::ZERO).expect("they wait");
        let reading = clients.proceed(id, false).expect("it waited").pause();
        assert_eq!(taken_as(clients, port, reading, long).1, None);
        assert_eq!(clients.next_unstalled(Time::ZERO), None);
        id
    };
    assert_eq!(next(&mut clients, &mut port), crowd[0]);
    let newcomer = ConnectionId::new(10, 1);
    let waits = waits_for(&mut clients, &mut port, newcomer, long);
    assert_eq!(waits, Some(Stall::Turn));
    for expected in [newcomer, crowd[1], crowd[2]] {
        clients.turn_is_over(Duration::from_secs(1));
        assert_eq!(next(&mut clients, &mut port), expected);
    }
    clients.check().unwrap();
}

#[test]
fn who_takes_nothing_of_an_answer_is_not_waited_for_in_a_drain() {
    for (takes, is_dropped) in [(0, true), (10_000, false)] {
        let limits = ClientLimits {
            rate_min: 1000,
            ..ClientLimits::within(Duration::from_secs(60))
        };
        let mut port = TestPort::with(ID, 0);
        let (mut clients, owed) = asked(limits, 1, &mut port);
        answer(&mut clients, &mut port, owed[0], 1 << 20);
        let mut now = Time::ZERO;
        clients.drain(now + Duration::from_secs(1));
        let mut ended = None;
        for _ in 0..10 {
            now += Duration::from_millis(500);
            clients.expire(&mut port, now, &mut Vec::new());
            if clients.has(ID) {
                port.at(ID).room = takes;
                clients.writable(&mut port, ID, now);
            } else {
                ended.get_or_insert(now);
            }
            clients.check().unwrap();
        }
        assert_eq!(ended.is_some(), is_dropped, "{takes}");
        assert!(ended.is_none_or(|at| at > Time::ZERO + Duration::from_secs(1)));
    }
}

#[test]
fn requests_that_are_not_answered_when_their_client_goes_are_told_of() {
    let mut port = TestPort::default();
    let limits = ClientLimits::within(Duration::from_secs(1));
    let mut clients = Clients::new(limits, Time::ZERO);
    let owed = asks(&mut clients, &mut port, ID, 1);
    answer(&mut clients, &mut port, owed[0], 3);
    clients.remove(ID);
    assert_eq!(clients.deserted(), 0, "it had its answer");
    asks(&mut clients, &mut port, OTHER, 2);
    clients.remove(OTHER);
    assert_eq!(clients.deserted(), 1);
    clients.check().unwrap();
}

/// Whether what a connection asked last fits what it may have under way, with an answer of so many
/// bytes.
fn fits(clients: &mut Clients, id: ConnectionId, expected: usize) -> bool {
    let budget = clients.held.budget(clients.upkeep.limits.unsent_max);
    let connection = clients.connections.get_mut(id).expect("it is open");
    connection.note_expected(Some(Expected::bytes(expected)), budget)
}

#[test]
fn where_half_of_all_memory_is_held_nobody_has_a_second_answer_under_way() {
    let limits = ClientLimits {
        held_max: 20_000,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    let mut port = TestPort::with(ID, 0);
    let (mut clients, owed) = asked(limits, 2, &mut port);
    let other = ConnectionId::new(1, 1);
    port.accept(other);
    ask(&mut clients, other, 2, &mut port);
    for (owed, bytes, has_room) in [(owed[0], 9_000, true), (owed[1], 3_000, false)] {
        clients.answer(&mut port, owed.slot, owed.shape, Time::ZERO, |_, _| {
            Body::Bytes(&[b'x'; 9_000][..bytes])
        });
        clients.flush(&mut port, Time::ZERO);
        assert_eq!(fits(&mut clients, other, 10), has_room);
    }
    port.at(ID).room = usize::MAX;
    clients.writable(&mut port, ID, Time::ZERO);
    assert!(fits(&mut clients, other, 10), "all is sent");
}

#[test]
fn an_answer_larger_than_all_memory_is_sent_where_nobody_else_holds_any() {
    let limits = ClientLimits {
        held_max: 1000,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    let mut port = TestPort::with(ID, 10);
    let (mut clients, owed) = asked(limits, 1, &mut port);
    let page = vec![b'x'; 30_000];
    clients.answer(
        &mut port,
        owed[0].slot,
        owed[0].shape,
        Time::ZERO,
        |_, _| Body::Bytes(&page),
    );
    clients.flush(&mut port, Time::ZERO);
    clients.check().unwrap();
    assert_eq!((clients.has(ID), clients.gave_way()), (true, 0));
    port.at(ID).room = usize::MAX;
    clients.writable(&mut port, ID, Time::ZERO);
    assert!(port.at(ID).sent == page);
}

#[test]
fn so_many_requests_of_a_connection_are_under_way_and_no_more() {
    let limits = ClientLimits {
        pipelined_max: 3,
        ..ClientLimits::within(Duration::from_secs(1))
    };
    let mut port = TestPort::with(ID, usize::MAX);
    let (mut clients, _) = asked(limits, 2, &mut port);
    let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5);
    let limits = RequestLimits::default();
    let mut reader = clients.read(ID, &input).unwrap();
    let next = reader.next(&mut port, &limits, Time::ZERO);
    assert_eq!(next, Next::Request);
    reader.reading.taken();
    let next = reader.next(&mut port, &limits, Time::ZERO);
    assert_eq!(next, Next::Nothing);
    let left = reader.leave(&mut port, Time::ZERO);
    clients.read_done(&mut port, left);
}

#[test]
fn who_takes_much_in_good_time_does_not_give_way_before_who_takes_nothing() {
    const PAGE: usize = 1 << 20;
    const DEAD: u32 = 40;
    for is_fast in [true, false] {
        let limits = ClientLimits {
            held_max: 2 * PAGE,
            send_timeout: Duration::from_secs(60),
            ..ClientLimits::within(Duration::from_secs(60))
        };
        let mut port = TestPort::with(ID, 0);
        let (mut clients, owed) = asked(limits, 1, &mut port);
        answer(&mut clients, &mut port, owed[0], PAGE);
        // Each holds a little, all together as much.
        for slot in 0..DEAD {
            let dead = ConnectionId::new(2 + slot, 1);
            port.accept(dead);
            port.at(dead).room = 0;
            let owed = ask(&mut clients, dead, 1, &mut port);
            answer(
                &mut clients,
                &mut port,
                owed[0],
                PAGE / DEAD as usize - 1000,
            );
        }
        let mut now = Time::ZERO;
        for _ in 0..3 {
            now += Duration::from_secs(1);
            port.at(ID).room = if is_fast { PAGE / 8 } else { 10 };
            clients.writable(&mut port, ID, now);
        }
        now += Duration::from_millis(1500);
        port.accept(OTHER);
        port.at(OTHER).room = 0;
        let Owed { slot, shape, .. } = ask(&mut clients, OTHER, 1, &mut port)[0];
        let body = vec![b'x'; PAGE * 3 / 4];
        clients.answer(&mut port, slot, shape, now, |_, _| Body::Bytes(&body));
        clients.flush(&mut port, now);
        clients.check().unwrap();
        assert!(clients.gave_way() > 0 && clients.has(OTHER));
        assert_eq!(clients.has(ID), is_fast, "{}", clients.gave_way());
    }
}

#[test]
fn who_takes_its_answer_in_good_time_keeps_its_place_though_it_was_not_served_for_a_while() {
    let limits = ClientLimits {
        yield_after: Duration::from_secs(1),
        ..ClientLimits::within(Duration::from_secs(60))
    };
    let mut port = TestPort::with(ID, 0);
    port.accept(OTHER);
    port.at(OTHER).room = 0;
    let (mut clients, owed) = asked(limits, 1, &mut port);
    answer(&mut clients, &mut port, owed[0], 10_000);
    let owed = ask(&mut clients, OTHER, 1, &mut port);
    answer(&mut clients, &mut port, owed[0], 10_000);
    // Of that time as much is missing at the least rate as others have to wait for a place.
    let mut now = Time::ZERO + Duration::from_millis(1500);
    for _ in 0..10 {
        now += Duration::from_millis(5);
        port.at(ID).room = 100;
        clients.writable(&mut port, ID, now);
    }
    assert_eq!(clients.make_room(&mut port, now), 1);
    assert!(clients.has(ID) && !clients.has(OTHER));
    // Not when it takes no more.
    now += Duration::from_secs(2);
    assert_eq!(clients.make_room(&mut port, now), 1);
    assert!(!clients.has(ID));
}

#[test]
fn nothing_is_written_behind_an_answer_that_ends_with_its_connection() {
    // The next is answered before it begins, before it ends, and when it has.
    for at in 0..3 {
        let mut port = TestPort::with(ID, usize::MAX);
        let limits = ClientLimits::within(Duration::from_secs(1));
        let (mut clients, owed) = asked(limits, 3, &mut port);
        clients.await_host(&mut port, owed[2].slot, HOST);
        let next = |clients: &mut Clients, port: &mut TestPort, now: usize| {
            if at == now {
                answer(clients, port, owed[1], 100);
            }
        };
        next(&mut clients, &mut port, 0);
        let begun = Begun {
            host: HOST,
            framing: Framing::Close,
            answered: Answered::bare(200),
        };
        let Owed { slot, shape, .. } = owed[0];
        clients.begin(&mut port, slot, shape, begun, Time::ZERO, |_, out| {
            out.extend_from_slice(b"head ");
            out.len()
        });
        next(&mut clients, &mut port, 1);
        let flow = clients.append(&mut port, slot, b"body", usize::MAX, Time::ZERO);
        assert_eq!(flow, Flow::More);
        clients.check().unwrap();
        assert!(clients.finish(&mut port, slot, Time::ZERO).is_some());
        next(&mut clients, &mut port, 2);
        clients.flush(&mut port, Time::ZERO);
        assert!(!clients.has(ID));
        assert_eq!(port.closed[0].sent, b"head body", "{at}");
        // Whoever is at work on another is told to leave off.
        let gone = [clients.next_gone(), clients.next_gone()];
        assert_eq!(gone, [Some((HOST, (owed[2].slot, None))), None]);
        clients.check().unwrap();
    }
}

#[test]
fn content_is_taken_while_its_client_takes_nothing_and_no_request_is() {
    let mut port = TestPort::with(ID, 0);
    let limits = RequestLimits::default();
    let within = ClientLimits::within(Duration::from_secs(1));
    let mut clients = Clients::new(within, Time::ZERO);
    clients.opened(accepted(ID), Time::ZERO);
    let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n";
    let mut reader = clients.read(ID, head).expect("it is open");
    assert_eq!(reader.next(&mut port, &limits, Time::ZERO), Next::Head);
    let mut reading = reader.pause();
    let owed = clients.accept(ID, reading.head()).expect("it is open");
    clients.expect_pieces(owed.slot, false);
    clients.await_host(&mut port, owed.slot, HOST);
    reading.in_pieces(HOST, owed.slot);
    let reader = clients.go_on(reading).expect("it is open");
    let left = reader.leave(&mut port, Time::ZERO);
    clients.read_done(&mut port, left);
    begin(&mut clients, &mut port, owed, 1 << 20);
    clients.flush(&mut port, Time::ZERO);
    let flow = clients.append(&mut port, owed.slot, &[b'x'; 1000], 1, Time::ZERO);
    assert_eq!(flow, Flow::Wait, "its host makes no more of it");
    let mut next = |clients: &mut Clients, bytes: &[u8]| {
        let mut reader = clients.read(ID, bytes).expect("it is open");
        let next = reader.next(&mut port, &limits, Time::ZERO);
        if next == Next::Piece {
            reader.reading.taken();
        }
        let left = reader.leave(&mut port, Time::ZERO);
        clients.read_done(&mut port, left);
        clients.check().unwrap();
        next
    };
    for _ in 0..5 {
        assert_eq!(next(&mut clients, b"--"), Next::Piece);
    }
    let again = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(next(&mut clients, again), Next::Nothing);
}

#[test]
fn of_many_that_are_late_at_once_the_others_are_left_alone() {
    const CROWD: u32 = 1000;
    let mut port = TestPort::default();
    let limits = ClientLimits::within(Duration::from_secs(1));
    let mut clients = Clients::new(limits, Time::ZERO);
    for slot in 0..CROWD {
        let id = ConnectionId::new(slot, 1);
        port.accept(id);
        clients.opened(accepted(id), Time::ZERO);
    }
    let due = Time::ZERO + Duration::from_secs(1);
    let now = due + Duration::from_secs(1);
    let mut turns = 0;
    while clients.open() > 0 {
        assert!(clients.wake_at().is_some_and(|at| at <= now));
        clients.expire(&mut port, now, &mut Vec::new());
        let timers = &clients.upkeep.timers;
        let mut left = clients.connections.iter();
        assert!(left.all(|(id, _)| timers.deadline(id.slot()) == Some(due)));
        turns += 1;
    }
    assert!((10..100).contains(&turns), "{turns}");
    clients.check().unwrap();
}
