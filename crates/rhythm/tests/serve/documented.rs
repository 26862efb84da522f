//! The small service of docs/pages.md does what is said of it.

use crate::server::*;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The files that the section shows: each an indented block below a line with its name.
fn files() -> Vec<(String, String)> {
    let pages = include_str!("../../../../docs/pages.md");
    let (_, section) = pages
        .split_once("\n## A small service\n")
        .expect("it is there");
    let (section, _) = section.split_once("\n## ").expect("others follow");
    let mut files: Vec<(String, String)> = Vec::new();
    for line in section.lines() {
        if let Some((name, _)) = line.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
            files.push((name.to_owned(), String::new()));
        } else if let Some((_, text)) = files.last_mut()
            && (line.is_empty() || line.starts_with("    "))
        {
            // The one between its name and the block is not the file's.
            if !(line.is_empty() && text.is_empty()) {
                *text += line.strip_prefix("    ").unwrap_or_default();
                text.push('\n');
            }
        }
    }
    files.retain(|(name, _)| name.ends_with(".toml") || name.ends_with(".html"));
    files
}

/// Posts a form; the whole answer.
fn post(address: &str, path: &str, form: &str) -> String {
    ask(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ),
    )
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn the_small_service_signs_in_and_shows_accounts() {
    let folder = service("documented", "");
    for other in ["pages/hello.html", "static/a.css"] {
        fs::remove_file(folder.join(other)).expect("it is there");
    }
    let files = files();
    assert_eq!(files.len(), 4, "{files:?}");
    for (name, text) in &files {
        write(&folder.join(name), text);
    }
    assert_eq!(check(&folder), (true, String::new()));

    let server = Server::start(&folder, &[]);
    let answer = server.get("/");
    assert!(answer.contains("\r\nLocation: /accounts\r\n"), "{answer}");
    let answer = server.get("/accounts");
    assert!(answer.contains("<p>Please sign in.</p>"), "{answer}");
    for form in ["user=42&password=secret-43", "user=a&password=b", ""] {
        let answer = post(&server.address, "/sign_in", form);
        assert!(answer.starts_with("HTTP/1.1 200"), "{form}: {answer}");
        assert!(answer.contains("Please try again."), "{form}: {answer}");
    }
    let answer = post(&server.address, "/sign_in", "user=42&password=secret-42");
    assert!(answer.contains("\r\nLocation: /accounts\r\n"), "{answer}");
    let cookie = (answer.lines()).find_map(|line| line.strip_prefix("Set-Cookie: "));
    let cookie = cookie.and_then(|cookie| cookie.split(';').next());
    let request = format!(
        "GET /accounts HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: {}\r\n\r\n",
        server.address,
        cookie.expect("a cookie")
    );
    let answer = ask(&server.address, &request);
    assert!(answer.contains("<h1>Accounts of 42</h1>\n<p>"), "{answer}");
}
