//! A program's pages, by way of a donor that speaks TLS.
//!
//! Answering page faults needs root; where it is refused, the test says so and passes.

use super::cluster::Agent;
use super::relay::Relay;
use super::{Monitor, until};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

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

/// It fills its memory and says so; then it writes and checks it, a line of its input at a time,
/// and says which that was; at the end of its input it checks all.
const BUSY: &str = "
import sys
pattern = sys.argv[1].encode()
unit = (pattern * (4096 // len(pattern) + 1))[:4096]
memory = bytearray(unit * 6144)
turns = [0] * 6144
def check(page):
    mark = turns[page].to_bytes(4, 'little')
    assert memory[page * 4096:page * 4096 + 4096] == (unit if mark == bytes(4) else mark + unit[4:])
print('ready', flush=True)
for turn, line in enumerate(sys.stdin, 1):
    for page in range(turn % 3, 6144, 3):
        check(page)
        turns[page] = turn
        memory[page * 4096:page * 4096 + 4] = turn.to_bytes(4, 'little')
    print(line.strip(), flush=True)
for page in range(6144):
    check(page)
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
fn donor(identity: Option<PathBuf>) -> (Ended, SocketAddr) {
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

/// [`BUSY`], with memory of these donors.
struct Busy {
    process: Ended,
    said: BufReader<std::process::ChildStdout>,
}

impl Busy {
    /// Starts it, and waits until its memory is filled; what it says where it does not.
    fn start(donors: &str, identity: Option<PathBuf>) -> Result<Busy, String> {
        let mut run = borrow();
        let (local, remote) = ("4194304", "67108864");
        run.args(["run", donors, local, remote, "/usr/bin/python3", "-c"]);
        run.args([BUSY, PATTERN]);
        run.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = identity {
            run.env("IDENTITY", folder);
        }
        let mut process = Ended(run.spawn().expect("a process"));
        let output = process.0.stdout.take().expect("it is piped");
        let said = BufReader::new(output);
        let mut busy = Busy { process, said };
        match busy.line().as_str() {
            "ready" => Ok(busy),
            _ => Err(busy.errors()),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("text");
        line.trim().to_owned()
    }

    fn errors(&mut self) -> String {
        let mut said = String::new();
        let errors = self.process.0.stderr.as_mut().expect("it is piped");
        errors.read_to_string(&mut said).expect("text");
        said
    }

    /// Has it write and check a third of its memory.
    fn turn(&mut self, name: &str) {
        use std::io::Write;
        let input = self.process.0.stdin.as_mut().expect("it is piped");
        writeln!(input, "{name}").expect("it reads");
        let said = self.line();
        assert_eq!(said, name, "{}", self.errors());
    }

    /// Has it end, and check all its memory before: what is said then.
    fn end(mut self) -> String {
        drop(self.process.0.stdin.take());
        let whole = self.line();
        let said = self.errors();
        assert_eq!(whole, "whole", "{said}");
        let status = self.process.0.wait().expect("it is ours");
        assert!(status.success(), "{said}");
        said
    }
}

/// Whether a program was not run for what this machine lacks.
fn is_skipped(said: &str) -> bool {
    let skipped = said.contains("userfaultfd is refused") || said.contains("there is no program");
    if skipped {
        eprintln!("SKIPPED: {said}");
    }
    skipped
}

#[test]
fn a_mirrored_program_goes_on_in_tls_when_donors_die() {
    let monitor = Monitor::start();
    let names = ["right", "far", "spare"];
    let folder = |name: &str| {
        monitor.join(name);
        monitor.identity_folder(name)
    };
    let own = folder("left");
    let donors = names.map(|name| donor(Some(folder(name))));
    let [first, second, third] = donors;
    let relays = [first.1, second.1, third.1].map(Relay::to);
    let named: Vec<String> = names
        .iter()
        .zip(&relays)
        .map(|(name, relay)| format!("{name}@{}", relay.address))
        .collect();
    let started = Busy::start(&named.join(","), Some(own));
    let mut busy = match started {
        Err(said) if is_skipped(&said) => return,
        started => started.expect("it is ready"),
    };
    busy.turn("before");
    drop(first);
    busy.turn("without the first");
    // Another comes in its place, and has what the second has.
    let nothing = b"no bytes that go by";
    let bytes = || relays[2].heard(nothing).0;
    until(|| match bytes() > 16 << 20 {
        true => Ok(()),
        false => Err(format!("{} bytes to the third", bytes())),
    });
    let mut last = 0;
    while bytes() > last {
        last = bytes();
        thread::sleep(Duration::from_secs(1));
    }
    drop(second);
    busy.turn("without the second");
    let said = busy.end();
    assert!(said.contains("2 donors lost without harm"), "{said}");
    for (name, relay) in names.iter().zip(&relays) {
        let (bytes, has) = relay.heard(PATTERN.as_bytes());
        assert!(bytes > 16 << 20 && !has, "{name}: {bytes}, {has}");
    }
}

#[test]
fn each_of_two_donors_must_be_who_it_is_said_to_be() {
    let monitor = Monitor::start();
    let folder = |name: &str| {
        monitor.join(name);
        monitor.identity_folder(name)
    };
    let own = folder("left");
    let (first, second) = (donor(Some(folder("right"))), donor(Some(folder("far"))));
    for (a, b, wanted) in [("right", "right", "right"), ("far", "far", "far")] {
        let donors = format!("{a}@{},{b}@{}", first.1, second.1);
        let said = Busy::start(&donors, Some(own.clone())).map(drop);
        let said = said.expect_err("one is another");
        if is_skipped(&said) {
            return;
        }
        let wanted = format!("node {wanted} was to answer there");
        assert!(said.contains(&wanted), "{said}");
    }
}

#[test]
fn an_agent_s_two_donors_are_reached_in_tls_each_by_its_name() {
    let monitor = Monitor::start();
    let mut lenders = vec![
        Agent::of(&monitor, "right", true),
        Agent::of(&monitor, "far", true),
    ];
    let left = Agent::of(&monitor, "left", false);
    for agent in lenders.iter().chain([&left]) {
        agent.tells("/metrics", "rhythm_venice_agent_registered{} 1");
    }
    let donors = format!("mirror:{}", left.socket().display());
    // Of what the monitor knows: a heartbeat later both have told what they lend.
    thread::sleep(Duration::from_millis(500));
    let mut busy = match Busy::start(&donors, None) {
        Err(said) if is_skipped(&said) => return,
        started => started.expect("it is ready"),
    };
    busy.turn("before");
    drop(lenders.pop());
    busy.turn("without the second");
    let said = busy.end();
    assert!(said.contains("1 donors lost without harm"), "{said}");
}
