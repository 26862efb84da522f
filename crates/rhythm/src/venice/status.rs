//! `rhythm venice status`: asks a running monitor or agent how it is.

use crate::admin::{self, Unanswered};
use crate::output::{print, print_line};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Most bytes of an answer: tables of all loans that there may be.
const ANSWER_MAX: u64 = 64 << 20;

/// The tables of a running monitor, or the loans and links of an agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its admin listener, which it has where it was started with --admin
    #[arg(value_name = "ADDR:PORT", default_value = "127.0.0.1:7201")]
    admin: SocketAddr,

    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let at = args.admin;
    let cure = "name the --admin of a monitor or an agent, not its --listen, --donor or --probe";
    let answer = match admin::ask(at, ANSWER_MAX) {
        Ok(answer) => answer,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => bail!(
            "nobody listens at {at}: start the monitor, or the agent, with --admin {at}, or name \
             the address that it has there"
        ),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            bail!("what listens at {at} does not speak HTTP: {cure}")
        }
        Err(error) => {
            return Err(error).with_context(|| format!("no status comes from {at}: {cure}"));
        }
    };
    let status = admin::read(&answer).map_err(|unanswered| match unanswered {
        Unanswered::NotHttp => anyhow::anyhow!("what listens at {at} does not speak HTTP: {cure}"),
        Unanswered::Code(code) => anyhow::anyhow!("at {at}, it answers: {code}"),
        Unanswered::NotStatus => {
            anyhow::anyhow!("what listens at {at} speaks HTTP and has no status to tell: {cure}")
        }
    })?;
    // Others have a status, too.
    if status.values["rrt"].is_null()
        && status.values["node"].is_null()
        && status.values["leads"].is_null()
    {
        bail!("what listens at {at} is neither a monitor nor an agent: {cure}");
    }
    match args.json {
        true => print_line(format_args!("{:#}", status.values))?,
        false => print(status.text)?,
    }
    Ok(ExitCode::SUCCESS)
}
