//! Addresses with passwords come from outside of service.toml, and are shown nowhere.

use super::database::Database;
use super::{TABLES, notes};
use crate::server::Server;
use crate::site::until;
use crate::sqlite::get;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The password of databases, as a URL has it.
const ENCODED: &str = "it%27s%20a%20%25%20riddle%3A%20%C3%A9";

/// The address of a database, with this password.
fn url(database: &Database, password: &str) -> String {
    let url = database.url();
    url.replacen('@', &format!(":{password}@"), 1)
}

fn with_settings(folder: &Path, settings: &str) {
    let service = format!("[backend.board]\nkind = \"postgres\"\n{settings}\n");
    fs::write(folder.join("service.toml"), service).unwrap();
}

/// What `rhythm check` says with these flags, and whether it is content, with a variable set.
fn check(folder: &Path, flags: &[&str], variable: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.arg("check").arg(folder).args(flags);
    command.env("RHYTHM_TEST_BOARD", variable);
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr) + String::from_utf8_lossy(&run.stdout);
    (run.status.success(), said.into_owned())
}

#[test]
fn a_variable_has_the_address() {
    let database = Database::start("pg_variable", &[]);
    database.carry_out(TABLES);
    let folder = notes("pg_variable", "");
    with_settings(&folder, "url = \"${RHYTHM_TEST_BOARD}\"");
    let right = url(&database, ENCODED);
    let script = format!("RHYTHM_TEST_BOARD='{right}' exec \"$0\" \"$@\"");
    let server = Server::start_by(&script, Stdio::null(), &folder, &[]);
    until(&server, "/", 200);
    let (status, config) = server.ask_admin("/config");
    assert_eq!(status, 200);
    assert!(config.contains("${RHYTHM_TEST_BOARD}"), "{config}");
    assert!(!config.contains("riddle"), "{config}");

    let (good, said) = check(&folder, &["--backends"], &right);
    assert!(
        good && said.contains("board (postgres) can be asked"),
        "{said}"
    );
    let (_, said) = check(&folder, &["--print", "settings"], &right);
    assert!(said.contains("${RHYTHM_TEST_BOARD}"), "{said}");
    assert!(!said.contains("riddle"), "{said}");
    // Another password, a server that is not there, no address, and no variable.
    let wrong = url(&database, "guessed");
    let (good, said) = check(&folder, &["--backends"], &wrong);
    assert!(
        !good && said.contains("28P01") && !said.contains("guessed"),
        "{said}"
    );
    let (good, said) = check(
        &folder,
        &["--backends"],
        "postgres://me:guessed@127.0.0.1:1/x",
    );
    assert!(
        !good && said.contains("refused") && !said.contains("guessed"),
        "{said}"
    );
    let (good, said) = check(&folder, &[], "guessed");
    assert!(!good && said.contains("service.toml:3:8"), "{said}");
    assert!(!said.contains("guessed"), "{said}");
    with_settings(&folder, "url = \"${RHYTHM_TEST_NO_BOARD}\"");
    let (good, said) = check(&folder, &[], "");
    assert!(
        !good && said.contains("RHYTHM_TEST_NO_BOARD of the environment is not set"),
        "{said}"
    );
    // Nor is one written out.
    with_settings(&folder, &format!("url = \"{right}\""));
    let (good, said) = check(&folder, &[], "");
    assert!(
        !good && said.contains("url_file") && !said.contains("riddle"),
        "{said}"
    );
}

#[test]
fn a_file_has_the_address_and_is_read_again() {
    let database = Database::start("pg_file", &[]);
    database.carry_out(TABLES);
    let folder = notes("pg_file", "");
    with_settings(&folder, "url_file = \"address\"");
    fs::write(folder.join("address"), url(&database, "guessed")).unwrap();
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/").0, 502);
    fs::write(folder.join("address"), url(&database, ENCODED)).unwrap();
    server.signal(Signal::HUP);
    server.said("is reloaded");
    until(&server, "/", 200);
    let (_, config) = server.ask_admin("/config");
    assert!(config.contains("\"url_file\": \"address\""), "{config}");
    assert!(!config.contains("riddle"), "{config}");
    let (_, said) = check(&folder, &["--print", "settings"], "");
    assert!(
        said.contains("url_file = \"address\"") && !said.contains("riddle"),
        "{said}"
    );
}
