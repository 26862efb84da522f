//! `rhythm serve`, as it runs: what a folder may hold, and signals whatever hangs.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Long enough to mean never.
const NEVER: Duration = Duration::from_secs(60);

/// A service with a page, in a folder of the test's own.
fn service(test: &str, toml: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{test}"));
    // What a run before left.
    let _ = fs::remove_dir_all(&folder);
    for below in ["pages", "static/img"] {
        fs::create_dir_all(folder.join(below)).expect("a folder can be made");
    }
    write(&folder.join("service.toml"), toml);
    write(
        &folder.join("pages/hello.html"),
        "+++\nroute = \"GET /hello\"\n+++\nHello!",
    );
    write(&folder.join("static/a.css"), "body {}");
    folder
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).expect("a file can be written");
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO can be made");
}

fn rhythm(folder: &Path, command: &str) -> Command {
    let mut rhythm = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    rhythm.arg(command).arg(folder);
    rhythm
}

/// What `rhythm check` says, and whether it is content.
fn check(folder: &Path) -> (bool, String) {
    let Output { status, stderr, .. } = rhythm(folder, "check").output().expect("it is built");
    (status.success(), String::from_utf8(stderr).expect("text"))
}

/// What `rhythm check` complains of.
fn complaint(folder: &Path) -> String {
    let (is_content, said) = check(folder);
    assert!(!is_content, "{said}");
    said
}

/// A server that runs.
struct Server {
    child: Child,
    lines: Receiver<String>,
    address: String,
    admin: String,
}

impl Server {
    fn start(folder: &Path, flags: &[&str]) -> Server {
        let mut child = rhythm(folder, "serve")
            .args([
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--workers",
                "1",
            ])
            .args(flags)
            .env("RHYTHM_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is built");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut server = Server {
            child,
            lines,
            address: String::new(),
            admin: String::new(),
        };
        let line = server.line("serving");
        let value = |key: &str| {
            let at = line.find(key).expect("it is told") + key.len();
            let end = line[at..].find(' ').map_or(line.len(), |end| at + end);
            line[at..end].trim_matches('"').to_owned()
        };
        (server.address, server.admin) = (value(" address="), value(" admin="));
        server
    }

