//! `rhythm kv keyspace`: three processes, of which the one that leads is killed, or told to end,
//! again and again under load. Every write that was confirmed is there, whichever node is asked,
//! and it says how long nobody could write.
//!
//! `RHYTHM_KILLS=20` ends so many; without it, two.

use crate::server::NEVER;
use rhythm_etcd::testing::free_places;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Clients at a time, and keys of each.
const CLIENTS: usize = 3;
const KEYS: u64 = 20;

pub(crate) struct Nodes {
    folder: PathBuf,
    clients: Vec<SocketAddr>,
    children: Vec<Option<Child>>,
}

impl Nodes {
    /// Starts all nodes, for the first time.
    pub(crate) fn start(test: &str) -> Nodes {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // Of an earlier run.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        // Each has to know all addresses before any of them listens.
        let places = free_places(6);
        let text = NAMES.iter().enumerate().map(|(node, name)| {
            let (client, backbone) = (places[node], places[node + 3]);
            format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            )
        });
        let file = folder.join("keyspace.toml");
        fs::write(file, text.collect::<String>()).expect("a file can be written");
        let mut nodes = Nodes {
            folder,
            clients: places[..3].to_vec(),
            children: vec![None, None, None],
        };
        (0..3).for_each(|node| nodes.begin(node, &["--begin"]));
        nodes
    }

    pub(crate) fn begin(&mut self, node: usize, flags: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.args(["kv", "keyspace"]);
        command.arg(self.folder.join("keyspace.toml"));
        command.args(["--node", NAMES[node], "--folder"]);
        command.arg(self.folder.join(NAMES[node])).args(flags);
        let child = command.stderr(Stdio::null()).spawn();
        self.children[node] = Some(child.expect("it starts"));
    }

    pub(crate) fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.children[node].take() {
            child.kill().expect("it is there");
            child.wait().expect("it ends");
        }
    }

    /// Ends a node by a signal, and says for how long at most no write at another was confirmed.
    fn end(&mut self, node: usize, signal: Signal, other: usize) -> Duration {
        let places = self.clients.clone();
        let mut client = Client::new(&places);
        let (mut confirmed, mut longest) = (None::<Instant>, Duration::ZERO);
        let (mut is_told, began) = (false, Instant::now());
        loop {
            // What is asked after the end of the node is confirmed without it.
            let child = self.children[node].as_mut().expect("it was begun");
            let is_gone = is_told && child.try_wait().expect("it is ours").is_some();
            match client.ask(other, "set probe 0 0 1\r\nx\r\n") {
                Ok(said) if said.line == "STORED\r\n" => {
                    let gap = confirmed.map_or(Duration::ZERO, |last| last.elapsed());
                    longest = longest.max(gap);
                    confirmed = Some(Instant::now());
                    if is_gone {
                        self.children[node] = None;
                        return longest;
                    }
                }
                _ => assert!(began.elapsed() < NEVER, "nobody writes"),
            }
            if confirmed.is_some() && !is_told {
                let child = self.children[node].as_ref().expect("it was begun");
                kill_process(Pid::from_child(child), signal).expect("it is there");
                is_told = true;
            }
        }
    }

    /// Waits until most nodes agree on who leads, and says who.
    pub(crate) fn leader(&self) -> usize {
        let start = Instant::now();
        loop {
            let told = (0..3).filter_map(|node| {
                let mut client = Client::new(&self.clients);
                client.ask(node, "stats\r\n").ok()?.remove("leader")
            });
            let told: Vec<String> = told.collect();
            for (node, name) in NAMES.iter().enumerate() {
                if told.iter().filter(|leader| leader == name).count() >= 2 {
                    return node;
                }
            }
            assert!(start.elapsed() < NEVER, "{told:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// To start it again would mend nothing, and systemd is told so.
#[test]
fn a_node_whose_journal_is_damaged_ends_with_a_status_of_its_own() {
    let mut nodes = Nodes::start("kv-keyspace-damaged");
    let journal = nodes.folder.join("a/journal");
    let began = Instant::now();
    while !journal.exists() {
        assert!(began.elapsed() < NEVER, "it does not begin");
        thread::sleep(Duration::from_millis(10));
    }
    nodes.kill(0);
    let mut bytes = fs::read(&journal).expect("it is there");
    bytes[30] ^= 1;
    fs::write(&journal, bytes).expect("it can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["kv", "keyspace"]);
    command.arg(nodes.folder.join("keyspace.toml"));
    command.args(["--node", "a", "--folder"]);
    command.arg(nodes.folder.join("a"));
    let ended = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("the journal is damaged at byte"), "{said}");
    assert_eq!(ended.status.code(), Some(3));
}

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..3).for_each(|node| self.kill(node));
    }
}

