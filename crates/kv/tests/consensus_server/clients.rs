//! Clients that ask for much, and read little.

use crate::{Client, NEVER, begin, folder, members, settings, stop};
use rhythm_kv::consensus::server::{CLIENTS_MAX, Server};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Nearly as long as a value may be.
const LONG: usize = 250_000;

/// Mebibytes that this process has in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
    kibibytes.parse::<u64>().unwrap() / 1024
}

#[test]
fn who_reads_nothing_is_answered_no_more_than_he_may_hold() {
    const GETS: usize = 64;
    let (folder, members) = (folder("keyspace-unread"), members(1));
    let servers = begin(&members, &folder);
    let mut client = Client::new(members[0].client);
    let value = "x".repeat(LONG);
    client.ask(&format!("set k 0 0 {LONG}\r\n{value}\r\n"), "STORED\r\n");
    let before = resident();
    let crowd = (0..100).map(|_| {
        let mut client = Client::new(members[0].client);
        client
            .0
            .write_all("get k\r\n".repeat(GETS).as_bytes())
            .unwrap();
        client
    });
    let mut crowd: Vec<Client> = crowd.collect();
    // Every one of them has begun to be answered when each has some of it.
    for client in &mut crowd {
        client.hear(&format!("VALUE k 0 {LONG}\r\n"));
    }
    // All answers are 1.6 GB; 1 MiB for each, and a value, are an eighth of that.
    let more = resident().saturating_sub(before);
    assert!(more < 400, "{more} MiB more");
    // Others are not disturbed, and who reads slowly gets everything.
    client.ask("set other 0 0 1\r\nx\r\n", "STORED\r\n");
    let mut slow = crowd.pop().unwrap();
    slow.hear(&format!("{value}\r\nEND\r\n"));
    for _ in 1..GETS {
        slow.hear(&format!("VALUE k 0 {LONG}\r\n{value}\r\nEND\r\n"));
    }
    servers.into_iter().for_each(stop);
}

/// Of three nodes one is there, and can do nothing: of what a crowd asked it keeps some, and all
/// are told when those are that it kept.
#[test]
fn who_waits_for_room_waits_no_longer_than_others() {
    let (folder, members) = (folder("keyspace-stalled"), members(3));
    let server = Server::start(settings(&members, 0, &folder, true)).unwrap();
    let began = Instant::now();
    let value = "x".repeat(LONG);
    // More than it keeps, several times.
    let crowd = (0..200).map(|key| {
        let mut client = Client::new(members[0].client);
        let set = format!("set {key} 0 0 {LONG}\r\n{value}\r\nget {key}\r\n");
        client.0.write_all(set.as_bytes()).unwrap();
        client
    });
    for mut client in crowd.collect::<Vec<_>>() {
        let said = client.line();
        assert!(said.starts_with("SERVER_ERROR most nodes are out of reach, "));
    }
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(12), "{waited:?}");
    stop(server);
}

#[test]
fn nothing_behind_quit_is_executed() {
    let (folder, members) = (folder("keyspace-quit"), members(1));
    let servers = begin(&members, &folder);
    let mut client = Client::new(members[0].client);
    let quit = b"set p 0 0 1\r\nx\r\nquit\r\nset q 0 0 1\r\nx\r\n";
    client.0.write_all(quit).unwrap();
    let mut said = String::new();
    client.0.read_to_string(&mut said).unwrap();
    assert_eq!(said, "STORED\r\n");
    let mut client = Client::new(members[0].client);
    client.ask("get p q\r\n", "VALUE p 0 1\r\nx\r\nEND\r\n");
    servers.into_iter().for_each(stop);
}

#[test]
fn clients_keep_no_nodes_out() {
    let (folder, members) = (folder("keyspace-crowd"), members(3));
    let start = |node| Server::start(settings(&members, node, &folder, true)).unwrap();
    let first = start(0);
    // Clients beyond as many as may be are turned away, and the next find a place in the queue.
    let connect = |_| TcpStream::connect(members[0].client).unwrap();
    let crowd: Vec<TcpStream> = (0..CLIENTS_MAX + 64).map(connect).collect();
    let second = start(1);
    let mut client = Client::new(members[1].client);
    client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    drop(crowd);
    [first, second].into_iter().for_each(stop);
}

