//! `rhythm venice token`: lets a machine join.

use super::common;
use crate::output::{complain, print_line};
use anyhow::Result;
use rhythm_venice::identity::Authority;
use rhythm_venice::name::NodeName;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Write a token, by which a machine joins a monitor once: `rhythm venice join` there.
///
/// The token is a secret: who has it first has a certificate with that name. It says by which
/// fingerprint the monitor is known, so that nobody else is told the secret. It is used once, and
/// soon over. Run it on the monitor's machine, whether the monitor runs or not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The --state of the monitor; its authority is made there where there is none
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// What the machine is to be called
    #[arg(long, value_name = "NODE")]
    name: NodeName,

    /// For how long it is good
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "60m")]
    valid: Duration,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let authority = Authority::open(&common::authority_of(&args.state))?;
    let token = authority.give_token(&args.name, args.valid)?;
    print_line(token)?;
    complain(format_args!(
        "on {}, within {:?}: rhythm venice join --monitor ADDR:PORT --identity DIR --token - (and \
         the line above on standard input)",
        args.name, args.valid
    ));
    Ok(ExitCode::SUCCESS)
}
