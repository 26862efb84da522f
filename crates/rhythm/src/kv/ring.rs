//! Where the nodes of a ring are known, a file or etcd; and how the ring is.

mod edit;

use super::args::{Args, RingTool};
use crate::output::print_line;
use anyhow::{Context, Result, bail, ensure};
use rhythm_kv::etcd::{Etcd, Registration};
use rhythm_kv::membership::{Membership, Transport};
use rhythm_kv::ring::{Member, NODES_MAX};
use rhythm_kv::shared::{Listen, Settings};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// What a ring that etcd knows begins with.
const ETCD: &str = "etcd://";
/// How often it is looked whether a node has left.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The length of a lease in etcd, in seconds, unless it is said.
const LEASE: u8 = 3;
/// How long a node may take to say how it sees the ring.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does what is asked of a ring.
pub(super) fn run(tool: &RingTool) -> Result<ExitCode> {
    match tool {
        RingTool::Status { of } => status(of),
        RingTool::Add {
            of,
            name,
            client,
            backbone,
        } => add(of, [name, client, backbone].map(String::clone)),
        RingTool::Remove { of, name } => remove(of, name),
    }
}

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

/// The nodes of a file, as they stand in its text.
fn nodes(text: &str) -> Result<Vec<Node>> {
    Ok(toml::from_str::<Ring>(text)?.node)
}

/// The nodes in a file.
fn members(file: &Path) -> Result<Vec<Member>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("--ring: cannot read {shown}"))?;
    let nodes = nodes(&text).and_then(checked);
    nodes.with_context(|| format!("--ring {shown}"))
}

/// Nodes that can be a ring.
fn checked(nodes: Vec<Node>) -> Result<Vec<Member>> {
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    let mut backbones = BTreeSet::new();
    let mut members = Vec::new();
    for node in nodes {
        let member = member(&node)?;
        let name = &member.name;
        ensure!(names.insert(name.clone()), "two nodes are called {name}");
        ensure!(
            places.insert((member.host.clone(), member.port)),
            "two nodes are at {}",
            node.client
        );
        ensure!(
            backbones.insert(member.backbone),
            "two nodes have the backbone {}",
            node.backbone
        );
        members.push(member);
    }
    ensure!(
        (2..=NODES_MAX).contains(&members.len()),
        "a ring has 2 to {NODES_MAX} nodes, not {}",
        members.len()
    );
    Ok(members)
}

