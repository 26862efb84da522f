//! How a ring is, as its nodes see it. What they say is shown on a terminal, and may be anything:
//! it is bounded, and escaped.

use super::super::nodes::NAME_MAX;
use super::{ETCD, host_and_port, members};
use crate::output::print_line;
use anyhow::{Context, Result, bail, ensure};
use rhythm_etcd::Etcd;
use rhythm_kv::registration::registered;
use rhythm_kv::ring::NODES_MAX;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a node may take to say how it sees the ring, and how many bytes.
const PATIENCE: Duration = Duration::from_secs(2);
const SAID_MAX: u64 = 256 << 10;

/// Asks the nodes of a ring, or one, how they see it, and shows that. The status tells whether all
/// is well.
pub(super) fn tell_of(of: &str) -> Result<ExitCode> {
    let file = Path::new(of);
    let known = match of.strip_prefix(ETCD) {
        Some(place) => Some(registered(&mut Etcd::new(place)?)?),
        None if file.is_file() => Some(members(file)?),
        None => None,
    };
    ensure!(
        known.is_some() || host_and_port(of).is_ok() && of.contains(':'),
        "there is no file {of}; give the file that the nodes are started with (--ring), \
         etcd://HOST:PORT/PREFIX, or HOST:PORT of a node"
    );
    let asked: Vec<(String, String)> = match known {
        Some(members) => (members.into_iter())
            .map(|member| {
                let at = match member.host.contains(':') {
                    true => format!("[{}]:{}", member.host, member.port),
                    false => format!("{}:{}", member.host, member.port),
                };
                (member.name, at)
            })
            .collect(),
        None => vec![(of.to_owned(), of.to_owned())],
    };
    ensure!(!asked.is_empty(), "no node is registered at {of}");
    let mut is_well = true;
    for (name, at) in asked {
        let said = ask(&at).and_then(|stats| tell(&stats));
        match said {
            Ok((text, is_whole)) => {
                is_well &= is_whole;
                print_line(text)?;
            }
            Err(error) => {
                is_well = false;
                let (name, at) = (shown(&name), shown(&at));
                print_line(format_args!("{name} ({at}): {error:#}"))?;
            }
        }
    }
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What a server says until a time.
struct Speaker {
    stream: TcpStream,
    until: Instant,
}

impl Read for Speaker {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

/// What a server says of its ring.
fn ask(at: &str) -> Result<BTreeMap<String, String>> {
    let address = at.to_socket_addrs()?.next().context("it has no address")?;
    let until = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.write_all(b"stats ring\r\n")?;
    heard(Speaker { stream, until })
}

/// What is said, up to its end; who knows by whom.
fn heard(speaker: impl Read) -> Result<BTreeMap<String, String>> {
    let mut said = BufReader::new(speaker.take(SAID_MAX));
    let (mut stats, mut line) = (BTreeMap::new(), Vec::new());
    loop {
        line.clear();
        said.read_until(b'\n', &mut line)?;
        ensure!(line.ends_with(b"\n"), "it said no more, or too much");
        let text = shown(&String::from_utf8_lossy(&line));
        let mut words = text.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("STAT"), Some(name), value) => {
                stats.insert(name.to_owned(), value.unwrap_or("").to_owned());
            }
            (Some("END"), ..) => return Ok(stats),
            _ => bail!("it is no node of a ring"),
        }
    }
}

/// A line of others' as it can be shown on a terminal, which would obey some of it otherwise.
fn shown(text: &str) -> String {
    let line = text.trim_end_matches(['\r', '\n']);
    let mut shown = String::new();
    for letter in line.chars() {
        match letter {
            ' '..='~' => shown.push(letter),
            _ => shown.extend(letter.escape_default()),
        }
    }
    shown
}

