//! `rhythm venice run`: a program with memory of another machine.

use super::{common, key};
use crate::exits::wrong;
use crate::logs;
use crate::output::complain;
use anyhow::{Context, Result, anyhow, ensure};
use rhythm_engine::settings::LogFormat;
use rhythm_venice::agent::client::Client;
use rhythm_venice::agent::supply::ByAgent;
use rhythm_venice::identity::Sealing;
use rhythm_venice::memory::run::{self, Options, RunError};
use rhythm_venice::memory::supply::{Named, Supply};
use rhythm_venice::name::NodeName;
use std::error::Error as _;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Run a program whose memory is partly another machine's.
///
/// The program is not changed: its large mappings, and pieces of memory as large, live here up to
/// --local bytes in each of its processes, and else with the donor. A page that is touched comes
/// back; those that came first leave. It has to be linked dynamically with the GNU C library, and
/// needs root, since the kernel tells nobody else of forks.
///
/// What it forks is looked after too; what these execute is not. If the donor or this command
/// dies, the program is ended by SIGBUS: it never reads wrong bytes. With --mirror it goes on
/// without one of its two donors. A donor that an agent found, and that wants its memory back,
/// gets it once its pages are at another.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Memory that each process has here at most, such as 256M
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    local: u64,

    /// Memory of the donor, such as 2G; with --mirror, of each of the two
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    remote: u64,

    /// Borrow of whom the monitor finds: the Unix socket of this machine's agent
    #[arg(long, value_name = "PATH", conflicts_with_all = ["donor", "key_file", "donor_node"])]
    agent: Option<PathBuf>,

    /// Who lends, without an agent: where `rhythm venice lend` listens. With --mirror and --stripes
    /// it is given several times: those that are not needed are for when one is lost
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    donor: Vec<String>,

    /// Have every page at two donors: the death of one is a line in the log, and costs nothing
    #[arg(long)]
    mirror: bool,

    /// Spread pages over so many donors, each of which lends its part of --remote; with --mirror,
    /// over so many pairs. By an agent, these are different machines where there are as many
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=16))]
    stripes: u8,

    /// With how much a second, at most, another donor is filled in place of one that was lost
    #[arg(long, value_name = "BYTES", value_parser = common::bytes, default_value = "64M")]
    refill: u64,

    /// The secret that the donor has
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Who this machine is (`rhythm venice join`), for a donor that speaks TLS [default: with
    /// --agent, as the agent is]
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,

    /// The node that is to be at --donor, by its certificate; with --identity, as many times as
    /// --donor, and in the same order
    #[arg(long, value_name = "NODE", requires = "identity")]
    donor_node: Vec<NodeName>,

    /// Borrow of another machine that does not speak TLS, although pages and key are not encrypted
    /// on their way; with --agent and --identity, too
    #[arg(long)]
    plain_network: bool,

    /// What is large: mappings of less stay here
    #[arg(long, value_name = "BYTES", value_parser = common::bytes, default_value = "128K")]
    threshold: u64,

    /// Log each so many seconds what was counted so far
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    stats: Option<u64>,

    /// Tell what was counted so far over HTTP at this address (/metrics) [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    admin: Option<SocketAddr>,

    /// More names by which the admin listener may be asked, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "admin")]
    #[arg(value_parser = common::host_name)]
    admin_hosts: Vec<String>,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    let supply = supply(&args)?;
    let options = Options {
        mirror: args.mirror,
        stripes: args.stripes,
        refill: args.refill,
        local: args.local,
        remote: args.remote,
        threshold: args.threshold.max(4096),
        told: args.stats.map(Duration::from_secs),
        admin: args.admin,
        admin_hosts: args.admin_hosts,
    };
    let (program, arguments) = args.program.split_first().context("no program is given")?;
    let ended = run::run(&options, supply, program, arguments).map_err(explained)?;
    if let Some(gone) = &ended.lost {
        complain(format_args!(
            "rhythm venice: memory is lost, and the program ended for it, with {gone}"
        ));
    }
    complain(format_args!("rhythm venice: {}", ended.figures));
    Ok(ExitCode::from(ended.code))
}

