//! `rhythm venice agent`: what runs on each machine.

use super::common;
use super::lends::Lends;
use crate::exits::wrong;
use crate::logs;
use anyhow::{Context, Result, ensure};
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_venice::agent::server::{Handle, Options, Server, Trust};
use rhythm_venice::agent::{PlainLoans, Settings};
use rhythm_venice::identity::Identity;
use rhythm_venice::name::NodeName;
use rhythm_venice::secret::Secret;
use rhythm_venice::wire::is_place;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where the system says what this machine is called.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Run on a machine, so that its programs can borrow of others, and others of it: memory,
/// accelerators, and devices that run Rhythm's cohorts.
///
/// SIGTERM and SIGINT end it: what it lends is wanted back first. A second one ends it at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the monitor is; several, with commas between them, where there are spares: they are
    /// tried in turn
    #[arg(long, value_name = "ADDR:PORT,...", value_parser = common::address)]
    #[arg(value_delimiter = ',', default_value = "127.0.0.1:7200")]
    monitor: Vec<SocketAddr>,

    /// Who this machine is, as `rhythm venice join` has made it: all is encrypted then [default:
    /// /etc/rhythm/venice, unless there is --key-file]
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,

    /// Without TLS: the secret that it shares with the monitor, a file that its owner alone can
    /// read
    #[arg(long, value_name = "FILE", conflicts_with = "identity")]
    key_file: Option<PathBuf>,

    /// What this machine is called, as no other of the monitor is [default: as --identity has it;
    /// with --key-file, as it is called in the network]
    #[arg(long, value_name = "NAME")]
    name: Option<NodeName>,

    /// Where it stands, from the largest to the smallest, such as hall1/rack2: what is borrowed is
    /// of machines that are near
    #[arg(
        long,
        value_name = "PLACE",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(value_parser = place)]
    place: String,

    /// Where programs of this machine ask for what others lend: a Unix socket
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/rhythm-venice/agent.sock"
    )]
    socket: PathBuf,

    /// Who may: the permissions of that socket
    #[arg(long, value_name = "OCTAL", value_parser = octal, default_value = "600")]
    socket_mode: u32,

    /// Where other agents test the link to this machine, over UDP
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    #[arg(default_value = "127.0.0.1:0")]
    probe: SocketAddr,

    #[command(flatten)]
    lends: Lends,

    /// Take addresses that other machines reach, though nothing on the way there is encrypted; with
    /// --identity, encrypt what is said with the monitor and not what is lent, and borrow of others
    /// that do so
    #[arg(long)]
    plain_network: bool,

    /// Memory that is kept free for this machine itself: below, memory that it lends is wanted back
    #[arg(long, value_name = "BYTES", value_parser = common::bytes, default_value = "1G")]
    keep_free: u64,

    /// How long borrowers have to give back what this machine needs, before it is taken
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "5s")]
    reclaim_within: Duration,

    /// How long a program waits for a loan
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "10s")]
    borrow_within: Duration,

    /// Tell health, loans and figures over HTTP at this address (/healthz, /status, /metrics)
    /// [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    admin: Option<SocketAddr>,

    /// More names by which the admin listener may be asked, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "admin")]
    #[arg(value_parser = common::host_name)]
    admin_hosts: Vec<String>,
}

fn place(text: &str) -> Result<String, &'static str> {
    match is_place(text) {
        true => Ok(text.to_owned()),
        false => Err("names with slashes between them, such as hall1/rack2"),
    }
}

fn octal(text: &str) -> Result<u32, &'static str> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= 0o777)
        .ok_or("an octal number such as 660")
}

/// What is shown to the monitor, and the identity where that is one.
fn trust(args: &Args) -> Result<(Trust, Option<Arc<Identity>>)> {
    if let Some(file) = &args.key_file {
        return Ok((Trust::Secret(Secret::read(file)?), None));
    }
    let folder = args.identity.as_deref();
    let folder = folder.unwrap_or(Path::new(common::IDENTITY));
    // Programs are told where it is, wherever they run.
    let whole = folder.canonicalize().with_context(|| {
        format!(
            "--identity {}: `rhythm venice join` makes it, by a token of the monitor's (rhythm \
             venice token)",
            folder.display()
        )
    })?;
    let identity = common::identity(&whole)?;
    let plain = match args.plain_network {
        true => PlainLoans::Taken,
        false => PlainLoans::Refused,
    };
    Ok((
        Trust::Identity(Arc::clone(&identity), whole, plain),
        Some(identity),
    ))
}

/// What this machine is called: as its certificate has it.
fn name(args: &Args, identity: Option<&Identity>) -> Result<NodeName> {
    let certified = identity.map(Identity::node).transpose()?;
    if let (Some(name), Some(certified)) = (&args.name, certified) {
        ensure!(
            name == certified,
            "--name {name}: the certificate in --identity is of {certified}; leave --name out, or \
             join by a token for {name}"
        );
    }
    if let Some(name) = certified.or(args.name.as_ref()) {
        return Ok(name.clone());
    }
    let host = fs::read_to_string(HOST_NAME).context("say --name NAME: this machine has none")?;
    let host = host.trim();
    host.parse()
        .with_context(|| format!("this machine is called {host:?}: say --name NAME"))
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    args.lends.begin()?;
    let may = args.plain_network || args.key_file.is_none();
    for monitor in &args.monitor {
        common::may_be_plain("--monitor", *monitor, may)?;
    }
    common::may_be_plain("--probe", args.probe, may)?;
    (args.lends).check(&args.monitor, args.key_file.is_none(), args.plain_network)?;
    ensure!(
        args.probe.ip().is_loopback() || args.probe.port() != 0,
        wrong(format_args!("--probe {}: name a port", args.probe))
    );
    logs::start(LogFormat::Text)?;
    let (trust, identity) = trust(&args)?;
    let name = name(&args, identity.as_deref())?;
    let sealing = identity.as_deref().filter(|_| !args.plain_network);
    let lenders = args.lends.start(sealing)?;
    let started = Arc::new(OnceLock::<Handle>::new());
    let of_signals = Arc::clone(&started);
    let is_leaving = AtomicBool::new(false);
    let _watch = signal::watch(move |signal| match (signal, of_signals.get()) {
        (Signal::Reload | Signal::User1, _) => {}
        (_, Some(handle)) if is_leaving.swap(true, Ordering::Relaxed) => handle.stop(),
        (_, Some(handle)) => handle.leave(),
        // Nothing is lent or borrowed yet.
        (_, None) => std::process::exit(0),
    })
    .context("cannot watch for signals")?;
    let options = Options {
        monitors: args.monitor.clone(),
        trust,
        settings: Settings {
            name,
            monitors: args.monitor.len(),
            place: args.place,
            probe: args.probe,
            lends: args.lends.shares(),
            keep_free: args.keep_free,
            reclaim_within: args.reclaim_within,
            borrow_within: args.borrow_within,
        },
        socket: args.socket.clone(),
        socket_mode: args.socket_mode,
        admin: args.admin,
        admin_hosts: args.admin_hosts,
    };
    let server = Server::start(options, lenders)?;
    started.get_or_init(|| server.handle());
    let probe = server.probe_address();
    tracing::info!(socket = %args.socket.display(), %probe, "the agent is there for programs");
    if let Some(at) = server.admin_address() {
        tracing::info!(address = %at, "health, loans and figures are told over HTTP");
    }
    server.join()?;
    Ok(ExitCode::SUCCESS)
}
