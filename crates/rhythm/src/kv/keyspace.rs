//! `rhythm kv keyspace`: a node of a keyspace that several agree on.

use super::nodes::{Node, Text, check_backbone, check_name, check_reach, nodes, place};
use super::values;
use super::verdict::verdict;
use crate::exits::{FORGOTTEN, wrong};
use crate::{logs, output};
use anyhow::{Context, Result, bail, ensure};
use rhythm_engine::settings::LogFormat;
use rhythm_kv::consensus::server::{
    CLIENTS_MAX, Failed, Handle, Member, NODES_MAX, Server, ServerError, Settings,
};
use rhythm_kv::status::keyspace::{Known, look};
use rhythm_net::resource;
use rhythm_net::signal::{self, Signal};
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Serve a small keyspace that nodes agree on, and that none of them forgets.
///
/// Its clients speak memcached's ASCII protocol; whichever node they ask, they see what was
/// confirmed. It serves while most of the nodes are there. SIGTERM and SIGINT end it: another node
/// leads from then on, and clients get answers to what was taken; said again, at once. A node that
/// lacks what it confirmed ends with status 3, and has to be replaced.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,

    #[command(flatten)]
    node: Option<NodeArgs>,
}

/// What can be asked of a keyspace.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Show what its nodes say: who leads in which term, and how far each of them is
    ///
    /// The status is 0 where all nodes answer, follow one leader, have what is agreed on, and room
    /// on their disks: then one of them can be ended, if there are three or more. Else it is 1, and
    /// the last line says what lacks and what to do.
    Status {
        /// The file that its nodes are started with, or the address of one node
        #[arg(value_name = "FILE|ADDR:PORT")]
        of: String,
    },
}

// A node, as it is started. (A docstring would stand in the place of the command's.)
#[derive(Debug, clap::Args)]
struct NodeArgs {
    /// The nodes of the keyspace: a file; see docs/kv-keyspace.md
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Which of them this is
    #[arg(long, value_name = "NAME")]
    node: String,

    /// Where it keeps what it may not forget
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,

    /// The folder is new. Not for a node that lost its folder: it has forgotten what it confirmed
    #[arg(long)]
    begin: bool,

    /// Tell health and figures over HTTP at this address (/healthz, /readyz, /metrics)
    /// [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::address)]
    admin: Option<SocketAddr>,

    /// More names by which the admin listener may be asked, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "admin")]
    #[arg(value_parser = values::host_name)]
    admin_hosts: Vec<String>,

    /// How log lines look: text, or a JSON object each (json); RHYTHM_LOG says which there are
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    #[arg(value_parser = values::log_format)]
    log_format: LogFormat,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    match (&args.tool, &args.node) {
        (Some(Tool::Status { of }), _) => status(of),
        (None, Some(node)) => serve_unless_forgotten(node),
        (None, None) => bail!(wrong(
            "say which node of which file is to be started; see --help"
        )),
    }
}

/// Asks the nodes of a keyspace, or one, how they are, and shows that.
fn status(of: &str) -> Result<ExitCode> {
    let file = Path::new(of);
    if file.is_file() {
        return verdict(look(Known::File(&members(file)?)));
    }
    ensure!(
        place(of).is_ok(),
        "there is no file {of}; give the file that the nodes are started with, or HOST:PORT of a \
         node"
    );
    verdict(look(Known::Node(of)))
}

/// Serves, and says with the status of its own where a node lacks what it confirmed.
fn serve_unless_forgotten(args: &NodeArgs) -> Result<ExitCode> {
    serve(args).or_else(|error| {
        let at_start = error.downcast_ref::<ServerError>();
        let later = error.downcast_ref::<Failed>();
        let has_forgotten = at_start.is_some_and(ServerError::has_forgotten)
            || later.is_some_and(Failed::has_forgotten);
        if !has_forgotten {
            return Err(error);
        }
        output::complain(format_args!("rhythm: {error:#}"));
        Ok(ExitCode::from(FORGOTTEN))
    })
}

fn serve(args: &NodeArgs) -> Result<ExitCode> {
    let members = members(&args.file)?;
    let Some(me) = members.iter().position(|member| member.name == args.node) else {
        bail!(
            "--node {}: {} has no node of this name",
            args.node,
            args.file.display()
        );
    };
    let started = Arc::new(OnceLock::<Handle>::new());
    let of_signals = Arc::clone(&started);
    let is_leaving = AtomicBool::new(false);
    let _watch = signal::watch(move |signal| match (signal, of_signals.get()) {
        (Signal::Reload | Signal::User1, _) => {}
        (_, Some(handle)) if is_leaving.swap(true, Ordering::Relaxed) => handle.stop(),
        (_, Some(handle)) => handle.leave(),
        // Nothing was confirmed to anybody yet.
        (_, None) => std::process::exit(0),
    })
    .context("cannot watch for signals")?;
    logs::start(args.log_format)?;
    resource::raise_open_files().context("cannot raise the limit of open files")?;
    // Where there is no room now, it is looked for as clients come.
    let _ = resource::make_room_for_files(CLIENTS_MAX as u64);
    let at = members[me].client;
    let server = Server::start(Settings {
        members,
        me,
        folder: args.folder.clone(),
        begin: args.begin,
        admin: args.admin,
        admin_hosts: args.admin_hosts.clone(),
    })?;
    started.get_or_init(|| server.handle());
    tracing::info!(address = %at, node = args.node, "the keyspace is serving over TCP");
    if let Some(at) = server.admin_address() {
        tracing::info!(address = %at, "health and figures are told over HTTP");
    }
    server.join()?;
    Ok(ExitCode::SUCCESS)
}

