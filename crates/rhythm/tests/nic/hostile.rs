//! Borrowers and donors that lie.

use crate::site::{Onward, Running, Site, soon};
use crate::traffic;
use rhythm_venice::channel::messages::{Credits, Messages, QueueSettings};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

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

/// The Internet's checksum.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let pairs = bytes.chunks(2);
    let sum: u32 = pairs
        .map(|pair| (u32::from(pair[0]) << 8) + u32::from(pair[1]))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// A datagram for the server, from an address.
fn datagram(from: [u8; 4], port: u16, text: &[u8]) -> Vec<u8> {
    let bytes = text.len() as u16;
    let head = [
        &[0x45, 0][..],
        &(28 + bytes).to_be_bytes(),
        &[0, 0, 0x40, 0, 64, 17, 0, 0],
    ];
    let mut packet = [&head.concat()[..], &from, &[192, 168, 77, 2]].concat();
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum);
    for number in [9, port, 8 + bytes, 0] {
        packet.extend(number.to_be_bytes());
    }
    packet.extend(text);
    packet
}

/// "I am a router", of IPv6.
fn advertisement() -> Vec<u8> {
    let (mut from, mut to) = ([0; 16], [0; 16]);
    from[..2].copy_from_slice(&[0xfe, 0x80]);
    to[..2].copy_from_slice(&[0xff, 0x02]);
    (from[15], to[15]) = (7, 1);
    let mut said = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    let summed = [&from[..], &to, &[0, 0, 0, 16, 0, 0, 0, 58], &said].concat();
    said[2..4].copy_from_slice(&checksum(&summed));
    [&[0x60, 0, 0, 0, 0, 16, 58, 255][..], &from, &to, &said].concat()
}

#[test]
fn a_borrower_reaches_no_further_than_by_its_own_address() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    let mut donor = site.donor_at("10.50.0.1:0", Onward::Routed, true, false);
    // As many systems have it: then no setting of one interface is stricter.
    let everywhere = "/proc/sys/net/ipv4/conf/all/rp_filter";
    site.donor.write(everywhere, "2");
    let server = site.server.run(|| UdpSocket::bind("192.168.77.2:0"));
    let server = server.expect("an address");
    server.set_read_timeout(Some(PATIENCE)).expect("a time");
    let port = server.local_addr().expect("it is bound").port();
    let (address, key) = (donor.address.clone(), site.key());
    let stream = site.borrower.run(|| TcpStream::connect(&address));
    let mut queue = Messages::new(stream.expect("it listens"), QUEUE, PATIENCE).expect("TCP");
    queue.send(&hello(key, 7)).expect("it is taken");
    let mut answer = Vec::new();
    queue.receive(&mut answer).expect("an answer");
    assert_eq!(answer, welcome(1500));
    let there = site.donor.ethernet("vnic0");
    let everybody = [0x33, 0x33, 0, 0, 0, 1];
    for (to, kind, packet) in [
        (&everybody[..], [0x86, 0xdd], advertisement()),
        (
            &there[..],
            [8, 0],
            datagram([192, 168, 77, 55], port, b"forged"),
        ),
        (&there[..], [8, 0], datagram([10, 9, 0, 7], port, b"right")),
    ] {
        let bytes = [&[0; 10][..], to, &[2, 0, 0, 0, 0, 7], &kind, &packet].concat();
        queue
            .send(&frame(bytes.len() as u32, &bytes))
            .expect("it is taken");
    }
    queue
        .flush(QUEUE.messages.into())
        .expect("they are on their way");
    let mut came = [0; 100];
    let bytes = server.recv(&mut came).expect("it comes");
    assert_eq!(came[..bytes], *b"right");
    let routes = site.donor.ask("ip", "-6 route show default");
    assert_eq!(routes.unwrap_or_default(), "");
    drop(queue);
    assert!(donor.terminate().success());
}

#[test]
fn who_shows_no_key_keeps_nobody_out() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    let mut donor = site.donor_at("10.50.0.1:0", Onward::Routed, true, false);
    let address = donor.address.clone();
    let strangers: Vec<_> = site.borrower.run(|| {
        let connect = |_| TcpStream::connect(&address).expect("it listens");
        (0..64).map(connect).collect()
    });
    let start = Instant::now();
    let mut borrower = site.borrow(&donor, true);
    traffic::transfer(&site, 100_000);
    assert!(start.elapsed() < PATIENCE);
    drop(strangers);
    assert!(borrower.terminate().success());
    assert!(donor.terminate().success());
}

#[test]
fn a_lower_mtu_for_a_while_costs_no_address() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    // Makes the key.
    let mut donor = site.donor_at("10.50.0.1:0", Onward::Routed, true, false);
    assert!(donor.terminate().success());
    let bind = || TcpListener::bind("10.50.0.1:0").expect("an address");
    let listener = site.donor.run(bind);
    let mut borrow = site.borrow_of(&listener.local_addr().expect("it is bound").to_string());
    borrow.args(["--address", "fd00:9::2/64"]);
    let mut borrower = Running::begin(borrow);
    for (number, mtu) in [1500, 1000, 1500].into_iter().enumerate() {
        let (stream, _) = listener.accept().expect("the borrower");
        let mut queue = Messages::new(stream, QUEUE, PATIENCE).expect("a connection");
        queue.send(&welcome(mtu)).expect("it is taken");
        let mut hello = Vec::new();
        queue.receive(&mut hello).expect("it says who it is");
        queue.flush(64).expect("it is there");
        if number == 0 {
            borrower.wait_for_line();
        }
        soon("the MTU is the donor's", || {
            let link = site.borrower.ask("ip", "link show venice0");
            link.is_some_and(|link| link.contains(&format!("mtu {mtu} ")))
        });
    }
    soon("it has its address", || {
        let addresses = site.borrower.ask("ip", "-6 address show dev venice0");
        addresses.is_some_and(|text| text.contains("fd00:9::2/64"))
    });
    assert!(borrower.terminate().success());
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
