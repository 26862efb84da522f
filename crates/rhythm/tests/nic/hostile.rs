//! Borrowers and donors that lie.

use crate::site::{Onward, Running, Site, soon};
use crate::traffic;
use rhythm_venice::channel::messages::{Credits, Messages, QueueSettings};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
/// The queues of `nic/frames.rs`.
const QUEUE: QueueSettings = QueueSettings {
    messages: 64,
    message_bytes: 65_536,
    credits: Credits::Crma,
    credit_every: 8,
};

/// What a borrower says first.
fn hello(key: [u8; 32], last: u8) -> Vec<u8> {
    [&b"RVN1"[..], &key, &[1, 10, 9, 0, last, 24]].concat()
}

/// What a donor answers.
fn welcome(mtu: u32) -> Vec<u8> {
    [&b"RVN1\x01"[..], &mtu.to_le_bytes(), &[1, 10, 9, 0, 1, 24]].concat()
}

fn frame(length: u32, bytes: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes(), bytes].concat()
}

/// Messages that are no frames, or that no kernel takes.
fn lies() -> Vec<Vec<u8>> {
    // Of what a checksum is missing, it says: a place beyond the end.
    let header = [1, 1, 255, 255, 255, 255, 255, 255, 255, 255];
    let mut strange = header.to_vec();
    strange.extend([0xff; 200]);
    let random: Vec<u8> = (0..60_000u32).map(|at| (at * at / 7) as u8).collect();
    vec![
        frame(0, &[]),
        frame(u32::MAX, &[1; 100]),
        frame(65_600, &[2; 65_000]),
        frame(23, &[3; 23]),
        frame(210, &strange),
        frame(60_000, &random),
        vec![0x11; 60_000],
    ]
}

#[test]
fn borrowers_that_lie_cost_nobody_else_anything() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    let (mut donor, mut borrower) = site.lend(Onward::Routed, true, false);
    let (address, key) = (donor.address.clone(), site.key());
    site.borrower.run(|| {
        let connect = || TcpStream::connect(&address).expect("it listens");
        let queue = || Messages::new(connect(), QUEUE, PATIENCE).expect("a connection");
        // No QPair.
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], b"RVC1"] {
            let mut stream = connect();
            stream.write_all(garbage).expect("it is taken");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time");
            let mut said = Vec::new();
            // Closed, with what it had not read perhaps.
            let _ = stream.read_to_end(&mut said);
        }
        // No borrower, or one with another key.
        let mut wrong = key;
        wrong[31] ^= 1;
        for first in [
            b"hello".to_vec(),
            hello(wrong, 7),
            hello(key, 2),
            Vec::new(),
        ] {
            let (mut queue, mut answer) = (queue(), Vec::new());
            queue.send(&first).expect("it is taken");
            queue.receive(&mut answer).expect("an answer");
            assert_eq!(
                answer[..5],
                *b"RVN1\0",
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        // One that is let in.
        for (lie, last) in lies().into_iter().zip(10..) {
            let (mut queue, mut answer) = (queue(), Vec::new());
            queue.send(&hello(key, last)).expect("it is taken");
            queue.receive(&mut answer).expect("an answer");
            assert_eq!(answer, welcome(1500));
            for _ in 0..5 {
                // It may be over by now.
                let _ = queue.send(&lie);
            }
            let _ = queue.flush(64);
        }
    });
    assert!(donor.is_alive() && borrower.is_alive());
    traffic::transfer(&site, 100_000);
    soon("nothing of them is left", || {
        !(1..20).any(|number| site.donor.has(&format!("vnic{number}")))
    });
    assert!(borrower.terminate().success());
    assert!(donor.terminate().success());
}

#[test]
fn donors_that_lie_are_left() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    // Makes the key.
    let (mut donor, mut borrower) = site.lend(Onward::Routed, true, false);
    assert!(borrower.terminate().success() && donor.terminate().success());
    let bind = || TcpListener::bind("10.50.0.1:0").expect("an address");
    let listener = site.donor.run(bind);
    let address = listener.local_addr().expect("it has one").to_string();
    for first in [&b"SSH-2.0-x\r\n"[..], &[0xff; 300]] {
        let mut child = site.borrow_of(&address).spawn().expect("a process");
        let (mut stream, _) = listener.accept().expect("the borrower");
        stream.write_all(first).expect("it is taken");
        assert_eq!(child.wait().expect("it ends").code(), Some(1));
        assert!(!site.borrower.has("venice0"));
    }
    for first in [welcome(0), welcome(u32::MAX), vec![0; 1000], Vec::new()] {
        let mut child = site.borrow_of(&address).spawn().expect("a process");
        let (stream, _) = listener.accept().expect("the borrower");
        let mut queue = Messages::new(stream, QUEUE, PATIENCE).expect("a connection");
        queue.send(&first).expect("it is taken");
        let _ = queue.flush(0);
        assert_eq!(child.wait().expect("it ends").code(), Some(1));
    }
    // It is taken at its word, and then lies.
    let mut borrower = Running::begin(site.borrow_of(&address));
    for (number, lie) in lies().iter().enumerate() {
        let (stream, _) = listener.accept().expect("the borrower");
        let mut queue = Messages::new(stream, QUEUE, PATIENCE).expect("a connection");
        queue.send(&welcome(1500)).expect("it is taken");
        let mut hello = Vec::new();
        queue.receive(&mut hello).expect("it says who it is");
        if number == 0 {
            borrower.wait_for_line();
        }
        for _ in 0..5 {
            let _ = queue.send(lie);
        }
        let _ = queue.flush(64);
    }
    assert!(borrower.is_alive());
    assert!(borrower.terminate().success());
    assert!(!site.borrower.has("venice0"));
}
