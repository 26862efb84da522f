//! Traces: what is taken over, told on, and exported.

use crate::collector::{Collector, Manners, Received};
use crate::common::*;
use crate::lines;
use crate::servers::{Upstream, serve, value};
use std::time::{Duration, Instant};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn toml(collector: &Collector, sample: &str, trusted: &str) -> String {
    format!(
        "[server]\nrequest_ids = \"logged\"\ntrusted_proxies = \"{trusted}\"\n\
         [trace]\notlp = \"http://{}\"\nsample = \"{sample}\"\n",
        collector.address
    )
}

fn asked(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\ntracestate: a=1, b=2\r\n")
}

/// What is counted of spans.
fn figure(server: &rhythm_server::Handle, what: &str) -> u64 {
    let place = server.admin_addr().expect("an admin listener");
    let metrics = Client::new(place).get("/metrics");
    let name = format!("rhythm_trace_spans_{what}_total{{}} ");
    let line = (metrics.text().lines()).find_map(|line| line.strip_prefix(&name));
    let number = line.unwrap_or_else(|| panic!("it is counted: {}", metrics.text()));
    number.parse().expect("a number")
}

/// The one span of these that is so.
fn one(spans: &[Received], is: impl Fn(&Received) -> bool) -> &Received {
    let found: Vec<&Received> = spans.iter().filter(|span| is(span)).collect();
    assert_eq!(found.len(), 1, "{found:#?} of {spans:#?}");
    found[0]
}

#[test]
fn who_is_asked_is_told_of_a_request_that_is_not_recorded_and_has_no_id() {
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::Takes));
    let toml = toml(&collector, "0%", "").replace("request_ids = \"logged\"\n", "");
    let server = serve(&upstream, &toml, |_| {}, None);
    let mut client = Client::new(server.local_addr());
    client.with("GET /item/8", &asked("01"), "");
    stop(server);
    assert!(collector.spans().is_empty());
    let heads = upstream.heads("/items/8");
    let told = value(&heads[0], "traceparent").expect("it is told");
    let own = told.strip_prefix(&format!("00-{TRACE}-"));
    let own = own.and_then(|rest| rest.strip_suffix("-00"));
    assert!(own.is_some_and(|own| own != PARENT), "{told}");
    assert_eq!(value(&heads[0], "tracestate"), Some("a=1, b=2"));
    assert_eq!(value(&heads[0], "x-request-id"), None);
}

