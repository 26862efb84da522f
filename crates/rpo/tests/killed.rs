//! No server is confined for good: a controller that is killed has its guardian put back what it
//! found, and where that one is killed too, the next controller does.

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The example `confine`, which cargo builds beside tests.
fn example() -> PathBuf {
    let own = std::env::current_exe().expect("this test");
    let built = own
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps");
    built.join("examples/confine")
}

/// A process that does nothing, and has a child that does nothing.
struct Server(Child);

impl Server {
    fn start() -> Server {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "sleep 300 & read end; kill $!"])
            .stdin(Stdio::piped());
        Server(shell.spawn().expect("a shell"))
    }

    fn cpus(&self) -> u32 {
        cpus(self.0.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// How many CPUs a process may run on.
fn cpus(pid: u32) -> u32 {
    let pid = Pid::from_raw(pid as i32).expect("a number");
    let set = sched_getaffinity(Some(pid)).expect("it runs");
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).count() as u32
}

fn confine(server: &Server, state: &Path) -> Child {
    let mut controller = Command::new(example());
    controller.arg(server.0.id().to_string()).arg(state);
    controller.spawn().expect("the example")
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// The children of a process.
fn children(of: u32) -> Vec<i32> {
    let listed = Command::new("ps")
        .args(["-o", "pid=", "--ppid", &of.to_string()])
        .output();
    let text = String::from_utf8(listed.expect("ps").stdout).expect("numbers");
    text.split_whitespace()
        .map(|pid| pid.parse().expect("a number"))
        .collect()
}

fn kill(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a number");
    kill_process(pid, Signal::KILL).expect("it runs");
}

#[test]
fn a_killed_controller_leaves_all_cpus() {
    let dir = TempDir::new().expect("a folder");
    let state = dir.path().join("state");
    let server = Server::start();
    let all = server.cpus();
    if all < 2 {
        eprintln!("not tried: one CPU");
        return;
    }
    for _ in 0..5 {
        let mut controller = confine(&server, &state);
        until("it is confined", || server.cpus() == 1);
        assert!(state.exists());
        // No second one may switch it meanwhile.
        let second = confine(&server, &state).wait().expect("it ends");
        assert!(!second.success());
        controller.kill().expect("it runs");
        controller.wait().expect("it ended");
        until("it has all its CPUs again", || server.cpus() == all);
        // The next round's controller may come while the guardian has not yet ended.
        until("nothing is left to put back", || !state.exists());
    }
}

#[test]
fn the_next_one_puts_back_what_no_guardian_could() {
    let dir = TempDir::new().expect("a folder");
    let state = dir.path().join("state");
    let server = Server::start();
    let all = server.cpus();
    if all < 2 {
        eprintln!("not tried: one CPU");
        return;
    }
    let mut controller = confine(&server, &state);
    until("it is confined", || server.cpus() == 1);
    // A guardian that is killed is started again; a controller that is stopped cannot.
    let first = children(controller.id());
    kill(first[0]);
    until("another guardian", || {
        let now = children(controller.id());
        now.len() == 1 && now != first
    });
    let pid = Pid::from_raw(controller.id() as i32).expect("a number");
    kill_process(pid, Signal::STOP).expect("it runs");
    kill(children(controller.id())[0]);
    controller.kill().expect("it runs");
    controller.wait().expect("it ended");
    sleep(Duration::from_millis(200));
    assert_eq!(server.cpus(), 1, "nobody was left to put it back");
    let mut next = confine(&server, &state);
    // It found all CPUs to be the server's, or it could not confine it to the first of them.
    // The file that the one before left says the same, so the next one has to be there, too.
    until("its own is what it found", || {
        if children(next.id()).is_empty() {
            return false;
        }
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        text.starts_with(&format!("tasks 0-{}\t", all - 1)) || all > 64
    });
    next.kill().expect("it runs");
    next.wait().expect("it ended");
    until("it has all its CPUs again", || server.cpus() == all);
}
