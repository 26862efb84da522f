//! The server as its clients see it, beside what the differential test compares: who is let in,
//! how much is held for whom, and how it ends.

mod commands;
mod copies;
mod ending;
mod kept;
mod observing;
mod pipelined;
mod refused;
mod tools;

use rhythm_kv::server::{Address, Server};
use rhythm_kv::shared::{Listen, Settings};
use rhythm_kv::wire::Protocol;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Who does not answer for so long does not answer at all.
const NEVER: Duration = Duration::from_secs(30);

struct Running {
    server: Option<Server>,
    at: SocketAddr,
    shut_down: Receiver<bool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.handle().stop();
            let _ = server.join();
        }
    }
}

fn here() -> Settings {
    Settings {
        port: Some(0),
        listen: vec![Listen {
            host: Some("127.0.0.1".to_owned()),
            port: None,
        }],
        threads: 1,
        ..Settings::default()
    }
}

fn start(settings: Settings) -> Running {
    let (sender, shut_down) = mpsc::channel();
    let server = Server::start(settings, move |graceful| {
        // Most tests do not listen.
        let _ = sender.send(graceful);
    });
    let server = server.expect("a free port");
    let tcp = server.addresses().iter().find_map(|address| match address {
        Address::Tcp(at) => Some(*at),
        _ => None,
    });
    Running {
        at: tcp.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))),
        server: Some(server),
        shut_down,
    }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).expect("it listens");
        stream.set_read_timeout(Some(NEVER)).expect("a time");
        stream.set_nodelay(true).expect("a TCP connection");
        stream
    }
}

/// Sends, and expects this to be answered and nothing else.
fn expect(stream: &mut (impl Read + Write), sent: &str, answer: &str) {
    stream.write_all(sent.as_bytes()).expect("it reads");
    let mut got = vec![0; answer.len()];
    stream
        .read_exact(&mut got)
        .unwrap_or_else(|error| panic!("{sent:?}: {error}"));
    assert_eq!(String::from_utf8_lossy(&got), answer, "{sent:?}");
}

fn expect_end(stream: &mut impl Read) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(rest.escape_ascii().to_string(), "");
}

