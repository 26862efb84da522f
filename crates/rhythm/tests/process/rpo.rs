//! `rhythm rpo` as a process, beside a server that is a shell with a child: told of requests by
//! datagrams it switches, and however it ends the server has all its CPUs again.
//!
//! One CPU stands against all, named by hand, so that it needs no simultaneous multithreading.

mod nginx;

use crate::server::{Server, service, watches_for};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean never.
const NEVER: Duration = Duration::from_secs(60);
/// A batch of the paper.
const BATCH: usize = 20;

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + NEVER;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A folder of the test's own, empty.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rpo-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

fn pid(of: &Child) -> Pid {
    Pid::from_child(of)
}

/// The CPUs of a process, and of its children once these are there.
fn cpus_of(own: u32) -> Vec<Vec<usize>> {
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().map(|word| word.parse().ok());
    let all = std::iter::once(Some(own as i32)).chain(children).flatten();
    all.filter_map(|id| sched_getaffinity(Pid::from_raw(id)).ok())
        .map(|set| {
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect()
        })
        .collect()
}

/// A process that does nothing, and has a child that does nothing.
pub(crate) struct Idle(pub(crate) Child);

impl Idle {
    pub(crate) fn start() -> Idle {
        let script = "sleep 300 & read end; kill $!";
        let mut shell = Command::new("sh");
        let started = shell.args(["-c", script]).stdin(Stdio::piped()).spawn();
        Idle(started.expect("a shell"))
    }

    /// Whether it and its child have just these.
    fn has(&self, cpus: &[usize]) -> bool {
        let now = cpus_of(self.0.id());
        now.len() == 2 && now.iter().all(|own| own == cpus)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The CPUs of this process, where there are two at least.
pub(crate) fn all_cpus() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).expect("it runs");
    let all: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect();
    if all.len() < 2 {
        eprintln!("not tried: one CPU");
        return None;
    }
    Some(all)
}

/// A controller's process; killed when dropped.
pub(crate) struct Controller {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    socket: PathBuf,
    state: PathBuf,
}

impl Controller {
    /// Of the paper's rule and classes, in a folder, with more flags.
    pub(crate) fn start(folder: &Path, fewer: usize, flags: &[&str]) -> Controller {
        Controller::start_at(folder, folder, fewer, flags)
    }

