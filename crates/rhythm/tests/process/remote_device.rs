//! Pages rendered by devices of other processes: nodes that are killed under load, that lie, and
//! that say nothing.

use crate::server::{NEVER, Server};
use rhythm_etcd::testing::free_places;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn banking() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/banking")
}

/// A `rhythm device`; killed when dropped, as by kill -9.
struct Lender {
    child: Child,
}

impl Lender {
    fn start(at: SocketAddr, flags: &[&str]) -> Lender {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command
            .args(["device", "--listen", &at.to_string()])
            .args(flags);
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        let said = child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let begun = lines.any(|line| line.contains("lending the device"));
        assert!(begun, "it does not lend");
        // What else it says nobody reads; but it must not wait for a reader.
        thread::spawn(move || lines.for_each(drop));
        Lender { child }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A figure of `/metrics`, over all of its labels.
fn figure(server: &Server, name: &str) -> u64 {
    let (status, text) = server.ask_admin("/metrics");
    assert_eq!(status, 200);
    let lines = text.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    });
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Users of the bank for so long; all pages are to be right, and none may fail.
fn load(server: &Server, sessions: usize, seconds: u32) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command
        .arg("load")
        .arg(format!("http://{}", server.address));
    command.args(["--sessions", &sessions.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    // Of a machine that is shared by many, users look at what they see.
    command.args(["--think", "200ms", "--no-files"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn passed(loading: Child) {
    let output = loading.wait_with_output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
}

fn remote(places: &[SocketAddr]) -> String {
    let places: Vec<String> = places.iter().map(SocketAddr::to_string).collect();
    format!("remote={}", places.join(","))
}

const DONE: &str = "rhythm_device_node_stages_total";
const HERE: &str = "rhythm_device_here_stages_total";
const LOST: &str = "rhythm_device_node_lost_total";
const CONNECTIONS: &str = "rhythm_device_node_connections";

#[test]
fn nodes_render_the_bank_and_are_killed_all_the_while() {
    let places = free_places(2);
    let device = remote(&places);
    let server = Server::start(
        &banking(),
        &["--device", &device, "--device-timeout", "10s"],
    );
    // Without any node it serves, too.
    passed(load(&server, 20, 1));
    assert_eq!(figure(&server, DONE), 0);
    assert!(figure(&server, HERE) > 0);
    let mut lenders: Vec<Option<Lender>> = places
        .iter()
        .map(|at| Some(Lender::start(*at, &[])))
        .collect();
    until("both nodes are used by both workers", || {
        figure(&server, CONNECTIONS) == 4
    });
    let here = figure(&server, HERE);
    passed(load(&server, 200, 3));
    let done = figure(&server, DONE);
    assert!(done > 100, "{done}");
    // All of it, but for services that were offered just then.
    assert!(figure(&server, HERE) - here < done / 10);
    let loading = load(&server, 300, 10);
    for round in 0..8 {
        thread::sleep(Duration::from_millis(1000));
        let at = round % 2;
        lenders[at] = None;
        assert_eq!(server.ask_admin("/healthz"), (200, "ok\n".to_owned()));
        thread::sleep(Duration::from_millis(100));
        lenders[at] = Some(Lender::start(places[at], &[]));
    }
    passed(loading);
    let after = figure(&server, DONE);
    assert!(after > done, "nodes are used again: {done}, {after}");
    until("both are used again", || figure(&server, CONNECTIONS) == 4);
    let before = figure(&server, DONE);
    passed(load(&server, 50, 1));
    assert!(figure(&server, DONE) > before);
    eprintln!(
        "{} by nodes, {} here, {} lost and run again",
        figure(&server, DONE),
        figure(&server, HERE),
        figure(&server, LOST)
    );
}

#[test]
fn a_reload_is_rendered_by_nodes_too() {
    let at = free_places(1)[0];
    let _lender = Lender::start(at, &[]);
    let folder = crate::server::service("remote-reload");
    let server = Server::start(&folder, &["--device", &remote(&[at])]);
    let page = folder.join("pages/hello.html");
    let text = fs::read_to_string(&page).expect("a page");
    let greeted = |word: &str| {
        let answer = server.client().ask("GET", "/hello?name=you", "");
        answer.expect("an answer").body == format!("<h1>{word}, you</h1>")
    };
    let rendered = |word: &str| {
        let before = figure(&server, DONE);
        assert!(greeted(word));
        figure(&server, DONE) > before
    };
    until("the node renders", || rendered("Hello"));
    fs::write(&page, text.replace("Hello", "Welcome")).expect("it can be written");
    server.signal(rustix::process::Signal::HUP);
    until("the page is another", || greeted("Welcome"));
    until("the node renders that", || rendered("Welcome"));
    fs::write(&page, text).expect("it can be written");
}

/// Somebody who listens in a node's place, and does with each connection what `act` does. How many
/// there were is counted.
fn listener(act: impl Fn(TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("it is bound");
    let count = Arc::new(AtomicUsize::new(0));
    let (act, counted) = (Arc::new(act), Arc::clone(&count));
    thread::spawn(move || {
        for stream in socket.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let act = Arc::clone(&act);
            thread::spawn(move || act(stream));
        }
    });
    (address, count)
}

/// Goes between a front end and a node; `spoil` has what the node says before the front end does.
/// False: the connection ends.
fn between(
    node: SocketAddr,
    spoil: impl Fn(&mut Vec<u8>) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let (address, _) = listener(move |mut front| {
        let Ok(mut back) = TcpStream::connect(node) else {
            return;
        };
        let (Ok(mut from), Ok(mut to)) = (front.try_clone(), back.try_clone()) else {
            return;
        };
        let forth = thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        // The greeting, which is in a frame of its own.
        let mut length = [0; 4];
        if back.read_exact(&mut length).is_err() {
            return;
        }
        let mut greeting = length.to_vec();
        greeting.resize(4 + u32::from_le_bytes(length) as usize + 4, 0);
        let _ = back.read_exact(&mut greeting[4..]);
        let _ = front.write_all(&greeting);
        let mut head = [0; KIND];
        while back.read_exact(&mut head).is_ok() {
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let mut message = vec![0; length as usize];
            if back.read_exact(&mut message).is_err() {
                break;
            }
            let mut framed = [&head[..], &message].concat();
            let goes_on = spoil(&mut framed);
            if front.write_all(&framed).is_err() || !goes_on {
                break;
            }
        }
        let _ = front.shutdown(std::net::Shutdown::Both);
        let _ = forth.join();
    });
    address
}

/// Where a message's kind is, behind its frame's head (wire/frame.rs), and that of answers
/// (wire/message.rs).
const KIND: usize = 12;
const ANSWER: u8 = 11;
const CORRUPT: &str = "rhythm_device_node_corrupt_total";

/// Has the frame of a message that was changed say what it is.
fn seal(message: &mut [u8]) {
    let (head, body) = message.split_at_mut(KIND);
    head[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[4..8].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    let sum = crc32fast::hash(&head[..8]);
    head[8..].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_node_that_lies_costs_nobody_a_page() {
    let at = free_places(1)[0];
    let _lender = Lender::start(at, &["--cohorts", "16"]);
    const CHANGED: &str = "a bit that is changed on the way";
    type Lie = Box<dyn Fn(&mut Vec<u8>) -> bool + Send + Sync>;
    let of_answers = |lie: fn(&mut Vec<u8>) -> bool| -> Lie {
        Box::new(move |message| message[KIND] != ANSWER || lie(message))
    };
    let lies: Vec<(&str, Lie)> = vec![
        (
            "a token that was not given",
            of_answers(|message| {
                message[KIND + 1..KIND + 9].fill(0x77);
                seal(message);
                true
            }),
        ),
        (
            "a length that is huge",
            of_answers(|message| {
                message[..4].fill(0xff);
                let sum = crc32fast::hash(&message[..8]);
                message[8..KIND].copy_from_slice(&sum.to_le_bytes());
                true
            }),
        ),
        (
            "an answer that is cut",
            of_answers(|message| {
                message.truncate(message.len() / 2);
                false
            }),
        ),
        (
            "states that are none",
            of_answers(|message| {
                message[KIND + 9] = 0x7f;
                seal(message);
                true
            }),
        ),
        (
            "the same answer again",
            of_answers(|message| {
                let twice = message.repeat(2);
                *message = twice;
                true
            }),
        ),
        (
            "noise",
            of_answers(|message| {
                for (index, byte) in message[KIND + 9..].iter_mut().enumerate() {
                    *byte = (index * 7919) as u8;
                }
                seal(message);
                true
            }),
        ),
        (
            CHANGED,
            // Mostly in what users see of the page.
            of_answers(|message| {
                let at = KIND + (message.len() - KIND) * 3 / 4;
                message[at] ^= 1;
                true
            }),
        ),
    ];
    for (lie, spoil) in lies {
        let liar = between(at, spoil);
        let server = Server::start(&banking(), &["--device", &remote(&[liar])]);
        until("it is used", || figure(&server, CONNECTIONS) > 0);
        passed(load(&server, 40, 1));
        assert_eq!(figure(&server, CORRUPT) > 0, lie == CHANGED, "{lie}");
        let why = server.said("a device node is not used");
        assert!(why["fields"]["why"].as_str().is_some(), "{lie}: {why}");
        assert_eq!(
            server.ask_admin("/healthz"),
            (200, "ok\n".to_owned()),
            "{lie}"
        );
    }
}

#[test]
fn a_deaf_node_costs_a_time_out_and_no_page() {
    // One that never says a word, and one that says nothing any more once it has greeted.
    let (silent, tries) = listener(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let at = free_places(1)[0];
    let _lender = Lender::start(at, &[]);
    let is_deaf = Arc::new(AtomicBool::new(true));
    let deaf = Arc::clone(&is_deaf);
    let between = between(at, move |message| {
        if message[KIND] == ANSWER && deaf.load(Ordering::Relaxed) {
            message.clear();
        }
        true
    });
    let device = remote(&[silent, between]);
    let server = Server::start(
        &banking(),
        &["--device", &device, "--device-timeout", "300ms"],
    );
    until("it is used", || figure(&server, CONNECTIONS) > 0);
    passed(load(&server, 40, 2));
    assert!(figure(&server, LOST) > 0);
    until("the silent one is tried again", || {
        tries.load(Ordering::Relaxed) > 2
    });
    let why = server.said_of(|line| {
        let why = line["fields"]["why"].as_str();
        why.is_some_and(|why| why.contains("has not answered for 300ms"))
    });
    assert!(!why.is_null());
    // Once it hears, it is used.
    is_deaf.store(false, Ordering::Relaxed);
    let before = figure(&server, DONE);
    until("it renders", || {
        let answer = server.client().ask("GET", "/bank/login.php", "");
        assert_eq!(answer.expect("an answer").status, 200);
        figure(&server, DONE) > before
    });
}

#[test]
fn a_key_is_wanted_beyond_this_machine_and_both_ends_say_why() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("remote-key");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let key = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("it can be written");
        let only_mine = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, only_mine).expect("it is ours");
        path.to_str().expect("a plain path").to_owned()
    };
    let (good, other) = (
        key("good", "0123456789abcdef"),
        key("other", "fedcba9876543210"),
    );
    let refused = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        let output = command.args(args).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(&["device", "--listen", "0.0.0.0:0"]);
    assert!(
        said.contains("without a key") && said.contains("openssl"),
        "{said}"
    );
    let said = refused(&["device", "--listen", "0.0.0.0:0", "--key", &good]);
    assert!(said.contains("--plain-network"), "{said}");
    let bank = banking();
    let bank = bank.to_str().expect("a plain path");
    let said = refused(&["serve", bank, "--device", "remote=192.0.2.1:7300"]);
    assert!(said.contains("--device-key"), "{said}");
    let said = refused(&["serve", bank, "--device", "remote=nowhere"]);
    assert!(said.contains("HOST:PORT"), "{said}");
    let said = refused(&["serve", bank, "--device-timeout", "1s"]);
    assert!(said.contains("--device remote="), "{said}");

    let at = free_places(1)[0];
    let place = at.to_string();
    let _lender = Lender::start(at, &["--key", &good]);
    let device = format!("remote={place}");
    let check = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.args(["check", bank, "--cohort-size", "7", "--device", &device]);
        let output = command.args(flags).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.success(), said)
    };
    let (is_good, said) = check(&["--device-key", &good]);
    assert!(is_good && said.contains("every byte"), "{said}");
    let (is_good, said) = check(&["--device-key", &other]);
    assert!(
        !is_good && said.contains("does not have this node's key"),
        "{said}"
    );
    let (is_good, said) = check(&[]);
    assert!(!is_good && said.contains("it wants a key"), "{said}");
}
