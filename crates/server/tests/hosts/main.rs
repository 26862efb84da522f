//! Hosts beside pages, over real sockets: order, back-pressure both ways, ends, drain and reload.

#[path = "../common/mod.rs"]
mod common;
mod relay;
mod toy;

use common::*;
use relay::*;
use rhythm_engine::settings::AccessLogFormat;
use rhythm_server::{
    Handle, HostFactory, HostRoute, LogOpener, Server, ServerOptions, Site, SiteSettings, Statics,
};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use toy::*;

/// A server with both beside the pages of [`PAGES`], and what is seen of the first.
fn serve(far: Option<SocketAddr>, change: impl FnOnce(&mut ServerOptions)) -> (Handle, Arc<Seen>) {
    serve_logging(far, change, None)
}

fn serve_logging(
    far: Option<SocketAddr>,
    change: impl FnOnce(&mut ServerOptions),
    log: Option<LogOpener>,
) -> (Handle, Arc<Seen>) {
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    change(&mut options);
    let route = |path: &str, host: &str| HostRoute {
        path: path.into(),
        host: host.into(),
    };
    let settings = SiteSettings {
        hosts: vec![route("/app", "toy"), route("/far", "relay")],
        ..SiteSettings::of(&service)
    };
    let statics = Statics::new(&service.config.statics.mount, statics());
    let site = Arc::new(Site::new(Arc::new(service), statics, settings).expect("a sound site"));
    let seen = Arc::new(Seen::default());
    let its = seen.clone();
    let hosts: HostFactory = Arc::new(move |_, waker| {
        its.waker.get_or_init(|| waker);
        let toy = Toy {
            seen: its.clone(),
            later: Vec::new(),
            streams: HashMap::new(),
            uploads: HashMap::new(),
            paused: Vec::new(),
            resume_at: None,
        };
        let relay = Relay {
            to: far,
            ..Relay::default()
        };
        vec![
            ("toy".into(), Box::new(toy)),
            ("relay".into(), Box::new(relay)),
        ]
    });
    let again = site.clone();
    let mut parts = parts(site, Box::new(move || Ok(again.clone())));
    parts.hosts = Some(hosts);
    parts.log = log;
    (Server::start(options, parts).expect("it starts"), seen)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

#[test]
fn hosts_and_pages_answer_in_the_order_of_requests() {
    let (server, seen) = serve(None, |_| {});
    let mut client = client(&server);
    let paths = [
        "/hello?name=a",
        "/app/later",
        "/ask?q=b",
        "/app/later",
        "/app/stream/25000",
        "/hello?name=c",
        "/nobody",
    ];
    client.send(paths.map(get).concat());
    assert_eq!(client.response(false).text(), "<p>Hello a!</p>");
    eventually("both wait, and the stream is made", || {
        let made = seen.appended.load(Ordering::Relaxed);
        seen.later.load(Ordering::Relaxed) == 2 && made == 25_000
    });
    seen.let_go();
    assert_eq!(client.response(false).text(), "later 1");
    assert_eq!(client.response(false).text(), "[b]");
    assert_eq!(client.response(false).text(), "later 3");
    assert_eq!(client.response(false).body, vec![b'x'; 25_000]);
    assert_eq!(client.response(false).text(), "<p>Hello c!</p>");
    assert_eq!(client.response(false).status, 404, "no page, file or host");
    // Any method is the host's, and paths of pages are not.
    let whole = client.with("PUT /app/whole", "", "content");
    assert_eq!((whole.status, whole.text()), (200, "content"));
    assert_eq!(client.with("PUT /hello", "", "x").status, 405);
    assert_eq!(client.with("HEAD /app/else", "", "").status, 404);
    stop(server);
}

#[test]
fn a_site_with_a_route_to_no_host_is_not_served() {
    let site = |host: &str| {
        let service = service_of(PAGES, SERVICE);
        let route = HostRoute {
            path: "/app".into(),
            host: host.into(),
        };
        let settings = SiteSettings {
            hosts: vec![route],
            ..SiteSettings::of(&service)
        };
        let statics = Statics::new(&service.config.statics.mount, statics());
        Arc::new(Site::new(Arc::new(service), statics, settings).expect("a sound site"))
    };
    let start = |first: &str, next: &'static str| {
        let first = site(first);
        let options = options_of(first.service());
        let mut parts = parts(first, Box::new(move || Ok(site(next))));
        parts.hosts = Some(Arc::new(|_, _| {
            vec![("relay".into(), Box::new(Relay::default()) as _)]
        }));
        Server::start(options, parts)
    };
    let told = "the route /app is to the host toy, which there is not";
    let refused = start("toy", "relay").expect_err("there is no toy");
    assert!(refused.to_string().contains(told), "{refused}");
    let server = start("relay", "toy").expect("there is a relay");
    assert_eq!(server.reload(), Err(told.to_owned()));
    assert_eq!(client(&server).get("/hello?name=a").status, 200);
    stop(server);
}

