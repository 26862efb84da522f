//! Requests that servers take for different ones, to servers that people have: nginx, Python's, and
//! Node.js where it is installed. Each sees one request of what a client sends as one, or none.
//!
//! Needs Debian's `nginx` and `python3`; each test has a server of its own.

use super::smuggling::{CHUNKS_REFUSED, HIDDEN, REFUSED};
use super::websocket::has_node;
use super::{folder, raw};
use crate::server::{NEVER, Server};
use rhythm_etcd::testing::free_places;
use rustix::process::geteuid;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Python's server as it is, which takes content as its examples do.
const PYTHON: &str = r#"
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = b""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with open(sys.argv[2], "a") as log:
            print(self.command, self.path, self.headers.get("Host"), len(body), file=log)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// That of Node.js.
const NODE: &str = r#"
const fs = require("fs");
require("http").createServer((request, response) => {
    let length = 0;
    request.on("data", (piece) => length += piece.length);
    request.on("end", () => {
        const { method, url, headers } = request;
        fs.appendFileSync(process.argv[3], `${method} ${url} ${headers.host} ${length}\n`);
        response.end("ok");
    });
}).listen(Number(process.argv[2]), "127.0.0.1");
"#;

/// A server's process, and what it says that it was asked. Killed when dropped, with its folder.
struct Real {
    child: Child,
    folder: PathBuf,
    address: SocketAddr,
    markers: usize,
    /// It says how long a content was that came in chunks.
    counts_chunks: bool,
}

impl Real {
    fn start(test: &str, command: impl FnOnce(&Path, u16) -> Command) -> Real {
        let name = format!("rhythm-corpus-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        fs::write(folder.join("asked"), "").expect("a file can be written");
        let address = free_places(1)[0];
        let mut command = command(&folder, address.port());
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it is installed");
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < NEVER, "it does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Real {
            child,
            folder,
            address,
            markers: 0,
            counts_chunks: test != "nginx",
        }
    }

