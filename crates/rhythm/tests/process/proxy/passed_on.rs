//! Pages that answer what they know, and pass on the rest (`else = "proxy"`).

use super::upstream::Upstream;
use super::{asked_once, check, folder, get, raw, route};
use crate::server::Server;
use std::fs;
use std::path::{Path, PathBuf};

/// A page of those below 100, and of 7 only for those who know it; the rest is the application's.
const PAGE: &str = "+++
route = [\"GET /app/{id}/length\", \"POST /app/{id}/echo\"]
[params]
id = { in = \"path\", type = \"int\" }
[[step]]
check = \"id < 100\"
else = \"proxy\"
[[step]]
headers = { X-Page = \"yes\" }
+++
ours {{ id }}";

/// One whose parameter may be anything.
const TEXT: &str = "+++
route = \"GET /app/text/{name}\"
[params]
name = { in = \"path\", type = \"text\" }
[[step]]
check = \"name == 'a/b'\"
else = \"proxy\"
+++
ours";

fn folder_of(test: &str, app: &Upstream, more: &str) -> PathBuf {
    let folder = folder(test, &(route("/app/**", &[app], "") + more));
    fs::write(folder.join("pages/known.html"), PAGE).expect("a file can be written");
    fs::write(folder.join("pages/text.html"), TEXT).expect("a file can be written");
    folder
}

fn serve(test: &str, app: &Upstream, more: &str, flags: &[&str]) -> Server {
    Server::start(&folder_of(test, app, more), flags)
}

#[test]
fn a_page_answers_what_it_knows_and_the_application_the_rest() {
    let app = Upstream::new();
    let server = serve("passed-on", &app, "", &["--request-ids", "answered"]);
    assert_eq!(get(&server, "/app/7/length"), (200, "ours 7".to_owned()));
    assert!(app.seen().is_empty());
    let head = "GET /app/700/length?a=%20b HTTP/1.1\r\nHost: shop.example\r\nCookie: sid=1\r\n\
                X-Own: 1\r\nConnection: close, X-Own\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    let text = raw(&server, head.as_bytes());
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\nhello"),
        "{text}"
    );
    // The answer is the application's alone, and has its id once.
    assert!(!text.contains("X-Page"), "{text}");
    assert_eq!(
        text.to_lowercase().matches("x-request-id: ").count(),
        1,
        "{text}"
    );
    let seen = app.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(
        seen[0]
            .head
            .starts_with("GET /app/700/length?a=%20b HTTP/1.1\r\n"),
        "{seen:?}"
    );
    for (field, value) in [
        ("host", "shop.example"),
        ("cookie", "sid=1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
    ] {
        assert_eq!(seen[0].field(field), [value], "{seen:?}");
    }
    assert!(seen[0].field("x-own").is_empty(), "{seen:?}");
    let id = seen[0].field("x-request-id");
    assert!(id.len() == 1 && text.contains(id[0]), "{id:?} {text}");
    // HEAD, and HTTP/1.0 with nothing but its line.
    let text = raw(
        &server,
        b"HEAD /app/700/length HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    );
    assert!(text.contains("Content-Length: 5\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\n"), "{text}");
    let text = raw(&server, b"GET /app/700/length HTTP/1.0\r\n\r\n");
    assert!(text.ends_with("hello"), "{text}");
    let seen = app.seen();
    assert!(seen[0].head.starts_with("HEAD "), "{seen:?}");
    assert_eq!(seen.len(), 2);
    let (_, figures) = server.ask_admin("/metrics");
    assert!(
        figures.contains("rhythm_passed_on_total{page=\"known\"} 3"),
        "{figures}"
    );
}

#[test]
fn the_application_is_told_of_a_trace_that_is_not_recorded() {
    let app = Upstream::new();
    let flags = ["--otlp", "http://127.0.0.1:1", "--trace-sample", "0%"];
    let server = serve("passed-on-traced", &app, "", &flags);
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let head = format!(
        "GET /app/700/length HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         traceparent: 00-{trace}-{parent}-01\r\n\r\n"
    );
    raw(&server, head.as_bytes());
    let seen = app.seen();
    let told = seen[0].field("traceparent");
    assert_eq!(told.len(), 1, "{seen:?}");
    let is_own = told[0].starts_with(&format!("00-{trace}-")) && !told[0].contains(parent);
    assert!(is_own && told[0].ends_with("-00"), "{told:?}");
}

#[test]
fn contents_go_along_within_their_bound() {
    let app = Upstream::new();
    let limits = "[limits]\nbody_bytes_max = 2000\n";
    let server = serve("passed-on-contents", &app, limits, &[]);
    let long = "x".repeat(2000);
    for content in ["", "a=b", &long] {
        let mut client = server.client();
        let answer = client.ask("POST", "/app/700/echo", content);
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, &*answer.body), (200, content));
        let seen = app.seen();
        let length = content.len().to_string();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(seen[0].field("content-length"), [&*length]);
        assert!(seen[0].field("transfer-encoding").is_empty());
    }
    // What came in chunks has a length now, since all of it was there before the page ran.
    let chunked = "POST /app/700/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                   Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    let text = raw(&server, chunked.as_bytes());
    assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    let seen = app.seen();
    assert_eq!(seen[0].field("content-length"), ["5"], "{seen:?}");
    let mut client = server.client();
    let answer = client.ask("POST", "/app/700/echo", &format!("{long}x"));
    assert_eq!(answer.expect("an answer").status, 413);
    assert!(app.seen().is_empty());
}

#[test]
fn answers_come_in_turn_and_each_is_logged_once() {
    let app = Upstream::new();
    let folder = folder_of("passed-on-order", &app, "");
    let log = folder.join("access.log");
    let flags = ["--access-log", log.to_str().expect("text")];
    let server = Server::start(&folder, &flags);
    let mut client = server.client();
    let mut all = String::new();
    for id in [700, 7, 701, 8, 9, 702] {
        all += &format!("GET /app/{id}/length HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    client.send(&all.repeat(20)).expect("it is taken");
    for at in 0..120 {
        let answer = client.answer().expect("an answer");
        let wanted = ["hello", "ours 7", "hello", "ours 8", "ours 9", "hello"][at % 6];
        assert_eq!((answer.status, &*answer.body), (200, wanted), "{at}");
    }
    assert_eq!(app.seen().len(), 60);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.ended().success());
    let log = fs::read_to_string(log).expect("it is written");
    assert_eq!(log.lines().count(), 120, "{log}");
    let passed = "\"GET /app/701/length HTTP/1.1\" 200 5";
    assert_eq!(log.matches(passed).count(), 20, "{log}");
}

#[test]
fn what_cannot_be_passed_on_is_an_error_and_nobody_elses() {
    let app = Upstream::new();
    // All come from one address, whose share of those who wait is to be enough for who comes last.
    let server = serve("passed-on-failing", &app, "waiting_max = 4000\n", &[]);
    // Many whose clients are gone before the page has run, or before the answer.
    for _ in 0..50 {
        let mut client = server.client();
        let all = "GET /app/700/length HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10);
        client.send(&all).expect("it is taken");
    }
    // A path that the application may take for another.
    assert_eq!(get(&server, "/app/text/a%2fb").1, "ours");
    assert_eq!(get(&server, "/app/text/c%2f..%2fd").0, 400);
    assert_eq!(get(&server, "/app/7/length").1, "ours 7");
    assert_eq!(get(&server, "/app/700/length").1, "hello");
    let folder = folder_of("passed-on-nobody", &app, "");
    drop(app);
    assert_eq!(get(&server, "/app/700/length").0, 502);
    assert_eq!(get(&server, "/app/7/length").1, "ours 7");
    refused_without_a_route(&folder);
}

fn refused_without_a_route(folder: &Path) {
    let service = "[[proxy]]\nmatch = \"/app/*/length\"\nto = \"http://127.0.0.1:1\"\n";
    fs::write(folder.join("service.toml"), service).expect("a file can be written");
    let told = check(folder);
    for words in [
        "pages/known.html:7:8: error: no [[proxy]] of service.toml has all paths, and the method, \
         of POST /app/{id}/echo",
        "match = \"/**\"",
    ] {
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn a_method_that_nobody_knows_here_is_for_the_application_to_know() {
    let app = Upstream::new();
    let folder = folder("methods", &route("/app/**", &[&app], "methods = \"any\""));
    let server = Server::start(&folder, &[]);
    for method in [
        "PROPFIND",
        "MKCALENDAR",
        "QUERY",
        "X!#$%&'*+-.^_`|~1",
        "Patch2",
    ] {
        let content = "POST /app/x/echo HTTP/1.1\r\nHost: h\r\n\r\n";
        let length = content.len();
        let text = raw(
            &server,
            format!(
                "{method} /app/moved/echo HTTP/1.1\r\nHost: h\r\nDepth: 1\r\n\
                 Content-Length: {length}\r\nConnection: close\r\n\r\n{content}"
            )
            .as_bytes(),
        );
        assert!(text.ends_with(content), "{method}: {text}");
        let seen = app.seen();
        assert_eq!(seen.len(), 1, "{method}: {seen:?}");
        let line = format!("{method} /app/moved/echo HTTP/1.1\r\n");
        assert!(seen[0].head.starts_with(&line), "{seen:?}");
        assert_eq!(seen[0].field("depth"), ["1"]);
        // The application might not know that it has content, and take that for a request.
        assert_eq!(seen[0].field("connection"), ["close"], "{method}");
    }
    // Also where a page has the path, or a file; not in the letters of another method.
    let text = raw(&server, &asked_once("/app/moved"));
    assert!(text.ends_with("this page has moved"), "{text}");
    let ask = |method: &str, path: &str| {
        let head = "HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        raw(&server, format!("{method} {path} {head}").as_bytes())
    };
    assert!(ask("BREW", "/app/moved").starts_with("HTTP/1.1 "));
    assert_eq!(app.seen().len(), 1);
    for (method, path) in [
        ("BREW", "/elsewhere"),
        ("BREW", "/static/a.txt"),
        ("get", "/app/x/length"),
        ("CONNECT", "/app/x/length"),
        ("Connect", "/app/x/length"),
    ] {
        let text = ask(method, path);
        assert!(text.starts_with("HTTP/1.1 501 "), "{method} {path}: {text}");
    }
    assert!(app.seen().is_empty());
}

#[test]
fn methods_that_manage_an_application_are_for_those_who_name_them() {
    let app = Upstream::new();
    let named = route("/app/named/**", &[&app], "methods = \"GET PURGE\"");
    let folder = folder("methods-named", &(route("/app/**", &[&app], "") + &named));
    let server = Server::start(&folder, &[]);
    let ask = |method: &str, path: &str| {
        let head = "HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        raw(&server, format!("{method} {path} {head}").as_bytes())
    };
    for method in ["PURGE", "BAN", "MKCOL", "MOVE"] {
        let text = ask(method, "/app/x/length");
        assert!(text.starts_with("HTTP/1.1 501 "), "{method}: {text}");
    }
    for method in ["POST", "DELETE", "HEAD"] {
        let text = ask(method, "/app/named/length");
        assert!(text.starts_with("HTTP/1.1 405 "), "{method}: {text}");
        assert!(text.contains("Allow: GET, PURGE\r\n"), "{method}: {text}");
    }
    let text = ask("BAN", "/app/named/length");
    assert!(text.starts_with("HTTP/1.1 501 "), "{text}");
    assert!(app.seen().is_empty());
    for (method, path) in [("PURGE", "/app/named/length"), ("DELETE", "/app/x/length")] {
        let text = ask(method, path);
        assert!(text.starts_with("HTTP/1.1 200 "), "{method}: {text}");
        assert_eq!(app.seen().len(), 1, "{method}");
    }
}

/// Somebody guesses at what a page looks up, which passes on what it does not know.
const SIGN_IN: &str = "+++
route = \"POST /app/in/echo\"
[params]
user = { in = \"form\", type = \"int\" }
[[step]]
check = \"user < 100\"
else = \"proxy\"
[[step]]
session = \"create\"
user = \"user\"
+++
in";

#[test]
fn sign_ins_that_are_passed_on_count_as_failed() {
    let app = Upstream::new();
    let limit = "[session]\nfailed_sign_ins_per_address_max = 3\n";
    let folder = folder_of("passed-on-sign-ins", &app, limit);
    fs::write(folder.join("pages/in.html"), SIGN_IN).expect("a file can be written");
    let server = Server::start(&folder, &[]);
    let ask = |user: u32| {
        let form = format!("user={user}");
        let text = format!(
            "POST /app/in/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{form}",
            form.len()
        );
        raw(&server, text.as_bytes())
    };
    assert!(ask(7).starts_with("HTTP/1.1 200 "));
    for at in 0..3 {
        let text = ask(700);
        assert!(text.ends_with("user=700"), "{at}: {text}");
    }
    assert_eq!(app.seen().len(), 3);
    for user in [700, 7] {
        let text = ask(user);
        assert!(text.starts_with("HTTP/1.1 429 "), "{user}: {text}");
    }
    assert!(app.seen().is_empty(), "nobody is asked any more");
}
