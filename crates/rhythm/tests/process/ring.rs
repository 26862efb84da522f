//! `rhythm kv --ring`: three processes, of which one after the other is killed under load. Every
//! write that was confirmed is there, whoever died, and it says how long nobody served its keys.
//!
//! `RHYTHM_KILLS=200` kills so many; without it each node once.

use crate::number;
use crate::server::NEVER;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Clients at a time, and keys of each.
const CLIENTS: usize = 4;
const KEYS: u64 = 200;
/// How long a write may be on its way whose client was told nothing.
const FLOATS: Duration = Duration::from_secs(2);

pub(crate) struct Ring<'a> {
    file: PathBuf,
    replicate: &'static str,
    clients: Vec<SocketAddr>,
    /// The command of a node, up to `kv`.
    command: Box<dyn Fn(usize) -> Command + 'a>,
    nodes: Vec<Option<Child>>,
}

impl<'a> Ring<'a> {
    /// Starts all nodes on this machine.
    fn start(test: &str, replicate: &'static str) -> Ring<'static> {
        // Each has to know all addresses before any of them listens.
        let free = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let listeners: Vec<TcpListener> = (0..6).map(|_| free()).collect();
        let places = listeners.iter().map(|one| one.local_addr().expect("bound"));
        let places: Vec<SocketAddr> = places.collect();
        let (clients, backbones) = places.split_at(3);
        let places = clients.iter().copied().zip(backbones.iter().copied());
        let places: Vec<_> = places.collect();
        drop(listeners);
        Ring::start_at(test, &places, replicate, |_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
            command.args(["kv", "-l", "127.0.0.1"]);
            command
        })
    }

    /// Starts nodes that clients and other nodes reach at these places.
    pub(crate) fn start_at(
        test: &str,
        places: &[(SocketAddr, SocketAddr)],
        replicate: &'static str,
        command: impl Fn(usize) -> Command + 'a,
    ) -> Ring<'a> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let mut text = String::new();
        for (name, (client, backbone)) in NAMES.iter().zip(places) {
            text += &format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            );
        }
        let file = folder.join("ring.toml");
        fs::write(&file, text).expect("a file can be written");
        let mut ring = Ring {
            file,
            replicate,
            clients: places.iter().map(|(client, _)| *client).collect(),
            command: Box::new(command),
            nodes: vec![None, None, None],
        };
        for node in 0..3 {
            File::create(ring.log(node)).expect("a file can be made");
            ring.begin(node);
        }
        ring.until_whole();
        ring
    }

    fn log(&self, node: usize) -> PathBuf {
        self.file.with_file_name(format!("{}.log", NAMES[node]))
    }

    fn begin(&mut self, node: usize) {
        let mut command = (self.command)(node);
        command.arg("--ring").arg(&self.file);
        command.args(["--node", NAMES[node], "--replicate", self.replicate]);
        command.args(["-t", "2"]);
        // What it says is kept beside the file of the ring, for who wants to know what went on.
        let log = fs::OpenOptions::new().append(true).open(self.log(node));
        let child = command.stderr(log.expect("it is there")).spawn();
        self.nodes[node] = Some(child.expect("it starts"));
    }

    fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.nodes[node].take() {
            child.kill().expect("it is there");
            child.wait().expect("it ends");
        }
    }

    /// Waits until all nodes are there and serve what is theirs.
    fn until_whole(&self) {
        let start = Instant::now();
        let mut status = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        status.args(["kv", "ring", "status"]).arg(&self.file);
        loop {
            let output = status.output().expect("it starts");
            if output.status.success() {
                return;
            }
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(start.elapsed() < NEVER, "{said}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        (0..3).for_each(|node| self.kill(node));
    }
}

/// A client of all nodes.
struct Client<'a> {
    places: &'a [SocketAddr],
    streams: Vec<Option<BufReader<TcpStream>>>,
}

