//! `rhythm serve`, as it runs: what a folder may hold, and signals whatever hangs.

mod attack;
mod compare;
mod documented;
mod files;
mod logs;
mod server;

use rustix::process::Signal;
use server::*;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

#[test]
fn signals_are_obeyed_whatever_hangs() {
    let folder = service("hangs", "");
    let log = folder.join("log");
    fifo(&log);
    // Somebody has it open, and never reads it.
    let _reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&log)
        .expect("a FIFO");
    let flags = [
        "--access-log",
        log.to_str().expect("a plain path"),
        "--drain-timeout",
        "1s",
    ];
    let server = Server::start(&folder, &flags);
    // More than a pipe holds.
    let mut client = TcpStream::connect(&server.address).expect("it listens");
    let request = "GET /static/a.css HTTP/1.1\r\nHost: x\r\n\r\n";
    for _ in 0..100 {
        client
            .write_all(request.repeat(40).as_bytes())
            .expect("it reads");
        let mut left = 40;
        let mut answers = BufReader::new(&client);
        while left > 0 {
            let mut line = String::new();
            answers.read_line(&mut line).expect("it answers");
            left -= line.matches("HTTP/1.1 200").count();
        }
        // What is left of the last answer.
        answers.fill_buf().expect("it answers");
    }
    // A folder that holds what never ends is refused, and what follows is obeyed.
    fifo(&folder.join("static/fifo"));
    server.signal(Signal::HUP);
    let said = server.line("cannot be reloaded");
    assert!(said.contains("static/fifo is a FIFO"), "{said}");
    server.signal(Signal::USR1);
    assert!(get(&server.admin, "/healthz").starts_with("HTTP/1.1 200"));
    fs::remove_file(folder.join("static/fifo")).expect("it is there");
    server.signal(Signal::HUP);
    server.line("the service is reloaded");
    server.signal(Signal::TERM);
    drop(client);
    assert!(server.ends());
}
