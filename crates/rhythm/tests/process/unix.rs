//! Clients at Unix sockets, as a proxy on the same machine is one.

use crate::server::{Client, Server, service};
use rustix::process::Signal;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A path for a socket, of this test alone, that is short enough.
fn socket(test: &str) -> PathBuf {
    let name = format!("rhythm-{}-{test}.sock", std::process::id());
    std::env::temp_dir().join(name)
}

fn flag(path: &Path) -> String {
    format!("unix:{}", path.display())
}

#[test]
fn unix_sockets_and_addresses_are_listened_on_together() {
    let (folder, path) = (service("unix"), socket("site"));
    // What a process that died has left.
    drop(UnixListener::bind(&path).expect("a free path"));
    let log = folder.join("access.log");
    let _ = fs::remove_file(&log);
    let log_flag = log.display().to_string();
    let listen = flag(&path);
    // All of a proxy's clients have one connection each here, and no address that would count.
    fs::write(
        folder.join("service.toml"),
        "[limits]\nconnections_per_address_max = 2\n[server]\nsocket_mode = \"606\"\n",
    )
    .expect("a file can be written");
    let flags = ["--listen", &listen, "--access-log", &log_flag];
    let server = Server::start(&folder, &flags);
    let mode = fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o606);
    let mut clients: Vec<Client> = (0..5).map(|_| Client::at(&path)).collect();
    for client in &mut clients {
        let answer = client
            .ask("POST", "/hello", "name=unix")
            .expect("an answer");
        assert_eq!(answer.body, "<h1>Hello, unix</h1>");
    }
    let mut at_port = server.client();
    assert_eq!(
        at_port.ask("GET", "/hello", "").expect("an answer").status,
        200
    );
    let (_, config) = server.ask_admin("/config");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    let listens = config["settings"]["server"]["listen"].as_str();
    assert!(
        listens.is_some_and(|all| all.ends_with(&listen)),
        "{listens:?}"
    );

    let second = Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .arg("serve")
        .arg(&folder)
        .args(["--listen", &listen, "--no-admin"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr);
    let told = "is in use: another process listens there; stop it or choose another path";
    assert!(!second.status.success() && said.contains(told), "{said}");

    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!path.exists(), "who made it removes it");
    let lines = fs::read_to_string(&log).expect("there is a log");
    let starting = |with: &str| lines.lines().filter(|line| line.starts_with(with)).count();
    assert_eq!(
        (starting("unix - - "), starting("127.0.0.1 - - ")),
        (5, 1),
        "{lines}"
    );
}

#[test]
fn the_admin_listener_may_be_at_a_unix_socket() {
    let path = socket("admin");
    let script = format!(
        "exec \"$0\" $(echo \"$@\" | sed 's|--admin [^ ]*|--admin {}|')",
        flag(&path)
    );
    let server = Server::start_by(&script, Stdio::null(), &service("unix-admin"), &[]);
    let answer = Client::at(&path)
        .ask("GET", "/healthz", "")
        .expect("an answer");
    assert_eq!((answer.status, &*answer.body), (200, "ok\n"));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!path.exists());
}

#[test]
fn a_unix_socket_that_was_passed_is_listened_on_and_stays() {
    let path = socket("passed");
    let listener = UnixListener::bind(&path).expect("a free path");
    let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 0</dev/null";
    let input: Stdio = OwnedFd::from(listener).into();
    let server = Server::start_by(script, input, &service("unix-passed"), &[]);
    let serving = server.said("serving");
    assert_eq!(serving["fields"]["address"], flag(&path));
    let answer = Client::at(&path)
        .ask("GET", "/hello?name=a", "")
        .expect("an answer");
    assert_eq!(answer.body, "<h1>Hello, a</h1>");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(path.exists(), "it is whose who made it");
    fs::remove_file(&path).expect("it is there");
}