impl Client<'_> {
    fn new(places: &[SocketAddr]) -> Client<'_> {
        let streams = places.iter().map(|_| None).collect();
        Client { places, streams }
    }

    /// The first line of the answer, and what follows it; none where the node gave none.
    fn ask(&mut self, node: usize, command: &str) -> Option<(String, Vec<u8>)> {
        let answer = self.try_ask(node, command);
        if answer.is_err() {
            self.streams[node] = None;
        }
        answer.ok()
    }

    fn try_ask(&mut self, node: usize, command: &str) -> std::io::Result<(String, Vec<u8>)> {
        let stream = match &mut self.streams[node] {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect(self.places[node])?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(NEVER))?;
                none.insert(BufReader::new(stream))
            }
        };
        stream.get_mut().write_all(command.as_bytes())?;
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let mut value = Vec::new();
        if let Some(length) = line.strip_prefix("VALUE ") {
            let length = length.trim().rsplit(' ').next().expect("a length");
            value.resize(length.parse().expect("a number"), 0);
            stream.read_exact(&mut value)?;
            let mut end = [0; 7];
            stream.read_exact(&mut end)?;
            assert_eq!(&end, b"\r\nEND\r\n");
        }
        Ok((line, value))
    }
}

/// How many writes a node has executed.
fn sets(at: SocketAddr) -> u64 {
    let said = || -> std::io::Result<u64> {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(b"stats\r\n")?;
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut lines = lines.take_while(|line| line != "END");
        let line = lines.find_map(|line| Some(line.strip_prefix("STAT cmd_set ")?.to_owned()));
        Ok(line
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0))
    };
    said().unwrap_or(0)
}

#[test]
fn load_is_spread_over_the_nodes_and_outlives_one() {
    let mut ring = Ring::start("kv-ring-load", "acked");
    let nodes: Vec<String> = ring.clients.iter().map(SocketAddr::to_string).collect();
    let url = format!("memcached://{}", nodes.join("+"));
    let json = ring.file.with_file_name("load.json");
    let load = |duration: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.args(["load", &url, "--duration", duration, "--slices", "1"]);
        command.args([
            "--keys",
            "3000",
            "--writes",
            "30",
            "--connections",
            "4",
            "--depth",
            "4",
        ]);
        command.arg("--json").arg(&json);
        command
    };
    let report = || -> serde_json::Value {
        let text = fs::read_to_string(&json).expect("it is written");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        report["servers"][0].clone()
    };
    let output = load("300ms").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(report()["misses"], 0);
    // Each stores what is its own, and copies what is another's.
    let before: Vec<u64> = ring.clients.iter().map(|at| sets(*at)).collect();
    assert!(before.iter().all(|sets| *sets > 300), "{before:?}");
    let loading = load("4s").stdout(Stdio::null()).spawn();
    let mut loading = loading.expect("it starts");
    let start = Instant::now();
    while sets(ring.clients[1]) < before[1] + 1500 {
        assert!(start.elapsed() < NEVER, "nothing is written");
        thread::sleep(Duration::from_millis(5));
    }
    ring.kill(1);
    let status = loading.wait().expect("it ends");
    let report = report();
    // What was under way at the node is told, and nothing that was confirmed is lost.
    assert_eq!(status.code(), Some(1), "{report}");
    let errors = report["errors"].as_object().expect("kinds");
    assert!(!errors.is_empty(), "{report}");
    assert_eq!(
        report["wrong"].as_object().map(|wrong| wrong.len()),
        Some(0),
        "{report}"
    );
    assert!(report["hits"].as_u64() > Some(3000), "{report}");
}

/// What clients saw in common, and whether they are to end.
#[derive(Default)]
struct Seen {
    ends: AtomicBool,
    confirmed: AtomicU64,
    /// Keys that were found to have what they had before, or nothing.
    lost: AtomicU64,
}

