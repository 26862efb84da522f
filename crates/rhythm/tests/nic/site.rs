//! Three machines in a row: a borrower, a donor, and a server that the borrower has no route to.

use crate::net::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const NEVER: Duration = Duration::from_secs(60);

/// How a donor sends frames on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onward {
    Routed,
    Masqueraded,
    Bridged,
}

/// Waits until something is so.
pub(crate) fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// One of the machines.
pub(crate) struct Machine(pub(crate) Namespace);

impl Machine {
    /// What a program says in its network; none where it fails.
    pub(crate) fn ask(&self, program: &str, words: &str) -> Option<String> {
        let output = self.0.command(program).args(words.split(' ')).output();
        let output = output.expect("it can be run");
        let said = String::from_utf8(output.stdout).expect("a text");
        output.status.success().then_some(said)
    }

    pub(crate) fn has(&self, interface: &str) -> bool {
        self.ask("ip", &format!("link show {interface}")).is_some()
    }

    pub(crate) fn has_carrier(&self) -> bool {
        let link = self.ask("ip", "link show venice0").expect("it is there");
        !link.contains("NO-CARRIER")
    }

    fn link(&self, interface: &str) -> serde_json::Value {
        let links = self.ask("ip", &format!("-s -j link show {interface}"));
        let links = links.expect("it is there");
        let links: serde_json::Value = serde_json::from_str(&links).expect("JSON");
        links[0].clone()
    }

    pub(crate) fn dropped(&self, interface: &str) -> u64 {
        let dropped = self.link(interface)["stats64"]["tx"]["dropped"].as_u64();
        dropped.expect("a number")
    }

    /// An interface's address on its link.
    pub(crate) fn ethernet(&self, interface: &str) -> Vec<u8> {
        let link = self.link(interface);
        let text = link["address"].as_str().expect("it has one");
        let bytes = text.split(':').map(|part| u8::from_str_radix(part, 16));
        bytes.collect::<Result<_, _>>().expect("digits")
    }

    /// Writes a setting of its network.
    pub(crate) fn write(&self, path: &str, value: &str) {
        self.run(|| fs::write(path, value).expect("a setting"));
    }

    /// Does something on a thread that is in its network.
    pub(crate) fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let acting = scope.spawn(|| {
                self.0.enter();
                act()
            });
            acting.join().expect("it does not panic")
        })
    }
}

/// A command that runs, killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    said: String,
    /// Where it listens, if it does.
    pub(crate) address: String,
}

impl Running {
    fn start(command: Command) -> Running {
        let mut running = Running::begin(command);
        running.wait_for_line();
        running
    }

    /// Starts it, whatever it says.
    pub(crate) fn begin(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        Running {
            child: command.spawn().expect("a process"),
            said: String::new(),
            address: String::new(),
        }
    }

    /// Waits until it says what it has.
    pub(crate) fn wait_for_line(&mut self) {
        let output = self.child.stdout.take().expect("it is piped");
        let read = BufReader::new(output).read_line(&mut self.said);
        assert!(read.expect("a line") > 0, "{:?}", self.child.wait());
        if let Some((_, behind)) = self.said.split_once(" on ") {
            let address = behind.split(',').next().expect("an address");
            self.address = address.to_owned();
        }
    }

    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().expect("it ends")
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it ends");
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }

    /// The most memory that it ever had.
    pub(crate) fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = line.expect("it has memory").trim();
        let kib: u64 = words.trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All three.
pub(crate) struct Site {
    pub(crate) borrower: Machine,
    pub(crate) donor: Machine,
    pub(crate) server: Machine,
    folder: tempfile::TempDir,
}