    /// The same, of a shell that is at this place.
    fn start_at(at: &Path, folder: &Path, fewer: usize, flags: &[&str]) -> Controller {
        let (socket, state) = (folder.join("rpo.sock"), folder.join("state"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args([
                "rpo",
                "--policy",
                "paper",
                "--tpcw",
                "--admin",
                "127.0.0.1:0",
            ])
            .args(["--fewer-cpus", &fewer.to_string(), "--datagrams"])
            .arg(&socket)
            .arg("--state")
            .arg(&state)
            .args(flags)
            .current_dir(at)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let errors = child.stderr.take().expect("it is piped");
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = log.clone();
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                written.lock().expect("no panic").push(line);
            }
        });
        Controller {
            child,
            log,
            socket,
            state,
        }
    }

    /// The first line of the log with this in it, once it is there.
    fn said(&self, words: &str) -> String {
        let mut found = None;
        until(&format!("it does not say: {words}"), || {
            let log = self.log.lock().expect("no panic");
            found = log.iter().find(|line| line.contains(words)).cloned();
            found.is_some()
        });
        found.expect("it was said")
    }

    /// Where its admin listener is.
    pub(crate) fn admin(&self) -> String {
        let line = self.said("admin=");
        let (_, address) = line.split_once("admin=").expect("it was said");
        address
            .split_whitespace()
            .next()
            .expect("an address")
            .to_owned()
    }

    fn ask(&self) -> Output {
        let address = &self.admin();
        let status = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["rpo", "status", address])
            .output();
        status.expect("it starts")
    }

    /// What `rhythm rpo status` prints.
    fn status(&self) -> String {
        let output = self.ask();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Tells it that a batch of these requests came.
    fn batch(&self, method: &str, path: &str) {
        let sender = UnixDatagram::unbound().expect("a socket");
        let line = format!("a {method} {path}\n");
        until("it listens", || sender.connect(&self.socket).is_ok());
        let text = line.repeat(BATCH);
        sender.send(text.as_bytes()).expect("it has room");
    }

    pub(crate) fn heavy(&self) {
        self.batch("POST", "/cart");
    }

    fn light(&self) {
        self.batch("GET", "/item/7");
    }

    /// Kills its guardian and then it.
    fn kill_with_guardian(self) {
        kill_process(pid(&self.child), Signal::STOP).expect("it runs");
        let own = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        for child in children.expect("it runs").split_whitespace() {
            let guardian = child.parse().ok().and_then(Pid::from_raw);
            kill_process(guardian.expect("a number"), Signal::KILL).expect("it runs");
        }
        kill_process(pid(&self.child), Signal::KILL).expect("it runs");
    }

    fn ended(mut self) -> ExitStatus {
        let mut status = None;
        until("it does not end", || {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        status.expect("it ended")
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // One that has ended cannot be killed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // One that was killed leaves its locks, which say where its state is. Where another runs
        // with that, they are that one's.
        let shared = rhythm_rpo::daemon::shared_folder().map(std::fs::read_dir);
        for entry in shared.into_iter().flatten().flatten().flatten() {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            let is_nobodys =
                std::fs::File::open(entry.path()).is_ok_and(|lock| lock.try_lock().is_ok());
            if is_nobodys && text == self.state.as_os_str().as_encoded_bytes() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

#[test]
fn a_server_is_switched_by_what_it_is_asked_and_gets_all_back_after_a_kill() {
    let Some(all) = all_cpus() else { return };
    let (folder, server) = (folder("killed"), Idle::start());
    until("it has a child", || server.has(&all));
    let process = server.0.id().to_string();
    let controller = Controller::start(&folder, all[0], &["--pid", &process]);
    controller.heavy();
    until("one a core", || server.has(&all[..1]));
    controller.light();
    until("all threads", || server.has(&all));
    controller.heavy();
    until("one a core again", || server.has(&all[..1]));
    until("status knows", || {
        controller
            .status()
            .contains("1 times to all threads, 2 to one a core")
    });
    let status = controller.status();
    for part in [
        "setting      one a core",
        "60 arrivals and completions told, 0 lost, 0 garbage",
        "0 of the last 20",
    ] {
        assert!(status.contains(part), "{part} is not in {status}");
    }
    assert!(controller.state.exists());
    kill_process(pid(&controller.child), Signal::KILL).expect("it runs");
    let killed = Instant::now();
    until("all CPUs are back", || server.has(&all));
    eprintln!("all CPUs were back {:?} after the kill", killed.elapsed());
    let state = controller.state.clone();
    until("nothing is left to put back", || !state.exists());
    assert!(!controller.ended().success());
}

#[test]
fn a_signal_ends_it_in_order() {
    let Some(all) = all_cpus() else { return };
    let (folder, server) = (folder("ended"), Idle::start());
    until("it has a child", || server.has(&all));
    let pidfile = folder.join("pid");
    std::fs::write(&pidfile, format!("{}\n", server.0.id())).expect("a file");
    let named = pidfile.to_str().expect("a path");
    let controller = Controller::start(&folder, all[0], &["--pidfile", named]);
    controller.heavy();
    until("one a core", || server.has(&all[..1]));
    // Another controller cannot have the same state.
    let second = Controller::start(&folder, all[0], &["--pidfile", named]);
    second.said("another controller runs");
    assert!(!second.ended().success());
    // Nor, with one of its own, the same server, by whichever name.
    let beside = self::folder("ended-beside");
    let process = server.0.id().to_string();
    for named in [["--pidfile", named], ["--pid", &process]] {
        let third = Controller::start(&beside, all[0], &named);
        third.said("already: stop that one first");
        assert!(!third.ended().success());
        assert!(server.has(&all[..1]), "it is the first one's");
    }
    let sender = UnixDatagram::unbound().expect("a socket");
    sender
        .send_to(b"\xff\x00 junk", &controller.socket)
        .expect("it has room");
    until("garbage is counted", || {
        controller.status().contains("1 garbage")
    });
    kill_process(pid(&controller.child), Signal::TERM).expect("it runs");
    controller.said("the server has all its CPUs");
    assert!(server.has(&all));
    assert!(!controller.state.exists() && !controller.socket.exists());
    let nobody = controller.ask();
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(
        !nobody.status.success() && said.contains("--rpo-admin"),
        "{said}"
    );
    assert!(controller.ended().success());
}

#[test]
fn a_server_that_starts_again_is_followed_and_who_else_changes_it_is_counted() {
    let Some(all) = all_cpus() else { return };
    let (folder, first) = (folder("followed"), Idle::start());
    until("it has a child", || first.has(&all));
    let pidfile = folder.join("pid");
    std::fs::write(&pidfile, first.0.id().to_string()).expect("a file");
    let named = pidfile.to_str().expect("a path");
    let ring = folder.join("rpo.ring");
    let no_ring = ring.to_str().expect("a path");
    let flags = ["--pidfile", named, "--ring", no_ring];
    let controller = Controller::start(&folder, all[0], &flags);
    controller.heavy();
    until("one a core", || first.has(&all[..1]));
    // Somebody else gives it all CPUs.
    let mut set = CpuSet::new();
    all.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(Some(pid(&first.0)), &set).expect("this user's own");
    until("it has its set again", || first.has(&all[..1]));
    until("that is counted", || {
        controller
            .status()
            .contains("0 failed, 1 times the kernel had another set")
    });
    // Why a ring is not read is said once, not each second.
    let said = controller.said("rpo.ring");
    assert!(
        said.contains("WARN") && said.contains("cannot read the ring"),
        "{said}"
    );
    let log = controller.log.lock().expect("no panic").join("\n");
    assert_eq!(log.matches("cannot read the ring").count(), 1, "{log}");
    drop(first);
    controller.said("have ended");
    let second = Idle::start();
    until("it has a child", || second.has(&all));
    std::fs::write(&pidfile, second.0.id().to_string()).expect("a file");
    until("it is controlled", || {
        controller.light();
        controller.heavy();
        second.has(&all[..1])
    });
    // It is this one's alone, also by its own number.
    let beside = self::folder("followed-beside");
    let process = second.0.id().to_string();
    let other = Controller::start(&beside, all[0], &["--pid", &process]);
    other.said("already: stop that one first");
    assert!(!other.ended().success());
    kill_process(pid(&controller.child), Signal::KILL).expect("it runs");
    until("all CPUs are back", || second.has(&all));
}

/// `tasks`, as a state file has it, of a process and all that descend from it.
fn tasks(of: &Idle, all: &[usize]) -> String {
    let named = rhythm_rpo::switcher::Process::of(of.0.id()).expect("it runs");
    let cpus: rhythm_rpo::cpus::CpuSet = all.iter().copied().collect();
    format!("tasks {cpus}\t{}:{}\n", named.pid, named.start)
}

/// Confines a server to one CPU, as a controller does.
fn confine(server: &Idle, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let own = server.0.id();
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
    let children = children.expect("it runs");
    let all = children.split_whitespace().map(|child| child.parse().ok());
    for id in all.chain([Some(own as i32)]) {
        sched_setaffinity(id.and_then(Pid::from_raw), &set).expect("this user's own");
    }
}

#[test]
fn a_group_is_put_back_from_wherever_it_was_named() {
    let folder = folder("relative");
    let web = folder.join("web");
    std::fs::create_dir(&web).expect("a folder");
    // Files that look like groups of v1.
    for group in [&folder, &web] {
        std::fs::write(group.join("cgroup.procs"), "").expect("a file");
        std::fs::write(group.join("cpuset.cpus"), "0-1\n").expect("a file");
    }
    let has = |cpus: &str| {
        let text = std::fs::read_to_string(web.join("cpuset.cpus"));
        text.expect("a file").trim() == cpus
    };
    for (at, name) in [(&folder, "web"), (&web, ".")] {
        let controller = Controller::start_at(at, &folder, 0, &["--cgroup", name]);
        controller.heavy();
        until("one a core", || has("0"));
        controller.light();
        until("all threads", || has("0-1"));
        controller.heavy();
        until("one a core again", || has("0"));
        let state = controller.state.clone();
        controller.kill_with_guardian();
        assert!(has("0"), "nobody was left to put it back");
        let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["rpo", "restore"])
            .arg(state)
            .current_dir("/")
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{output:?}");
        assert!(has("0-1"), "{name}: {output:?}");
    }
}

#[test]
fn what_was_left_is_put_back_before_anything_that_may_fail() {
    let Some(all) = all_cpus() else { return };
    let (folder, server) = (folder("first"), Idle::start());
    until("it has a child", || server.has(&all));
    confine(&server, all[0]);
    std::fs::write(folder.join("state"), tasks(&server, &all)).expect("a file");
    let unit = "rhythm-test-there-is-none.service";
    let controller = Controller::start(&folder, all[0], &["--unit", unit]);
    let state = controller.state.clone();
    assert!(!controller.ended().success());
    assert!(server.has(&all) && !state.exists());
}

#[test]
fn what_another_process_is_about_to_put_back_is_waited_for() {
    let Some(all) = all_cpus() else { return };
    let (folder, server) = (folder("left"), Idle::start());
    until("it has a child", || server.has(&all));
    confine(&server, all[0]);
    // A controller of this server was killed, and its guardian is slow.
    let left = folder.join("left");
    let guardian = rhythm_rpo::daemon::State::take(&left).expect("nobody has it");
    let tasks = tasks(&server, &all);
    std::fs::write(&left, &tasks).expect("a file");
    let named = tasks.trim_end().split_once('\t').expect("a process").1;
    let shared = rhythm_rpo::daemon::shared_folder().unwrap_or_else(|| folder.clone());
    let lock = rhythm_rpo::daemon::Lock::take(&shared, &format!("process {named}"), &left);
    drop(lock.expect("nobody has it"));
    let process = server.0.id().to_string();
    let controller = Controller::start(&folder, all[0], &["--pid", &process]);
    thread::sleep(Duration::from_millis(1500));
    guardian.put_back().expect("this user's own");
    drop(guardian);
    controller.heavy();
    until("one a core, of all", || server.has(&all[..1]));
    let cpus: rhythm_rpo::cpus::CpuSet = all.iter().copied().collect();
    assert!(
        controller
            .status()
            .contains(&format!("sets         all {cpus},"))
    );
    kill_process(pid(&controller.child), Signal::TERM).expect("it runs");
    assert!(controller.ended().success());
    assert!(server.has(&all));
}

#[test]
fn a_probe_that_is_interrupted_removes_what_it_made() {
    if all_cpus().is_none() {
        return;
    }
    let probe = Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .args(["rpo", "probe", "--processes", "2", "--rounds", "10000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let name = format!("rhythm-rpo-probe-{}", probe.id());
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it is there");
    let mounts = mounts.lines().filter(|line| line.contains(" cgroup"));
    let mounts = mounts.filter_map(|line| line.split(' ').nth(1));
    let groups: Vec<_> = mounts.map(|mount| Path::new(mount).join(&name)).collect();
    let watches = || watches_for(probe.id(), Signal::INT);
    until("it watches for SIGINT", watches);
    // It is there for as long as the rounds take, where one can be made; else threads are switched.
    thread::sleep(Duration::from_secs(2));
    if !groups.iter().any(|group| group.exists()) {
        eprintln!("no group can be made here");
    }
    kill_process(pid(&probe), Signal::INT).expect("it runs");
    let output = probe.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert!(groups.iter().all(|group| !group.exists()));
}

#[test]
fn classes_are_made_of_two_logs_by_either_rule() {
    let folder = folder("classify");
    let line = |path: &str, bytes: u32| format!("h - - [t] \"GET {path} HTTP/1.1\" 200 {bytes}\n");
    let log = |name: &str, [short, long]: [usize; 2]| {
        let text = [
            line("/short", 100).repeat(short),
            line("/long", 9000).repeat(long),
        ];
        let path = folder.join(name);
        // As frequent in both: of it only its size says something.
        std::fs::write(&path, text.concat() + &line("/both", 200)).expect("a file");
        path
    };
    let logs = [log("a", [6, 3]), log("b", [3, 6])];
    let classify = |flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["rpo", "classify"])
            .args(&logs)
            .args(flags)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let by_name = classify(&[]);
    assert!(
        by_name.contains("GET /short") && !by_name.contains("GET /both"),
        "{by_name}"
    );
    let by_size = classify(&["--by", "size"]);
    let class = "name = \"GET /both\"\npatterns = [\"GET /both\", \"GET /both/**\"]\n\
                 friendly = \"all-threads\"";
    assert!(by_size.contains(class), "{by_size}");
}

#[test]
fn a_dry_run_switches_nothing() {
    let Some(all) = all_cpus() else { return };
    let (folder, server) = (folder("dry"), Idle::start());
    until("it has a child", || server.has(&all));
    let process = server.0.id().to_string();
    let controller = Controller::start(&folder, all[0], &["--dry-run", "--pid", &process]);
    controller.heavy();
    until("it decides", || {
        controller.status().contains("setting      one a core")
    });
    assert!(controller.status().contains("dry run: nothing is switched"));
    assert!(server.has(&all) && !controller.state.exists());
    kill_process(pid(&controller.child), Signal::INT).expect("it runs");
    assert!(controller.ended().success());
}

/// The CPUs of each of a server's workers.
fn workers(server: &Server) -> Vec<Vec<usize>> {
    let tasks = format!("/proc/{}/task", server.pid());
    let tasks = std::fs::read_dir(tasks).expect("it runs").flatten();
    let mut found = Vec::new();
    for task in tasks {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if !name.starts_with("worker-") {
            continue;
        }
        let id = task.file_name().to_str().and_then(|name| name.parse().ok());
        let set = sched_getaffinity(id.and_then(Pid::from_raw)).expect("it runs");
        found.push(
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect(),
        );
    }
    found.sort();
    found
}

#[test]
fn workers_are_moved_and_their_connections_stay_served() {
    let Some(all) = all_cpus() else { return };
    let first = all[0].to_string();
    let flags = ["--rpo-fewer-cpus", &first, "--rpo-admin", "127.0.0.1:0"];
    // Never moved: what it does when it is asked to move nothing.
    let watched = [&["--rpo=advise"], &flags[..]].concat();
    let server = Server::start(&service("rpo-advised"), &watched);
    let status = |server: &Server| {
        let said = server.said("it tells of itself");
        let address = said["fields"]["admin"].as_str().expect("an address");
        let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["rpo", "status", address])
            .output();
        String::from_utf8(output.expect("it starts").stdout).expect("text")
    };
    let mut client = server.client();
    until("requests are counted", || {
        client.ask("GET", "/hello", "").expect("an answer");
        status(&server).lines().any(|line| {
            let records = line.strip_prefix("requests     ");
            let count = records.and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
            count.is_some_and(|count| count >= 20)
        })
    });
    let told = status(&server);
    assert!(
        ["only advises", "2 classes", "advice       "]
            .iter()
            .all(|part| told.contains(part)),
        "{told}"
    );
    assert_eq!(workers(&server), [all.clone(), all.clone()]);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    for pin in ["--pin=false", "--pin=true"] {
        let moved = [
            &["--rpo=one-per-core", pin, "--drain-grace", "10s"],
            &flags[..],
        ]
        .concat();
        let server = Server::start(&service("rpo-moved"), &moved);
        // Connections on both workers, from before they are moved or soon after.
        let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
        let one = all[..1].to_vec();
        until("they are moved", || {
            for client in &mut clients {
                client.ask("GET", "/hello", "").expect("an answer");
            }
            workers(&server) == [one.clone(), one.clone()]
        });
        for client in &mut clients {
            let answer = client
                .ask("GET", "/hello?name=still", "")
                .expect("an answer");
            assert!(answer.status == 200 && answer.body.contains("still"));
        }
        until("status knows", || {
            status(&server).contains("setting      one a core")
        });
        let told = status(&server);
        assert!(told.contains("the threads of 2 workers") && !told.contains("only advises"));
        server.signal(Signal::TERM);
        drop(clients);
        assert!(server.ended().success());
    }
}

#[test]
fn a_server_whose_controller_cannot_tell_of_itself_does_not_start() {
    let Some(all) = all_cpus() else { return };
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("an address").to_string();
    let output = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_rhythm"), "serve"])
        .arg(service("rpo-admin"))
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rpo"])
        .args(["--rpo-fewer-cpus", &all[0].to_string()])
        .args(["--rpo-admin", &taken])
        .output()
        .expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = format!("--rpo-admin: {taken} is in use");
    assert!(said.contains(&expected), "{said}");
}

/// Whether two CPUs are threads of one core.
fn has_siblings() -> bool {
    (0..4096).any(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().contains([',', '-'])
    })
}

#[test]
fn where_there_is_nothing_to_gain_that_is_said() {
    if has_siblings() {
        eprintln!("not tried: this machine has simultaneous multithreading");
        return;
    }
    let server = Idle::start();
    let process = server.0.id().to_string();
    let by_pid = ["--pid", &process, "--datagrams", "/nowhere/rpo.sock"];
    for (command, flags) in [
        (&["rpo", "advise"][..], &by_pid[..]),
        (&["rpo", "advise"], &[]),
        (&["rpo", "--dry-run"], &by_pid),
        (&["rpo", "probe", "--processes", "2", "--rounds", "2"], &[]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(command)
            .args(flags)
            .output()
            .expect("it starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {said}");
        assert!(said.contains("nothing to gain"), "{command:?}: {said}");
    }
}

#[test]
fn what_cannot_be_put_back_is_an_error() {
    let folder = folder("restore");
    let told = |name: &str, flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["rpo", "restore"])
            .args(flags)
            .arg(folder.join(name))
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let restore = |name: &str| told(name, &[]);
    let (is_done, said) = restore("mistyped");
    assert!(!is_done && said.contains("mistyped"), "{said}");
    assert!(
        !folder.join("mistyped.lock").exists(),
        "nothing is left behind"
    );
    std::fs::write(folder.join("strange"), "format /dev/sda\n").expect("a file");
    let (is_done, said) = restore("strange");
    assert!(!is_done && said.contains("format /dev/sda"), "{said}");
    // A unit that ends knows not whether its controller ever kept something.
    for (name, is_done) in [("mistyped", true), ("strange", false)] {
        let (done, said) = told(name, &["--if-kept"]);
        assert_eq!(done, is_done, "{name}: {said}");
    }
}
