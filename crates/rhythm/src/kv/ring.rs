//! The file of a ring, and how the ring is.

use super::args::Args;
use anyhow::{Context, Result, bail, ensure};
use rhythm_kv::ring::{Member, Membership, NODES_MAX, Transport};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long a node may take to say how it sees the ring.
const PATIENCE: Duration = Duration::from_secs(2);

/// The file: a table for each node, in their order round the ring.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ring {
    node: Vec<Node>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    name: String,
    client: String,
    backbone: String,
}

/// The nodes in a file.
fn members(file: &Path) -> Result<Vec<Member>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("--ring: cannot read {shown}"))?;
    let ring: Ring = toml::from_str(&text).with_context(|| format!("--ring {shown}"))?;
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    let mut members = Vec::new();
    for node in ring.node {
        let name = &node.name;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        ensure!(
            !name.is_empty() && name.len() <= 64 && name.bytes().all(plain),
            "--ring {shown}: {name:?} is no name: letters, digits, \"-\", \"_\" and \".\""
        );
        ensure!(
            names.insert(name.clone()),
            "--ring {shown}: two nodes are called {name}"
        );
        let (host, port) = host_and_port(&node.client)
            .with_context(|| format!("--ring {shown}: node {name}, client"))?;
        let mut found = (node.backbone.to_socket_addrs())
            .with_context(|| format!("--ring {shown}: node {name}, backbone {}", node.backbone))?;
        let Some(backbone) = found.next() else {
            bail!(
                "--ring {shown}: node {name}: {} has no address",
                node.backbone
            );
        };
        ensure!(
            places.insert((host.clone(), port)),
            "--ring {shown}: two nodes are at {}",
            node.client
        );
        members.push(Member {
            name: node.name,
            host,
            port,
            backbone,
        });
    }
    ensure!(
        (2..=NODES_MAX).contains(&members.len()),
        "--ring {shown}: a ring has 2 to {NODES_MAX} nodes, not {}",
        members.len()
    );
    Ok(members)
}

/// `HOST:PORT`, `[ADDR]:PORT` or `HOST`, whose port is memcached's.
fn host_and_port(place: &str) -> Result<(String, u16)> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port > 0);
            (host, port.with_context(|| format!("{place} has no port"))?)
        }
        _ => (place, 11211),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ensure!(!host.is_empty(), "{place:?} has no host");
    Ok((host.to_owned(), port))
}

/// The ring in a file, and the place of a node in it.
pub(super) fn membership(file: &Path, node: &str, args: &Args) -> Result<Membership> {
    let members = members(file)?;
    let Some(me) = members.iter().position(|member| member.name == node) else {
        bail!("--node {node}: {} has no node of this name", file.display());
    };
    let replicas = usize::from(args.replicas);
    ensure!(
        replicas < members.len(),
        "--replicas {replicas}: there are {} nodes beside this one",
        members.len() - 1
    );
    let transport = args.backbone.clone();
    Ok(Membership {
        transport: transport.unwrap_or(Transport::Tcp(members[me].backbone)),
        members,
        me,
        replicas,
        is_acked: args.replicate == "acked",
    })
}

/// Asks the nodes of a ring, or one, how they see it, and shows that. The status tells whether all
/// is well.
pub(super) fn status(of: &str) -> Result<ExitCode> {
    let file = Path::new(of);
    let asked: Vec<(String, String)> = match file.is_file() {
        true => (members(file)?.into_iter())
            .map(|member| {
                let at = match member.host.contains(':') {
                    true => format!("[{}]:{}", member.host, member.port),
                    false => format!("{}:{}", member.host, member.port),
                };
                (member.name, at)
            })
            .collect(),
        false => vec![(of.to_owned(), of.to_owned())],
    };
    let mut is_well = true;
    for (name, at) in asked {
        let said = ask(&at).and_then(|stats| tell(&stats));
        match said {
            Ok((text, is_whole)) => {
                is_well &= is_whole;
                println!("{text}");
            }
            Err(error) => {
                is_well = false;
                println!("{name} ({at}): {error:#}");
            }
        }
    }
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What a server says of its ring.
fn ask(at: &str) -> Result<BTreeMap<String, String>> {
    let address = at.to_socket_addrs()?.next().context("it has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"stats ring\r\n")?;
    let mut stats = BTreeMap::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("STAT"), Some(name), value) => {
                stats.insert(name.to_owned(), value.unwrap_or("").to_owned());
            }
            (Some("END"), ..) => return Ok(stats),
            _ => bail!("it is no node of a ring"),
        }
    }
    bail!("it said no more")
}

/// What a node says, as a line for it and each of the others; and whether all are there, all
/// ranges at home, and copied.
fn tell(stats: &BTreeMap<String, String>) -> Result<(String, bool)> {
    let of = |name: &str| stats.get(name).map_or("", String::as_str);
    let (me, mut is_whole) = (of("node"), true);
    let replicas: usize = of("replicas").parse().context("it is no node of a ring")?;
    let mut text = format!("{me}: {} copies, {}", of("replicas"), of("replicate"));
    for name in stats.keys().filter_map(|name| name.strip_suffix(":alive")) {
        let of = |what: &str| of(&format!("{name}:{what}"));
        let is_there = of("alive") == "1";
        let server = of("server");
        is_whole &= is_there && server == name;
        if server == me {
            let copies = of("copies").split(',').filter(|name| !name.is_empty());
            is_whole &= of("copying").is_empty() && copies.count() == replicas;
        }
        text.push_str(&format!(
            "\n  {name}: {}, its range is served by {}",
            if is_there { "there" } else { "not there" },
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
        if of("unacknowledged") != "0" {
            text.push_str(&format!(", {} bytes behind", of("unacknowledged")));
        }
    }
    Ok((text, is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Member>> {
        let file = std::env::temp_dir().join(format!(
            "rhythm-ring-{}-{:x}",
            std::process::id(),
            text.len() * 31 + text.bytes().map(usize::from).sum::<usize>()
        ));
        fs::write(&file, text).unwrap();
        let read = members(&file);
        fs::remove_file(&file).unwrap();
        read
    }

    #[test]
    fn a_file_says_who_is_in_the_ring() {
        let text = r#"
            node = [
                { name = "a", client = "cache-1", backbone = "127.0.0.1:1" },
                { name = "b", client = "[::1]:7", backbone = "127.0.0.1:2" },
            ]"#;
        let members = read(text).unwrap();
        let places = members
            .iter()
            .map(|member| (member.host.as_str(), member.port));
        assert_eq!(places.collect::<Vec<_>>(), [("cache-1", 11211), ("::1", 7)]);
    }

    #[test]
    fn mistakes_are_named() {
        let node = |name: &str, client: &str, backbone: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            )
        };
        let good = node("a", "h:1", "127.0.0.1:1");
        for (text, said) in [
            (good.clone(), "2 to 64 nodes"),
            (
                format!("{good}{}", node("a", "h:2", "127.0.0.1:2")),
                "two nodes are called a",
            ),
            (
                format!("{good}{}", node("b", "h:1", "127.0.0.1:2")),
                "two nodes are at h:1",
            ),
            (
                format!("{good}{}", node("b c", "h:2", "127.0.0.1:2")),
                "is no name",
            ),
            (
                format!("{good}{}", node("b", "h:0", "127.0.0.1:2")),
                "has no port",
            ),
            (
                format!("{good}{}", node("b", "h:2", "127.0.0.1")),
                "backbone",
            ),
            (format!("{good}x = 1\n"), "unknown field"),
        ] {
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
