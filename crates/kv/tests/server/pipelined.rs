//! Clients that send much before they read: their commands are cut off where their answers are not
//! taken, and gone on with.

use super::{Running, expect, here, start};
use rhythm_kv::shared::Settings;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;

/// Bytes of the value that is asked for.
const LONG: usize = 4000;

/// A binary request or response.
fn packet(magic: u8, opcode: u8, status: u8, cas: u8, parts: [&[u8]; 3]) -> Vec<u8> {
    let [extras, key, value] = parts;
    let mut packet = vec![0; 24];
    packet[..2].copy_from_slice(&[magic, opcode]);
    (packet[3], packet[4], packet[7]) = (key.len() as u8, extras.len() as u8, status);
    let body = (extras.len() + key.len() + value.len()) as u32;
    packet[8..12].copy_from_slice(&body.to_be_bytes());
    packet[23] = cas;
    [&packet, extras, key, value].concat()
}

/// Sends a request many times while the answers are read, and expects this one each time.
fn expect_each(mut stream: TcpStream, request: &[u8], answer: &[u8], times: usize) {
    let mut reader = stream.try_clone().expect("a handle");
    thread::scope(|scope| {
        scope.spawn(move || {
            let all = request.repeat(times);
            stream.write_all(&all).expect("it reads");
        });
        let mut got = vec![0; answer.len()];
        for time in 0..times {
            reader.read_exact(&mut got).expect("an answer to each");
            assert!(got == answer, "answer {time}");
        }
    });
}

fn connect_all(running: &Running, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| running.connect()).collect()
}

#[test]
fn answers_are_whole_for_all_who_ask_at_once_for_more_than_is_taken() {
    let running = start(here());
    let value = "v".repeat(LONG);
    let mut stream = running.connect();
    let set = format!("ms big {LONG} E7\r\n{value}\r\n");
    expect(&mut stream, &set, "HD\r\n");
    let got = format!("VALUE big 0 {LONG}\r\n{value}\r\n");
    let ascii = |request: String, answer: String| (request.into_bytes(), answer.into_bytes());
    let kinds = [
        ascii(
            format!("get{}\r\n", " big".repeat(50)),
            format!("{}END\r\n", got.repeat(50)),
        ),
        ascii(
            "set small 0 0 1 noreply\r\nx\r\nget big none big\r\n".repeat(25),
            format!("{got}{got}END\r\n").repeat(25),
        ),
        ascii(
            "mg none v q\r\nmg YmlnMQ== b v q\r\nmg YmlnMg== b v\r\nmg big v k\r\n".repeat(50),
            format!("EN\r\nVA {LONG} kbig\r\n{value}\r\n").repeat(50),
        ),
        (
            packet(0x80, 0x00, 0, 0, [b"", b"big", b""]).repeat(50),
            packet(0x81, 0x00, 0, 7, [&[0; 4], b"", value.as_bytes()]).repeat(50),
        ),
    ];
    // All of one kind, and all kinds side by side.
    for of in [vec![0], vec![1], vec![2], vec![3], vec![0, 1, 2, 3]] {
        let streams = connect_all(&running, 8);
        thread::scope(|scope| {
            for (index, stream) in streams.into_iter().enumerate() {
                let (request, answer) = &kinds[of[index % of.len()]];
                scope.spawn(move || expect_each(stream, request, answer, 100));
            }
        });
        expect(&mut stream, "mn\r\n", "MN\r\n");
    }
}

#[test]
fn a_request_that_is_refused_is_answered_once() {
    const COUNT: usize = 60_000;
    let folder = std::env::temp_dir().join(format!("rhythm-kv-refused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    // A Unix socket, since the system keeps little of what is sent to one.
    let path = folder.join("socket");
    let _running = start(Settings {
        unix_socket: Some(path.clone()),
        threads: 1,
        item_max: 1024,
        ..Settings::default()
    });
    let connect = || UnixStream::connect(&path).expect("it listens");
    let (mut stream, mut other) = (connect(), connect());
    // A set of what is too large does two things: it is refused, and drops the item.
    let refused = packet(0x80, 0x01, 0, 0, [&[0; 8], b"k", &[b'x'; 1000]]);
    let noop = packet(0x80, 0x0a, 0, 0, [b"", b"", b""]);
    let asked = [refused.repeat(COUNT), noop].concat();
    let answer = packet(0x81, 0x01, 3, 0, [b"", b"", b"Too large."]);
    // Until no more is read from it, however often another is answered.
    stream.set_nonblocking(true).expect("a socket");
    let (mut sent, mut refusals) = (0, 0);
    while sent < asked.len() && refusals < 100 {
        match stream.write(&asked[sent..]) {
            Ok(count) => (sent, refusals) = (sent + count, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                expect(&mut other, "mn\r\n", "MN\r\n");
                refusals += 1;
            }
        }
    }
    stream.set_nonblocking(false).expect("a socket");
    let mut reader = stream.try_clone().expect("a handle");
    thread::scope(|scope| {
        scope.spawn(|| stream.write_all(&asked[sent..]).expect("it reads"));
        let mut got = vec![0; answer.len()];
        for time in 0..COUNT {
            reader.read_exact(&mut got).expect("an answer to each");
            assert!(got == answer, "answer {time}: {}", got.escape_ascii());
        }
        let mut got = [0; 24];
        reader.read_exact(&mut got).expect("the last one");
        assert_eq!(got[..2], [0x81, 0x0a], "none was answered again");
    });
    let _ = std::fs::remove_dir_all(&folder);
}

/// More than one turn executes, by several at a time: all are answered, and others meanwhile.
#[test]
fn many_stats_are_all_answered_in_their_order() {
    const CLIENTS: usize = 4;
    const ASKED: usize = 300;
    let server = start(here());
    let asking: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut stream = server.connect();
            thread::spawn(move || {
                let sent: String = (0..ASKED)
                    .map(|at| format!("stats\r\nset {client} 0 0 3\r\n{at:03}\r\nget {client}\r\n"))
                    .collect();
                stream.write_all(sent.as_bytes()).expect("it reads");
                let last = format!("VALUE {client} 0 3\r\n{:03}\r\nEND\r\n", ASKED - 1);
                let mut answers = Vec::new();
                let mut piece = [0; 65536];
                while !answers.ends_with(last.as_bytes()) {
                    let length = stream.read(&mut piece).expect("it answers");
                    assert!(length > 0, "it ends early");
                    answers.extend_from_slice(&piece[..length]);
                }
                String::from_utf8(answers).expect("a text")
            })
        })
        .collect();
    expect(&mut server.connect(), "mn\r\n", "MN\r\n");
    for (client, asked) in asking.into_iter().enumerate() {
        let answers = asked.join().expect("all are answered");
        assert_eq!(answers.matches("STAT pid ").count(), ASKED);
        let mut rest = &answers[..];
        for at in 0..ASKED {
            let stored = format!("STORED\r\nVALUE {client} 0 3\r\n{at:03}\r\nEND\r\n");
            let begin = rest.find(&stored).expect("in their order");
            rest = &rest[begin + stored.len()..];
        }
    }
}
