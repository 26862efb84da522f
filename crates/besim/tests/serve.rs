//! BeSim over HTTP, by byte dialogues on real sockets.

use rhythm_besim::Bank;
use rhythm_besim::serve::{ServeOptions, Server, Stopper};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A server that ends with the test.
struct Running(SocketAddr, Stopper);

impl Running {
    fn start(options: ServeOptions) -> Running {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(&ServeOptions { listen, ..options }).unwrap();
        Running(server.local_address(), server.stopper())
    }

    /// What comes back for `bytes` until the server closes.
    fn talk(&self, bytes: &str) -> String {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut answer = String::new();
        // A dropped connection is an answer, too.
        let _ = stream.read_to_string(&mut answer);
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.1.stop();
    }
}

fn get(query: &str, close: bool) -> String {
    let connection = if close { "Connection: close\r\n" } else { "" };
    format!("GET /besim?{query} HTTP/1.1\r\nHost: b\r\n{connection}\r\n")
}

fn body(query: &str) -> String {
    let mut out = Vec::new();
    Bank::new(100_000).answer(query.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Running::start(ServeOptions {
        threads: 2,
        ..ServeOptions::default()
    });
    let queries = ["1&3&17", "1&9&18", "1&99&1", "1&1&19"];
    let requests: String = queries
        .iter()
        .map(|query| get(query, *query == queries[3]))
        .collect();
    let answer = server.talk(&requests);
    let mut rest = &answer[..];
    for query in queries {
        let body = body(query);
        let (head, after) = rest.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        rest = after
            .strip_prefix(&body)
            .unwrap_or_else(|| panic!("{after}"));
    }
    assert_eq!(rest, "");
}

#[test]
fn other_methods_and_bad_requests() {
    let server = Running::start(ServeOptions::default());
    let head = server.talk("HEAD /x?1&3&17 HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n");
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", body("1&3&17").len()))
            && head.ends_with("\r\n\r\n")
    );
    let delete = server.talk("DELETE / HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n");
    assert!(
        delete.starts_with("HTTP/1.1 405") && delete.contains("Allow: GET, HEAD"),
        "{delete}"
    );
    assert!(
        server
            .talk("GET / HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nabc")
            .starts_with("HTTP/1.1 413")
    );
    assert!(server.talk("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(
        server
            .talk("GET /?1&3&17 HTTP/1.0\r\n\r\n")
            .ends_with(&body("1&3&17"))
    );
}

#[test]
fn pipelined_answers_are_delayed_side_by_side() {
    let delay = Duration::from_millis(60);
    let server = Running::start(ServeOptions {
        delay,
        ..ServeOptions::default()
    });
    let requests: String = (0..20).map(|i| get("1&3&17", i == 19)).collect();
    let start = Instant::now();
    let answers = server.talk(&requests);
    assert_eq!(answers.matches("200 OK").count(), 20);
    // Not before its time, and far from one after the other.
    assert!(
        (delay..delay * 10).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_share_of_the_requests_fails_and_the_seed_repeats_it() {
    let outcomes = |seed| {
        let options = ServeOptions {
            fail_percent: 40.0,
            seed,
            ..ServeOptions::default()
        };
        let server = Running::start(options);
        let outcome = |_| match server.talk(&get("1&3&17", true)) {
            answer if answer.starts_with("HTTP/1.1 200") => 'g',
            answer if answer.starts_with("HTTP/1.1 500") => 'e',
            answer if answer.is_empty() => 'd',
            answer => panic!("{answer}"),
        };
        (0..100).map(outcome).collect::<String>()
    };
    let first = outcomes(1);
    let count = |of| first.matches(of).count();
    assert!(
        (40..80).contains(&count('g')) && count('e') > 5 && count('d') > 5,
        "{first}"
    );
    assert_eq!(first, outcomes(1));
    assert_ne!(first, outcomes(2));
}

#[test]
fn more_requests_than_may_wait_are_answered_all_the_same() {
    for delay in [Duration::ZERO, Duration::from_millis(2)] {
        let server = Running::start(ServeOptions {
            delay,
            ..ServeOptions::default()
        });
        let requests: String = (0..5000).map(|i| get("1&2&17", i == 4999)).collect();
        let answers = server.talk(&requests);
        assert_eq!(answers.matches("200 OK").count(), 5000, "{delay:?}");
    }
}