    fn nginx(test: &str) -> Real {
        Real::start(test, |folder, port| {
            let at = folder.display();
            let user = if geteuid().is_root() {
                "user root;"
            } else {
                ""
            };
            let configuration = format!(
                "daemon off; {user} worker_processes 1; pid {at}/pid; error_log {at}/errors;
                 events {{}}
                 http {{
                     log_format asked '$request_method $request_uri $http_host $content_length';
                     access_log {at}/asked asked;
                     client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
                     fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi;
                     scgi_temp_path {at}/scgi;
                     server {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }}
                 }}"
            );
            fs::write(folder.join("nginx.conf"), configuration).expect("a file can be written");
            let mut command = Command::new("nginx");
            command.arg("-c").arg(folder.join("nginx.conf"));
            command.arg("-e").arg(folder.join("errors"));
            command
        })
    }

    fn python(test: &str) -> Real {
        Real::start(test, |folder, port| {
            let script = folder.join("server.py");
            fs::write(&script, PYTHON).expect("a file can be written");
            let mut command = Command::new("python3");
            command.arg(script).arg(port.to_string());
            command.arg(folder.join("asked"));
            command
        })
    }

    fn node(test: &str) -> Real {
        Real::start(test, |folder, port| {
            let script = folder.join("server.js");
            fs::write(&script, NODE).expect("a file can be written");
            let mut command = Command::new("node");
            command.arg(script).arg(port.to_string());
            command.arg(folder.join("asked"));
            command
        })
    }

    /// What it was asked since this was asked last, by what it says. Of what was doubtful and cut
    /// off it may say late that it came: that is left out where what is sound is looked for.
    fn asked_soundly(&mut self) -> Vec<String> {
        let is_late = |line: &String| line.starts_with("POST /app/post ");
        let mut asked = self.asked();
        asked.retain(|line| !is_late(line));
        asked
    }

    /// What it was asked since this was asked last, by what it says.
    fn asked(&mut self) -> Vec<String> {
        self.markers += 1;
        let marker = format!("/marker-{}", self.markers);
        let ask = format!("GET {marker} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert!(self.direct(ask.as_bytes(), NEVER).ends_with("ok"));
        let start = Instant::now();
        loop {
            let all = fs::read_to_string(self.folder.join("asked")).expect("it is there");
            let lines: Vec<&str> = all.lines().collect();
            let at = |marker: &str| lines.iter().position(|line| line.contains(marker));
            if let Some(end) = at(&format!("{marker} ")) {
                let before = format!("/marker-{} ", self.markers - 1);
                let begin = at(&before).map_or(0, |at| at + 1);
                return lines[begin..end]
                    .iter()
                    .map(|it| (*it).to_owned())
                    .collect();
            }
            assert!(start.elapsed() < NEVER, "it does not say what it was asked");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// What it answers to these bytes itself, until it ends or is silent for so long.
    fn direct(&self, bytes: &[u8], patience: Duration) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(patience)).expect("a duration");
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    }

    /// A server before it.
    fn before(&self, test: &str) -> Server {
        let service = format!(
            "[[proxy]]\nmatch = \"/app/**\"\nto = \"http://{}\"\n",
            self.address
        );
        Server::start(&folder(test, &service), &[])
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // nginx ends its worker where it is asked to end, and not where it is killed.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Requests that mean two things, with what would be seen if the other was meant.
fn doubtful() -> Vec<Vec<u8>> {
    let post = "POST /app/post HTTP/1.1\r\nHost: h\r\n";
    let mut all: Vec<Vec<u8>> = (REFUSED.iter())
        .map(|head| format!("{post}{head}\r\n\r\n0\r\n\r\n{HIDDEN}").into_bytes())
        .collect();
    all.extend(CHUNKS_REFUSED.iter().map(|chunks| {
        format!("{post}Transfer-Encoding: chunked\r\n\r\n{chunks}{HIDDEN}").into_bytes()
    }));
    for line in [
        "POST /app/post HTTP/1.1\nHost: h\nContent-Length: 0\n\n",
        "POST /app/post HTTP/1.1\r\nHost: h\nContent-Length: 0\r\n\r\n",
        "POST /app/post HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\n",
        "POST /app/post\0 HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /app/post HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        "POST /app/post HTTP/1.1\r\nHost: h\r\nhost: other\r\n\r\n",
        "POST /app/post HTTP/1.1\r\nHost: h@other\r\n\r\n",
        "POST http://a@h/app/post HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST http://h/app/post x HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /app/post HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /app/post\r\n",
        "\0POST /app/post HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        all.push(format!("{line}{HIDDEN}").into_bytes());
    }
    all
}

/// Requests that mean one thing in the words of some clients: what is seen of each.
fn sound() -> Vec<(String, &'static str)> {
    let post = "POST /app/sound HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
    let absolute = "POST http://h/app/sound HTTP/1.1\r\nHost: other\r\nConnection: close\r\n";
    vec![
        // What looks like a request within a content is content.
        (
            format!("{post}Content-Length: {}\r\n\r\n{HIDDEN}", HIDDEN.len()),
            "POST /app/sound h 37",
        ),
        (
            format!("{absolute}Content-Length: 5\r\n\r\nhello{HIDDEN}"),
            "POST /app/sound h 5",
        ),
        (format!("{post}\r\n{HIDDEN}"), "POST /app/sound h 0"),
        (
            format!("{post}Content-Length: 005\r\n\r\nhello{HIDDEN}"),
            "POST /app/sound h 5",
        ),
        (
            format!("\r\n{post}Content-Length: 5\r\n\r\nhello{HIDDEN}"),
            "POST /app/sound h 5",
        ),
        (
            format!(
                "{post}Content-Length: 5\r\nConnection: Content-Length, Host\r\n\r\nhello{HIDDEN}"
            ),
            "POST /app/sound h 5",
        ),
        (
            format!("{post}Content-Length: 5\r\nUpgrade: h2c\r\nTE: trailers\r\n\r\nhello{HIDDEN}"),
            "POST /app/sound h 5",
        ),
    ]
}

/// Those in chunks, of five bytes: nginx does not say how many they were.
fn in_chunks() -> Vec<String> {
    let post = "POST /app/sound HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    [
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b;c=\"d;e\"\r\nhello\r\n0;x\r\n\r\n",
        "2\r\nhe\r\n003\r\nllo\r\n000\r\nContent-Length: 99\r\nHost: other\r\n\r\n",
    ]
    .map(|chunks| format!("{post}{chunks}{HIDDEN}"))
    .into()
}

fn sees_one_or_none(real: &mut Real, server: &Server) {
    assert!(HIDDEN.len() == 37, "what is seen says so");
    assert!(real.asked().is_empty());
    for request in doubtful() {
        let text = raw(server, &request);
        let shown = String::from_utf8_lossy(&request).into_owned();
        // Chunks may turn out to be none once their head is passed on: then there is no answer.
        let is_refused = text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 50");
        assert!(is_refused || text.is_empty(), "{shown:?}: {text}");
        assert!(text.matches("HTTP/1.1").count() <= 1, "{shown:?}: {text}");
        let asked = real.asked();
        let is_hidden = |line: &String| line.contains("hidden");
        assert!(!asked.iter().any(is_hidden), "{shown:?}: {asked:?}");
    }
    for (request, seen) in sound() {
        let text = raw(server, request.as_bytes());
        assert!(text.ends_with("\r\n\r\nok"), "{request:?}: {text}");
        let asked = real.asked_soundly();
        // nginx says a dash where no length is told.
        let asked: Vec<String> = asked.iter().map(|line| line.replace(" -", " 0")).collect();
        assert_eq!(asked, [seen], "{request:?}");
    }
    for request in in_chunks() {
        let text = raw(server, request.as_bytes());
        assert!(text.ends_with("\r\n\r\nok"), "{request:?}: {text}");
        let asked = real.asked_soundly();
        assert_eq!(asked.len(), 1, "{request:?}: {asked:?}");
        let is_its = match real.counts_chunks {
            true => asked[0] == "POST /app/sound h 5",
            false => asked[0].starts_with("POST /app/sound h "),
        };
        assert!(is_its, "{request:?}: {asked:?}");
    }
    // Many on one connection are as many, in whatever order they are done.
    let (request, seen) = &sound()[0];
    let request = request.replace("Connection: close\r\n", "");
    let last = "GET /app/last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let text = raw(server, (request.repeat(20) + last).as_bytes());
    assert_eq!(text.matches("HTTP/1.1 200").count(), 21, "{text}");
    let asked = real.asked_soundly();
    let posts = asked.iter().filter(|line| line == seen).count();
    let lasts = asked
        .iter()
        .filter(|line| line.starts_with("GET /app/last h "));
    assert_eq!(
        (asked.len(), posts, lasts.count()),
        (21, 20, 1),
        "{asked:?}"
    );
}

#[test]
fn nginx_sees_one_request_or_none() {
    let mut real = Real::nginx("nginx");
    let server = real.before("corpus-nginx");
    sees_one_or_none(&mut real, &server);
}

#[test]
fn pythons_server_sees_one_request_or_none() {
    let mut real = Real::python("python");
    // It would take some of them for two: that is what is kept from it.
    let taken_for_two = (doubtful().iter())
        .filter(|request| {
            real.direct(request, Duration::from_millis(500));
            let asked = real.asked();
            asked.iter().any(|line| line.contains("hidden"))
        })
        .count();
    assert!(taken_for_two >= 3, "{taken_for_two}");
    let server = real.before("corpus-python");
    sees_one_or_none(&mut real, &server);
}

#[test]
fn nodes_server_sees_one_request_or_none() {
    if !has_node() {
        return;
    }
    let mut real = Real::node("node");
    let server = real.before("corpus-node");
    sees_one_or_none(&mut real, &server);
}
