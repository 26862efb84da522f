//! `rhythm kv --ring`: three processes, of which one after the other is killed, or told to end,
//! under load. Every write that was confirmed is there, whoever died, and it says how long nobody
//! served its keys. Where nodes keep copies in chains each is the head of one, the tail of another,
//! and between them in the third.
//!
//! `RHYTHM_KILLS=200` kills so many, `RHYTHM_LEAVES=50` tells so many to end; without it each node
//! once.

use crate::number;
use crate::server::NEVER;
use rhythm_etcd::testing::free_places;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Clients at a time, and keys of each.
const CLIENTS: usize = 4;
const KEYS: u64 = 200;
/// How long a write may be on its way whose client was told nothing.
const FLOATS: Duration = Duration::from_secs(2);

/// How nodes keep copies, as flags.
pub(crate) type Copies = &'static [&'static str];
pub(crate) const ASYNC: Copies = &["--replicate", "async"];
pub(crate) const ACKED: Copies = &["--replicate", "acked"];
const CHAIN: Copies = &[
    "--replicate",
    "acked",
    "--scheme",
    "chain",
    "--replicas",
    "2",
];

/// Where the nodes of a ring are: for clients, and for each other.
pub(crate) type Places = [(SocketAddr, SocketAddr)];

pub(crate) struct Ring<'a> {
    /// Its file, or its place in etcd.
    of: String,
    folder: PathBuf,
    pub(crate) copies: Copies,
    pub(crate) clients: Vec<SocketAddr>,
    backbones: Vec<SocketAddr>,
    pub(crate) admins: Vec<SocketAddr>,
    /// The command of a node, up to `kv` and where it listens.
    command: Box<dyn Fn(usize) -> Command + 'a>,
    nodes: Vec<Option<Child>>,
}

impl<'a> Ring<'a> {
    /// Starts all nodes on this machine, of a ring in a file.
    pub(crate) fn start(test: &str, copies: Copies) -> Ring<'static> {
        Ring::start_at(test, &places_here(), copies, command_here)
    }

    /// Starts nodes that clients and other nodes reach at these places, of a ring in a file.
    pub(crate) fn start_at(
        test: &str,
        places: &Places,
        copies: Copies,
        command: impl Fn(usize) -> Command + 'a,
    ) -> Ring<'a> {
        let mut ring = Ring::new(test, places, copies, command);
        let mut text = String::new();
        for (name, (client, backbone)) in NAMES.iter().zip(places) {
            text += &format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            );
        }
        fs::write(&ring.of, text).expect("a file can be written");
        (0..3).for_each(|node| ring.begin(node));
        ring.until_whole();
        ring
    }

    /// A ring on this machine that etcd is to know at this place. Its nodes are to be started.
    pub(crate) fn of_etcd(test: &str, etcd: String, copies: Copies) -> Ring<'static> {
        let mut ring = Ring::new(test, &places_here(), copies, command_here);
        ring.of = etcd;
        ring
    }

    fn new(
        test: &str,
        places: &Places,
        copies: Copies,
        command: impl Fn(usize) -> Command + 'a,
    ) -> Ring<'a> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let (clients, backbones) = places.iter().copied().unzip();
        let ring = Ring {
            of: folder.join("ring.toml").display().to_string(),
            folder,
            copies,
            clients,
            backbones,
            admins: free_places(3),
            command: Box::new(command),
            nodes: vec![None, None, None],
        };
        for node in 0..3 {
            File::create(ring.log(node)).expect("a file can be made");
        }
        ring
    }

    /// What a node says is kept beside the file of the ring, for who wants to know what went on.
    fn log(&self, node: usize) -> PathBuf {
        self.folder.join(NAMES[node]).with_extension("log")
    }

    /// What the nodes have said, each at the end.
    fn told(&self) -> String {
        let end = |node: usize| {
            let said = fs::read_to_string(self.log(node)).unwrap_or_default();
            let lines: Vec<&str> = said.lines().rev().take(8).collect();
            let lines = lines.into_iter().rev().map(|line| format!("\n  {line}"));
            format!("\n{} said:{}", NAMES[node], lines.collect::<String>())
        };
        (0..3).map(end).collect()
    }

    pub(crate) fn begin(&mut self, node: usize) {
        let mut command = (self.command)(node);
        command.args(["--ring", &self.of, "-t", "2"]);
        command.args(["--node", NAMES[node]]).args(self.copies);
        command.args(["--admin", &self.admins[node].to_string()]);
        if self.of.starts_with("etcd://") {
            let (client, backbone) = (self.clients[node], self.backbones[node]);
            command.args(["--client", &client.to_string()]);
            command.args(["--backbone", &backbone.to_string(), "--lease", "2"]);
        }
        let log = File::options().append(true).open(self.log(node));
        let child = command.stderr(log.expect("it is there")).spawn();
        self.nodes[node] = Some(child.expect("it starts"));
    }

    /// What `rhythm kv ring` does to it.
    pub(crate) fn tool(&self, what: &str, more: &[&str]) -> Output {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        tool.args(["kv", "ring", what, &self.of]).args(more);
        tool.output().expect("it starts")
    }

    pub(crate) fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node].as_ref().expect("it is there");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    /// Waits until a node has ended by itself.
    pub(crate) fn ended(&mut self, node: usize) {
        let mut child = self.nodes[node].take().expect("it is there");
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                return assert!(status.success(), "{status}");
            }
            assert!(start.elapsed() < NEVER, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The process of a node that runs.
    pub(crate) fn process(&self, node: usize) -> u32 {
        self.nodes[node].as_ref().expect("it runs").id()
    }

    pub(crate) fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.nodes[node].take() {
            child.kill().expect("it is there");
            child.wait().expect("it ends");
        }
    }

    /// Waits until all nodes are there and serve what is theirs.
    pub(crate) fn until_whole(&self) {
        let start = Instant::now();
        loop {
            let output = self.tool("status", &[]);
            let said = String::from_utf8_lossy(&output.stdout);
            let nodes = self
                .nodes
                .iter()
                .zip(NAMES)
                .filter(|(node, _)| node.is_some());
            let is_asked = |name: &str| {
                said.lines()
                    .any(|line| line.starts_with(&format!("{name}: ")))
            };
            if output.status.success() && nodes.into_iter().all(|(_, name)| is_asked(name)) {
                return;
            }
            assert!(start.elapsed() < NEVER, "{said}{}", self.told());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        (0..3).for_each(|node| self.kill(node));
    }
}

