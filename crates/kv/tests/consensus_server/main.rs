//! Nodes of a keyspace with sockets and folders, in one process: what is written at one is read at
//! another, locks end with their lease, watches tell, and a node goes on from its folder.
#![cfg(feature = "consensus")]

mod clients;
mod ending;
mod otherwise;

use rhythm_kv::consensus::server::{Member, Server, ServerError, Settings};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    // Of an earlier run.
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn members(count: usize) -> Vec<Member> {
    // Each has to know all addresses before any of them listens.
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<TcpListener> = (0..2 * count).map(|_| free()).collect();
    let at = |index: usize| listeners[index].local_addr().unwrap();
    let member = |node: usize| Member {
        name: format!("node-{node}"),
        client: at(2 * node),
        backbone: at(2 * node + 1),
        place: at(2 * node + 1).to_string(),
    };
    (0..count).map(member).collect()
}

fn settings(members: &[Member], me: usize, folder: &Path, begin: bool) -> Settings {
    Settings {
        members: members.to_vec(),
        me,
        folder: folder.join(&members[me].name),
        begin,
        admin: None,
        admin_hosts: Vec::new(),
    }
}

/// All nodes, begun.
fn begin(members: &[Member], folder: &Path) -> Vec<Server> {
    let start = |node| Server::start(settings(members, node, folder, true)).unwrap();
    (0..members.len()).map(start).collect()
}

struct Client(TcpStream);

impl Client {
    fn new(at: SocketAddr) -> Client {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        Client(stream)
    }

    /// What is said to these commands: so much as is expected.
    #[track_caller]
    fn ask(&mut self, command: &str, expected: &str) {
        self.0.write_all(command.as_bytes()).unwrap();
        self.hear(expected);
    }

    #[track_caller]
    fn hear(&mut self, expected: &str) {
        assert_eq!(self.take(expected.len()), expected);
    }

    /// The next so many bytes.
    fn take(&mut self, count: usize) -> String {
        let mut said = vec![0; count];
        self.0.read_exact(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// A line.
    fn line(&mut self) -> String {
        let mut said = String::new();
        while !said.ends_with("\r\n") {
            said.push_str(&self.take(1));
        }
        said
    }

    /// What `stats` tells of this.
    fn stat(&mut self, name: &str) -> String {
        self.0.write_all(b"stats\r\n").unwrap();
        let mut found = None;
        loop {
            let line = self.line();
            match line.trim_end().split(' ').collect::<Vec<_>>()[..] {
                ["END"] => return found.unwrap(),
                ["STAT", of, value] if of == name => found = Some(value.to_owned()),
                _ => {}
            }
        }
    }
}

fn stop(server: Server) {
    server.handle().stop();
    server.join().unwrap();
}

#[test]
fn three_nodes_are_one_keyspace() {
    let (folder, members) = (folder("keyspace-three"), members(3));
    let servers = begin(&members, &folder);
    let mut clients = members.iter().map(|member| Client::new(member.client));
    let [mut a, mut b, mut c] = std::array::from_fn(|_| clients.next().unwrap());
    // While nobody leads yet, it waits.
    a.ask("set config 3 0 5\r\nfirst\r\n", "STORED\r\n");
    b.ask("gets config\r\n", "VALUE config 3 5 1\r\nfirst\r\nEND\r\n");
    // A read behind a write shows it, in one go, too.
    c.ask(
        "cas config 0 0 6 1\r\nsecond\r\nget config none\r\ncas config 0 0 1 1\r\nx\r\n",
        "STORED\r\nVALUE config 0 6\r\nsecond\r\nEND\r\nEXISTS\r\n",
    );
    b.ask("mg config v c\r\nmn\r\n", "VA 6 c2\r\nsecond\r\nMN\r\n");
    a.ask("watchkeys lock/\r\n", "WATCHING 2\r\n");
    // What is stored behind a lease in one go is in it.
    b.ask(
        "lease 3600\r\nadd lock/x 0 0 1\r\nb\r\n",
        "LEASE 3\r\nSTORED\r\n",
    );
    c.ask("add lock/x 0 0 1\r\nc\r\n", "NOT_STORED\r\n");
    c.ask(
        "set other 0 0 1\r\nx\r\nattach 3\r\nadd lock/y 0 0 1\r\nc\r\n",
        "STORED\r\nATTACHED\r\nSTORED\r\n",
    );
    a.hear("CHANGED lock/x 4 set\r\nCHANGED lock/y 6 set\r\n");
    a.ask("end 3\r\n", "ENDED\r\n");
    a.hear("CHANGED lock/x 7 delete\r\nCHANGED lock/y 8 delete\r\n");
    b.ask("keepalive\r\n", "NOT_FOUND\r\n");
    b.ask(
        "add lock/x 0 0 1\r\nb\r\n",
        "SERVER_ERROR the lease is over, nothing was done\r\n",
    );
    b.ask(
        "detach\r\nincr none 1\r\nset n 0 0 1\r\n7\r\nincr n 5\r\n",
        "DETACHED\r\nNOT_FOUND\r\nSTORED\r\n12\r\n",
    );
    b.ask(
        "delete n\r\nflush_all\r\n",
        "DELETED\r\nCLIENT_ERROR this keyspace has no such command\r\n",
    );
    servers.into_iter().for_each(stop);
}

#[test]
fn a_node_goes_on_from_its_folder() {
    let (folder, members) = (folder("keyspace-folder"), members(1));
    let start = |begin| Server::start(settings(&members, 0, &folder, begin));
    assert!(matches!(start(false), Err(ServerError::Folder(_))));
    let mut begin = true;
    for round in 0..3 {
        let server = start(begin).unwrap();
        let mut client = Client::new(members[0].client);
        let (count, all) = (round + 1, "x".repeat(round + 1));
        let command = match begin {
            true => "set k 0 0 1\r\nx\r\n",
            false => "append k 0 0 1\r\nx\r\n",
        };
        client.ask(command, "STORED\r\n");
        client.ask(
            "get k\r\n",
            &format!("VALUE k 0 {count}\r\n{all}\r\nEND\r\n"),
        );
        stop(server);
        begin = false;
    }
    assert!(matches!(start(true), Err(ServerError::Folder(_))));
}

#[test]
fn a_lease_ends_without_a_sign_of_life() {
    let (folder, members) = (folder("keyspace-lease"), members(1));
    let servers = begin(&members, &folder);
    let [mut holder, mut watcher] = [0; 2].map(|_| Client::new(members[0].client));
    watcher.ask("watchkeys lock\r\n", "WATCHING 0\r\n");
    // It may be over before anything is stored in it, where this machine stands still.
    loop {
        let ask = b"lease 1\r\nadd lock 0 0 1\r\nx\r\n";
        holder.0.write_all(ask).unwrap();
        assert!(holder.line().starts_with("LEASE "));
        match &holder.line()[..] {
            "STORED\r\n" => break,
            said => assert_eq!(said, "SERVER_ERROR the lease is over, nothing was done\r\n"),
        }
    }
    let (set, deleted) = (watcher.line(), watcher.line());
    assert!(set.starts_with("CHANGED lock ") && set.ends_with(" set\r\n"));
    assert!(deleted.starts_with("CHANGED lock ") && deleted.ends_with(" delete\r\n"));
    holder.ask("keepalive\r\n", "NOT_FOUND\r\n");
    servers.into_iter().for_each(stop);
}
