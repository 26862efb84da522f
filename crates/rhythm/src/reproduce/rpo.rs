//! `rhythm reproduce rpo`.

use super::against::{Against, print_changes};
use super::origin;
use crate::machine;
use crate::output::{complain, print_line};
use crate::progress;
use anyhow::{Context, Result};
use rhythm_bench::reproduce::{MeasuredEffort, MeasuredOptions, RpoOptions, run_measured, run_rpo};
use rhythm_rpo::model::Params;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs of each case, and those of --quick.
const SEEDS: (usize, usize) = (30, 3);

/// The tables of "RPO: Runtime Web Server Optimization Under Simultaneous Multithreading": all
/// hardware threads or one a core, by the requests.
///
/// Simulates a model of the paper's server under its workloads: all threads (HT), one a core
/// (NOHT), the paper's rule (RPO), what is learned, and an oracle that sees into the server. Each
/// of the paper's figures is beside ours, which are marked: simulated, with 95 % confidence
/// intervals, or modeled. The same on any machine.
///
/// Writes rpo.md (tables), rpo.json and the charts (SVG) into a folder.
///
/// With --measured, loads a real server on this machine instead: TPC-W in PHP on Apache with
/// PostgreSQL, all CPUs, fewer, the paper's rule and what is learned in turn, and writes the
/// tables that can be measured (rpo-measured.md, rpo-measured.json). Without simultaneous
/// multithreading half of the CPUs stand for one thread a core, and it says so. Takes more than an
/// hour, with --quick some minutes. Exits with 1 if a page was wrong.
#[derive(Debug, clap::Parser)]
pub(super) struct Rpo {
    /// The folder for charts and tables
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,

    /// Few runs of each case, for a first look: wide intervals
    #[arg(long)]
    quick: bool,

    /// Runs of each case, each with a seed of its own [default: 30, 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,

    /// Another server and other mixes: a file like crates/rpo/params/paper.toml [default: the
    /// paper's]
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,

    #[command(flatten)]
    against: Against,

    /// Measure with a real server, on this machine
    #[arg(long, conflicts_with_all = ["seeds", "params", "against"])]
    measured: bool,

    /// With --measured: the repository, which has the bookstore in PHP
    #[arg(long, value_name = "DIR", default_value = ".", requires = "measured")]
    root: PathBuf,
}

pub(super) fn run(args: Rpo) -> Result<ExitCode> {
    let program = env::current_exe().context("cannot find the rhythm program")?;
    if args.measured {
        return measured(args, &program);
    }
    let earlier = args.against.read()?;
    let (params, params_name) = match &args.params {
        None => (Params::paper()?, "the paper's".to_owned()),
        Some(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
            (Params::parse(&text).with_context(|| name.clone())?, name)
        }
    };
    let seeds = if args.quick { SEEDS.1 } else { SEEDS.0 };
    let options = RpoOptions {
        params,
        params_name,
        seeds: args.seeds.map_or(seeds, |seeds| seeds as usize),
        out: args.out,
        commit: origin::commit(&program),
        command: origin::command(),
    };
    let verdicts = run_rpo(&options, &mut progress::by_runs())?;
    print_line(options.out.join("rpo.md").display())?;
    print_changes(&verdicts, earlier.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

fn measured(args: Rpo, program: &Path) -> Result<ExitCode> {
    let root = args.root.canonicalize();
    let options = MeasuredOptions {
        program: program.to_owned(),
        root: root.with_context(|| format!("--root {}", args.root.display()))?,
        effort: match args.quick {
            true => MeasuredEffort::QUICK,
            false => MeasuredEffort::FULL,
        },
        out: args.out,
        machine: machine::describe(),
        commit: origin::commit(program),
        command: origin::command(),
    };
    let report = run_measured(&options, &mut progress::by_points())?;
    for failed in &report.failed {
        complain(format_args!("rhythm: not right: {failed}"));
    }
    print_line(options.out.join("rpo-measured.md").display())?;
    Ok(match report.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
