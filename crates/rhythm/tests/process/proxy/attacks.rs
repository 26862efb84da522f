//! Clients and servers that mean ill: what they send costs nobody else an answer, and nobody gets
//! another's.

use super::super::server::{NEVER, Server};
use super::upstream::Upstream;
use super::{asked_once, folder, get, raw, route, serve, serve_by_one};
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many requests are under way with the server of the first route.
fn under_way(server: &Server) -> String {
    let (_, metrics) = server.ask_admin("/metrics");
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.starts_with("rhythm_proxy_under_way{"));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.expect("a figure").to_owned()
}

/// Whether all threads of a process are stopped: a signal has come before it is obeyed.
fn stands_still(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let mut states = threads.map(|thread| {
        let stat = fs::read_to_string(thread.expect("a thread").path().join("stat"));
        let stat = stat.expect("it runs");
        // Behind the name, which may have anything in it.
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    });
    states.all(|is_stopped| is_stopped)
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < NEVER, "{what} never happens");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A WebSocket at this path, once the server has agreed.
fn socket(server: &Server, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("there is more");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    stream
}

#[test]
fn sockets_of_those_who_are_gone_without_a_word_are_closed() {
    let app = Upstream::new();
    let more = "piece_timeout = \"2s\"\ntunnel_timeout = \"3s\"";
    let server = serve("tunnels", &app, more);
    // A server that takes nothing, and a client that is gone behind what it sent: nobody reads its
    // end.
    let mut deaf = socket(&server, "/app/deaf-socket");
    deaf.set_nonblocking(true).expect("a socket");
    let mut full = Instant::now();
    while full.elapsed() < Duration::from_millis(200) {
        match deaf.write(&[b'x'; 1 << 16]) {
            Ok(taken) => {
                assert!(taken > 0);
                full = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // It is given up already.
            Err(_) => break,
        }
    }
    drop(deaf);
    until("it is given up", || under_way(&server) == "0.0");
    let line = server.said("could not be proxied");
    let cause = line["fields"]["cause"].as_str();
    assert_eq!(cause, Some("it took nothing of a request for too long"));
    // Who talks is left alone, also where it is the client alone, and who is silent is not.
    let mut talks = socket(&server, "/app/socket");
    let mut silent = socket(&server, "/app/deaf-socket");
    let mut says = talks.try_clone().expect("a socket");
    let has_said = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_said.load(Ordering::Relaxed) {
                says.write_all(b"x").expect("it is open");
                thread::sleep(Duration::from_millis(50));
            }
            says.write_all(b"end").expect("it is open");
        });
        // It began later, and has had its time.
        let ended = silent.read(&mut [0]);
        thread::sleep(Duration::from_millis(500));
        has_said.store(true, Ordering::Relaxed);
        assert_eq!(ended.expect("an end in order"), 0);
    });
    until("it is counted", || under_way(&server) == "1.0");
    let mut all = Vec::new();
    while !all.ends_with(b"end") {
        let mut byte = [0];
        talks.read_exact(&mut byte).expect("it is open");
        all.push(byte[0]);
    }
    let failures = format!(
        "rhythm_proxy_failures_total{{route=\"/app/**\",server=\"{}\"}} 1",
        app.url()
    );
    let (_, metrics) = server.ask_admin("/metrics");
    assert!(metrics.contains(&failures), "silence is no failure");
}

/// The next connection, which is not waited for longer than for ever.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut found = None;
    until("a connection", || {
        found = listener.accept().ok();
        found.is_some()
    });
    let (stream, _) = found.expect("it was found");
    stream.set_nonblocking(false).expect("a socket");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    stream
}

/// Reads a request's head.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a request");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

