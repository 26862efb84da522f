//! Proxy routes: requests that other servers answer, as they should and as they should not.

mod attacks;
mod corpus;
mod passed_on;
mod restarts;
mod sealed;
mod smuggling;
mod streams;
mod upstream;
mod websocket;

use super::server::{NEVER, Server};
use super::site::check;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use upstream::Upstream;

/// A folder with a page, a static file, and these lines in its service.toml.
fn folder(test: &str, service: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("proxy-{test}"));
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&folder);
    for below in ["pages", "static"] {
        fs::create_dir_all(folder.join(below)).expect("a folder can be made");
    }
    let write = |path: &str, text: &str| {
        fs::write(folder.join(path), text).expect("a file can be written");
    };
    write("service.toml", service);
    write("static/a.txt", "a file");
    write(
        "pages/moved.html",
        "+++\nroute = \"GET /app/moved\"\n+++\nthis page has moved",
    );
    folder
}

/// A `[[proxy]]` of these servers.
fn route(path: &str, to: &[&Upstream], more: &str) -> String {
    let to: Vec<String> = to.iter().map(|it| format!("\"{}\"", it.url())).collect();
    format!(
        "[[proxy]]\nmatch = \"{path}\"\nto = [{}]\n{more}\n",
        to.join(", ")
    )
}

/// A server with one such.
fn serve(test: &str, to: &Upstream, more: &str) -> Server {
    Server::start(&folder(test, &route("/app/**", &[to], more)), &[])
}

/// A server with one worker.
fn serve_by_one(folder: &Path) -> Server {
    let script = "exec \"$0\" $(echo \"$@\" | sed 's/--workers 2/--workers 1/')";
    Server::start_by(script, Stdio::null(), folder, &[])
}

fn get(server: &Server, path: &str) -> (u16, String) {
    let answer = server.client().ask("GET", path, "").expect("an answer");
    (answer.status, answer.body)
}

/// All that a connection is sent until its end, for these bytes.
fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    // What is refused may not be read to its end.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

fn asked_once(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into_bytes()
}

#[test]
fn pages_and_files_go_before_and_the_rest_is_answered_elsewhere() {
    let (app, special) = (Upstream::new(), Upstream::new());
    let service = route("/**", &[&app], "") + &route("/app/special/*", &[&special], "");
    let server = Server::start(&folder("order", &service), &[]);
    assert_eq!(
        get(&server, "/app/moved"),
        (200, "this page has moved".to_owned())
    );
    assert_eq!(get(&server, "/static/a.txt"), (200, "a file".to_owned()));
    assert_eq!(get(&server, "/%73tatic/a.txt"), (200, "a file".to_owned()));
    assert!(app.seen().is_empty() && special.seen().is_empty());
    assert_eq!(get(&server, "/app/other/length"), (200, "hello".to_owned()));
    assert_eq!(
        get(&server, "/app/special/length"),
        (200, "hello".to_owned())
    );
    // Another method of a page's path is no page.
    let mut client = server.client();
    let posted = client
        .ask("POST", "/app/moved/echo", "a=b")
        .expect("an answer");
    assert_eq!((posted.status, &*posted.body), (200, "a=b"));
    for (upstream, paths) in [
        (&app, &["/app/other/length", "/app/moved/echo"][..]),
        (&special, &["/app/special/length"]),
    ] {
        let seen = upstream.seen();
        let seen: Vec<&str> = seen.iter().map(|seen| seen.path()).collect();
        assert_eq!(seen, paths);
    }
    // What may lead elsewhere is not asked for.
    for path in ["/app/%2e%2e/length", "/app/a%2f..%2flength", "/app/%zz"] {
        assert_eq!(get(&server, path).0, 400, "{path}");
    }
    assert!(app.seen().is_empty());
}

