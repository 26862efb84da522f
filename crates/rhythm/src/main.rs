//! The `rhythm` binary: one subcommand for each server or tool. It alone reads flags and files.
//!
//! Each subcommand is a module with its flags (`Args`), which say what was typed, and `run`, which
//! makes of them the options of the library that does the work. An error is printed once, with its
//! causes; `exits` says what commands end with.
#![deny(unsafe_code)]

mod admin;
mod allocator;
mod backends;
mod bench;
mod besim;
mod bookstore;
mod cert;
mod check;
mod conform;
mod device;
mod doctor;
#[cfg(test)]
mod documented;
mod ending;
mod exits;
mod flags;
mod folder;
mod kv;
mod lend_device;
mod load;
mod logs;
mod machine;
mod manager;
mod model;
mod new;
mod output;
mod passed;
mod progress;
mod remote;
mod reproduce;
mod rpo;
mod schema;
mod serve;
mod services;
mod shell;
mod venice;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// What the environment says to every command.
const ENVIRONMENT: &str = "Environment:
  RHYTHM_LOG   What is logged: off, error, warn, info, debug or trace, or levels of parts
  RHYTHM_SIMD  The instruction set: portable, sse2, avx2, avx512 or neon; the best without it";

/// A web server that executes similar requests together.
///
/// Requests for the same page form a cohort within a latency bound; parsing, session lookup,
/// backend access and rendering then happen once for the cohort instead of once for each request.
#[derive(Debug, Parser)]
#[command(name = "rhythm", version, propagate_version = true, after_help = ENVIRONMENT)]
#[command(after_long_help = format!("{ENVIRONMENT}\n\n{}", exits::help()))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    New(new::Args),
    Check(check::Args),
    Cert(cert::Args),
    Besim(besim::Args),
    Bookstore(bookstore::Args),
    Kv(Box<kv::Args>),
    Rpo(Box<rpo::Args>),
    Venice(Box<venice::Args>),
    Device(Box<lend_device::Args>),
    Load(load::Args),
    Bench(bench::Args),
    Model(model::Args),
    Reproduce(reproduce::Args),
    Schema(schema::Args),
    Doctor(doctor::Args),
    Completions(shell::Completions),
    Man(shell::Man),
}

fn main() -> ExitCode {
    allocator::set_up();
    let command = Cli::parse().command;
    // A server says it in its log.
    if !matches!(command, Command::Serve(_))
        && let Some(mistake) = logs::simd_mistake()
    {
        output::complain(format_args!("rhythm: warning: {mistake}"));
    }
    let result = match command {
        Command::Serve(args) => serve::run(args),
        Command::New(args) => new::run(args),
        Command::Check(args) => check::run(args),
        Command::Cert(args) => cert::run(&args),
        Command::Besim(args) => besim::run(args),
        Command::Bookstore(args) => bookstore::run(args),
        Command::Kv(args) => kv::run(*args),
        Command::Rpo(args) => rpo::run(*args),
        Command::Venice(args) => venice::run(*args),
        Command::Device(args) => lend_device::run(*args),
        Command::Load(args) => load::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Model(args) => model::run(&args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        // Each of its pages has a section for how a command ends.
        Command::Man(args) => shell::man(&args, Cli::command().after_long_help(ENVIRONMENT)),
    };
    logs::finish();
    result.unwrap_or_else(|error| {
        if let Some(wrong_flags) = error.downcast_ref::<clap::Error>() {
            wrong_flags.exit();
        }
        if error.is::<output::NoReader>() {
            return output::NoReader::exit_code();
        }
        output::complain(format_args!("rhythm: {error:#}"));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }
}
