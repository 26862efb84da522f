//! A layer over real sockets, with a toy codec: records that are framed and scrambled both ways,
//! with a greeting before them and a farewell behind.
//!
//! The other end is a plain socket in the test's hands, which speaks the codec by itself.

mod echo;
mod scrambler;

use echo::Client;
use echo::*;
use rhythm_net::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scrambler::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn bytes_pass_however_they_are_split() {
    let server = serve(NEVER);
    let mut client = server.client();
    for step in [1, 2, 7, 1000] {
        let text: Vec<u8> = (0..50u8).collect();
        let records: Vec<u8> = [&text[..20], &text[20..]]
            .iter()
            .flat_map(|part| client.sealed(part))
            .collect();
        for piece in records.chunks(step) {
            client.stream.write_all(piece).unwrap();
        }
        assert_eq!(client.read(text.len()), text);
    }
    // Those that have no codec are left as they are.
    let mut plain = TcpStream::connect(server.addresses[0]).unwrap();
    plain.set_read_timeout(Some(NEVER)).unwrap();
    plain.write_all(b"as it is").unwrap();
    let mut room = [0; 8];
    plain.read_exact(&mut room).unwrap();
    assert_eq!(&room, b"as it is");
    server.stop();
}

#[test]
fn a_reader_that_stalls_gets_all_in_the_end_and_a_farewell() {
    const LENGTH: usize = 24 << 20;
    let server = serve(NEVER);
    let mut client = server.client();
    let text: Vec<u8> = (0..LENGTH).map(|n| (n / 251) as u8).collect();
    let mut bytes = client.sealed(&text);
    bytes.extend(client.farewell());
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    // Both sockets' buffers fill while nobody reads, and others are served.
    let mut other = server.client();
    let hello = other.sealed(b"beside");
    other.stream.write_all(&hello).unwrap();
    assert_eq!(other.read(6), b"beside");
    let echoed = client.read(usize::MAX);
    assert!(echoed == text, "the same bytes come back");
    writing.join().unwrap();
    assert_eq!(
        client.stream.read(&mut [0]).unwrap(),
        0,
        "nothing behind the farewell"
    );
    server.stop();
}

#[test]
fn the_end_without_a_farewell_is_a_failure_and_so_is_nonsense() {
    let server = serve(NEVER);
    let mut client = server.client();
    let text = client.sealed(b"cut");
    client.stream.write_all(&text).unwrap();
    assert_eq!(client.read(3), b"cut");
    client.stream.write_all(&text[..2]).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.next(), Event::Received(3));
    let failed = |kind| Event::Ended(Ended::Failed(kind));
    assert_eq!(server.next(), failed(ErrorKind::UnexpectedEof));
    let mut stranger = TcpStream::connect(server.addresses[1]).unwrap();
    stranger.set_read_timeout(Some(NEVER)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(server.next(), failed(ErrorKind::InvalidData));
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, GREETING, "what the codec answered is still sent");
    server.stop();
}

#[test]
fn an_end_that_came_with_input_is_told_after_resume() {
    let server = serve(NEVER);
    let mut client = server.client();
    // A first exchange: what follows comes to the handler as one piece.
    let text = client.sealed(b"first");
    client.stream.write_all(&text).unwrap();
    assert_eq!(
        (client.read(5), server.next()),
        (b"first".to_vec(), Event::Received(5))
    );
    server.order(Command::Pause);
    let mut bytes = client.sealed(b"last");
    bytes.extend(client.farewell());
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.read(4), b"last");
    assert_eq!(server.next(), Event::Received(4));
    server.order(Command::Resume);
    assert_eq!(server.next(), Event::Ended(Ended::PeerFinished));
    assert!(client.read(1).is_empty() && client.codec.has_ended);
    server.stop();
}

/// Has the handler answer and close with more than sockets hold: so much of it was taken.
fn close_with_much(server: &Server, client: &mut Client) -> usize {
    server.order(Command::CloseWith(64 << 20));
    let please = client.sealed(b"please");
    client.stream.write_all(&please).unwrap();
    assert_eq!(server.next(), Event::Received(6));
    let Event::Received(taken) = server.next() else {
        panic!("it tells what was taken");
    };
    assert!(taken > 0 && taken < 64 << 20, "more than sockets hold");
    taken
}

#[test]
fn closing_delivers_what_was_taken() {
    for is_last in [false, true] {
        let server = serve(NEVER);
        let mut client = server.client();
        let taken = close_with_much(&server, &mut client);
        if is_last {
            // It has, and its worker ends when all is sent.
            server.order(Command::Finish);
        }
        // Only now is anything read: the rest of a record waited in the layer.
        assert_eq!(client.read(usize::MAX), vec![b'x'; taken]);
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
        server.stop();
    }
}

#[test]
fn the_end_waits_for_a_moment_for_who_takes_nothing() {
    let server = serve(NEVER);
    let mut client = server.client();
    close_with_much(&server, &mut client);
    let began = Instant::now();
    server.order(Command::Finish);
    server.workers.join().expect("the handler's assertions");
    assert!(began.elapsed() < NEVER / 2);
}

#[test]
fn who_does_not_take_the_end_is_dropped_in_time() {
    let server = serve(Duration::from_millis(20));
    let mut client = server.client();
    close_with_much(&server, &mut client);
    // The client reads nothing; that the connection is reset is told all the same.
    let mut reset = [PollFd::new(&client.stream, PollFlags::empty())];
    let timeout = Timespec::try_from(NEVER).unwrap();
    assert_eq!(poll(&mut reset, Some(&timeout)), Ok(1), "it is dropped");
    assert!(reset[0].revents().contains(PollFlags::ERR));
    server.stop();
}

#[test]
fn an_outgoing_connection_greets_before_it_stands() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(NEVER);
    server.order(Command::Connect(listener.local_addr().unwrap()));
    let (stream, _) = listener.accept().unwrap();
    let mut client = Client::greet(stream);
    assert_eq!(client.read(8), b"it is me");
    assert_eq!(server.next(), Event::Connected);
    let farewell = client.farewell();
    client.stream.write_all(&farewell).unwrap();
    assert_eq!(server.next(), Event::Ended(Ended::PeerFinished));
    assert!(client.read(1).is_empty() && client.codec.has_ended);
    // One that turns out to be somebody else fails, and never stood.
    server.order(Command::Connect(listener.local_addr().unwrap()));
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"220 mail server ready\r\n").unwrap();
    assert_eq!(
        server.next(),
        Event::Ended(Ended::Failed(ErrorKind::InvalidData))
    );
    server.stop();
}
