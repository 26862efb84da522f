//! Connections over real sockets: limits, time-outs, half-closing, back-pressure, draining,
//! reloading.

mod common;
use common::*;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_engine::settings::AccessLogFormat;
use std::io::Write;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(150);

/// Longer than any test runs.
const NEVER: Duration = Duration::from_secs(600);

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
        ("BREW /hello HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 501),
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
    for (path, length, status) in [
        ("/nothing", 6, 404),
        ("/number/1", 6, 405),
        ("/hello", 9999, 413),
    ] {
        let mut client = client(&server);
        client.send(head(path, length));
        assert_eq!(client.response(false).status, status, "{path}");
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
    let metrics = server.metrics().clone();
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        metrics.worker(0).connections.get() == 1
    });
    assert!(gone, "the connection is still there");
    assert_eq!(patient.get("/hello").status, 200);
    stop(server);
}

#[test]
fn draining_finishes_what_is_under_way() {
    let server = start(|_| {});
    let mut busy = client(&server);
    let mut idle = client(&server);
    assert_eq!(idle.get("/hello").status, 200);
    busy.send("GET /ask?q=late HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(busy_count(&server), 2);
    server.shutdown();
    let last = busy.response(false);
    assert_eq!(
        (last.text(), last.header("connection")),
        ("[late]", Some("close"))
    );
    assert!(busy.closed() && idle.closed());
    let address = server.local_addr();
    server.join().expect("its workers were well");
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// Waits until both connections of the test above are known.
fn busy_count(server: &rhythm_server::Handle) -> u64 {
    let metrics = server.metrics().worker(0);
    for _ in 0..200 {
        if metrics.page("ask").requests.get() == 1 {
            return metrics.accepted.get();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    metrics.accepted.get()
}

#[test]
fn a_panic_costs_a_worker_its_connections_and_nothing_else() {
    /// Panics over pages that take a number.
    struct Fragile(ScalarExecutor);

    impl Executor for Fragile {
        fn name(&self) -> &'static str {
            "fragile"
        }

        fn submit(&mut self, work: Work) -> Result<(), Refusal> {
            assert_ne!(work.program().name, "number", "a planted mistake");
            self.0.submit(work)
        }

        fn poll(&mut self, done: &mut Vec<Work>) {
            self.0.poll(done);
        }

        fn in_flight(&self) -> usize {
            self.0.in_flight()
        }
    }

    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    parts.devices = Arc::new(|_, _| Ok(Box::new(Fragile(ScalarExecutor::default()))));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let mut bystander = client(&server);
    assert_eq!(bystander.get("/hello").status, 200);
    let mut culprit = client(&server);
    culprit.send("GET /number/3 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(culprit.dropped() && bystander.dropped());
    assert_eq!(client(&server).get("/hello").status, 200);
    assert_eq!(server.metrics().worker(0).restarts.get(), 1);
    stop(server);
}

#[test]
fn draining_ends_even_if_clients_do_not() {
    let server = start(|options| options.drain.timeout = SHORT);
    let mut stuck = client(&server);
    stuck.send("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    let accepted = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        server.metrics().worker(0).accepted.get() == 1
    });
    assert!(accepted, "the client is not known");
    stop(server);
    assert!(stuck.dropped());
}

#[test]
fn draining_waits_for_what_is_half_sent_but_not_for_as_long_as_it_may() {
    let server = start(|options| {
        options.pipeline.clients.header_timeout = NEVER;
        options.pipeline.clients.body_timeout = NEVER;
        options.drain.timeout = NEVER;
    });
    let halves = [
        "GET /hello HTTP/1.1\r\nHo",
        "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nna",
    ];
    let mut clients = halves.map(|half| {
        let mut client = client(&server);
        client.send(half);
        client
    });
    let metrics = server.metrics().worker(0);
    eventually("they are let in", || metrics.accepted.get() == 2);
    server.shutdown();
    for client in &mut clients {
        assert_eq!(client.response(false).status, 408);
        assert!(client.closed());
    }
    server.join().expect("its workers were well");
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

#[test]
fn a_reload_under_load_loses_no_request() {
    let versions: Vec<_> = ["one", "two"]
        .map(|word| {
            let page = format!(
                "+++\nroute = \"GET /word\"\n[[step]]\ncall = \"echo\"\n\
                request = \"1&3&late\"\nrows = \"a(text)\"\n+++\n{word}"
            );
            let extra = format!("+++\nroute = \"GET /{word}\"\n+++\nonly {word}");
            site_of(service_of(
                &[("word.html", &page), (&format!("{word}.html"), &extra)],
                SERVICE,
            ))
        })
        .into();
    let mut turn = 0;
    let loaded = versions.clone();
    let loader = Box::new(move || {
        turn += 1;
        if turn % 3 == 0 {
            Err("a mistake in a page".to_owned())
        } else {
            Ok(loaded[turn % 2].clone())
        }
    });
    let options = options_of(versions[0].service());
    let server = rhythm_server::Server::start(options, parts(versions[0].clone(), loader))
        .expect("it starts");
    let address = server.local_addr();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(address);
                let mut seen = [0, 0];
                for _ in 0..15 {
                    let response = client.get("/word");
                    assert_eq!(response.status, 200);
                    seen[["one", "two"]
                        .iter()
                        .position(|word| *word == response.text())
                        .expect("a version")] += 1;
                    // Pages that come and go are there or not, but always answered.
                    assert!(matches!(client.get("/two").status, 200 | 404));
                }
                seen
            })
        })
        .collect();
    let control = server.control();
    let mut outcomes = Vec::new();
    for _ in 0..9 {
        outcomes.push(control.reload().is_ok());
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut total = [0, 0];
    for client in clients {
        let seen = client.join().expect("every answer was right");
        total = [total[0] + seen[0], total[1] + seen[1]];
    }
    assert!(total[0] > 0 && total[1] > 0, "{total:?}");
    assert_eq!(outcomes.iter().filter(|ok| !**ok).count(), 3);
    stop(server);
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .expect("no writer panics")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn answers_are_logged() {
    let written = Shared::default();
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    options.log_format = AccessLogFormat::Common;
    let site = site_of(service);
    let mut parts = parts(site, Box::new(|| Err("no".into())));
    parts.log = Some(log_to(written.clone()));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let mut client = client(&server);
    client.get("/hello?name=ab");
    client.get("/static/a.css");
    let nothing = client.get("/nothing").body.len();
    stop(server);
    let text =
        String::from_utf8(written.0.lock().expect("no writer panics").clone()).expect("text");
    let ends = [
        "\"GET /hello?name=ab HTTP/1.1\" 200 16",
        "\"GET /static/a.css HTTP/1.1\" 200 21",
        &format!("\"GET /nothing HTTP/1.1\" 404 {nothing}"),
    ];
    assert_eq!(text.lines().count(), 3, "{text}");
    for (line, end) in text.lines().zip(ends) {
        assert!(
            line.starts_with("127.0.0.1 - - [") && line.ends_with(end),
            "{line}"
        );
    }
}

#[test]
fn a_worker_that_cannot_go_on_is_told_of() {
    /// Panics over all there is.
    struct Broken;

    impl Executor for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn submit(&mut self, _: Work) -> Result<(), Refusal> {
            panic!("a planted mistake");
        }

        fn poll(&mut self, _: &mut Vec<Work>) {}

        fn in_flight(&self) -> usize {
            0
        }
    }

    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    options.admin = Some(([127, 0, 0, 1], 0).into());
    options.workers = 2;
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    // Each worker has a device once.
    let left = std::sync::atomic::AtomicUsize::new(2);
    parts.devices = Arc::new(move |_, _| {
        use std::sync::atomic::Ordering::Relaxed;
        let one = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        one.map_err(|_| "no device is left".to_owned())?;
        Ok(Box::new(Broken))
    });
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let admin = server.admin_addr().expect("an admin listener");
    let health = || Client::new(admin).get("/healthz");
    assert_eq!(health().status, 200);
    let mut culprit = client(&server);
    culprit.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(culprit.dropped());
    let told = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        health().text() == "a worker has ended\n"
    });
    assert!(told, "nobody is told");
    assert_eq!(
        Client::new(admin).get("/readyz").text(),
        "a worker has ended\n"
    );
    server.shutdown();
    assert!(server.join().is_err());
}