#[test]
fn answers_come_as_they_are_however_their_end_is_told() {
    let app = Upstream::new();
    let server = serve("answers", &app, "");
    let text = raw(&server, &asked_once("/app/length"));
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nhello"),
        "{text}"
    );
    for line in [
        "X-Kept: yes",
        "Set-Cookie: a=b",
        "Set-Cookie: c=d",
        "Content-Length: 5",
    ] {
        assert_eq!(
            text.matches(&format!("{line}\r\n")).count(),
            1,
            "{line} in {text}"
        );
    }
    for line in ["X-Own", "Keep-Alive"] {
        assert!(!text.contains(line), "{line} in {text}");
    }
    for path in ["chunked", "until-close", "hints", "behind"] {
        let text = raw(&server, &asked_once(&format!("/app/{path}")));
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("hello") && !text.contains("Hints"), "{text}");
        assert!(
            !text.contains("evil") && !text.contains("Trailer"),
            "{text}"
        );
    }
    let mut client = server.client();
    for (path, status) in [("204", 204), ("304", 304), ("length", 200)] {
        let answer = client
            .ask("GET", &format!("/app/{path}"), "")
            .expect("an answer");
        assert_eq!(answer.status, status);
    }
    let head = raw(
        &server,
        b"HEAD /app/length HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    );
    assert!(
        head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let old = raw(&server, b"GET /app/chunked HTTP/1.0\r\n\r\n");
    assert!(
        old.ends_with("\r\n\r\nhello") && !old.contains("chunked"),
        "{old}"
    );
    let seen = app.seen();
    let last = seen.last().expect("a request");
    assert!(
        last.head.starts_with("GET /app/chunked HTTP/1.1\r\n"),
        "{last:?}"
    );
    assert_eq!(
        last.field("host"),
        [app.address.to_string()],
        "a client that says none"
    );
    assert_eq!(last.field("x-forwarded-for"), ["127.0.0.1"]);
}

#[test]
fn a_broken_answer_never_looks_whole() {
    let app = Upstream::new();
    let hasty = "answer_timeout = \"300ms\"\npiece_timeout = \"300ms\"";
    let service = route("/app/**", &[&app], "") + &route("/hasty/**", &[&app], hasty);
    let server = Server::start(&folder("broken", &service), &[]);
    for (path, status) in [
        ("/app/nonsense", 502),
        ("/app/unasked", 502),
        ("/app/both", 502),
        ("/app/huge-head", 502),
        ("/app/die", 502),
        ("/hasty/hang", 504),
    ] {
        assert_eq!(get(&server, path).0, status, "{path}");
    }
    for path in ["/app/cut-length", "/app/cut-chunked", "/hasty/silent"] {
        let text = raw(&server, &asked_once(path));
        let is_whole = text.ends_with("0\r\n\r\n") || text.matches('h').count() > 40;
        assert!(
            !is_whole && text.matches("HTTP/1.1").count() <= 1,
            "{path}: {text}"
        );
    }
    for (cause, route) in [
        ("is no HTTP/1.1", "/app/**"),
        ("did not begin", "/hasty/**"),
        ("before it answered", "/app/**"),
        ("in the midst", "/app/**"),
    ] {
        let line = server.said_of(|line| {
            let said = line["fields"]["cause"].as_str();
            said.is_some_and(|said| said.contains(cause))
        });
        assert_eq!(line["fields"]["route"], route);
        assert_eq!(line["fields"]["server"], app.url());
    }
    // The server is as well as before.
    assert_eq!(get(&server, "/app/length"), (200, "hello".to_owned()));
}

#[test]
fn nobody_there_is_a_502_in_the_sites_own_words() {
    let nowhere = Upstream::new().url();
    let service = format!(
        "[errors]\n502 = \"gone.html\"\n[[proxy]]\nmatch = \"/app/**\"\nto = \"{nowhere}\"\n"
    );
    let folder = folder("nobody", &service);
    fs::write(folder.join("pages/gone.html"), "+++\n+++\nback soon").expect("a file");
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/app/length"), (502, "back soon".to_owned()));
    let line = server.said("could not be proxied");
    assert!(
        line["fields"]["cause"]
            .as_str()
            .is_some_and(|it| it.contains("refused")),
        "{line}"
    );
    let (_, metrics) = server.ask_admin("/metrics");
    let labels = format!("{{route=\"/app/**\",server=\"{nowhere}\"}}");
    assert!(
        metrics.contains(&format!("rhythm_proxy_failures_total{labels} 1")),
        "{metrics}"
    );
}

#[test]
fn connections_are_kept_for_as_long_as_is_said_and_used_again() {
    let app = Upstream::new();
    let server = serve("kept", &app, "keep_alive = \"60s\"");
    let mut client = server.client();
    for _ in 0..20 {
        assert_eq!(
            client
                .ask("GET", "/app/length", "")
                .expect("an answer")
                .status,
            200
        );
    }
    assert_eq!(app.connections(), 1);
    // They are cut while they are idle: the next request is sent by a new one.
    app.cut();
    assert_eq!(
        client
            .ask("GET", "/app/length", "")
            .expect("an answer")
            .status,
        200
    );
    let server = serve("not-kept", &app, "keep_alive = \"0s\"");
    let before = app.connections();
    app.seen();
    for _ in 0..3 {
        assert_eq!(get(&server, "/app/length").0, 200);
    }
    assert_eq!(app.connections(), before + 3);
    assert!(
        app.seen()
            .iter()
            .all(|seen| seen.field("connection") == ["close"])
    );
}

#[test]
fn a_reload_replaces_routes_and_what_is_under_way_ends_as_it_began() {
    let (old, new) = (Upstream::new(), Upstream::new());
    let folder = folder("reload", &route("/app/**", &[&old], ""));
    let server = Server::start(&folder, &[]);
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    let head = "POST /app/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\
                Connection: close\r\n\r\nabc";
    stream.write_all(head.as_bytes()).expect("it reads");
    let start = Instant::now();
    while old.connections() == 0 {
        assert!(start.elapsed() < NEVER);
        std::thread::sleep(Duration::from_millis(5));
    }
    let service = route("/app/**", &[&new], "");
    fs::write(folder.join("service.toml"), service).expect("a file can be written");
    server.signal(Signal::HUP);
    server.said("is reloaded");
    assert_eq!(get(&server, "/app/length").0, 200);
    assert_eq!((new.seen().len(), old.seen().len()), (1, 0));
    stream.write_all(b"def").expect("it reads");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("text");
    assert!(all.ends_with("abcdef"), "{all}");
    assert_eq!(old.seen()[0].content, b"abcdef");
}

#[test]
fn mistakes_are_told_where_they_stand_and_what_is_hidden() {
    let told = |service: &str| check(&folder("check", service));
    for (line, said) in [
        (
            "match = \"/a\"\nto = \"ftp://h\"",
            "neither http:// nor https://",
        ),
        (
            "match = \"/a\"\nto = \"http://h/path\"",
            "it gets the request's own",
        ),
        ("match = \"a\"\nto = \"http://h\"", "a path begins with `/`"),
        ("match = \"/a\"", "`to` is missing"),
        ("match = \"/a\"\nto = []", "`to` is empty"),
        (
            "match = \"/a\"\nto = \"http://h\"\nconect_timeout = \"1s\"",
            "`connect_timeout`",
        ),
        (
            "match = \"/a\"\nto = \"http://h\"\ntrusted_proxies = \"me\"",
            "nor `unix`",
        ),
        (
            "match = [\"/a\", \"/a\"]\nto = \"http://h\"",
            "has /a already",
        ),
        (
            "match = \"/app/moved\"\nto = \"http://h\"",
            "a page answers GET /app/moved",
        ),
        (
            "match = \"/static/a.txt\"\nto = \"http://h\"",
            "static/a.txt is answered in place",
        ),
    ] {
        let all = told(&format!("[[proxy]]\n{line}\n"));
        assert!(all.contains(said), "{line}: {all}");
        assert!(all.contains("service.toml:"), "{all}");
    }
    let sound = told("[[proxy]]\nmatch = [\"/b/**\", \"/c\"]\nto = \"http://127.0.0.1:9\"\n");
    assert!(
        sound.contains("/b/**, /c") && sound.contains("http://127.0.0.1:9"),
        "{sound}"
    );
    assert!(
        !sound.contains("warning") && !sound.contains("error"),
        "{sound}"
    );
}
