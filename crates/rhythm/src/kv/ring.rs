//! Where the nodes of a ring are known, a file or etcd.

mod edit;
mod status;
pub(super) mod tool;

use super::args::Args;
use super::nodes::{Node, check_backbone, check_name, check_reach, host_and_port, nodes};
use crate::exits::wrong;
use anyhow::{Context, Result, bail, ensure};
use rhythm_etcd::Etcd;
use rhythm_kv::membership::{Candidate, Membership, Transport};
use rhythm_kv::ring::{Member, NODES_MAX};
use rhythm_kv::shared::{Listen, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// What a ring that etcd knows begins with.
const ETCD: &str = "etcd://";
/// The length of a lease in etcd, in seconds, unless it is said.
const LEASE: u8 = 3;

/// The nodes in a file; where they reach each other by TCP they have to.
fn members(file: &Path, is_tcp: bool) -> Result<Vec<Member>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("--ring: cannot read {shown}"))?;
    let members = nodes(&text).and_then(|nodes| {
        let members = checked(&nodes)?;
        if is_tcp {
            let backbones = members.iter().map(|member| member.backbone);
            check_reach(nodes.iter().zip(backbones))?;
        }
        Ok(members)
    });
    members.with_context(|| format!("--ring {shown}"))
}

/// Nodes that can be a ring.
fn checked(nodes: &[Node]) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    // Where clients or other nodes find somebody, and whom.
    let mut places: BTreeMap<(String, u16), String> = BTreeMap::new();
    for node in nodes {
        let (name, line) = (&node.name.text, node.name.line);
        check_name(name).with_context(|| format!("line {line}"))?;
        ensure!(
            members.iter().all(|other| other.name != *name),
            "line {line}: two nodes are called {name}: give each a name of its own"
        );
        let line = node.client.line;
        let (host, port) =
            host_and_port(&node.client.text).with_context(|| format!("line {line}: client"))?;
        let line = node.backbone.line;
        let backbone =
            backbone(&node.backbone.text).with_context(|| format!("line {line}: backbone"))?;
        for (what, text, place) in [
            ("client", &node.client, (host.clone(), port)),
            (
                "backbone",
                &node.backbone,
                (backbone.ip().to_string(), backbone.port()),
            ),
        ] {
            let whose = format!("the {what} of {name}");
            if let Some(other) = places.insert(place, whose) {
                bail!(
                    "line {}: the {what} of {name} is {text}, where {other} is, too: give each a \
                     port, or an address, of its own",
                    text.line
                );
            }
        }
        members.push(Member {
            name: name.clone(),
            host,
            port,
            backbone,
            place: node.backbone.as_told(),
        });
    }
    ensure!(
        (2..=NODES_MAX).contains(&members.len()),
        "a ring has 2 to {NODES_MAX} nodes, and here are {}: a node is a table [[node]] with name, \
         client and backbone",
        members.len()
    );
    Ok(members)
}

/// Where other nodes reach one.
fn backbone(place: &str) -> Result<SocketAddr> {
    check_backbone(place)?;
    let found = place.to_socket_addrs();
    let mut found = found.with_context(|| format!("cannot find the address of {place}"))?;
    found
        .next()
        .with_context(|| format!("{place} has no address"))
}

/// Has the server be a node of the ring that is known at this place.
pub(super) fn join(place: &str, node: &str, args: &Args, settings: &mut Settings) -> Result<()> {
    let me = match place.strip_prefix(ETCD) {
        Some(etcd) => {
            let candidate = candidate(etcd, node, args)?;
            settings.candidate.insert(candidate).me.clone()
        }
        None => {
            let membership = membership(Path::new(place), node, args)?;
            settings.ring.insert(membership).this().clone()
        }
    };
    listen_there(&me, args, settings);
    Ok(())
}

/// The ring in a file, and the place of a node in it.
fn membership(file: &Path, node: &str, args: &Args) -> Result<Membership> {
    let is_tcp = !matches!(args.backbone, Some(Transport::Ether(_)));
    let members = members(file, is_tcp)?;
    ensure!(
        args.client.is_none(),
        wrong("--client: where clients find a node stands in the file of the ring")
    );
    ensure!(
        args.lease.is_none(),
        wrong(
            "--lease: nodes have leases where etcd knows them (--ring etcd://...), not those of a \
             file"
        )
    );
    let Some(me) = members.iter().position(|member| member.name == node) else {
        let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
        bail!(
            "--node {node}: {} has no node of this name, but {}",
            file.display(),
            names.join(", ")
        );
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
        members: members.into_iter().enumerate().collect(),
        me,
        replicas,
        replicate: args.replicate,
        elsewhere: args.elsewhere.unwrap_or(args.scheme.elsewhere()),
        scheme: args.scheme,
        etcd: None,
    })
}

