//! Clients that speak HTTP/2: curl, over TLS and in the clear, and one of the test's own that does
//! as no client should.

use crate::server::{NEVER, Server, service};
use crate::tls::make;
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A service with a long file, and its certificate.
fn long_service(test: &str, settings: &str) -> (PathBuf, PathBuf, Vec<u8>) {
    let folder = service(test);
    let trusted = make(&folder, "tls", &["localhost"]);
    let tls = "[tls]\ncertificate = \"tls/cert.pem\"\nkey = \"tls/key.pem\"\n";
    fs::write(folder.join("service.toml"), format!("{settings}\n{tls}")).expect("a file");
    let long: Vec<u8> = (0..3_000_000_u32)
        .map(|byte| b'a' + (byte % 23) as u8)
        .collect();
    fs::create_dir_all(folder.join("static")).expect("a folder");
    fs::write(folder.join("static/long.txt"), &long).expect("a file");
    (folder, trusted, long)
}

/// What curl makes of it: the version, the status and the content.
fn curl(trusted: &Path, protocol: &str, url: &str, more: &[&str]) -> (String, String, Vec<u8>) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--cacert"])
        .arg(trusted)
        .args([protocol, "--write-out", "\n%{http_version} %{http_code}"])
        .args(more)
        .arg(url)
        .output()
        .expect("there is curl");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{url} {more:?}: {said}");
    let end = output.stdout.iter().rposition(|byte| *byte == b'\n');
    let (content, tail) = output.stdout.split_at(end.expect("a line"));
    let tail = String::from_utf8_lossy(tail).into_owned();
    let (version, status) = tail.trim().split_once(' ').expect("two words");
    (version.into(), status.into(), content.to_vec())
}

