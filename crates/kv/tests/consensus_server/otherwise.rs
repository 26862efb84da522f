//! Nodes that were told of different addresses of one node.

use super::{NEVER, folder, members, settings, stop};
use rhythm_kv::consensus::server::{Server, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn readyz(server: &Server) -> String {
    let at = server.admin_address().expect("an admin listener");
    let mut stream = TcpStream::connect(at).expect("it listens");
    let asked = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    stream.write_all(asked).expect("it reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers");
    said
}

#[test]
fn who_was_told_of_another_address_says_which_and_who_was_not() {
    let (folder, members) = (folder("keyspace-otherwise"), members(4));
    let (three, other) = (&members[..3], members[3].backbone);
    let start = |me: usize| {
        let mut told = three.to_vec();
        if me == 2 {
            (told[0].backbone, told[0].place) = (other, other.to_string());
            told[0].place = other.to_string();
        }
        let settings = Settings {
            admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            ..settings(&told, me, &folder, true)
        };
        Server::start(settings).expect("it starts")
    };
    let servers: Vec<Server> = (0..3).map(start).collect();
    let (here, there) = (other, three[0].backbone);
    // Of whichever of the others it has heard that.
    let differs = format!(
        " was told something else: node 1 of the file is node-0 {here} here, and node-0 {there} \
         there"
    );
    let start = Instant::now();
    loop {
        let said: Vec<String> = servers.iter().map(readyz).collect();
        let are_ready = said[..2]
            .iter()
            .all(|said| said.starts_with("HTTP/1.1 200"));
        if are_ready && said[2].starts_with("HTTP/1.1 503") && said[2].contains(&differs) {
            break;
        }
        assert!(start.elapsed() < NEVER, "{said:?}");
        thread::sleep(Duration::from_millis(20));
    }
    servers.into_iter().for_each(stop);
}

/// One of the two cannot tell the other from anybody else, nor reach it.
#[test]
fn both_say_that_they_were_told_something_else_though_one_does_not_reach_the_other() {
    let (folder, members) = (folder("keyspace-otherwise-both"), members(3));
    let (two, nowhere) = (&members[..2], members[2].backbone);
    let start = |me: usize| {
        let mut told = two.to_vec();
        if me == 0 {
            (told[1].backbone, told[1].place) = (nowhere, nowhere.to_string());
        }
        let settings = Settings {
            admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            ..settings(&told, me, &folder, true)
        };
        Server::start(settings).expect("it starts")
    };
    let servers: Vec<Server> = (0..2).map(start).collect();
    let says = [
        format!(
            "no node leads; node-1 was told something else: node 2 of the file is node-1 {nowhere} \
             here, and node-1 {} there",
            two[1].backbone
        ),
        format!(
            "no node leads; node-0 was told something else: node 2 of the file is node-1 {} here, \
             and node-1 {nowhere} there",
            two[1].backbone
        ),
    ];
    for (server, says) in servers.iter().zip(says) {
        until_says(server, &says);
    }
    servers.into_iter().for_each(stop);
}

fn until_says(server: &Server, says: &str) {
    let start = Instant::now();
    while !readyz(server).contains(says) {
        assert!(
            start.elapsed() < NEVER,
            "{}, and not {says}",
            readyz(server)
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_that_nobody_follows_says_whom_it_does_not_reach() {
    let (folder, members) = (folder("keyspace-unreached"), members(3));
    let settings = Settings {
        admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..settings(&members, 0, &folder, true)
    };
    let server = Server::start(settings).expect("it starts");
    let [b, c] = [members[1].backbone, members[2].backbone];
    let says = format!(
        "no node leads; not reached: node-1 at {b}, node-2 at {c}; where they are on other \
         machines, the file needs addresses by which they are reached from here"
    );
    until_says(&server, &says);
    stop(server);
}
