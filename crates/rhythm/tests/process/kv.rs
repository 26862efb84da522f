//! `rhythm kv` as a process: in the background, and ended at any time.

use crate::server::{Client, NEVER, watches_for};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn kv(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.arg("kv").args(["-l", "127.0.0.1"]).args(args);
    command
}

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for what is to be.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < NEVER, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn in_the_background_it_serves_when_the_command_ends() {
    let folder = folder("kv-background");
    let (ports, pid) = (folder.join("ports"), folder.join("pid"));
    let pid_path = pid.to_str().expect("a path");
    let mut command = kv(&["-p", "-1", "-d", "-P", pid_path]);
    let output = command.env("MEMCACHED_PORT_FILENAME", &ports).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((output.stdout.len(), said(&output).as_str()), (0, ""));
    let text = fs::read_to_string(&ports).expect("ports are told");
    let port = text.trim().rsplit(' ').next().expect("a port");
    let address = format!("127.0.0.1:{port}");
    let mut client = TcpStream::connect(address).expect("it serves");
    client.write_all(b"mn\r\n").expect("it reads");
    let mut answer = [0; 4];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"MN\r\n");
    let number = fs::read_to_string(&pid).expect("its number is told");
    let process = Pid::from_raw(number.trim().parse().expect("a number")).expect("not 0");
    kill_process(process, Signal::TERM).expect("it is there");
    until("it ends and takes the file along", || !pid.exists());
}

#[test]
fn health_and_figures_are_told_where_asked_for() {
    let mut command = kv(&["-p", "-1", "--admin", "127.0.0.1:0"]);
    let mut server = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut lines = said.lines().map_while(Result::ok);
    let mut address = |what: &str| -> SocketAddr {
        let line = lines.find(|line| line.contains(what)).expect("it is said");
        let (_, address) = line.split_once("address=").expect("an address");
        address.trim().parse().expect("an address")
    };
    let at = address("serving over TCP");
    let admin = address("told over HTTP");
    let mut cache = TcpStream::connect(at).expect("it serves");
    cache.write_all(b"get a\r\n").expect("it reads");
    let mut answer = [0; 5];
    cache.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"END\r\n");
    let mut client = Client::new(admin);
    let health = client.ask("GET", "/healthz", "").expect("an answer");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let figures = client.ask("GET", "/metrics", "").expect("an answer");
    let line = "rhythm_kv_keys_total{command=\"get\",outcome=\"miss\"} 1\n";
    assert!(figures.body.contains(line), "{}", figures.body);
    // Its place is taken.
    let taken = admin.to_string();
    let output = kv(&["-p", "-1", "--admin", &taken]).output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let why = self::said(&output);
    assert!(why.starts_with("rhythm: --admin: "), "{why}");
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it is there");
    assert!(server.wait().expect("it ends").success());
}