/// Places of three nodes on this machine: each has to know all before any of them listens.
fn places_here() -> Vec<(SocketAddr, SocketAddr)> {
    let places = free_places(6);
    let (clients, backbones) = places.split_at(3);
    let pairs = clients.iter().copied().zip(backbones.iter().copied());
    pairs.collect()
}

fn command_here(_: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["kv", "-l", "127.0.0.1"]);
    command
}

/// A client of all nodes.
pub(crate) struct Client<'a> {
    places: &'a [SocketAddr],
    streams: Vec<Option<BufReader<TcpStream>>>,
}

impl Client<'_> {
    pub(crate) fn new(places: &[SocketAddr]) -> Client<'_> {
        let streams = places.iter().map(|_| None).collect();
        Client { places, streams }
    }

    /// The first line of the answer, and what follows it; none where the node gave none.
    pub(crate) fn ask(&mut self, node: usize, command: &str) -> Option<(String, Vec<u8>)> {
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
    let mut ring = Ring::start("kv-ring-load", ACKED);
    let nodes: Vec<String> = ring.clients.iter().map(SocketAddr::to_string).collect();
    let url = format!("memcached://{}", nodes.join("+"));
    let json = ring.folder.join("load.json");
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

/// What may come to clients by what is done to nodes, beside connections that close.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    Nothing,
    /// A node may say that another is gone.
    Errors,
    /// That, and what was confirmed may be lost.
    Losses,
}

/// A client's work: it writes and reads its keys at any node, and knows what it may find.
fn work(index: usize, places: &[SocketAddr], copies: Copies, harm: Harm, seen: &Seen) {
    let (may_fail, may_lose) = (harm >= Harm::Errors, harm >= Harm::Losses);
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
                other => {
                    assert!(may_fail || other.is_none(), "{name} at {node}: {other:?}");
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
                other => {
                    assert!(may_fail || other.is_none(), "{name} at {node}: {other:?}");
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
            if copies == CHAIN {
                // Nothing older is there any more, unless it is on its way.
                let floats = |write: &Option<u64>| {
                    let mut floats = given_up.iter();
                    floats.any(|(of, at)| Some(*of) == *write && at.elapsed() < FLOATS)
                };
                may_be.retain(|write| *write >= found || floats(write));
            }
        }
    }
}

