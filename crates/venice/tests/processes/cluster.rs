//! Processes of a cluster, each of which ends with what stands for it here.

use super::parts::PART;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long something may take that is to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A process, killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    /// What it said when it was there.
    pub(crate) said: String,
}

impl Process {
    pub(crate) fn start(args: &[&str]) -> Process {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .arg(PART)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut said = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut said)
            .expect("it says that it is there");
        let said = said.trim().to_owned();
        assert!(!said.is_empty(), "{args:?} ended at its start");
        Process { child, said }
    }

    /// Kills it, as by `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is gone");
    }

    /// Stops it, or has it go on.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Has it end by itself, and waits until it has.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(mut self) {
        self.signal(rustix::process::Signal::TERM);
        // Waiting would close it, and that ends a part, too.
        let _input = self.child.stdin.take();
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A monitor, and agents a, b and c.
pub(crate) struct Cluster {
    pub(crate) folder: TempDir,
    pub(crate) monitor: Option<Process>,
    pub(crate) agents: Vec<Option<Process>>,
    address: String,
}

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let folder = tempfile::tempdir().expect("a folder");
        let mut cluster = Cluster {
            folder,
            monitor: None,
            agents: Vec::new(),
            address: "127.0.0.1:0".to_owned(),
        };
        cluster.write_key("key", "a secret of the test");
        cluster.start_monitor();
        for index in 0..NAMES.len() {
            cluster.agents.push(None);
            cluster.start_agent(index, "key");
        }
        cluster.until("all agents are there", |status| {
            let nodes = list(status, "rrt");
            nodes.len() == 3 && nodes.iter().all(|node| node["idle"] == super::parts::SIZE)
        });
        cluster
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn write_key(&self, name: &str, secret: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, secret).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
    }

    /// Where an agent's borrowers come to.
    pub(crate) fn socket(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.sock", NAMES[index]))
    }

    /// Starts the monitor, at the place where it was before.
    pub(crate) fn start_monitor(&mut self) {
        let (state, key) = (self.path("state"), self.path("key"));
        let monitor = Process::start(&["monitor", &self.address, &state, &key]);
        let address = monitor.said.split(' ').next().expect("an address");
        self.address = address.to_owned();
        self.monitor = Some(monitor);
    }

    pub(crate) fn start_agent(&mut self, index: usize, key: &str) {
        let socket = self.socket(index).display().to_string();
        let agent = [
            "agent",
            NAMES[index],
            &self.address,
            &socket,
            &self.path(key),
        ];
        self.agents[index] = Some(Process::start(&agent));
    }

    pub(crate) fn borrower(&self, index: usize, bytes: u64) -> Process {
        let socket = self.socket(index).display().to_string();
        Process::start(&["borrower", &socket, &bytes.to_string()])
    }

    /// Where agents reach the monitor.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What the monitor tells of itself.
    pub(crate) fn status(&self) -> Value {
        let monitor = self.monitor.as_ref().expect("it runs");
        let admin = monitor.said.split(' ').nth(1).expect("an address");
        serde_json::from_str(&get(admin, "/status")).expect("JSON")
    }

    /// What an agent tells of itself.
    pub(crate) fn agent_status(&self, index: usize) -> Value {
        let agent = self.agents[index].as_ref().expect("it runs");
        serde_json::from_str(&get(&agent.said, "/status")).expect("JSON")
    }

    /// Waits until the monitor's tables are so.
    pub(crate) fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let status = self.status();
            if is(&status) {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {status:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until nothing is lent, and all nodes know it.
    pub(crate) fn until_all_is_back(&self) {
        self.until("all is back", |status| {
            let idle = list(status, "rrt")
                .iter()
                .all(|node| node["idle"] == super::parts::SIZE);
            list(status, "rat").is_empty() && idle
        });
        for index in 0..self.agents.len() {
            if self.agents[index].is_some() {
                let status = self.agent_status(index);
                assert_eq!(
                    (list(&status, "lent"), list(&status, "borrowed")),
                    (&[][..], &[][..])
                );
            }
        }
    }
}

/// How many are killed or stopped, unless it is said by `RHYTHM_KILLS`.
pub(crate) fn kills(otherwise: usize) -> usize {
    let kills = std::env::var("RHYTHM_KILLS").ok();
    kills.map_or(otherwise, |kills| kills.parse().expect("a number"))
}

/// The rows of a table.
pub(crate) fn list<'a>(status: &'a Value, key: &str) -> &'a [Value] {
    status[key].as_array().expect("a list")
}

/// What an admin listener says at a path.
pub(crate) fn get(admin: &str, path: &str) -> String {
    let mut to = TcpStream::connect(admin).expect("an admin listener");
    to.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    to.write_all(head.as_bytes()).expect("it takes a request");
    let mut answer = String::new();
    to.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    body.to_owned()
}
