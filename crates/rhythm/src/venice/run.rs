//! `rhythm venice run`: a program with memory of another machine.

use super::key;
use crate::logs;
use crate::output::complain;
use anyhow::{Context, Result};
use rhythm_engine::settings::LogFormat;
use rhythm_venice::loan::LoanId;
use rhythm_venice::memory::run::{self, Options};
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
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
/// dies, the program is ended by SIGBUS: it never reads wrong bytes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Memory that each process has here at most, such as 256M
    #[arg(long, value_name = "BYTES", value_parser = key::bytes)]
    local: u64,

    /// Memory of the donor, such as 2G
    #[arg(long, value_name = "BYTES", value_parser = key::bytes)]
    remote: u64,

    /// Who lends: where `rhythm venice lend` listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    donor: String,

    /// The secret of the loan, as the donor has it
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,

    /// The loan, where a monitor made one; without it, a share of what the donor offers
    #[arg(
        long,
        value_name = "NUM",
        default_value_t = 0,
        hide_default_value = true
    )]
    loan: u64,

    /// What is large: mappings of less stay here
    #[arg(long, value_name = "BYTES", value_parser = key::bytes, default_value = "128K")]
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
    let key = key::read(&args.key_file)?;
    let donor = resolve(&args.donor)?;
    let options = Options {
        donor,
        loan: LoanId(args.loan),
        key,
        local: args.local,
        remote: args.remote,
        threshold: args.threshold.max(4096),
        told: args.stats.map(Duration::from_secs),
    };
    let (program, arguments) = args.program.split_first().context("no program is given")?;
    let ended = run::run(&options, program, arguments)?;
    if let Some(lost) = &ended.lost {
        complain(format_args!(
            "rhythm venice: donor {donor} is lost, and the program ended for it: {lost}"
        ));
    }
    complain(format_args!("rhythm venice: {}", ended.figures));
    Ok(ExitCode::from(ended.code))
}

fn resolve(donor: &str) -> Result<SocketAddr> {
    donor
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .with_context(|| {
            format!("there is no donor {donor}: give HOST:PORT, such as 10.0.0.7:7070")
        })
}
