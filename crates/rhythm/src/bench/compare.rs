//! `rhythm bench compare`: servers that give the same pages, beside each other.

use crate::exits::wrong;
use crate::machine;
use crate::output::{complain, print, print_line};
use crate::progress;
use crate::reproduce::{origin, watch_signals};
use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use rhythm_bench::compare::{self, Case, CompareOptions};
use rhythm_engine::settings::duration;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Compare servers that give the same pages: this one, the limit, nginx, and what sites in Rust are
/// written with.
///
/// A case is data: --list names those that there are, and a file like them (crates/bench/cases) is
/// one, too. Its servers are started on one processor (PostgreSQL, where pages come from it, beside
/// them; who serves behind them on another one, where there are three), and their pages fetched,
/// inflated and compared: where one is another than the first server's nothing is measured. Then
/// they are loaded in turn from another processor, every answer compared. A server that is not
/// installed here is told, with what installs it, and left out; crates/bench/peers/install has all
/// of them.
///
/// The report has medians with the least and the most, CPU time an answer, p50 and p99, and says
/// where the load was the limit and what else ran on these processors. It is printed, and, after
/// each point, written as compare.md, compare.json and a chart a case (SVG). What goes wrong with a
/// case is in it, and the others are measured. Exits with 1 then, and if any answer was wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Cases: names, or files that end in .toml
    #[arg(value_name = "CASE", required_unless_present = "list")]
    cases: Vec<String>,

    /// List the cases that there are
    #[arg(long, exclusive = true)]
    list: bool,

    /// The folder for report and charts
    #[arg(long, value_name = "DIR", default_value = "compared")]
    out: PathBuf,

    /// Runs of each server, alternating
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = super::from_one())]
    rounds: usize,

    /// How long each run is measured
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration::parse)]
    duration: Duration,

    /// How long each server is loaded before each run
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse)]
    warmup: Duration,

    /// Requests under way at a time, in place of the case's numbers: 1,64
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    connections: Vec<usize>,

    /// Compare this server alone with the first of the case; again for another
    #[arg(long = "only", value_name = "SERVER")]
    only: Vec<String>,

    /// The repository, whose services are served
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,

    /// The folder of the programs of crates/bench/peers [default: target/release there, or, where
    /// CARGO_TARGET_DIR is set, release in that]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        for (name, about) in compare::cases()? {
            print_line(format_args!("{name:22} {about}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.duration.is_zero() {
        bail!(wrong(
            "--duration 0s measures nothing: give each run a time, such as 3s"
        ));
    }
    let cases = args.cases.iter().map(|name| Case::read(name));
    let cases: Vec<Case> = cases.collect::<Result<_, _>>()?;
    let program = env::current_exe().context("cannot find the rhythm program")?;
    let root = args.root.canonicalize();
    let root = root.with_context(|| format!("--root {}", args.root.display()))?;
    let built = || match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder).join("release"),
        None => root.join("crates/bench/peers/target/release"),
    };
    let options = CompareOptions {
        machine: machine::describe(),
        commit: origin::commit(&program),
        command: origin::command(),
        peers: args.peers.unwrap_or_else(built),
        program,
        root,
        rounds: args.rounds,
        duration: args.duration,
        warmup: args.warmup,
        connections: args.connections,
        only: args.only,
    };
    let _watch = watch_signals()?;
    let report = compare::run(&options, &cases, &args.out, &mut progress::by_points())?;
    // Printed first: it is there, whatever becomes of the folder.
    print(compare::markdown(&report))?;
    compare::write(&report, &args.out)?;
    complain(format_args!(
        "rhythm: report and charts are in {}",
        args.out.display()
    ));
    match report.passed() {
        true => Ok(ExitCode::SUCCESS),
        false => bail!(
            "not all was measured, or answers were wrong or did not come: the report says what, \
             and of whom"
        ),
    }
}