#[test]
fn what_fails_in_the_background_is_said_and_told_by_the_status() {
    let socket = folder("kv-fails").join("none/socket");
    let socket = socket.to_str().expect("a path");
    for args in [
        &["-s", socket][..],
        &["-d", "-s", socket],
        &["-d", "-v", "-s", socket],
    ] {
        let output = kv(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = said(&output);
        assert!(said.starts_with("rhythm: cannot listen on unix:"), "{said}");
        // The cause, once.
        assert_eq!(
            said.matches("No such file or directory").count(),
            1,
            "{said}"
        );
    }
}

#[test]
fn a_signal_counts_from_when_it_is_watched_for() {
    for _ in 0..5 {
        assert!(told_to_end(&mut kv(&["-p", "-1"])).success());
    }
    // One that waits for others before it starts.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ring = format!("etcd://{}/ring", mute.local_addr().expect("a port"));
    let node = ["--node", "a", "--client", "localhost:1"];
    let node = [&["--ring", &ring, "--backbone", "127.0.0.1:1"], &node[..]].concat();
    assert!(told_to_end(&mut kv(&node)).success());
}

/// How a server ends that is told to as soon as it watches for that.
fn told_to_end(command: &mut Command) -> ExitStatus {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = command.spawn().expect("it starts");
    let watches = || watches_for(server.id(), Signal::TERM);
    until("it watches for SIGTERM", watches);
    let id = Pid::from_child(&server);
    kill_process(id, Signal::TERM).expect("it is there");
    server.wait().expect("it ends")
}

#[cfg(target_os = "linux")]
#[test]
fn with_large_pages_all_memory_is_there_before_anything_is_served() {
    for (is_asked, flags) in [(false, &["-m", "200"][..]), (true, &["-m", "200", "-L"])] {
        let mut command = kv(&["-p", "-1"]);
        let mut server = command
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(server.stderr.take().expect("it is piped"));
        let is_serving = |line: String| line.contains("serving over TCP");
        let serves = said.lines().map_while(Result::ok).any(is_serving);
        let resident = resident(server.id());
        server.kill().expect("it can be ended");
        server.wait().expect("it ends");
        assert!(serves, "{flags:?}");
        assert_eq!(
            resident > 200 << 20,
            is_asked,
            "{resident} bytes with {flags:?}"
        );
    }
}

/// Memory of a process, as it is resident.
#[cfg(target_os = "linux")]
pub(crate) fn resident(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next());
    1024 * kib.and_then(|kib| kib.parse::<usize>().ok()).expect("kB")
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn memory_of_values_that_never_came_whole_goes_back_to_the_system() {
    const CLIENTS: usize = 300;
    const SENT: usize = 600_000;
    let folder = folder("kv-half-sent");
    let ports = folder.join("ports");
    let mut command = kv(&["-p", "-1", "-t", "1", "-m", "64"]);
    let command = command.env("MEMCACHED_PORT_FILENAME", &ports);
    let mut server = command.stderr(Stdio::null()).spawn().expect("it starts");
    until("ports are told", || ports.exists());
    let text = fs::read_to_string(&ports).expect("ports are told");
    fs::remove_file(&ports).expect("it was there");
    let port = text.trim().rsplit(' ').next().expect("a port");
    let address = format!("127.0.0.1:{port}");
    let client = |_| TcpStream::connect(&address).expect("it serves");
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(client).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        write!(client, "set {index} 0 0 900000\r\n").expect("it reads");
    }
    // All grow side by side, so that they lie among each other.
    let piece = [b'x'; 60_000];
    for _ in 0..SENT / piece.len() {
        for client in &mut clients {
            client.write_all(&piece).expect("it reads");
        }
    }
    let all = CLIENTS * SENT;
    until("it has what was sent", || resident(server.id()) > all);
    drop(clients);
    until("little is left", || resident(server.id()) < all / 4);
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it is there");
    assert!(server.wait().expect("it ends").success());
}

#[test]
fn a_file_of_users_that_never_ends_keeps_no_signal_waiting() {
    let folder = folder("kv-users");
    let (ports, users) = (folder.join("ports"), folder.join("users"));
    for file in [&ports, &users] {
        let _ = fs::remove_file(file);
    }
    fs::write(&users, "a:secret\n").expect("a file");
    let path = users.to_str().expect("a path");
    let mut command = kv(&["-p", "-1", "-Y", path]);
    command.env("MEMCACHED_PORT_FILENAME", &ports);
    let mut server = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(server.stderr.take().expect("it is piped"));
    let (say, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut said = said.lines().map_while(Result::ok);
        said.all(|line| say.send(line).is_ok())
    });
    let hears = |what: &str| {
        let mut said = std::iter::from_fn(|| lines.recv_timeout(NEVER).ok());
        said.any(|line| line.contains(what))
    };
    assert!(hears("serving over TCP"));
    let id = Pid::from_child(&server);
    let again = |how: &str| {
        kill_process(id, Signal::HUP).expect("it is there");
        assert!(hears(how), "{how}");
    };
    fs::write(&users, "b:secret\n").expect("a file");
    again("read again");
    fs::remove_file(&users).expect("it is there");
    mknodat(CWD, &users, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    again("no regular file");
    fs::remove_file(&users).expect("it is there");
    fs::write(&users, "\n".repeat(1 << 20)).expect("a file");
    again("longer than");
    kill_process(id, Signal::TERM).expect("it is there");
    until("it ends", || {
        server.try_wait().expect("it is ours").is_some()
    });
    fs::remove_dir_all(&folder).expect("it is there");
}

/// Starts a server, which tells its one port in this file: the server, and a client.
fn serving(command: &mut Command, ports: &Path) -> (std::process::Child, TcpStream) {
    let _ = fs::remove_file(ports);
    command.env("MEMCACHED_PORT_FILENAME", ports);
    let server = command.spawn().expect("it starts");
    until("ports are told", || {
        fs::read_to_string(ports).is_ok_and(|text| text.contains('\n'))
    });
    let text = fs::read_to_string(ports).expect("ports are told");
    let port = text.trim().rsplit(' ').next().expect("a port");
    let client = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it serves");
    client.set_read_timeout(Some(NEVER)).expect("a duration");
    (server, client)
}

/// What is sent of each answer of these tests.
const LONG: usize = 1_000_000;

