//! Servers that are killed and started again under load, and that are not in order.

use super::super::server::{NEVER, Server};
use super::{folder, serve_by_one};
use rhythm_etcd::testing::free_places;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server of Python's, which keeps connections.
const SCRIPT: &str = "
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1  # An answer is sent as one: none is cut off within.
    def do_GET(self):
        is_ill = self.path == '/health' and os.path.exists(sys.argv[2])
        body = (self.path + ' ' + sys.argv[1]).encode()
        self.send_response(503 if is_ill else 200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
server = Server(('127.0.0.1', int(sys.argv[1])), Handler)
print('ready', flush=True)
server.serve_forever()
";

/// One process of it; killed when dropped.
struct Python(Child);

impl Python {
    fn start(port: u16, ill: &str) -> Python {
        let child = Command::new("python3")
            .args(["-c", SCRIPT, &port.to_string(), ill])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is python3");
        let mut python = Python(child);
        let mut ready = String::new();
        let out = python.0.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut ready).expect("text");
        assert_eq!(ready, "ready\n");
        python
    }

    fn kill(&mut self) {
        // One that has ended cannot be killed any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ports where nobody listens.
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let places = free_places(COUNT);
    std::array::from_fn(|at| places[at].port())
}

fn service(ports: &[u16], more: &str) -> String {
    let to: Vec<String> = ports
        .iter()
        .map(|it| format!("\"http://127.0.0.1:{it}\""))
        .collect();
    format!(
        "[[proxy]]\nmatch = \"/**\"\nto = [{}]\n{more}\n",
        to.join(", ")
    )
}

/// Has 8 clients ask for one after the other while something is done: how many were answered, and
/// how many were not.
fn under_load(server: &Server, act: impl FnOnce()) -> (usize, usize) {
    let (is_over, answered, lost) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    thread::scope(|scope| {
        for index in 0..8 {
            let (is_over, answered, lost) = (&is_over, &answered, &lost);
            scope.spawn(move || {
                let mut client = server.client();
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let path = format!("/{index}-{turn}");
                    match client.ask("GET", &path, "") {
                        Ok(answer) if answer.status == 200 => {
                            assert!(answer.body.starts_with(&format!("{path} ")), "{answer:?}");
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => {
                            eprintln!("lost: {other:?}");
                            lost.fetch_add(1, Ordering::Relaxed);
                            client = server.client();
                        }
                    }
                }
            });
        }
        act();
        is_over.store(true, Ordering::Relaxed);
    });
    (answered.into_inner(), lost.into_inner())
}

#[test]
fn servers_are_killed_and_no_request_is_lost_that_may_be_repeated() {
    let ports = free_ports::<2>();
    let mut servers = ports.map(|port| Python::start(port, ""));
    let more = "aside = \"200ms\"";
    let server = Server::start(&folder("killed", &service(&ports, more)), &[]);
    let (answered, lost) = under_load(&server, || {
        for round in 0..6 {
            thread::sleep(Duration::from_millis(300));
            let one = round % 2;
            servers[one].kill();
            thread::sleep(Duration::from_millis(300));
            servers[one] = Python::start(ports[one], "");
        }
    });
    eprintln!("{answered} answered and {lost} lost while servers were killed 6 times");
    assert!(
        answered > 100 && lost == 0,
        "{answered} answered, {lost} lost"
    );
    server.said("is left alone");
}

#[test]
fn a_server_alone_is_killed_and_only_what_it_had_is_lost() {
    let [port] = free_ports();
    let mut app = Python::start(port, "");
    // However long a start takes on this machine.
    let more = "restart_timeout = \"30s\"";
    let server = Server::start(&folder("killed-alone", &service(&[port], more)), &[]);
    let (answered, lost) = under_load(&server, || {
        for _ in 0..6 {
            thread::sleep(Duration::from_millis(300));
            app.kill();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let posted = server.client().ask("POST", "/echo", "a=b");
                        let posted = posted.expect("an answer");
                        assert_eq!((posted.status, &*posted.body), (200, "a=b"));
                    });
                }
                thread::sleep(Duration::from_millis(300));
                app = Python::start(port, "");
            });
        }
    });
    eprintln!("{answered} answered and {lost} lost while the only server was killed 6 times");
    // What was sent to it on a new connection may be why it died, and is not sent there again: of
    // each client one request, each time.
    assert!(
        answered > 100 && lost <= 8 * 6,
        "{answered} answered, {lost} lost"
    );
}

#[test]
fn a_server_that_says_that_it_is_not_in_order_is_not_asked() {
    let ports = free_ports::<2>();
    let folder = folder(
        "ill",
        &service(&ports, "health = \"/health\"\nhealth_interval = \"2s\""),
    );
    let ill = folder.join("ill");
    let _servers = [
        Python::start(ports[0], ""),
        Python::start(ports[1], ill.to_str().expect("text")),
    ];
    let server = serve_by_one(&folder);
    let count = |port: u16| {
        let of = |_| {
            server
                .client()
                .ask("GET", "/who", "")
                .expect("an answer")
                .body
        };
        let all: Vec<String> = (0..20).map(of).collect();
        all.iter()
            .filter(|it| it.ends_with(&port.to_string()))
            .count()
    };
    assert!(count(ports[1]) > 0);
    std::fs::write(&ill, "").expect("a file can be written");
    let is_ill = |line: &serde_json::Value| {
        let fields = &line["fields"];
        let server = fields["server"].as_str().unwrap_or_default();
        server.ends_with(&format!(":{}", ports[1])) && fields["cause"] == "status 503"
    };
    server.said_of(is_ill);
    assert_eq!(count(ports[1]), 0);
    std::fs::remove_file(&ill).expect("it is there");
    server.said("in order again");
    assert!(count(ports[1]) > 0);
}

#[test]
fn a_client_stays_with_one_server_where_that_is_asked_for() {
    let ports = free_ports::<3>();
    let mut servers = ports.map(|port| Python::start(port, ""));
    let folder = folder("stays", &service(&ports, "balance = \"client\""));
    let server = Server::start(&folder, &[]);
    let who = || server.client().ask("GET", "/who", "").expect("an answer");
    let first = who().body;
    for _ in 0..20 {
        assert_eq!(who().body, first);
    }
    let at = ports
        .iter()
        .position(|port| first.ends_with(&port.to_string()));
    servers[at.expect("one of them")].kill();
    let start = Instant::now();
    let second = loop {
        let answer = who();
        if answer.body != first {
            break answer;
        }
        assert!(start.elapsed() < NEVER);
    };
    assert_eq!(second.status, 200);
    assert_eq!(who().body, second.body);
}
