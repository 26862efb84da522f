//! A program's pages, by way of a donor that speaks TLS.
//!
//! Answering page faults needs root; where it is refused, the test says so and passes.

use super::Monitor;
use super::relay::Relay;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// What its pages have, over and over, and what it does with them.
const PATTERN: &str = "a page that nobody on the way is to read";
const PROGRAM: &str = "
import sys
pattern = sys.argv[1].encode()
unit = pattern * (4096 // len(pattern) + 1)
memory = bytearray(unit[:4096] * 6144)
for turn in range(2):
    for page in range(0, len(memory), 4096):
        assert memory[page:page + 4096] == unit[:4096], page
print('whole')
";

/// The example `borrow`, which cargo builds beside tests.
fn borrow() -> Command {
    let test = std::env::current_exe().expect("this test's path");
    let built = test.ancestors().nth(2).expect("deps/ lies in a folder");
    Command::new(built.join("examples/borrow"))
}

/// A process that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A donor, in TLS where it has an identity, and where it listens.
fn donor(identity: Option<PathBuf>) -> (Ended, std::net::SocketAddr) {
    let mut command = borrow();
    command.args(["lend", "67108864"]).stdout(Stdio::piped());
    if let Some(folder) = identity {
        command.env("IDENTITY", folder);
    }
    let mut child = command.spawn().expect("a process");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is piped");
    let read = BufReader::new(output).read_line(&mut line);
    read.expect("it says where it lends");
    (Ended(child), line.trim().parse().expect("an address"))
}

#[test]
fn a_program_s_pages_are_not_read_on_the_way() {
    let monitor = Monitor::start();
    monitor.join("left");
    monitor.join("right");
    for is_sealed in [true, false] {
        let folder = |name: &str| is_sealed.then(|| monitor.identity_folder(name));
        let (_donor, address) = donor(folder("right"));
        let relay = Relay::to(address);
        let named = match is_sealed {
            true => format!("right@{}", relay.address),
            false => relay.address.to_string(),
        };
        let mut run = borrow();
        run.args([
            "run",
            &named,
            "4194304",
            "67108864",
            "/usr/bin/python3",
            "-c",
            PROGRAM,
            PATTERN,
        ]);
        if let Some(folder) = folder("left") {
            run.env("IDENTITY", folder);
        }
        let ended = run.output().expect("a process");
        let said = String::from_utf8_lossy(&ended.stderr);
        if said.contains("userfaultfd is refused") || said.contains("there is no program") {
            eprintln!("SKIPPED: {said}");
            return;
        }
        assert!(
            ended.status.success() && ended.stdout == b"whole\n",
            "{said}"
        );
        let (bytes, has) = relay.heard(PATTERN.as_bytes());
        assert!(bytes > 24 << 20, "{bytes}: pages went that way");
        assert_eq!(has, !is_sealed, "read on the way");
    }
}