#[test]
fn what_is_said_on_a_connection_before_it_is_asked_is_nobodys_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let service =
        format!("[[proxy]]\nmatch = \"/**\"\nto = \"http://{address}\"\nkeep_alive = \"60s\"\n");
    let server = serve_by_one(&folder("before", &service));
    let mut client = TcpStream::connect(server.address).expect("it listens");
    client.set_read_timeout(Some(NEVER)).expect("a duration");
    client
        .write_all(b"GET /one HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    let mut first = accepted(&listener);
    read_head(&mut first);
    first
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")
        .expect("it reads");
    let mut one = Vec::new();
    while !one.ends_with(b"\r\n\r\none") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("an answer");
        one.push(byte[0]);
    }
    // While it looks at nothing, a request comes, and then an answer that nobody asked for: it is
    // told of the request first.
    server.signal(Signal::STOP);
    until("it stands still", || stands_still(server.pid()));
    client
        .write_all(b"GET /two HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    thread::sleep(Duration::from_millis(50));
    first
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        .expect("it reads");
    thread::sleep(Duration::from_millis(50));
    server.signal(Signal::CONT);
    let mut second = accepted(&listener);
    assert!(read_head(&mut second).starts_with("GET /two "));
    second
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")
        .expect("it reads");
    let mut two = String::new();
    client.read_to_string(&mut two).expect("text");
    assert!(two.ends_with("\r\n\r\ntwo"), "{two}");
}

#[test]
fn content_behind_an_answer_that_has_none_is_nobodys_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let service = format!("[[proxy]]\nmatch = \"/**\"\nto = \"http://{address}\"\n");
    let server = serve_by_one(&folder("behind", &service));
    let mut client = TcpStream::connect(server.address).expect("it listens");
    client.set_read_timeout(Some(NEVER)).expect("a duration");
    client
        .write_all(b"HEAD /one HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    let mut first = accepted(&listener);
    assert!(read_head(&mut first).starts_with("HEAD /one "));
    let evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", evil.len());
    first.write_all(head.as_bytes()).expect("it reads");
    assert!(read_head(&mut client).contains(&format!("Content-Length: {}\r\n", evil.len())));
    client
        .write_all(b"GET /two HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    // What a server sends of it as late as this comes when the next has been asked.
    let mut second = accepted(&listener);
    assert!(read_head(&mut second).starts_with("GET /two "));
    let _ = first.write_all(evil);
    second
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")
        .expect("it reads");
    let mut two = String::new();
    client.read_to_string(&mut two).expect("text");
    assert!(two.ends_with("\r\n\r\ntwo"), "{two}");
}

#[test]
fn answers_that_never_come_to_an_end_cost_nobody_else_anything() {
    let app = Upstream::new();
    let hasty = "answer_timeout = \"500ms\"\npiece_timeout = \"500ms\"";
    let service = route("/app/**", &[&app], "") + &route("/hasty/**", &[&app], hasty);
    let server = Server::start(&folder("endless", &service), &[]);
    for path in ["interim", "endless-head", "endless-trailers"] {
        let text = raw(&server, &asked_once(&format!("/hasty/{path}")));
        let is_whole = text.starts_with("HTTP/1.1 200") && text.ends_with("0\r\n\r\n");
        assert!(!is_whole, "{path}: {text}");
    }
    assert_eq!(get(&server, "/app/length"), (200, "hello".to_owned()));
}

#[test]
fn what_may_lead_past_the_routes_is_not_asked_for() {
    let (app, admin) = (Upstream::new(), Upstream::new());
    let service = route("/app/**", &[&app], "") + &route("/app/admin/**", &[&admin], "");
    let server = Server::start(&folder("past", &service), &[]);
    for path in [
        "/app/..;/admin/length",
        "/app/x/..;a=b/admin/length",
        "/app//admin/length",
        "/app/admin;x/length",
        "/app/admin%2flength",
        "/app/a%00/length",
        "/app//moved",
    ] {
        let text = raw(&server, &asked_once(path));
        assert!(text.starts_with("HTTP/1.1 400 "), "{path}: {text}");
    }
    assert!(app.seen().is_empty() && admin.seen().is_empty());
    for path in ["/app/a;v=1/length", "/app/a%2fb/length", "/app/a//length"] {
        assert_eq!(get(&server, path).0, 200, "{path}");
    }
    let seen = app.seen();
    let paths: Vec<&str> = seen.iter().map(|seen| seen.path()).collect();
    let as_sent = ["/app/a;v=1/length", "/app/a%2fb/length", "/app/a//length"];
    assert_eq!(paths, as_sent);
}
