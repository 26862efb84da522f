use super::*;
use crate::monitor::policy::ByDistance;
use crate::secret::Prover;
use crate::wire::{self, MESSAGE_MAX, Message, Register, VERSION};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const SECRET: &[u8] = b"0123456789abcdef";

/// Less than strangers have to greet: then they would be gone by themselves.
const SOON: Duration = Duration::from_secs(4);

/// A monitor, ended when it is dropped.
struct Running {
    server: Option<Server>,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start() -> Running {
        Running::told_of(None)
    }

    /// One that tells of itself at an address, if one is given.
    fn told_of(admin: Option<SocketAddr>) -> Running {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start(Options {
            listen: ([127, 0, 0, 1], 0).into(),
            state: StatePlace::Folder(folder.path().join("state")),
            trust: Trust::Secret(Secret::of(SECRET)),
            settings: Settings::default(),
            policy: Box::new(ByDistance),
            admin,
            admin_hosts: Vec::new(),
        });
        let server = server.expect("a monitor");
        Running {
            address: server.address(),
            server: Some(server),
            _folder: folder,
        }
    }

    /// A connection from an address of this machine.
    fn connect(&self, host: u8) -> TcpStream {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddr::from(([127, 0, 0, host], 0))).expect("an address");
        connect(&socket, &self.address).expect("the monitor");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(SOON)).expect("a time");
        stream
    }

    /// The connection of a node that the monitor knows.
    fn node(&self, name: &str) -> TcpStream {
        let mut stream = self.connect(1);
        let (version, nonce) = (VERSION, [9; 32]);
        say(&mut stream, &Message::Hello { version, nonce });
        let Message::Challenge { nonce: theirs, .. } = hear(&mut stream) else {
            panic!("it is challenged");
        };
        let proof = Secret::of(SECRET).prove(Prover::Agent, &[&nonce, &theirs]);
        say(&mut stream, &Message::Proof { proof });
        let register = Register {
            name: name.parse().expect("a name"),
            incarnation: 1,
            place: String::new(),
            probe: ([127, 0, 0, 1], 1).into(),
            offers: Vec::new(),
            lent: Vec::new(),
            borrowed: Vec::new(),
        };
        say(&mut stream, &Message::Register(register));
        assert!(matches!(hear(&mut stream), Message::Registered { .. }));
        stream
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.handle().stop();
            let _ = server.join();
        }
    }
}

fn say(stream: &mut TcpStream, message: &Message) {
    let mut bytes = Vec::new();
    wire::put(message, &mut bytes);
    stream.write_all(&bytes).expect("it is sent");
}

/// One message, of which nothing is read beyond its end.
fn hear(stream: &mut TcpStream) -> Message {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the monitor answers");
        bytes.push(byte[0]);
        if let Some((message, _)) = wire::first(&bytes, MESSAGE_MAX).expect("a message") {
            return message;
        }
    }
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let read = stream.peek(&mut [0]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// For both ends of as many connections as a monitor takes, and more.
fn many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("as many as may be");
}

#[test]
fn strangers_keep_no_agent_out_however_many_there_are() {
    many_files();
    let monitor = Running::start();
    let mut first = monitor.node("first");
    let strangers: Vec<TcpStream> = (2..=12)
        .flat_map(|host| [host; 64])
        .map(|host| monitor.connect(host))
        .collect();
    assert!(strangers.len() > CONNECTIONS_MAX);
    monitor.node("second");
    // Who is known makes way for nobody.
    let (offers, links) = (Vec::new(), Vec::new());
    say(&mut first, &Message::Heartbeat { offers, links });
    while !matches!(hear(&mut first), Message::Heard) {}
    until("the first made way", || !is_open(&strangers[0]));
    assert!(is_open(&strangers[strangers.len() - 1]));
}

#[test]
fn strangers_of_one_address_make_way_for_each_other_alone() {
    many_files();
    let monitor = Running::start();
    let other = monitor.connect(2);
    let strangers: Vec<TcpStream> = (0..NODES_MAX + 100).map(|_| monitor.connect(3)).collect();
    let open = || strangers.iter().filter(|it| is_open(it)).count();
    until("the first made way", || open() == NODES_MAX);
    assert!(strangers[100..].iter().all(is_open));
    assert!(is_open(&other));
}

/// What the admin listener says at a path.
fn told(monitor: &Running, path: &str) -> String {
    let server = monitor.server.as_ref().expect("it runs");
    let admin = server.admin_address().expect("it has one");
    let mut stream = TcpStream::connect(admin).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a text");
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
    body.to_owned()
}

#[test]
fn the_dashboard_shows_the_nodes_and_who_is_gone() {
    let monitor = Running::told_of(Some(([127, 0, 0, 1], 0).into()));
    assert!(told(&monitor, "/").starts_with("<!doctype html>"));
    let board = || -> serde_json::Value {
        serde_json::from_str(&told(&monitor, "/dashboard.json")).expect("JSON")
    };
    assert_eq!(board()["state"], "leads");
    assert!(board()["hint"].to_string().contains("No node has come yet"));
    let first = monitor.node("first");
    let shown = board();
    let panel = |id: &str| {
        let mut panels = shown["panels"].as_array().expect("panels").iter();
        panels.find(|panel| panel["id"] == id).expect("it is shown")["parts"][0].clone()
    };
    let connected = &panel("rack")["figures"][0]["value"];
    assert_eq!(*connected, serde_json::json!({"share": [1.0, 1.0]}));
    let row = &panel("nodes")["table"]["rows"][0];
    assert_eq!(row[0]["text"], "first");
    assert_eq!(row[1]["state"][1], "there");
    drop(first);
    until("it is gone", || {
        board()["alarms"][0] == "not connected: first"
    });
}
