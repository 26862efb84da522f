//! `rhythm reproduce venice`.

use super::against::{Against, print_changes};
use super::origin;
use crate::machine;
use crate::output::{complain, print_line};
use crate::progress;
use anyhow::{Context, Result};
use rhythm_bench::reproduce::{Figure, VeniceEffort, VeniceOptions, run_venice};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

/// The evaluation of "Venice: Exploring Server Architectures for Effective Resource Sharing":
/// memory, accelerators and NICs of other machines, which are processes of this one here.
///
/// Runs redis-server, BerkeleyDB (perl's DB_File), PageRank, connected components, Graph500's
/// search and grep with all of their memory here and with most of it at a donor (`rhythm venice
/// run`), in turn, and compares what they find; redis in front of PostgreSQL; packets by NICs of
/// donors, which are network namespaces; accelerators, channels and credits by `rhythm venice
/// bench`. The paper's figures are beside ours, which are measured. Memory and NICs of others need
/// root. What this machine lacks for a figure is said, and the others are made.
///
/// Writes venice.md, venice.json and the charts (SVG) into a folder. Takes most of an hour, with
/// --quick some ten minutes. Exits with 1 if a figure failed, such as by a result that is another
/// with remote memory.
#[derive(Debug, clap::Parser)]
pub(super) struct Venice {
    /// The folder for charts and tables
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,

    /// Small data and few turns, for a first look
    #[arg(long)]
    quick: bool,

    /// Make this figure alone, by its number in the paper (3, 5, 6, 14, 15, 16, 17, 18); may be
    /// given several times
    #[arg(long, value_name = "FIGURE")]
    only: Vec<Figure>,

    /// How often programs are run each way, redis is asked and packets are sent (Figures 3, 14, 15,
    /// 16b); fewer would not say how far turns differ [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    rounds: Option<u32>,

    #[command(flatten)]
    against: Against,

    /// The redis-server to run
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    redis: PathBuf,

    /// The perl whose DB_File is BerkeleyDB
    #[arg(long, value_name = "PROGRAM", default_value = "perl")]
    perl: PathBuf,
}

pub(super) fn run(args: Venice) -> Result<ExitCode> {
    let earlier = args.against.read()?;
    let program = env::current_exe().context("cannot find the rhythm program")?;
    let mut effort = match args.quick {
        true => VeniceEffort::QUICK,
        false => VeniceEffort::FULL,
    };
    if let Some(rounds) = args.rounds {
        effort.rounds = rounds as usize;
    }
    let options = VeniceOptions {
        commit: origin::commit(&program),
        program,
        out: args.out,
        figures: match args.only.is_empty() {
            true => Figure::ALL.into(),
            false => args.only,
        },
        effort,
        redis: args.redis,
        perl: args.perl,
        machine: machine::describe(),
        command: origin::command(),
    };
    let report = run_venice(&options, &mut progress::by_points())?;
    for lacking in &report.lacking {
        complain(format_args!("rhythm: left out: {lacking}"));
    }
    for failed in &report.failed {
        complain(format_args!("rhythm: failed: {failed}"));
    }
    print_line(options.out.join("venice.md").display())?;
    print_changes(&report.verdicts, earlier.as_ref())?;
    Ok(match report.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn figures_are_those_that_there_are() {
        let parse = |more: &[&str]| Venice::try_parse_from([&["venice"], more].concat());
        let some = parse(&["--quick", "--only", "15", "--only", "17"]).expect("both are made");
        assert_eq!(some.only, [Figure::Fifteen, Figure::Seventeen]);
        let error = parse(&["--only", "13"]).expect_err("it is not made");
        assert!(error.to_string().contains("3, 5, 6, 14"), "{error}");
        assert!(parse(&["--rounds", "2"]).is_err());
    }
}