#[test]
fn pages_are_the_same_over_http2() {
    let (folder, trusted, long) = long_service("http2_pages", "");
    let server = Server::start(&folder, &["--http2", "--tls-listen", "127.0.0.1:0"]);
    let [plain, tls] = server.places()[..] else {
        panic!("two places: {:?}", server.places());
    };
    let form = "n".repeat(3000);
    let form = format!("name={form}");
    let chunked = ["-H", "Transfer-Encoding: chunked", "-d", &form];
    for (scheme, protocol, port) in [
        ("https", "--http2", tls.port()),
        ("http", "--http2-prior-knowledge", plain.port()),
    ] {
        let url = |path: &str| format!("{scheme}://localhost:{port}{path}");
        for (path, more) in [
            ("/hello?name=a%20b", &[][..]),
            ("/hello", &["-d", &form]),
            ("/hello", &chunked),
            ("/none", &[]),
            ("/static/long.txt", &["-r", "100-200000"]),
            ("/static/long.txt", &["-H", "Accept-Encoding: gzip"]),
        ] {
            let by_one = curl(&trusted, "--http1.1", &url(path), more);
            let by_two = curl(&trusted, protocol, &url(path), more);
            assert_eq!((&*by_one.0, &*by_two.0), ("1.1", "2"));
            assert_eq!(by_one.1, by_two.1, "{path} {more:?}");
            assert!(by_one.2 == by_two.2, "{path} {more:?}");
        }
        let (_, status, content) = curl(&trusted, protocol, &url("/static/long.txt"), &[]);
        assert!(status == "200" && content == long);
        let (_, status, content) = curl(&trusted, protocol, &url("/hello"), &["--head"]);
        let head = String::from_utf8_lossy(&content);
        assert!(
            status == "200" && head.contains("content-length:"),
            "{head}"
        );
    }
    let (version, ..) = curl(
        &trusted,
        "--http2",
        &format!("http://localhost:{}/hello", plain.port()),
        &[],
    );
    assert_eq!(
        version, "1.1",
        "who asks whether we would is answered as before"
    );
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn many_requests_share_a_connection() {
    let (folder, trusted, long) = long_service("http2_many", "");
    let server = Server::start(&folder, &["--http2", "--tls-listen", "127.0.0.1:0"]);
    let tls = server.places()[1];
    let into = folder.join("got");
    fs::create_dir_all(&into).expect("a folder");
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--http2",
            "--cacert",
        ])
        .arg(&trusted)
        .args(["--parallel", "--parallel-max", "100", "-o"])
        .arg(into.join("#1"))
        .arg(format!(
            "https://localhost:{}/hello?name=[1-300]",
            tls.port()
        ))
        .arg("-o")
        .arg(into.join("long#1"))
        .arg(format!(
            "https://localhost:{}/static/long.txt?[1-5]",
            tls.port()
        ))
        .output()
        .expect("there is curl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for number in 1..=300 {
        let page = fs::read_to_string(into.join(number.to_string())).expect("it came");
        assert_eq!(page, format!("<h1>Hello, {number}</h1>"));
    }
    for number in 1..=5 {
        let came = fs::read(into.join(format!("long{number}"))).expect("it came");
        assert!(came == long, "{} bytes of {}", came.len(), long.len());
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn it_is_spoken_where_it_is_asked_for() {
    let (folder, trusted, _) = long_service("http2_off", "");
    let server = Server::start(&folder, &["--tls-listen", "127.0.0.1:0"]);
    let tls = server.places()[1];
    let url = format!("https://localhost:{}/hello", tls.port());
    assert_eq!(curl(&trusted, "--http2", &url, &[]).0, "1.1");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn a_slow_request_is_told_of_with_its_client() {
    let (folder, trusted, _) = long_service("http2_slow", "");
    let flags = ["--http2", "--slow-request", "1us"];
    let server = Server::start(&folder, &flags);
    let url = format!(
        "http://127.0.0.1:{}/hello?name=a",
        server.places()[0].port()
    );
    let protocol = "--http2-prior-knowledge";
    assert_eq!(curl(&trusted, protocol, &url, &[]).0, "2");
    let line = server.said("a slow request");
    assert_eq!(line["fields"]["client"], "127.0.0.1", "{line}");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

/// A connection whose peer has greeted.
fn connected(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(NEVER)).expect("a duration");
    socket.write_all(PREFACE).expect("it is taken");
    socket
        .write_all(&frame(SETTINGS, 0, 0, b""))
        .expect("it is taken");
    socket
}

/// `GET path` for a.test, in HPACK without its table (RFC 7541, appendix A and section 6.2.2).
fn asked(path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    for (index, value) in [(0x04, path), (0x01, "a.test")] {
        block.extend_from_slice(&[index, value.len() as u8]);
        block.extend_from_slice(value.as_bytes());
    }
    block
}

fn resident_kib(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn who_reads_nothing_is_kept_at_bay() {
    let settings = "[limits]\nsend_timeout = \"2s\"\nidle_timeout = \"2s\"";
    let (folder, ..) = long_service("http2_unread", settings);
    let server = Server::start(&folder, &["--http2"]);
    let before = resident_kib(server.pid());
    // Windows as wide as they get, a hundred files of 3 MB asked for on each, and none is read.
    let mut all = Vec::new();
    for _ in 0..50 {
        let mut socket = TcpStream::connect(server.address).expect("it listens");
        let mut sent = PREFACE.to_vec();
        sent.extend(frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
        sent.extend(frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
        for stream in 0..100 {
            let ask = asked("/static/long.txt");
            sent.extend(frame(HEADERS, 0x5, 2 * stream + 1, &ask));
        }
        socket.write_all(&sent).expect("it is taken");
        all.push(socket);
    }
    let answer = server.client().ask("GET", "/hello", "").expect("an answer");
    assert_eq!(answer.status, 200);
    let grown = resident_kib(server.pid()).saturating_sub(before);
    assert!(grown < 50 * 1024, "{grown} KiB more");
    // They are let go: what is on its way comes, and then an end of some kind.
    std::thread::sleep(std::time::Duration::from_secs(5));
    for mut socket in all {
        socket.set_read_timeout(Some(NEVER)).expect("a duration");
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.len() < 100 * 3_000_000);
    }
    let answer = server.client().ask("GET", "/hello", "").expect("an answer");
    assert_eq!(answer.status, 200);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn floods_end_their_connection_and_disturb_nobody() {
    let (folder, ..) = long_service("http2_floods", "");
    let server = Server::start(&folder, &["--http2"]);
    let before = resident_kib(server.pid());
    let rapid = |n: u32| {
        let mut both = frame(HEADERS, 0x5, 2 * n + 1, &asked("/hello"));
        both.extend(frame(RESET, 0, 2 * n + 1, &[0, 0, 0, 8]));
        both
    };
    let endless = |n: u32| match n {
        0 => frame(HEADERS, 0x1, 1, &asked("/hello")),
        _ => frame(
            CONTINUATION,
            0,
            1,
            &[b"\x00\x01a\x7f", &[b'x'; 126][..]].concat(),
        ),
    };
    let pings = |_: u32| frame(PING, 0, 0, b"12345678");
    let settings = |_: u32| frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
    let empty = |n: u32| match n {
        0 => frame(HEADERS, 0x4, 1, &asked("/hello")),
        _ => frame(0, 0, 1, b""),
    };
    // What is answered is bounded by what the peer reads; the others have no end but this.
    type Flood<'a> = (&'a str, bool, &'a dyn Fn(u32) -> Vec<u8>);
    let floods: [Flood<'_>; 5] = [
        ("resets", true, &rapid),
        ("continuations", true, &endless),
        ("pings", false, &pings),
        ("settings", true, &settings),
        ("empty data", true, &empty),
    ];
    for (name, ends, flood) in floods {
        let mut socket = connected(server.address);
        socket
            .set_write_timeout(Some(std::time::Duration::from_millis(300)))
            .expect("a duration");
        let mut sent = 0;
        // Nothing is read: it is closed, or no more is taken.
        while sent < 200_000 {
            let many: Vec<u8> = (sent..sent + 100).flat_map(flood).collect();
            if socket.write_all(&many).is_err() {
                break;
            }
            sent += 100;
        }
        if ends {
            // What was taken of it was dropped.
            let ended = socket.read_to_end(&mut Vec::new());
            let is_late = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            assert!(!is_late, "{name}: it goes on for ever");
        }
        let answer = server.client().ask("GET", "/hello", "").expect("an answer");
        assert_eq!(answer.status, 200, "{name}");
        let grown = resident_kib(server.pid()).saturating_sub(before);
        assert!(grown < 20 * 1024, "{name}: {grown} KiB more");
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}