/// A client's work: it writes and reads its keys at any node, and knows what it may find.
fn work(index: usize, places: &[SocketAddr], may_lose: bool, seen: &Seen) {
    let mut client = Client::new(places);
    let mut possible: BTreeMap<u64, BTreeSet<Option<u64>>> = BTreeMap::new();
    let mut given_up = Vec::new();
    let mut random = index as u64 + 1;
    let mut writes = 0;
    while !seen.ends.load(Ordering::Relaxed) {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (node, key) = ((random >> 33) as usize % 3, (random >> 40) % KEYS);
        let name = format!("key-{index}-{key}");
        let may_be = possible.entry(key).or_insert(BTreeSet::from([None]));
        if random >> 63 == 0 {
            writes += 1;
            may_be.insert(Some(writes));
            let value = writes.to_string();
            let command = format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
            match client.ask(node, &command) {
                Some((line, _)) if line == "STORED\r\n" => {
                    // What was given up just now may still be on its way.
                    given_up.retain(|(_, at): &(u64, Instant)| at.elapsed() < FLOATS);
                    let floats = given_up.iter().map(|(write, _)| Some(*write));
                    let floats: BTreeSet<_> = floats.collect();
                    *may_be = may_be.intersection(&floats).copied().collect();
                    may_be.insert(Some(writes));
                    seen.confirmed.fetch_add(1, Ordering::Relaxed);
                }
                // It may have been executed, or be yet.
                _ => {
                    given_up.push((writes, Instant::now()));
                    thread::sleep(Duration::from_millis(5));
                }
            }
        } else {
            let found = match client.ask(node, &format!("get {name}\r\n")) {
                Some((line, value)) if line.starts_with("VALUE") => {
                    Some(String::from_utf8(value).expect("digits"))
                }
                Some((line, _)) if line == "END\r\n" => None,
                _ => {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
            };
            let found = found.map(|digits| digits.parse().expect("digits"));
            if may_lose && !may_be.contains(&found) && found.is_none_or(|write| write <= writes) {
                // From now on it is there.
                seen.lost.fetch_add(1, Ordering::Relaxed);
                may_be.insert(found);
            }
            assert!(
                may_be.contains(&found),
                "{name} at {node}: {found:?}, not of {may_be:?}"
            );
        }
    }
}

/// What came of kills.
pub(crate) struct Outcome {
    kills: usize,
    pub(crate) confirmed: u64,
    pub(crate) lost: u64,
    /// How long nobody served some key, at most and in the middle.
    longest: Duration,
    median: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} writes confirmed, of {} keys they were lost, longest without service \
             {:?} (median {:?})",
            self.kills, self.confirmed, self.lost, self.longest, self.median
        )
    }
}

/// Kills the nodes of a ring in turn, under load.
pub(crate) fn kill_each(mut ring: Ring<'_>) -> Outcome {
    let kills = number("RHYTHM_KILLS").unwrap_or(3);
    let seen = Seen::default();
    let (places, may_lose) = (ring.clients.clone(), ring.replicate == "async");
    let mut gaps = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (places, seen) = (&places, &seen);
                scope.spawn(move || work(index, places, may_lose, seen))
            })
            .collect();
        for round in 0..kills {
            thread::sleep(Duration::from_millis(300 + 37 * (round as u64 % 11)));
            let victim = round % 3;
            ring.kill(victim);
            let died = Instant::now();
            // Keys of every range, asked for at a node that is there.
            let mut client = Client::new(&places);
            for probe in 0..30 {
                let node = (victim + 1 + probe % 2) % 3;
                let command = format!("set probe-{probe} 0 0 1\r\nx\r\n");
                let is_stored = |client: &mut Client<'_>| {
                    client
                        .ask(node, &command)
                        .is_some_and(|(line, _)| line == "STORED\r\n")
                };
                while !is_stored(&mut client) {
                    assert!(died.elapsed() < NEVER, "nobody serves probe-{probe}");
                    thread::sleep(Duration::from_millis(2));
                }
            }
            gaps.push(died.elapsed());
            ring.begin(victim);
            ring.until_whole();
            if workers.iter().any(|worker| worker.is_finished()) {
                break;
            }
        }
        seen.ends.store(true, Ordering::Relaxed);
    });
    gaps.sort_unstable();
    Outcome {
        kills: gaps.len(),
        confirmed: seen.confirmed.into_inner(),
        lost: seen.lost.into_inner(),
        longest: *gaps.last().expect("at least one was killed"),
        median: gaps[gaps.len() / 2],
    }
}

#[test]
fn what_was_confirmed_is_there_whichever_node_is_killed() {
    let outcome = kill_each(Ring::start("kv-ring", "acked"));
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}