#[test]
fn what_a_watch_tells_is_between_answers() {
    const KEYS: usize = 100;
    let (folder, members) = (folder("keyspace-amid"), members(1));
    let servers = begin(&members, &folder);
    let [mut reader, mut writer] = [0; 2].map(|_| Client::new(members[0].client));
    let value = "x".repeat(LONG / 2);
    let keys = (0..KEYS).map(|key| format!("key-{key}"));
    let keys: Vec<String> = keys.collect();
    for key in &keys {
        let length = value.len();
        writer.ask(
            &format!("set {key} 0 0 {length}\r\n{value}\r\n"),
            "STORED\r\n",
        );
    }
    reader.ask("watchkeys key-\r\n", &format!("WATCHING {KEYS}\r\n"));
    let get = format!("get {}\r\n", keys.join(" "));
    reader.0.write_all(get.as_bytes()).unwrap();
    // Its answer has begun, and there is no room for all of it.
    reader.hear("VALUE key-0 0 ");
    writer.ask("set key-7 0 0 1\r\nx\r\n", "STORED\r\n");
    reader.hear(&format!("{}\r\n{value}\r\n", value.len()));
    for key in &keys[1..] {
        let begin = reader.line();
        assert!(begin.starts_with(&format!("VALUE {key} 0 ")), "{begin}");
        let length: usize = begin
            .trim_end()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        reader.take(length + 2);
    }
    reader.hear("END\r\nCHANGED key-7 101 set\r\n");
    servers.into_iter().for_each(stop);
}

#[test]
fn one_watch_too_many_is_refused_and_ends_none() {
    const WATCHES: usize = 16;
    let (folder, members) = (folder("keyspace-watches"), members(1));
    let servers = begin(&members, &folder);
    let [mut watcher, mut other] = [0; 2].map(|_| Client::new(members[0].client));
    for watch in 0..WATCHES {
        watcher.ask(&format!("watchkeys {watch:02}/\r\n"), "WATCHING 0\r\n");
    }
    let refused = "SERVER_ERROR out of memory storing object\r\n";
    watcher.ask("watchkeys other/\r\n", refused);
    // That one there is already.
    watcher.ask("watchkeys 00/\r\n", "WATCHING 0\r\n");
    other.ask("set other/k 0 0 1\r\nx\r\n", "STORED\r\n");
    other.ask("set 00/k 0 0 1\r\nx\r\n", "STORED\r\n");
    watcher.hear("CHANGED 00/k 2 set\r\n");
    servers.into_iter().for_each(stop);
}

#[test]
fn a_stranger_at_the_backbone_holds_little_and_is_told_at_once() {
    let (folder, members) = (folder("keyspace-stranger"), members(1));
    let servers = begin(&members, &folder);
    let mut stranger = TcpStream::connect(members[0].backbone).unwrap();
    stranger.set_read_timeout(Some(NEVER)).unwrap();
    // No more than the beginning of a frame as long as a snapshot's.
    stranger.write_all(&(20_u32 << 20).to_le_bytes()).unwrap();
    let mut told = Vec::new();
    stranger.read_to_end(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("the form of messages="), "{told}");
    servers.into_iter().for_each(stop);
}

/// A client of the binary protocol waits for a packet, and would wait for ever.
#[test]
fn who_speaks_the_binary_protocol_is_told_in_it_that_it_is_not_spoken() {
    let (folder, members) = (folder("keyspace-binary"), members(1));
    let servers = begin(&members, &folder);
    let mut request = [0; 24];
    // A version, with an opaque of the client's.
    (request[0], request[1]) = (0x80, 0x0b);
    request[12..16].copy_from_slice(b"mine");
    // Whole, and as little of it as says what it is; and behind what was understood.
    for (before, sent, opcode, opaque) in [
        ("", &request[..], 0x0b, b"mine"),
        ("", &request[..1], 0, &[0; 4]),
        ("set a 0 0 1\r\nx\r\n", &request[..], 0x0b, b"mine"),
    ] {
        let mut client = Client::new(members[0].client);
        if !before.is_empty() {
            client.ask(before, "STORED\r\n");
        }
        client.0.write_all(sent).unwrap();
        let mut said = Vec::new();
        client.0.read_to_end(&mut said).unwrap();
        let (head, text) = said.split_at(24);
        let length = u32::from_be_bytes(head[8..12].try_into().unwrap());
        assert_eq!(head[..8], [0x81, opcode, 0, 0, 0, 0, 0, 0x81]);
        assert_eq!((length as usize, &head[12..16]), (text.len(), &opaque[..]));
        assert!(text.starts_with(b"this keyspace speaks memcached's text"));
    }
    servers.into_iter().for_each(stop);
}
