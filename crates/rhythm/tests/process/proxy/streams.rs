//! What takes long: contents and answers larger than what is held, ends before the end, other
//! protocols.

use super::super::server::{NEVER, Server};
use super::upstream::Upstream;
use super::{folder, get, raw, route, serve, serve_by_one};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of memory that a server's process has.
fn memory(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|it| it.trim().parse::<usize>().ok())
        .expect("a number")
        << 10
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    stream
}

/// Reads until it ends in this.
fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    while !all.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("there is more");
        all.push(byte[0]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < NEVER, "{what} never happens");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn long_contents_and_answers_pass_through() {
    let app = Upstream::new();
    let server = serve("long", &app, "");
    const LENGTH: usize = 20 << 20;
    for head in ["Content-Length: 20971520", "Transfer-Encoding: chunked"] {
        let mut stream = connect(&server);
        let mut writes = stream.try_clone().expect("a socket");
        let is_chunked = head.contains("chunked");
        let post =
            format!("POST /app/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{head}\r\n\r\n");
        let writer = thread::spawn(move || {
            writes.write_all(post.as_bytes()).expect("it reads");
            let piece = [b'y'; 1 << 16];
            for _ in 0..LENGTH >> 16 {
                if is_chunked {
                    writes.write_all(b"10000\r\n").expect("it reads");
                }
                writes.write_all(&piece).expect("it reads");
                if is_chunked {
                    writes.write_all(b"\r\n").expect("it reads");
                }
            }
            if is_chunked {
                writes.write_all(b"0\r\n\r\n").expect("it reads");
            }
        });
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an answer");
        writer.join().expect("no panic");
        let body = all.len() - LENGTH;
        assert!(all[body..].iter().all(|byte| *byte == b'y'), "{head}");
        assert!(all[..body].ends_with(b"\r\n\r\n"));
        assert_eq!(app.seen()[0].content.len(), LENGTH);
    }
}

#[test]
fn clients_that_do_not_read_and_servers_that_do_not_hold_little() {
    let app = Upstream::new();
    let server = serve("slow", &app, "piece_timeout = \"60s\"");
    assert_eq!(get(&server, "/app/length").0, 200);
    let before = memory(&server);
    // 4 GB of answers that nobody reads.
    let readers: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = connect(&server);
            let head = "GET /app/big HTTP/1.1\r\nHost: h\r\n\r\n";
            stream.write_all(head.as_bytes()).expect("it reads");
            stream
        })
        .collect();
    // And contents that nobody takes.
    let writers: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(&server);
            let again = stream.try_clone().expect("a socket");
            let writer = thread::spawn(move || {
                let head =
                    "POST /app/unread HTTP/1.1\r\nHost: h\r\nContent-Length: 200000000\r\n\r\n";
                let mut sent = 0;
                let mut result = stream.write_all(head.as_bytes());
                while result.is_ok() && sent < 200_000_000 {
                    result = stream.write_all(&[b'z'; 100_000]);
                    sent += 100_000;
                }
                sent
            });
            (again, writer)
        })
        .collect();
    until("all are seen", || {
        thread::sleep(Duration::from_millis(500));
        app.connections() >= 40
    });
    thread::sleep(Duration::from_secs(2));
    let held = memory(&server).saturating_sub(before);
    eprintln!(
        "20 answers of 200 MB not read, and 20 contents not taken: {} kB more",
        held >> 10
    );
    assert!(held < 64 << 20, "{held} bytes are held");
    // Others are answered meanwhile.
    assert_eq!(get(&server, "/app/length"), (200, "hello".to_owned()));
    // Who reads late gets all.
    let mut late = readers.into_iter().next().expect("there are 20");
    let head = read_to(&mut late, "\r\n\r\n");
    assert!(head.contains("200000000"), "{head}");
    let (mut read, mut buffer) = (0, vec![0; 1 << 20]);
    while read < 200_000_000 {
        read += late.read(&mut buffer).expect("there is more");
    }
    assert_eq!(read, 200_000_000);
    for (stream, writer) in writers {
        stream.shutdown(std::net::Shutdown::Both).expect("a socket");
        let sent = writer.join().expect("no panic");
        assert!(sent < 100_000_000, "{sent} bytes went nowhere");
    }
}

#[test]
fn early_answers_end_the_connection_and_expectations_are_met_here() {
    let app = Upstream::new();
    let server = serve("early", &app, "content_bytes_max = 1000");
    let text = raw(
        &server,
        b"POST /app/early HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\n\r\nabc",
    );
    assert!(
        text.starts_with("HTTP/1.1 403") && text.ends_with("no"),
        "{text}"
    );
    let mut stream = connect(&server);
    let head = "POST /app/echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
                Content-Length: 3\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it reads");
    assert_eq!(
        read_to(&mut stream, "\r\n\r\n"),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    stream.write_all(b"abc").expect("it reads");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("text");
    assert!(rest.ends_with("\r\n\r\nabc"), "{rest}");
    assert!(
        app.seen()
            .last()
            .expect("it was asked")
            .field("expect")
            .is_empty()
    );
    // Too much is refused, told beforehand or not.
    let told = "POST /app/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n";
    assert!(raw(&server, told.as_bytes()).starts_with("HTTP/1.1 413"));
    let chunk = format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001));
    let untold = "POST /app/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                  Transfer-Encoding: chunked\r\n\r\n";
    assert!(raw(&server, format!("{untold}{chunk}").as_bytes()).starts_with("HTTP/1.1 413"));
    assert!(app.seen().is_empty(), "none of it was a request");
    let line = server.said("larger than `content_bytes_max` of its [[proxy]]");
    let fields = &line["fields"];
    assert_eq!(
        (&fields["bytes"], &fields["most"]),
        (&1001.into(), &1000.into())
    );
    assert_eq!(
        (&fields["route"], &fields["status"]),
        (&"/app/**".into(), &413.into())
    );
}

