//! Spans of `rhythm serve` on their way to a collector: over TLS, and of many connections at once.

use crate::number;
use crate::server::{NEVER, Server, service};
use crate::tls::make;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// A collector's port, and how many spans it was told of. It ends with its process.
struct Collector {
    port: u16,
    spans: Arc<AtomicUsize>,
}

impl Collector {
    /// One that shows this certificate, and takes what comes.
    fn sealed(certificate: &Path) -> Collector {
        let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
        let key = certificate.with_file_name("key.pem");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("some")
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let config = Arc::new(config.expect("they are one another's"));
        Collector::start(move |stream| {
            let connection = ServerConnection::new(config.clone()).expect("a server");
            take(StreamOwned::new(connection, stream))
        })
    }

    /// One that has each connection be taken so, which tells how many spans came.
    fn start(taken: impl Fn(TcpStream) -> Option<usize> + Send + 'static) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let spans = Arc::<AtomicUsize>::default();
        let counted = spans.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(taken(stream).unwrap_or(0), Ordering::Relaxed);
            }
        });
        Collector { port, spans }
    }
}

/// Takes what is posted, and says how many spans there are in it; nothing, where it does not come.
fn take(stream: impl Read + Write) -> Option<usize> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(("Content-Length", value)) = line.split_once(": ") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    stream.get_mut().write_all(answer.as_bytes()).ok()?;
    stream.get_mut().flush().ok()?;
    Some(spans.as_array().expect("spans").len())
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

#[test]
fn spans_go_over_tls_to_whom_an_authority_vouches_for_and_to_nobody_else() {
    let folder = service("traces_tls");
    let known = make(&folder, "known", &["localhost"]);
    let other = make(&folder, "other", &["localhost"]);
    let elsewhere = make(&folder, "elsewhere", &["elsewhere.test"]);
    for (shown, trusted, why) in [
        (&known, &known, None),
        (
            &known,
            &other,
            Some("no authority that is trusted has signed it"),
        ),
        (&elsewhere, &elsewhere, Some("not valid for name")),
    ] {
        let collector = Collector::sealed(shown);
        let url = format!("https://localhost:{}", collector.port);
        let trusted = trusted.to_str().expect("a plain path");
        let flags = [
            "--otlp",
            &url,
            "--otlp-ca",
            trusted,
            "--trace-sample",
            "100%",
        ];
        let server = Server::start(&folder, &flags);
        let mut client = server.client();
        for _ in 0..300 {
            assert_eq!(
                client.ask("GET", "/hello", "").expect("an answer").status,
                200
            );
        }
        match why {
            None => {
                until("they are taken", || figure(&server, "exported") >= 300);
                assert_eq!(figure(&server, "dropped"), 0);
                until("all came", || {
                    collector.spans.load(Ordering::Relaxed) >= figure(&server, "exported")
                });
            }
            Some(why) => {
                let line = server.said("spans of traces cannot be exported");
                let cause = line["fields"]["cause"].as_str().unwrap_or_default();
                assert!(cause.contains(why), "{cause}");
                assert_eq!(figure(&server, "exported"), 0);
                assert_eq!(collector.spans.load(Ordering::Relaxed), 0);
            }
        }
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

/// `RHYTHM_TRACED=10000` has so many connections, where this process may open as many files: the
/// server sees to that itself, and tests beside this one are not to have more than they would.
#[test]
fn many_connections_that_are_all_traced_take_bounded_memory_where_nobody_takes_spans() {
    let connections = number("RHYTHM_TRACED").unwrap_or(200);
    // It takes connections, and nothing that comes.
    let taken = std::sync::Mutex::new(Vec::new());
    let collector = Collector::start(move |stream| {
        taken.lock().expect("no panic").push(stream);
        None
    });
    let url = format!("http://127.0.0.1:{}", collector.port);
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

#[test]
fn a_collector_and_a_reader_of_the_log_that_hang_together_keep_no_server_from_a_clean_end() {
    let folder = service("traces_ending");
    let log = folder.join("access.log");
    let _ = fs::remove_file(&log);
    mknodat(CWD, &log, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    // It is full, and nobody reads it.
    let pipe = File::options().read(true).write(true).open(&log);
    let mut pipe = pipe.expect("it is there");
    fcntl_setfl(&pipe, OFlags::NONBLOCK).expect("a pipe");
    while matches!(pipe.write(&[b'-'; 4096]), Ok(1..)) {}
    let (tell, told) = channel();
    let collector = Collector::start(move |stream| {
        // Kept, and not read.
        tell.send(stream).expect("the test listens");
        None
    });
    let url = format!("http://127.0.0.1:{}", collector.port);
    let log = log.to_str().expect("a plain path");
    let flags = [
        "--otlp",
        &url,
        "--trace-sample",
        "100%",
        "--access-log",
        log,
    ];
    let server = Server::start(&folder, &flags);
    let answer = server.client().ask("GET", "/hello", "");
    assert_eq!(answer.expect("an answer").status, 200);
    let _held = told.recv_timeout(NEVER).expect("spans are posted");
    // All at once: then it is waited for nothing else.
    for _ in 0..3 {
        server.signal(Signal::TERM);
        thread::sleep(Duration::from_millis(50));
    }
    server.said("the access log takes no more");
    server.said("the collector of traces takes no more");
    assert_eq!(server.ended().code(), Some(0));
}