#[test]
fn a_requests_spans_are_a_tree_that_its_cohort_is_linked_with() {
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::Takes));
    let server = serve(
        &upstream,
        &toml(&collector, "0%", "127.0.0.1"),
        |_| {},
        None,
    );
    let mut client = Client::new(server.local_addr());
    let began = std::time::SystemTime::now();
    assert_eq!(
        client.with("GET /item/7?a=secret", &asked("01"), "").text(),
        "hello 7"
    );
    // Not recorded: who asks says so.
    client.with("GET /plain", &asked("00"), "");
    client.get("/plain");
    stop(server);
    let spans = collector.spans();
    let request = one(&spans, |span| span.kind == 2);
    assert_eq!((&*request.trace, &*request.parent), (TRACE, PARENT));
    assert_eq!(request.name, "GET /item/{id}");
    for (key, wanted) in [
        ("http.request.method", "GET"),
        ("http.route", "/item/{id}"),
        ("url.path", "/item/7"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("rhythm.page", "item"),
    ] {
        assert_eq!(request.attribute(key), Some(wanted), "{key}: {request:?}");
    }
    assert!(!request.has_failed);
    assert_eq!(
        request.attribute("rhythm.request_id").map(str::len),
        Some(32)
    );
    let call = one(&spans, |span| span.kind == 3);
    assert_eq!(
        (&*call.trace, &*call.parent, &*call.name),
        (TRACE, &*request.id, "api")
    );
    assert!(
        request.from <= call.from && call.to <= request.to,
        "{spans:#?}"
    );
    let heads = upstream.heads("/items/7");
    assert_eq!(heads.len(), 1);
    let told = format!("00-{TRACE}-{}-01", call.id);
    assert_eq!(value(&heads[0], "traceparent"), Some(&*told));
    assert_eq!(value(&heads[0], "tracestate"), Some("a=1, b=2"));

    let cohort = one(&spans, |span| span.name == "cohort item");
    assert_ne!(cohort.trace, TRACE);
    assert_eq!(cohort.parent, "");
    assert_eq!(cohort.attribute("rhythm.cohort.lanes"), Some("1"));
    assert_eq!(cohort.links, [(TRACE.to_owned(), request.id.clone())]);
    assert_eq!(request.links, [(cohort.trace.clone(), cohort.id.clone())]);
    for name in ["stage 0", "backend api", "stage 1"] {
        let part = one(&spans, |span| span.name == name);
        assert_eq!(
            (&part.trace, &part.parent),
            (&cohort.trace, &cohort.id),
            "{name}"
        );
        assert!(
            cohort.from <= part.from && part.to <= cohort.to,
            "{spans:#?}"
        );
    }
    assert_eq!(spans.len(), 6, "{spans:#?}");
    let wall = |time: std::time::SystemTime| {
        let since = time
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970");
        since.as_nanos() as u64
    };
    let slack = 50_000_000;
    assert!(request.from + slack >= wall(began), "{request:?}");
    assert!(
        request.to <= wall(std::time::SystemTime::now()) + slack,
        "{request:?}"
    );
}

#[test]
fn what_is_proxied_is_a_call_of_its_request_and_strangers_choose_nothing() {
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::Takes));
    let server = serve(&upstream, &toml(&collector, "0%", ""), |_| {}, None);
    let mut client = Client::new(server.local_addr());
    client.with("GET /app/unrecorded", &asked("01"), "");
    stop(server);
    assert_eq!(
        collector.spans().len(),
        0,
        "a stranger says that it is recorded"
    );
    let head = &upstream.heads("/app/unrecorded")[0];
    let told = value(head, "traceparent").expect("it is told");
    assert!(
        told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"),
        "{told}"
    );
    assert!(!told.contains(PARENT), "{told}");

    // Of the scheme its URL tells; that the server there speaks no TLS is nothing to a span.
    let other = Upstream::new();
    let sealed = format!("\"https://{}\"", upstream.address);
    let plain = format!("\"http://{}\"", other.address);
    let toml = format!(
        "{}[[proxy]]\nmatch = \"/sealed/**\"\nto = [{sealed}]\n\
         [[proxy]]\nmatch = \"/both/**\"\nto = [{sealed}, {plain}]\n",
        toml(&collector, "100%", "")
    );
    let server = serve(&upstream, &toml, |_| {}, None);
    let mut client = Client::new(server.local_addr());
    for path in ["/app/recorded", "/sealed/a", "/both/a"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    client.get("/nothing");
    // It comes in two parts.
    client.send("GET /nothing/slow HTTP/1.1\r\n");
    std::thread::sleep(Duration::from_millis(50));
    client.send("Host: h\r\n\r\n");
    assert_eq!(client.response(false).status, 404);
    let brewed = Client::new(server.local_addr()).with("BREW /coffee", "", "");
    assert_eq!(brewed.status, 501);
    // Malformed: a trace begins here.
    let fields = "traceparent: 00-nonsense\r\ntracestate: a=1\r\n";
    client.with("GET /app/malformed", fields, "");
    stop(server);
    let spans = collector.spans();
    for (path, scheme) in [
        ("/app/recorded", Some("http")),
        ("/app/malformed", Some("http")),
        ("/sealed/a", Some("https")),
        ("/both/a", None),
    ] {
        let is_of = |span: &Received| span.attribute("url.path") == Some(path);
        let request = one(&spans, |span| is_of(span) && span.kind == 2);
        let call = one(&spans, |span| is_of(span) && span.kind == 3);
        assert_eq!((&request.parent[..], &call.parent), ("", &request.id));
        assert_eq!(request.attribute("url.scheme"), Some("http"), "{path}");
        assert_eq!(call.attribute("url.scheme"), scheme, "{path}");
        assert!(
            request.from <= call.from && call.to <= request.to,
            "{spans:#?}"
        );
        let heads = [upstream.heads(path), other.heads(path)].concat();
        assert_eq!(heads.len(), 1);
        let told = format!("00-{}-{}-01", request.trace, call.id);
        assert_eq!(value(&heads[0], "traceparent"), Some(&*told));
        assert_eq!(value(&heads[0], "tracestate"), None);
    }
    let nothing = one(&spans, |span| {
        span.attribute("url.path") == Some("/nothing")
    });
    assert_eq!(nothing.attribute("http.response.status_code"), Some("404"));
    let of_path = |path| one(&spans, |span| span.attribute("url.path") == Some(path));
    let slow = of_path("/nothing/slow");
    assert!(slow.to - slow.from >= 50_000_000, "{slow:?}");
    let coffee = of_path("/coffee");
    assert_eq!(coffee.name, "HTTP");
    assert_eq!(coffee.attribute("http.request.method"), Some("_OTHER"));
    assert_eq!(
        coffee.attribute("http.request.method_original"),
        Some("BREW")
    );
}

