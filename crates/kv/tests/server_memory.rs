//! What a server has in memory for commands that it has not executed, and for answers that are not
//! taken. A process of its own, so that
//! its resident memory can be looked at.

use rhythm_kv::server::{Address, Server};
use rhythm_kv::shared::{Listen, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// What the server may take for what these clients do, in bytes: a line of keys as it comes, which
/// has 4 MiB, what 300 clients have sent, at 64 KiB each, the store's first pages, and as much
/// again for what the allocator keeps.
const MOST: u64 = 2 * ((4 << 20) + 300 * (64 << 10) + (8 << 20));

/// The length of a long value.
const LONG: usize = 32 << 20;

/// The most that this process had resident, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    let kib = kib.and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") << 10
}

fn read_exactly(stream: &mut TcpStream, answer: &[u8], times: usize) {
    let mut got = vec![0; answer.len()];
    for _ in 0..times {
        stream.read_exact(&mut got).expect("an answer");
        assert_eq!(
            got.escape_ascii().to_string(),
            answer.escape_ascii().to_string()
        );
    }
}

#[test]
fn what_is_not_executed_or_not_taken_is_not_copied() {
    let settings = Settings {
        port: Some(0),
        listen: vec![Listen {
            host: Some("127.0.0.1".to_owned()),
            port: None,
        }],
        threads: 1,
        item_max: 2 * LONG as u64,
        memory: 8 * LONG as u64,
        ..Settings::default()
    };
    let server = Server::start(settings, |_| {}).expect("a free port");
    let Address::Tcp(at) = server.addresses()[0] else {
        panic!("a TCP port was asked for");
    };
    let connect = |at: SocketAddr| TcpStream::connect(at).expect("it listens");

    let keys = format!("get{}\r\nmn\r\n", " b".repeat(2_000_000));
    let empty = "\n".repeat(60_000);
    let before = peak();

    // Many commands in one line.
    let mut long = connect(at);
    long.write_all(keys.as_bytes()).expect("it reads");
    read_exactly(&mut long, b"END\r\nMN\r\n", 1);

    // And from many clients, who read nothing while they send.
    let mut clients: Vec<_> = (0..300).map(|_| connect(at)).collect();
    for client in &mut clients {
        client.write_all(empty.as_bytes()).expect("it reads");
    }
    for client in &mut clients {
        read_exactly(client, &b"ERROR\r\n".repeat(1_000), 60);
    }
    let taken = peak() - before;
    assert!(taken < MOST, "{taken} bytes");

    // A long value is sent to all from where it lies, however slowly they take it.
    let before = peak();
    let mut writer = connect(at);
    writer
        .write_all(format!("set long 0 0 {LONG}\r\n").as_bytes())
        .expect("it reads");
    writer.write_all(&vec![b'v'; LONG]).expect("it reads");
    writer.write_all(b"\r\n").expect("it reads");
    read_exactly(&mut writer, b"STORED\r\n", 1);
    let mut slow: Vec<_> = (0..20).map(|_| connect(at)).collect();
    for client in &mut slow {
        client.write_all(b"mg long v\r\n").expect("it reads");
    }
    read_exactly(&mut slow[19], format!("VA {LONG}\r\n").as_bytes(), 1);
    let taken = peak() - before;
    // As it came, with room to grow, as it lies, and as this test has it.
    assert!(taken < 5 * LONG as u64, "{taken} bytes");
    for client in &mut slow[..2] {
        read_exactly(client, format!("VA {LONG}\r\n").as_bytes(), 1);
        read_exactly(client, &[b'v'; 1 << 20], LONG >> 20);
        read_exactly(client, b"\r\n", 1);
    }

    server.handle().stop();
    server.join().expect("the threads end well");
}
