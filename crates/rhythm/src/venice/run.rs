//! `rhythm venice run`: a program with memory of another machine.

use super::{common, key};
use crate::logs;
use crate::output::complain;
use anyhow::{Context, Result, anyhow};
use rhythm_engine::settings::LogFormat;
use rhythm_venice::agent::client::{Borrowed, Client, Event};
use rhythm_venice::identity::Sealing;
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::memory::run::{self, Options, RunError};
use rhythm_venice::name::NodeName;
use std::error::Error as _;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Run a program whose memory is partly another machine's.
///
/// The program is not changed: its large mappings, and pieces of memory as large, live here up to
/// --local bytes in each of its processes, and else with the donor. A page that is touched comes
/// back; those that came first leave. It has to be linked dynamically with the GNU C library, and
/// needs root, since the kernel tells nobody else of forks.
///
/// What it forks is looked after too; what these execute is not. If the donor or this command
/// dies, the program is ended by SIGBUS: it never reads wrong bytes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Memory that each process has here at most, such as 256M
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    local: u64,

    /// Memory of the donor, such as 2G
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    remote: u64,

    /// Borrow of whom the monitor finds: the Unix socket of this machine's agent
    #[arg(long, value_name = "PATH", conflicts_with_all = ["donor", "key_file", "donor_node"])]
    agent: Option<PathBuf>,

    /// Who lends, without an agent: where `rhythm venice lend` listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    donor: String,

    /// The secret that the donor has
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Who this machine is (`rhythm venice join`), for a donor that speaks TLS [default: with
    /// --agent, as the agent is]
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,

    /// The node that is to be at --donor, by its certificate; with --identity
    #[arg(long, value_name = "NODE", requires = "identity")]
    donor_node: Option<NodeName>,

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

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    let loan = Loan::of(&args)?;
    let donor = loan.donor;
    let options = Options {
        donor,
        sealing: loan.sealing.clone(),
        loan: loan.id,
        key: loan.key.clone(),
        local: args.local,
        remote: args.remote,
        threshold: args.threshold.max(4096),
        told: args.stats.map(Duration::from_secs),
    };
    let (program, arguments) = args.program.split_first().context("no program is given")?;
    let ended = run::run(&options, program, arguments).map_err(explained)?;
    drop(loan);
    if let Some(lost) = &ended.lost {
        complain(format_args!(
            "rhythm venice: donor {donor} is lost, and the program ended for it: {lost}"
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
    if let RunError::Donor { donor, lost } = &error {
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

/// What a program's memory is borrowed by.
struct Loan {
    id: LoanId,
    key: LoanKey,
    donor: SocketAddr,
    sealing: Option<Sealing>,
    /// Of an agent: given back when it is dropped.
    _borrowed: Option<Borrowed>,
}

impl Loan {
    fn of(args: &Args) -> Result<Loan> {
        let Some(agent) = &args.agent else {
            let key_file = args.key_file.as_deref().context(
                "say --key-file FILE, the secret of the donor, or --agent SOCKET, whose monitor \
                 finds one (docs/venice-monitor.md)",
            )?;
            let donor = resolve(&args.donor)?;
            let sealing = sealing(args.identity.as_deref(), args.donor_node.as_ref())?;
            common::may_borrow(donor, sealing.is_some(), args.plain_network)?;
            return Ok(Loan {
                // A share of what the donor offers.
                id: LoanId(0),
                key: key::read(key_file)?,
                donor,
                sealing,
                _borrowed: None,
            });
        };
        let client = Client::connect(agent)?;
        let borrowed = client.borrow(args.remote, PATIENCE)?;
        let (id, donor) = (borrowed.loan, borrowed.donor);
        let sealing = match &borrowed.sealed {
            None => None,
            Some(by) => {
                let agents = Path::new(&by.identity);
                let folder = args.identity.as_deref().unwrap_or(agents);
                Some(Sealing {
                    identity: common::identity(folder)?,
                    donor: by.node.clone(),
                })
            }
        };
        let encrypted = sealing.is_some();
        // Without an identity here it is as the agents have it.
        let may_be_plain = args.plain_network || args.identity.is_none();
        common::may_borrow(donor, encrypted, may_be_plain)?;
        tracing::info!(
            loan = %id, %donor, bytes = borrowed.bytes, encrypted, "memory is borrowed"
        );
        let tell = move || client.events().iter().for_each(tell);
        let name = "venice-events".to_owned();
        thread::Builder::new().name(name).spawn(tell)?;
        Ok(Loan {
            id,
            key: borrowed.key.clone(),
            donor,
            sealing,
            _borrowed: Some(borrowed),
        })
    }
}

/// Tells the log what becomes of the loan. Memory that is taken back ends the program: its pages
/// can go nowhere else.
fn tell(event: Event) {
    match event {
        Event::Broken { loan, why } => tracing::warn!(%loan, %why, "the loan is over"),
        Event::ReclaimWanted { loan, within } => {
            tracing::warn!(%loan, ?within, "the donor needs its memory, and takes it then");
        }
        Event::AgentGone => tracing::warn!("the agent of this machine is gone"),
    }
}

/// The address of a donor that is named.
pub(super) fn resolve(donor: &str) -> Result<SocketAddr> {
    common::resolve(donor, "donor", "10.0.0.7:7070")
}
