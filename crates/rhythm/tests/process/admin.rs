//! The admin listener over TLS, for those who show a certificate.

use super::server::{Client, Server, service};
use super::tls::{config_of, make, stream};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with the listener's certificate, and those of two who ask.
fn papers(test: &str) -> (PathBuf, [PathBuf; 3]) {
    let folder = service(test);
    let of = |name: &str| make(&folder, name, &["localhost"]);
    let papers = ["own", "known", "other"].map(of);
    (folder, papers)
}

fn key_of(certificate: &Path) -> PathBuf {
    certificate.with_file_name("key.pem")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The status of what the admin listener answers to who shows this certificate, if anything.
fn asked(server: &Server, trusted: &Path, shown: Option<&Path>) -> Option<u16> {
    let config = config_of(&[trusted], shown.map(|path| (path, key_of(path))));
    let mut client = Client::over(stream(server.admin, "localhost", &config).ok()?);
    // TLS 1.3 tells who is refused behind the greeting.
    client.ask("GET", "/healthz", "").ok().map(|it| it.status)
}

#[test]
fn who_shows_no_certificate_that_is_known_learns_nothing() {
    let (folder, [own, known, other]) = papers("admin_tls");
    let clients = folder.join("clients.pem");
    fs::copy(&known, &clients).expect("a file can be written");
    let key = key_of(&own);
    let flags = [
        "--admin-certificate",
        text(&own),
        "--admin-key",
        text(&key),
        "--admin-client-ca",
        text(&clients),
    ];
    let server = Server::start(&folder, &flags);
    assert_eq!(asked(&server, &own, Some(&known)), Some(200));
    assert_eq!(asked(&server, &own, Some(&other)), None);
    assert_eq!(asked(&server, &own, None), None);
    let plain = Client::new(server.admin).ask("GET", "/healthz", "");
    let plain = plain.expect("an answer");
    assert_eq!(plain.status, 400, "nothing is told without TLS: {plain:?}");
    // A reload takes the files as they are now.
    fs::copy(&other, &clients).expect("a file can be written");
    server.signal(Signal::HUP);
    server.said("the service is reloaded");
    let start = std::time::Instant::now();
    while asked(&server, &own, Some(&other)).is_none() {
        assert!(start.elapsed() < super::NEVER, "it goes by the old files");
    }
    assert_eq!(asked(&server, &own, Some(&known)), None);
    // What is wrong with them changes nothing.
    fs::write(&clients, "none").expect("a file can be written");
    server.signal(Signal::HUP);
    server.said("the admin listener keeps its certificates");
    assert_eq!(asked(&server, &own, Some(&other)), Some(200));
}

#[test]
fn with_a_certificate_alone_whoever_reaches_it_asks_over_tls() {
    let (folder, [own, ..]) = papers("admin_tls_alone");
    let key = key_of(&own);
    let flags = ["--admin-certificate", text(&own), "--admin-key", text(&key)];
    let server = Server::start(&folder, &flags);
    assert_eq!(asked(&server, &own, None), Some(200));
    let plain = Client::new(server.admin).ask("GET", "/healthz", "");
    assert!(plain.is_ok_and(|plain| plain.status == 400 && plain.body.contains("https://")));
    // Half of it is refused, with what is missing.
    for (flags, missing) in [
        (&flags[..2], "say `admin_key`"),
        (&flags[2..], "say `admin_certificate`"),
        (&["--admin-client-ca", text(&own)], "needs TLS"),
        (
            &[flags[0], flags[1], flags[2], "none.pem"],
            "cannot read `admin_key`, none.pem: ",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let run = command.args(flags).arg(&folder).output().expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success());
        let setting = "server.admin_certificate (--admin-certificate): ";
        assert!(said.contains(setting) && said.contains(missing), "{said}");
    }
}
