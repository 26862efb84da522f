//! `rhythm reproduce`: the charts and tables of papers.

mod against;
mod all;
mod kv;
pub(crate) mod origin;
mod rhythm;
mod rpo;
mod venice;

use anyhow::{Context, Result};
use rhythm_bench::reproduce;
use rhythm_net::signal::{self, Signal, SignalWatch};
use std::process::ExitCode;

/// Make a paper's charts and tables, with the paper's figures beside.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, clap::Subcommand)]
enum Paper {
    All(all::All),
    Kv(kv::Kv),
    Rhythm(rhythm::Rhythm),
    Rpo(rpo::Rpo),
    Venice(venice::Venice),
}

/// Servers and folders are not left behind by a signal, as long as this is kept. What the process
/// was begun to ignore ends nothing: with nohup it outlasts its terminal.
///
/// # Errors
/// The system does not tell of signals.
pub(crate) fn watch_signals() -> Result<SignalWatch> {
    signal::watch_unless_ignored(|signal| match signal {
        Signal::Terminate => reproduce::leave(128 + 15),
        Signal::Interrupt => reproduce::leave(128 + 2),
        Signal::Reload => reproduce::leave(128 + 1),
        Signal::User1 => {}
    })
    .context("cannot watch for signals")
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let _watch = watch_signals()?;
    match args.paper {
        Paper::All(args) => all::run(&args),
        Paper::Kv(args) => kv::run(args),
        Paper::Rhythm(args) => rhythm::run(args),
        Paper::Rpo(args) => rpo::run(args),
        Paper::Venice(args) => venice::run(args),
    }
}
