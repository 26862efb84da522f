//! Nodes that end, as they are told to or as they must, and what they tell of themselves.

use crate::{Client, begin, folder, members, settings, stop};
use rhythm_kv::consensus::server::{Failed, Server, ServerError};
use rhythm_kv::consensus::{EndError, FolderError};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

#[test]
fn an_empty_journal_has_lost_what_was_in_it() {
    let (folder, members) = (folder("keyspace-empty"), members(1));
    let servers = begin(&members, &folder);
    let mut client = Client::new(members[0].client);
    client.ask("set q 0 0 1\r\nx\r\n", "STORED\r\n");
    servers.into_iter().for_each(stop);
    fs::write(folder.join("node-0/journal"), b"").unwrap();
    let refused = Server::start(settings(&members, 0, &folder, false)).err();
    let is_lost = |error: &ServerError| {
        let is_emptied = matches!(error, ServerError::Folder(FolderError::Emptied(_)));
        is_emptied && error.has_forgotten()
    };
    assert!(refused.as_ref().is_some_and(is_lost), "{refused:?}");
}

#[test]
fn a_node_that_forgot_what_it_confirmed_ends() {
    let (folder, members) = (folder("keyspace-forgot"), members(3));
    let mut servers = begin(&members, &folder);
    let mut client = Client::new(members[0].client);
    client.ask("set q 0 0 1\r\nx\r\n", "STORED\r\n");
    let (leader, term) = (client.stat("leader"), client.stat("term"));
    let victim = (1..3).find(|node| members[*node].name != leader).unwrap();
    // It has confirmed as much as the others.
    let mut at_victim = Client::new(members[victim].client);
    at_victim.ask("get q\r\n", "VALUE q 0 1\r\nx\r\nEND\r\n");
    stop(servers.remove(victim));
    fs::remove_dir_all(folder.join(&members[victim].name)).unwrap();
    let anew = Server::start(settings(&members, victim, &folder, true)).unwrap();
    let handle = anew.handle();
    let (joined, end) = channel();
    let join = thread::spawn(move || joined.send(anew.join()));
    let ended = loop {
        match end.recv_timeout(Duration::from_millis(50)) {
            Ok(ended) => break ended,
            Err(_) if client.stat("term") == term => {}
            // This machine stood still, and who leads now cannot know what it had confirmed.
            Err(_) => return handle.stop(),
        }
    };
    join.join().unwrap().unwrap();
    assert!(
        matches!(&ended, Err(failed @ Failed::Node(EndError::Forgotten)) if failed.has_forgotten()),
        "{ended:?}"
    );
    // Nor does it start again, whoever leads then.
    let refused = Server::start(settings(&members, victim, &folder, false)).err();
    assert!(
        refused.as_ref().is_some_and(ServerError::has_forgotten),
        "{refused:?}"
    );
    servers.into_iter().for_each(stop);
}

#[test]
fn who_leads_hands_over_and_answers_before_it_ends() {
    const ASKED: usize = 20;
    let (folder, members) = (folder("keyspace-hand-over"), members(3));
    let mut servers = begin(&members, &folder);
    let mut client = Client::new(members[0].client);
    client.ask("set n 0 0 1\r\n0\r\n", "STORED\r\n");
    let name = client.stat("leader");
    let leader = members
        .iter()
        .position(|member| member.name == name)
        .unwrap();
    let mut of_leader = Client::new(members[leader].client);
    // All of it is taken at once.
    of_leader
        .0
        .write_all("incr n 1\r\n".repeat(ASKED).as_bytes())
        .unwrap();
    assert_eq!(of_leader.line(), "1\r\n");
    let ends = servers.remove(leader);
    ends.handle().leave();
    for number in 2..=ASKED {
        assert_eq!(of_leader.line(), format!("{number}\r\n"));
    }
    assert_eq!(
        of_leader.0.read(&mut [0]).unwrap(),
        0,
        "and then it is closed"
    );
    ends.join().unwrap();
    let mut other = Client::new(members[(leader + 1) % 3].client);
    other.ask("incr n 1\r\n", &format!("{}\r\n", ASKED + 1));
    assert_ne!(other.stat("leader"), name);
    servers.into_iter().for_each(stop);
}

fn told(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn the_admin_listener_tells_of_a_node() {
    let (folder, members) = (folder("keyspace-admin"), members(3));
    let start = |node| {
        let mut settings = settings(&members, node, &folder, true);
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
        Server::start(settings).unwrap()
    };
    let first = start(0);
    let at = first.admin_address().unwrap();
    assert!(told(at, "/healthz").starts_with("HTTP/1.1 200 "));
    // One of three is none.
    let told_ready = told(at, "/readyz");
    assert!(told_ready.starts_with("HTTP/1.1 503 "));
    assert!(told_ready.ends_with("no node leads\n"), "{told_ready}");
    let second = start(1);
    let mut client = Client::new(members[0].client);
    client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    client.ask("lease 60\r\nwatchkeys a\r\n", "LEASE 2\r\nWATCHING 2\r\n");
    assert!(told(at, "/readyz").starts_with("HTTP/1.1 200 "));
    let figures = told(at, "/metrics");
    for (name, value) in [
        (
            "leader",
            client
                .stat("leader")
                .replace("node-0", "1")
                .replace("node-1", "2"),
        ),
        ("term", client.stat("term")),
        ("items", "1".into()),
        ("item_bytes", "2".into()),
        ("leases", "1".into()),
        ("disk_full", "0".into()),
    ] {
        let line = format!("rhythm_keyspace_{name}{{}} {value}.0");
        assert!(
            figures.lines().any(|told| told == line),
            "{line}: {figures}"
        );
    }
    let syncs = figures
        .lines()
        .find(|line| line.starts_with("rhythm_keyspace_sync_seconds_count"));
    let syncs: u64 = syncs.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(syncs > 0, "what was stored is on the disk");
    [first, second].into_iter().for_each(stop);
}
