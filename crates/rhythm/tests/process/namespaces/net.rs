//! Network namespaces of the test's own: machines, as far as their networks go.
//!
//! Each is held by a process that ends when its input does, so that whatever becomes of the test,
//! nothing is left: no name, no interface (they go with the namespace), no process.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing takes as long.
const NEVER: Duration = Duration::from_secs(60);

/// One of them.
pub(crate) struct Namespace {
    holder: Child,
}

impl Namespace {
    /// A new one, with nothing but a loopback interface; or why there can be none here.
    pub(crate) fn new() -> Result<Namespace, String> {
        let mut holder = Command::new("unshare");
        // What it is told is nothing, and the end of that comes with the test's.
        holder.args(["--net", "cat"]).stdin(Stdio::piped());
        holder.stdout(Stdio::null()).stderr(Stdio::piped());
        let holder = holder.spawn();
        let holder = holder.map_err(|error| format!("unshare cannot be run: {error}"))?;
        let mut new = Namespace { holder };
        let here = fs::read_link("/proc/thread-self/ns/net").map_err(|error| error.to_string())?;
        let start = Instant::now();
        while fs::read_link(new.path()).is_ok_and(|there| there == here) {
            assert!(start.elapsed() < NEVER, "unshare neither does it nor ends");
            thread::sleep(Duration::from_millis(1));
            if new.holder.try_wait().expect("it is ours").is_some() {
                return Err(new.said());
            }
        }
        match new.holder.try_wait().expect("it is ours") {
            Some(_) => Err(new.said()),
            None => Ok(new),
        }
    }

    fn said(&mut self) -> String {
        let said = self.holder.stderr.take().map(std::io::read_to_string);
        said.and_then(Result::ok)
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.id()))
    }

    /// A command that runs in it, and is killed when the thread ends that starts it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display()));
        command.args(["setpriv", "--pdeathsig", "KILL", "--", program]);
        command
    }

    /// From now on the calling thread, and those that it starts, are in it.
    pub(crate) fn enter(&self) {
        let there = File::open(self.path()).expect("the holder is there");
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(there.as_fd(), network).expect("who made it may enter it");
    }

    /// Runs `ip` in it, with these words.
    pub(crate) fn ip(&self, words: &str) {
        let output = self.command("ip").args(words.split(' ')).output();
        let output = output.expect("nsenter, setpriv and ip can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {words}: {said}");
    }

    /// Joins an interface in it to one in another.
    pub(crate) fn join(&self, mine: &str, other: &Namespace, theirs: &str) {
        let there = other.holder.id();
        self.ip(&format!(
            "link add {mine} type veth peer name {theirs} netns {there}"
        ));
        self.ip(&format!("link set {mine} up"));
        other.ip(&format!("link set {theirs} up"));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