#[test]
fn a_unix_socket_has_its_permissions_and_is_taken_over() {
    let folder = std::env::temp_dir().join(format!("rhythm-kv-unix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("socket");
    for _ in 0..2 {
        let _running = start(Settings {
            unix_socket: Some(path.clone()),
            unix_mask: 0o640,
            threads: 2,
            ..Settings::default()
        });
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
        let mut stream = UnixStream::connect(&path).expect("it listens");
        expect(
            &mut stream,
            "set a 1 0 1\r\nx\r\nget a\r\n",
            "STORED\r\nVALUE a 1 1\r\nx\r\nEND\r\n",
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Those whose close is waited for are open files, too.
#[test]
fn where_few_files_may_be_open_fewer_clients_are_let_in_and_the_others_are_told() {
    const FILES: usize = 200;
    let running = start(Settings {
        connections_max: FILES as u32,
        open_files: FILES as u64,
        threads: 2,
        ..here()
    });
    let told = "ERROR Too many open connections\r\n";
    let mut clients = Vec::new();
    let is_let_in = |stream: &mut TcpStream| {
        stream.write_all(b"mn\r\n").expect("it is there");
        let mut got = [0; 4];
        stream.read_exact(&mut got).expect("an answer");
        got == *b"MN\r\n"
    };
    loop {
        let mut stream = running.connect();
        if !is_let_in(&mut stream) {
            break;
        }
        clients.push(stream);
        assert!(clients.len() < FILES, "as many as may be open");
    }
    assert!(clients.len() > FILES / 3, "{}", clients.len());
    let others: Vec<_> = (0..100).map(|_| running.connect()).collect();
    for mut other in others {
        expect(&mut other, "", told);
    }
    expect(&mut clients[0], "mn\r\n", "MN\r\n");
    drop(clients);
    let start = Instant::now();
    while !is_let_in(&mut running.connect()) {
        assert!(start.elapsed() < NEVER, "there are places");
    }
}

/// Who connects to one that does not answer takes it for one that hangs.
#[test]
fn nobody_can_connect_before_memory_is_resident() {
    let at = rhythm_etcd::testing::free_places(1)[0];
    let looks = std::cell::Cell::new(0);
    let settings = Settings {
        port: Some(at.port()),
        memory: 64 << 20,
        resident: true,
        ..here()
    };
    let is_told = || {
        looks.set(looks.get() + 1);
        let refused = TcpStream::connect(at).expect_err("it is not ready");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        false
    };
    let server =
        Server::start_unless(settings, is_told, || true, |_| {}).expect("the port is free");
    let mut stream = TcpStream::connect(at).expect("it is ready");
    expect(&mut stream, "mn\r\n", "MN\r\n");
    // Not where the system cannot make memory resident.
    println!("it was looked {} times", looks.get());
    server.handle().stop();
    server.join().expect("it was told to");
}

#[test]
fn clients_beyond_the_limit_are_told_so() {
    let running = start(Settings {
        connections_max: 2,
        ..here()
    });
    let mut first = running.connect();
    let mut second = running.connect();
    expect(&mut first, "mn\r\n", "MN\r\n");
    expect(&mut second, "mn\r\n", "MN\r\n");
    let mut third = running.connect();
    expect(&mut third, "", "ERROR Too many open connections\r\n");
    expect_end(&mut third);
    drop(first);
    // The place is free when the server has seen the end.
    loop {
        let mut again = running.connect();
        let mut byte = [0];
        again.write_all(b"mn\r\n").expect("it reads");
        again.read_exact(&mut byte).expect("an answer");
        if byte == *b"M" {
            break;
        }
    }
}

#[test]
fn clients_beyond_the_limit_wait_if_asked() {
    let running = start(Settings {
        connections_max: 2,
        turn_away: false,
        threads: 2,
        ..here()
    });
    let mut let_in: Vec<_> = (0..2).map(|_| running.connect()).collect();
    for client in &mut let_in {
        expect(client, "mn\r\n", "MN\r\n");
    }
    let mut waiting: Vec<_> = (0..4).map(|_| running.connect()).collect();
    for client in &mut waiting {
        client.write_all(b"mn\r\n").expect("there is room for it");
        let wait = Some(Duration::from_millis(50));
        client.set_read_timeout(wait).expect("a time");
        let heard = client.read(&mut [0]);
        assert_eq!(heard.expect_err("no answer").kind(), ErrorKind::WouldBlock);
        client.set_read_timeout(Some(NEVER)).expect("a time");
    }
    let listens = ["accepting_conns", "listen_disabled_num"];
    let told = |stream: &mut TcpStream| listens.map(|name| stat(stream, name));
    let begun = Instant::now();
    let disabled = loop {
        match told(&mut let_in[0]) {
            [0, disabled] if disabled >= 1 => break disabled,
            told => assert!(begun.elapsed() < NEVER, "{told:?}"),
        }
    };
    assert!(disabled <= 2, "{disabled}");
    // One who gives up is nobody's loss.
    drop(waiting.remove(0));
    drop(let_in);
    // Places come to both threads' clients, as those who have them leave; in which order is open.
    let mut readers = Vec::new();
    for mut client in waiting {
        readers.push(std::thread::spawn(move || {
            expect(&mut client, "", "MN\r\n");
        }));
    }
    for reader in readers {
        reader.join().expect("each is let in");
    }
    // It is there when the others are gone, and takes others from then on.
    let mut last = running.connect();
    expect(&mut last, "mn\r\n", "MN\r\n");
    assert_eq!(stat(&mut last, "accepting_conns"), 1);
    assert!(stat(&mut last, "time_in_listen_disabled_us") > 50_000);
}

/// A number that `stats` tells.
fn stat(stream: &mut TcpStream, name: &str) -> u64 {
    stream.write_all(b"stats\r\nmn\r\n").expect("it reads");
    let mut text = Vec::new();
    while !text.ends_with(b"MN\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        text.push(byte[0]);
    }
    let text = String::from_utf8(text).expect("text");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("STAT "));
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = value.unwrap_or_else(|| panic!("{name} is told: {text}"));
    number.parse().expect("a number")
}

#[test]
fn silent_connections_are_closed_if_asked() {
    let running = start(Settings {
        idle_timeout: Some(Duration::from_secs(3)),
        ..here()
    });
    let mut stream = running.connect();
    expect(&mut stream, "mn\r\n", "MN\r\n");
    expect_end(&mut stream);
    let mut stream = running.connect();
    stream.write_all(b"stats\r\nquit\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    assert!(text.contains("STAT idle_kicks 1\r\n"), "{text}");
}

#[test]
fn many_silent_connections_are_closed_over_some_turns() {
    let running = start(Settings {
        idle_timeout: Some(Duration::from_secs(3)),
        ..here()
    });
    let mut silent: Vec<_> = (0..100).map(|_| running.connect()).collect();
    silent.iter_mut().for_each(expect_end);
    let mut stream = running.connect();
    stream.write_all(b"stats\r\nquit\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    assert!(text.contains("STAT idle_kicks 100\r\n"), "{text}");
    assert!(text.contains("STAT curr_connections 1\r\n"), "{text}");
}

#[test]
fn users_enter_and_others_do_not() {
    let users = vec![(b"user".to_vec(), b"secret".to_vec())];
    let running = start(Settings {
        protocol: Protocol::Ascii,
        users: Arc::new(users),
        ..here()
    });
    let mut stream = running.connect();
    expect(&mut stream, "get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    let wrong = "set x 0 0 10\r\nuser wrong\r\n";
    expect(
        &mut stream,
        wrong,
        "CLIENT_ERROR authentication failure\r\n",
    );
    let right = "set x 0 0 11\r\nuser secret\r\nget x\r\n";
    expect(&mut stream, right, "STORED\r\nEND\r\n");
    let handle = running.server.as_ref().expect("it runs").handle();
    handle.set_users(Arc::new(vec![(b"user".to_vec(), b"other".to_vec())]));
    // In time; until then the old secret is the right one.
    loop {
        let mut stream = running.connect();
        stream
            .write_all(b"set x 0 0 10\r\nuser other\r\n")
            .expect("it reads");
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        if byte == *b"S" {
            break;
        }
    }
}

#[test]
fn a_client_may_shut_it_down_if_allowed() {
    let running = start(Settings {
        shutdown: true,
        ..here()
    });
    let mut stream = running.connect();
    expect(
        &mut stream,
        "shutdown now\r\n",
        "CLIENT_ERROR invalid shutdown mode\r\n",
    );
    stream
        .write_all(b"shutdown graceful\r\n")
        .expect("it reads");
    assert_eq!(running.shut_down.recv_timeout(NEVER), Ok(true));
    expect_end(&mut stream);
}

#[test]
fn it_ends_gracefully_when_answers_are_taken() {
    let mut running = start(here());
    // More than are closed in one turn.
    let mut streams: Vec<_> = (0..100).map(|_| running.connect()).collect();
    for stream in &mut streams {
        expect(stream, "mn\r\n", "MN\r\n");
    }
    let server = running.server.take().expect("it runs");
    server.handle().end();
    streams.iter_mut().for_each(expect_end);
    server.join().expect("the threads end well");
    assert!(TcpStream::connect(running.at).is_err());
}

#[test]
fn slow_readers_are_waited_for_and_keep_nobody_waiting() {
    let running = start(here());
    let value = "v".repeat(1_000_000);
    let mut stream = running.connect();
    expect(
        &mut stream,
        &format!("set a 0 0 1000000\r\n{value}\r\n"),
        "STORED\r\n",
    );
    let answer = format!("VALUE a 0 1000000\r\n{value}\r\n");
    // Each asks for 100 MB, over one line and over several, and reads nothing yet.
    let slow: Vec<_> = (0..20)
        .map(|index| {
            let mut slow = running.connect();
            let asked = match index % 2 {
                0 => format!("get{}\r\n", " a".repeat(100)),
                _ => "get a\r\n".repeat(100),
            };
            slow.write_all(asked.as_bytes()).expect("it reads");
            slow
        })
        .collect();
    for _ in 0..100 {
        expect(&mut stream, "get b\r\n", "END\r\n");
    }
    expect(&mut stream, "get a\r\n", &format!("{answer}END\r\n"));
    let resident = resident_bytes();
    assert!(
        resident < 600 << 20,
        "what is asked for is not made yet: {resident}"
    );
    for (index, mut slow) in slow.into_iter().enumerate() {
        let end = if index % 2 == 0 { "" } else { "END\r\n" };
        let expected = format!("{answer}{end}");
        let mut got = vec![0; expected.len()];
        for _ in 0..100 {
            slow.read_exact(&mut got).expect("all that was asked for");
            assert!(got == expected.as_bytes(), "reader {index}");
        }
        if index % 2 == 0 {
            expect(&mut slow, "", "END\r\n");
        }
        expect(&mut slow, "mn\r\n", "MN\r\n");
    }
}

#[test]
fn who_holds_too_much_for_too_long_gives_way() {
    let running = start(Settings {
        buffers_max: 8 << 20,
        item_max: 4 << 20,
        ..here()
    });
    let mut stream = running.connect();
    expect(&mut stream, "mn\r\n", "MN\r\n");
    // Values that never become whole: 3 MB of 4 each.
    let mut slow = Vec::new();
    for _ in 0..6 {
        let mut client = running.connect();
        client
            .write_all(b"set a 0 0 4000000\r\n")
            .expect("it reads");
        // The first may be dropped already.
        let _ = client.write_all(&vec![b'x'; 3_000_000]);
        slow.push(client);
        expect(&mut stream, "mn\r\n", "MN\r\n");
    }
    // What two of them hold is allowed.
    while slow.len() > 2 {
        slow.retain_mut(|client| {
            let wait = Some(Duration::from_millis(20));
            client.set_read_timeout(wait).expect("a time");
            match client.read(&mut [0]) {
                Ok(count) => {
                    assert_eq!(count, 0, "it is not answered");
                    false
                }
                Err(error) => error.kind() != ErrorKind::ConnectionReset,
            }
        });
    }
    let mut whole = running.connect();
    whole.write_all(b"set a 0 0 4000000\r\n").expect("it reads");
    whole.write_all(&vec![b'x'; 4_000_000]).expect("it reads");
    expect(&mut whole, "\r\n", "STORED\r\n");
}

#[test]
fn many_that_hold_a_little_each_give_way_over_some_turns() {
    let running = start(Settings {
        buffers_max: 8 << 20,
        ..here()
    });
    // 100 kB of 200 each, and room for up to 200, so that some 50 may stay.
    let mut slow: Vec<_> = (0..300).map(|_| running.connect()).collect();
    for client in &mut slow {
        let line = b"set a 0 0 200000\r\n";
        client.write_all(line).expect("it reads");
        // It may be among the first of others that are dropped already.
        let _ = client.write_all(&vec![b'x'; 100_000]);
    }
    let mut stream = running.connect();
    while slow.len() > 70 {
        expect(&mut stream, "mn\r\n", "MN\r\n");
        slow.retain_mut(|client| {
            client.set_nonblocking(true).expect("a TCP connection");
            let said = client.peek(&mut [0]);
            said.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
    }
    assert!(slow.len() > 30, "no more than had to: {}", slow.len());
}

/// Memory that this process has, tests beside this one among it.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

#[test]
fn values_come_in_pieces_and_much_at_once() {
    let running = start(here());
    let mut stream = running.connect();
    let value = "w".repeat(500_000);
    for piece in format!("set a 0 0 500000\r\n{value}\r\n")
        .as_bytes()
        .chunks(7_777)
    {
        stream.write_all(piece).expect("it reads");
    }
    expect(&mut stream, "", "STORED\r\n");
    // More commands than one cohort takes from a connection.
    let count = 50_000;
    let mut reader = stream.try_clone().expect("a handle");
    let writer = std::thread::spawn(move || {
        stream
            .write_all(&b"mn\r\n".repeat(count))
            .expect("it reads");
        stream
    });
    let mut got = vec![0; 4 * count];
    reader.read_exact(&mut got).expect("an answer to each");
    assert!(got.chunks(4).all(|answer| answer == b"MN\r\n"));
    let mut stream = writer.join().expect("all is sent");
    expect(&mut stream, "mn\r\n", "MN\r\n");
}

#[test]
fn malformed_datagrams_are_dropped() {
    let running = start(Settings {
        port: None,
        udp_port: Some(0),
        ..here()
    });
    let server = running.server.as_ref().expect("it runs");
    let [Address::Udp(at)] = server.addresses() else {
        panic!("UDP alone: {:?}", server.addresses());
    };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(NEVER)).expect("a time");
    socket.connect(at).expect("an address");
    for datagram in [
        &b"\0"[..],
        b"\0\x01\0\0\0\x02\0\0get a\r\n",
        b"\0\x01\0\0\0\x01\0\0",
    ] {
        socket.send(datagram).expect("it is there");
    }
    socket
        .send(b"\0\x07\0\0\0\x01\0\0get a\r\n")
        .expect("it is there");
    let mut buffer = [0; 2048];
    let count = socket.recv(&mut buffer).expect("an answer");
    assert_eq!(&buffer[..count], b"\0\x07\0\0\0\x01\0\0END\r\n");
}
