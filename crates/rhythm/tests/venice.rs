//! `rhythm venice`: the commands of monitor and agent as processes, and what they refuse.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const NEVER: Duration = Duration::from_secs(60);

fn venice(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.arg("venice").args(args).env_remove("RHYTHM_LOG");
    command
}

/// A server, killed when it is dropped.
struct Running(Child);

impl Running {
    /// Starts it, and gives the addresses that its first two lines name.
    fn start(args: &[&str]) -> (Running, Vec<String>) {
        let mut child = venice(args)
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let log = child.stderr.take().expect("it is piped");
        let running = Running(child);
        let mut lines = BufReader::new(log).lines();
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let line = lines.next().expect("it says where it is").expect("a text");
            let mut words = line.split(' ');
            let word = words.find_map(|word| {
                word.strip_prefix("address=")
                    .or_else(|| word.strip_prefix("socket="))
            });
            addresses.extend(word.map(str::to_owned));
        }
        // Whatever else it says is read.
        thread::spawn(move || lines.for_each(drop));
        (running, addresses)
    }

    /// Asks it to end, which it does well.
    fn terminate(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn key(folder: &Path, mode: u32) -> String {
    let path = folder.join(format!("key-{mode:o}"));
    fs::write(&path, "a secret of the test\n").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
    path.display().to_string()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn status(admin: &str, flags: &[&str]) -> String {
    let output = venice(&["status", admin])
        .args(flags)
        .output()
        .expect("a process");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a text")
}

#[test]
fn an_agent_is_in_the_tables_of_its_monitor() {
    let folder = folder();
    let key = key(folder.path(), 0o600);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let free = "127.0.0.1:0";
    let (state, socket) = (path("state"), path("agent.sock"));
    let monitor = [
        "monitor",
        "--listen",
        free,
        "--admin",
        free,
        "--key-file",
        &key,
    ];
    let (monitor, at) = Running::start(&[&monitor[..], &["--state", &state]].concat());
    let agent = [
        "agent",
        "--monitor",
        &at[0],
        "--admin",
        free,
        "--key-file",
        &key,
    ];
    let lends = [
        "--lend",
        "1M",
        "--keep-free",
        "0",
        "--lend-accelerators",
        "aes=2",
    ];
    let agent = [
        &agent[..],
        &["--name", "left", "--place", "hall1/rack2"],
        &lends,
    ]
    .concat();
    let (agent, of_agent) = Running::start(&[&agent[..], &["--socket", &socket]].concat());
    assert_eq!(of_agent[0], socket);
    let start = Instant::now();
    let text = loop {
        let text = status(&at[1], &[]);
        if text.contains("left") {
            break text;
        }
        assert!(start.elapsed() < NEVER, "{text}");
        thread::sleep(Duration::from_millis(20));
    };
    for part in [
        "Resources (RRT)",
        "Loans (RAT)",
        "Links (TST)",
        "hall1/rack2",
        "CRMA",
        "aes",
        "QPair",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&status(&at[1], &["--json"])).expect("JSON");
    assert_eq!(json["nodes"][0]["node"], "left");
    assert_eq!(json["rat"], serde_json::json!([]));
    let rrt = json["rrt"].as_array().expect("a table");
    let aes = rrt.iter().find(|row| row["resource"] == "aes");
    assert_eq!(aes.expect("it is lent")["idle"], 32);
    // What is at another port of theirs is none, and it is said what to name.
    let other = venice(&["status", &at[0]]).output().expect("a process");
    assert!(said(&other).contains("name the --admin"), "{other:?}");
    let text = status(&of_agent[1], &[]);
    assert!(text.contains("knows this node"), "{text}");
    agent.terminate();
    assert!(!Path::new(&socket).exists());
    monitor.terminate();
    let nobody = venice(&["status", &at[1]]).output().expect("a process");
    assert!(said(&nobody).contains("nobody listens"), "{nobody:?}");
}

/// Waits until a status says this.
fn until(admin: &str, is: impl Fn(&serde_json::Value) -> bool) {
    let start = Instant::now();
    loop {
        let told = status(admin, &["--json"]);
        if is(&serde_json::from_str(&told).expect("JSON")) {
            return;
        }
        assert!(start.elapsed() < NEVER, "{told}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Fills three times as much memory as it has here, and sees that it is what it was.
const PROGRAM: &str = "
import time, sys
pages = [bytearray(bytes([i % 251]) * 4096 * 64) for i in range(192)]
assert all(page[0] == i % 251 == page[-1] for i, page in enumerate(pages))
print('filled', flush=True)
sys.stdin.readline()
assert all(page.count(i % 251) == len(page) for i, page in enumerate(pages))
print('whole', flush=True)
";

/// What is told at a path of an admin listener.
fn told(address: &str, path: &str) -> String {
    let mut to = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
    to.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())
        .expect("it takes a request");
    let mut told = String::new();
    to.read_to_string(&mut told).expect("an answer");
    told
}

/// What `run` shows to browsers, once its figures are those of now: memory that is at a donor, and
/// that donor.
fn sees_a_board(address: &str) {
    assert!(told(address, "/").contains("/dashboard/dashboard.js"));
    let start = Instant::now();
    loop {
        let told = told(address, "/dashboard.json");
        let (_, json) = told.split_once("\r\n\r\n").expect(&told);
        let board: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(board["server"], "rhythm venice run");
        let part = |panel: usize, part: usize| &board["panels"][panel]["parts"][part];
        let borrowed = &part(0, 0)["figures"][0]["value"]["share"];
        let donor = &part(3, 1)["table"]["rows"][0][1]["state"];
        if borrowed[0].as_f64() > Some(0.0) && *donor == serde_json::json!([true, "has all"]) {
            return;
        }
        assert!(start.elapsed() < NEVER, "{board}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until pages have left, by what `run` tells over HTTP where its log says.
fn wait_for_evictions(log: ChildStderr) {
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let said = lines.find(|line| line.contains("figures are told"));
    let said = said.expect("it says where");
    let (_, address) = said.split_once("address=").expect("an address");
    // Whatever else it says is read.
    thread::spawn(move || lines.for_each(drop));
    let start = Instant::now();
    loop {
        let told = told(address, "/metrics");
        let evictions = told
            .lines()
            .find(|line| line.starts_with("rhythm_venice_run_evictions_total"));
        let (_, evictions) = evictions
            .and_then(|line| line.split_once(' '))
            .expect(&told);
        if evictions.parse::<u64>().expect("a number") > 0 {
            return sees_a_board(address);
        }
        assert!(start.elapsed() < NEVER, "{told}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_program_borrows_of_its_agent_what_another_machine_lends() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: programs with memory of others need root");
        return;
    }
    let folder = folder();
    let key = key(folder.path(), 0o600);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let free = "127.0.0.1:0";
    let state = path("state");
    let both = ["--admin", free, "--key-file", &key];
    let monitor = ["monitor", "--listen", free, "--state", &state];
    let (monitor, at) = Running::start(&[&monitor[..], &both].concat());
    let [left, right] = ["left.sock", "right.sock"].map(path);
    let agent = |name, socket, more: &[&str]| {
        let args = [
            "agent",
            "--monitor",
            &at[0],
            "--name",
            name,
            "--socket",
            socket,
        ];
        Running::start(&[&args[..], &both, more].concat())
    };
    let (borrows, _) = agent("left", &left, &[]);
    let (lends, _) = agent("right", &right, &["--lend", "128M", "--keep-free", "64M"]);
    until(&at[1], |told| {
        told["nodes"].as_array().is_some_and(|all| all.len() == 2)
    });
    let is_idle = |told: &serde_json::Value| {
        let all = told["rrt"].as_array();
        all.is_some_and(|all| all.iter().any(|of| of["idle"] == 128 << 20))
    };
    until(&at[1], is_idle);
    let run = |remote: &str| {
        let mut command = venice(&["run", "--agent", &left, "--local", "16M", "--admin", free]);
        // No script that executes another: that one would have its memory here.
        command.args(["--remote", remote, "--", "/usr/bin/python3", "-c", PROGRAM]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("a process")
    };
    // More than anybody has.
    let refused = run("1G").wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("nothing is lent"), "{told}");
    for is_donor_lost in [false, true] {
        let mut program = run("96M");
        let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("a text"), "filled");
        until(&at[1], |told| {
            told["rat"].as_array().is_some_and(|all| all.len() == 1)
        });
        if is_donor_lost {
            // What is lent ends with the agent's process.
            kill_process(Pid::from_child(&lends.0), Signal::KILL).expect("it runs");
            let ended = program.wait_with_output().expect("it ends");
            let told = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(135), "{told}");
            assert!(told.contains("is lost"), "{told}");
            assert!(lines.next().is_none());
        } else {
            wait_for_evictions(program.stderr.take().expect("it is piped"));
            drop(program.stdin.take());
            assert_eq!(lines.next().expect("a line").expect("a text"), "whole");
            assert!(program.wait().expect("it ends").success());
            until(&at[1], is_idle);
        }
    }
    borrows.terminate();
    monitor.terminate();
}

/// An address of this machine that others reach, if it has one.
fn address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn machines_join_by_tokens_and_lend_in_tls() {
    let Some(address) = address().filter(|_| rustix::process::geteuid().is_root()) else {
        eprintln!("SKIPPED: lending between machines needs root, and an address that is reached");
        return;
    };
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (state, far) = (path("state"), format!("{address}:0"));
    let ran = |args: &[&str]| {
        let output = venice(args).output().expect("a process");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {told}");
        String::from_utf8(output.stdout).expect("a text")
    };
    // Beyond this machine, and no --plain-network is needed.
    let monitor = [
        "monitor",
        "--listen",
        &far,
        "--state",
        &state,
        "--admin",
        "127.0.0.1:0",
    ];
    let (monitor, at) = Running::start(&monitor);
    let agent = |name: &str, more: &[&str]| {
        let (identity, socket) = (path(name), path(&format!("{name}.sock")));
        let token = ran(&["token", "--state", &state, "--name", name]);
        let token = token.trim();
        let to = ["--monitor", &at[0], "--identity", &identity];
        let join = [&["join"][..], &to, &["--token", token]].concat();
        let joined = ran(&join);
        assert!(joined.contains(&format!("node {name}")), "{joined}");
        let mut again = venice(&["join", "--monitor", &at[0], "--token", token]);
        let again = again.args(["--identity", &path("again")]).output();
        let again = said(&again.expect("a process"));
        assert!(again.contains("was used"), "{again}");
        let admin = ["--socket", &socket, "--admin", "127.0.0.1:0"];
        Running::start(&[&["agent"][..], &to, &admin, more].concat())
    };
    let (borrows, _) = agent("left", &[]);
    let more = ["--lend", "128M", "--keep-free", "64M", "--donor", &far];
    let (lends, _) = agent("right", &more);
    until(&at[1], |told| {
        let all = told["rrt"].as_array();
        all.is_some_and(|all| all.iter().any(|of| of["idle"] == 128 << 20))
    });
    let mut program = venice(&["run", "--agent", &path("left.sock"), "--local", "16M"]);
    program.args(["--remote", "96M", "--", "/usr/bin/python3", "-c", PROGRAM]);
    let program = program.stdin(Stdio::null()).output().expect("a process");
    let told = String::from_utf8_lossy(&program.stderr);
    assert!(
        program.status.success() && told.contains("encrypted=true"),
        "{told}"
    );
    assert!(program.stdout.ends_with(b"whole\n"));
    // An agent of another name than its certificate's does not start.
    let mut other = venice(&["agent", "--name", "right"]);
    let other = other.args(["--identity", &path("left")]).output();
    let other = other.expect("a process");
    assert!(said(&other).contains("is of left"), "{other:?}");
    borrows.terminate();
    lends.terminate();
    monitor.terminate();
}

/// The bytes of every page that its device renders are compared with the reference's.
#[test]
fn a_front_end_checks_its_pages_on_a_device_that_the_monitor_finds() {
    let folder = folder();
    let key = key(folder.path(), 0o600);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (state, left, right) = (path("state"), path("left.sock"), path("right.sock"));
    let free = ["--admin", "127.0.0.1:0", "--key-file", &key];
    let monitor = ["monitor", "--listen", "127.0.0.1:0", "--state", &state];
    let (monitor, at) = Running::start(&[&monitor[..], &free].concat());
    let agent = |name, socket, more: &[&str]| {
        let args = ["agent", "--monitor", &at[0], "--name", name];
        let args = [&args[..], &free, &["--socket", socket], more].concat();
        Running::start(&args)
    };
    let (front, _) = agent("left", &left, &[]);
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/fortunes");
    let check = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        let device = ["--device", "remote=venice", "--device-agent", &left];
        let command = command.arg("check").arg(pages).args(device).args(more);
        command.output().expect("a process")
    };
    let nobody = check(&["--device-timeout", "10ms"]);
    assert!(
        said(&nobody).contains("no other node has a device to lend"),
        "{nobody:?}"
    );
    let (lends, _) = agent("right", &right, &["--lend-device", "host"]);
    until(&at[1], |told| {
        let all = told["rrt"].as_array();
        all.is_some_and(|all| all.iter().any(|of| of["resource"] == "device"))
    });
    for alone in [&[][..], &["--device-alone"]] {
        let checked = check(alone);
        assert!(checked.status.success(), "{checked:?}");
        let told = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(told.contains("remote=venice"), "{checked:?}");
    }
    // What it had was given back when it ended.
    until(&at[1], |told| {
        let is_all = |of: &serde_json::Value| of["resource"] == "device" && of["idle"] == 16;
        let all = told["rrt"].as_array();
        all.is_some_and(|all| all.iter().any(is_all)) && told["rat"] == serde_json::json!([])
    });
    lends.terminate();
    front.terminate();
    monitor.terminate();
}

/// What a command said that failed.
fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command said whose line is wrong.
fn wrong(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_not_safe_is_refused_and_what_helps_is_said() {
    let folder = folder();
    let (good, readable) = (key(folder.path(), 0o600), key(folder.path(), 0o644));
    let state = folder.path().join("state").display().to_string();
    let monitor = |key: &str, more: &[&str]| {
        let args = ["monitor", "--state", &state, "--key-file", key];
        venice(&args).args(more).output().expect("a process")
    };
    let far = monitor(&good, &["--listen", "192.0.2.1:7200"]);
    assert!(wrong(&far).contains("--plain-network"), "{far:?}");
    let any = monitor(&good, &["--listen", "0.0.0.0:7200", "--plain-network"]);
    assert!(wrong(&any).contains("name the address"), "{any:?}");
    let open = monitor(&readable, &["--listen", "127.0.0.1:0"]);
    assert!(said(&open).contains("chmod 600"), "{open:?}");
    let hasty = monitor(&good, &["--dead-after", "1s", "--heartbeat", "1s"]);
    assert!(wrong(&hasty).contains("twice --heartbeat"), "{hasty:?}");
    let mistyped = monitor(&good, &["--state", "etcd:/192.0.2.1:2379/venice"]);
    assert!(said(&mistyped).contains("etcd://HOST:PORT"), "{mistyped:?}");
    assert!(!Path::new(&state).exists());
    // Its borrowers would look for it on their own machines.
    let agent = [
        "agent",
        "--key-file",
        &good,
        "--name",
        "a",
        "--plain-network",
    ];
    let lends = venice(&agent)
        .args(["--monitor", "192.0.2.1:7200", "--lend", "1M"])
        .output()
        .expect("a process");
    assert!(wrong(&lends).contains("say --donor"), "{lends:?}");
    // A folder that is mistyped has no authority, and gets none.
    let typo = folder.path().join("authorty").display().to_string();
    let token = ["token", "--authority", &typo, "--name", "a"];
    let refused = venice(&token).output().expect("a process");
    assert!(said(&refused).contains("--create"), "{refused:?}");
    assert!(!Path::new(&typo).exists());
    let created = venice(&token).arg("--create").output().expect("a process");
    assert!(created.status.success(), "{created:?}");
    // What is no journal is left as it is.
    fs::create_dir(&state).expect("a folder");
    let journal = Path::new(&state).join("journal");
    fs::write(&journal, "no journal").expect("a file");
    let damaged = monitor(&good, &["--listen", "127.0.0.1:0"]);
    assert!(said(&damaged).contains("damaged at byte 0"), "{damaged:?}");
    assert_eq!(fs::read(&journal).expect("a file"), b"no journal");
}

/// Of the benchmark's other process: the processes whose command line ends so.
fn peers(parent: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

#[test]
fn the_benchmark_tells_its_figures_and_leaves_nothing() {
    let folder = folder();
    let output = venice(&["bench", "--rounds", "1", "--only", "credits", "--json", "-"])
        .env("TMPDIR", folder.path())
        .output()
        .expect("a process");
    assert!(output.status.success(), "{output:?}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = told["rows"].as_array().expect("rows");
    // Two transports, one way and both, six sizes, two ways of credits.
    assert_eq!(rows.len(), 48);
    for row in rows {
        assert!(
            row["median"].as_f64().is_some_and(|rate| rate > 0.0),
            "{row}"
        );
        let is_second = row["what"] == "credits by CRMA";
        assert_eq!(row["ratio"].is_number(), is_second, "{row}");
    }
    assert!(
        told["command"]
            .as_str()
            .is_some_and(|it| it.starts_with("rhythm venice bench"))
    );
    assert!(told["machine"].is_string());
    assert!(folder.path().read_dir().expect("a folder").next().is_none());
}

#[test]
fn what_the_benchmark_started_ends_with_it() {
    let folder = folder();
    let child = venice(&["bench", "--rounds", "1000", "--only", "credits"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("a process");
    let running = Running(child);
    let start = Instant::now();
    let mut started = Vec::new();
    // What is made last: before it was told where, the other process knows of no folder.
    let is_there = || {
        let mut made = folder.path().read_dir().expect("a folder").flatten();
        made.any(|it| it.path().join("accelerators").exists())
    };
    while started.is_empty() || !is_there() {
        assert!(start.elapsed() < NEVER, "it never starts");
        thread::sleep(Duration::from_millis(5));
        started = peers(running.0.id());
    }
    drop(running);
    while started
        .iter()
        .any(|id| Path::new(&format!("/proc/{id}")).exists())
    {
        assert!(start.elapsed() < NEVER, "the other process never ends");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(folder.path().read_dir().expect("a folder").next().is_none());
}
