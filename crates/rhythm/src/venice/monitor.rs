//! `rhythm venice monitor`: who has what, and lends it to whom.

use super::common;
use crate::exits::wrong;
use crate::logs;
use anyhow::{Context, Result, bail, ensure};
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_venice::identity::Authority;
use rhythm_venice::monitor::Settings;
use rhythm_venice::monitor::policy::{ByDistance, ByDistanceAndLoad, Policy};
use rhythm_venice::monitor::server::{Handle, Options, Server, StatePlace, Trust};
use rhythm_venice::secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Seconds that a lease lasts, unless another time is said.
const LEASE: u64 = 3;

/// Know what each machine has, and lend it to others.
///
/// One runs for a group of machines, on any of them; or several that share their state in etcd, of
/// which one leads, and the others are spares: when it is gone, one of them takes over. Loans are
/// written down before anybody is told of them, and go on while no monitor runs: it can be stopped
/// and started again at any time. SIGTERM and SIGINT end it.
///
/// It speaks TLS, and takes machines alone that its authority has given a certificate: they join by
/// `rhythm venice token` here and `rhythm venice join` there. The authority is a key in a folder,
/// which spares share (--authority). With --key-file it does neither.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where agents reach it
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    #[arg(default_value = "127.0.0.1:7200")]
    listen: SocketAddr,

    /// Where it keeps what it may not forget: a folder, made if there is none; or keys in etcd,
    /// where spares share it (`etcd://HOST:PORT,.../PREFIX`). The last one counts
    #[arg(long, value_name = "DIR|etcd://...", overrides_with = "state")]
    #[arg(default_value = common::STATE)]
    state: String,

    /// How long spares wait for a monitor that died, in seconds from 2 to 60: for so long it leads
    /// since etcd heard of it last [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(2..=60))]
    lease: Option<u64>,

    /// The folder of its authority, whose certificates agents show (`rhythm venice token`). With
    /// etcd it must be said, and be there: all spares have the same [default: authority in --state,
    /// made where there is none]
    #[arg(long, value_name = "DIR")]
    authority: Option<PathBuf>,

    /// Without TLS: the secret that it shares with its agents, a file that its owner alone can
    /// read. Else agents show certificates of its authority
    #[arg(long, value_name = "FILE", conflicts_with = "authority")]
    key_file: Option<PathBuf>,

    /// With --key-file, take addresses that other machines reach; with etcd, reach one on other
    /// machines; though nothing on the way there is encrypted
    #[arg(long)]
    plain_network: bool,

    /// Who is asked to lend
    #[arg(long, value_enum, default_value_t = Choice::Load)]
    policy: Choice,

    /// How often agents say that they are there
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "1s")]
    heartbeat: Duration,

    /// For how long an agent may be silent before its machine is taken for dead
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "5s")]
    dead_after: Duration,

    /// How long an agent has to come again when its connection has ended, as it does when it is
    /// killed
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "2s")]
    gone_after: Duration,

    /// Tell health, tables and figures over HTTP at this address (/healthz, /status, /metrics)
    /// [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    admin: Option<SocketAddr>,

    /// More names by which the admin listener may be asked, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "admin")]
    #[arg(value_parser = common::host_name)]
    admin_hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Choice {
    /// The nearest machine, as in the paper
    Distance,
    /// Of machines that are about as near, the one with the least lent and the widest link
    Load,
}

/// Where the state is.
fn state(args: &Args) -> Result<StatePlace> {
    let state = StatePlace::new(&args.state, args.lease.unwrap_or(LEASE)).context("--state")?;
    ensure!(
        args.lease.is_none() || matches!(state, StatePlace::Etcd { .. }),
        wrong(
            "--lease: there are spares where they share their state (--state etcd://...), not with \
             a folder"
        )
    );
    if let Some(place) = state.elsewhere().filter(|_| !args.plain_network) {
        bail!(wrong(format_args!(
            "--state: what goes to etcd at {place} is neither encrypted nor protected from being \
             changed on its way, or there. On a network of which all machines are trusted, say \
             --plain-network"
        )));
    }
    Ok(state)
}

/// What agents must show.
fn trust(args: &Args, state: &StatePlace) -> Result<Trust> {
    if let Some(file) = &args.key_file {
        return Ok(Trust::Secret(Secret::read(file)?));
    }
    let authority = match (&args.authority, state) {
        (Some(folder), StatePlace::Folder(_)) => Authority::open(folder)?,
        (None, StatePlace::Folder(state)) => Authority::open(&common::authority_of(state))?,
        // One that each made for itself would be no use to agents that go from one to another.
        (Some(folder), StatePlace::Etcd { .. }) => Authority::existing(folder)?,
        (None, StatePlace::Etcd { .. }) => bail!(wrong(
            "--state is in etcd, where the monitors' authority cannot be: say --authority DIR, a \
             folder that `rhythm venice token --create --authority DIR` makes, and of which all \
             monitors have a copy; or --key-file FILE, without TLS"
        )),
    };
    Ok(Trust::Authority(Box::new(authority)))
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let state = state(&args)?;
    ensure!(
        !args.plain_network || args.key_file.is_some() || matches!(state, StatePlace::Etcd { .. }),
        wrong(
            "--plain-network: all is in TLS here; it is for --key-file, and for a --state in etcd"
        )
    );
    let may = args.plain_network || args.key_file.is_none();
    common::may_be_plain("--listen", args.listen, may)?;
    ensure!(
        args.dead_after >= 2 * args.heartbeat,
        wrong(format_args!(
            "--dead-after {:?}: it must be at least twice --heartbeat, or machines are taken for \
             dead that are not",
            args.dead_after
        ))
    );
    let policy: Box<dyn Policy> = match args.policy {
        Choice::Distance => Box::new(ByDistance),
        Choice::Load => Box::new(ByDistanceAndLoad),
    };
    let trust = trust(&args, &state)?;
    let started = Arc::new(OnceLock::<Handle>::new());
    let of_signals = Arc::clone(&started);
    let _watch = signal::watch(move |signal| match (signal, of_signals.get()) {
        (Signal::Reload | Signal::User1, _) => {}
        (_, Some(handle)) => handle.stop(),
        // Nobody was told anything yet.
        (_, None) => std::process::exit(0),
    })
    .context("cannot watch for signals")?;
    logs::start(LogFormat::Text)?;
    let server = Server::start(Options {
        listen: args.listen,
        state,
        trust,
        settings: Settings {
            heartbeat: args.heartbeat,
            dead_after: args.dead_after,
            gone_after: args.gone_after,
            ..Settings::default()
        },
        policy,
        admin: args.admin,
        admin_hosts: args.admin_hosts,
    })?;
    started.get_or_init(|| server.handle());
    tracing::info!(address = %server.address(), "the monitor is there for agents");
    if let Some(at) = server.admin_address() {
        tracing::info!(address = %at, "health, tables and figures are told over HTTP");
    }
    server.join()?;
    Ok(ExitCode::SUCCESS)
}
