//! The examples, talked to as their users would: each is started on a free port and stopped by the
//! end of its input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

struct Example {
    child: Child,
    address: SocketAddr,
}

impl Example {
    fn start(name: &str) -> Example {
        // Cargo builds examples before tests, into the folder beside the tests' own.
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
        let mut child = Command::new(folder.join("examples").join(name))
            .arg("127.0.0.1:0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example is built");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().parse().expect("an address");
        Example { child, address }
    }

    fn stop(mut self) {
        drop(self.child.stdin.take());
        let start = Instant::now();
        let ended = loop {
            match self.child.try_wait().unwrap() {
                Some(ended) => break ended,
                None => assert!(start.elapsed() < NEVER, "it ends with its input"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(ended.success());
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // Where an assertion failed before it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn udp_echo_gives_datagrams_back() {
    let example = Example::start("udp_echo");
    for _ in 0..8 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(NEVER)).unwrap();
        socket.connect(example.address).unwrap();
        // Few enough that loopback loses none.
        let sent: Vec<Vec<u8>> = (1..20).map(|n| vec![n; 7 * usize::from(n)]).collect();
        for datagram in &sent {
            socket.send(datagram).unwrap();
        }
        for datagram in &sent {
            let mut room = [0; 2048];
            let length = socket.recv(&mut room).unwrap();
            assert_eq!(room[..length], datagram[..]);
        }
    }
    example.stop();
}

#[test]
fn line_server_turns_lines_round() {
    let example = Example::start("line_server");
    for step in [1, 3, 1000] {
        let mut client = TcpStream::connect(example.address).unwrap();
        client.set_read_timeout(Some(NEVER)).unwrap();
        client.set_nodelay(true).unwrap();
        for piece in b"to be or not\n\nsay it again\nand no".chunks(step) {
            client.write_all(piece).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "not or be to\n\nagain it say\n");
    }
    // Unread answers hold the reading up, and nothing is lost.
    let mut client = TcpStream::connect(example.address).unwrap();
    client.set_read_timeout(Some(NEVER)).unwrap();
    let mut writer = client.try_clone().unwrap();
    let lines = 200_000;
    let writing = std::thread::spawn(move || {
        for n in 0..lines {
            writer.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut count = 0;
    for line in BufReader::new(&mut client).lines() {
        assert_eq!(line.unwrap(), format!("{count} line"));
        count += 1;
    }
    writing.join().unwrap();
    assert_eq!(count, lines);
    let mut long = TcpStream::connect(example.address).unwrap();
    long.set_read_timeout(Some(NEVER)).unwrap();
    long.write_all(&[b'x'; 5000]).unwrap();
    assert_eq!(long.read(&mut [0]).unwrap(), 0, "no line is that long");
    example.stop();
}
