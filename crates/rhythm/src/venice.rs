//! `rhythm venice`: machines lend each other what they do not use.

mod agent;
mod bench;
mod common;
mod join;
mod key;
mod lend;
mod lend_nic;
mod lends;
mod monitor;
mod nic;
mod run;
mod status;
mod token;

use anyhow::Result;
use std::process::ExitCode;

/// Use memory, accelerators and devices of other machines, or lend them this one's
///
/// A monitor knows what each machine has and lends it to whom; an agent runs on each machine, and
/// programs borrow from the agent of theirs (docs/venice-monitor.md). `token` and `join` give each
/// machine a certificate, by which all of them speak TLS with each other. Without them, `lend` and
/// `run` are two ends of one loan of memory, `lend-nic` and `nic` of a NIC (docs/venice.md).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(run::Args),
    Lend(lend::Args),
    Nic(nic::Args),
    LendNic(lend_nic::Args),
    Monitor(monitor::Args),
    Agent(agent::Args),
    Token(token::Args),
    Join(join::Args),
    Status(status::Args),
    Bench(bench::Args),
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(args),
        Command::Lend(args) => lend::run(args),
        Command::Nic(args) => nic::run(args),
        Command::LendNic(args) => lend_nic::run(args),
        Command::Monitor(args) => monitor::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Token(args) => token::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Bench(args) => bench::run(args),
    }
}