impl Site {
    /// Machines that are joined by links of an MTU; none where this machine lets nobody make any.
    pub(crate) fn new(mtu: u32) -> Option<Site> {
        let device = "/dev/net/tun";
        if !fs::exists(device).is_ok_and(|exists| exists) {
            eprintln!("not tried: there is no {device} (mknod {device} c 10 200)");
            return None;
        }
        let mut machines = Vec::new();
        for _ in 0..3 {
            match Namespace::new() {
                Ok(namespace) => machines.push(Machine(namespace)),
                Err(error) => {
                    eprintln!("not tried: there can be no network namespace: {error}");
                    return None;
                }
            }
        }
        let [borrower, donor, server] = machines.try_into().ok().expect("there are three");
        for machine in [&borrower, &donor, &server] {
            machine.0.ip("link set lo up");
        }
        borrower.0.join("way", &donor.0, "way");
        donor.0.join("eth0", &server.0, "eth0");
        borrower.0.ip("address add 10.50.0.2/24 dev way");
        donor.0.ip("address add 10.50.0.1/24 dev way");
        server.0.ip("address add 192.168.77.2/24 dev eth0");
        for machine in [&donor, &server] {
            machine.0.ip(&format!("link set eth0 mtu {mtu}"));
        }
        let folder = tempfile::tempdir().expect("a folder");
        Some(Site {
            borrower,
            donor,
            server,
            folder,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn venice(&self, on: &Machine, command: &str) -> Command {
        let mut venice = on.0.command(env!("CARGO_BIN_EXE_rhythm"));
        venice
            .args(["venice", command, "--key-file"])
            .arg(self.path("key"));
        venice.env_remove("RHYTHM_LOG").stdin(Stdio::null());
        venice
    }

    /// Both ends.
    pub(crate) fn lend(&self, onward: Onward, offload: bool, socket: bool) -> (Running, Running) {
        let donor = self.donor_at("10.50.0.1:0", onward, offload, socket);
        let mut borrow = self.venice(&self.borrower, "nic");
        match onward {
            Onward::Bridged => borrow.args(["--address", "192.168.77.9/24"]),
            _ => borrow.args(["--address", "10.9.0.2/24", "--route", "192.168.77.0/24"]),
        };
        match socket {
            true => borrow.arg("--socket").arg(self.path("socket")),
            false => borrow.args(["--donor", &donor.address, "--plain-network"]),
        };
        borrow.args((!offload).then_some("--no-offload"));
        let borrower = Running::start(borrow);
        (donor, borrower)
    }

    /// A donor that listens there.
    pub(crate) fn donor_at(
        &self,
        listen: &str,
        onward: Onward,
        offload: bool,
        socket: bool,
    ) -> Running {
        let ip = |words: &str| {
            // It is so already, perhaps.
            let _ = self.donor.ask("ip", words);
        };
        let mut lend = self.venice(&self.donor, "lend-nic");
        match onward {
            Onward::Bridged => {
                ip("link add br0 type bridge");
                ip("link set eth0 master br0");
                ip("link set br0 up");
                lend.args(["--bridge", "br0"]);
            }
            Onward::Routed | Onward::Masqueraded => {
                ip("address add 192.168.77.1/24 dev eth0");
                self.donor
                    .write("/proc/sys/net/ipv4/conf/eth0/forwarding", "1");
                lend.args(["--interface", "eth0", "--address", "10.9.0.1/24"]);
                if onward == Onward::Masqueraded {
                    lend.arg("--masquerade");
                } else {
                    self.server.0.ip("route add 10.9.0.0/24 via 192.168.77.1");
                }
            }
        }
        if socket {
            lend.arg("--socket").arg(self.path("socket"));
        }
        lend.args(["--listen", listen, "--plain-network"]);
        lend.args((!offload).then_some("--no-offload"));
        Running::start(lend)
    }

    /// A borrower of a donor that routes.
    pub(crate) fn borrow(&self, donor: &Running, offload: bool) -> Running {
        let mut borrow = self.venice(&self.borrower, "nic");
        borrow.args(["--address", "10.9.0.2/24", "--route", "192.168.77.0/24"]);
        borrow.args(["--donor", &donor.address, "--plain-network"]);
        borrow.args((!offload).then_some("--no-offload"));
        Running::start(borrow)
    }

    /// What a borrower says that cannot be.
    pub(crate) fn borrow_fails(&self, donor: &Running, args: &[&str]) -> String {
        let mut borrow = self.venice(&self.borrower, "nic");
        borrow.args(["--donor", &donor.address, "--plain-network"]);
        failing(borrow.args(args))
    }

    /// A borrower of whoever listens there, and does not have to work.
    pub(crate) fn borrow_of(&self, address: &str) -> Command {
        let mut borrow = self.venice(&self.borrower, "nic");
        borrow.args([
            "--donor",
            address,
            "--plain-network",
            "--address",
            "10.9.0.2/24",
        ]);
        borrow.stderr(Stdio::piped());
        borrow
    }

    /// The key that both have, once there is a donor.
    pub(crate) fn key(&self) -> [u8; 32] {
        let text = fs::read_to_string(self.path("key")).expect("a key");
        let mut key = [0; 32];
        for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).expect("digits");
        }
        key
    }

    /// What a donor says that cannot be.
    pub(crate) fn lend_fails(&self, args: &[&str]) -> String {
        let mut lend = self.venice(&self.donor, "lend-nic");
        failing(lend.args(["--listen", "127.0.0.1:0"]).args(args))
    }

    /// What is said to who has no capabilities.
    pub(crate) fn unprivileged_fails(&self) -> String {
        let mut command = self.borrower.0.command("setpriv");
        command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
        command.args([env!("CARGO_BIN_EXE_rhythm"), "venice", "nic", "--key-file"]);
        failing(command.arg(self.path("key")).args(["--tap", "other"]))
    }

    /// Rules of address translation at the donor.
    pub(crate) fn rules(&self) -> usize {
        let rules = self.donor.ask("iptables", "-t nat -S POSTROUTING");
        rules
            .expect("they can be read")
            .matches("MASQUERADE")
            .count()
    }
}

/// Runs what fails; what it says.
fn failing(command: &mut Command) -> String {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let mut said = String::new();
    let mut log = child.stderr.take().expect("it is piped");
    log.read_to_string(&mut said).expect("a text");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "{said}");
    said
}
