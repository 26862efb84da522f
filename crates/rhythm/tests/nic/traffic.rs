//! What goes from the borrower to the server and back.

use crate::site::Site;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

const SERVER: &str = "192.168.77.2";
const NEVER: Duration = Duration::from_secs(120);

/// What a stream repeats: as long as nothing that cuts it.
fn pattern() -> &'static [u8] {
    static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let byte = |at: u32| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8;
        (0..1_000_003).map(byte).collect()
    });
    &PATTERN
}

/// The stream from a place on, up to so many bytes.
fn part(at: usize, most: usize) -> &'static [u8] {
    let rest = &pattern()[at % pattern().len()..];
    &rest[..rest.len().min(most)]
}

fn send(mut to: &TcpStream, bytes: usize) {
    let mut at = 0;
    while at < bytes {
        let part = part(at, bytes - at);
        to.write_all(part).expect("it is taken");
        at += part.len();
    }
}

fn receive(mut from: &TcpStream, bytes: usize) {
    let (mut at, mut came) = (0, vec![0; 65_536]);
    while at < bytes {
        let wanted = part(at, 65_536.min(bytes - at));
        let read = from.read(&mut came[..wanted.len()]).expect("it comes");
        assert!(read > 0, "the end, behind {at} bytes");
        assert!(came[..read] == wanted[..read], "behind {at} bytes");
        at += read;
    }
}

/// Sends so many bytes to the server, has it send as many, and compares each.
pub(crate) fn transfer(site: &Site, bytes: usize) {
    let bind = || TcpListener::bind((SERVER, 0)).expect("an address");
    let listener = site.server.run(bind);
    let address = listener.local_addr().expect("it has one");
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(Some(NEVER)).expect("a time");
        receive(&stream, bytes);
        send(&stream, bytes);
    });
    site.borrower.run(|| {
        let start = Instant::now();
        let stream = loop {
            match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                Ok(stream) => break stream,
                Err(error) => assert!(start.elapsed() < NEVER, "{error}"),
            }
        };
        stream.set_read_timeout(Some(NEVER)).expect("a time");
        send(&stream, bytes);
        receive(&stream, bytes);
    });
    serving.join().expect("the server is content");
}

/// Sends datagrams to the server as fast as it can for a time; how many bytes went.
pub(crate) fn flood(site: &Site, time: Duration) -> usize {
    site.borrower.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("an address");
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < time {
            // Some are dropped, and that may be said.
            bytes += socket.send_to(&[7; 1400], (SERVER, 9)).unwrap_or(0);
        }
        bytes
    })
}