/// A client of all nodes.
struct Client<'a> {
    places: &'a [SocketAddr],
    streams: Vec<Option<BufReader<TcpStream>>>,
}

/// What a node said: a word, the value of a key, or what `stats` tells.
#[derive(Debug)]
struct Said {
    line: String,
    value: Option<String>,
    stats: Vec<(String, String)>,
}

impl Said {
    fn remove(mut self, name: &str) -> Option<String> {
        let at = self.stats.iter().position(|(of, _)| of == name)?;
        Some(self.stats.swap_remove(at).1)
    }
}

impl Client<'_> {
    fn new(places: &[SocketAddr]) -> Client<'_> {
        let streams = places.iter().map(|_| None).collect();
        Client { places, streams }
    }

    fn ask(&mut self, node: usize, command: &str) -> Result<Said> {
        let said = self.try_ask(node, command);
        if said.is_err() {
            self.streams[node] = None;
        }
        said
    }

    fn try_ask(&mut self, node: usize, command: &str) -> Result<Said> {
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
        let mut said = Said {
            line: String::new(),
            value: None,
            stats: Vec::new(),
        };
        loop {
            said.line.clear();
            if stream.read_line(&mut said.line)? == 0 {
                return Err(Error::from(ErrorKind::UnexpectedEof));
            }
            let words: Vec<&str> = said.line.trim_end().split(' ').collect();
            match words[..] {
                ["VALUE", _, _, length] => {
                    let mut value = vec![0; length.parse::<usize>().expect("a length") + 2];
                    stream.read_exact(&mut value)?;
                    value.truncate(value.len() - 2);
                    said.value = Some(String::from_utf8(value).expect("digits"));
                }
                ["STAT", name, value] => said.stats.push((name.to_owned(), value.to_owned())),
                ["STAT", ..] => {}
                _ => return Ok(said),
            }
        }
    }
}

