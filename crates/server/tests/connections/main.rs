//! Connections over real sockets: limits, time-outs, half-closing, back-pressure, draining,
//! reloading.

#[path = "../common/mod.rs"]
mod common;
mod ending;
mod observing;

use common::*;
use rhythm_engine::settings::AccessLogFormat;
use std::num::NonZeroU32;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(1500);

/// Longer than any test runs.
const NEVER: Duration = Duration::from_secs(600);

/// Waits until one request for the page `ask` was taken, and says how many connections there were.
fn busy_count(server: &rhythm_server::Handle) -> u64 {
    let metrics = server.metrics().worker(0);
    eventually("it is taken", || metrics.page("ask").requests.get() == 1);
    metrics.accepted.get()
}

#[test]
fn connections_end_as_agreed() {
    let server = start(|options| options.pipeline.clients.requests_max = NonZeroU32::new(3));
    let mut old = client(&server);
    old.send("GET /hello HTTP/1.0\r\n\r\n");
    let response = old.response(false);
    assert!(response.head.starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(response.header("connection"), Some("close"));
    assert!(old.closed());
    let mut keeping = client(&server);
    keeping.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(
        keeping.response(false).header("connection"),
        Some("keep-alive")
    );
    assert_eq!(keeping.get("/hello").status, 200);
    assert_eq!(
        keeping.get("/hello").header("connection"),
        Some("close"),
        "the third is the last"
    );
    assert!(keeping.closed());
    let mut closing = client(&server);
    let last = closing.with("GET /hello", "Connection: close\r\n", "");
    assert_eq!(last.header("connection"), Some("close"));
    assert!(closing.closed());
    stop(server);
}

#[test]
fn a_client_that_sends_no_more_still_gets_its_answers() {
    let server = start(|options| options.pipeline.contexts = 1);
    let mut client = client(&server);
    client.send(
        "GET /ask?q=late HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /ha",
    );
    client.finish();
    assert_eq!(client.response(false).text(), "[late]");
    assert_eq!(client.response(false).text(), "<p>Hello you!</p>");
    assert!(client.closed());
    stop(server);
}

#[test]
fn slow_clients_cost_a_bounded_time() {
    let server = start(|options| {
        options.pipeline.clients.header_timeout = SHORT;
        options.pipeline.clients.body_timeout = SHORT;
        options.pipeline.clients.idle_timeout = SHORT;
    });
    let mut head = client(&server);
    head.send("GET /hello HT");
    let mut body = client(&server);
    body.send(
        "POST /hello HTTP/1.1\r\nHost: x\r\n\
        Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nname=",
    );
    let mut silent = client(&server);
    let mut idle = client(&server);
    assert_eq!(idle.get("/hello").status, 200);
    for slow in [&mut head, &mut body] {
        let response = slow.response(false);
        assert_eq!(
            (response.status, response.header("connection")),
            (408, Some("close"))
        );
        assert!(slow.closed());
    }
    assert!(silent.closed() && idle.closed());
    stop(server);
}

#[test]
fn malformed_and_oversized_requests_are_refused() {
    let server = start(|_| {});
    let long = "x".repeat(20_000);
    let cases = [
        ("GET /hello HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /hello HTTP/1.1\nHost: x\n\n".to_owned(), 400),
        ("GET /hello HTTP/2.0\r\nHost: x\r\n\r\n".to_owned(), 505),
        ("get /hello HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 501),
        (
            "BREW /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(),
            501,
        ),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), 414),
        (
            format!("GET / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
            431,
        ),
        (
            "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 2001\r\n\r\n".to_owned(),
            413,
        ),
        (
            "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\
            Transfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
            400,
        ),
        (
            "POST /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
            7d1\r\n"
                .to_owned(),
            413,
        ),
        (
            "POST /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
            zz\r\n"
                .to_owned(),
            400,
        ),
        (
            "GET /hello HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n".to_owned(),
            417,
        ),
    ];
    for (request, status) in cases {
        let mut client = client(&server);
        client.send(&request);
        let response = client.response(false);
        assert_eq!(response.status, status, "{request:?}");
        assert_eq!(response.header("connection"), Some("close"));
        assert!(client.closed(), "{request:?}");
    }
    stop(server);
}

#[test]
fn bodies_come_in_any_framing_and_any_pieces() {
    let server = start(|_| {});
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let chunked = format!(
        "POST /hello HTTP/1.1\r\nHost: x\r\n{kind}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\
        name\r\n3;a=b\r\n=ab\r\n0\r\nT: 1\r\n\r\n"
    );
    let counted =
        format!("POST /hello HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: 7\r\n\r\nname=ab");
    let both = format!("{chunked}\r\n{counted}");
    let mut whole = client(&server);
    whole.send(&both);
    let mut pieces = client(&server);
    for piece in both.as_bytes().chunks(3) {
        pieces.send(piece);
        std::thread::yield_now();
    }
    for client in [&mut whole, &mut pieces] {
        for _ in 0..2 {
            assert_eq!(client.response(false).text(), "<p>Hello ab!</p>");
        }
    }
    stop(server);
}

#[test]
fn content_is_asked_for_only_where_it_is_wanted() {
    let server = start(|_| {});
    let head = |path: &str, length: u32| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\n\
            Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\
            Content-Length: {length}\r\n\r\n"
        )
    };
    let mut wanted = client(&server);
    wanted.send(head("/hello", 6));
    assert_eq!(wanted.response(false).status, 100);
    wanted.send("name=z");
    assert_eq!(wanted.response(false).text(), "<p>Hello z!</p>");
    // Behind another request it comes in its turn.
    wanted.send(format!(
        "GET /ask?q=late HTTP/1.1\r\nHost: x\r\n\r\n{}",
        head("/hello", 6)
    ));
    assert_eq!(wanted.response(false).text(), "[late]");
    assert_eq!(wanted.response(false).status, 100);
    wanted.send("name=y");
    assert_eq!(wanted.response(false).text(), "<p>Hello y!</p>");
    // What would be answered whatever the content is, is told as it would be.
    wanted.send(head("/hello", 6).replace("POST", "OPTIONS"));
    assert_eq!(wanted.response(false).status, 100);
    wanted.send("name=x");
    let allows = wanted.response(false);
    assert_eq!(allows.status, 204);
    assert_eq!(allows.header("allow"), Some("GET, HEAD, OPTIONS, POST"));
    for (path, length, status, allow) in [
        ("/nothing", 6, 404, None),
        ("/number/1", 6, 405, Some("GET, HEAD, OPTIONS")),
        ("/static/a.css", 6, 405, Some("GET, HEAD, OPTIONS")),
        ("/static/./a.css", 6, 405, Some("GET, HEAD, OPTIONS")),
        ("/hello", 9999, 413, None),
    ] {
        let mut client = client(&server);
        client.send(head(path, length));
        let answer = client.response(false);
        assert_eq!(
            (answer.status, answer.header("allow")),
            (status, allow),
            "{path}"
        );
        assert!(client.closed());
    }
    stop(server);
}