    /// The next line of its log with these words in it.
    fn line(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(NEVER);
            let line = line.unwrap_or_else(|_| panic!("it never says {words}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it is there");
    }

    /// Whether it ends by itself, and well.
    fn ends(mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < NEVER {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole answer.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn only_regular_files_are_read() {
    for (at, what) in [("static/img/x", "a FIFO"), ("pages/x.html", "a FIFO")] {
        let folder = service("kinds", "");
        fifo(&folder.join(at));
        let said = complaint(&folder);
        assert!(said.contains(at) && said.contains(what), "{said}");
        assert!(said.contains("move it out of the folder"), "{said}");
        // What is hidden is not looked at.
        fs::remove_file(folder.join(at)).expect("it is there");
        fifo(&folder.join("static/.x"));
        assert!(check(&folder).0);
    }
    let folder = service("kinds-toml", "");
    fs::remove_file(folder.join("service.toml")).expect("it is there");
    fifo(&folder.join("service.toml"));
    assert!(complaint(&folder).contains("service.toml is a FIFO"));
    let folder = service("kinds-device", "[static]\noutside_links = true\n");
    symlink("/dev/zero", folder.join("static/zero")).expect("a link can be made");
    assert!(complaint(&folder).contains("static/zero is a device"));
    let folder = service("kinds-socket", "");
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("static/s")).expect("a path");
    assert!(complaint(&folder).contains("static/s is a socket"));
}

#[test]
fn links_stay_in_their_folder_unless_they_may_leave_it() {
    let folder = service("links", "");
    symlink("../a.css", folder.join("static/img/b.css")).expect("a link can be made");
    symlink("img", folder.join("static/pictures")).expect("a link can be made");
    assert!(check(&folder).0, "within the folder");
    for (link, to) in [
        ("static/out", "../service.toml"),
        ("static/img/out", "/etc/hostname"),
        ("static/out", "/etc"),
        ("pages/out.html", "/etc/hostname"),
        ("templates", "/tmp"),
    ] {
        symlink(to, folder.join(link)).expect("a link can be made");
        let said = complaint(&folder);
        let is_clear = said.contains(link) && said.contains("outside_links = true");
        assert!(is_clear, "{link}: {said}");
        fs::remove_file(folder.join(link)).expect("it is there");
    }
    symlink("../service.toml", folder.join("static/out")).expect("a link can be made");
    write(
        &folder.join("service.toml"),
        "[static]\noutside_links = true\n",
    );
    let server = Server::start(&folder, &[]);
    assert!(
        server
            .get("/static/out")
            .ends_with("outside_links = true\n")
    );
    assert!(server.get("/static/pictures/b.css").ends_with("body {}"));
    // Round in circles.
    symlink("..", folder.join("static/img/up")).expect("a link can be made");
    assert!(complaint(&folder).contains("leads back to a folder that it is in"));
}

#[test]
fn what_is_kept_and_held_open_is_bounded() {
    for (settings, told) in [
        ("kept_bytes_sum_max = 1000", "kept_bytes_sum_max = 1000"),
        (
            "kept_bytes_max = 100\nstreamed_files_max = 1",
            "streamed_files_max = 1",
        ),
        ("files_max = 3", "files_max = 3"),
    ] {
        let folder = service("bounds", &format!("[static]\n{settings}\n"));
        write(&folder.join("static/b"), [b'b'; 600]);
        write(&folder.join("static/c"), [b'c'; 600]);
        let said = complaint(&folder);
        assert!(said.contains(told), "{said}");
        fs::remove_file(folder.join("static/c")).expect("it is there");
        assert!(check(&folder).0, "{settings}");
    }
}

#[test]
fn a_service_that_serves_nothing_is_a_mistake() {
    let folder = service("nothing", "");
    fs::rename(
        folder.join("pages/hello.html"),
        folder.join("pages/hello.htm"),
    )
    .expect("a file");
    assert!(check(&folder).0, "it has a static file");
    fs::remove_file(folder.join("static/a.css")).expect("it is there");
    let said = complaint(&folder);
    assert!(
        said.contains("pages/hello.htm") && said.contains(".html"),
        "{said}"
    );
    let serve = rhythm(&folder, "serve").output().expect("it is built");
    let said = String::from_utf8_lossy(&serve.stderr);
    assert!(!serve.status.success() && said.contains(".html"), "{said}");
}

#[test]
fn a_long_file_that_changes_is_cut_off_and_never_mixed() {
    let folder = service("changes", "[static]\nkept_bytes_max = 1000\n");
    let path = folder.join("static/long");
    let length = 64 << 20;
    write(&path, vec![b'a'; length]);
    let server = Server::start(&folder, &[]);
    let mut client = TcpStream::connect(&server.address).expect("it listens");
    client.set_read_timeout(Some(NEVER)).expect("a duration");
    client
        .write_all(b"GET /static/long HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it reads");
    client.read_exact(&mut [0; 9]).expect("it answers");
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("it is there");
    (&file)
        .write_all(&vec![b'b'; length])
        .expect("it can be written");
    let mut bytes = Vec::new();
    // Reset, or an early end.
    let _ = client.read_to_end(&mut bytes);
    let head = bytes
        .windows(4)
        .position(|at| at == b"\r\n\r\n")
        .expect("a head")
        + 4;
    assert!(bytes.len() - head < length && !bytes[head..].contains(&b'b'));
    assert!(server.get("/static/long").starts_with("HTTP/1.1 503 "));
    server.line("it has changed since the service was loaded");
    server.signal(Signal::HUP);
    server.line("the service is reloaded");
    assert!(server.get("/static/long").ends_with("bbbb"));
    file.set_len(10).expect("it can be shortened");
    assert!(server.get("/static/long").starts_with("HTTP/1.1 503 "));
    // Replaced as a whole, it is what it was until it is loaded again.
    file.set_len(5000).expect("it can be lengthened");
    server.signal(Signal::HUP);
    server.line("the service is reloaded");
    write(&folder.join("new"), "new");
    fs::rename(folder.join("new"), &path).expect("a file can be renamed");
    assert_eq!(server.get("/static/long").matches('\0').count(), 4990);
}

#[test]
fn signals_are_obeyed_whatever_hangs() {
    let folder = service("hangs", "");
    let log = folder.join("log");
    fifo(&log);
    // Somebody has it open, and never reads it.
    let _reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&log)
        .expect("a FIFO");
    let flags = [
        "--access-log",
        log.to_str().expect("a plain path"),
        "--drain-timeout",
        "1s",
    ];
    let server = Server::start(&folder, &flags);
    // More than a pipe holds.
    let mut client = TcpStream::connect(&server.address).expect("it listens");
    let request = "GET /static/a.css HTTP/1.1\r\nHost: x\r\n\r\n";
    for _ in 0..100 {
        client
            .write_all(request.repeat(40).as_bytes())
            .expect("it reads");
        let mut left = 40;
        let mut answers = BufReader::new(&client);
        while left > 0 {
            let mut line = String::new();
            answers.read_line(&mut line).expect("it answers");
            left -= line.matches("HTTP/1.1 200").count();
        }
        // What is left of the last answer.
        answers.fill_buf().expect("it answers");
    }
    // A folder that holds what never ends is refused, and what follows is obeyed.
    fifo(&folder.join("static/fifo"));
    server.signal(Signal::HUP);
    let said = server.line("cannot be reloaded");
    assert!(said.contains("static/fifo is a FIFO"), "{said}");
    server.signal(Signal::USR1);
    assert!(get(&server.admin, "/healthz").starts_with("HTTP/1.1 200"));
    fs::remove_file(folder.join("static/fifo")).expect("it is there");
    server.signal(Signal::HUP);
    server.line("the service is reloaded");
    server.signal(Signal::TERM);
    drop(client);
    assert!(server.ends());
}

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
    let address = line[at..].split(' ').next().expect("a word").to_owned();
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
fn a_file_grows_while_it_is_sent_and_ends_the_connection() {
    let folder = service("grows", "[static]\nkept_bytes_max = 0\n");
    let path = folder.join("static/grows");
    write(&path, vec![b'a'; 1000]);
    let server = Server::start(&folder, &[]);
    assert!(server.get("/static/grows").ends_with("aaaa"));
    let mut file: File = OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("it is there");
    file.write_all(b"more").expect("it can be written");
    assert!(server.get("/static/grows").starts_with("HTTP/1.1 503 "));
}