/// A client's work: it writes and reads keys that are its own at any node, and knows what it may
/// find; and it counts, where none may be lost and none counted twice.
fn work(index: usize, places: &[SocketAddr], ends: &AtomicBool, confirmed: &AtomicU64) {
    let mut client = Client::new(places);
    // What each key may be, and how often it was given up for another.
    let mut possible = vec![(BTreeSet::from([0]), 0); KEYS as usize];
    let mut random = index as u64 + 1;
    let (mut writes, mut counted, mut uncertain) = (0, 0, 0);
    while !ends.load(Ordering::Relaxed) {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (node, key) = ((random >> 33) as usize % 3, (random >> 40) % KEYS);
        let (may_be, others) = &mut possible[key as usize];
        let name = format!("key-{index}-{key}-{others}");
        match random >> 61 {
            0..4 => {
                writes += 1;
                may_be.insert(writes);
                let value = writes.to_string();
                let command = format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
                match client.ask(node, &command) {
                    Ok(said) if said.line == "STORED\r\n" => {
                        may_be.retain(|value| *value == writes);
                        confirmed.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(said) if said.line.ends_with("nothing was done\r\n") => {
                        may_be.remove(&writes);
                    }
                    // It may be done yet, whenever: the key is left alone from now on.
                    _ => {
                        *may_be = BTreeSet::from([0]);
                        *others += 1;
                    }
                }
            }
            4 => match client.ask(node, &format!("incr count-{index} 1\r\n")) {
                Ok(said) if said.line.trim_end().parse::<u64>().is_ok() => counted += 1,
                Ok(said) if said.line.ends_with("nothing was done\r\n") => {}
                Ok(said) if said.line == "NOT_FOUND\r\n" => {
                    let command = format!("add count-{index} 0 0 1\r\n0\r\n");
                    let _ = client.ask(node, &command);
                }
                _ => uncertain += 1,
            },
            _ => {
                let Ok(said) = client.ask(node, &format!("get {name}\r\n")) else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                if said.line == "END\r\n" {
                    let found = said.value.map_or(0, |value| value.parse().expect("digits"));
                    assert!(
                        may_be.contains(&found),
                        "{name} at {node}: {found}, not {may_be:?}"
                    );
                }
            }
        }
    }
    let command = format!("get count-{index}\r\n");
    let found = (0..).find_map(|turn| {
        let said = client.ask(turn % 3, &command).ok();
        said.filter(|said| said.line == "END\r\n")
    });
    let found = found.and_then(|said| said.value);
    let found = found.map_or(0, |value| value.parse().expect("digits"));
    assert!(
        (counted..=counted + uncertain).contains(&found),
        "{counted} {found} {uncertain}"
    );
}

/// Has the leader end by this signal, again and again, under load.
fn end_leaders(test: &str, signal: Signal) {
    let mut nodes = Nodes::start(test);
    let rounds = std::env::var("RHYTHM_KILLS").ok();
    let rounds = rounds.and_then(|number| number.parse().ok()).unwrap_or(2);
    let (ends, confirmed) = (AtomicBool::new(false), AtomicU64::new(0));
    let places = nodes.clients.clone();
    let mut gaps = Vec::new();
    nodes.leader();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (places, ends, confirmed) = (&places, &ends, &confirmed);
                scope.spawn(move || work(index, places, ends, confirmed))
            })
            .collect();
        for round in 0..rounds {
            thread::sleep(Duration::from_millis(300 + 37 * (round as u64 % 11)));
            let victim = nodes.leader();
            let other = (victim + 1 + round % 2) % 3;
            gaps.push(nodes.end(victim, signal, other));
            nodes.begin(victim, &[]);
            if workers.iter().any(|worker| worker.is_finished()) {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    let confirmed = confirmed.into_inner();
    gaps.sort();
    let longest = gaps.last().expect("at least one ended");
    let median = gaps[gaps.len() / 2];
    println!(
        "{rounds} leaders ended by {signal:?}, {confirmed} writes confirmed, without service \
         {median:?} (median), {longest:?} (longest)"
    );
    assert!(confirmed > 0);
}

#[test]
fn what_was_confirmed_is_there_when_the_leader_is_killed() {
    end_leaders("kv-keyspace", Signal::KILL);
}

#[test]
fn what_was_confirmed_is_there_when_the_leader_is_told_to_end() {
    end_leaders("kv-keyspace-told", Signal::TERM);
}

#[test]
fn status_tells_who_leads_and_whether_a_node_may_be_ended() {
    let mut nodes = Nodes::start("kv-keyspace-status");
    let file = nodes.folder.join("keyspace.toml");
    let status = |of: &Path| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        let output = tool.args(["kv", "keyspace", "status"]).arg(of).output();
        let output = output.expect("it starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.success(), said)
    };
    let until = |is_well: bool, last: &str| {
        let start = Instant::now();
        loop {
            let (ended_well, said) = status(&file);
            let line = said.lines().last().unwrap_or_default();
            if ended_well == is_well && line.contains(last) {
                return;
            }
            assert!(start.elapsed() < NEVER, "{last}: {said}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let well = " leads, and all 3 nodes have what is agreed on: 1 may fail";
    until(true, well);
    let start = Instant::now();
    let leader = loop {
        let leader = nodes.leader();
        let (_, all) = status(&file);
        let at = nodes.clients[leader].to_string();
        let (is_well, one) = status(Path::new(&at));
        let leads = all.contains(&format!("{}: leads, term ", NAMES[leader]));
        if leads && is_well && one.contains("as this node sees it") {
            break leader;
        }
        // Another may lead by now.
        assert!(start.elapsed() < NEVER, "{all}{one}");
        thread::sleep(Duration::from_millis(50));
    };
    // With one less it serves, and no more of them may go; with two less nobody leads.
    let [first, second] = [(leader + 1) % 3, (leader + 2) % 3];
    nodes.kill(first);
    let silent = format!("not well: {} does not answer: start it", NAMES[first]);
    until(false, &silent);
    nodes.kill(second);
    until(
        false,
        "not well: no node leads, so nothing is read or written: 1 of 3 nodes answer, and 2 have",
    );
    for node in [first, second] {
        nodes.begin(node, &[]);
    }
    until(true, well);
    // Another file.
    let other = nodes.folder.join("other.toml");
    let text = fs::read_to_string(&file).expect("it is there");
    let text = text.replace("\"a\"", "\"d\"");
    fs::write(&other, text).expect("a file can be written");
    let (is_well, said) = status(&other);
    let line = said.lines().last().unwrap_or_default();
    let calls = format!("the node at {} calls itself a, and not d", nodes.clients[0]);
    assert!(!is_well && line.contains(&calls), "{said}");
    let (is_well, said) = status(Path::new("nofile.toml"));
    assert!(
        !is_well && said.contains("there is no file nofile.toml"),
        "{said}"
    );
    // Two died just now: the third, which led, has not seen it yet.
    let leader = nodes.leader();
    nodes.kill((leader + 1) % 3);
    nodes.kill((leader + 2) % 3);
    let (is_well, said) = status(Path::new(&nodes.clients[leader].to_string()));
    assert!(!is_well && said.contains("not well: no"), "{said}");
}