/// What is said of a node, with its addresses.
fn member(node: &Node) -> Result<Member> {
    let name = &node.name;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ensure!(
        !name.is_empty() && name.len() <= 64 && name.bytes().all(plain),
        "{name:?} is no name: letters, digits, \"-\", \"_\" and \".\""
    );
    let (host, port) =
        host_and_port(&node.client).with_context(|| format!("node {name}, client"))?;
    let mut found = (node.backbone.to_socket_addrs())
        .with_context(|| format!("node {name}, backbone {}", node.backbone))?;
    let Some(backbone) = found.next() else {
        bail!("node {name}: {} has no address", node.backbone);
    };
    Ok(Member {
        name: name.clone(),
        host,
        port,
        backbone,
    })
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

/// The ring in a file, and the place of a node in it; none where the ring is in etcd, where it
/// [registers](register) when all else is well.
pub(super) fn membership(place: &str, node: &str, args: &Args) -> Result<Option<Membership>> {
    if let Some(etcd) = place.strip_prefix(ETCD) {
        return to_register(etcd, node, args).map(|_| None);
    }
    let file = Path::new(place);
    let members = members(file)?;
    ensure!(
        args.client.is_none(),
        "--client: where clients find a node stands in the file of the ring"
    );
    ensure!(
        args.lease.is_none(),
        "--lease: nodes have leases where etcd knows them (--ring etcd://...), not those of a file"
    );
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
    Ok(Some(Membership {
        transport: transport.unwrap_or(Transport::Tcp(members[me].backbone)),
        members: members.into_iter().enumerate().collect(),
        me,
        replicas,
        is_acked: args.replicate == "acked",
        scheme: args.scheme,
        etcd: None,
    }))
}

/// Where a node registers itself, and what it says of itself.
fn to_register(place: &str, node: &str, args: &Args) -> Result<(Etcd, Member)> {
    let etcd = Etcd::new(place).context("--ring")?;
    let client = args.client.as_deref();
    let client = client.context("--ring etcd://: say with --client where clients find the node")?;
    let listen = match &args.backbone {
        Some(Transport::Tcp(listen)) => *listen,
        Some(Transport::Ether(_)) => {
            bail!("--backbone ether: is for a ring in a file; with etcd nodes speak over TCP")
        }
        None => bail!("--ring etcd://: say with --backbone where others find it"),
    };
    ensure!(
        !listen.ip().is_unspecified() && listen.port() > 0,
        "--backbone {listen}: others cannot find the node there"
    );
    let me = member(&Node {
        name: node.to_owned(),
        client: client.to_owned(),
        backbone: listen.to_string(),
    })?;
    Ok((etcd, me))
}

/// Registers a node with etcd, if that is to know the ring.
pub(super) fn register(args: &Args, settings: &mut Settings) -> Result<()> {
    let (Some(place), Some(node)) = (&args.ring, &args.node) else {
        return Ok(());
    };
    let Some(place) = place.strip_prefix(ETCD) else {
        return Ok(());
    };
    let (etcd, me) = to_register(place, node, args)?;
    let listen = me.backbone;
    let registration =
        Registration::new(etcd, me, args.lease.unwrap_or(LEASE).into()).context("--ring")?;
    let ring = Membership {
        transport: Transport::Tcp(listen),
        members: registration.members.clone(),
        me: registration.number,
        replicas: args.replicas.into(),
        is_acked: args.replicate == "acked",
        scheme: args.scheme,
        etcd: Some(registration),
    };
    listen_there(ring.this(), args, settings);
    settings.ring = Some(ring);
    Ok(())
}

/// A node listens where clients know it, unless it was said where.
pub(super) fn listen_there(me: &Member, args: &Args, settings: &mut Settings) {
    if args.port.is_none() {
        settings.port = Some(me.port);
    }
    if settings.listen.is_empty() {
        settings.listen.push(Listen {
            host: Some(me.host.clone()),
            port: None,
        });
    }
}

/// Adds a node to a file.
fn add(of: &str, [name, client, backbone]: [String; 3]) -> Result<ExitCode> {
    ensure!(
        !of.starts_with(ETCD),
        "a node adds itself: start it with --ring {of} --node {name}"
    );
    let node = [
        ("name", &*name),
        ("client", &*client),
        ("backbone", &*backbone),
    ];
    write(Path::new(of), |text| edit::with(text, &node))
}

/// Removes a node from a file, or has it leave.
fn remove(of: &str, name: &str) -> Result<ExitCode> {
    if let Some(place) = of.strip_prefix(ETCD) {
        let mut etcd = Etcd::new(place)?;
        let is_there = |etcd: &mut Etcd| anyhow::Ok(etcd.members()?.iter().any(|m| m.name == name));
        ensure!(is_there(&mut etcd)?, "{of} has no node called {name}");
        etcd.put(&format!("leave/{name}"), "")?;
        while is_there(&mut etcd)? {
            thread::sleep(LOOK_EVERY);
        }
        return Ok(ExitCode::SUCCESS);
    }
    write(Path::new(of), |text| {
        let mut nodes = nodes(text)?.into_iter();
        let index = nodes.position(|node| node.name == name);
        edit::without(
            text,
            index.with_context(|| format!("it has no node called {name}"))?,
        )
    })
}

/// Has a file of a ring say what is a ring, too.
fn write(file: &Path, change: impl FnOnce(&str) -> Result<String>) -> Result<ExitCode> {
    let shown = file.display();
    edit::change(file, |text| {
        let text = change(text)?;
        checked(nodes(&text)?)?;
        Ok(text)
    })
    .with_context(|| format!("--ring {shown}"))?;
    print_line(format_args!(
        "{shown} is written; its nodes know of it when all of them were started anew"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the nodes of a ring, or one, how they see it, and shows that. The status tells whether all
/// is well.
fn status(of: &str) -> Result<ExitCode> {
    let file = Path::new(of);
    let known = match of.strip_prefix(ETCD) {
        Some(place) => Some(Etcd::new(place)?.members()?),
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
                print_line(format_args!("{name} ({at}): {error:#}"))?;
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
    for name in stats.keys().filter_map(|name| name.strip_suffix(":alive")) {
        let of = |what: &str| of(&format!("{name}:{what}"));
        let is_there = of("alive") == "1";
        let there = match is_there {
            true => "there",
            false if of("refused") == "1" => "not there: it was told something else (see the log)",
            false => "not there",
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
