//! `rhythm reproduce all`.

use super::{kv, origin, rhythm, rpo, venice};
use crate::machine;
use crate::output::{NoReader, complain, print_line};
use anyhow::{Context, Result};
use clap::Parser;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// All four papers, one after the other, each into a folder of its own.
///
/// Runs `rhythm reproduce` with rhythm, kv, rpo and venice, with their defaults, into folders of
/// these names, and writes report.md, which links what they wrote. Where one fails the others are
/// made all the same. Takes more than an hour, with --quick some ten minutes. Exits with 1 if any
/// failed.
#[derive(Debug, clap::Parser)]
pub(super) struct All {
    /// The folder for the folders
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,

    /// A first look at each
    #[arg(long)]
    quick: bool,

    /// A GPU's report, for the server's own paper; again for another card
    #[arg(long = "device-report", value_name = "FILE")]
    device_reports: Vec<PathBuf>,
}

/// A paper: the folder, its title, and the table that is written.
const PAPERS: [(&str, &str, &str); 4] = [
    (
        "rhythm",
        "Rhythm: Harnessing Data Parallel Hardware for Server Workloads",
        "report.md",
    ),
    (
        "kv",
        "Specialized Microservers for the Data Center",
        "kv.md",
    ),
    (
        "rpo",
        "RPO: Runtime Web Server Optimization Under Simultaneous Multithreading",
        "rpo.md",
    ),
    (
        "venice",
        "Venice: Exploring Server Architectures for Effective Resource Sharing",
        "venice.md",
    ),
];

pub(super) fn run(all: &All) -> Result<ExitCode> {
    let program = env::current_exe().context("cannot find the rhythm program")?;
    let cannot = || format!("cannot write into {}", all.out.display());
    fs::create_dir_all(&all.out).with_context(cannot)?;
    let mut text = String::from("# Papers, made again\n\n");
    // Writing to a text cannot fail.
    let _ = writeln!(text, "- Machine: {}", machine::describe());
    let _ = writeln!(text, "- Commit: {}", origin::commit(&program));
    let _ = writeln!(text, "- Command: `{}`\n", origin::command());
    text.push_str("| paper | what came of it |\n|---|---|\n");
    let mut failed = 0;
    for (name, title, table) in PAPERS {
        complain(format_args!("rhythm: reproduce {name}"));
        let link = format!("[{title}]({name}/{table})");
        let (paper, came) = match paper(all, name) {
            Ok(ExitCode::SUCCESS) => (link, "made".to_owned()),
            Ok(_) => (link, "not all is right: see there".to_owned()),
            Err(error) if error.is::<NoReader>() => return Err(error),
            // What is in its folder is of another run, if anything.
            Err(error) => {
                let why = format!("failed: {error:#}").replace(['\n', '|'], " ");
                (title.to_owned(), why)
            }
        };
        if came != "made" {
            failed += 1;
            complain(format_args!("rhythm: reproduce {name}: {came}"));
        }
        let _ = writeln!(text, "| {paper} | {came} |");
    }
    let report = all.out.join("report.md");
    fs::write(&report, text).with_context(cannot)?;
    print_line(report.display())?;
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn paper(all: &All, name: &str) -> Result<ExitCode> {
    let out = all.out.join(name);
    match name {
        "rhythm" => rhythm::run(typed(all, &out, &all.device_reports)?),
        "kv" => kv::run(typed(all, &out, &[])?),
        "rpo" => rpo::run(typed(all, &out, &[])?),
        _ => venice::run(typed(all, &out, &[])?),
    }
}

/// A paper's options, as if they had been typed.
fn typed<Options: Parser>(all: &All, out: &Path, device_reports: &[PathBuf]) -> Result<Options> {
    let mut words: Vec<OsString> = vec!["reproduce".into(), "--out".into(), out.into()];
    if all.quick {
        words.push("--quick".into());
    }
    for report in device_reports {
        words.extend(["--device-report".into(), report.into()]);
    }
    Ok(Options::try_parse_from(words)?)
}
