//! Logs that fail, are opened again, or are not read.

use crate::server::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn the_access_log_is_opened_again_and_its_failures_are_counted() {
    let folder = service("log", "");
    let log = folder.join("access.log");
    let path = log.to_str().expect("a plain path");
    let server = Server::start(&folder, &["--access-log", path]);
    let lines = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let wait = |path: &Path, count: usize| {
        let began = Instant::now();
        while lines(path) < count {
            assert!(
                began.elapsed() < NEVER,
                "{} has no {count} lines",
                path.display()
            );
            // Lines go out with the next event at the latest.
            server.get("/hello");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait(&log, 1);
    let old = folder.join("access.log.1");
    fs::rename(&log, &old).expect("a file can be renamed");
    server.signal(Signal::USR1);
    server.line("the access log was opened again");
    let before = lines(&old);
    wait(&log, 1);
    assert_eq!(lines(&old), before);
    // Nothing can be opened there now: the old one is written on.
    let kept = folder.join("access.log.2");
    fs::rename(&log, &kept).expect("a file can be renamed");
    fs::create_dir(&log).expect("a folder can be made");
    server.signal(Signal::USR1);
    let said = server.line("cannot be opened again");
    assert!(said.contains("access.log"), "{said}");
    let more = lines(&kept) + 1;
    wait(&kept, more);
    let metrics = get(&server.admin, "/metrics");
    assert!(
        metrics.contains("access_log_failures_total{} 1"),
        "{metrics}"
    );
    drop(server);
    let full = Server::start(&folder, &["--access-log", "/dev/full"]);
    let began = Instant::now();
    while !get(&full.admin, "/metrics").lines().any(is_some_loss) {
        assert!(began.elapsed() < NEVER, "it is counted");
        full.get("/hello");
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = full.line("the access log cannot be written");
    assert!(said.contains("No space left"), "{said}");
}

/// Whether a line of the metrics tells that lines of the access log were lost.
fn is_some_loss(line: &str) -> bool {
    line.contains("access_log_lines_dropped_total{") && !line.ends_with(" 0")
}

#[test]
fn a_log_that_cannot_be_written_names_its_setting() {
    let folder = service("log-path", "");
    let output = rhythm(&folder, "serve")
        .args([
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "none",
            "--access-log",
            "/nowhere/log",
        ])
        .output()
        .expect("it is built");
    let said = String::from_utf8_lossy(&output.stderr);
    let tells = [
        "server.access_log",
        "--access-log",
        "/nowhere/log",
        "No such file",
    ];
    assert!(tells.iter().all(|words| said.contains(words)), "{said}");
    // A pipe that nobody reads is not waited for.
    let pipe = folder.join("pipe");
    fifo(&pipe);
    write(
        &folder.join("service.toml"),
        format!(
            "[server]\naccess_log = {:?}\nadmin = \"none\"\nlisten = \"127.0.0.1:0\"\n",
            pipe
        ),
    );
    let output = rhythm(&folder, "serve").output().expect("it is built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("server.access_log") && said.contains("pipe"),
        "{said}"
    );
}

#[test]
fn what_is_told_of_the_first_load_is_logged() {
    // So short that nothing is compressed.
    let toml = "[server]\nlog_format = \"json\"\n[static]\ncompress_time = \"1ns\"\n";
    let folder = service("log-load", toml);
    write(&folder.join("static/long.css"), "body {}\n".repeat(10_000));
    // It ends when all is loaded.
    let output = rhythm(&folder, "serve")
        .args(["--listen", "127.0.0.1:0", "--admin", "none"])
        .args(["--access-log", "/nowhere/log"])
        .output()
        .expect("it is built");
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines();
    let told = lines.find(|line| line.contains("compress_time"));
    assert!(told.is_some_and(|line| line.starts_with('{')), "{said}");
}

#[test]
fn nobody_reads_the_log_and_the_server_goes_on() {
    let folder = service("stderr", "");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut child = rhythm(&folder, "serve")
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .stderr(writer)
        .spawn()
        .expect("it is built");
    // Until it says where it is; nothing is read after that.
    let mut first = BufReader::new(reader);
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert!(first.read_line(&mut line).expect("text") > 0, "it starts");
    }
    let pid = Pid::from_child(&child);
    // Far more than a pipe holds.
    write(&folder.join("pages/hello.html"), "{{");
    for _ in 0..2000 {
        kill_process(pid, Signal::HUP).expect("it is there");
        std::thread::sleep(Duration::from_micros(500));
    }
    let at = line.find(" address=").expect("it is told") + " address=".len();
    let address = line[at..]
        .split(['"', ' '])
        .nth(1)
        .expect("a word")
        .to_owned();
    assert!(get(&address, "/hello").ends_with("Hello!"));
    kill_process(pid, Signal::TERM).expect("it is there");
    let began = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status.success();
        }
        if began.elapsed() > NEVER {
            drop(child.kill());
            break false;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(ended);
}

#[test]
fn the_access_log_names_what_is_refused_where_its_request_line_came_whole() {
    let folder = service("refused", "[limits]\nbody_timeout = \"50ms\"\n");
    let log = folder.join("refused.log");
    let path = log.to_str().expect("a plain path");
    let server = Server::start(&folder, &["--access-log", path]);
    let head = "HTTP/1.1\r\nHost: x\r\n";
    for (request, line) in [
        (
            format!("POST /long {head}Content-Length: 65537\r\n\r\n"),
            "\"POST /long HTTP/1.1\" 413 ",
        ),
        (
            format!("POST /late {head}Content-Length: 2\r\n\r\na"),
            "\"POST /late HTTP/1.1\" 408 ",
        ),
        (
            format!("GET /many {head}{}\r\n", "A: b\r\n".repeat(101)),
            "\"GET /many HTTP/1.1\" 431 ",
        ),
        (
            format!("GET /{} {head}\r\n", "a".repeat(20_000)),
            "\"-\" 414 ",
        ),
        ("GET\r\n\r\n".to_owned(), "\"-\" 400 "),
    ] {
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        stream.set_read_timeout(Some(NEVER)).expect("a duration");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let began = Instant::now();
        let is_there = |text: String| text.lines().any(|logged| logged.contains(line));
        while !fs::read_to_string(&log).is_ok_and(is_there) {
            assert!(began.elapsed() < NEVER, "{line} is logged");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
