//! `rhythm bench program`: one of the programs whose memory `rhythm reproduce venice` has
//! elsewhere.

use crate::output::print_line;
use anyhow::Result;
use rhythm_bench::programs::{self, Program, SCALE_MAX};
use std::process::ExitCode;

/// Run a small program that uses much memory, and tell how long its work took and what it found.
///
/// `pagerank`, `components` (connected ones) and `search` (Graph500's) have an R-MAT graph, `grep`
/// a text; all made from a seed. It prints a line of JSON: seconds, a number that is the same
/// wherever the same was found, and the bytes that the data have in memory.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which
    #[arg(value_name = "PROGRAM", value_parser = named)]
    program: Program,

    /// 2^N vertices with 14 edges each, or 2^N times 64 bytes of text
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(SCALE_MAX)))]
    scale: u32,
}

fn named(name: &str) -> Result<Program, String> {
    Program::named(name).ok_or_else(|| {
        let names = Program::ALL.map(Program::name);
        format!("the programs are {}", names.join(", "))
    })
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let outcome = programs::run(args.program, args.scale)?;
    print_line(serde_json::to_string(&outcome)?)?;
    Ok(ExitCode::SUCCESS)
}