/// How a donor is reached that is named.
pub(super) fn sealing(
    identity: Option<&Path>,
    donor: Option<&NodeName>,
) -> Result<Option<Sealing>> {
    let Some(folder) = identity else {
        return Ok(None);
    };
    let donor = donor.cloned().context(
        "say --donor-node NODE, too: the donor must show a certificate of that node, or anybody \
         who has one could be it",
    )?;
    let identity = common::identity(folder)?;
    Ok(Some(Sealing { identity, donor }))
}

/// Why a program was not run, and what helps where nobody lends.
fn explained(error: RunError) -> anyhow::Error {
    let of_donor = match &error {
        RunError::NoMirror(error) => error.as_ref(),
        error => error,
    };
    if let RunError::Donor { donor, lost } = of_donor {
        let why = lost
            .source()
            .and_then(|why| why.downcast_ref::<io::Error>());
        if why.is_some_and(|why| why.kind() == io::ErrorKind::ConnectionRefused) {
            return anyhow!(
                "nobody listens at {donor}: is `rhythm venice lend` running there, with --listen \
                 {donor}?"
            );
        }
    }
    error.into()
}

/// How long a loan is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who finds the donors of a program.
fn supply(args: &Args) -> Result<Box<dyn Supply>> {
    if let Some(agent) = &args.agent {
        let by_agent = ByAgent::new(Client::connect(agent)?, PATIENCE);
        return Ok(Box::new(match &args.identity {
            Some(folder) => by_agent.as_party(common::identity(folder)?, args.plain_network),
            None => by_agent,
        }));
    }
    let key_file = args.key_file.as_deref().context(
        "say --key-file FILE, the secret of the donor, or --agent SOCKET, whose monitor finds one \
         (docs/venice-monitor.md)",
    )?;
    let sealings = sealings(args)?;
    let mut donors: Vec<(SocketAddr, Option<Sealing>)> = Vec::new();
    for (donor, sealing) in args.donor.iter().zip(sealings) {
        let address = resolve(donor)?;
        ensure!(
            donors.iter().all(|(other, _)| *other != address),
            wrong(format_args!("--donor {donor} is named twice: name another"))
        );
        common::may_borrow(address, sealing.is_some(), args.plain_network)?;
        donors.push((address, sealing));
    }
    ensure!(
        donors.len() > 1 || !args.mirror,
        wrong(
            "--mirror has every page at two donors: name another with --donor, or let --agent find \
             both"
        )
    );
    ensure!(
        donors.len() == 1 || args.mirror || args.stripes > 1,
        wrong(
            "several donors are for --mirror, where each page is at two of them, and for \
             --stripes, where each has a part: say which, or both"
        )
    );
    Ok(Box::new(Named::new(donors, key::read(key_file)?)))
}

/// How each donor is reached that is named.
fn sealings(args: &Args) -> Result<Vec<Option<Sealing>>> {
    let (donors, nodes) = (args.donor.len(), args.donor_node.len());
    let Some(folder) = &args.identity else {
        return Ok(vec![None; donors]);
    };
    ensure!(
        nodes == donors || nodes == 0,
        wrong(format_args!(
            "--donor is given {donors} times, and --donor-node {nodes} times: say the node of each \
         donor, in the order of --donor"
        ))
    );
    let first = sealing(Some(folder), args.donor_node.first())?;
    let of_node = |node: &NodeName| {
        let own = first.clone();
        own.map(|own| Sealing {
            donor: node.clone(),
            ..own
        })
    };
    Ok(args.donor_node.iter().map(of_node).collect())
}

/// The address of a donor that is named.
pub(super) fn resolve(donor: &str) -> Result<SocketAddr> {
    common::resolve(donor, "donor", "10.0.0.7:7070")
}
