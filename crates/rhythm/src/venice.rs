//! `rhythm venice`: machines lend each other what they do not use.

mod key;
mod lend;
mod run;

use anyhow::Result;
use std::process::ExitCode;

/// Use memory of other machines, or lend them this one's.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(run::Args),
    Lend(lend::Args),
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(args),
        Command::Lend(args) => lend::run(args),
    }
}
