//! An unmodified redis-server with half of its memory at a donor, beside a plain one: the same
//! commands leave the same in both, also in what they save while they are written to.

use crate::{Ended, MIB, NEVER, donor, is_possible, paged};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const KEYS: u32 = 40_000;

struct Redis {
    process: Ended,
    connection: BufReader<UnixStream>,
}

impl Redis {
    fn start(mut command: Command, folder: &Path, name: &str) -> Self {
        let socket = folder.join(format!("{name}.sock"));
        command
            .args(["--port", "0", "--save", "", "--enable-debug-command", "yes"])
            .args(["--dbfilename", &format!("{name}.rdb"), "--dir"])
            .arg(folder)
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null());
        let process = Ended(command.spawn().expect("redis-server"));
        let start = Instant::now();
        let connection = loop {
            match UnixStream::connect(&socket) {
                Ok(connection) => break connection,
                Err(error) => assert!(start.elapsed() < NEVER, "{name}: {error}"),
            }
            thread::sleep(Duration::from_millis(20));
        };
        connection.set_read_timeout(Some(NEVER)).expect("a socket");
        Self {
            process,
            connection: BufReader::new(connection),
        }
    }

    /// Asks something; the answer's text.
    fn ask(&mut self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        let sent = self.connection.get_mut().write_all(command.as_bytes());
        sent.expect("redis is there");
        let mut answer = String::new();
        let read = self.connection.read_line(&mut answer);
        assert!(read.expect("an answer") > 0, "redis closed the connection");
        if let Some(length) = answer.strip_prefix('$') {
            let length: usize = length.trim().parse().expect("a length");
            let mut text = String::new();
            // A line end follows the text.
            while text.len() < length + 2 {
                self.connection.read_line(&mut text).expect("text");
            }
            return text;
        }
        answer
    }

    fn run(&mut self, script: &str) {
        let answer = self.ask(&["eval", script, "0"]);
        assert_eq!(answer.trim(), ":1", "{script}");
    }

    /// Ends it; nobody answers at its socket then.
    fn end(mut self) {
        let sent = self.connection.get_mut().write_all(b"shutdown nosave\r\n");
        sent.expect("redis is there");
        assert!(self.process.wait().success());
    }

    fn digest(&mut self) -> String {
        self.ask(&["debug", "digest"])
    }

    fn save_while_it_is_written(&mut self) {
        assert!(self.ask(&["bgsave"]).starts_with("+Background"));
        self.run(&format!(
            "for i = 1, {KEYS}, 2 do redis.call('append', 'k' .. i, i) end return 1"
        ));
        let start = Instant::now();
        while self
            .ask(&["info", "persistence"])
            .contains("rdb_bgsave_in_progress:1")
        {
            assert!(start.elapsed() < NEVER, "it saves on and on");
            thread::sleep(Duration::from_millis(50));
        }
        assert!(
            self.ask(&["info", "persistence"])
                .contains("rdb_last_bgsave_status:ok")
        );
    }
}

fn is_installed() -> bool {
    let is_installed = Command::new("redis-server")
        .arg("--version")
        .output()
        .is_ok();
    if !is_installed {
        eprintln!("SKIPPED: redis-server is not installed");
    }
    is_installed
}

#[test]
fn redis_has_all_when_one_of_its_two_donors_is_killed_while_it_is_written() {
    if !is_installed() || !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ((first, one), (_second, other)) = (donor(256 * MIB), donor(256 * MIB));
    let donors = format!("{one},{other}");
    let server = Path::new("redis-server");
    let mut both = [
        Redis::start(
            paged(&donors, 12 * MIB, 128 * MIB, server, &[]),
            folder.path(),
            "mirrored",
        ),
        Redis::start(Command::new("redis-server"), folder.path(), "plain"),
    ];
    let fill = |text: &str| {
        format!(
            "for i = 1, {KEYS} do redis.call('set', 'k' .. i, string.rep(i .. '{text}', 60)) end \
             return 1"
        )
    };
    both.iter_mut().for_each(|redis| redis.run(&fill("-")));
    let [mirrored, plain] = &mut both;
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            first.kill();
        });
        mirrored.run(&fill("+"));
        mirrored.save_while_it_is_written();
    });
    plain.run(&fill("+"));
    plain.save_while_it_is_written();
    assert_eq!(mirrored.digest(), plain.digest());
    both.into_iter().for_each(Redis::end);
}

#[test]
fn redis_has_and_saves_what_a_plain_one_does() {
    if !is_installed() || !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (_donor, address) = donor(256 * MIB);
    let paged = paged(
        &address,
        12 * MIB,
        128 * MIB,
        Path::new("redis-server"),
        &[],
    );
    let mut both = [
        Redis::start(paged, folder.path(), "paged"),
        Redis::start(Command::new("redis-server"), folder.path(), "plain"),
    ];
    let script = format!(
        "for i = 1, {KEYS} do redis.call('set', 'k' .. i, string.rep(i .. '-', 60)) end return 1"
    );
    both.iter_mut().for_each(|redis| redis.run(&script));
    let [filled, plain] = both.each_mut().map(Redis::digest);
    assert_eq!(filled, plain);
    both.iter_mut().for_each(Redis::save_while_it_is_written);
    let [written, plain] = both.each_mut().map(Redis::digest);
    assert_eq!(written, plain);
    assert_ne!(written, filled);
    // What each saved is what it had when it began to.
    both.into_iter().for_each(Redis::end);
    for name in ["paged", "plain"] {
        let mut again = Redis::start(Command::new("redis-server"), folder.path(), name);
        let start = Instant::now();
        while again.ask(&["info", "persistence"]).contains("\nloading:1") {
            assert!(start.elapsed() < NEVER, "it loads on and on");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(again.digest(), filled, "what the {name} one saved");
    }
}