/// Waits until keys of every range are written and read, asked for at nodes that are there.
pub(crate) fn served_again(places: &[SocketAddr], victim: usize) -> Duration {
    let died = Instant::now();
    let mut client = Client::new(places);
    for probe in 0..60 {
        let node = (victim + 1 + probe % 2) % 3;
        let command = format!("set probe-{probe} 0 0 1\r\nx\r\n");
        let is_stored = |client: &mut Client<'_>| {
            client
                .ask(node, &command)
                .is_some_and(|(line, _)| line == "STORED\r\n")
        };
        let is_found = |client: &mut Client<'_>| {
            client
                .ask(node, &format!("get probe-{probe}\r\n"))
                .is_some_and(|(_, value)| value == b"x")
        };
        while !is_stored(&mut client) || !is_found(&mut client) {
            assert!(died.elapsed() < NEVER, "nobody serves probe-{probe}");
            thread::sleep(Duration::from_millis(2));
        }
    }
    died.elapsed()
}

/// What came of what was done to nodes.
pub(crate) struct Outcome {
    rounds: usize,
    pub(crate) confirmed: u64,
    pub(crate) lost: u64,
    /// How long it took, at most and in the middle.
    longest: Duration,
    median: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} times, {} writes confirmed, of {} keys they were lost, the longest took {:?} \
             (median {:?})",
            self.rounds, self.confirmed, self.lost, self.longest, self.median
        )
    }
}

/// Does something to the nodes in turn, under load, so many times. `act` has the node back, and
/// says how long what counts took.
pub(crate) fn under_load(
    mut ring: Ring<'_>,
    harm: Harm,
    rounds: usize,
    mut act: impl FnMut(&mut Ring<'_>, usize, usize) -> Duration,
) -> Outcome {
    let seen = Seen::default();
    let (places, copies) = (ring.clients.clone(), ring.copies);
    let mut took = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (places, seen) = (&places, &seen);
                scope.spawn(move || work(index, places, copies, harm, seen))
            })
            .collect();
        for round in 0..rounds {
            thread::sleep(Duration::from_millis(300 + 37 * (round as u64 % 11)));
            took.push(act(&mut ring, round, round % 3));
            ring.until_whole();
            if workers.iter().any(|worker| worker.is_finished()) {
                break;
            }
        }
        seen.ends.store(true, Ordering::Relaxed);
    });
    took.sort_unstable();
    Outcome {
        rounds: took.len(),
        confirmed: seen.confirmed.into_inner(),
        lost: seen.lost.into_inner(),
        longest: *took.last().expect("there was one round at least"),
        median: took[took.len() / 2],
    }
}

/// Kills the nodes of a ring in turn, under load. How long nobody served some key counts.
pub(crate) fn kill_each(ring: Ring<'_>) -> Outcome {
    let harm = match ring.copies == ASYNC {
        true => Harm::Losses,
        false => Harm::Errors,
    };
    let kills = number("RHYTHM_KILLS").unwrap_or(3);
    under_load(ring, harm, kills, |ring, _, victim| {
        ring.kill(victim);
        let gap = served_again(&ring.clients, victim);
        ring.begin(victim);
        gap
    })
}

/// Tells the nodes of a ring to end in turn, under load. How long they take counts.
pub(crate) fn end_each(ring: Ring<'_>) -> Outcome {
    let leaves = number("RHYTHM_LEAVES").unwrap_or(3);
    under_load(ring, Harm::Nothing, leaves, |ring, _, node| {
        let start = Instant::now();
        ring.signal(node, Signal::TERM);
        ring.ended(node);
        let took = start.elapsed();
        ring.begin(node);
        took
    })
}

#[test]
fn what_was_confirmed_is_there_whichever_node_is_killed() {
    let outcome = kill_each(Ring::start("kv-ring", ACKED));
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}

/// The head, the tail and the one between them: each node is all of these, of another range.
#[test]
fn what_was_confirmed_or_shown_is_there_whichever_node_of_chains_is_killed() {
    let outcome = kill_each(Ring::start("kv-chain", CHAIN));
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}

#[test]
fn a_node_of_chains_that_is_told_to_end_hands_over_all_that_was_written() {
    let outcome = end_each(Ring::start("kv-chain-leave", CHAIN));
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}

