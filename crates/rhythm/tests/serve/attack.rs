//! `rhythm bench attack` tells what it does to a server, and what others feel of it.

use super::server::*;
use std::process::{Command, Output};

fn attack(server: &str, page: &str, flags: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["bench", "attack", "--server", server, "--duration", "100ms"]);
    command.args(["--page", page, "--file", "/static/a.css"]);
    let output = command.args(flags).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("it is built");
    let said = [stdout, stderr].concat();
    (status.success(), String::from_utf8(said).expect("text"))
}

#[test]
fn each_attack_is_made_and_what_others_felt_is_told() {
    let folder = service("attacked", "");
    let page = "+++\nroute = \"GET /big\"\n+++\n".to_owned() + &"much ".repeat(400_000);
    write(&folder.join("pages/big.html"), page);
    let server = Server::start(&folder, &[]);
    let pid = server.child.id().to_string();
    let flags = ["--connections", "4", "--pid", &pid, "--big-page", "/big"];
    let flags = [&flags[..], &["--sign-in", "/hello"]].concat();
    let (is_well, said) = attack(&server.address, "/hello", &flags);
    assert!(is_well, "{said}");
    let attacks = [
        "unread-pages",
        "unread-files",
        "big-pages",
        "pipelined",
        "slow-heads",
        "slow-bodies",
        "half-requests",
        "expectations",
        "guesses",
        "garbage",
        "churn",
        "crowds",
    ];
    for name in attacks {
        let at = said.lines().position(|line| line.starts_with(name));
        let at = at.unwrap_or_else(|| panic!("no {name}: {said}"));
        let mut rows = said.lines().skip(at);
        let page: Vec<&str> = rows
            .next()
            .expect("it is there")
            .split_whitespace()
            .collect();
        let file: Vec<&str> = rows.next().expect("its file").split_whitespace().collect();
        // It did something, to who is named, and the server has memory.
        assert_ne!(page[1], "0", "{said}");
        assert_eq!((page[2], file[0]), ("hello", "a.css"), "{said}");
        assert_eq!(page.last(), Some(&"MB"), "{said}");
    }
    assert_eq!(
        (said.lines())
            .filter(|line| !line.contains("not let in"))
            .count(),
        2 + 2 * attacks.len(),
        "nothing failed: {said}"
    );
    assert!(server.get("/hello").ends_with("Hello!"));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let server = Server::start(&service("unattacked", ""), &[]);
    let (is_well, said) = attack(&server.address, "/nothing", &["churn"]);
    assert!(
        !is_well && said.contains("/nothing is not answered with status 200"),
        "{said}"
    );
    assert!(said.contains("status 404"), "{said}");
    let (is_well, said) = attack(&server.address, "/hello", &["big-pages"]);
    assert!(!is_well && said.contains("--big-page"), "{said}");
    let (is_well, said) = attack("192.0.2.1:80", "/hello", &["churn"]);
    assert!(
        !is_well && said.contains("may be another machine"),
        "{said}"
    );
}