#[test]
fn what_fails_says_so_and_has_no_status_that_nobody_said() {
    let (gone, collector) = (Upstream::gone(), Collector::new(Manners::Takes));
    let cutting = format!("to = [\"http://{}\"]", Upstream::cutting().address);
    let toml = format!(
        "{}[[proxy]]\nmatch = \"/cut/**\"\n{cutting}\n\
         [[proxy]]\nmatch = \"/small/**\"\n{cutting}\ncontent_bytes_max = 1\n",
        toml(&collector, "100%", "")
    );
    let server = serve(&gone, &toml, |_| {}, None);
    let mut client = Client::new(server.local_addr());
    for (path, status) in [("/item/7", 502), ("/spared", 200), ("/app/a", 502)] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    assert_eq!(client.with("POST /small/a", "", "large").status, 413);
    let mut client = Client::new(server.local_addr());
    client.send("GET /cut/a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!((0..10_000).any(|_| client.dropped()), "it is cut off");
    stop(server);
    let spans = collector.spans();
    let request = |path| {
        let is_it = |span: &Received| span.attribute("url.path") == Some(path) && span.kind == 2;
        one(&spans, is_it)
    };
    let calls = |path| {
        let request = request(path);
        let calls = spans.iter().filter(|span| span.parent == request.id);
        calls.collect::<Vec<_>>()
    };
    for (path, status, error) in [
        ("/item/7", None, "backend_failed"),
        ("/spared", None, "backend_failed"),
        ("/app/a", None, "unreachable"),
        ("/cut/a", Some("200"), "connection_lost"),
    ] {
        let [call] = calls(path)[..] else {
            panic!("one: {spans:#?}");
        };
        assert!(call.kind == 3 && call.has_failed, "{call:?}");
        assert_eq!(call.attribute("error.type"), Some(error), "{path}");
        let said = call.attribute("http.response.status_code");
        assert_eq!(said, status, "{path}");
    }
    // A page that goes on has not failed, and whoever is not asked does nothing.
    assert!(!request("/spared").has_failed && request("/app/a").has_failed);
    let small = request("/small/a").attribute("http.response.status_code");
    assert_eq!((small, calls("/small/a").len()), (Some("413"), 0));
}

#[test]
fn a_flood_of_parents_is_answered_and_traced_once_each() {
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::Takes));
    let server = serve(&upstream, &toml(&collector, "100%", ""), |_| {}, None);
    let mut client = Client::new(server.local_addr());
    let many = asked("01").repeat(40);
    assert_eq!(client.with("GET /plain", &many, "").status, 200);
    let long = format!("traceparent: 00-{}\r\n", "a".repeat(9000));
    assert_eq!(client.with("GET /plain", &long, "").status, 200);
    stop(server);
    let spans = collector.spans();
    let requests: Vec<&Received> = spans.iter().filter(|span| span.kind == 2).collect();
    assert_eq!(requests.len(), 2, "{spans:#?}");
    for request in requests {
        assert!(
            request.parent.is_empty() && request.trace != TRACE,
            "{request:?}"
        );
    }
}