#[test]
fn a_node_that_is_told_to_end_hands_over_all_that_was_written() {
    let outcome = end_each(Ring::start("kv-leave", ASYNC));
    println!("{outcome}");
    assert!(outcome.confirmed > 0 && outcome.lost == 0);
}

#[test]
fn nodes_that_were_told_different_things_say_what_differs() {
    let mut ring = Ring::start("kv-terms", ACKED);
    ring.kill(1);
    ring.copies = ASYNC;
    ring.begin(1);
    for (node, other, differs) in [
        (0, "b", "--replicate is acked here, and async there"),
        (2, "b", "--replicate is acked here, and async there"),
        (1, "a", "--replicate is async here, and acked there"),
        (1, "c", "--replicate is async here, and acked there"),
    ] {
        let said = format!("node=\"{other}\" differs=\"{differs}\"");
        let start = Instant::now();
        let log = || fs::read_to_string(ring.log(node)).expect("it is there");
        while !log().contains(&said) {
            assert!(start.elapsed() < NEVER, "{said}: {}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }
    // A node knows it while it is told so: between two attempts of another's it may not.
    let start = Instant::now();
    loop {
        let output = ring.tool("status", &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() && said.contains("told something else") {
            break;
        }
        assert!(start.elapsed() < NEVER, "{said}");
        thread::sleep(Duration::from_millis(20));
    }
    ring.of = "nofile.toml".to_owned();
    let output = ring.tool("status", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no file nofile.toml"), "{said}");
}

/// Who has copies of whose keys is another matter by it.
#[test]
fn a_file_that_the_nodes_were_not_started_with_is_not_theirs() {
    let mut ring = Ring::start("kv-other-file", ASYNC);
    let text = fs::read_to_string(&ring.of).expect("it is there");
    let mut tables: Vec<&str> = text.split_inclusive("\n[[node]]").collect();
    let table = |text: &str| {
        text.trim_start_matches("[[node]]")
            .replace("\n[[node]]", "\n")
    };
    tables.reverse();
    let turned = tables.iter().map(|text| format!("[[node]]{}", table(text)));
    ring.of = ring.folder.join("other.toml").display().to_string();
    fs::write(&ring.of, turned.collect::<String>()).expect("a file can be written");
    let output = ring.tool("status", &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().unwrap_or_default();
    let differs = "not well: a was told that the place of a is 1, and this file has 3; ";
    assert!(
        !output.status.success() && last.starts_with(differs),
        "{said}"
    );
}

#[test]
fn figures_tell_how_the_ring_is() {
    let mut ring = Ring::start("kv-figures", ASYNC);
    let of_a = ring.admins[0];
    let ask = |path: &str| {
        let answer = crate::server::Client::new(of_a).ask("GET", path, "");
        let answer = answer.expect("an answer");
        (answer.status, answer.body)
    };
    let figure = |text: &str, name: &str| -> Option<f64> {
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let name = format!("rhythm_kv_ring_{name}");
        let found = lines.find(|(of, _)| of.trim_end_matches("{}") == name);
        found.and_then(|(_, value)| value.parse().ok())
    };
    // Until a figure is this one.
    let says = |name: &str, wanted: f64| {
        let start = Instant::now();
        while figure(&ask("/metrics").1, name) != Some(wanted) {
            assert!(start.elapsed() < NEVER, "{name}: {}", ask("/metrics").1);
            thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(ask("/readyz"), (200, "ok\n".to_owned()));
    says("members", 3.0);
    says("may_write", 1.0);
    says("node_alive{node=\"b\"}", 1.0);
    says("unacknowledged_bytes{node=\"b\"}", 0.0);
    says("lag_seconds{node=\"c\"}", 0.0);
    says("ranges{state=\"served\"}", 1.0);
    says("ranges{state=\"copied\"}", 1.0);
    says("copies_missing", 0.0);
    ring.kill(2);
    // Its range is served here now, and copied to the other.
    says("node_alive{node=\"c\"}", 0.0);
    says("ranges{state=\"served\"}", 2.0);
    let mut client = Client::new(&ring.clients);
    for key in 0..50 {
        client.ask(0, &format!("set key-{key} 0 0 1\r\nx\r\n"));
    }
    ring.begin(2);
    ring.until_whole();
    says("ranges{state=\"served\"}", 1.0);
    let (_, figures) = ask("/metrics");
    let caught_up = figure(&figures, "caught_up_bytes_total");
    assert!(caught_up > Some(0.0), "{figures}");
}