/// The nodes in a file.
fn members(file: &Path) -> Result<Vec<Member>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    nodes(&text)
        .and_then(|nodes| checked(&nodes))
        .with_context(|| format!("{shown}"))
}

/// Nodes that can be a keyspace.
fn checked(nodes: &[Node]) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for node in nodes {
        let (name, line) = (&node.name.text, node.name.line);
        check_name(name).with_context(|| format!("line {line}"))?;
        let found = |what: &str, check: fn(&str) -> Result<()>, place: &Text| {
            check(&place.text)
                .and_then(|()| {
                    let found = place.text.to_socket_addrs();
                    let found = found.ok().and_then(|mut found| found.next());
                    found.with_context(|| format!("cannot find the address of {place}"))
                })
                .with_context(|| format!("line {}: {what}", place.line))
        };
        let client = found("client", |client| place(client).map(drop), &node.client)?;
        let backbone = found("backbone", check_backbone, &node.backbone)?;
        ensure!(
            client != backbone,
            "line {}: the backbone of {name} is {backbone}, where its client is, too: give each a \
             port of its own",
            node.backbone.line
        );
        for other in &members {
            ensure!(
                other.name != *name,
                "line {line}: two nodes are called {name}: give each a name of its own"
            );
            ensure!(
                ![client, backbone].contains(&other.client)
                    && ![client, backbone].contains(&other.backbone),
                "line {line}: {} and {name} are at one place: give each its own",
                other.name
            );
        }
        members.push(Member {
            name: name.clone(),
            client,
            backbone,
            place: node.backbone.as_told(),
        });
    }
    check_reach(
        nodes
            .iter()
            .zip(members.iter().map(|member| member.backbone)),
    )?;
    ensure!(
        (1..=NODES_MAX).contains(&members.len()),
        "a keyspace has 1 to {NODES_MAX} nodes (3 or 5 are usual), and here are {}",
        members.len()
    );
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn read(nodes: &[(&str, &str, &str)]) -> Result<Vec<Member>> {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let file = format!("rhythm-keyspace-{}-{number}", std::process::id());
        let file = std::env::temp_dir().join(file);
        let lines = nodes.iter().map(|(name, client, backbone)| {
            format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            )
        });
        fs::write(&file, lines.collect::<String>()).unwrap();
        let read = members(&file);
        fs::remove_file(&file).unwrap();
        read
    }

    #[test]
    fn a_file_says_who_agrees() {
        let members = read(&[
            ("a", "127.0.0.1:1", "[::1]:2"),
            ("b", "127.0.0.1:3", "[::1]:4"),
        ]);
        let places = members.unwrap().into_iter().map(|member| {
            let Member {
                client, backbone, ..
            } = member;
            (client.port(), backbone.port())
        });
        assert_eq!(places.collect::<Vec<_>>(), [(1, 2), (3, 4)]);
    }

    #[test]
    fn what_all_nodes_agree_on_is_what_the_file_says() {
        let members = read(&[
            ("a", "127.0.0.1:1", "localhost:2"),
            ("b", "127.0.0.1:3", "[0:0::1]:4"),
        ]);
        let places = members.unwrap().into_iter().map(|member| member.place);
        assert_eq!(places.collect::<Vec<_>>(), ["localhost:2", "[::1]:4"]);
    }

    #[test]
    fn mistakes_are_named() {
        let a = ("a", "127.0.0.1:1", "127.0.0.1:2");
        for (nodes, said) in [
            (
                &[a, ("a", "127.0.0.1:3", "127.0.0.1:4")][..],
                "two nodes are called a",
            ),
            (
                &[a, ("b", "127.0.0.1:3", "127.0.0.1:2")],
                "a and b are at one place",
            ),
            (&[("a b", "127.0.0.1:1", "127.0.0.1:2")], "is no name"),
            (
                &[
                    a,
                    ("b", "10.0.0.1:1", "10.0.0.1:2"),
                    ("c", "localhost:5", "localhost:6"),
                ],
                "line 4: node a has the backbone 127.0.0.1:2, and is reached there from its own \
                 machine alone, while b is at 10.0.0.1:2: ",
            ),
            (
                &[
                    ("b", "10.0.0.1:1", "10.0.0.1:2"),
                    ("c", "localhost:5", "localhost:6"),
                ],
                "line 8: node c has the backbone localhost:6, which is ",
            ),
            (
                &[("a", "127.0.0.1", "127.0.0.1:2")],
                "line 3: client: 127.0.0.1 has no port",
            ),
            (
                &[("a", "127.0.0.1:2", "127.0.0.1:2")],
                "line 4: the backbone of a is 127.0.0.1:2, where its client is, too",
            ),
        ] {
            let error = format!("{:#}", read(nodes).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