#[test]
fn one_context_serves_all_if_not_at_once() {
    let server = start(|options| {
        options.pipeline.contexts = 1;
        options.pipeline.formation.lanes_max = 2;
    });
    let mut clients: Vec<Client> = (0..20).map(|_| client(&server)).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        for path in [
            format!("/ask?q=a{index}"),
            format!("/hello?name=b{index}"),
            format!("/number/{}", 8 + index),
        ] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        }
    }
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response(false).text(), format!("[a{index}]"));
        assert_eq!(
            client.response(false).text(),
            format!("<p>Hello b{index}!</p>")
        );
        assert_eq!(
            client.response(false).text(),
            format!("{}", 100 / (index + 1))
        );
    }
    stop(server);
}

#[test]
fn who_waits_for_a_context_keeps_his_place() {
    let written = Written::default();
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    options.pipeline.contexts = 1;
    options.log_format = AccessLogFormat::Common;
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    parts.log = Some(log_to(written.clone()));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let metrics = server.metrics().worker(0);
    // The first has the only context; each of the others is of another page than the one before.
    let paths = [
        "/ask?q=held-context",
        "/hello?name=1",
        "/number/12",
        "/hello?name=3",
        "/number/14",
    ];
    let mut clients: Vec<Client> = paths.iter().map(|_| client(&server)).collect();
    for (stalls, (client, path)) in clients.iter_mut().zip(paths).enumerate() {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        eventually("it is known", || {
            metrics.page("ask").requests.get() == 1 && metrics.stalls.get() == stalls as u64
        });
    }
    answer_held("held-context");
    clients
        .iter_mut()
        .for_each(|client| drop(client.response(false)));
    stop(server);
    let text = written.text();
    let logged = text
        .lines()
        .filter_map(|line| line.split(' ').find(|word| word.starts_with('/')));
    assert_eq!(logged.collect::<Vec<_>>(), paths);
}

#[test]
fn a_client_that_does_not_read_is_waited_for_and_then_dropped() {
    let server = start(|options| options.pipeline.clients.send_timeout = SHORT);
    let mut patient = client(&server);
    let requests = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
    patient.send(&requests);
    let first = patient.response(false);
    for _ in 1..20 {
        assert_eq!(patient.response(false).body, first.body);
    }
    let mut deaf = client(&server);
    deaf.send(&requests);
    let metrics = server.metrics().worker(0);
    let figures = || [&metrics.accepted, &metrics.too_slow].map(|it| it.get());
    eventually("it is dropped", || figures() == [2, 1]);
    assert_eq!(patient.get("/hello").status, 200);
    stop(server);
}

#[test]
fn an_address_has_as_many_connections_as_it_may_and_no_more() {
    let server = start(|options| options.connections_per_address_max = NonZeroU32::new(2));
    let [mut first, mut second] = [client(&server), client(&server)];
    assert_eq!(first.get("/hello").status, 200);
    assert_eq!(second.get("/hello").status, 200);
    assert!(client(&server).dropped());
    assert_eq!(first.get("/hello").status, 200);
    // One that leaves makes room for another, and for no more.
    drop(second);
    let metrics = server.metrics().worker(0);
    eventually("it has left", || metrics.connections.get() == 1);
    let mut third = client(&server);
    assert_eq!(third.get("/hello").status, 200);
    assert!(client(&server).dropped());
    assert_eq!(first.get("/hello").status, 200);
    stop(server);
}
