//! `rhythm completions` and `rhythm man`: what shells and man(1) know of the command line, made
//! from its one definition.

use crate::{exits, output};
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};
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
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, &args.folder)
        .with_context(|| format!("cannot write manual pages to {folder}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of those below it.
fn pages(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        pages(below, folder)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let mut text = with_usage(&String::from_utf8_lossy(&text), &usage(command));
    text.push_str(&exits::of_manual(
        command.get_bin_name().unwrap_or_default(),
    ));
    std::fs::write(folder.join(page.get_filename()), text)
}

/// How a command is called, as its help says it: with the values of options, and what may be said
/// several times.
fn usage(command: &clap::Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    let lines: Vec<String> = lines
        .map(|line| line.replace('\\', "\\e").replace('-', "\\-"))
        .collect();
    lines.join("\n.br\n")
}

/// A page whose synopsis is this.
fn with_usage(page: &str, usage: &str) -> String {
    const SYNOPSIS: &str = ".SH SYNOPSIS\n";
    let parts = page.split_once(SYNOPSIS);
    match parts.and_then(|(before, rest)| Some((before, rest.split_once("\n.SH ")?.1))) {
        Some((before, behind)) => format!("{before}{SYNOPSIS}{usage}\n.SH {behind}"),
        None => page.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn a_page_says_how_a_command_is_called() {
        let size = Arg::new("size").long("size").value_name("BYTES");
        let folders = Arg::new("folders").value_name("DIR").num_args(1..);
        let below = Command::new("do").args([size.required(true), folders.required(true)]);
        let mut command = Command::new("tool").subcommand(below);
        command.build();
        let below = command.find_subcommand("do").expect("it is there");
        let usage = usage(below);
        assert_eq!(usage, "tool do \\-\\-size <BYTES> <DIR>...");
        let page = with_usage("a\n.SH SYNOPSIS\nb\nc\n.SH DESCRIPTION\nd\n", &usage);
        let told = format!("a\n.SH SYNOPSIS\n{usage}\n.SH DESCRIPTION\nd\n");
        assert_eq!(page, told);
    }
}