#[test]
fn a_slow_reader_stops_its_stream() {
    const LENGTH: u64 = 32 << 20;
    let unsent_max = 20_000;
    let (server, seen) = serve(None, |options| {
        options.pipeline.clients.unsent_max = unsent_max;
    });
    let mut client = client(&server);
    client.send(get(&format!("/app/stream/{LENGTH}")));
    let made = || seen.appended.load(Ordering::Relaxed);
    eventually("it has to wait", || seen.waits.load(Ordering::Relaxed) > 0);
    eventually("it stands still", || {
        let before = made();
        std::thread::sleep(Duration::from_millis(50));
        made() == before
    });
    let before = made();
    assert!(before < LENGTH / 2, "{before} bytes wait for nobody");
    // Others are served meanwhile.
    assert_eq!(Client::new(server.local_addr()).get("/hello").status, 200);
    let response = client.response(false);
    assert_eq!(response.body.len() as u64, LENGTH);
    assert_eq!(made(), LENGTH);
    assert_eq!(client.get("/hello").status, 200);
    stop(server);
}

#[test]
fn who_stands_still_with_a_body_or_a_stream_yields_his_place_to_others() {
    const NEVER: Duration = Duration::from_secs(600);
    for sent in [
        "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nna",
        "POST /app/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        "GET /app/stream/100000000 HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let (server, _) = serve(None, |options| {
            options.connections_max = 1;
            let clients = &mut options.pipeline.clients;
            clients.yield_after = Duration::from_millis(50);
            clients.body_timeout = NEVER;
            clients.send_timeout = NEVER;
        });
        let metrics = server.metrics().worker(0);
        let mut still = client(&server);
        still.send(sent);
        eventually("he is let in", || metrics.accepted.get() == 1);
        let mut other = client(&server);
        assert_eq!(other.get("/hello").status, 200, "beside {sent}");
        assert_eq!(metrics.yielded.get(), 1, "{sent}");
        let left = still.stream.read_to_end(&mut Vec::new());
        assert!(left.is_ok_and(|length| length < 100_000_000) || sent.starts_with("GET"));
        stop(server);
    }
}

