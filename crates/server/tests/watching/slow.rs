//! Slow requests in the log: which, and where their time went.

use crate::common::*;
use crate::lines;
use crate::servers::{Upstream, serve};
use std::thread::sleep;
use std::time::Duration;

/// So long is slow; what is to be slow takes longer by what a busy machine may be late.
const LIMIT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_millis(900);

/// A server that tells of what takes so long.
fn server(limit: Option<Duration>, pages: &[(&str, &str)]) -> rhythm_server::Handle {
    lines::take();
    let toml = SERVICE.replace("[limits]", "[limits]\nresponse_bytes_max = 33554432");
    let service = service_of(pages, &toml);
    let mut options = options_of(&service);
    options.pipeline.watch.slow_request = limit;
    options.pipeline.watch.ids = true;
    let site = site_of(service);
    let parts = parts(site, Box::new(|| Err("no".into())));
    rhythm_server::Server::start(options, parts).expect("it starts")
}

/// A page of this name that asks a backend.
fn asking(name: &str) -> (String, String) {
    let text = format!(
        "+++\nroute = \"GET /{name}\"\n[params]\nq = {{ in = \"query\", type = \"text\" }}\n\
         [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{{{ q }}}}\"\nrows = \"answers(text)\"\n\
         +++\n{{% for a in answers %}}[{{{{ a.text }}}}]{{% endfor %}}"
    );
    (format!("{name}.html"), text)
}

/// Milliseconds of a time as the log has it.
fn ms(line: &str, name: &str) -> f64 {
    let text = lines::field(line, name).unwrap_or_else(|| panic!("no {name}: {line}"));
    let end = text.find(|c: char| c.is_alphabetic() || c == 'µ');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = number.parse().expect("a number");
    let unit = match unit {
        "ns" => 1e-6,
        "µs" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        _ => panic!("{text} of {line}"),
    };
    number * unit
}

#[test]
fn a_slow_call_is_told_of_with_its_backend_and_a_fast_one_is_not() {
    let (file, text) = asking("slow-call");
    let server = server(Some(LIMIT), &[(&file, &text)]);
    let mut client = Client::new(server.local_addr());
    assert_eq!(client.get("/slow-call?q=now").text(), "[now]");
    client.send("GET /slow-call?q=held-slow HTTP/1.1\r\nHost: x\r\n\r\n");
    let metrics = server.metrics().worker(0).backend("echo");
    eventually("it is asked", || metrics.requests.get() == 2);
    sleep(LONG);
    answer_held("held-slow");
    assert_eq!(client.response(false).text(), "[held-slow]");
    eventually("the line", || !lines::with("page=\"slow-call\"").is_empty());
    stop(server);
    let all = lines::with("page=\"slow-call\"");
    assert_eq!(all.len(), 1, "{all:?}");
    let line = &all[0];
    assert_eq!(lines::field(line, "status"), Some("200"));
    assert_eq!(lines::field(line, "client"), Some("127.0.0.1"));
    let id = lines::field(line, "request_id");
    assert_eq!(id.map(str::len), Some(32), "{line}");
    let backends = lines::field(line, "backends").expect("its call");
    let took: f64 = (backends.strip_prefix("echo "))
        .and_then(|it| it.strip_suffix("ms"))
        .and_then(|it| it.parse().ok())
        .unwrap_or_else(|| panic!("{backends}"));
    let total = ms(line, "took");
    assert!(took >= LIMIT.as_millis() as f64 && took <= total, "{line}");
    let rest = ["reading", "waiting", "process", "sending"].map(|part| ms(line, part));
    let sum = took + rest.iter().sum::<f64>();
    assert!((sum - total).abs() < 3.0, "{sum}: {line}");
}

