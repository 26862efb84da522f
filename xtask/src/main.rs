//! `cargo xtask`: what is done to Rhythm's sources that cargo does not do itself.
#![forbid(unsafe_code)]

mod book;
mod bundle;
mod deb;
mod fuzz;
mod instructions;
mod kernels;
mod markdown;
mod nvcc;
mod paths;
mod resources;
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// What is done to Rhythm's sources that cargo does not do itself.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Kernels(kernels::Args),
    Gpu(bundle::Args),
    Fuzz(fuzz::Args),
    Deb(deb::Args),
    Instructions(instructions::Args),
    Book(book::Args),
    Tidy(tidy::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Kernels(args) => kernels::run(&args),
        Command::Gpu(args) => bundle::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Deb(args) => deb::run(&args),
        Command::Instructions(args) => instructions::run(&args),
        Command::Book(args) => book::run(&args),
        Command::Tidy(args) => tidy::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
