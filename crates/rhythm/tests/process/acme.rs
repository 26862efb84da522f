//! Answers to an authority's challenges, from the folder of a client of ACME.

use super::server::{Client, Server, service};
use super::tls::{client, make};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const PATH: &str = "/.well-known/acme-challenge/";
const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";

/// A web root with an answer in it, as certbot and lego leave one.
fn webroot(folder: &Path) -> PathBuf {
    let root = folder.join("acme");
    let _ = fs::remove_dir_all(&root);
    let below = root.join(&PATH[1..]);
    fs::create_dir_all(&below).expect("a folder can be made");
    fs::write(below.join(TOKEN), format!("{TOKEN}.print")).expect("a file can be written");
    fs::write(root.join("secret"), "secret").expect("a file can be written");
    fs::write(below.join("dotted.txt"), "secret").expect("a file can be written");
    symlink(root.join("secret"), below.join("link")).expect("a link can be made");
    fs::create_dir(below.join("folder")).expect("a folder can be made");
    fs::write(below.join("long"), "x".repeat(4097)).expect("a file can be written");
    root
}

fn get(client: &mut Client, path: &str) -> (u16, String) {
    let answer = client.ask("GET", path, "").expect("an answer");
    (answer.status, answer.body)
}

#[test]
fn challenges_are_answered_from_the_web_root_alone_and_before_https() {
    let folder = service("acme");
    make(&folder, "tls", &["localhost"]);
    // For one name alone: a challenge may be for one that is yet to come.
    let settings = "[service]\nhost = \"localhost\"\n[tls]\ncertificate = \"tls/cert.pem\"\n\
                    key = \"tls/key.pem\"\n";
    fs::write(folder.join("service.toml"), settings).expect("a file can be written");
    let root = webroot(&folder);
    let flags = [
        "--tls-listen",
        "127.0.0.1:0",
        "--tls-redirect-port",
        "443",
        "--acme-webroot",
        root.to_str().expect("text"),
    ];
    let server = Server::start(&folder, &flags);
    let [plain, tls] = server.places()[..] else {
        panic!("two places");
    };
    let path = format!("{PATH}{TOKEN}");
    let answer = format!("{TOKEN}.print");
    let mut over_tcp = Client::new(plain);
    assert_eq!(get(&mut over_tcp, "/hello").0, 308, "others are sent on");
    assert_eq!(get(&mut over_tcp, &path), (200, answer.clone()));
    assert_eq!(get(&mut over_tcp, &format!("{path}?x=y")).0, 200);
    // For any host, and not twice the same way: one that is put there later is found.
    let head = "HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(plain).expect("it listens");
    write!(stream, "GET {path} {head}").expect("it is taken");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with(&answer),
        "{text}"
    );
    assert!(
        text.contains("Content-Type: application/octet-stream\r\n"),
        "{text}"
    );
    fs::write(root.join(&PATH[1..]).join("later"), "later.print").expect("a file");
    assert_eq!(get(&mut over_tcp, &format!("{PATH}later")).1, "later.print");
    // Nothing else of the folder, and nothing beside it.
    for name in [
        "none",
        "link",
        "folder",
        "folder/x",
        "long",
        "dotted.txt",
        "",
        "..%2f..%2fsecret",
        "../../secret",
        "%2e%2e/%2e%2e/secret",
        "%4coqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0",
    ] {
        let (status, body) = get(&mut over_tcp, &format!("{PATH}{name}"));
        assert!(
            status == 404 && !body.contains("secret"),
            "{name}: {status} {body}"
        );
    }
    let posted = over_tcp.ask("POST", &path, "a=b").expect("an answer");
    assert_eq!(posted.status, 405);
    let many = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(50);
    over_tcp.send(&many).expect("it is taken");
    for _ in 0..50 {
        assert_eq!(over_tcp.answer().expect("an answer").body, answer);
    }
    // What speaks TLS is the site's.
    let mut over_tls = client(tls, &folder.join("tls/cert.pem"));
    assert_eq!(get(&mut over_tls, &path).0, 404);
    assert_eq!(get(&mut over_tls, "/hello").0, 200);
}

/// However a request's content comes, and whatever else has the path.
#[test]
fn challenges_are_no_applications_to_answer() {
    let folder = service("acme_proxy");
    // Nobody listens there.
    let settings = "[[proxy]]\nmatch = \"/**\"\nto = \"http://127.0.0.1:1\"\n";
    fs::write(folder.join("service.toml"), settings).expect("a file can be written");
    let root = webroot(&folder);
    let flags = ["--acme-webroot", root.to_str().expect("text")];
    let server = Server::start(&folder, &flags);
    let ask = |method: &str, fields: &str| {
        let mut stream = TcpStream::connect(server.places()[0]).expect("it listens");
        let head = format!("{method} {PATH}{TOKEN} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        // What is refused may not be read to its end.
        let _ = stream.write_all(head.as_bytes());
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    let chunked = "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
    let expects = "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
    for (method, fields, status) in [
        ("GET", "Connection: close\r\n", 200),
        ("GET", chunked, 200),
        (
            "GET",
            "Connection: close, upgrade\r\nUpgrade: websocket\r\n",
            200,
        ),
        ("POST", chunked, 405),
        ("POST", expects, 405),
    ] {
        let text = ask(method, fields);
        let text = text
            .strip_prefix("HTTP/1.1 100 Continue\r\n\r\n")
            .unwrap_or(&text);
        let start = format!("HTTP/1.1 {status} ");
        assert!(text.starts_with(&start), "{method} {fields}: {text}");
    }
}

#[test]
fn a_web_root_that_is_none_is_refused_at_the_start() {
    let folder = service("acme_none");
    let none = folder.join("nowhere");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--no-admin"]);
    command.arg("--acme-webroot").arg(&none).arg(&folder);
    let run = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success());
    let words = "server.acme_webroot (--acme-webroot): ";
    assert!(
        said.contains(words) && said.contains("nowhere: No such file"),
        "{said}"
    );
}
