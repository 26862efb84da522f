//! `cargo xtask`: what is done to Rhythm's sources that cargo does not do itself.
#![forbid(unsafe_code)]

mod bundle;
mod kernels;
mod nvcc;
mod resources;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
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
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Kernels(args) => kernels::run(&args),
        Command::Gpu(args) => bundle::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ lies in the repository's root")
}

/// Where cargo, too, puts what it makes.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || root().join("target"),
        |given| {
            // Cargo means it from where it was started, as we do.
            std::env::current_dir().unwrap_or_default().join(given)
        },
    )
}
