//! `rhythm reproduce`: the charts and tables of papers.

mod kv;
mod origin;
mod progress;
mod rhythm;
mod rpo;

use anyhow::Result;
use std::process::ExitCode;

/// Make a paper's charts and tables, with the paper's figures beside.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, clap::Subcommand)]
enum Paper {
    Kv(kv::Kv),
    Rhythm(rhythm::Rhythm),
    Rpo(rpo::Rpo),
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.paper {
        Paper::Kv(args) => kv::run(args),
        Paper::Rhythm(args) => rhythm::run(args),
        Paper::Rpo(args) => rpo::run(args),
    }
}
