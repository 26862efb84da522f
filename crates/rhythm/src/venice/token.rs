//! `rhythm venice token`: lets a machine join.

use super::common;
use crate::exits::wrong;
use crate::output::{complain, print_line};
use anyhow::{Result, ensure};
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
    /// The --state of the monitor, a folder: its authority is in there
    #[arg(long, value_name = "DIR", default_value = common::STATE)]
    state: PathBuf,

    /// The --authority of the monitor instead. The machine joins by a monitor that has this very
    /// folder: others do not know of the token
    #[arg(long, value_name = "DIR", conflicts_with = "state")]
    authority: Option<PathBuf>,

    /// Make an authority where there is none: nobody has a certificate of it yet
    #[arg(long)]
    create: bool,

    /// What the machine is to be called
    #[arg(long, value_name = "NODE")]
    name: NodeName,

    /// For how long it is good
    #[arg(long, value_name = "TIME", value_parser = common::time, default_value = "60m")]
    valid: Duration,
}

/// Where the authority is.
fn folder(args: &Args) -> Result<PathBuf> {
    if let Some(folder) = &args.authority {
        return Ok(folder.clone());
    }
    let state = &args.state;
    ensure!(
        !state.to_string_lossy().starts_with("etcd://"),
        wrong(
            "--state is in etcd, and the authority in a folder: say --authority DIR, as the \
             monitor does"
        )
    );
    Ok(common::authority_of(state))
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let folder = folder(args)?;
    // Of a folder that is mistyped, a token would be of no monitor's authority.
    ensure!(
        args.create || Authority::is_in(&folder),
        "{}: no authority is there. Say the --state or --authority of the monitor, which makes one \
         when it first starts; or --create, to make one here for a monitor that is to come",
        folder.display()
    );
    let authority = Authority::open(&folder)?;
    let token = authority.give_token(&args.name, args.valid)?;
    print_line(token)?;
    complain(format_args!(
        "on {}, within {:?}: rhythm venice join --monitor ADDR:PORT --identity DIR --token - (and \
         the line above on standard input)",
        args.name, args.valid
    ));
    Ok(ExitCode::SUCCESS)
}