#[test]
fn a_collector_that_does_not_take_spans_costs_spans_alone() {
    for manners in [Manners::Silent, Manners::Raves, Manners::Refuses] {
        let (upstream, collector) = (Upstream::new(), Collector::new(manners));
        let toml = toml(&collector, "100%", "");
        let change = |options: &mut rhythm_server::ServerOptions| {
            options.admin = Some(any_port());
            options.finish = Duration::from_secs(2);
        };
        let server = serve(&upstream, &toml, change, None);
        let mut client = Client::new(server.local_addr());
        // More than find room on the way.
        let many = "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n".repeat(40);
        let start = Instant::now();
        for _ in 0..100 {
            client.send(&many);
            for _ in 0..40 {
                assert_eq!(client.response(false).status, 200);
            }
        }
        assert!(
            start.elapsed() < WAIT_MAX,
            "{manners:?}: {:?}",
            start.elapsed()
        );
        eventually("spans are dropped", || figure(&server, "dropped") > 0);
        let start = Instant::now();
        stop(server);
        assert!(
            start.elapsed() < Duration::from_secs(8),
            "{manners:?}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn what_is_on_its_way_when_the_server_ends_is_exported() {
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::Takes));
    let server = serve(&upstream, &toml(&collector, "100%", ""), |_| {}, None);
    let mut client = Client::new(server.local_addr());
    for _ in 0..300 {
        client.get("/plain");
    }
    stop(server);
    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|span| span.kind == 2).count(), 300);
}

#[test]
fn few_spans_go_together_and_who_asks_no_more_is_told_of() {
    lines::take();
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::TakesAllButOne));
    let admin = |options: &mut rhythm_server::ServerOptions| {
        options.admin = Some(any_port());
    };
    let server = serve(&upstream, &toml(&collector, "100%", ""), admin, None);
    let mut client = Client::new(server.local_addr());
    let start = Instant::now();
    for _ in 0..6 {
        client.get("/plain");
        std::thread::sleep(Duration::from_millis(120));
    }
    let seconds = start.elapsed().as_secs() as usize + 1;
    assert!(
        collector.posts() <= seconds,
        "{} in {seconds} s",
        collector.posts()
    );
    let is_request = |span: &&Received| span.kind == 2;
    eventually("all are told of", || {
        collector.spans().iter().filter(is_request).count() == 6
    });
    // What it says it does not take counts as such.
    eventually("each post is answered", || {
        let (exported, dropped) = (figure(&server, "exported"), figure(&server, "dropped"));
        let came = collector.spans().len() as u64;
        dropped == collector.posts() as u64 && exported == came - dropped
    });
    stop(server);
    assert_eq!(
        lines::with("the collector of traces rejects spans").len(),
        1
    );
}

#[test]
fn a_collector_that_is_busy_for_a_moment_costs_no_spans() {
    let (upstream, collector) = (Upstream::new(), Collector::new(Manners::RefusesOnce));
    let admin = |options: &mut rhythm_server::ServerOptions| {
        options.admin = Some(any_port());
    };
    let server = serve(&upstream, &toml(&collector, "100%", ""), admin, None);
    let mut client = Client::new(server.local_addr());
    for _ in 0..50 {
        client.get("/plain");
    }
    eventually("spans are taken", || figure(&server, "exported") > 0);
    assert_eq!(figure(&server, "dropped"), 0);
    stop(server);
    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|span| span.kind == 2).count(), 50);
}