/// Has a server send so many MB to a client who has taken none of it yet: the server, and the
/// client.
fn owes(count: usize, ports: &Path) -> (std::process::Child, TcpStream) {
    let mut command = kv(&["-p", "-1", "-t", "1"]);
    let (server, mut client) = serving(command.stderr(Stdio::piped()), ports);
    let set = format!("set a 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG));
    client.write_all(set.as_bytes()).expect("it reads");
    let mut stored = [0; 8];
    client.read_exact(&mut stored).expect("an answer");
    let gets = b"get a\r\n".repeat(count);
    client.write_all(&gets).expect("it reads");
    client.read_exact(&mut [0]).expect("it has begun to answer");
    (server, client)
}

#[test]
fn what_has_come_is_answered_and_taken_before_it_ends() {
    let folder = folder("kv-drains");
    // Little enough for a busy machine: what is not taken in time is given up.
    let (mut server, mut client) = owes(8, &folder.join("ports"));
    let process = Pid::from_child(&server);
    kill_process(process, Signal::TERM).expect("it is there");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("it is not cut off");
    assert_eq!(rest.len() + 1, 8 * (19 + LONG + 7));
    assert!(rest.ends_with(b"x\r\nEND\r\n"));
    assert!(server.wait().expect("it ends").success());
    // Who takes nothing is waited for, but not for long; said again, not at all.
    for again in [false, true] {
        let (server, client) = owes(30, &folder.join("ports"));
        let process = Pid::from_child(&server);
        kill_process(process, Signal::TERM).expect("it is there");
        if again {
            thread::sleep(Duration::from_millis(100));
            // It may have ended, where this thread was kept from its processor.
            let _ = kill_process(process, Signal::TERM);
        }
        let began = Instant::now();
        let output = server.wait_with_output().expect("it ends");
        assert!(output.status.success() && began.elapsed() < NEVER);
        let said = said(&output);
        assert!(said.contains("answers under way are finished"), "{said}");
        assert!(!said.contains("at once") || again, "{said}");
        drop(client);
    }
}

/// What all threads of a process have used of processors: proc_pid_schedstat(5).
fn cpu_time(process: Pid) -> Duration {
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    let threads = fs::read_dir(threads).expect("it is there").flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let figures = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        figures.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

#[test]
fn threads_look_for_more_for_as_long_as_is_said() {
    let folder = folder("kv-busy");
    // What was used for an answer, and in the second and a half behind it.
    let used = |options: &str, is_told: bool| {
        let mut command = kv(&["-p", "-1", "-t", "1", "-o", options]);
        let (mut server, client) = serving(&mut command, &folder.join("ports"));
        let process = Pid::from_child(&server);
        let mut client = BufReader::new(client);
        let before = cpu_time(process);
        let settings = client.get_mut();
        settings.write_all(b"stats settings\r\n").expect("it reads");
        let mut told = String::new();
        while !told.ends_with("END\r\n") {
            let read = client.read_line(&mut told).expect("text");
            assert!(read > 0, "{told}");
        }
        assert_eq!(told.contains("STAT busy_poll 1000000\r\n"), is_told);
        thread::sleep(Duration::from_millis(1500));
        let used = cpu_time(process) - before;
        kill_process(process, Signal::TERM).expect("it is there");
        assert!(server.wait().expect("it was started").success());
        used
    };
    let (looks, sleeps) = (used("busy_poll=1000000", true), used("busy_poll=0", false));
    // It has a second of them at most, and less where others want the processor.
    assert!(looks > sleeps + Duration::from_millis(15), "{looks:?}");
    assert!(looks < Duration::from_millis(1450), "{looks:?}");
}

#[test]
fn who_spoke_while_it_stood_still_is_not_taken_for_silent() {
    let folder = folder("kv-stopped");
    let mut command = kv(&["-p", "-1", "-o", "idle_timeout=3"]);
    let (mut server, mut client) = serving(&mut command, &folder.join("ports"));
    let process = Pid::from_child(&server);
    let mut ask = || {
        client.write_all(b"mn\r\n").expect("it reads");
        let mut answer = [0; 4];
        client.read_exact(&mut answer).map(|()| answer)
    };
    assert_eq!(ask().expect("an answer"), *b"MN\r\n");
    kill_process(process, Signal::STOP).expect("it runs");
    // It goes on when the time is over that a silent client has.
    let goes_on = thread::spawn(move || {
        thread::sleep(Duration::from_millis(4500));
        kill_process(process, Signal::CONT).expect("it is there");
    });
    assert_eq!(ask().expect("it is not closed"), *b"MN\r\n");
    goes_on.join().expect("it goes on");
    kill_process(process, Signal::TERM).expect("it is there");
    assert!(server.wait().expect("it was started").success());
}