/// A node that is to register itself with etcd, and what it says of itself.
fn candidate(place: &str, node: &str, args: &Args) -> Result<Candidate> {
    let etcd = Etcd::new(place).context("--ring")?;
    let client = args.client.as_deref();
    let client = client.context("--ring etcd://: say with --client where clients find the node")?;
    let backbone = match &args.backbone {
        Some(Transport::Tcp(listen)) => *listen,
        Some(Transport::Ether(_)) => {
            bail!(wrong(
                "--backbone ether: is for a ring in a file; with etcd nodes speak over TCP"
            ))
        }
        None => bail!(wrong(
            "--ring etcd://: say with --backbone where others find it"
        )),
    };
    check_backbone(&backbone.to_string()).context("--backbone")?;
    check_name(node).context("--node")?;
    let (host, port) = host_and_port(client).context("--client")?;
    ensure!(
        (host.parse(), port) != (Ok(backbone.ip()), backbone.port()),
        wrong(format_args!(
            "--client and --backbone are both {backbone}: clients and nodes need a port each"
        ))
    );
    Ok(Candidate {
        etcd,
        me: Member {
            name: node.to_owned(),
            host,
            port,
            backbone,
            place: backbone.to_string(),
        },
        lease: args.lease.unwrap_or(LEASE).into(),
        scheme: args.scheme,
        replicas: args.replicas.into(),
        replicate: args.replicate,
        elsewhere: args.elsewhere.unwrap_or(args.scheme.elsewhere()),
    })
}

/// A node listens where clients know it, unless it was said where.
fn listen_there(me: &Member, args: &Args, settings: &mut Settings) {
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
        let read = members(&file, true);
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
    fn the_file_of_the_document_says_so() {
        let document = include_str!("../../../../docs/kv-ring.md");
        let (_, behind) = document
            .split_once("(`ring.toml`):\n\n")
            .expect("it is there");
        let (file, _) = behind.split_once("\n\n").expect("it ends");
        let names = read(file).unwrap().into_iter().map(|member| member.name);
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn mistakes_are_named() {
        let node = |name: &str, client: &str, backbone: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            )
        };
        let good = node("a", "h:1", "127.0.0.1:1");
        let with = |name: &str, client: &str, backbone: &str| {
            format!("{good}{}", node(name, client, backbone))
        };
        for (text, said) in [
            (good.clone(), "a ring has 2 to 64 nodes, and here are 1: "),
            (
                with("a", "h:2", "127.0.0.1:2"),
                "line 6: two nodes are called a: ",
            ),
            (
                with("b", "h:1", "127.0.0.1:2"),
                "line 7: the client of b is h:1, where the client of a is, too: ",
            ),
            (
                with("b", "h:2", "127.0.0.1:1"),
                "line 8: the backbone of b is 127.0.0.1:1, where the backbone of a is, too: ",
            ),
            (
                with("b", "127.0.0.1:2", "127.0.0.1:2"),
                "line 8: the backbone of b is 127.0.0.1:2, where the client of b is, too: ",
            ),
            (
                with("b c", "h:2", "127.0.0.1:2"),
                "line 6: \"b c\" is no name",
            ),
            (
                with("b", "h:70000", "127.0.0.1:2"),
                "line 7: client: h:70000 has the port \"70000\": a port is a number from 1 to",
            ),
            (
                with("b", "h:2", "127.0.0.1:0"),
                "line 8: backbone: 127.0.0.1:0 has the port \"0\": a port is",
            ),
            (
                with("b", "h:2", "127.0.0.1"),
                "line 8: backbone: 127.0.0.1 has no port: write ADDR:PORT",
            ),
            (
                with("b", "h:2", "0.0.0.0:2"),
                "line 8: backbone: 0.0.0.0:2 is where a node listens, and not where the others",
            ),
            (
                with("b", "h:2", "10.0.0.1:2"),
                "line 4: node a has the backbone 127.0.0.1:1, and is reached there from its own \
                 machine alone, while b is at 10.0.0.1:2: ",
            ),
            (format!("{good}x = 1\n"), "line 5: a node has no \"x\""),
        ] {
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
