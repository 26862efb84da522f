//! `rhythm completions` and `rhythm man`: what shells and man(1) know of the command line, made
//! from its one definition.

use crate::output;
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print what a shell needs to complete rhythm's commands and flags.
///
/// For bash: rhythm completions bash > /etc/bash_completion.d/rhythm; zsh: into a file `_rhythm` of
/// a folder of $fpath; fish: into ~/.config/fish/completions/rhythm.fish.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write a manual page for each command.
///
/// Such as: rhythm man /usr/local/share/man/man1, then: man rhythm-serve
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder; it is made where it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &Completions, mut command: clap::Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "rhythm", &mut text);
    output::print(String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &Man, command: clap::Command) -> Result<ExitCode> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make {folder}"))?;
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("cannot write manual pages to {folder}"))?;
    Ok(ExitCode::SUCCESS)
}