#[test]
fn a_host_is_told_of_clients_that_go_away() {
    let (server, seen) = serve(None, |_| {});
    let gone = || seen.gone.load(Ordering::Relaxed);
    let mut stream = client(&server);
    stream.send(get("/app/stream/99999999"));
    eventually("it has to wait", || seen.waits.load(Ordering::Relaxed) > 0);
    drop(stream);
    eventually("the stream's client is gone", || gone() == 1);
    let mut upload = client(&server);
    upload.send("POST /app/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
    eventually("content came", || seen.content.load(Ordering::Relaxed) == 3);
    seen.let_go();
    upload.stream.shutdown(Shutdown::Write).expect("a socket");
    eventually("the upload's client is gone", || gone() == 2);
    // Nothing is kept of either.
    assert_eq!(client(&server).get("/hello").status, 200);
    stop(server);
    assert_eq!(gone(), 2);
}

#[test]
fn content_comes_in_pieces_and_waits() {
    const LENGTH: usize = 20 << 20;
    let (server, seen) = serve(None, |_| {});
    let mut asking = client(&server);
    asking.send(
        "POST /app/upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    assert_eq!(asking.response(false).status, 100);
    asking.send("abc");
    assert_eq!(asking.response(false).text(), "3");
    let mut sender = client(&server);
    let mut stream = sender.stream.try_clone().expect("a socket");
    let sent = std::thread::spawn(move || {
        let head =
            format!("POST /app/upload HTTP/1.1\r\nHost: x\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(&vec![b'y'; LENGTH])?;
        stream.write_all(get("/hello?name=next").as_bytes())
    });
    let content = || seen.content.load(Ordering::Relaxed);
    eventually("a piece came", || content() > 3);
    let before = content();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(content(), before, "no more is read until the host wants it");
    seen.let_go();
    assert_eq!(sender.response(false).text(), LENGTH.to_string());
    assert_eq!(sender.response(false).text(), "<p>Hello next!</p>");
    sent.join().expect("no panic").expect("all is read");
    // What is collected is bounded.
    let large = client(&server).with("POST /app/whole", "", &"z".repeat(2001));
    assert_eq!(large.status, 413);
    stop(server);
}

#[test]
fn drain_waits_for_hosts_and_a_reload_keeps_them() {
    let (server, seen) = serve(None, |_| {});
    let mut waiting = client(&server);
    waiting.send(get("/app/later"));
    eventually("it waits", || seen.later.load(Ordering::Relaxed) == 1);
    server.reload().expect("the same site");
    waiting.send(get("/app/later"));
    eventually("it waits, too", || seen.later.load(Ordering::Relaxed) == 2);
    server.shutdown();
    let limit = |stream: &TcpStream, limit| {
        stream.set_read_timeout(Some(limit)).expect("a duration");
    };
    limit(&waiting.stream, Duration::from_millis(50));
    let early = waiting.stream.peek(&mut [0]);
    assert!(early.is_err(), "it is answered when the host says so");
    limit(&waiting.stream, Duration::from_secs(20));
    seen.let_go();
    assert_eq!(waiting.response(false).text(), "later 0");
    let last = waiting.response(false);
    assert_eq!(
        (last.text(), last.header("connection")),
        ("later 1", Some("close"))
    );
    assert!(waiting.closed());
    stop(server);
}

#[test]
fn a_host_may_have_connections_of_its_own() {
    let far = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = far.local_addr().expect("an address");
    let (server, _) = serve(Some(address), |_| {});
    let mut client = client(&server);
    client.send(["/far?a", "/hello?name=b", "/far?c"].map(get).concat());
    let mut calls: Vec<_> = (0..2)
        .map(|_| {
            let (mut stream, _) = far.accept().expect("a connection");
            let mut asked = [0; 6];
            stream.read_exact(&mut asked).expect("a target");
            (asked, stream)
        })
        .collect();
    calls.sort_by_key(|(asked, _)| *asked);
    for (asked, mut stream) in calls.into_iter().rev() {
        stream.write_all(b"heard ").expect("it reads");
        stream.write_all(&asked).expect("it reads");
    }
    assert_eq!(client.response(false).text(), "heard /far?a");
    assert_eq!(client.response(false).text(), "<p>Hello b!</p>");
    assert_eq!(client.response(false).text(), "heard /far?c");
    drop(far);
    assert_eq!(client.get("/far").status, 502);
    stop(server);
}

#[test]
fn answers_of_hosts_are_counted_and_logged() {
    let written = Written::default();
    let log = log_to(written.clone());
    let (server, seen) = serve_logging(
        None,
        |options| options.log_format = AccessLogFormat::Common,
        Some(log),
    );
    let mut client = client(&server);
    client.send(["/app/later", "/app/stream/20", "/app/x"].map(get).concat());
    eventually("all are asked", || {
        seen.later.load(Ordering::Relaxed) == 1 && seen.appended.load(Ordering::Relaxed) == 20
    });
    seen.let_go();
    let answers = [200, 200, 404].map(|status| {
        let answer = client.response(false);
        assert_eq!(answer.status, status);
        answer
    });
    let mut upload = Client::new(server.local_addr());
    upload.send("POST /app/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    std::thread::sleep(Duration::from_millis(20));
    upload.send("abcde");
    assert!(["5", "abcde"].contains(&upload.response(false).text()));
    let metrics = server.metrics().worker(0);
    // An answer that nothing can join is sent before it is counted.
    eventually("all are counted", || {
        metrics.host_answers.each_ref().map(|count| count.get()) == [0, 3, 0, 1, 0]
    });
    stop(server);
    let text = written.text();
    // A line is written when its answer is given.
    for line in [
        "\"GET /app/stream/20 HTTP/1.1\" 200 20",
        &format!("\"GET /app/x HTTP/1.1\" 404 {}", answers[2].body.len()),
        "\"GET /app/later HTTP/1.1\" 200 7",
        "\"POST /app/upload HTTP/1.1\" 200 ",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
    }
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn a_worker_that_hangs_is_told_of_until_it_goes_on() {
    let (server, seen) = serve(None, |options| options.admin = Some(any_port()));
    let admin = server.admin_addr().expect("an admin listener");
    let ask = |path: &str| {
        let answer = Client::new(admin).get(path);
        (answer.status, answer.text().to_owned())
    };
    // For longer than it may hang it has nothing to do.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(ask("/healthz"), (200, "ok\n".to_owned()));
    let held = seen.gate.lock().expect("nobody panicked");
    let mut culprit = client(&server);
    culprit.send(get("/app/hang"));
    let began = Instant::now();
    eventually("it is told", || ask("/healthz").0 == 503);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(9), "{took:?}");
    for path in ["/healthz", "/readyz"] {
        let (status, why) = ask(path);
        let is_named = why.starts_with("worker 0 hangs: it is at one turn of its loop for 1");
        assert!(status == 503 && is_named, "{path}: {why}");
    }
    drop(held);
    assert_eq!(culprit.response(false).text(), "at last");
    eventually("it is well", || ask("/healthz").0 == 200);
    stop(server);
}
