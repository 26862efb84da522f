//! `rhythm venice status`: asks a running monitor or agent how it is.

use crate::admin;
use crate::output::{print, print_line};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Most bytes of an answer: tables of all loans that there may be.
const ANSWER_MAX: u64 = 64 << 20;

/// The tables of a running monitor, or the loans and links of an agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its admin listener
    #[arg(value_name = "ADDR:PORT")]
    admin: SocketAddr,

    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let at = args.admin;
    let answer = admin::ask(at, ANSWER_MAX);
    let answer = answer.with_context(|| format!("nobody answers at {at}"))?;
    let status = admin::read(&answer)
        .with_context(|| format!("at {at}, which is to be the --admin of a monitor or agent"))?;
    match args.json {
        true => print_line(format_args!("{:#}", status.values))?,
        false => print(status.text)?,
    }
    Ok(ExitCode::SUCCESS)
}
