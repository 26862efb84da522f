//! `rhythm venice join`: this machine has a certificate of its monitor's authority.

use super::common;
use crate::output::print_line;
use anyhow::{Context, Result, ensure};
use rhythm_venice::identity::{Token, join};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

/// Bytes of a token's text at most.
const TOKEN_BYTES_MAX: u64 = 1024;

/// Join a monitor, by a token that `rhythm venice token` wrote on its machine.
///
/// A key is made here, and stays here. The monitor's authority signs a certificate for it, with the
/// name that the token was given for; that is asked for in TLS, and nothing is told to anybody but
/// the monitor whose fingerprint the token has. `rhythm venice agent --identity DIR` and others
/// then use it. A certificate is good for two years; then join again, with another folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the monitor listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7200")]
    monitor: String,

    /// The token, once; "-" reads it from standard input, so that it is in no list of processes
    #[arg(long, value_name = "TOKEN", default_value = "-")]
    token: String,

    /// Where certificate and key are put; made if there is none
    #[arg(long, value_name = "DIR", default_value = common::IDENTITY)]
    identity: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let mut token = args.token.clone();
    if token == "-" {
        token.clear();
        let mut input = std::io::stdin().take(TOKEN_BYTES_MAX);
        input
            .read_to_string(&mut token)
            .context("cannot read the token")?;
        ensure!(
            !token.trim().is_empty(),
            "there is no token on standard input"
        );
    }
    let token: Token = token.parse()?;
    let monitor = common::resolve(&args.monitor, "monitor", "10.0.0.1:7200")?;
    let identity = join::join(monitor, &token, &args.identity)?;
    print_line(format_args!(
        "{} is {} of authority {}",
        args.identity.display(),
        identity.party(),
        token.authority()
    ))?;
    Ok(ExitCode::SUCCESS)
}
