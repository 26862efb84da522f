//! A server that a service manager has started, as packaging/rhythm.service says: the unit's own
//! command, a socket that is passed, and what the manager is told meanwhile.

use crate::server::{Client, NEVER, Server, service};
use rustix::process::Signal;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A manager's socket, as systemd has one for each unit.
struct Manager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Manager {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a free path");
        socket.set_read_timeout(Some(NEVER)).expect("a duration");
        Manager { socket, folder }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("notify")
    }

    /// The next thing that it is told.
    fn hears(&self) -> String {
        let mut message = [0; 4096];
        let length = self
            .socket
            .recv(&mut message)
            .expect("it is told something");
        String::from_utf8(message[..length].to_vec()).expect("text")
    }

    /// The next thing that it is told that is no sign of life.
    fn hears_news(&self) -> String {
        loop {
            let message = self.hears();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

/// Starts a server that is told of the manager.
fn start(manager: &Manager, folder: &Path, more: &str) -> Server {
    let place = manager.place();
    let script = format!(
        "NOTIFY_SOCKET={} {more} exec \"$0\" \"$@\"",
        place.display()
    );
    Server::start_by(&script, Stdio::null(), folder, &[])
}

#[test]
fn the_manager_is_told_of_start_reload_and_stop() {
    let (manager, folder) = (Manager::new(), service("managed"));
    fs::write(folder.join("service.toml"), "").expect("a file can be written");
    let server = start(&manager, &folder, "");
    let ready = manager.hears();
    let address = server.address.to_string();
    assert!(ready.starts_with("READY=1\nSTATUS=serving "), "{ready}");
    assert!(ready.contains(&address), "{ready}");

    let reload = |status: &str| {
        server.signal(Signal::HUP);
        let began = manager.hears();
        let lines: Vec<&str> = began.lines().collect();
        let [reloading, time, _] = lines[..] else {
            panic!("{began}");
        };
        assert_eq!(reloading, "RELOADING=1");
        let time = time.strip_prefix("MONOTONIC_USEC=").expect("a time");
        assert!(time.parse::<u64>().expect("a number") > 0);
        let ready = manager.hears();
        assert_eq!(ready, format!("READY=1\nSTATUS={status}"));
    };
    reload("serving, reloaded");
    // What is wrong is told in one line, and the old service is served on.
    fs::write(folder.join("service.toml"), "[nonsense]\n").expect("a file can be written");
    server.signal(Signal::HUP);
    assert!(manager.hears().starts_with("RELOADING=1\n"));
    let kept = manager.hears();
    let status = "READY=1\nSTATUS=serving the old service: ";
    assert!(kept.starts_with(status), "{kept}");
    assert_eq!(kept.lines().count(), 2, "{kept}");
    let answer = server.client().ask("GET", "/hello", "");
    assert_eq!(answer.expect("an answer").status, 200);
    fs::write(folder.join("service.toml"), "").expect("a file can be written");
    reload("serving, reloaded");

    server.signal(Signal::TERM);
    let stopping = manager.hears();
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    assert!(server.ended().success());
}

#[test]
fn a_watchdog_hears_that_all_is_well_and_nobody_else_does() {
    let (manager, folder) = (Manager::new(), service("watchdog"));
    let server = start(&manager, &folder, "WATCHDOG_USEC=200000 WATCHDOG_PID=$$");
    let ready = manager.hears_news();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    for _ in 0..5 {
        assert_eq!(manager.hears(), "WATCHDOG=1");
    }
    drop(server);

    // Another process is watched: this one is not to speak for it.
    let manager = Manager::new();
    let server = start(&manager, &folder, "WATCHDOG_USEC=200000 WATCHDOG_PID=1");
    assert!(manager.hears().starts_with("READY=1\n"));
    let half = Some(Duration::from_millis(500));
    manager.socket.set_read_timeout(half).expect("a duration");
    let error = manager.socket.recv(&mut [0; 64]).expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(server);
}

#[test]
fn a_manager_that_is_gone_or_named_wrongly_stops_nobody() {
    let folder = service("unmanaged");
    for place in ["/nowhere/notify", "nonsense"] {
        let script = format!("NOTIFY_SOCKET={place} exec \"$0\" \"$@\"");
        let server = Server::start_by(&script, Stdio::null(), &folder, &[]);
        server.said("NOTIFY_SOCKET");
        server.signal(Signal::HUP);
        server.said("is reloaded");
        server.signal(Signal::TERM);
        assert!(server.ended().success());
    }
}

/// The values of a unit's setting.
fn settings<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    let named = lines.filter(|(setting, _)| *setting == name);
    named.map(|(_, value)| value).collect()
}

/// The server as the package installs it: its unit's command, the site that comes with it, and a
/// socket for both families of addresses, as systemd makes it of `ListenStream=8080`.
#[test]
fn the_unit_s_command_serves_the_welcome_page() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let read = |name: &str| fs::read_to_string(packaging.join(name)).expect("it is there");
    let (unit, socket) = (read("rhythm.service"), read("rhythm.socket"));
    let [command] = settings(&unit, "ExecStart")[..] else {
        panic!("one command");
    };
    let binary = env!("CARGO_BIN_EXE_rhythm");
    let command = command
        .strip_prefix("/usr/bin/rhythm ")
        .expect("the binary");
    let names = settings(&socket, "FileDescriptorName").join(":");
    let services = packaging.join("welcome");
    assert_eq!(
        settings(&unit, "Environment"),
        ["SERVICES=/usr/share/rhythm/welcome"]
    );
    let manager = Manager::new();
    let script = format!(
        "NOTIFY_SOCKET={} LISTEN_FDS=1 LISTEN_FDNAMES={names} LISTEN_PID=$$ \
         SERVICES={} OPTIONS='--admin 127.0.0.1:0 --workers 1'; \
         export NOTIFY_SOCKET LISTEN_FDS LISTEN_FDNAMES LISTEN_PID; \
         exec {binary} {command} 3<&0 0</dev/null",
        manager.place().display(),
        services.display(),
    );
    let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"));
    let listener = listener.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(OwnedFd::from(listener))
        .stderr(Stdio::null())
        .spawn()
        .expect("there is a shell");
    let told = manager.hears();
    let answer = Client::new(([127, 0, 0, 1], port).into()).ask("GET", "/", "");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert!(told.starts_with("READY=1\n"), "{told}");
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("<h1>Rhythm is running</h1>"));
}