#[test]
fn the_admin_listener_tells_health_metrics_and_configuration() {
    let server = start(|options| options.admin = Some(([127, 0, 0, 1], 0).into()));
    let mut user = client(&server);
    user.get("/hello");
    let admin = server.admin_addr().expect("an admin listener");
    let ask = |path: &str| Client::new(admin).get(path);
    let health = ask("/healthz");
    assert_eq!((health.status, health.text()), (200, "ok\n"));
    assert_eq!(ask("/readyz").status, 200);
    let metrics = ask("/metrics");
    for line in [
        "rhythm_requests_total{page=\"hello\"} 1",
        "rhythm_launches_total{page=\"hello\",reason=\"idle\"} 1",
    ] {
        assert!(metrics.text().contains(line), "{line}: {}", metrics.text());
    }
    assert!(ask("/config").text().contains("\"size\": 1024"));
    assert_eq!(ask("/").status, 404);
    user.send("GET /ask?q=late HTTP/1.1\r\nHost: x\r\n\r\n");
    busy_count(&server);
    server.shutdown();
    let ready = ask("/readyz");
    assert_eq!((ready.status, ready.text()), (503, "draining\n"));
    assert_eq!(ask("/healthz").status, 200, "nothing is wrong with it");
    assert_eq!(user.response(false).text(), "[late]");
    server.join().expect("its workers were well");
}

#[test]
fn the_configuration_has_every_setting_and_where_it_comes_from() {
    let server = start(|options| options.admin = Some(([127, 0, 0, 1], 0).into()));
    let admin = server.admin_addr().expect("an admin listener");
    let answer = Client::new(admin).get("/config");
    let told: serde_json::Value = serde_json::from_str(answer.text()).expect("JSON");
    let config = service_of(PAGES, SERVICE).config;
    for section in config.sections() {
        let (values, origins) = (
            &told["settings"][section.name()],
            &told["from"][section.name()],
        );
        for definition in section.definitions() {
            let key = definition.key;
            assert!(values.get(key).is_some(), "{key}: {}", answer.text());
            assert_eq!(
                origins[key],
                config.origin(section.name(), key).name(),
                "{key}"
            );
        }
    }
    assert_eq!(told["settings"]["limits"]["body_bytes_max"], 2000);
    assert_eq!(told["from"]["limits"]["body_bytes_max"], "file");
    assert_eq!(told["settings"]["cohort"]["delay"], "2ms");
    assert_eq!(told["from"]["cohort"]["delay"], "default");
    assert_eq!(told["memory"]["workers"], 1);
    stop(server);
}