#[test]
fn what_trickles_in_and_what_is_not_taken_shows_where_it_took_long() {
    // Longer than what all buffers of the kernel take together, on the way from here to there.
    let unread = format!(
        "+++\nroute = \"GET /unread\"\n+++\n{{% for i in range(5200) %}}{{{{ i }}}}{}\
         {{% endfor %}}",
        "x".repeat(1500)
    );
    let pages = [
        ("trickled.html", "+++\nroute = \"GET /trickled\"\n+++\nhi"),
        ("unread.html", &*unread),
    ];
    let server = server(Some(LIMIT), &pages);
    let mut client = Client::new(server.local_addr());
    client.send("GET /trickled HTTP/1.1\r\n");
    sleep(LONG);
    client.send("Host: x\r\n\r\n");
    assert_eq!(client.response(false).text(), "hi");
    let whole = |page: &str| {
        let nanos = server.metrics().worker(0).page(page).whole_time.sum();
        Duration::from_nanos(nanos)
    };
    eventually("it is counted", || !whole("trickled").is_zero());
    assert!(whole("trickled") >= LIMIT);
    let mut lazy = Client::new(server.local_addr());
    lazy.send("GET /unread HTTP/1.1\r\nHost: x\r\n\r\n");
    let metrics = server.metrics().worker(0).page("unread");
    eventually("it is answered", || {
        metrics.answers.iter().any(|count| count.get() > 0)
    });
    sleep(LONG);
    assert_eq!(
        whole("unread"),
        Duration::ZERO,
        "its client has not taken it"
    );
    assert_eq!(lazy.response(false).status, 200);
    eventually("it is counted", || !whole("unread").is_zero());
    assert!(whole("unread") >= LIMIT);
    eventually("both lines", || {
        ["trickled", "unread"].map(|page| lines::with(&format!("page=\"{page}\"")).len()) == [1, 1]
    });
    stop(server);
    let line = &lines::with("page=\"trickled\"")[0];
    let limit = LIMIT.as_millis() as f64;
    assert!(ms(line, "reading") >= limit, "{line}");
    assert!(ms(line, "sending") < ms(line, "reading"), "{line}");
    let line = &lines::with("page=\"unread\"")[0];
    assert!(ms(line, "sending") >= limit, "{line}");
}

#[test]
fn lines_are_few_and_where_it_is_off_there_are_none() {
    let (file, text) = asking("often");
    let (other, its) = asking("never-told");
    let on = server(Some(Duration::ZERO), &[(&file, &text)]);
    let off = server(None, &[(&other, &its)]);
    let mut clients = [&on, &off].map(|server| Client::new(server.local_addr()));
    for _ in 0..50 {
        clients[0].get("/often?q=a");
        clients[1].get("/never-told?q=a");
    }
    let counted = |server: &rhythm_server::Handle| server.metrics().worker(0).slow_requests.get();
    eventually("all count", || counted(&on) == 50);
    assert_eq!(counted(&off), 0);
    stop(on);
    stop(off);
    let told = lines::with("page=\"often\"").len();
    assert!((1..50).contains(&told), "{told}");
    assert_eq!(lines::with("page=\"never-told\"").len(), 0);
}

#[test]
fn what_no_page_answers_is_told_of_by_its_line_alone() {
    lines::take();
    let (upstream, written) = (Upstream::new(), Written::default());
    let toml = "[server]\naccess_log_format = \"combined\"\n";
    let slow = |options: &mut rhythm_server::ServerOptions| {
        options.pipeline.watch.slow_request = Some(Duration::ZERO);
    };
    let server = serve(&upstream, toml, slow, Some(written.clone()));
    let mut client = Client::new(server.local_addr());
    let fields = "Referer: http://a/secret\r\nUser-Agent: x\r\n";
    assert_eq!(client.with("GET /app/slow", fields, "").status, 200);
    stop(server);
    assert!(
        written.text().contains("http://a/secret"),
        "a log that has it"
    );
    let all = lines::with("/app/slow");
    assert_eq!(all.len(), 1, "{all:?}");
    let request = lines::field(&all[0], "request");
    assert_eq!(request, Some("GET /app/slow HTTP/1.1"), "{all:?}");
}
