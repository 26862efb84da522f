//! A folder with a service, `rhythm serve` on it, and a client.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Long enough to mean never.
pub(crate) const NEVER: Duration = Duration::from_secs(60);

/// A service with a page, in a folder of the test's own.
pub(crate) fn service(test: &str, toml: &str) -> PathBuf {
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

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).expect("a file can be written");
}

pub(crate) fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO can be made");
}

pub(crate) fn rhythm(folder: &Path, command: &str) -> Command {
    let mut rhythm = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    rhythm.arg(command).arg(folder);
    rhythm
}

/// What `rhythm check` says, and whether it is content.
pub(crate) fn check(folder: &Path) -> (bool, String) {
    let Output { status, stderr, .. } = rhythm(folder, "check").output().expect("it is built");
    (status.success(), String::from_utf8(stderr).expect("text"))
}

/// What `rhythm check` complains of.
pub(crate) fn complaint(folder: &Path) -> String {
    let (is_content, said) = check(folder);
    assert!(!is_content, "{said}");
    said
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) address: String,
    pub(crate) admin: String,
}

impl Server {
    pub(crate) fn start(folder: &Path, flags: &[&str]) -> Server {
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
    pub(crate) fn line(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(NEVER);
            let line = line.unwrap_or_else(|_| panic!("it never says {words}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it is there");
    }

    /// Whether it ends by itself, and well.
    pub(crate) fn ends(mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < NEVER {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub(crate) fn get(&self, path: &str) -> String {
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
pub(crate) fn get(address: &str, path: &str) -> String {
    get_with(address, path, "")
}

/// The whole answer to a request with more headers.
pub(crate) fn get_with(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    String::from_utf8_lossy(&answer).into_owned()
}
