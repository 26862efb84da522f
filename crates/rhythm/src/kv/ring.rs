//! Where the nodes of a ring are known, a file or etcd.

mod edit;
mod status;
pub(super) mod tool;

use super::args::Args;
use super::nodes::{Node, check_name, nodes};
use anyhow::{Context, Result, bail, ensure};
use rhythm_etcd::Etcd;
use rhythm_kv::membership::{Membership, Transport};
use rhythm_kv::registration::Registration;
use rhythm_kv::ring::{Member, NODES_MAX};
use rhythm_kv::shared::{Listen, Settings};
use std::collections::BTreeSet;
use std::fs;
use std::net::ToSocketAddrs;
use std::path::Path;

/// What a ring that etcd knows begins with.
const ETCD: &str = "etcd://";
/// The length of a lease in etcd, in seconds, unless it is said.
const LEASE: u8 = 3;

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
    check_name(name)?;
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
        replicate: args.replicate,
        elsewhere: args.elsewhere.unwrap_or(args.scheme.elsewhere()),
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
        replicate: args.replicate,
        elsewhere: args.elsewhere.unwrap_or(args.scheme.elsewhere()),
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
