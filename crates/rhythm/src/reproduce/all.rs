//! `rhythm reproduce all`.

use super::{kv, origin, rhythm, rpo, venice};
use crate::machine;
use crate::output::{NoReader, complain, print_line};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use rhythm_bench::reproduce::Verdicts;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// All four papers, one after the other, each into a folder of its own.
///
/// Runs `rhythm reproduce` with rhythm, kv, rpo and venice, with their defaults, into folders of
/// these names, and writes report.md, which links what they wrote. Where one fails the others are
/// made all the same. Takes more than an hour, with --quick a quarter of one. Exits with 1 if any
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

    /// The folder of another run: of each paper, verdicts that are others than there are printed,
    /// and how many were decided in both and turned round
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
}

impl All {
    /// The other run's report of a paper, by the table that is written beside it, if it made one.
    fn earlier(&self, name: &str, table: &str) -> Option<PathBuf> {
        let folder = self.against.as_ref()?.join(name);
        Some(folder.join(table).with_extension("json")).filter(|report| report.exists())
    }

    /// Reads the other run's reports before the work begins: it may lack some, and not all.
    fn look_at_earlier(&self) -> Result<()> {
        let Some(folder) = &self.against else {
            return Ok(());
        };
        let mut there = 0;
        for (name, _, table) in PAPERS {
            match self.earlier(name, table) {
                Some(report) => {
                    Verdicts::read(&report)?;
                    there += 1;
                }
                None => complain(format_args!(
                    "rhythm: {} has no report of {name} to compare with",
                    folder.display()
                )),
            }
        }
        ensure!(
            there > 0,
            "--against {}: there is no report in it; `rhythm reproduce all` writes such a folder",
            folder.display()
        );
        Ok(())
    }
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
    all.look_at_earlier()?;
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
        let (paper, came) = match paper(all, name, table) {
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

fn paper(all: &All, name: &str, table: &str) -> Result<ExitCode> {
    let folders = (all.out.join(name), all.earlier(name, table));
    match name {
        "rhythm" => rhythm::run(typed(all, folders, &all.device_reports)?),
        "kv" => kv::run(typed(all, folders, &[])?),
        "rpo" => rpo::run(typed(all, folders, &[])?),
        _ => venice::run(typed(all, folders, &[])?),
    }
}

/// A paper's options, as if they had been typed.
fn typed<Options: Parser>(
    all: &All,
    (out, earlier): (PathBuf, Option<PathBuf>),
    device_reports: &[PathBuf],
) -> Result<Options> {
    let mut words: Vec<OsString> = vec!["reproduce".into(), "--out".into(), out.into()];
    if all.quick {
        words.push("--quick".into());
    }
    if let Some(earlier) = earlier {
        words.extend(["--against".into(), earlier.into()]);
    }
    for report in device_reports {
        words.extend(["--device-report".into(), report.into()]);
    }
    Ok(Options::try_parse_from(words)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_run_that_is_not_there_is_told_of_before_the_work_begins() {
        let folder = env::temp_dir().join(format!("rhythm-all-{}", std::process::id()));
        let words = ["all", "--out", "out", "--against", "other"];
        let mut all = All::try_parse_from(words).expect("a command line");
        all.out = folder.join("out");
        all.against = Some(folder.join("other"));
        let error = run(&all).expect_err("there is none");
        assert!(
            format!("{error:#}").contains("no report in it"),
            "{error:#}"
        );
        assert!(!folder.exists());
        // One is enough, and one that cannot be read is not.
        let report = folder.join("other/venice/venice.json");
        fs::create_dir_all(report.parent().expect("a folder")).expect("it is made");
        fs::write(&report, r#"{"verdicts": []}"#).expect("it is written");
        assert_eq!(all.earlier("venice", "venice.md"), Some(report.clone()));
        assert_eq!(all.earlier("kv", "kv.md"), None);
        all.look_at_earlier().expect("there is one");
        fs::write(&report, "{").expect("it is written");
        assert!(all.look_at_earlier().is_err());
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