/// What a node says, as a line for it and each of the others; and whether all are there, all
/// ranges at home, and copied.
fn tell(stats: &BTreeMap<String, String>) -> Result<(String, bool)> {
    let of = |name: &str| stats.get(name).map_or("", String::as_str);
    let (me, mut is_whole) = (of("node"), true);
    let replicas: usize = of("replicas").parse().context("it is no node of a ring")?;
    let names = stats.keys().filter_map(|name| name.strip_suffix(":alive"));
    // Each is shown with each other.
    ensure!(
        me.len() <= NAME_MAX && names.clone().count() <= NODES_MAX,
        "it is no node of a ring"
    );
    let (scheme, replicate) = (of("scheme"), of("replicate"));
    let mut text = format!("{me}: {scheme}, {replicas} copies, {replicate}");
    let is_ranked = stats.contains_key("ranges");
    if is_ranked {
        let (away, missing) = (of("ranges_away"), of("ranges_without_copies"));
        is_whole &= away == "0" && missing == "0";
        let ranges = of("ranges");
        text.push_str(&format!(
            "; of {ranges} ranges {away} are not where they are to be, and of its own {missing} \
             have too few copies"
        ));
    }
    for name in names {
        let of = |what: &str| of(&format!("{name}:{what}"));
        let is_there = of("alive") == "1";
        let there = match is_there {
            true => "there".to_owned(),
            false if of("refused") == "1" => match of("why") {
                "" => "not there: it is refused, or refuses this one (see the log)".to_owned(),
                why => format!("not there: {why}"),
            },
            false => "not there".to_owned(),
        };
        let behind = match of("unacknowledged") {
            "0" => String::new(),
            bytes => format!(", {bytes} bytes and {} ms behind", of("lag_ms")),
        };
        if is_ranked {
            is_whole &= is_there;
            text.push_str(&format!("\n  {name}: {there}, serves {}", of("serves")));
            for (what, count) in [("has", of("copies")), ("is being given", of("copying"))] {
                if !matches!(count, "" | "0") {
                    text.push_str(&format!(", {what} copies of {count} of {me}'s"));
                }
            }
            text.push_str(&behind);
            continue;
        }
        let server = of("server");
        is_whole &= is_there && server == name;
        if server == me {
            let copies = of("copies").split(',').filter(|name| !name.is_empty());
            is_whole &= of("copying").is_empty() && copies.count() == replicas;
        }
        text.push_str(&format!(
            "\n  {name}: {there}, its range is served by {}",
            if server.is_empty() { "nobody" } else { server },
        ));
        if server == me {
            for (what, whom) in [("copied", of("copies")), ("being copied", of("copying"))] {
                if !whom.is_empty() {
                    text.push_str(&format!(", {what} to {whom}"));
                }
            }
        } else if of("complete") == "1" {
            text.push_str(", copied here");
        }
        text.push_str(&behind);
    }
    Ok((text, is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_serves_tells_who_has_copies() {
        let stats = [
            ("node", "a"),
            ("scheme", "primary"),
            ("replicas", "2"),
            ("replicate", "acked"),
            ("ranges", "1"),
            ("ranges_away", "0"),
            ("ranges_without_copies", "1"),
            ("a:alive", "1"),
            ("a:serves", "1"),
            ("a:copies", "0"),
            ("b:alive", "1"),
            ("b:serves", "0"),
            ("b:copies", "1"),
            ("b:copying", "0"),
            ("c:alive", "1"),
            ("c:serves", "0"),
            ("c:copies", "0"),
            ("c:copying", "1"),
        ];
        let stats = stats.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut stats = BTreeMap::from(stats);
        let nodes = ["a", "b", "c"].map(|node| format!("{node}:unacknowledged"));
        stats.extend(nodes.map(|name| (name, "0".to_owned())));
        let (text, is_whole) = tell(&stats).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "  a: there, serves 1",
                "  b: there, serves 0, has copies of 1 of a's",
                "  c: there, serves 0, is being given copies of 1 of a's",
            ]
        );
        assert!(!is_whole, "a copy is missing");
    }

    #[test]
    fn what_a_node_says_is_bounded_and_escaped() {
        let said = "STAT node \u{1b}[2Ja\r\nSTAT replicas 1\r\nSTAT b\u{202e}:alive 1\r\nEND\r\n";
        let stats = heard(said.as_bytes()).unwrap();
        let (text, _) = tell(&stats).unwrap();
        assert!(text.starts_with("\\u{1b}[2Ja: "), "{text}");
        assert!(text.contains("  b\\u{202e}: there"), "{text}");
        assert!(text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')));
        let stats = heard(&b"STAT node \x9b2J\xff\r\nEND\r\n"[..]).unwrap();
        assert_eq!(stats["node"], "\\u{fffd}2J\\u{fffd}");
        // Without an end, or with too many or too long names.
        let why = |error: anyhow::Error| error.to_string();
        let too_much = [b"STAT a 1\r\n".repeat(30_000), vec![b'a'; 1 << 20]];
        for said in too_much {
            let error = heard(said.as_slice()).map_err(why);
            assert_eq!(error, Err("it said no more, or too much".to_owned()));
        }
        let many: String = (0..65).map(|n| format!("STAT {n}:alive 1\r\n")).collect();
        let long = format!("STAT node {}\r\n", "x".repeat(65));
        for more in [many, long] {
            let said = format!("STAT replicas 1\r\n{more}END\r\n");
            let stats = heard(said.as_bytes()).unwrap();
            assert!(tell(&stats).is_err(), "{more}");
        }
    }

    #[test]
    fn who_goes_on_slowly_is_not_waited_for() {
        let until = Instant::now() + Duration::from_millis(50);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut slow, _) = listener.accept().unwrap();
        let speaks = std::thread::spawn(move || {
            while slow.write_all(b"STAT a 1\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert!(heard(Speaker { stream, until }).is_err());
        speaks.join().unwrap();
    }
}