#[test]
fn a_client_that_goes_away_takes_its_request_along() {
    let app = Upstream::new();
    let server = serve("gone", &app, "connections_max = 1\nwait_timeout = \"50s\"");
    let mut stream = connect(&server);
    stream
        .write_all(b"GET /app/hang HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    until("it is asked", || app.connections() == 1);
    // The one connection is taken, and this waits for it, on whichever worker.
    drop(stream);
    for _ in 0..4 {
        assert_eq!(get(&server, "/app/length"), (200, "hello".to_owned()));
    }
    until("none is under way", || {
        let (_, metrics) = server.ask_admin("/metrics");
        let mut lines = metrics.lines();
        let under_way = lines.find(|line| line.starts_with("rhythm_proxy_under_way{"));
        under_way.is_some_and(|line| line.ends_with(" 0.0"))
    });
}

#[test]
fn requests_beyond_the_connections_wait_and_beyond_that_are_refused() {
    let app = Upstream::new();
    let more = "connections_max = 1\nwaiting_max = 1\nwait_timeout = \"300ms\"";
    let folder = folder("full", &route("/app/**", &[&app], more));
    let server = serve_by_one(&folder);
    let mut hanging = connect(&server);
    hanging
        .write_all(b"GET /app/hang HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    until("it is asked", || app.connections() == 1);
    let mut waiting = connect(&server);
    let head = "GET /app/length HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    waiting.write_all(head.as_bytes()).expect("it reads");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(get(&server, "/app/length").0, 503, "one waits already");
    let mut text = String::new();
    waiting.read_to_string(&mut text).expect("text");
    assert!(text.starts_with("HTTP/1.1 503"), "its time is over: {text}");
    drop(hanging);
    assert_eq!(get(&server, "/app/length").0, 200);
}

#[test]
fn another_protocol_passes_through_for_as_long_as_it_likes() {
    let app = Upstream::new();
    let folder = folder(
        "socket",
        &(route(
            "/app/**",
            &[&app],
            "answer_timeout = \"3s\"\npiece_timeout = \"3s\"",
        ) + "[limits]\nbody_timeout = \"3s\"\n"),
    );
    let server = Server::start(&folder, &[]);
    let ask = |path: &str| {
        format!(
            "GET /app/{path} HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
        )
    };
    let mut stream = connect(&server);
    // What is sent before the answer is the other protocol's.
    stream
        .write_all((ask("socket") + "early").as_bytes())
        .expect("it reads");
    let head = read_to(&mut stream, "\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
        "{head}"
    );
    for line in [
        "upgrade: websocket\r\n",
        "sec-websocket-accept: x\r\n",
        "connection: upgrade\r\n",
    ] {
        assert!(head.to_ascii_lowercase().contains(line), "{line} in {head}");
    }
    assert_eq!(read_to(&mut stream, "welcomeearly"), "welcomeearly");
    thread::sleep(Duration::from_secs(4));
    stream.write_all(b"one").expect("it reads");
    let heard = read_to(&mut stream, "one");
    assert_eq!(heard, "one", "it has all the time it wants");
    let mut writes = stream.try_clone().expect("a socket");
    let writer = thread::spawn(move || {
        for _ in 0..200 {
            writes.write_all(&[b'w'; 50_000]).expect("it reads");
        }
    });
    let mut all = vec![0; 10_000_000];
    stream.read_exact(&mut all).expect("it comes back");
    assert!(all.iter().all(|byte| *byte == b'w'));
    writer.join().expect("no panic");
    let seen = app.seen();
    assert_eq!(seen[0].field("upgrade"), ["websocket"]);
    assert_eq!(seen[0].field("connection"), ["upgrade"]);
    // The end of one is the end of the other.
    app.cut();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    // One that does not want to answers as ever, and what was sent is no request to it.
    let hidden = "GET /app/hidden HTTP/1.1\r\nHost: h\r\n\r\n";
    let text = raw(&server, (ask("length") + hidden).as_bytes());
    assert!(
        text.starts_with("HTTP/1.1 200") && text.ends_with("hello"),
        "{text}"
    );
    assert_eq!(app.seen().len(), 1);
    // A page answers as if nothing had been asked.
    let mut page = connect(&server);
    page.write_all(ask("moved").as_bytes()).expect("it reads");
    assert!(read_to(&mut page, "moved").starts_with("HTTP/1.1 200"));
    page.set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a duration");
    let kept = page.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(
        kept,
        Err(ErrorKind::WouldBlock),
        "and its connection goes on"
    );
}
