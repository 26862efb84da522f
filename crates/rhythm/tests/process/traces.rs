//! Spans of `rhythm serve` on their way to a collector, of many connections at once.

use crate::number;
use crate::server::{NEVER, Server, service};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// Starts a collector that takes connections, and nothing that comes; its port. It ends with its
/// process.
fn silent_collector() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    port
}

/// What is counted of spans.
fn figure(server: &Server, what: &str) -> usize {
    let name = format!("rhythm_trace_spans_{what}_total{{}} ");
    let told = server.ask_admin("/metrics").1;
    let line = told.lines().find_map(|line| line.strip_prefix(&name));
    line.expect("it is counted").parse().expect("a number")
}

fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < NEVER, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes of memory that a server's process has.
fn memory(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: usize = kilobytes.expect("it is told").parse().expect("a number");
    kilobytes << 10
}

/// `RHYTHM_TRACED=10000` has so many connections.
#[test]
fn many_connections_that_are_all_traced_take_bounded_memory_where_nobody_takes_spans() {
    let connections = number("RHYTHM_TRACED").unwrap_or(200);
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).expect("it may be raised");
    let url = format!("http://127.0.0.1:{}", silent_collector());
    let server = Server::start(
        &service("traces_many"),
        &["--otlp", &url, "--trace-sample", "100%"],
    );
    let mut clients: Vec<_> = (0..connections).map(|_| server.client()).collect();
    // All ask at once, each so often.
    let mut ask = |times: usize| {
        thread::scope(|scope| {
            for some in clients.chunks_mut(connections.div_ceil(4)) {
                scope.spawn(move || {
                    for _ in 0..times {
                        for client in &mut *some {
                            client
                                .send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
                                .expect("it reads");
                        }
                        for client in &mut *some {
                            assert_eq!(client.answer().expect("an answer").status, 200);
                        }
                    }
                });
            }
        });
        times * connections
    };
    // Buffers and queues are as long as they become.
    let first = ask(10_000_usize.div_ceil(connections));
    let before = memory(&server);
    let more = ask(40_000_usize.div_ceil(connections));
    let grown = memory(&server).saturating_sub(before);
    // A span takes a few hundred bytes: 40,000 of them would be seen.
    assert!(grown < 8 << 20, "{grown} bytes after {before}");
    // What waits is less than this; all others are dropped, and counted.
    let waiting = 2 * 4096;
    until("they are dropped", || {
        figure(&server, "dropped") + waiting >= first + more
    });
    assert_eq!(figure(&server, "exported"), 0);
    assert_eq!(server.ask_admin("/healthz").0, 200);
    eprintln!(
        "{connections} connections, {} requests: {} spans dropped, {} MiB, {grown} bytes more",
        first + more,
        figure(&server, "dropped"),
        before >> 20
    );
}
